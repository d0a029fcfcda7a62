//! Transactions whose changes and undo are several times larger than the buffer pool: committed, rolled
//! back, undone to a savepoint, and rolled back after crashes, one of them in the middle of that.

use std::sync::Arc;
use std::time::Duration;

use perigee_engine::catalog::Table;
use perigee_engine::txn::{LockMode, LockWait, RowLock, Transaction, TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig};
use perigee_types::PAGE_SIZE;
use perigee_value::Datum;

use super::mvcc::{assert_clean, key_of};
use super::{definition, ids, live, open, request, run};

/// Pages of the pool; twice as many may be there for a moment.
const POOL: usize = 32;

const ROWS: i64 = 20_000;

fn tiny() -> EngineConfig {
    EngineConfig {
        buffer_pool: POOL * PAGE_SIZE,
        ..EngineConfig::default()
    }
}

fn values(id: i64, amount: i64) -> Vec<Datum> {
    let note = format!("{amount:>90}").into_bytes();
    vec![
        Datum::Int(id),
        Datum::Decimal(i128::from(amount)),
        Datum::String(note),
    ]
}

async fn made(engine: &Arc<Engine>) -> Arc<Table> {
    engine.create_schema("test").await.unwrap();
    engine.create_table(definition("t")).await.unwrap()
}

async fn fill(transaction: &mut Transaction, table: &Arc<Table>) {
    for first in (0..ROWS).step_by(1000) {
        let rows: Vec<_> = (first..first + 1000).map(|id| values(id, 1)).collect();
        transaction.insert(table, &rows).await.unwrap();
    }
}

/// Changes every row, deletes those with odd ids, and adds as many as there were.
async fn change(transaction: &mut Transaction, table: &Arc<Table>) {
    for id in 0..ROWS {
        let key = key_of(table, id);
        let written = match id % 2 {
            0 => {
                transaction
                    .update_row(table, &key, &values(id, id % 7 + 2))
                    .await
            }
            _ => transaction.delete_row(table, &key).await,
        };
        assert_eq!(written.unwrap(), Written::Done);
    }
    for first in (ROWS..2 * ROWS).step_by(1000) {
        let rows: Vec<_> = (first..first + 1000).map(|id| values(id, 9)).collect();
        transaction.insert(table, &rows).await.unwrap();
    }
}

/// Scans of both indexes give these rows, and nothing else is left in the trees.
async fn expect(engine: &Arc<Engine>, table: &Arc<Table>, rows: impl Iterator<Item = i64>) {
    let expected: Vec<_> = rows.map(|id| id as i32).collect();
    for ndp in [true, false] {
        let found = ids(&run(engine, request(engine, table, ndp)).await);
        assert!(found == expected, "ndp {ndp}: {} rows", found.len());
    }
    assert_clean(engine, table, expected.len() as u64).await;
}

fn changed() -> impl Iterator<Item = i64> {
    (0..2 * ROWS).filter(|id| *id >= ROWS || id % 2 == 0)
}

#[test]
fn a_transaction_larger_than_the_pool_commits_and_rolls_back() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), tiny()).await;
        let table = made(&engine).await;
        let mut transaction = engine.begin(TransactionOptions::default());
        fill(&mut transaction, &table).await;
        transaction.commit().await.unwrap();
        let pages: u64 = engine.verify_table(&table).await.unwrap()[0].leaf_pages;
        assert!(pages > 4 * POOL as u64, "only {pages} pages");

        let mut transaction = engine.begin(TransactionOptions::default());
        change(&mut transaction, &table).await;
        transaction.rollback().await.unwrap();
        expect(&engine, &table, 0..ROWS).await;

        let mut transaction = engine.begin(TransactionOptions::default());
        let cancel = Default::default();
        let before = transaction.begin_statement(&cancel);
        change(&mut transaction, &table).await;
        transaction.rollback_to(&before).await.unwrap();
        change(&mut transaction, &table).await;
        transaction.commit().await.unwrap();
        expect(&engine, &table, changed()).await;
        engine.shutdown().await.unwrap();
    });
    live(async {
        let engine = open(dir.path(), tiny()).await;
        let table = engine.table("test", "t").unwrap();
        expect(&engine, &table, changed()).await;
    });
}

#[test]
fn a_transaction_larger_than_the_pool_is_rolled_back_after_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = live(async {
        let engine = open(dir.path(), tiny()).await;
        let table = made(&engine).await;
        let mut transaction = engine.begin(TransactionOptions::default());
        fill(&mut transaction, &table).await;
        transaction.commit().await.unwrap();
        let mut transaction = engine.begin(TransactionOptions::default());
        change(&mut transaction, &table).await;
        let lsn = engine.sal().last_lsn();
        engine.sal().wait_durable(lsn).await.unwrap();
        transaction
    });
    // Without a runtime nothing is rolled back: as if the process died here.
    drop(unfinished);
    live(async {
        let engine = open(dir.path(), tiny()).await;
        // The next crash comes in the middle of the rollback.
        let begun = engine.sal().last_lsn();
        while engine.sal().last_lsn().0 < begun.0 + 1000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let lsn = engine.sal().last_lsn();
        engine.sal().wait_durable(lsn).await.unwrap();
    });
    live(async {
        let engine = open(dir.path(), tiny()).await;
        let table = engine.table("test", "t").unwrap();
        // What is not rolled back yet is locked, and nobody sees it.
        let mut transaction = engine.begin(TransactionOptions::default());
        let first = key_of(&table, 0);
        let refused = transaction.lock_row(&table, &first, LockMode::Shared, LockWait::Skip);
        assert_eq!(refused.await.unwrap(), RowLock::Skipped);
        let found = ids(&run(&engine, request(&engine, &table, true)).await);
        assert!(found.into_iter().map(i64::from).eq(0..ROWS));
        let locked = transaction.lock_row(&table, &first, LockMode::Shared, LockWait::Wait);
        assert!(matches!(locked.await.unwrap(), RowLock::Locked(Some(_))));
        transaction.rollback().await.unwrap();
        expect(&engine, &table, 0..ROWS).await;
    });
}
