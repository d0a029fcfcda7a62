//! Filters that come to a scan while it runs: in storage and in the frontend, whatever storage declines, and with
//! stores that do not know them.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use perigee_engine::ndp::{Filter, KeySet};
use perigee_engine::scan::ScanFilter;
use perigee_page_store::{Config, NdpPlugin, NdpProgram, PageStoreService, PerigeePlugin};

use super::*;

const ROWS: i64 = 30_000;

/// NDP as it was before there were filters.
struct Older(PerigeePlugin);

impl NdpPlugin for Older {
    fn prepare(&self, descriptor: &Bytes) -> Result<Arc<dyn NdpProgram>, String> {
        self.0.prepare(descriptor)
    }
}

/// An engine over two stores with this NDP.
async fn engine(
    dir: &Path,
    plugins: [Arc<dyn NdpPlugin>; 2],
    stores: Config,
    config: EngineConfig,
) -> (Arc<Engine>, Arc<Table>) {
    let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
    let mut pages: Vec<Arc<dyn perigee_page_api::PageStore>> = Vec::new();
    for (number, plugin) in plugins.into_iter().enumerate() {
        let dir = dir.join(format!("pages-{number}"));
        let store = PageStoreService::open_with_plugin(dir, stores.clone(), plugin).unwrap();
        pages.push(Arc::new(store));
    }
    let sal = Sal::open(SalConfig::new(DbId(1)), Arc::new(log), pages);
    let engine = Engine::open(sal.await.unwrap(), config).await.unwrap();
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    load(&engine, &table, 0..ROWS).await;
    (engine, table)
}

fn current() -> Arc<dyn NdpPlugin> {
    Arc::new(PerigeePlugin::default())
}

/// Rows with these ids pass.
fn of_ids(ids: impl IntoIterator<Item = i64>) -> Filter {
    let mut keys = KeySet::new(&[INT]).unwrap();
    for id in ids {
        let mut encoded = Vec::new();
        key::encode_part(INT, false, Datum::Int(id).as_ref(), &mut encoded).unwrap();
        keys.insert(&encoded);
    }
    keys.filter(&[0]).unwrap()
}

fn filtered(
    engine: &Engine,
    table: &Arc<Table>,
    ndp: bool,
    filters: &[Arc<ScanFilter>],
) -> ScanRequest {
    ScanRequest {
        predicate: Some(below(table, 500)),
        filters: filters.to_vec(),
        ..request(engine, table, ndp)
    }
}

fn wanted(pass: impl Fn(i64) -> bool) -> Vec<i32> {
    let is_wanted = |id: &i64| id % 10 != 0 && id % 1000 < 500 && pass(*id);
    (0..ROWS).filter(is_wanted).map(|id| id as i32).collect()
}

#[test]
fn a_filtered_scan_is_the_same_wherever_the_filter_runs() {
    let default = EngineConfig {
        buffer_pool: 8 << 20,
        past_pool: true,
        ..EngineConfig::default()
    };
    let all_ambiguous = EngineConfig {
        all_ambiguous: true,
        ..default.clone()
    };
    let interpreted = EngineConfig {
        interpret: true,
        ..default.clone()
    };
    let declining = Config {
        decline_every: Some(3),
        ..Config::default()
    };
    let interpreting: Arc<dyn NdpPlugin> = Arc::new(PerigeePlugin::interpreting());
    let modes = [
        ([current(), current()], Config::default(), default.clone()),
        ([current(), current()], declining, default.clone()),
        ([current(), current()], Config::default(), all_ambiguous),
        (
            [interpreting.clone(), interpreting],
            Config::default(),
            interpreted,
        ),
    ];
    for (mode, (plugins, stores, config)) in modes.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        live(async {
            let (engine, table) = engine(dir.path(), plugins, stores, config).await;
            for ndp in [true, false] {
                // A list, a Bloom filter with bounds, and nothing at all.
                let few = Arc::new(ScanFilter::default());
                few.set(few.begin(), of_ids((0..ROWS).step_by(301)));
                let scan = filtered(&engine, &table, ndp, std::slice::from_ref(&few));
                let found = ids(&run(&engine, scan).await);
                assert_eq!(found, wanted(|id| id % 301 == 0), "mode {mode}, ndp {ndp}");
                // Ambiguous records are left out here, and not counted.
                let left_out = wanted(|_| true).len() - found.len();
                assert!(
                    few.rows() == left_out as u64 || mode == 2,
                    "mode {mode}, ndp {ndp}"
                );

                let many = Arc::new(ScanFilter::default());
                many.set(many.begin(), of_ids(10_000..20_000));
                assert_eq!(many.kind(), Some("bloom"));
                let scan = filtered(&engine, &table, ndp, &[many, few]);
                let both = wanted(|id| (10_000..20_000).contains(&id) && id % 301 == 0);
                assert_eq!(
                    ids(&run(&engine, scan).await),
                    both,
                    "mode {mode}, ndp {ndp}"
                );

                let none = Arc::new(ScanFilter::default());
                none.set(none.begin(), of_ids([]));
                let scan = filtered(&engine, &table, ndp, &[none]);
                assert!(
                    ids(&run(&engine, scan).await).is_empty(),
                    "mode {mode}, ndp {ndp}"
                );
            }
            engine.shutdown().await.unwrap();
        });
    }
}

#[test]
fn a_scan_takes_filters_up_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let config = EngineConfig {
            buffer_pool: 8 << 20,
            past_pool: true,
            ..EngineConfig::default()
        };
        let plugins = [current(), current()];
        let (engine, table) = engine(dir.path(), plugins, Config::default(), config).await;
        for ndp in [true, false] {
            let filter = Arc::new(ScanFilter::default());
            let request = ScanRequest {
                look_ahead: Some(8),
                ..filtered(&engine, &table, ndp, std::slice::from_ref(&filter))
            };
            let mut rows = engine.scan(request).unwrap().partition();
            let mut found = ids(&[rows.next().await.unwrap().unwrap()]);
            let before = *found.last().unwrap();
            // Later rows are filtered by what comes now, and those after them by what is tighter.
            filter.set(filter.begin(), of_ids((0..ROWS).filter(|id| id % 2 == 1)));
            let half = i64::from(before) + 10_000;
            while i64::from(*found.last().unwrap()) < half {
                found.extend(ids(&[rows.next().await.unwrap().unwrap()]));
            }
            filter.set(filter.begin(), of_ids([ROWS - 1, ROWS - 599]));
            while let Some(batch) = rows.next().await {
                found.extend(ids(&[batch.unwrap()]));
            }
            let all = wanted(|_| true);
            assert!(found.is_sorted() && found.iter().all(|id| all.contains(id)));
            // What must not be left out is there,
            let kept: Vec<_> = found.iter().filter(|id| **id > ROWS as i32 - 600).collect();
            assert_eq!(kept, [&(ROWS as i32 - 599)], "ndp {ndp}");
            // and something was left out of what was read after the filters had come: how much depends on how far
            // the scan was ahead.
            assert!(found.len() < all.len(), "ndp {ndp}: {}", found.len());
            assert!(
                found.iter().any(|id| id % 2 == 0),
                "the first rows came before it"
            );
            assert!(filter.rows() > 500, "ndp {ndp}: {}", filter.rows());
        }
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn a_filter_of_an_earlier_run_is_forgotten() {
    let filter = ScanFilter::default();
    let earlier = filter.begin();
    filter.set(earlier, of_ids([1]));
    assert_eq!(filter.kind(), Some("list"));
    let later = filter.begin();
    assert_eq!(filter.kind(), None);
    filter.set(earlier, of_ids([1]));
    assert_eq!(filter.kind(), None, "it comes too late");
    filter.set(later, of_ids([]));
    assert_eq!(filter.kind(), Some("nothing"));
}

#[test]
fn stores_of_two_versions_serve_a_filtered_scan() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let config = EngineConfig {
            buffer_pool: 8 << 20,
            past_pool: true,
            ..EngineConfig::default()
        };
        let older: Arc<dyn NdpPlugin> = Arc::new(Older(PerigeePlugin::default()));
        let plugins = [older, current()];
        let (engine, table) = engine(dir.path(), plugins, Config::default(), config).await;
        let pass = |id: i64| id % 301 == 0;
        let filter = Arc::new(ScanFilter::default());
        filter.set(filter.begin(), of_ids((0..ROWS).filter(|id| pass(*id))));
        let scan = filtered(&engine, &table, true, std::slice::from_ref(&filter));
        let found = ids(&run(&engine, scan).await);
        // The older store leaves nothing out; whoever made the filter does, above the scan.
        let (all, least) = (wanted(|_| true), wanted(pass));
        assert!(found.iter().all(|id| all.contains(id)));
        assert!(least.iter().all(|id| found.contains(id)));
        let left_out = all.len() - found.len();
        assert_eq!(filter.rows(), left_out as u64);
        assert!(
            left_out > 1000 && found.len() > least.len() + 1000,
            "{left_out}"
        );
        assert!(
            !engine.storage_knows_filters(),
            "plans are for what all stores know"
        );
        engine.shutdown().await.unwrap();
    });
}
