//! Joins in storage: answers are those without them, EXPLAIN says where there are some, and no row but partial ones comes
//! from the scan.

use super::join_filters::{set, setups, sorted, with_tables};
use super::*;

/// What EXPLAIN says where a table joins.
const JOIN: &str = "Using pushed NDP";

/// Queries, and what EXPLAIN says of the join if there has to be one.
const QUERIES: &[(&str, Option<&str>)] = &[
    // The form of TPC-H's query 14.
    (
        "SELECT 100.00 * SUM(CASE WHEN dim.s LIKE 'NAME 1%' THEN f.d * (1 - 0.05) ELSE 0 END) / SUM(f.d), COUNT(*)
         FROM fact f, dim WHERE f.k = dim.id AND f.day >= DATE '2024-02-01'",
        Some("inner join on (k) with (s)"),
    ),
    (
        "SELECT COUNT(*), SUM(f.id), MIN(dim.day), MAX(dim.d), SUM(dim.k) FROM fact f JOIN dim ON f.k = dim.id",
        Some("inner join on (k) with ("),
    ),
    (
        "SELECT COUNT(*), MIN(dim.s), MAX(dim.s) FROM fact f JOIN dim ON f.k = dim.id",
        None,
    ),
    (
        "SELECT COUNT(*), COUNT(dim.flag), SUM(dim.flag), SUM(f.id), COUNT(dim.s)
         FROM fact f LEFT JOIN dim ON f.k = dim.id",
        Some("left join on (k) with ("),
    ),
    (
        "SELECT COUNT(*), COUNT(dim.flag), SUM(dim.flag), SUM(f.id) FROM dim RIGHT JOIN fact f ON f.k = dim.id",
        Some("left join on (k) with ("),
    ),
    // A condition that is not the join's.
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f LEFT JOIN dim ON f.k = dim.id
         WHERE dim.flag IS NULL OR dim.flag < 5",
        Some("left join on (k) with (flag)"),
    ),
    // One that is.
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.k = dim.id AND f.id > dim.flag * 300",
        Some("inner join on (k) with (flag)"),
    ),
    // One that says which rows of an outer join have a match: not pushed.
    (
        "SELECT COUNT(*), COUNT(dim.id), SUM(f.id) FROM fact f LEFT JOIN dim ON f.k = dim.id AND f.id > dim.flag * 300",
        None,
    ),
    // The form of TPC-H's query 13: one side is aggregated before.
    (
        "SELECT x.n, COUNT(*), SUM(c.id) FROM fact c
         LEFT JOIN (SELECT k, COUNT(*) n FROM dim GROUP BY k) x ON x.k = c.k GROUP BY x.n",
        Some("left join on (k) with ("),
    ),
    (
        "SELECT x.total, COUNT(*) FROM dim c
         JOIN (SELECT k, SUM(d) total FROM fact WHERE s LIKE 'name 1%' GROUP BY k) x ON x.k = c.id GROUP BY x.total",
        None,
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f WHERE f.k IN (SELECT k FROM dim WHERE flag < 3)",
        Some("semi join on (k)"),
    ),
    (
        "SELECT COUNT(*), SUM(f.id), MAX(f.day) FROM fact f
         WHERE NOT EXISTS (SELECT 1 FROM dim WHERE dim.k = f.k AND flag < 3)",
        Some("anti join on (k)"),
    ),
    // NULL among what is looked up makes it unknown.
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f WHERE f.k NOT IN (SELECT k FROM dim WHERE flag < 3)",
        None,
    ),
    (
        "SELECT dim.flag, COUNT(*), SUM(f.d), AVG(f.d) FROM fact f JOIN dim ON f.k = dim.id GROUP BY dim.flag",
        Some("inner join on (k) with (flag)"),
    ),
    (
        "SELECT dim.s, f.day, COUNT(*) FROM fact f JOIN dim ON f.k = dim.id WHERE dim.id < 20 GROUP BY dim.s, f.day",
        None,
    ),
    // A wider type, several columns.
    (
        "SELECT COUNT(*), SUM(f.id), SUM(dim.flag) FROM fact f JOIN dim ON f.big = dim.id",
        Some("inner join on (big) with (flag)"),
    ),
    (
        "SELECT COUNT(*), SUM(dim.flag) FROM fact f JOIN dim ON f.k = dim.id AND f.day = dim.day",
        Some("inner join on ("),
    ),
    (
        "SELECT COUNT(*), SUM(f.id + dim.flag) FROM fact f JOIN dim ON f.k = dim.id",
        Some("inner join on (k) with (flag)"),
    ),
    // Nothing in the table.
    (
        "SELECT COUNT(*), SUM(f.id), SUM(dim.flag) FROM fact f JOIN dim ON f.k = dim.id WHERE dim.flag > 100",
        None,
    ),
    (
        "SELECT COUNT(*), SUM(f.id), SUM(dim.flag) FROM fact f LEFT JOIN dim ON f.k = dim.id AND dim.flag > 100",
        None,
    ),
    // Keys that are not unique: not without a hint, and with it the ordinary plan goes on with the rows that were read.
    (
        "SELECT COUNT(*), SUM(f.id), SUM(dim.id) FROM fact f JOIN dim ON f.k = dim.k",
        None,
    ),
    (
        "SELECT /*+ NDP_JOIN_TABLE(f) */ COUNT(*), SUM(f.id), SUM(dim.id) FROM fact f JOIN dim ON f.k = dim.flag",
        Some("inner join on (k) with (id)"),
    ),
    (
        "SELECT /*+ NDP_JOIN_TABLE(f) */ COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.k = dim.flag",
        Some("inner join on (k)"),
    ),
    // They are, though nobody knows.
    (
        "SELECT /*+ NDP_JOIN_TABLE(f) */ COUNT(*), SUM(f.id), SUM(dim.id) FROM fact f JOIN dim ON f.s = dim.s",
        Some("inner join on (s) with (id)"),
    ),
    (
        "SELECT /*+ NDP_JOIN_TABLE(f) */ COUNT(*), SUM(f.id), SUM(dim.id) FROM fact f JOIN dim ON f.d = dim.d",
        Some("inner join on (d) with (id)"),
    ),
    // Both sides may be the table.
    (
        "SELECT COUNT(*), SUM(f.id), SUM(g.big) FROM fact f JOIN fact g ON f.link = g.id",
        Some("inner join on (link) with (big)"),
    ),
];

async fn status(fixture: &Fixture, session: &mut Session, name: &str) -> u64 {
    let sql = format!("SHOW SESSION STATUS LIKE '{name}'");
    let rows = answer(fixture, session, &sql).await;
    let (_, value) = rows[0].split_once('|').unwrap();
    value.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_with_tables_change_no_answer() {
    let [(_, plain), (_, hostile)] = setups();
    let older = Setup {
        older_store: true,
        ..plain.clone()
    };
    for (name, setup) in [("plain", plain), ("hostile", hostile), ("older", older)] {
        let (fixture, mut session) = with_tables(setup).await;
        let session = &mut session;
        for (sql, join) in QUERIES {
            set(&fixture, session, "ndp_mode = OFF").await;
            let expected = sorted(&fixture, session, sql).await;
            let off = "ndp_mode = ON, ndp_min_pages = 0, ndp_min_rows_per_group = 1, ndp_join_tables = OFF";
            set(&fixture, session, off).await;
            let without = sorted(&fixture, session, sql).await;
            assert_eq!(without, expected, "{name}, none: {sql}");
            set(&fixture, session, "ndp_join_tables = ON").await;
            let (_, extra) = explain(&fixture, session, sql).await;
            let with = sorted(&fixture, session, sql).await;
            assert_eq!(with, expected, "{name}: {sql}: {extra}");
            match join {
                _ if name == "older" => assert!(!extra.contains(" join on ("), "{sql}: {extra}"),
                Some(join) => assert!(extra.contains(&format!("{JOIN} {join}")), "{sql}: {extra}"),
                None => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_sends_partial_rows_of_what_it_joins() {
    let [(_, plain), _] = setups();
    let (fixture, mut session) = with_tables(plain).await;
    let session = &mut session;
    set(&fixture, session, "ndp_min_pages = 0").await;
    let (sql, _) = QUERIES[0];
    let before = status(&fixture, session, "ndp_rows").await;
    assert_eq!(answer(&fixture, session, sql).await.len(), 1);
    let rows = status(&fixture, session, "ndp_rows").await - before;
    // Those of the small table, and one for each part that a worker scans.
    assert!((201..300).contains(&rows), "{rows} rows");
    assert_eq!(status(&fixture, session, "ndp_pushed_join").await, 1);
    assert_eq!(status(&fixture, session, "ndp_not_pushed_join").await, 0);
    let analyzed = answer(&fixture, session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let text = analyzed.join("\n");
    assert!(
        text.contains("Using pushed NDP inner join on (k) with (s)"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_no_table_is_joined_as_ever() {
    let [(_, plain), _] = setups();
    let (fixture, mut session) = with_tables(plain).await;
    let session = &mut session;
    set(&fixture, session, "ndp_min_pages = 0").await;
    let duplicates = "FROM fact f JOIN dim ON f.k = dim.flag";
    let too_large = "FROM fact f JOIN dim ON f.k = dim.id";
    let cases = [
        (duplicates, 4 << 20, "two rows have the same key"),
        (
            too_large,
            1024,
            "its rows take more than ndp_join_table_memory",
        ),
    ];
    for (n, (from, memory, why)) in (1..).zip(cases) {
        let memory = format!("ndp_join_table_memory = {memory}");
        set(&fixture, session, &memory).await;
        let sql =
            format!("SELECT /*+ NDP_JOIN_TABLE(f) */ COUNT(*), SUM(f.id), SUM(dim.id) {from}");
        let other = sql.replace("NDP_JOIN_TABLE", "NO_NDP_JOIN_TABLE");
        let expected = answer(&fixture, session, &other).await;
        assert_eq!(
            status(&fixture, session, "ndp_not_pushed_join").await,
            2 * n - 2
        );
        assert_eq!(answer(&fixture, session, &sql).await, expected, "{sql}");
        assert_eq!(
            status(&fixture, session, "ndp_not_pushed_join").await,
            2 * n - 1
        );
        let analyzed = answer(&fixture, session, &format!("EXPLAIN ANALYZE {sql}")).await;
        let text = analyzed.join("\n");
        assert!(text.contains(why), "{text}");
    }
    // Without a hint, a table that is expected to be too large is not even begun.
    let sql = format!("SELECT COUNT(*), SUM(f.id), SUM(dim.id) {too_large}");
    let (_, extra) = explain(&fixture, session, &sql).await;
    assert!(!extra.contains(" join on ("), "{extra}");
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_others_are_joined_as_the_reader_sees_them() {
    for (name, setup) in setups() {
        let (fixture, mut session) = with_tables(setup).await;
        let session = &mut session;
        let mut writer = fixture.session();
        set(
            &fixture,
            session,
            "ndp_min_pages = 0, ndp_min_rows_per_group = 1",
        )
        .await;
        let (joined, _) = QUERIES[13];
        let expected = sorted(&fixture, session, joined).await;
        let writes = "USE test; BEGIN; UPDATE fact SET k = k + 1, d = d + 1 WHERE id % 3 = 0;
            DELETE FROM fact WHERE id % 7 = 1; DELETE FROM dim WHERE id % 2 = 0;
            INSERT INTO fact SELECT id + 100000, k, big, link, s, d, day, pad FROM fact WHERE id < 100";
        fixture.run(&mut writer, writes).await.unwrap();
        assert_eq!(sorted(&fixture, session, joined).await, expected, "{name}");
        fixture.run(&mut writer, "COMMIT").await.unwrap();
        let with = sorted(&fixture, session, joined).await;
        assert_ne!(with, expected, "{name}");
        set(&fixture, session, "ndp_mode = OFF").await;
        assert_eq!(with, sorted(&fixture, session, joined).await, "{name}");
    }
}
