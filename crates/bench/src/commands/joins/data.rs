//! The tables of `perigee-bench joins`: a shop whose keys are skewed and whose columns depend on each other.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use perigee_testkit::Rng;

use perigee_workload::WorkloadError;

/// A table: how it is made, how many rows it has at scale 1, and a row of it without its id.
pub struct Table {
    pub name: &'static str,
    pub columns: &'static str,
    rows: i64,
    /// As many at any scale.
    fixed: bool,
    row: fn(&Sizes, &mut Rng, i64) -> String,
}

/// Rows of the tables that others refer to.
pub struct Sizes {
    customers: i64,
    products: i64,
    suppliers: i64,
    orders: i64,
}

impl Sizes {
    fn of(scale: f64) -> Self {
        let of = |name: &str| {
            let mut tables = TABLES.iter().filter(|table| table.name == name);
            tables.next().map_or(1, |table| table.rows(scale))
        };
        Self {
            customers: of("customer"),
            products: of("product"),
            suppliers: of("supplier"),
            orders: of("orders"),
        }
    }
}

impl Table {
    fn rows(&self, scale: f64) -> i64 {
        match self.fixed {
            true => self.rows,
            false => ((self.rows as f64 * scale) as i64).max(10),
        }
    }

    /// The statement that makes it.
    pub fn create(&self) -> String {
        format!(
            "CREATE TABLE {} (id INT NOT NULL PRIMARY KEY, {})",
            self.name, self.columns
        )
    }

    /// Writes its rows to a file of the directory, which is named after it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, dir: &Path, scale: f64) -> Result<(), WorkloadError> {
        let sizes = Sizes::of(scale);
        let mut rng = Rng(0x9e37_79b9 ^ self.name.len() as u64);
        let mut text = String::new();
        for id in 0..self.rows(scale) {
            let _ = writeln!(text, "{id}|{}|", (self.row)(&sizes, &mut rng, id));
        }
        let path = perigee_workload::load::file(dir, self.name);
        fs::write(&path, text).map_err(WorkloadError::io(format!("write {}", path.display())))
    }
}

/// A number below `n`, of which the first ones are frequent: each tenth of the logarithm's range is as likely.
fn skewed(rng: &mut Rng, n: i64) -> i64 {
    let share = rng.between(0, 1_000_000) as f64 / 1e6;
    (((n as f64 + 1.0).powf(share) - 1.0) as i64).clamp(0, n - 1)
}

fn even(rng: &mut Rng, n: i64) -> i64 {
    rng.between(0, n - 1)
}

/// Makes a key that is skewed one whose frequent values lie anywhere.
fn shuffled(key: i64, n: i64) -> i64 {
    // A prime that is greater than any table is large.
    (key * 1_000_003 + 17).rem_euclid(n)
}

/// All tables, those that others refer to first.
pub static TABLES: &[Table] = &[
    Table {
        name: "country",
        columns: "region INT NOT NULL, name VARCHAR(20) NOT NULL, KEY by_region (region)",
        rows: 50,
        fixed: true,
        row: |_, _, id| format!("{}|country {id}", id % 5),
    },
    Table {
        name: "city",
        columns: "country INT NOT NULL, name VARCHAR(20) NOT NULL, size INT NOT NULL, KEY by_country (country)",
        rows: 2000,
        fixed: true,
        row: |_, rng, id| {
            let country = skewed(rng, 50);
            // Large cities are in the first countries.
            format!("{country}|city {id}|{}", 100 - country + even(rng, 10))
        },
    },
    Table {
        name: "category",
        columns: "parent INT NOT NULL, name VARCHAR(20) NOT NULL, KEY by_parent (parent)",
        rows: 200,
        fixed: true,
        row: |_, _, id| format!("{}|category {id}", id / 20),
    },
    Table {
        name: "supplier",
        columns: "city INT NOT NULL, name VARCHAR(20) NOT NULL, grade INT NOT NULL, KEY by_city (city)",
        rows: 1000,
        fixed: false,
        row: |_, rng, id| format!("{}|supplier {id}|{}", skewed(rng, 2000), even(rng, 5)),
    },
    Table {
        name: "customer",
        columns: "city INT NOT NULL, country INT NOT NULL, segment INT NOT NULL, note VARCHAR(60) NOT NULL,
            KEY by_city (city), KEY by_segment (segment)",
        rows: 30_000,
        fixed: false,
        row: |_, rng, id| {
            let city = skewed(rng, 2000);
            let word = if id % 9 == 0 { "prefers mail" } else { "calls" };
            // The segment follows from the city, nearly.
            let segment = (city % 8 + even(rng, 20) / 19) % 8;
            format!("{city}|{}|{segment}|customer {id} {word}", city % 50)
        },
    },
    Table {
        name: "product",
        columns: "category INT NOT NULL, supplier INT NOT NULL, brand INT NOT NULL, price INT NOT NULL,
            name VARCHAR(60) NOT NULL, KEY by_category (category), KEY by_supplier (supplier), KEY by_brand (brand)",
        rows: 10_000,
        fixed: false,
        row: |sizes, rng, id| {
            let category = skewed(rng, 200);
            // A brand has one category; the price depends on it.
            let brand = category * 5 + even(rng, 5);
            let price = 10 + category * 10 + even(rng, 50);
            let colour = ["red", "green", "blue"][(brand % 3) as usize];
            let supplier = skewed(rng, sizes.suppliers);
            format!("{category}|{supplier}|{brand}|{price}|{colour} thing {id}")
        },
    },
    Table {
        name: "campaign",
        columns: "category INT NOT NULL, budget INT NOT NULL, KEY by_category (category)",
        rows: 300,
        fixed: true,
        row: |_, rng, _| format!("{}|{}", skewed(rng, 200), even(rng, 1000)),
    },
    Table {
        name: "orders",
        columns: "customer INT NOT NULL, day INT NOT NULL, status INT NOT NULL, channel INT NOT NULL,
            KEY by_customer (customer), KEY by_day (day)",
        rows: 60_000,
        fixed: false,
        row: |sizes, rng, id| {
            let customer = shuffled(skewed(rng, sizes.customers), sizes.customers);
            // Orders come by day; what is old is done.
            let day = id * 1000 / sizes.orders.max(1);
            let status = i64::from(day > 950) + i64::from(day > 985);
            format!("{customer}|{day}|{status}|{}", skewed(rng, 10))
        },
    },
    Table {
        name: "line",
        columns: "orders INT NOT NULL, product INT NOT NULL, quantity INT NOT NULL, day INT NOT NULL,
            KEY by_orders (orders), KEY by_product (product)",
        rows: 200_000,
        fixed: false,
        row: |sizes, rng, _| {
            let orders = even(rng, sizes.orders);
            let product = skewed(rng, sizes.products);
            let day = orders * 1000 / sizes.orders.max(1) + even(rng, 5);
            format!("{orders}|{product}|{}|{day}", 1 + skewed(rng, 50))
        },
    },
    Table {
        name: "review",
        columns: "product INT NOT NULL, customer INT NOT NULL, stars INT NOT NULL,
            KEY by_product (product), KEY by_customer (customer)",
        rows: 40_000,
        fixed: false,
        row: |sizes, rng, _| {
            let customer = shuffled(skewed(rng, sizes.customers), sizes.customers);
            let stars = 1 + skewed(rng, 5);
            format!("{}|{customer}|{stars}", skewed(rng, sizes.products))
        },
    },
    Table {
        name: "visit",
        columns: "customer INT NOT NULL, campaign INT NOT NULL, day INT NOT NULL,
            KEY by_customer (customer), KEY by_campaign (campaign)",
        rows: 60_000,
        fixed: false,
        row: |sizes, rng, _| {
            let customer = shuffled(skewed(rng, sizes.customers), sizes.customers);
            format!("{customer}|{}|{}", skewed(rng, 300), even(rng, 1000))
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_numbers_are_all_there_and_the_first_are_frequent() {
        let mut rng = Rng(1);
        let mut counts = vec![0; 100];
        for _ in 0..100_000 {
            counts[skewed(&mut rng, 100) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0));
        assert!(counts[0] > 10 * counts[50], "{counts:?}");
    }

    #[test]
    fn rows_have_as_many_values_as_columns() {
        let sizes = Sizes::of(0.01);
        for table in TABLES {
            let columns = table.columns.split(", ").flat_map(|part| part.split(",\n"));
            let columns = columns.filter(|part| !part.trim().starts_with("KEY"));
            let row = (table.row)(&sizes, &mut Rng(7), 5);
            assert_eq!(row.split('|').count(), columns.count(), "{}", table.name);
        }
    }
}
