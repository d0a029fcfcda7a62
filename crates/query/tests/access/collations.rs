//! Strings that compare by weights: what storage does with them, and that keys of them are used.

use super::*;

const ROWS: usize = 4000;

/// Spellings that are equal in `utf8mb4_general_ci`, of each city.
const CITIES: [&[&str]; 4] = [
    &["Köln", "KOLN", "koln ", "kölN"],
    &["Zürich", "zurich", "ZÜRICH"],
    &["Lodz", "LÓDZ", "lodz  ", "lódż"],
    &["Ærø", "ÆRØ"],
];

async fn with_table() -> (Fixture, Session) {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE g (id INT NOT NULL PRIMARY KEY, city VARCHAR(20) NOT NULL, code CHAR(5),
            name VARCHAR(20) NOT NULL, note VARCHAR(100) NOT NULL, KEY by_name (name))
            COLLATE=utf8mb4_general_ci";
    fixture.run(&mut session, create).await.unwrap();
    let rows: String = (0..ROWS)
        .map(|id| {
            let spellings = CITIES[id % 4];
            let city = spellings[id / 4 % spellings.len()];
            let code = ["ab", "ÁB", "aß", "As", "\\N"][id % 5];
            let name = [format!("näme{id}"), format!("NAME{id}")][id % 2].clone();
            format!("{id}|{city}|{code}|{name}|{:=<80}\n", id)
        })
        .collect();
    let sql = "LOAD DATA LOCAL INFILE 'f' INTO TABLE g FIELDS TERMINATED BY '|'";
    let loaded = fixture.run_with(&mut session, sql, rows.into_bytes()).await;
    loaded.unwrap();
    (fixture, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_and_groups_are_pushed() {
    let (fixture, mut session) = with_table().await;
    let groups = |rows: &[&str]| rows.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>();
    for (sql, pushed, rows) in [
        (
            "SELECT COUNT(note) FROM g WHERE city = 'KÖLN'",
            CONDITION,
            groups(&["1000"]),
        ),
        (
            "SELECT COUNT(*) FROM g WHERE code = 'AB'",
            AGGREGATE,
            groups(&["1600"]),
        ),
        (
            "SELECT COUNT(note) FROM g WHERE city LIKE 'z%CH'",
            CONDITION,
            groups(&["1000"]),
        ),
        (
            "SELECT COUNT(note) FROM g WHERE city NOT LIKE '_O%'",
            CONDITION,
            groups(&["2000"]),
        ),
        (
            "SELECT COUNT(note) FROM g WHERE code IN ('AS', 'xy')",
            CONDITION,
            groups(&["1600"]),
        ),
        (
            "SELECT COUNT(note) FROM g WHERE city BETWEEN 'k' AND 'LODZ'",
            CONDITION,
            groups(&["2000"]),
        ),
        (
            "SELECT COUNT(note) FROM g WHERE city <> 'lodz' AND code < 'as'",
            CONDITION,
            groups(&["1200"]),
        ),
        (
            "SELECT COUNT(*), MIN(id) FROM g GROUP BY city ORDER BY 2",
            AGGREGATE,
            groups(&["1000|0", "1000|1", "1000|2", "1000|3"]),
        ),
        (
            "SELECT code, COUNT(*) FROM g GROUP BY code ORDER BY code",
            AGGREGATE,
            groups(&["NULL|800", "ab|1600", "As|1600"]),
        ),
        (
            "SELECT COUNT(*) FROM (SELECT DISTINCT city, code FROM g) d",
            AGGREGATE,
            groups(&["12"]),
        ),
    ] {
        check_pushed(&fixture, &mut session, (sql, pushed), &rows).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_used() {
    let (fixture, mut session) = with_table().await;
    for (sql, access, rows) in [
        (
            "SELECT id FROM g WHERE name = 'Näme77'",
            "g ref by_name",
            &["77"][..],
        ),
        (
            "SELECT id FROM g WHERE name >= 'NÄME3998' AND name <= 'name3999' ORDER BY id",
            "g range by_name",
            &["3998", "3999"],
        ),
        (
            "SELECT g.id FROM g JOIN (SELECT CONCAT('NÄME', id) AS n FROM g WHERE id = 5) d \
             ON g.name = d.n COLLATE utf8mb4_general_ci",
            "g ref by_name",
            &["5"],
        ),
        (
            "SELECT b.id FROM g a JOIN g b ON b.name = a.name WHERE a.id = 12",
            "b ref by_name",
            &["12"],
        ),
        (
            "SELECT name FROM g WHERE id < 9000 ORDER BY name LIMIT 2",
            "g index by_name",
            &["näme0", "NAME1"],
        ),
    ] {
        let (accesses, extra) = explain(&fixture, &mut session, sql).await;
        let found = accesses.iter().any(|a| a == access);
        assert!(found, "{sql}: {accesses:?} {extra}");
        assert_eq!(answer(&fixture, &mut session, sql).await, rows, "{sql}");
    }
}
