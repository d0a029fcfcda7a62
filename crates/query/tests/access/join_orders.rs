//! The order of joins: answers are those of the order that is written, and a bad order is not kept.

use super::join_filters::set;
use super::*;

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
