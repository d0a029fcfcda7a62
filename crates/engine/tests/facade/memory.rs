//! The memory of an NDP scan is bounded by its look-ahead, whatever the size of the table.

use futures::StreamExt;
use perigee_engine::EngineConfig;
use perigee_engine::scan::ScanRequest;
use perigee_types::PAGE_SIZE;

use crate::{definition, ids, live, load, open, request, run};

const LOOK_AHEAD: usize = 16;

/// Peak of a scan of a table of so many rows that delivers everything, and the rows it delivered.
async fn peak(rows: i64, ordered: bool) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    let engine = open(dir.path(), config).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    load(&engine, &table, 0..rows).await;
    let leaves = table_leaves(&engine);
    assert!(leaves > rows as u64 / 400, "only {leaves} leaves");
    let scan = ScanRequest {
        ordered,
        look_ahead: Some(LOOK_AHEAD),
        ..request(&engine, &engine.table("test", "t").unwrap(), true)
    };
    let scan = engine.scan(scan).unwrap();
    let (mut batches, mut found) = (scan.partition(), 0);
    while let Some(batch) = batches.next().await {
        found += ids(&[batch.unwrap()]).len();
        // A slow reader: storage is ahead of it as far as it may.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(found, rows as usize);
    let counters = scan.counters().snapshot();
    let pushed = counters.iter().find(|(name, _)| *name == "pages_pushed");
    assert!(pushed.unwrap().1 > leaves / 2, "{counters:?}");
    scan.peak_bytes()
}

fn table_leaves(engine: &perigee_engine::Engine) -> u64 {
    engine.table("test", "t").unwrap().stats().leaf_pages[0]
}

#[test]
fn ten_times_the_rows_take_no_more_memory() {
    for ordered in [false, true] {
        let (small, large) = live(async {
            // A short scan may be over before storage is as far ahead as it may.
            let mut small = 0;
            for _ in 0..3 {
                small = small.max(peak(20_000, ordered).await);
            }
            (small, peak(200_000, ordered).await)
        });
        // What comes from storage of one batch read, once as it came and once finished; parts of
        // the next one may wait meanwhile.
        let bound = 4 * (LOOK_AHEAD * PAGE_SIZE) as u64;
        assert!(small > 0 && small <= bound, "{small} of {bound} bytes");
        assert!(large <= bound, "{large} of {bound} bytes");
    }
}

#[test]
fn a_scan_that_waits_for_its_reader_leaves_the_pool_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        buffer_pool: 64 * PAGE_SIZE,
        ..EngineConfig::default()
    };
    live(async {
        let engine = open(dir.path(), config).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..200_000).await;
        let table = engine.table("test", "t").unwrap();
        let whole = || ScanRequest {
            look_ahead: Some(1000),
            ..request(&engine, &table, false)
        };
        // Each reads ahead more pages than the pool has, and none of it is taken.
        let waiting: Vec<_> = (0..3)
            .map(|_| engine.scan(whole()).unwrap().partition())
            .collect();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let rows = run(&engine, whole());
        let rows = tokio::time::timeout(std::time::Duration::from_secs(20), rows);
        assert_eq!(ids(&rows.await.unwrap()).len(), 200_000);
        drop(waiting);
    });
}

#[test]
fn what_scans_get_from_storage_is_memory_of_the_pool() {
    const POOL: usize = 64;
    const SCANS: usize = 8;
    // An eighth of the pool each, as it came and finished, and the next one.
    const MOST: usize = SCANS * 3 * (POOL / 8);
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        buffer_pool: POOL * PAGE_SIZE,
        past_pool: true,
        ..EngineConfig::default()
    };
    live(async {
        let engine = open(dir.path(), config).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..200_000).await;
        let table = engine.table("test", "t").unwrap();
        let scan = |ordered| {
            let whole = ScanRequest {
                look_ahead: Some(1000),
                ordered,
                ..request(&engine, &table, true)
            };
            engine.scan(whole).unwrap().partition()
        };
        let mut scans: Vec<_> = (0..SCANS).map(|n| scan(n % 2 == 0)).collect();
        let mut rows = 0;
        for scan in &mut scans {
            rows += ids(&[scan.next().await.unwrap().unwrap()]).len();
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let pool = engine.pool().counters();
        let half = POOL / 2;
        assert!(pool.lent >= half * PAGE_SIZE, "{pool:?}");
        assert!(pool.lent <= (half + MOST) * PAGE_SIZE, "{pool:?}");
        // The pages that are pinned or dirty cannot make room.
        assert!(pool.resident <= half + 16, "{pool:?}");
        for mut scan in scans {
            while let Some(batch) = scan.next().await {
                rows += ids(&[batch.unwrap()]).len();
            }
        }
        assert_eq!(rows, SCANS * 200_000);
        assert_eq!(engine.pool().counters().lent, 0);
    });
}
