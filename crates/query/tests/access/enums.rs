//! ENUM, SET and BIT columns: what statements say of texts, storage does with numbers, and keys of them are used.

use super::*;

const ROWS: usize = 4000;

const SIZES: [&str; 5] = ["small", "medium", "large", "X-large", "\\N"];

async fn with_tables() -> (Fixture, Session) {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE g (id INT NOT NULL PRIMARY KEY,
            size ENUM('small', 'medium', 'large', 'X-large'),
            tone ENUM('Red', 'green', 'BLUE') COLLATE utf8mb4_general_ci NOT NULL,
            rare ENUM('no', 'yes') NOT NULL, note VARCHAR(100) NOT NULL,
            has SET('a', 'b', 'c') NOT NULL, bits BIT(8), odd BIT(16) NOT NULL, KEY by_rare (rare), KEY by_odd (odd));
        CREATE TABLE s (size ENUM('small', 'medium', 'large', 'X-large') NOT NULL, n INT)";
    fixture.run(&mut session, create).await.unwrap();
    let rows: String = (0..ROWS)
        .map(|id| {
            let (size, tone) = (SIZES[id % 5], ["red", "3", "GREEN "][id % 3]);
            let rare = if id % 1000 == 7 { "yes" } else { "no" };
            let has = ["", "a", "c,a", "c,b", "7"][id % 5];
            // A BIT is the bytes of its text.
            let (bits, odd) = (id % 10, if id % 1000 == 7 { "zz" } else { "a" });
            format!("{id}|{size}|{tone}|{rare}|{id:=<80}|{has}|{bits}|{odd}\n")
        })
        .collect();
    let sql = "LOAD DATA LOCAL INFILE 'f' INTO TABLE g FIELDS TERMINATED BY '|'";
    let loaded = fixture.run_with(&mut session, sql, rows.into_bytes()).await;
    loaded.unwrap();
    let small = "INSERT INTO s VALUES ('large', 1), ('small', 2)";
    fixture.run(&mut session, small).await.unwrap();
    (fixture, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_and_groups_are_pushed() {
    let (fixture, mut session) = with_tables().await;
    for (sql, pushed, rows) in [
        (
            "SELECT COUNT(note) FROM g WHERE size = 'large'",
            CONDITION,
            &["800"][..],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE size > 'large'",
            CONDITION,
            &["1600"],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE size > 2",
            CONDITION,
            &["1600"],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE size LIKE '%large' AND tone <> 'RED'",
            CONDITION,
            &["1067"],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE size NOT IN ('large', 'none', 'small')",
            CONDITION,
            &["1600"],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE tone IN ('blue', 'Green')",
            CONDITION,
            &["2666"],
        ),
        (
            "SELECT size, COUNT(*), SUM(id) FROM g GROUP BY size ORDER BY size",
            AGGREGATE,
            &[
                "NULL|800|1601200",
                "small|800|1598000",
                "medium|800|1598800",
                "large|800|1599600",
                "X-large|800|1600400",
            ],
        ),
        (
            "SELECT tone, COUNT(*) FROM g WHERE size = 'small' GROUP BY tone ORDER BY tone DESC",
            AGGREGATE,
            &["BLUE|266", "green|267", "Red|267"],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE has = 'a,c'",
            CONDITION,
            &["800"],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE has LIKE '%c' AND has <> 6",
            CONDITION,
            &["1600"],
        ),
        (
            "SELECT has, COUNT(*), SUM(id) FROM g GROUP BY has ORDER BY has",
            AGGREGATE,
            &[
                "|800|1598000",
                "a|800|1598800",
                "a,c|800|1599600",
                "b,c|800|1600400",
                "a,b,c|800|1601200",
            ],
        ),
        (
            "SELECT COUNT(note) FROM g WHERE bits = b'110011' OR bits > 0x37",
            CONDITION,
            &["1200"],
        ),
        (
            "SELECT bits, COUNT(*), MIN(id), MAX(bits) FROM g WHERE bits < 50 GROUP BY bits ORDER BY bits",
            AGGREGATE,
            &["48|400|0|48", "49|400|1|49"],
        ),
        (
            "SELECT DISTINCT rare FROM g ORDER BY rare",
            AGGREGATE,
            &["no", "yes"],
        ),
    ] {
        check_pushed(&fixture, &mut session, (sql, pushed), rows).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_texts_is_done_above_storage() {
    let (fixture, mut session) = with_tables().await;
    for (sql, rows) in [
        (
            "SELECT COUNT(note) FROM g WHERE CONCAT(size, '!') = 'large!'",
            "800",
        ),
        ("SELECT MIN(size), MAX(size) FROM g", "X-large|small"),
    ] {
        for mode in ["OFF", "ON"] {
            let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
            fixture.run(&mut session, &set).await.unwrap();
            assert_eq!(answer(&fixture, &mut session, sql).await, [rows], "{sql}");
        }
        let (_, extra) = explain(&fixture, &mut session, sql).await;
        assert!(extra.contains("not their texts"), "{sql}: {extra}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_used() {
    let (fixture, mut session) = with_tables().await;
    for (sql, access, rows) in [
        (
            "SELECT id FROM g WHERE rare = 'yes' ORDER BY id",
            "g ref by_rare",
            &["7", "1007", "2007", "3007"][..],
        ),
        (
            "SELECT COUNT(*) FROM g WHERE rare > 1",
            "g range by_rare",
            &["4"],
        ),
        (
            "SELECT id FROM g WHERE odd = 0x7A7A ORDER BY id",
            "g ref by_odd",
            &["7", "1007", "2007", "3007"],
        ),
        (
            "SELECT COUNT(*) FROM g WHERE odd BETWEEN 98 AND 40000",
            "g range by_odd",
            &["4"],
        ),
        (
            "SELECT s.n, COUNT(*) FROM s JOIN g ON g.size = s.size GROUP BY s.n ORDER BY 1",
            "g ALL NULL",
            &["1|800", "2|800"],
        ),
    ] {
        let (accesses, extra) = explain(&fixture, &mut session, sql).await;
        let found = accesses.iter().any(|a| a == access);
        assert!(found, "{sql}: {accesses:?} {extra}");
        assert_eq!(answer(&fixture, &mut session, sql).await, rows, "{sql}");
    }
}
