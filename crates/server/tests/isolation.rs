//! Concurrent transactions at each level of isolation on real processes: their recorded history shows
//! nothing that the level forbids, scans beside them are right, and every index agrees with its table.
//!
//! `perigee-bench isolation` is the same with a million transactions. `PERIGEE_TRANSACTIONS` sets the
//! number here.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::path::Path;

use perigee_bench::commands::{IsolationOptions, Subject, isolation};
use perigee_bench::isolation::IsolationFigures;
use perigee_history::Level;
use support::binary;

fn options(dir: &Path, subject: Subject, levels: &[Level], share: u64) -> IsolationOptions {
    let transactions = std::env::var("PERIGEE_TRANSACTIONS");
    let transactions: u64 = transactions.map_or(600, |n| n.parse().unwrap());
    IsolationOptions {
        binary: binary(),
        dir: dir.to_owned(),
        subject,
        levels: levels.to_vec(),
        transactions: transactions / share,
        connections: 16,
        accounts: 500,
        seed: 1,
        prepared: false,
    }
}

async fn figures(subject: Subject, levels: &[Level], share: u64) -> Vec<IsolationFigures> {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), subject, levels, share);
    isolation(&options).await.unwrap()
}

fn assert_right(figures: &[IsolationFigures]) {
    for level in figures {
        assert!(level.wrong.is_empty(), "{level}");
        assert!(
            level.committed > level.transactions / 4,
            "most failed: {level}"
        );
        assert!(level.scans.accounts > 0 && level.scans.lists > 0, "{level}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_level_keeps_what_it_promises_in_one_process() {
    assert_right(&figures(Subject::Embedded, &Level::ALL, 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_level_keeps_what_it_promises_on_a_cluster() {
    assert_right(&figures(Subject::Cluster, &Level::ALL, 3).await);
}

/// The method finds what a database does that permits more: InnoDB's REPEATABLE READ, as it comes,
/// loses updates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_updates_of_another_database_are_found() {
    let levels = [Level::SnapshotIsolation];
    let figures = figures(Subject::MariaDbDefault, &levels, 1).await;
    let found = &figures[0].phenomena;
    assert!(found.contains_key("G-single"), "{}", figures[0]);
    assert!(!figures[0].wrong.is_empty());
}
