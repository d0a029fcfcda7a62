//! Looks at every tree in stores that nobody else has open: with an engine of its own, which recovers,
//! rolls back and purges like any other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_api::PageStore;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;

/// How long rollback and purge may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Verifies the stores of one process that was everything.
pub async fn verify_embedded(data: &Path) {
    verify(&data.join("log"), &[data.join("pages")]).await;
}

/// Verifies the stores of a cluster.
pub async fn verify_cluster(dir: &Path, page_stores: usize) {
    let stores: Vec<_> = (0..page_stores)
        .map(|n| dir.join(format!("page-store-{n}")))
        .collect();
    verify(&dir.join("log-store"), &stores).await;
}

async fn verify(log: &Path, pages: &[std::path::PathBuf]) {
    let log = LogStoreService::open(log, Default::default()).unwrap();
    let mut stores: Vec<Arc<dyn PageStore>> = Vec::new();
    for dir in pages {
        stores.push(Arc::new(
            PageStoreService::open(dir, Default::default()).unwrap(),
        ));
    }
    let sal = Sal::open(SalConfig::new(DbId(1)), Arc::new(log), stores)
        .await
        .unwrap();
    let engine = Engine::open(sal, EngineConfig::default()).await.unwrap();
    for schema in engine.schemas() {
        for table in engine.tables(&schema) {
            sound(&engine, &table).await;
        }
    }
    engine.shutdown().await.unwrap();
}

/// Every tree of a table is sound, and once rollback and purge are done all have as many records, none
/// of them deleted.
async fn sound(engine: &Engine, table: &perigee_engine::catalog::Table) {
    let begin = Instant::now();
    loop {
        // While rollback and purge go on a walk over the tree may meet a split.
        let trees = engine.verify_table(table).await;
        let clean = trees.as_ref().is_ok_and(|trees| {
            trees
                .iter()
                .all(|tree| tree.deleted == 0 && tree.records == trees[0].records)
        });
        if clean {
            return;
        }
        let name = &table.def.name;
        assert!(
            begin.elapsed() < LIMIT,
            "{name} does not become clean: {trees:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
