//! Transfers between accounts by many tasks at once: every snapshot has the same total, whatever
//! way it is read, and purge leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use perigee_engine::catalog::Table;
use perigee_engine::txn::{Isolation, LockMode, LockWait, RowLock, TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig, EngineError};
use perigee_value::{Datum, RecordView, ValueRef};

use super::mvcc::{assert_clean, key_of, seen};
use super::{definition, live, open};

const ACCOUNTS: i64 = 400;
const START: i64 = 1000;

fn values(id: i64, amount: i64) -> Vec<Datum> {
    let note = format!("account {id} has {amount}").into_bytes();
    vec![
        Datum::Int(id),
        Datum::Decimal(i128::from(amount)),
        Datum::String(note),
    ]
}

fn amount(table: &Table, record: &[u8]) -> i64 {
    match RecordView::new(&table.clustered().layout, record).value(1) {
        ValueRef::Decimal(amount) => amount as i64,
        other => panic!("an amount is {other:?}"),
    }
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) % below
}

/// Moves an amount; now and then the account that gives is closed and opened again.
async fn transfer(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    isolation: Isolation,
    state: &mut u64,
) -> Result<(), EngineError> {
    let from = random(state, ACCOUNTS as u64) as i64;
    let to = (from + 1 + random(state, ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
    let mut transaction = engine.begin(TransactionOptions {
        isolation,
        lock_timeout: Duration::from_secs(30),
        ..TransactionOptions::default()
    });
    if random(state, 2) == 0 {
        let _ = transaction.view();
    }
    let moved = 1 + random(state, 9) as i64;
    for (id, change) in [(from, -moved), (to, moved)] {
        let key = key_of(table, id);
        let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
        let row = transaction.lock_row(table, &key, mode, wait).await?;
        let RowLock::Locked(Some(row)) = row else {
            panic!("account {id} is gone")
        };
        let row = values(id, amount(table, &row) + change);
        if random(state, 10) == 0 {
            assert_eq!(transaction.delete_row(table, &key).await?, Written::Done);
            assert_eq!(transaction.insert_row(table, &row).await?, Written::Done);
        } else {
            let written = transaction.update_row(table, &key, &row).await?;
            assert_eq!(written, Written::Done);
        }
    }
    match random(state, 5) {
        0 => transaction.rollback().await,
        _ => transaction.commit().await,
    }
}

async fn transfers(engine: Arc<Engine>, table: Arc<Table>, mut state: u64, count: u32) -> u32 {
    let mut failed = 0;
    for i in 0..count {
        let isolation = match i % 2 {
            0 => Isolation::RepeatableRead,
            _ => Isolation::ReadCommitted,
        };
        match transfer(&engine, &table, isolation, &mut state).await {
            Ok(()) => {}
            Err(EngineError::Deadlock | EngineError::RecordChanged { .. }) => failed += 1,
            Err(e) => panic!("a transfer fails: {e}"),
        }
    }
    failed
}

fn run(config: EngineConfig, tasks: u64, count: u32) {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), config).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        let mut transaction = engine.begin(TransactionOptions::default());
        let rows: Vec<_> = (0..ACCOUNTS).map(|id| values(id, START)).collect();
        transaction.insert(&table, &rows).await.unwrap();
        transaction.commit().await.unwrap();

        let (stop, reads) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (engine, table) = (engine.clone(), table.clone());
                let (stop, reads) = (stop.clone(), reads.clone());
                tokio::spawn(async move {
                    let mut path = reader;
                    while !stop.load(Ordering::Relaxed) {
                        let view = engine.read_view();
                        let first = seen(&engine, &table, view.clone(), path).await;
                        let total: i64 = first.values().sum();
                        assert_eq!((first.len() as i64, total), (ACCOUNTS, ACCOUNTS * START));
                        let again = seen(&engine, &table, view, path + 1).await;
                        assert_eq!(first, again, "paths {path} and the next");
                        path += 1;
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (1..=tasks)
            .map(|seed| {
                let work = transfers(engine.clone(), table.clone(), seed * 7919, count);
                tokio::spawn(work)
            })
            .collect();
        for writer in writers {
            let failed = writer.await.unwrap();
            assert!(failed < count, "some transfers succeed");
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.await.unwrap();
        }
        assert!(reads.load(Ordering::Relaxed) > 0);
        assert_clean(&engine, &table, ACCOUNTS as u64).await;
    });
}

#[test]
fn money_is_neither_made_nor_lost() {
    run(EngineConfig::default(), 8, 120);
}

#[test]
fn nor_in_a_pool_that_holds_little() {
    let config = EngineConfig {
        buffer_pool: 12 * 16384,
        all_ambiguous: true,
        ..EngineConfig::default()
    };
    run(config, 4, 50);
}
