//! LIMIT without an order that has to be made: storage stops where there are rows enough.

use std::collections::HashMap;

use super::join_filters::{set, with_tables};
use super::*;

/// Queries without their LIMIT, and whether their order says which rows come.
const QUERIES: &[(&str, bool)] = &[
    ("SELECT id, pad FROM fact WHERE big % 7 = 3", false),
    ("SELECT id, link FROM fact WHERE k > 250", false),
    ("SELECT id FROM fact WHERE pad LIKE '%1%' ORDER BY id", true),
    (
        "SELECT id, k FROM fact WHERE big % 5 = 1 ORDER BY id DESC",
        true,
    ),
    (
        "SELECT x.id + 1 FROM (SELECT id, link FROM fact WHERE link % 3 = 1) x",
        false,
    ),
    ("SELECT id FROM fact WHERE k IS NULL", false),
    ("SELECT id FROM fact WHERE k > 1000000", false),
];

const LIMITS: [usize; 5] = [0, 1, 10, 700, 1_000_000];

async fn fixture(all_ambiguous: bool) -> (Fixture, Session) {
    with_tables(Setup {
        engine: EngineConfig {
            past_pool: true,
            all_ambiguous,
            ..EngineConfig::default()
        },
        ..Setup::default()
    })
    .await
}

/// How often each row is there.
fn counted(rows: &[String]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for row in rows {
        *counts.entry(row.as_str()).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_the_whole_answer() {
    for all_ambiguous in [false, true] {
        let (fixture, mut session) = fixture(all_ambiguous).await;
        let session = &mut session;
        set(&fixture, session, "ndp_min_pages = 0").await;
        for mode in ["ndp_mode = ON", "ndp_mode = OFF"] {
            set(&fixture, session, mode).await;
            for (query, is_ordered) in QUERIES {
                let all = answer(&fixture, session, query).await;
                for limit in LIMITS {
                    let limited = format!("{query} LIMIT {limit}");
                    let some = answer(&fixture, session, &limited).await;
                    assert_eq!(some.len(), limit.min(all.len()), "{mode}: {limited}");
                    if *is_ordered {
                        assert_eq!(some, all[..some.len()], "{mode}: {limited}");
                    }
                    // No row comes twice.
                    let mut left = counted(&all);
                    for (row, count) in counted(&some) {
                        let left = left.remove(row).unwrap_or(0);
                        assert!(count <= left, "{mode}: {limited}: {row}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_reads_few_pages() {
    let (fixture, mut session) = fixture(false).await;
    let session = &mut session;
    set(&fixture, session, "ndp_mode = ON, ndp_min_pages = 0").await;
    let read = |text: &str| -> u64 {
        let lines = text.lines().map(str::trim);
        let mut values = lines.filter_map(|line| line.strip_prefix("bytes_read_in_storage:"));
        values.next().unwrap().trim().parse().unwrap()
    };
    let analyze = "EXPLAIN ANALYZE SELECT id, pad FROM fact WHERE big % 7 = 3";
    let all = answer(&fixture, session, analyze).await.join("\n");
    let limited = format!("{analyze} LIMIT 3");
    let few = answer(&fixture, session, &limited).await.join("\n");
    assert!(few.contains("Using pushed NDP limit 3"), "{few}");
    assert!(!all.contains("NDP limit"), "{all}");
    assert!(2 * read(&few) < read(&all), "{few}\n{all}");
}
