//! The queries of `perigee-bench joins`, and the orders in which their tables can be written.

use perigee_testkit::Rng;

/// A join of four to ten tables.
pub struct Query {
    /// Tables with their aliases, as one might write them.
    pub tables: &'static [&'static str],
    /// What connects them: pairs of `alias.column`.
    pub on: &'static [(&'static str, &'static str)],
    pub conditions: &'static str,
}

const LINE_ORDERS: (&str, &str) = ("l.orders", "o.id");
const LINE_PRODUCT: (&str, &str) = ("l.product", "p.id");
const ORDERS_CUSTOMER: (&str, &str) = ("o.customer", "c.id");
const CUSTOMER_CITY: (&str, &str) = ("c.city", "t.id");
const CITY_COUNTRY: (&str, &str) = ("t.country", "n.id");
const PRODUCT_CATEGORY: (&str, &str) = ("p.category", "k.id");
const PRODUCT_SUPPLIER: (&str, &str) = ("p.supplier", "s.id");
const REVIEW_PRODUCT: (&str, &str) = ("r.product", "p.id");
const REVIEW_CUSTOMER: (&str, &str) = ("r.customer", "c.id");
const VISIT_CUSTOMER: (&str, &str) = ("v.customer", "c.id");
const VISIT_CAMPAIGN: (&str, &str) = ("v.campaign", "g.id");
const CAMPAIGN_CATEGORY: (&str, &str) = ("g.category", "k.id");
const SUPPLIER_CITY: (&str, &str) = ("s.city", "u.id");

/// Lines with their orders, customers and cities.
const SALES: &[&str] = &["line l", "orders o", "customer c", "city t"];
const SALES_ON: &[(&str, &str)] = &[LINE_ORDERS, ORDERS_CUSTOMER, CUSTOMER_CITY];

/// And with their products.
const GOODS: &[&str] = &[
    "line l",
    "orders o",
    "customer c",
    "product p",
    "category k",
];
const GOODS_ON: &[(&str, &str)] = &[LINE_ORDERS, ORDERS_CUSTOMER, LINE_PRODUCT, PRODUCT_CATEGORY];

/// And from where they and their customers are.
const WORLD: &[&str] = &[
    "line l",
    "orders o",
    "customer c",
    "city t",
    "country n",
    "product p",
    "category k",
    "supplier s",
    "city u",
];
const WORLD_ON: &[(&str, &str)] = &[
    LINE_ORDERS,
    ORDERS_CUSTOMER,
    CUSTOMER_CITY,
    CITY_COUNTRY,
    LINE_PRODUCT,
    PRODUCT_CATEGORY,
    PRODUCT_SUPPLIER,
    SUPPLIER_CITY,
];

/// Reviews.
const OPINIONS: &[&str] = &["review r", "product p", "customer c", "category k"];
const OPINIONS_ON: &[(&str, &str)] = &[REVIEW_PRODUCT, REVIEW_CUSTOMER, PRODUCT_CATEGORY];

/// Visits of customers who order.
const VISITS: &[&str] = &["visit v", "campaign g", "customer c", "orders o"];
const VISITS_ON: &[(&str, &str)] = &[VISIT_CAMPAIGN, VISIT_CUSTOMER, ORDERS_CUSTOMER];

/// Visits, reviews and orders of a customer: frequent values meet.
const ALL_OF_CUSTOMER: &[&str] = &[
    "visit v",
    "review r",
    "orders o",
    "customer c",
    "campaign g",
];
const ALL_OF_CUSTOMER_ON: &[(&str, &str)] = &[
    VISIT_CUSTOMER,
    REVIEW_CUSTOMER,
    ORDERS_CUSTOMER,
    VISIT_CAMPAIGN,
];

/// A circle of visits, campaigns, categories, products, lines, orders and customers.
const CIRCLE: &[&str] = &[
    "visit v",
    "campaign g",
    "category k",
    "product p",
    "line l",
    "orders o",
    "customer c",
];
const CIRCLE_ON: &[(&str, &str)] = &[
    VISIT_CAMPAIGN,
    CAMPAIGN_CATEGORY,
    PRODUCT_CATEGORY,
    LINE_PRODUCT,
    LINE_ORDERS,
    ORDERS_CUSTOMER,
    VISIT_CUSTOMER,
];

/// All that hangs together.
const EVERYTHING: &[&str] = &[
    "line l",
    "orders o",
    "customer c",
    "city t",
    "country n",
    "product p",
    "category k",
    "supplier s",
    "city u",
    "review r",
];
const EVERYTHING_ON: &[(&str, &str)] = &[
    LINE_ORDERS,
    ORDERS_CUSTOMER,
    CUSTOMER_CITY,
    CITY_COUNTRY,
    LINE_PRODUCT,
    PRODUCT_CATEGORY,
    PRODUCT_SUPPLIER,
    SUPPLIER_CITY,
    REVIEW_PRODUCT,
];

const fn query(
    tables: &'static [&'static str],
    on: &'static [(&'static str, &'static str)],
    conditions: &'static str,
) -> Query {
    Query {
        tables,
        on,
        conditions,
    }
}

/// All queries.
pub static QUERIES: &[Query] = &[
    query(SALES, SALES_ON, "t.name = 'city 7'"),
    query(SALES, SALES_ON, "t.name = 'city 1900'"),
    query(SALES, SALES_ON, "c.note LIKE '%mail%' AND o.day > 990"),
    query(SALES, SALES_ON, "o.day BETWEEN 10 AND 12 AND t.country = 3"),
    query(
        SALES,
        SALES_ON,
        "c.segment = 3 AND t.id < 40 AND l.quantity > 45",
    ),
    query(SALES, SALES_ON, "o.status = 2 AND o.day > 985"),
    query(GOODS, GOODS_ON, "k.name = 'category 0' AND o.channel = 9"),
    query(GOODS, GOODS_ON, "k.name = 'category 190'"),
    query(GOODS, GOODS_ON, "p.name LIKE '%red%' AND p.brand = 900"),
    query(GOODS, GOODS_ON, "k.parent = 9 AND o.day < 20"),
    query(
        GOODS,
        GOODS_ON,
        "p.price < 30 AND k.id = 1 AND c.id = 12345",
    ),
    query(GOODS, GOODS_ON, "o.day = 500 AND p.id = 0"),
    query(GOODS, GOODS_ON, "o.day = 500 AND p.id > 9000"),
    query(GOODS, GOODS_ON, "l.day - o.day > 3 AND k.parent = 8"),
    query(WORLD, WORLD_ON, "n.name = 'country 1' AND k.parent = 9"),
    query(WORLD, WORLD_ON, "n.id = 40 AND u.country = 0"),
    query(WORLD, WORLD_ON, "s.name = 'supplier 3' AND o.day > 900"),
    query(WORLD, WORLD_ON, "s.name = 'supplier 900'"),
    query(WORLD, WORLD_ON, "u.name = 'city 0' AND t.name = 'city 0'"),
    query(
        WORLD,
        WORLD_ON,
        "n.region = 2 AND s.grade = 4 AND l.quantity = 1 AND o.day = 77",
    ),
    query(
        OPINIONS,
        OPINIONS_ON,
        "k.name = 'category 3' AND c.segment = 2",
    ),
    query(OPINIONS, OPINIONS_ON, "r.stars = 5 AND p.price > 1500"),
    query(
        OPINIONS,
        OPINIONS_ON,
        "c.city = 0 AND p.brand BETWEEN 0 AND 20",
    ),
    query(VISITS, VISITS_ON, "g.budget < 5 AND o.day < 50"),
    query(VISITS, VISITS_ON, "g.id = 290"),
    query(VISITS, VISITS_ON, "c.id < 20 AND v.day = 3"),
    query(VISITS, VISITS_ON, "v.day = o.day AND g.id < 3"),
    query(
        ALL_OF_CUSTOMER,
        ALL_OF_CUSTOMER_ON,
        "c.id = 17 AND r.stars = 5 AND o.day = 17 AND v.day = 5",
    ),
    query(ALL_OF_CUSTOMER, ALL_OF_CUSTOMER_ON, "c.id = 20000"),
    query(
        ALL_OF_CUSTOMER,
        ALL_OF_CUSTOMER_ON,
        "c.city = 1999 AND g.budget > 500",
    ),
    query(
        ALL_OF_CUSTOMER,
        ALL_OF_CUSTOMER_ON,
        "v.day = 100 AND r.stars = 4 AND o.day = 100",
    ),
    query(CIRCLE, CIRCLE_ON, "k.id = 150 AND o.day > 800"),
    query(
        CIRCLE,
        CIRCLE_ON,
        "c.id BETWEEN 1000 AND 1300 AND g.budget < 100 AND l.quantity > 20",
    ),
    query(CIRCLE, CIRCLE_ON, "v.day = 1 AND c.segment = 1"),
    query(
        EVERYTHING,
        EVERYTHING_ON,
        "r.stars = 5 AND n.id = 45 AND k.parent = 9",
    ),
    query(EVERYTHING, EVERYTHING_ON, "s.grade = 3 AND p.id = 4321"),
    query(
        EVERYTHING,
        EVERYTHING_ON,
        "o.day = 300 AND r.stars = 4 AND p.price > 1000",
    ),
];

/// The alias of a table as it is written, or of a column.
fn alias(written: &str) -> &str {
    match written.split_once(' ') {
        Some((_, alias)) => alias,
        None => written.split('.').next().unwrap_or(written),
    }
}

impl Query {
    /// The query with its tables in an order, by their numbers.
    pub fn sql(&self, order: &[usize]) -> String {
        let tables: Vec<_> = order.iter().map(|table| self.tables[*table]).collect();
        let on = self
            .on
            .iter()
            .map(|(one, other)| format!("{one} = {other}"));
        let conditions: Vec<_> = on.chain([self.conditions.to_owned()]).collect();
        let first = alias(self.tables[0]);
        format!(
            "SELECT COUNT(*), SUM({first}.id) FROM {} WHERE {}",
            tables.join(", "),
            conditions.join(" AND ")
        )
    }

    /// The order in which the tables are written.
    pub fn written(&self) -> Vec<usize> {
        (0..self.tables.len()).collect()
    }

    /// Any order in which each table but the first is connected to one before.
    pub fn any_order(&self, rng: &mut Rng) -> Vec<usize> {
        let all = self.written();
        let mut order = vec![*rng.choose(&all)];
        while order.len() < all.len() {
            let next: Vec<_> = all
                .iter()
                .filter(|table| self.is_next(&order, **table))
                .collect();
            order.push(**rng.choose(&next));
        }
        order
    }

    fn is_next(&self, order: &[usize], table: usize) -> bool {
        let of = |table: usize| alias(self.tables[table]);
        let connects = |(one, other): &(&str, &str)| {
            let (one, other) = (alias(one), alias(other));
            let before = |name: &str| order.iter().any(|table| of(*table) == name);
            one == of(table) && before(other) || other == of(table) && before(one)
        };
        !order.contains(&table) && self.on.iter().any(connects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_thirty_of_four_to_ten_tables() {
        assert!(QUERIES.len() >= 30);
        let sizes = QUERIES.iter().map(|query| query.tables.len());
        assert!(sizes.clone().all(|tables| (4..=10).contains(&tables)));
        assert_eq!((sizes.clone().min(), sizes.max()), (Some(4), Some(10)));
    }

    #[test]
    fn orders_are_permutations_and_connected() {
        let mut rng = Rng(3);
        for query in QUERIES {
            for _ in 0..20 {
                let order = query.any_order(&mut rng);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, query.written());
                for at in 1..order.len() {
                    assert!(query.is_next(&order[..at], order[at]), "{order:?}");
                }
            }
        }
    }
}
