//! Thresholds of sorts with a limit: answers are those without them, EXPLAIN says where there are some, and storage
//! ships few rows.

use super::join_filters::{compare, set, with_tables};
use super::*;

/// Queries, and what EXPLAIN says of the filter if there has to be one. Their orders leave no choice.
const QUERIES: &[(&str, Option<&str>)] = &[
    (
        "SELECT id, pad FROM fact ORDER BY link LIMIT 10",
        Some("Using top-k filter on (link)"),
    ),
    (
        "SELECT id, pad FROM fact ORDER BY link DESC LIMIT 7, 5",
        Some("Using top-k filter on (link)"),
    ),
    // Most rows have a key that others have, too.
    (
        "SELECT id FROM fact ORDER BY big, link LIMIT 20",
        Some("Using top-k filter on (big, link)"),
    ),
    // In two directions.
    (
        "SELECT id FROM fact ORDER BY big DESC, link LIMIT 20",
        Some("Using top-k filter on (big)"),
    ),
    // NULL comes first, or last; nothing is said of what comes behind such a column.
    (
        "SELECT id, k FROM fact ORDER BY k, link LIMIT 400",
        Some("Using top-k filter on (k)"),
    ),
    (
        "SELECT id, k FROM fact ORDER BY k DESC, link DESC LIMIT 30",
        Some("Using top-k filter on (k)"),
    ),
    (
        "SELECT id, d FROM fact WHERE k > 250 ORDER BY d DESC, link LIMIT 9",
        Some("Using top-k filter on (d)"),
    ),
    (
        "SELECT day, link FROM fact WHERE big % 7 = 3 ORDER BY day DESC, link DESC LIMIT 9",
        Some("Using top-k filter on (day, link)"),
    ),
    // Strings order by more than their keys, and expressions are no columns.
    ("SELECT id FROM fact ORDER BY s, link LIMIT 10", None),
    (
        "SELECT id FROM fact ORDER BY link % 100, link LIMIT 10",
        None,
    ),
    // A condition that storage does not know stands between.
    (
        "SELECT id, link FROM fact WHERE MD5(link) LIKE 'a%' ORDER BY link LIMIT 10",
        None,
    ),
    // Joins between drop and multiply rows.
    (
        "SELECT f.id, dim.id FROM fact f JOIN dim ON f.k = dim.k ORDER BY f.link DESC, dim.id LIMIT 10",
        None,
    ),
    (
        "SELECT f.link, dim.id FROM fact f LEFT JOIN dim ON f.k = dim.k AND dim.flag = 3
         ORDER BY f.link, dim.id LIMIT 15",
        None,
    ),
    (
        "SELECT f.link FROM fact f WHERE f.k NOT IN (SELECT k FROM dim WHERE k > 0) ORDER BY f.link DESC LIMIT 15",
        None,
    ),
    (
        "SELECT f.link FROM fact f WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = f.k AND flag < 3)
         ORDER BY f.link LIMIT 15",
        None,
    ),
    // Groups, and their parts.
    (
        "SELECT big, COUNT(*) n, MIN(link) FROM fact GROUP BY big ORDER BY big DESC LIMIT 12",
        None,
    ),
    (
        "SELECT * FROM (SELECT link, id FROM fact ORDER BY link LIMIT 500) x ORDER BY id DESC LIMIT 12",
        None,
    ),
    (
        "SELECT link, x FROM (SELECT link, 1 AS x FROM fact WHERE big < 100 UNION ALL
         SELECT id, 2 FROM fact WHERE id % 3 = 1) u ORDER BY link DESC, x LIMIT 21",
        None,
    ),
    (
        "SELECT DISTINCT big FROM fact ORDER BY big DESC LIMIT 12",
        None,
    ),
    (
        "SELECT link, ROW_NUMBER() OVER (ORDER BY id) n FROM fact ORDER BY link LIMIT 12",
        None,
    ),
    // More than are remembered, none, and more than there are.
    ("SELECT id FROM fact ORDER BY link LIMIT 5000", None),
    ("SELECT id FROM fact ORDER BY link LIMIT 0", None),
    ("SELECT id FROM fact ORDER BY link LIMIT 5990, 20", None),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_and_without() {
    compare(QUERIES, "ndp_top_filters", "top-k filter").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_shipped() {
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
    let analyze = "EXPLAIN ANALYZE SELECT id, pad FROM fact ORDER BY link LIMIT 10";
    let shipped = |text: &str| -> u64 {
        let lines = text.lines().map(str::trim);
        let mut values = lines.filter_map(|line| line.strip_prefix("bytes_shipped:"));
        values.next().unwrap().trim().parse().unwrap()
    };
    let with = answer(&fixture, session, analyze).await.join("\n");
    assert!(with.contains("top-k filter on (link): range"), "{with}");
    set(&fixture, session, "ndp_top_filters = OFF").await;
    let without = answer(&fixture, session, analyze).await.join("\n");
    assert!(!without.contains("top-k"), "{without}");
    assert!(10 * shipped(&with) < shipped(&without), "{with}\n{without}");
    // What comes back costs as much less.
    let returned = |text: &str| -> f64 {
        let (_, rest) = text.split_once("returned ").unwrap();
        rest.split_once(',').unwrap().0.parse().unwrap()
    };
    set(&fixture, session, "price_gib_returned = 1000").await;
    let expensive = answer(&fixture, session, analyze).await.join("\n");
    let ratio = returned(&expensive) / (shipped(&expensive) as f64 / 1.073_741_824);
    assert!((0.99..1.01).contains(&ratio), "{expensive}");
    let counted = "SHOW STATUS LIKE 'ndp_cost_microdollars'";
    let counted = answer(&fixture, session, counted).await.join("");
    let micros: f64 = counted.rsplit('|').next().unwrap().parse().unwrap();
    assert!(micros >= returned(&expensive).floor(), "{counted}");
}
