//! Conditions that are rewritten so that more of them finds an index, or runs in storage.

use super::*;

/// Days from 1970 on, and now and then NULL.
pub(crate) async fn with_days() -> (Fixture, Session) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE days (id INT NOT NULL PRIMARY KEY, d DATE, at DATETIME(3), n INT NOT NULL,
            note CHAR(100) NOT NULL, KEY by_d (d), KEY by_at (at), KEY by_n (n))";
    fixture.run(&mut session, create).await.unwrap();
    let mut lines = String::new();
    for id in 0..8000 {
        let (year, month, day) = (1980 + id / 200, id / 10 % 12 + 1, id % 28 + 1);
        let date = format!("{year}-{month:02}-{day:02}");
        let (d, at) = match id % 50 {
            0 => ("\\N".to_owned(), "\\N".to_owned()),
            _ => (date.clone(), format!("{date} 23:59:59.999")),
        };
        lines += &format!("{id}|{d}|{at}|{}|note\n", id % 1000);
    }
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE days FIELDS TERMINATED BY '|'";
    let loaded = fixture
        .run_with(&mut session, load, lines.into_bytes())
        .await;
    loaded.unwrap();
    (fixture, session)
}

/// A condition, how it is written so that nothing can be made of it, and the access.
const YEARS: [(&str, &str, &str); 9] = [
    ("YEAR(d) = 1994", "YEAR(d) + 0 = 1994", "days range by_d"),
    (
        "1994 = EXTRACT(YEAR FROM d)",
        "1994 = YEAR(d) + 0",
        "days range by_d",
    ),
    ("YEAR(at) = 1994", "YEAR(at) + 0 = 1994", "days range by_at"),
    ("YEAR(d) < 1981", "YEAR(d) + 0 < 1981", "days range by_d"),
    ("YEAR(d) >= 2019", "YEAR(d) + 0 >= 2019", "days range by_d"),
    ("YEAR(d) <> 1994", "YEAR(d) + 0 <> 1994", "days ALL NULL"),
    ("YEAR(d) <= 9999", "YEAR(d) + 0 <= 9999", "days ALL NULL"),
    (
        "YEAR(d) <= 9223372036854775807",
        "YEAR(d) + 0 < 20000",
        "days ALL NULL",
    ),
    (
        "YEAR(d) IN (1994, 1996)",
        "YEAR(d) + 0 IN (1994, 1996)",
        "days ALL NULL",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn years_are_ranges_of_dates() {
    let (fixture, mut session) = with_days().await;
    for mode in ["OFF", "ON"] {
        let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
        fixture.run(&mut session, &set).await.unwrap();
        for (condition, plain, access) in YEARS {
            // An index that has all that is wanted is taken for any range.
            let wanted = if access.contains("range") {
                "id"
            } else {
                "note"
            };
            let select = |condition| format!("SELECT {wanted} FROM days WHERE {condition}");
            let mut rows = answer(&fixture, &mut session, &select(condition)).await;
            let mut expected = answer(&fixture, &mut session, &select(plain)).await;
            rows.sort();
            expected.sort();
            assert!(!rows.is_empty() && rows == expected, "{mode} {condition}");
            let (plan, extra) = explain(&fixture, &mut session, &select(condition)).await;
            assert_eq!(plan, [access], "{mode} {condition}: {extra}");
            assert!(!extra.contains("mysql_extract"), "{condition}: {extra}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_all_alternatives_demand_is_a_condition_of_its_own() {
    let (fixture, mut session) = with_days().await;
    let sql = "SELECT id, note FROM days WHERE (n = 7 AND id < 3000) OR (note > 'note' AND n = 7)";
    let (plan, _) = explain(&fixture, &mut session, sql).await;
    assert_eq!(plan, ["days ref by_n"]);
    let mut rows = answer(&fixture, &mut session, sql).await;
    rows.sort();
    assert_eq!(rows, ["1007|note", "2007|note", "7|note"]);

    // Each alternative demands something of `a`, and something of `b`.
    let sql = "SELECT COUNT(*) FROM days a JOIN days b ON a.id = b.id + 1
        WHERE (a.n = 7 AND b.n = 6) OR (a.n = 8 AND b.n = 7)";
    let (_, extra) = explain(&fixture, &mut session, sql).await;
    for (a, b) in [("a", "7"), ("a", "8"), ("b", "6"), ("b", "7")] {
        assert!(extra.contains(&format!("days.n = {b}")), "{a}: {extra}");
    }
    assert_eq!(answer(&fixture, &mut session, sql).await, ["16"]);
}
