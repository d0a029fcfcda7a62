//! Trees get small again when purge and rollback remove records, under readers of all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt;
use perigee_engine::catalog::Table;
use perigee_engine::scan::{CancelToken, KeyBatches, KeySpans, LookupRequest};
use perigee_engine::txn::{ReadView, TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig};

use super::mvcc::{assert_clean, key_of};
use super::{definition, ids, insert, live, open, request, row, run};

async fn leaves(engine: &Engine, table: &Table) -> Vec<u64> {
    let trees = engine.verify_table(table).await.unwrap();
    trees.iter().map(|tree| tree.leaf_pages).collect()
}

#[test]
fn purge_and_rollback_leave_small_trees() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        insert(&engine, &table, 0..3000).await;
        let full = leaves(&engine, &table).await;
        assert!(full.iter().all(|leaves| *leaves > 4), "{full:?}");
        let before = engine.read_view();
        let mut transaction = engine.begin(TransactionOptions::default());
        for id in (0..3000).filter(|id| id % 300 != 0) {
            let deleted = transaction.delete_row(&table, &key_of(&table, id)).await;
            assert_eq!(deleted.unwrap(), Written::Done);
        }
        transaction.commit().await.unwrap();
        for path in 0..4 {
            let rows = seen(&engine, &table, before.clone(), path).await;
            assert!(rows.into_iter().eq(0..3000), "by path {path}");
        }
        drop(before);
        assert_clean(&engine, &table, 10).await;
        assert_eq!(leaves(&engine, &table).await, vec![1; full.len()]);
        let mut transaction = engine.begin(TransactionOptions::default());
        let rows: Vec<_> = (10_000..13_000).map(row).collect();
        transaction.insert(&table, &rows).await.unwrap();
        assert!(
            leaves(&engine, &table)
                .await
                .iter()
                .all(|leaves| *leaves > 4)
        );
        transaction.rollback().await.unwrap();
        assert_clean(&engine, &table, 10).await;
        assert_eq!(leaves(&engine, &table).await, vec![1; full.len()]);
        engine.shutdown().await.unwrap();
    });
}

/// Ids of the rows that a view sees, in order: by scans without and with near-data processing, by the
/// secondary index and the rows that its entries lead to, and by its entries alone.
async fn seen(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    view: Arc<ReadView>,
    path: u64,
) -> Vec<i64> {
    let batches = if path % 4 < 2 {
        let mut request = request(engine, table, path % 4 == 1);
        request.view = view;
        run(engine, request).await
    } else {
        let fetch = path % 4 == 2;
        let request = LookupRequest {
            table: table.clone(),
            index: 1,
            fetch,
            key_columns: 1,
            key_batches: KeyBatches::Never,
            projection: vec![if fetch { 0 } else { 1 }],
            predicate: None,
            view,
            cancel: CancelToken::new(),
        };
        let lookups = engine.lookups(request).unwrap();
        let range = lookups.spans(&KeySpans::all(), path % 8 < 4);
        range.try_collect().await.unwrap()
    };
    let mut ids: Vec<_> = ids(&batches).into_iter().map(i64::from).collect();
    ids.sort_unstable();
    ids
}

const QUEUED: i64 = 600;
const STEP: i64 = 60;

/// Each transaction adds rows at one end of a table and deletes as many at the other.
async fn shift(engine: &Arc<Engine>, table: &Arc<Table>, from: i64) {
    let mut transaction = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (from + QUEUED..from + QUEUED + STEP).map(row).collect();
    transaction.insert(table, &rows).await.unwrap();
    for id in from..from + STEP {
        let deleted = transaction.delete_row(table, &key_of(table, id)).await;
        assert_eq!(deleted.unwrap(), Written::Done);
    }
    transaction.commit().await.unwrap();
}

/// A view sees a whole queue, by any path.
async fn watch(engine: Arc<Engine>, table: Arc<Table>, first: u64, ends: Arc<AtomicBool>) -> u64 {
    let mut path = first;
    while !ends.load(Ordering::SeqCst) || path < first + 8 {
        let rows = seen(&engine, &table, engine.read_view(), path).await;
        let (first, count) = (rows[0], rows.len());
        let whole = rows.into_iter().eq(first..first + QUEUED);
        assert!(
            whole && first % STEP == 0,
            "{count} rows from {first} by path {path}"
        );
        path += 1;
    }
    path - first
}

fn queue(config: EngineConfig) {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), config).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        insert(&engine, &table, 0..QUEUED).await;
        let ends = Arc::new(AtomicBool::new(false));
        let watchers: Vec<_> = [0, 1, 2]
            .map(|path| tokio::spawn(watch(engine.clone(), table.clone(), path, ends.clone())))
            .into();
        for turn in 0..100 {
            shift(&engine, &table, turn * STEP).await;
        }
        ends.store(true, Ordering::SeqCst);
        for watcher in watchers {
            assert!(watcher.await.unwrap() >= 8);
        }
        assert_clean(&engine, &table, QUEUED as u64).await;
        let leaves = leaves(&engine, &table).await;
        assert!(leaves.iter().all(|leaves| *leaves <= 6), "{leaves:?}");
        // Page numbers are handed out in extents of 64, which are few for ten times the rows.
        let other = engine.create_table(definition("u")).await.unwrap();
        let used = other.clustered().root.0 - table.clustered().root.0;
        assert!(used <= 64 * 12, "{used} page numbers");
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn a_queue_in_a_table_is_seen_whole_and_stays_small() {
    queue(EngineConfig::default());
}

#[test]
fn and_so_it_is_if_everything_is_read_from_storage_behind_splits() {
    queue(EngineConfig {
        past_pool: true,
        buffer_pool: 1 << 20,
        split_behind_scans: true,
        ..EngineConfig::default()
    });
}
