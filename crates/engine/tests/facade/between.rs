//! A tree changes between the request of a scan and its answer, in every way there is; the scan sees
//! what its view sees, no row is lost and none comes twice. Forwards and backwards, by the clustered
//! and by a secondary index, reduced in storage and read into the buffer pool.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use perigee_engine::catalog::Table;
use perigee_engine::scan::ScanRequest;
use perigee_engine::txn::{ReadView, TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig};

use super::mvcc::{assert_clean, key_of};
use super::{definition, ids, insert, live, load, open_faulty, request, run};

/// Rows of a table, which have the even ids.
const ROWS: i64 = 12_000;

/// Where rows are changed: neighbours, so that their pages are split, or merged.
const SOME: std::ops::Range<i64> = 8_000..14_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Rows are inserted here and there, and fit their leaves.
    Insert,
    /// So many neighbours are inserted that leaves are split.
    SplitLeaves,
    /// The root is a leaf, and is split.
    SplitRoot,
    /// Rows are deleted: marked, because the scan's view sees them.
    DeleteMark,
    /// Rows that the scan does not see any more are removed; the leaves stay.
    Purge,
    /// So many neighbours are removed that leaves are merged.
    Merge,
    /// The pages that this frees are used again.
    Reuse,
}

const CHANGES: [Change; 7] = [
    Change::Insert,
    Change::SplitLeaves,
    Change::SplitRoot,
    Change::DeleteMark,
    Change::Purge,
    Change::Merge,
    Change::Reuse,
];

impl Change {
    /// Even ids at the beginning.
    fn rows(self) -> Vec<i64> {
        let rows = if self == Self::SplitRoot { 100 } else { ROWS };
        (0..rows).map(|i| 2 * i).collect()
    }

    /// Rows that are deleted before the scan begins, and removed while it waits.
    fn deleted_before(self, id: i64) -> bool {
        match self {
            Self::Purge => id % 500 == 0,
            Self::Merge | Self::Reuse => SOME.contains(&id),
            _ => false,
        }
    }

    /// Rows that are inserted meanwhile.
    fn inserted(self) -> Vec<i64> {
        match self {
            Self::Insert => (1..2 * ROWS).step_by(1000).collect(),
            Self::SplitLeaves | Self::Reuse => SOME.filter(|id| id % 2 == 1).collect(),
            Self::SplitRoot => (1..2000).step_by(2).collect(),
            _ => Vec::new(),
        }
    }

    fn deleted(self, id: i64) -> bool {
        self == Self::DeleteMark && SOME.contains(&id)
    }

    /// Whether the number of leaves must have become another one.
    fn shows(self, before: u64, after: u64) -> bool {
        match self {
            Self::Insert | Self::DeleteMark | Self::Purge => after == before,
            Self::SplitLeaves | Self::SplitRoot => after > before,
            Self::Merge => after < before,
            Self::Reuse => true,
        }
    }
}

async fn leaves(engine: &Engine, table: &Table) -> u64 {
    engine.verify_table(table).await.unwrap()[0].leaf_pages
}

async fn delete(engine: &Arc<Engine>, table: &Arc<Table>, ids: impl Iterator<Item = i64>) {
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in ids {
        let deleted = transaction.delete_row(table, &key_of(table, id)).await;
        assert_eq!(deleted.unwrap(), Written::Done);
    }
    transaction.commit().await.unwrap();
}

/// What happens to the table; `old` is what keeps deleted rows from being removed until then.
async fn happen(
    change: Change,
    engine: Arc<Engine>,
    table: Arc<Table>,
    old: Option<Arc<ReadView>>,
) {
    if old.is_some() {
        drop(old);
        for _ in 0..2000 {
            if engine.history_length() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(engine.history_length(), 0, "nothing was removed");
    }
    insert(&engine, &table, change.inserted().into_iter()).await;
    if change == Change::DeleteMark {
        let ids = change.rows().into_iter().filter(|id| change.deleted(*id));
        delete(&engine, &table, ids).await;
    }
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    ndp: bool,
    reverse: bool,
    index: usize,
}

fn config(mode: Mode) -> EngineConfig {
    EngineConfig {
        // So small that pages have to be read.
        buffer_pool: 512 << 10,
        past_pool: mode.ndp,
        ..EngineConfig::default()
    }
}

async fn scan_through(change: Change, mode: Mode, dir: &Path) {
    let (engine, faults) = open_faulty(dir, config(mode)).await;
    let table = engine.table("test", "t").unwrap();
    let mut old = None;
    let mut expected = change.rows();
    if expected.iter().any(|id| change.deleted_before(*id)) {
        old = Some(engine.read_view());
        let ids = expected.iter().copied();
        delete(&engine, &table, ids.filter(|id| change.deleted_before(*id))).await;
        expected.retain(|id| !change.deleted_before(*id));
    }
    if !mode.ndp {
        // A page stays in the pool until its Page Store has its last change.
        let sal = engine.sal();
        sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
        // Pages of the other index take the place of those that were just changed.
        let other = ScanRequest {
            index: 1 - mode.index,
            projection: Vec::new(),
            ..request(&engine, &table, false)
        };
        run(&engine, other).await;
    }
    let request = ScanRequest {
        index: mode.index,
        reverse: mode.reverse,
        projection: vec![mode.index as u16],
        look_ahead: Some(20),
        ..request(&engine, &table, mode.ndp)
    };
    let wait = match mode.ndp {
        true => Duration::from_secs(60),
        // A change may need a leaf that is being read.
        false => Duration::from_millis(100),
    };
    let happens = happen(change, engine.clone(), table.clone(), old);
    faults.before_next_read(mode.ndp, happens, wait);
    let batches = run(&engine, request).await;
    assert!(
        faults.happened().await,
        "{change:?} {mode:?}: nothing was read"
    );
    let mut found: Vec<_> = ids(&batches).into_iter().map(i64::from).collect();
    if mode.index > 0 {
        found.sort_unstable();
    } else if mode.reverse {
        found.reverse();
    }
    assert!(
        found == expected,
        "{change:?} {mode:?}: {} rows instead of {}",
        found.len(),
        expected.len()
    );
    // And the change was made.
    let mut rows = expected.len() + change.inserted().len();
    rows -= expected.iter().filter(|id| change.deleted(**id)).count();
    assert_clean(&engine, &table, rows as u64).await;
    engine.shutdown().await.unwrap();
}

fn check(change: Change, mode: Mode) {
    let dir = tempfile::tempdir().unwrap();
    let before = live(async {
        let (engine, _) = open_faulty(dir.path(), config(mode)).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, change.rows().into_iter()).await;
        let before = leaves(&engine, &table).await;
        engine.shutdown().await.unwrap();
        before
    });
    // A frontend that has nothing in its pool.
    live(scan_through(change, mode, dir.path()));
    let after = live(async {
        let (engine, _) = open_faulty(dir.path(), config(mode)).await;
        let table = engine.table("test", "t").unwrap();
        leaves(&engine, &table).await
    });
    assert!(
        change == Change::DeleteMark || change.shows(before, after),
        "{change:?} made {after} leaves of {before}"
    );
}

fn check_all(ndp: bool) {
    for change in CHANGES {
        for (reverse, index) in [
            (false, 0),
            (true, 0),
            ((change as usize).is_multiple_of(2), 1),
        ] {
            check(
                change,
                Mode {
                    ndp,
                    reverse,
                    index,
                },
            );
        }
    }
}

#[test]
fn trees_change_between_a_request_and_its_answer_from_storage() {
    check_all(true);
}

#[test]
fn trees_change_while_their_leaves_are_read_into_the_pool() {
    check_all(false);
}
