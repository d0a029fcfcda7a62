//! Two frontends on one database: the one that was there first is locked out, also from what it has in
//! memory, and says so.

use std::path::Path;
use std::sync::Arc;

use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_api::PageStore;
use perigee_page_store::PageStoreService;
use perigee_query::{Frontend, FrontendConfig, NoStatus, Session, SessionInfo};
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;

use super::Client;

/// Stores that several frontends share.
struct Stores {
    log: LogStoreService,
    pages: Arc<dyn PageStore>,
}

impl Stores {
    fn open(dir: &Path) -> Self {
        let pages = PageStoreService::open(dir.join("pages"), Default::default()).unwrap();
        Self {
            log: LogStoreService::open(dir.join("log"), Default::default()).unwrap(),
            pages: Arc::new(pages),
        }
    }

    async fn frontend(&self) -> Arc<Frontend> {
        let (log, pages) = (Arc::new(self.log.clone()), vec![self.pages.clone()]);
        let sal = Sal::open(SalConfig::new(DbId(1)), log, pages)
            .await
            .unwrap();
        let engine = Engine::open(sal, EngineConfig::default()).await.unwrap();
        let config = FrontendConfig::default();
        Arc::new(Frontend::new(engine, config, Arc::new(NoStatus)).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_frontend_serves_nothing_once_another_one_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::open(dir.path());
    let old = stores.frontend().await;
    let client =
        |frontend: &Arc<Frontend>| Client(Session::new(frontend.clone(), SessionInfo::default()));
    let mut first = client(&old);
    first
        .ok("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        .await;
    first.ok("INSERT INTO t VALUES (1, 1)").await;
    let cancel = perigee_engine::scan::CancelToken::new();
    let read = first
        .0
        .prepare("SELECT n FROM t WHERE id = 1", &cancel)
        .await
        .unwrap()
        .id;
    assert_eq!(first.rows("SELECT n FROM t WHERE id = 1").await, "1");

    // Neither of them writes while the second one opens.
    let new = stores.frontend().await;
    let mut second = client(&new);
    assert!(new.engine().sal().epoch() > old.engine().sal().epoch());
    for sql in [
        "SELECT n FROM t WHERE id = 1",
        "SELECT COUNT(*) FROM t",
        "UPDATE t SET n = 3",
    ] {
        let error = first.run(sql).await.unwrap_err();
        assert_eq!(
            (error.errno, error.sqlstate.as_str()),
            (1053, "08S01"),
            "{sql}: {error}"
        );
        assert!(
            error.message.contains("another writer has taken over"),
            "{error}"
        );
    }
    let mut out = perigee_query::Collector::default();
    let none = Default::default();
    let run = first.0.execute_prepared(read, &none, &mut out, &cancel);
    assert_eq!(run.await.unwrap_err().errno, 1053);
    second.ok("USE d; UPDATE t SET n = 2 WHERE id = 1").await;
    assert_eq!(second.rows("SELECT n FROM t").await, "2");
}
