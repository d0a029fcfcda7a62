//! What a start finds of transactions that ended before it is purged while it rolls back what had not ended:
//! whichever comes to a row first, nothing is left of it.

use std::sync::Arc;

use perigee_engine::catalog::Table;
use perigee_engine::txn::{TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig};
use perigee_testkit::Faults;

use super::mvcc::{assert_clean, key_of, values};
use super::{definition, live, open, open_with};

/// Enough for the one to overtake the other amid them.
const ROWS: i64 = 500;

async fn insert_all(engine: &Arc<Engine>, table: &Arc<Table>, amount: i64) {
    let mut transaction = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (0..ROWS).map(|id| values(id, amount)).collect();
    transaction.insert(table, &rows).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn delete_all(engine: &Arc<Engine>, table: &Arc<Table>) {
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in 0..ROWS {
        let deleted = transaction.delete_row(table, &key_of(table, id)).await;
        assert_eq!(deleted.unwrap(), Written::Done);
    }
    transaction.commit().await.unwrap();
}

/// Each row was there with several values in turn, so that entries of deleted versions lie behind each other in the
/// index; the last one had not been committed.
#[test]
fn rows_that_a_start_removes_leave_no_entries_of_older_versions() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        // Nothing is purged before the process ends.
        let view = engine.read_view();
        for amount in 1..=4 {
            insert_all(&engine, &table, amount).await;
            delete_all(&engine, &table).await;
        }
        let mut transaction = engine.begin(TransactionOptions::default());
        for id in 0..ROWS {
            let inserted = transaction.insert_row(&table, &values(id, 5)).await;
            assert_eq!(inserted.unwrap(), Written::Done);
        }
        let last = engine.sal().last_lsn();
        engine.sal().wait_durable(last).await.unwrap();
        (transaction, view)
    });
    // Without a runtime nothing is rolled back: as if the process died here.
    drop(unfinished);
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = engine.table("test", "t").unwrap();
        assert_clean(&engine, &table, 0).await;
        engine.shutdown().await.unwrap();
    });
}

/// A page that cannot be read any more keeps what it has, and nothing else.
#[test]
fn a_damaged_page_stops_the_purge_of_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (unfinished, root) = live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let damaged = engine.create_table(definition("damaged")).await.unwrap();
        let sound = engine.create_table(definition("sound")).await.unwrap();
        let view = engine.read_view();
        for table in [&damaged, &sound] {
            insert_all(&engine, table, 1).await;
            delete_all(&engine, table).await;
        }
        // One transaction has changed both, the damaged one first.
        let mut transaction = engine.begin(TransactionOptions::default());
        for table in [&damaged, &sound] {
            let rows: Vec<_> = (0..ROWS).map(|id| values(id, 2)).collect();
            transaction.insert(table, &rows).await.unwrap();
        }
        transaction.commit().await.unwrap();
        let mut transaction = engine.begin(TransactionOptions::default());
        for table in [&damaged, &sound] {
            for id in 0..ROWS {
                let deleted = transaction.delete_row(table, &key_of(table, id)).await;
                assert_eq!(deleted.unwrap(), Written::Done);
            }
        }
        transaction.commit().await.unwrap();
        (view, damaged.indexes[1].root)
    });
    drop(unfinished);
    live(async {
        let faults = Arc::new(Faults::default());
        faults.damage(root);
        let engine = open_with(dir.path(), EngineConfig::default(), &faults).await;
        let sound = engine.table("test", "sound").unwrap();
        assert_clean(&engine, &sound, 0).await;
        insert_all(&engine, &sound, 3).await;
        delete_all(&engine, &sound).await;
        assert_clean(&engine, &sound, 0).await;
        engine.shutdown().await.unwrap();
    });
}
