//! Lists and alternatives as several ranges of an index.

use super::*;

/// A condition, how it is written so that no index serves it, and the access where that does not depend on
/// which pages are at hand.
const CASES: [(&str, &str, &str); 9] = [
    (
        "id IN (5, 17, 4000, 9999, -1)",
        "id + 0 IN (5, 17, 4000, 9999, -1)",
        "days range PRIMARY",
    ),
    (
        "id = 5 OR id = 17 OR id BETWEEN 4000 AND 4010 OR id > 7990",
        "id + 0 IN (5, 17) OR id + 0 BETWEEN 4000 AND 4010 OR id + 0 > 7990",
        "days range PRIMARY",
    ),
    // 9.00 is a whole number, 9.5 none that there is.
    (
        "id IN (5.0, 9.5) OR id IN (7, 8)",
        "id + 0 IN (5, 7, 8)",
        "days range PRIMARY",
    ),
    (
        "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
        "id + 0 BETWEEN 1 AND 10",
        "days range PRIMARY",
    ),
    ("n IN (7, 9)", "n + 0 IN (7, 9)", ""),
    (
        "(n = 7 AND id > 10) OR (n = 9 AND id < 3000)",
        "(n + 0 = 7 AND id > 10) OR (n + 0 = 9 AND id < 3000)",
        "",
    ),
    (
        "d IN ('1994-04-13', '1996-03-02', NULL)",
        "CONCAT(d, '') IN ('1994-04-13', '1996-03-02')",
        "",
    ),
    (
        "at = '1994-04-13 23:59:59.999' OR at < '1980-01-03'",
        "CONCAT(at, '') = '1994-04-13 23:59:59.999' OR CONCAT(at, '') < '1980-01-03'",
        "",
    ),
    ("n IN (7, 9) AND n IN (9, 11)", "n + 0 = 9", ""),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_alternatives_are_ranges() {
    let (fixture, mut session) = rewrites::with_days().await;
    for mode in ["OFF", "ON"] {
        let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
        fixture.run(&mut session, &set).await.unwrap();
        for (condition, plain, access) in CASES {
            let select = |condition| format!("SELECT id, d, note FROM days WHERE {condition}");
            let mut rows = answer(&fixture, &mut session, &select(condition)).await;
            let mut expected = answer(&fixture, &mut session, &select(plain)).await;
            rows.sort();
            expected.sort();
            assert!(!rows.is_empty() && rows == expected, "{mode} {condition}");
            let (plan, extra) = explain(&fixture, &mut session, &select(condition)).await;
            // Storage that reduces pages makes other accesses cheaper.
            assert!(
                mode == "ON" || access.is_empty() || plan == [access],
                "{condition}: {plan:?} {extra}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_alternatives_are_read_in_order_and_once() {
    let (fixture, mut session) = rewrites::with_days().await;
    // More than there are rows, most of them twice.
    let ids: Vec<String> = (0..12_000).map(|n| (n * 7 % 16_000).to_string()).collect();
    let list = ids.join(",");
    let sql = format!("SELECT COUNT(*), SUM(id) FROM days WHERE id IN ({list})");
    let distinct: std::collections::BTreeSet<i64> = ids
        .iter()
        .map(|id| id.parse().unwrap())
        .filter(|id| *id < 8000)
        .collect();
    let expected = format!("{}|{}", distinct.len(), distinct.iter().sum::<i64>());
    assert_eq!(answer(&fixture, &mut session, &sql).await, [expected]);
    let backwards =
        "SELECT id FROM days WHERE id IN (4, 3, 4000, 2, 4001) ORDER BY id DESC LIMIT 3";
    assert_eq!(
        answer(&fixture, &mut session, backwards).await,
        ["4001", "4000", "4"]
    );
    let none = "SELECT COUNT(*), SUM(id) FROM days WHERE id IN (4, 3) AND id > 7";
    assert_eq!(answer(&fixture, &mut session, none).await, ["0|NULL"]);
    fixture
        .run(
            &mut session,
            "DELETE FROM days WHERE id IN (1, 3, 5) OR id = 4001",
        )
        .await
        .unwrap();
    fixture
        .run(
            &mut session,
            "UPDATE days SET n = -1 WHERE id IN (2, 4, 6) OR n IN (7, 9) AND id < 20",
        )
        .await
        .unwrap();
    let changed = "SELECT id FROM days WHERE n IN (-1, -2) ORDER BY id";
    assert_eq!(
        answer(&fixture, &mut session, changed).await,
        ["2", "4", "6", "7", "9"]
    );
    assert_eq!(
        answer(&fixture, &mut session, "SELECT COUNT(*) FROM days").await,
        ["7996"]
    );
}
