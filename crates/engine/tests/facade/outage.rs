//! Stores that are away for a while: whatever was begun comes to its end when they are back, nothing
//! stays locked, and nobody has to wait who is told to stop.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_engine::catalog::Table;
use perigee_engine::txn::{
    Isolation, LockMode, LockWait, RowLock, Transaction, TransactionOptions,
};
use perigee_engine::{Engine, EngineConfig, EngineError, Errand};
use perigee_log_store::LogStoreService;
use perigee_page_api::PageStore;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_testkit::{Faults, Faulty};
use perigee_types::DbId;
use perigee_value::RecordView;

use super::mvcc::{key_of, values};
use super::{CancelToken, definition, live};

/// Far beyond what anything takes here when stores answer, on a loaded machine too.
const IN_TIME: Duration = Duration::from_secs(20);

/// An engine with little patience and little room for log, and its stores' faults.
struct Site {
    engine: Arc<Engine>,
    log: Arc<Faults>,
    pages: Arc<Faults>,
}

async fn site(dir: &Path) -> Site {
    site_with(dir, Duration::from_millis(100)).await
}

async fn site_with(dir: &Path, read_timeout: Duration) -> Site {
    let log = Faulty::new(LogStoreService::open(dir.join("log"), Default::default()).unwrap());
    let pages = Faulty::new(PageStoreService::open(dir.join("pages"), Default::default()).unwrap());
    let faults = (log.faults.clone(), pages.faults.clone());
    let ms = Duration::from_millis;
    let config = SalConfig {
        call_timeout: read_timeout / 2,
        read_timeout,
        throttle_timeout: ms(20),
        max_unpersisted_bytes: 256 << 10,
        ..SalConfig::new(DbId(1))
    };
    let stores: Vec<Arc<dyn PageStore>> = vec![Arc::new(pages)];
    let sal = Sal::open(config, Arc::new(log), stores).await.unwrap();
    let config = EngineConfig {
        commit_timeout: ms(100),
        ..EngineConfig::default()
    };
    Site {
        engine: Engine::open(sal, config).await.unwrap(),
        log: faults.0,
        pages: faults.1,
    }
}

/// With ten rows that were committed, and long ago so.
async fn ten_rows(site: &Site) -> Arc<Table> {
    let engine = &site.engine;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    let mut transaction = begin(engine);
    let rows: Vec<_> = (0..10).map(|id| values(id, 5)).collect();
    transaction.insert(&table, &rows).await.unwrap();
    transaction.commit().await.unwrap();
    let sal = engine.sal();
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    table
}

fn begin(engine: &Arc<Engine>) -> Transaction {
    engine.begin(TransactionOptions {
        isolation: Isolation::ReadCommitted,
        ..TransactionOptions::default()
    })
}

async fn update(transaction: &mut Transaction, table: &Arc<Table>, id: i64, amount: i64) {
    let (key, row) = (key_of(table, id), values(id, amount));
    let written = transaction.update_row(table, &key, &row);
    written.await.unwrap();
}

/// The amount of a row that nobody has locked; `None` if somebody has.
async fn amount(engine: &Arc<Engine>, table: &Arc<Table>, id: i64) -> Option<i128> {
    let mut transaction = begin(engine);
    let key = key_of(table, id);
    let locked = transaction.lock_row(table, &key, LockMode::Shared, LockWait::NoWait);
    let amount = match locked.await {
        Ok(RowLock::Locked(Some(row))) => {
            Some(RecordView::new(&table.clustered().layout, &row).i128(1))
        }
        Err(EngineError::LockedNoWait) => None,
        other => panic!("{other:?}"),
    };
    transaction.rollback().await.unwrap();
    amount
}

/// Waits until nobody has locked a row, and gives its amount.
async fn unlocked(engine: &Arc<Engine>, table: &Arc<Table>, id: i64) -> i128 {
    let begun = Instant::now();
    loop {
        if let Some(amount) = amount(engine, table, id).await {
            return amount;
        }
        assert!(begun.elapsed() < IN_TIME, "the row stays locked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until as many transactions end in the background.
async fn late(engine: &Engine, expected: usize) {
    let begun = Instant::now();
    while engine.transaction_figures().late != expected {
        let found = engine.transaction_figures().late;
        assert!(begun.elapsed() < IN_TIME, "{found} end late");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Writes until no more log is taken.
async fn fill_the_log(engine: &Arc<Engine>, table: &Arc<Table>) {
    let mut transaction = begin(engine);
    for id in 100.. {
        assert!(id < 100_000, "writers are never throttled");
        if let Err(e) = transaction.insert_row(table, &values(id, 89)).await {
            assert!(e.is_transient(), "{e}");
            break;
        }
    }
}

#[test]
fn rollbacks_are_tried_until_they_are_done() {
    for (what, faults) in [
        (
            "the page store",
            (|s: &Site| s.pages.clone()) as fn(&Site) -> Arc<Faults>,
        ),
        ("the log store", |s| s.log.clone()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        live(async {
            let site = site(dir.path()).await;
            let (engine, table) = (&site.engine, ten_rows(&site).await);
            let (mut told, mut gone) = (begin(engine), begin(engine));
            update(&mut told, &table, 1, 6).await;
            update(&mut gone, &table, 2, 6).await;
            let faults = faults(&site);
            faults.reject(usize::MAX);
            fill_the_log(engine, &table).await;
            told.rollback().await.unwrap();
            drop(gone);
            // These two and the one that filled the log.
            late(engine, 3).await;
            assert_eq!(amount(engine, &table, 1).await, None, "{what} is away");
            assert_eq!(amount(engine, &table, 3).await, Some(5), "reads go on");
            faults.reject(0);
            assert_eq!(unlocked(engine, &table, 1).await, 5, "{what} was away");
            assert_eq!(unlocked(engine, &table, 2).await, 5, "{what} was away");
            late(engine, 0).await;
            engine.shutdown().await.unwrap();
        });
    }
}

#[test]
fn a_commit_whose_log_waits_goes_on_without_its_client() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let site = site(dir.path()).await;
        let (engine, table) = (&site.engine, ten_rows(&site).await);
        let (mut told, mut gone, mut killed) = (begin(engine), begin(engine), begin(engine));
        update(&mut told, &table, 1, 6).await;
        update(&mut gone, &table, 2, 6).await;
        update(&mut killed, &table, 3, 6).await;
        site.log.stop();
        let open = told.commit().await.unwrap_err();
        assert!(matches!(open, EngineError::OutcomeOpen { .. }), "{open}");
        let short = Duration::from_millis(10);
        let dropped = tokio::time::timeout(short, gone.commit()).await;
        assert!(dropped.is_err(), "its future is dropped");
        let cancel = CancelToken::new();
        cancel.cancel();
        let open = Errand::new(&cancel).run(killed.commit()).await.unwrap_err();
        assert!(matches!(open, EngineError::OutcomeOpen { .. }), "{open}");
        late(engine, 3).await;
        assert_eq!(amount(engine, &table, 1).await, None, "nobody sees it yet");
        assert_eq!(amount(engine, &table, 4).await, Some(5), "reads go on");
        assert!(engine.sal().check().is_ok(), "storage goes on");
        site.log.go_on();
        for id in [1, 2, 3] {
            assert_eq!(unlocked(engine, &table, id).await, 6);
        }
        late(engine, 0).await;
        engine.shutdown().await.unwrap();
        drop(site);
        let again = self::site(dir.path()).await.engine;
        let table = again.table("test", "t").unwrap();
        assert_eq!(amount(&again, &table, 2).await, Some(6));
    });
}

#[test]
fn a_change_of_definition_is_completed_when_the_log_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let site = site(dir.path()).await;
        let (engine, table) = (&site.engine, ten_rows(&site).await);
        site.log.stop();
        let open = engine.create_table(definition("u")).await.unwrap_err();
        assert!(matches!(open, EngineError::OutcomeOpen { .. }), "{open}");
        // Others wait for their turn, and need not.
        let cancel = CancelToken::new();
        let stop = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel();
        };
        let waiting = Errand::new(&cancel).run(engine.create_table(definition("v")));
        let (stopped, ()) = tokio::join!(waiting, stop);
        assert!(
            matches!(stopped, Err(EngineError::Cancelled)),
            "{stopped:?}"
        );
        assert_eq!(amount(engine, &table, 4).await, Some(5), "reads go on");
        site.log.go_on();
        let begun = Instant::now();
        while engine.table("test", "u").is_err() {
            assert!(begun.elapsed() < IN_TIME, "the table never comes");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        engine.create_table(definition("w")).await.unwrap();
        assert!(engine.table("test", "v").is_err());
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn purge_goes_on_after_an_outage() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let site = site(dir.path()).await;
        let (engine, table) = (&site.engine, ten_rows(&site).await);
        let view = engine.read_view();
        let mut delete = begin(engine);
        for id in 0..5 {
            delete
                .delete_row(&table, &key_of(&table, id))
                .await
                .unwrap();
        }
        delete.commit().await.unwrap();
        site.log.reject(usize::MAX);
        fill_the_log(engine, &table).await;
        drop(view);
        tokio::time::sleep(Duration::from_millis(300)).await;
        site.log.reject(0);
        late(engine, 0).await;
        let begun = Instant::now();
        loop {
            let trees = engine.verify_table(&table).await;
            if trees.is_ok_and(|trees| trees.iter().all(|tree| tree.records == 5)) {
                break;
            }
            assert!(begun.elapsed() < IN_TIME, "deleted rows stay");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn a_read_from_a_store_that_hangs_ends_with_its_statement() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let first = site(dir.path()).await;
        ten_rows(&first).await;
        first.engine.shutdown().await.unwrap();
        drop(first);
        let Site { engine, pages, .. } = site_with(dir.path(), Duration::from_secs(60)).await;
        let table = engine.table("test", "t").unwrap();
        let view = engine.read_view();
        pages.stop();
        let cancel = CancelToken::new();
        let key = key_of(&table, 1);
        let reading = Errand::new(&cancel).run(engine.row(&table, &key, &view));
        let stop = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let begun = Instant::now();
            cancel.cancel();
            begun
        };
        let (read, begun) = tokio::join!(reading, stop);
        let took = begun.elapsed();
        assert!(matches!(read, Err(EngineError::Cancelled)), "{read:?}");
        assert!(took < Duration::from_secs(5), "it took {took:?}");
        pages.go_on();
        assert!(engine.row(&table, &key, &view).await.unwrap().is_some());
        engine.shutdown().await.unwrap();
    });
}
