//! Filters of joins: answers are those without them, EXPLAIN says where there are some, and rows are left out.

use super::*;

const FACTS: i64 = 6000;

pub(super) async fn with_tables(setup: Setup) -> (Fixture, Session) {
    let fixture = Fixture::new(setup).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE fact (id INT NOT NULL PRIMARY KEY, k INT, big BIGINT NOT NULL, link INT NOT NULL,
            s VARCHAR(20) COLLATE utf8mb4_general_ci, d DECIMAL(12,2), day DATE NOT NULL, pad VARCHAR(200) NOT NULL);
        CREATE TABLE dim (id INT NOT NULL PRIMARY KEY, k INT, s VARCHAR(30) COLLATE utf8mb4_general_ci,
            d DECIMAL(12,2), day DATE NOT NULL, flag INT NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let null = |value: String, is_null| if is_null { "\\N".to_owned() } else { value };
    let facts = (0..FACTS).map(|id| {
        let key = id % 500;
        format!(
            "{id}|{}|{key}|{}|{}|{}|2024-{:02}-{:02}|{:x<150}\n",
            null(key.to_string(), id % 17 == 0),
            id * 7 % FACTS,
            null(format!("name {key}"), id % 19 == 0),
            null(format!("{}.25", key % 100), id % 23 == 0),
            1 + key % 12,
            1 + key % 28,
            id
        )
    });
    let dims = (0..200).map(|id| {
        let key = id * 5;
        format!(
            "{id}|{}|{}|{}.25|2024-{:02}-{:02}|{}\n",
            null(key.to_string(), id % 31 == 0),
            // Other letters, and trailing spaces.
            format_args!("NAME {key}{}", ["", "  "][id % 2]),
            key % 100,
            1 + key % 12,
            1 + key % 28,
            id % 10
        )
    });
    let facts: String = facts.collect();
    let dims: String = dims.collect();
    for (table, text) in [("fact", facts), ("dim", dims)] {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        let text = text.into_bytes();
        fixture.run_with(&mut session, &sql, text).await.unwrap();
    }
    (fixture, session)
}

/// Queries, and what EXPLAIN says of the filter if there has to be one.
const QUERIES: &[(&str, Option<&str>)] = &[
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.k = dim.k WHERE dim.flag < 3",
        Some("Using join filter on (k)"),
    ),
    // A column and its alias have the same name on both sides.
    (
        "SELECT f.id, dim.id FROM dim JOIN fact f ON dim.day = f.day AND dim.k = f.k WHERE dim.flag = 1",
        Some("Using join filter on ("),
    ),
    // An integer in a wider type.
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.big = dim.k WHERE dim.flag < 3",
        Some("Using join filter on (big)"),
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.s = dim.s WHERE dim.flag < 3",
        Some("Using join filter on (s)"),
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.d = dim.d WHERE dim.flag = 3",
        Some("Using join filter on (d)"),
    ),
    // Nothing on the build side.
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.k = dim.k WHERE dim.flag > 100",
        None,
    ),
    // More keys than a list has.
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN fact g ON f.link = g.link WHERE g.big < 150",
        Some("Using join filter on (link)"),
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f WHERE f.k IN (SELECT k FROM dim WHERE flag < 3)",
        None,
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f WHERE f.k NOT IN (SELECT k FROM dim WHERE flag < 3 AND k > 0)",
        None,
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f
         WHERE NOT EXISTS (SELECT 1 FROM dim WHERE dim.k = f.k AND flag < 3)",
        None,
    ),
    (
        "SELECT COUNT(*), SUM(f.id) FROM fact f JOIN dim ON f.k <=> dim.k WHERE dim.flag < 3",
        None,
    ),
    (
        "SELECT COUNT(*), COUNT(f.id), SUM(f.id) FROM dim LEFT JOIN fact f ON f.k = dim.k AND dim.flag < 3",
        None,
    ),
    (
        "SELECT COUNT(*), COUNT(dim.id), SUM(f.id) FROM fact f LEFT JOIN dim ON f.k = dim.k AND dim.flag < 3",
        None,
    ),
    // Through a join below, an aggregation, a union, a projection.
    (
        "SELECT COUNT(*), SUM(f.id), SUM(g.id) FROM fact f JOIN fact g ON f.link = g.id
         JOIN dim ON dim.k = g.k WHERE dim.flag = 2",
        None,
    ),
    (
        "SELECT dim.id, x.n, x.total FROM dim
         JOIN (SELECT k, COUNT(*) n, SUM(d) total FROM fact GROUP BY k) x ON x.k = dim.k WHERE dim.flag = 4",
        Some("Using join filter on (k)"),
    ),
    (
        "SELECT COUNT(*), SUM(u.id) FROM (SELECT id, k FROM fact WHERE id < 3000 UNION ALL
         SELECT id + 1, k FROM fact WHERE id > 2000) u JOIN dim ON u.k = dim.k WHERE dim.flag = 5",
        None,
    ),
    // Not below a LIMIT: other rows would be the first.
    (
        "SELECT COUNT(*), SUM(f.id) FROM (SELECT id, k FROM fact ORDER BY id LIMIT 100) f
         JOIN dim ON f.k = dim.k WHERE dim.flag = 5",
        None,
    ),
    (
        "SELECT SUM(n) FROM (SELECT COUNT(*) n FROM fact f JOIN dim ON f.k = dim.k AND f.s = dim.s
         WHERE dim.flag IN (1, 2) GROUP BY f.day) x",
        Some("Using join filter on ("),
    ),
];

pub(super) async fn sorted(fixture: &Fixture, session: &mut Session, sql: &str) -> Vec<String> {
    let mut rows = answer(fixture, session, sql).await;
    rows.sort_unstable();
    rows
}

pub(super) async fn set(fixture: &Fixture, session: &mut Session, variables: &str) {
    let sql = format!("SET {variables}");
    fixture.run(session, &sql).await.unwrap();
}

/// Databases whose storage reduces pages though they are in the buffer pool; in the second one, it decides on no record and
/// declines pages.
pub(super) fn setups() -> [(&'static str, Setup); 2] {
    let past_pool = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    let hostile = Setup {
        engine: EngineConfig {
            all_ambiguous: true,
            interpret: true,
            ..past_pool.clone()
        },
        pages: perigee_page_store::Config {
            decline_every: Some(3),
            ..Default::default()
        },
        ..Setup::default()
    };
    let plain = Setup {
        engine: past_pool,
        ..Setup::default()
    };
    [("plain", plain), ("hostile", hostile)]
}

/// Runs queries without near-data processing, with it but without a kind of filter, and with that, in databases of
/// several kinds: answers are the same. EXPLAIN says what it has to, and `kind` nowhere but with the filter.
pub(super) async fn compare(queries: &[(&str, Option<&str>)], switch: &str, kind: &str) {
    let [(_, plain), (_, hostile)] = setups();
    let older = Setup {
        older_store: true,
        ..plain.clone()
    };
    for (name, setup) in [("plain", plain), ("hostile", hostile), ("older", older)] {
        let (fixture, mut session) = with_tables(setup).await;
        let session = &mut session;
        for (sql, filter) in queries {
            set(&fixture, session, "ndp_mode = OFF").await;
            let expected = sorted(&fixture, session, sql).await;
            let off = format!("ndp_mode = ON, ndp_min_pages = 0, {switch} = OFF");
            set(&fixture, session, &off).await;
            assert_eq!(
                sorted(&fixture, session, sql).await,
                expected,
                "{name}, none: {sql}"
            );
            let (_, extra) = explain(&fixture, session, sql).await;
            assert!(!extra.contains(kind), "{sql}: {extra}");
            set(&fixture, session, &format!("{switch} = ON")).await;
            assert_eq!(
                sorted(&fixture, session, sql).await,
                expected,
                "{name}: {sql}"
            );
            let (_, extra) = explain(&fixture, session, sql).await;
            if name == "older" {
                let used = format!("Using {kind}");
                assert!(!extra.contains(&used), "{sql}: {extra}");
                let said = extra.contains("a Page Store of an older version");
                assert!(said || filter.is_none(), "{sql}: {extra}");
            } else if let Some(filter) = filter {
                assert!(extra.contains(filter), "{sql}: {extra}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_and_without() {
    compare(QUERIES, "ndp_join_filters", "join filter").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_left_out_in_storage_and_counted() {
    let (fixture, mut session) = with_tables(Setup {
        engine: EngineConfig {
            past_pool: true,
            ..EngineConfig::default()
        },
        ..Setup::default()
    })
    .await;
    let session = &mut session;
    set(&fixture, session, "ndp_mode = ON, ndp_min_pages = 0").await;
    let query = "f.id, f.pad FROM fact f JOIN dim ON f.k = dim.k WHERE dim.id IN (2, 4)";
    let analyzed = |hint: &str| format!("EXPLAIN ANALYZE SELECT {hint} {query}");
    let value = |text: &str, name: &str| -> u64 {
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(name));
        let values = lines.filter_map(|value| value.trim().parse::<u64>().ok());
        values.max().unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let with = answer(&fixture, session, &analyzed("")).await.join("\n");
    let hint = "/*+ NO_NDP_JOIN_FILTER(f) */";
    let without = answer(&fixture, session, &analyzed(hint)).await.join("\n");
    assert!(with.contains("join filter on (k): list, "), "{with}");
    assert!(!without.contains("join filter"), "{without}");
    // All but the few rows with one of two keys.
    let left_out = value(&with, "rows_filtered:");
    assert!((5900..6000).contains(&left_out), "{with}");
    assert_eq!(value(&without, "rows_filtered:"), 0);
    let shipped = [&with, &without].map(|text| value(text, "bytes_shipped:"));
    assert!(shipped[0] * 10 < shipped[1], "{shipped:?}");
    // A hint wins over the variable.
    set(&fixture, session, "ndp_join_filters = OFF").await;
    let (_, extra) = explain(&fixture, session, &format!("SELECT {query}")).await;
    assert!(!extra.contains("join filter"), "{extra}");
    let hinted = format!("SELECT /*+ NDP_JOIN_FILTER(f) */ {query}");
    let (_, extra) = explain(&fixture, session, &hinted).await;
    assert!(extra.contains("Using join filter on (k)"), "{extra}");
    let counted = answer(&fixture, session, "SHOW STATUS LIKE 'ndp_rows_filtered'").await;
    assert_eq!(counted, [format!("ndp_rows_filtered|{left_out}")]);
}
