//! The order of joins: answers are those of the order that is written, and a bad order is not kept.

use super::join_filters::set;
use super::*;
use perigee_testkit::Rng;

/// A star with a large table in the middle, a chain that hangs on it, and tables of which one or two rows are wanted.
async fn star() -> (Fixture, Session) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE sales (id INT NOT NULL PRIMARY KEY, item INT NOT NULL, shop INT NOT NULL, day INT, amount INT,
            KEY by_item (item));
        CREATE TABLE item (id INT NOT NULL PRIMARY KEY, kind INT NOT NULL, name VARCHAR(20) NOT NULL);
        CREATE TABLE kind (id INT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL);
        CREATE TABLE shop (id INT NOT NULL PRIMARY KEY, town INT NOT NULL, name VARCHAR(20) NOT NULL);
        CREATE TABLE town (id INT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL);
        CREATE TABLE day (id INT NOT NULL PRIMARY KEY, week INT NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let rows = |count: i64, row: &dyn Fn(i64) -> String| -> String {
        (0..count).map(|n| format!("{n}|{}\n", row(n))).collect()
    };
    let tables = [
        (
            "sales",
            rows(8000, &|n| {
                let day = if n % 50 == 0 {
                    "\\N".to_owned()
                } else {
                    (n % 300).to_string()
                };
                format!("{}|{}|{day}|{}", n * 31 % 900, n * 17 % 60, n % 97)
            }),
        ),
        ("item", rows(1000, &|n| format!("{}|item {n}", n % 40))),
        ("kind", rows(40, &|n| format!("kind {n}"))),
        ("shop", rows(70, &|n| format!("{}|shop {n}", n % 12))),
        ("town", rows(12, &|n| format!("town {n}"))),
        ("day", rows(365, &|n| format!("{}", n / 7))),
    ];
    for (table, text) in tables {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        let text = text.into_bytes();
        fixture.run_with(&mut session, &sql, text).await.unwrap();
        let analyze = format!("ANALYZE TABLE {table}");
        fixture.run(&mut session, &analyze).await.unwrap();
    }
    (fixture, session)
}

const QUERIES: &[&str] = &[
    // Dimensions first, which nothing connects.
    "SELECT k.name, t.name, COUNT(*), SUM(s.amount) FROM kind k, town t, day d, item i, shop h, sales s
     WHERE s.item = i.id AND i.kind = k.id AND s.shop = h.id AND h.town = t.id AND s.day = d.id
       AND k.id = 3 AND t.name = 'town 5' AND d.week < 20 GROUP BY k.name, t.name",
    "SELECT COUNT(*), SUM(s.amount) FROM sales s JOIN item i ON s.item = i.id JOIN shop h ON s.shop = h.id
     JOIN town t ON h.town = t.id WHERE t.name = 'town 5' AND i.name LIKE 'item 1%'",
    // Several tables by one name, all columns, a column that two tables have.
    "SELECT * FROM item a JOIN item b ON a.kind = b.kind JOIN kind k ON k.id = b.kind
     WHERE a.id = 7 AND b.id < 100 ORDER BY a.id, b.id",
    "SELECT id, h.name, t.name FROM shop h JOIN town t USING (id) JOIN kind k USING (id) ORDER BY id",
    // Conditions of one, two and three tables that are no equalities, and of none.
    "SELECT COUNT(*) FROM kind k, town t, shop h WHERE h.town = t.id AND k.id < t.id AND k.id + t.id + h.id = 60",
    "SELECT COUNT(*) FROM kind k JOIN town t ON 1 = 1 JOIN shop h ON h.town = t.id AND h.id > k.id WHERE 2 > 1",
    "SELECT COUNT(*) FROM kind k, town t, shop h WHERE k.id = t.id + h.id",
    // A cycle.
    "SELECT COUNT(*) FROM sales s, item i, shop h, day d
     WHERE s.item = i.id AND s.shop = h.id AND s.day = d.id AND h.id = i.kind AND d.week = h.town",
    // Nothing connects them.
    "SELECT COUNT(*), SUM(k.id), SUM(t.id) FROM kind k, town t, shop h WHERE k.id = 2",
    // Outer and semi joins, derived tables, unions and aggregates among them.
    "SELECT COUNT(*), COUNT(d.id) FROM town t, shop h, sales s LEFT JOIN day d ON s.day = d.id AND d.week = 3, item i
     WHERE t.id = h.town AND s.shop = h.id AND i.id = s.item AND t.id < 3",
    "SELECT COUNT(*) FROM sales s, shop h, town t WHERE s.shop = h.id AND h.town = t.id AND s.item IN
     (SELECT i.id FROM item i, kind k, town u WHERE i.kind = k.id AND k.id = u.id AND u.id < 4)",
    "SELECT t.name, x.n FROM town t, shop h, (SELECT s.shop, COUNT(*) n FROM sales s, item i, kind k
     WHERE s.item = i.id AND i.kind = k.id AND k.id = 1 GROUP BY s.shop) x
     WHERE x.shop = h.id AND h.town = t.id ORDER BY 1, 2",
    "SELECT COUNT(*) FROM kind k, (SELECT id, town FROM shop UNION ALL SELECT id, id FROM town) u, town t, item i
     WHERE u.town = t.id AND i.kind = k.id AND k.id = u.id",
    "SELECT COUNT(*) FROM kind k, town t, shop h WHERE NOT EXISTS
     (SELECT 1 FROM sales s WHERE s.shop = h.id AND s.amount > 90) AND h.town = t.id AND k.id = t.id",
    "SELECT (SELECT COUNT(*) FROM item i, kind k, shop h WHERE i.kind = k.id AND h.id = k.id AND h.town = t.id) n
     FROM town t ORDER BY 1",
    // Joins that others can be done before, and conditions on what they give out.
    "SELECT COUNT(*), COUNT(d.id), SUM(s.id) FROM sales s LEFT JOIN day d ON s.day = d.id AND d.week < 9
     JOIN shop h ON s.shop = h.id JOIN town t ON h.town = t.id WHERE t.id = 3 AND (d.id IS NULL OR d.id > t.id)",
    "SELECT h.id, k.id, d.id FROM kind k RIGHT JOIN shop h ON k.id = h.id + 30 JOIN town t ON t.id = h.town
     LEFT JOIN day d ON d.id = k.id + h.id AND d.week <> t.id WHERE k.name <=> NULL OR t.id < 5",
    "SELECT COUNT(*), COUNT(k.id), COUNT(t.id) FROM item i LEFT JOIN kind k ON k.id = i.kind + 20
     LEFT JOIN town t ON t.id = k.id - 25 JOIN shop h ON h.id = i.kind WHERE h.town IN (2, 3)",
    "SELECT COUNT(*), SUM(i.id) FROM item i, kind k, shop h WHERE i.kind = k.id AND h.id = k.id AND EXISTS
     (SELECT 1 FROM town t WHERE t.id = h.town AND t.id <> k.id) AND i.id NOT IN (SELECT day FROM sales WHERE id < 40)",
    "SELECT COUNT(*), SUM(i.id) FROM item i, kind k, shop h WHERE i.kind = k.id AND h.id = k.id AND i.id NOT IN
     (SELECT day FROM sales WHERE id BETWEEN 1 AND 40) AND NOT EXISTS (SELECT 1 FROM item WHERE item.id = h.id * 5)",
    "SELECT COUNT(*) FROM item i LEFT JOIN (town t JOIN shop h ON h.town = t.id JOIN kind k ON k.id = h.id)
     ON i.kind = h.id JOIN day d ON d.id = i.id WHERE d.week = 7 AND (t.id IS NULL OR i.id > k.id)",
    "SELECT COUNT(*) FROM item i LEFT JOIN kind k ON 1 = 0 JOIN shop h ON h.id = i.kind JOIN town t ON t.id = h.town",
    // As many as are not all searched.
    "SELECT COUNT(*) FROM town a, town b, town c, town d, town e, town f, town g, town h, town i, town j, town k,
       town l, town m, sales s WHERE a.id = b.id AND b.id = c.id AND c.id = d.id AND d.id = e.id AND e.id = f.id
       AND f.id = g.id AND g.id = h.id AND h.id = i.id AND i.id = j.id AND j.id = k.id AND k.id = l.id
       AND l.id = m.id AND m.id = s.shop AND a.name = 'town 7'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_the_written_order() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    for ndp in ["ndp_mode = OFF", "ndp_mode = ON, ndp_min_pages = 0"] {
        for sql in QUERIES {
            let both = format!("{ndp}, optimizer_join_order = OFF");
            set(&fixture, session, &both).await;
            let mut written = answer(&fixture, session, sql).await;
            set(&fixture, session, "optimizer_join_order = ON").await;
            let mut ordered = answer(&fixture, session, sql).await;
            written.sort_unstable();
            ordered.sort_unstable();
            assert_eq!(written, ordered, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_from_does_not_decide() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    let conditions = "s.item = i.id AND i.kind = k.id AND s.shop = h.id AND h.town = t.id
        AND i.name = 'item 3' AND k.id = 3 AND t.id = 5";
    let mut tables = ["sales s", "item i", "kind k", "shop h", "town t"];
    let mut found = [0, 0];
    for _ in 0..tables.len() {
        tables.rotate_left(1);
        let from = tables.join(", ");
        for (switch, found) in ["OFF", "ON"].into_iter().zip(&mut found) {
            let switch = format!("optimizer_join_order = {switch}");
            set(&fixture, session, &switch).await;
            let sql = format!("EXPLAIN SELECT COUNT(*) FROM {from} WHERE {conditions}");
            let plan = answer(&fixture, session, &sql).await;
            // Looked up for the only item, instead of read whole.
            let mut sales = plan.iter().filter(|line| line.contains("|s|"));
            *found += usize::from(sales.any(|line| line.contains("by_item")));
        }
    }
    assert_eq!(found[1], tables.len());
    assert!(found[0] < tables.len(), "any order is good");
}

/// Joins of any kinds, one after the other, with conditions on what has been joined.
struct Joined {
    rng: Rng,
    /// Each table with its columns, of which the first one is a key.
    tables: Vec<(&'static str, [&'static str; 2])>,
    /// The aliases that can be named, with the number of their table.
    seen: Vec<(String, usize)>,
}

impl Joined {
    fn new(seed: u64) -> Self {
        let tables = vec![
            ("item", ["id", "kind"]),
            ("kind", ["id", "id"]),
            ("shop", ["id", "town"]),
            ("town", ["id", "id"]),
            ("day", ["id", "week"]),
        ];
        Self {
            rng: Rng(seed),
            tables,
            seen: Vec::new(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.rng.between(0, end as i64 - 1) as usize
    }

    /// A column that can be named.
    fn column(&mut self) -> String {
        let at = self.below(self.seen.len());
        let (alias, table) = self.seen[at].clone();
        let place = self.below(2);
        let column = self.tables[table].1[place];
        format!("{alias}.{column}")
    }

    fn condition(&mut self) -> String {
        let (one, other) = (self.column(), self.column());
        let number = self.below(40);
        match self.below(6) {
            0 => format!("{one} IS NULL"),
            1 => format!("{one} <=> {other}"),
            2 => format!("({one} < {number} OR {other} IS NULL)"),
            3 => format!("COALESCE({one}, {number}) <= {other}"),
            4 => format!("{one} <> {other}"),
            _ => format!("{one} < {number}"),
        }
    }

    fn select(&mut self) -> String {
        let first = self.below(self.tables.len());
        self.seen.push(("a0".to_owned(), first));
        let mut from = format!("{} a0", self.tables[first].0);
        let mut conditions = Vec::new();
        for number in 1..=2 + self.below(4) {
            let table = self.below(self.tables.len());
            let (name, [key, _]) = self.tables[table];
            let other = self.column();
            let alias = format!("a{number}");
            let mut on = format!("{alias}.{key} = {other}");
            if self.below(3) == 0 {
                let condition = self.condition();
                on = format!("{on} AND {condition}");
            }
            let kind = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "EXISTS", "IN"][self.below(5)];
            let not = ["", "NOT "][self.below(2)];
            match kind {
                "EXISTS" => {
                    let inner = format!("SELECT 1 FROM {name} {alias} WHERE {on}");
                    conditions.push(format!("{not}EXISTS ({inner})"));
                }
                "IN" => {
                    let most = self.below(40);
                    let inner = format!("SELECT {key} FROM {name} WHERE {key} > {most}");
                    conditions.push(format!("{other} {not}IN ({inner})"));
                }
                _ => {
                    from = format!("{from} {kind} {name} {alias} ON {on}");
                    self.seen.push((alias, table));
                }
            }
        }
        for _ in 0..self.below(3) {
            let condition = self.condition();
            conditions.push(condition);
        }
        let all = conditions.join(" AND ");
        let filter = if all.is_empty() {
            all
        } else {
            format!(" WHERE {all}")
        };
        let columns = self.seen.iter().map(|(alias, _)| format!("{alias}.id"));
        let columns: Vec<_> = columns.collect();
        let sums: Vec<_> = columns
            .iter()
            .map(|c| format!("COUNT({c}), SUM({c})"))
            .collect();
        format!("SELECT COUNT(*), {} FROM {from}{filter}", sums.join(", "))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_joins_of_any_kinds_are_those_of_the_written_order() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    let (mut other_plans, mut errors) = (0, 0);
    for seed in 0..150 {
        let sql = Joined::new(seed).select();
        let mut both = Vec::new();
        for switch in ["OFF", "ON"] {
            let switch = format!("optimizer_join_order = {switch}");
            set(&fixture, session, &switch).await;
            let rows = fixture.run(session, &sql).await;
            let rows = rows.map(|results| rows_of(&results[0]));
            let plan = fixture
                .run(session, &format!("EXPLAIN FORMAT=ENGINE {sql}"))
                .await;
            let plan = plan.map(|results| rows_of(&results[0]));
            both.push((rows.map_err(|e| e.to_string()), plan.ok()));
        }
        assert_eq!(both[0].0, both[1].0, "{sql}");
        other_plans += usize::from(both[0].1 != both[1].1);
        errors += usize::from(both[0].0.is_err());
    }
    println!("{other_plans} in another order, {errors} refused");
    assert!(
        other_plans > 15,
        "{other_plans} statements had another order"
    );
    assert!(errors < 30, "{errors} statements were refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outer_joins_wait_and_semi_joins_come_first() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    for sql in [
        "SELECT COUNT(d.id) FROM sales s LEFT JOIN day d ON s.day = d.id JOIN item i ON s.item = i.id
         WHERE i.name = 'item 3'",
        "SELECT COUNT(*) FROM sales s, shop h, item i WHERE s.shop = h.id AND s.item = i.id AND EXISTS
         (SELECT 1 FROM kind k WHERE k.id = i.id AND k.name = 'kind 3')",
    ] {
        let mut looked_up = Vec::new();
        for switch in ["OFF", "ON"] {
            let switch = format!("optimizer_join_order = {switch}");
            set(&fixture, session, &switch).await;
            let plan = answer(&fixture, session, &format!("EXPLAIN {sql}")).await;
            let mut sales = plan.iter().filter(|line| line.contains("|s|"));
            looked_up.push(sales.any(|line| line.contains("by_item")));
        }
        assert_eq!(looked_up, [false, true], "{sql}");
    }
}

/// The hints that order some of these tables.
fn order_hint(rng: &mut Rng, aliases: &[String]) -> String {
    let mut left: Vec<&str> = aliases.iter().map(String::as_str).collect();
    let mut tables = Vec::new();
    for _ in 0..rng.between(2, 3) {
        if !left.is_empty() {
            let at = rng.between(0, left.len() as i64 - 1) as usize;
            tables.push(left.swap_remove(at));
        }
    }
    let name = rng.choose(&["JOIN_ORDER", "JOIN_PREFIX", "JOIN_SUFFIX"]);
    format!("{name}({})", tables.join(", "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_order_joins_and_change_no_answer() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    let (mut other_plans, mut errors) = (0, 0);
    for seed in 0..100 {
        let mut joined = Joined::new(seed);
        let sql = joined.select();
        let aliases: Vec<String> = joined.seen.iter().map(|(alias, _)| alias.clone()).collect();
        let hints = [0; 2]
            .map(|_| order_hint(&mut joined.rng, &aliases))
            .join(" ");
        let hinted = sql.replacen("SELECT ", &format!("SELECT /*+ {hints} */ "), 1);
        let mut both = Vec::new();
        for sql in [&sql, &hinted] {
            let rows = fixture.run(session, sql).await;
            let rows = rows.map(|results| rows_of(&results[0]));
            let explain = format!("EXPLAIN FORMAT=ENGINE {sql}");
            let plan = fixture.run(session, &explain).await;
            let plan = plan.map(|results| rows_of(&results[0]));
            both.push((rows.map_err(|e| e.to_string()), plan.ok()));
        }
        assert_eq!(both[0].0, both[1].0, "{hinted}");
        other_plans += usize::from(both[0].1 != both[1].1);
        errors += usize::from(both[0].0.is_err());
    }
    println!("{other_plans} in another order, {errors} refused");
    assert!(
        other_plans > 10,
        "{other_plans} statements had another order"
    );
    assert!(errors < 20, "{errors} statements were refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_joined_where_hints_want_them() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    let from = "sales s, item i, kind k, shop h, town t WHERE s.item = i.id AND i.kind = k.id
        AND s.shop = h.id AND h.town = t.id AND k.id = 3 AND t.id = 5";
    for (hint, first, last) in [
        ("JOIN_PREFIX(t, h)", Some(["t", "h"]), None),
        ("JOIN_PREFIX(k, i)", Some(["k", "i"]), None),
        ("JOIN_SUFFIX(t)", None, Some("t")),
        ("JOIN_SUFFIX(i, k)", None, Some("k")),
        ("JOIN_ORDER(h, s, i) JOIN_PREFIX(k)", None, None),
    ] {
        let sql = format!("EXPLAIN SELECT /*+ {hint} */ COUNT(*) FROM {from}");
        let plan = answer(&fixture, session, &sql).await;
        let order: Vec<String> = plan
            .iter()
            .filter_map(|line| line.split('|').nth(2).map(str::to_owned))
            .collect();
        assert_eq!(order.len(), 5, "{hint}: {plan:?}");
        if let Some(first) = first {
            // The smaller side of a hash join is read first, so others may be read before both of them.
            let [one, other] = first.map(|table| order.iter().position(|known| known == table));
            let distance = one.unwrap().abs_diff(other.unwrap());
            assert_eq!(distance, 1, "{hint}: {order:?}");
        }
        if let Some(last) = last {
            let ends = [&order[0], &order[4]];
            assert!(ends.iter().any(|one| *one == last), "{hint}: {order:?}");
        }
    }
}

/// Customers of whom one visits and orders half of the time, and cities of which one has half of the customers.
async fn frequent() -> (Fixture, Session) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE city (id INT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL);
        CREATE TABLE customer (id INT NOT NULL PRIMARY KEY, city INT NOT NULL, note VARCHAR(100) NOT NULL,
            KEY by_city (city));
        CREATE TABLE visit (id INT NOT NULL PRIMARY KEY, customer INT NOT NULL, day INT NOT NULL,
            KEY by_customer (customer));
        CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, customer INT NOT NULL, KEY by_customer (customer));
        CREATE TABLE line (id INT NOT NULL PRIMARY KEY, orders INT NOT NULL, amount INT NOT NULL,
            KEY by_orders (orders))";
    fixture.run(&mut session, create).await.unwrap();
    let rows = |count: i64, row: &dyn Fn(i64) -> String| -> String {
        (0..count).map(|n| format!("{n}|{}\n", row(n))).collect()
    };
    let of = |n: i64, frequent: i64, all: i64| match n % 2 {
        0 => frequent,
        _ => n * 7919 % all,
    };
    let tables = [
        ("city", rows(500, &|n| format!("city {n}"))),
        (
            "customer",
            rows(40_000, &|n| format!("{}|{n:=>90}", of(n, 7, 500))),
        ),
        (
            "visit",
            rows(4000, &|n| format!("{}|{}", of(n, 5, 2000), n / 10)),
        ),
        ("orders", rows(6000, &|n| of(n, 5, 2000).to_string())),
        ("line", rows(60_000, &|n| format!("{}|{}", n / 10, n % 100))),
    ];
    for (table, text) in tables {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        let text = text.into_bytes();
        fixture.run_with(&mut session, &sql, text).await.unwrap();
    }
    let time = "optimizer_sample_time = 60000"; // however busy the machine is
    set(&fixture, &mut session, time).await;
    (fixture, session)
}

/// How a table is read in the plan of a query, by its alias.
async fn access(fixture: &Fixture, session: &mut Session, sql: &str, alias: &str) -> String {
    let plan = answer(fixture, session, &format!("EXPLAIN {sql}")).await;
    let mut cells = plan.iter().map(|line| line.split('|').collect::<Vec<_>>());
    let of_alias = cells.find(|cells| cells[2] == alias);
    of_alias.expect("the table is in the plan")[4].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_leads_to_a_frequent_key() {
    let (fixture, mut session) = frequent().await;
    let session = &mut session;
    let of = |city: &str| {
        format!(
            "SELECT COUNT(*), SUM(c.id) FROM city t JOIN customer c ON c.city = t.id WHERE t.name = 'city {city}'"
        )
    };
    assert_eq!(access(&fixture, session, &of("9"), "c").await, "ref");
    assert_ne!(access(&fixture, session, &of("7"), "c").await, "ref");
    for (city, count) in [("7", 20_080), ("9", 80)] {
        let rows = answer(&fixture, session, &of(city)).await;
        assert!(rows[0].starts_with(&format!("{count}|")), "{rows:?}");
    }
    // What was found goes with the statistics; without samples nothing is looked for.
    set(&fixture, session, "optimizer_sample_pages = 0").await;
    assert_eq!(access(&fixture, session, &of("7"), "c").await, "ref");
    set(&fixture, session, "optimizer_sample_pages = 64").await;
    assert_ne!(access(&fixture, session, &of("7"), "c").await, "ref");
    let swap = "UPDATE city SET name = IF(id = 7, 'city 9', 'city 7') WHERE id IN (7, 9); ANALYZE TABLE city";
    fixture.run(session, swap).await.unwrap();
    assert_ne!(access(&fixture, session, &of("9"), "c").await, "ref");
    assert_eq!(access(&fixture, session, &of("7"), "c").await, "ref");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frequent_values_that_meet_at_a_key_are_not_looked_up() {
    let (fixture, mut session) = frequent().await;
    let session = &mut session;
    let of = |condition: &str| {
        format!(
            "SELECT COUNT(*), SUM(l.amount) FROM visit v, customer c, orders o, line l WHERE v.customer = c.id
             AND o.customer = c.id AND l.orders = o.id AND {condition}"
        )
    };
    // Ten visits, half of them of the customer with half of the orders.
    let (many, few) = (of("v.day = 3"), of("v.day = 3 AND c.id = 77"));
    for order in ["ON", "OFF"] {
        let order = format!("optimizer_join_order = {order}");
        set(&fixture, session, &order).await;
        assert_ne!(
            access(&fixture, session, &many, "l").await,
            "ref",
            "{order}"
        );
        assert_eq!(access(&fixture, session, &few, "l").await, "ref", "{order}");
    }
    let rows = answer(&fixture, session, &many).await;
    assert!(rows[0].starts_with("150"), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_grouped_before_they_are_joined_where_most_groups_are_asked_for() {
    let (fixture, mut session) = star().await;
    let session = &mut session;
    for (condition, early) in [
        ("h.id >= 0", true),
        ("h.id < 9", false),
        ("s.id < 700", false),
    ] {
        for join in ["LEFT JOIN", "JOIN"] {
            let sql = format!(
                "SELECT h.id, COUNT(s.day), SUM(s.amount) FROM shop h {join} sales s ON s.shop = h.id WHERE {condition}
                 GROUP BY h.id"
            );
            let sql = format!("EXPLAIN FORMAT=ENGINE {sql}");
            let plan = answer(&fixture, session, &sql).await.join("\n");
            let place = |operator| plan.find(operator);
            let (join, groups) = (place("JoinExec"), place("AggregateExec"));
            assert!(join.is_some() && groups.is_some(), "{plan}");
            assert_eq!(join < groups, early, "{sql}: {plan}");
        }
    }
}
