//! What is rolled back was never there: not for those either who come by while it is taken back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_engine::Engine;
use perigee_engine::catalog::Table;
use perigee_engine::txn::{
    Isolation, LockMode, LockWait, RowLock, Transaction, TransactionOptions, Written,
};
use perigee_value::RecordView;

use super::live;
use super::mvcc::{key_of, ten_rows, values};

/// How long the tasks are at it.
const TIME: Duration = Duration::from_secs(3);

/// The row that is there.
const THERE: i64 = 1;

/// The row that is inserted and taken back again and again.
const NEVER: i64 = 20;

fn begin(engine: &Arc<Engine>) -> Transaction {
    engine.begin(TransactionOptions {
        isolation: Isolation::ReadCommitted,
        ..TransactionOptions::default()
    })
}

/// Changes one row, inserts the other, each of which nobody may find done, and rolls back.
async fn write(engine: Arc<Engine>, table: Arc<Table>, begun: Instant) {
    while begun.elapsed() < TIME {
        let mut transaction = begin(&engine);
        let (key, row) = (key_of(&table, THERE), values(THERE, 6));
        let written = transaction.update_row(&table, &key, &row).await;
        assert_eq!(written.unwrap(), Written::Done, "another's change is seen");
        transaction.rollback().await.unwrap();

        let mut transaction = begin(&engine);
        let written = transaction.insert_row(&table, &values(NEVER, 7)).await;
        assert_eq!(written.unwrap(), Written::Done, "another's row is seen");
        transaction.rollback().await.unwrap();
    }
}

/// Locks rows and looks at them.
async fn lock(engine: Arc<Engine>, table: Arc<Table>, wait: LockWait, begun: Instant) {
    let mut seen = 0;
    while begun.elapsed() < TIME {
        let mut transaction = begin(&engine);
        let key = key_of(&table, THERE);
        let locked = transaction.lock_row(&table, &key, LockMode::Shared, wait);
        match locked.await.unwrap() {
            RowLock::Locked(Some(row)) => {
                let row = RecordView::new(&table.clustered().layout, &row);
                assert_eq!(row.i128(1), 5, "what was rolled back is seen");
                seen += 1;
            }
            RowLock::Locked(None) => panic!("the row is there"),
            RowLock::Skipped => assert_eq!(wait, LockWait::Skip),
        }
        let key = key_of(&table, NEVER);
        let locked = transaction.lock_row(&table, &key, LockMode::Shared, wait);
        let locked = locked.await.unwrap();
        assert!(!matches!(locked, RowLock::Locked(Some(_))), "{locked:?}");
        transaction.rollback().await.unwrap();
        // Nothing here had to wait, perhaps.
        tokio::task::yield_now().await;
    }
    assert!(wait == LockWait::Skip || seen > 10, "{seen} times");
}

#[test]
fn nobody_finds_what_is_rolled_back_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, table) = ten_rows(dir.path()).await;
        let begun = Instant::now();
        let mut tasks = Vec::new();
        for number in 0..3 {
            let (engine, table) = (engine.clone(), table.clone());
            tasks.push(tokio::spawn(write(engine.clone(), table.clone(), begun)));
            let wait = match number {
                0 => LockWait::Wait,
                _ => LockWait::Skip,
            };
            tasks.push(tokio::spawn(lock(engine, table, wait, begun)));
        }
        for task in tasks {
            task.await.unwrap();
        }
        engine.shutdown().await.unwrap();
    });
}
