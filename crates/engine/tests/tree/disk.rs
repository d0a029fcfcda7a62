//! The same over the real stores, on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use perigee_engine::btree::KeySpan;
use perigee_engine::buffer::BufferPool;
use perigee_log_api::LogStore;
use perigee_log_store::LogStoreService;
use perigee_page_api::PageStore;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_types::{DbId, PAGE_SIZE, TrxId};

use crate::database::*;

/// Opens a store, waiting for the tasks of a frontend that was just dropped to let go of it.
async fn patiently<T, E: std::fmt::Display>(open: impl Fn() -> Result<T, E>) -> T {
    for _ in 0..500 {
        match open() {
            Ok(store) => return store,
            Err(e) if e.to_string().contains("in use") => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(e) => panic!("{e}"),
        }
    }
    panic!("a store stays in use");
}

async fn open(dir: &Path, pages: usize) -> Arc<BufferPool> {
    let log = patiently(|| LogStoreService::open(dir.join("log"), Default::default())).await;
    let mut stores = Vec::new();
    for name in ["pages-0", "pages-1"] {
        let open = || PageStoreService::open(dir.join(name), Default::default());
        stores.push(Arc::new(patiently(open).await) as Arc<dyn PageStore>);
    }
    let config = SalConfig {
        slice_pages: 256,
        ..SalConfig::new(DbId(1))
    };
    let log: Arc<dyn LogStore> = Arc::new(log);
    let sal = Sal::open(config, log, stores).await.unwrap();
    BufferPool::open(sal, pages * PAGE_SIZE).await.unwrap()
}

/// Dropping the stores does not flush anything that a crash of the process would not have kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_survives_restarts_of_frontend_and_stores() {
    let dir = tempfile::tempdir().unwrap();
    let pool = open(dir.path(), 64).await;
    let (loaded, grown) = (fixed_tree(&pool).await, variable_tree(&pool).await);
    let (loaded_spec, grown_spec) = (*loaded.spec(), *grown.spec());
    let mut builder = loaded.build(TrxId(1), 15);
    for n in 0..30_000 {
        builder
            .push(&fixed_record(n, TrxId(1), &[5; 100]))
            .await
            .unwrap();
    }
    let built = builder.finish().await.unwrap();
    pool.sal().wait_durable(built.lsn).await.unwrap();
    drop((loaded, grown, pool));
    let mut last = 0;
    for round in 0..4_u32 {
        let pool = open(dir.path(), 64).await;
        let (loaded, grown) = (reopen(&pool, &loaded_spec), reopen(&pool, &grown_spec));
        assert_eq!(loaded.verify().await.unwrap().records, 30_000);
        let found = scan(&grown, KeySpan::all(), false).await.unwrap();
        assert!(
            found.len() >= last,
            "round {round}: {} of {last}",
            found.len()
        );
        for i in 0..400 {
            let key = format!("{:06}", (round * 400 + i) * 7919 % 100_003);
            let record = variable_record(key.as_bytes(), &[round as u8; 150]);
            grown.insert(&record, TrxId(2)).await.unwrap();
            if i == 300 {
                pool.sal()
                    .wait_durable(pool.sal().last_lsn())
                    .await
                    .unwrap();
                last = found.len() + 301;
            }
        }
    }
}
