//! Scans that change the side they are worked on deliver the same rows in the same order.

use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use perigee_engine::EngineConfig;
use perigee_engine::scan::ScanRequest;

use crate::{below, definition, ids, live, load, open, request};

const ROWS: i64 = 100_000;

#[test]
fn scans_that_turn_deliver_the_same_rows() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let config = EngineConfig {
            // A small one: every scan reads from storage again.
            buffer_pool: 4 << 20,
            ..EngineConfig::default()
        };
        let engine = open(dir.path(), config).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..ROWS).await;
        let table = engine.table("test", "t").unwrap();
        let mut turned = (0, 0);
        for ndp in [false, true] {
            for few in [false, true] {
                for (workers, reverse) in [(1, false), (3, false), (1, true), (3, true)] {
                    let scan = |adapts, ndp| ScanRequest {
                        workers,
                        reverse,
                        adapts,
                        look_ahead: Some(16),
                        predicate: few.then(|| below(&table, 2)),
                        ..request(&engine, &table, ndp)
                    };
                    let plain = engine.scan(scan(false, !ndp)).unwrap();
                    let plain = plain.partition().try_collect::<Vec<_>>().await.unwrap();
                    let scan = engine.scan(scan(true, ndp)).unwrap();
                    let found = scan.partition().try_collect::<Vec<_>>().await.unwrap();
                    let (found, plain) = (ids(&found), ids(&plain));
                    assert!(!few || found.len() < ROWS as usize / 20);
                    assert!(found == plain, "ndp {ndp} few {few} {workers} {reverse}");
                    let counters = scan.counters();
                    turned.0 += counters.turned_to_storage.load(Ordering::Relaxed);
                    turned.1 += counters.turned_to_frontend.load(Ordering::Relaxed);
                    // Nothing is known to be dear about everything being read here.
                    let stays = few || ndp;
                    assert!(stays || counters.turned_to_storage.load(Ordering::Relaxed) == 0);
                }
            }
        }
        assert_eq!(turned.0, 4, "{turned:?}");
    });
}
