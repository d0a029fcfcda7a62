//! Leaves that become one while a scan is between them: their rows are delivered once.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use perigee_engine::catalog::Table;
use perigee_engine::scan::ScanRequest;
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{Engine, EngineConfig};
use perigee_value::Datum;

use super::{definition, ids, live, open, request};

const ROWS: i64 = 4000;

/// A row that takes so much room that a leaf has about a hundred of them.
fn wide(id: i64) -> Vec<Datum> {
    let note = Datum::String(format!("{id:090}").into_bytes());
    vec![Datum::Int(id), Datum::Decimal(i128::from(id)), note]
}

/// Ids that a scan delivers of the even rows, if after its first rows the odd ones are rolled back.
async fn scan(engine: &Arc<Engine>, table: &Arc<Table>, request: ScanRequest) -> Vec<i32> {
    let mut odd = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (0..ROWS).map(|i| wide(2 * i + 1)).collect();
    odd.insert(table, &rows).await.unwrap();
    let parts = if request.ordered { 1 } else { request.workers };
    let scan = engine.scan(request).unwrap();
    let begun = (0..parts).map(|_| async {
        let mut part = scan.partition();
        let first: Vec<_> = part.next().await.into_iter().collect();
        stream::iter(first).chain(part)
    });
    let begun = futures::future::join_all(begun).await;
    let leaves = async || engine.verify_table(table).await.unwrap()[0].leaf_pages;
    let before = leaves().await;
    odd.rollback().await.unwrap();
    let after = leaves().await;
    assert!(after * 4 < before * 3, "{before} leaves, then {after}");
    let mut found = Vec::new();
    for part in begun {
        let batches: Vec<_> = part.try_collect().await.unwrap();
        found.extend(ids(&batches));
    }
    found
}

#[test]
fn a_row_is_delivered_once_although_its_leaf_merges() {
    let small = EngineConfig {
        buffer_pool: 1 << 20,
        past_pool: true,
        ..EngineConfig::default()
    };
    for config in [EngineConfig::default(), small] {
        let dir = tempfile::tempdir().unwrap();
        live(async {
            let engine = open(dir.path(), config).await;
            engine.create_schema("test").await.unwrap();
            let table = engine.create_table(definition("t")).await.unwrap();
            let mut even = engine.begin(TransactionOptions::default());
            let rows: Vec<_> = (0..ROWS).map(|i| wide(2 * i)).collect();
            even.insert(&table, &rows).await.unwrap();
            even.commit().await.unwrap();
            let all: Vec<_> = (0..ROWS as i32).map(|i| 2 * i).collect();
            for ndp in [false, true] {
                for (ordered, reverse, workers) in [
                    (true, false, 1),
                    (true, true, 1),
                    (true, false, 3),
                    (false, false, 2),
                ] {
                    let request = ScanRequest {
                        ordered,
                        reverse,
                        workers,
                        look_ahead: Some(1),
                        ..request(&engine, &table, ndp)
                    };
                    let mut found = scan(&engine, &table, request).await;
                    match (ordered, reverse) {
                        (true, true) => found.reverse(),
                        (true, false) => {}
                        (false, _) => found.sort_unstable(),
                    }
                    let mode = (ndp, ordered, reverse, workers);
                    assert!(found == all, "{mode:?}: {} rows", found.len());
                }
            }
            engine.shutdown().await.unwrap();
        });
    }
}
