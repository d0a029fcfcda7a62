//! Lookups by key and fetches by secondary index: what they find, and how few reads they take.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use perigee_engine::Engine;
use perigee_engine::catalog::Table;
use perigee_engine::scan::{CancelToken, KeyBatches, KeySpan, KeySpans, LookupRequest, Lookups};
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{EngineConfig, EngineError};
use perigee_value::{Datum, key};

use crate::{definition, ids, insert, live, load, open, open_faulty, row};

const CLUSTERED: usize = 0;
const BY_AMOUNT: usize = 1;

/// The encoded key, or key prefix, of an index.
fn key_of(table: &Table, index: usize, value: Datum) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.indexes[index].layout, &[value], &mut out).unwrap();
    out
}

fn amount_key(table: &Table, amount: i64) -> Vec<u8> {
    key_of(table, BY_AMOUNT, Datum::Decimal(i128::from(amount)))
}

/// Lookups that deliver the id first.
fn lookups(engine: &Arc<Engine>, table: &Arc<Table>, index: usize, fetch: bool) -> Lookups {
    let covered = index == BY_AMOUNT && !fetch;
    let request = LookupRequest {
        table: table.clone(),
        index,
        fetch,
        key_columns: 1,
        key_batches: KeyBatches::Never,
        projection: if covered { vec![1, 0] } else { vec![0, 1] },
        predicate: None,
        view: engine.read_view(),
        cancel: CancelToken::new(),
    };
    engine.lookups(request).unwrap()
}

#[test]
fn rows_are_found_by_keys_of_each_index() {
    for all_ambiguous in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let config = EngineConfig {
            all_ambiguous,
            ..EngineConfig::default()
        };
        live(async {
            let engine = open(dir.path(), config).await;
            engine.create_schema("test").await.unwrap();
            let table = engine.create_table(definition("t")).await.unwrap();
            insert(&engine, &table, 0..5000).await;
            // Neither these nor their entries are seen.
            let mut unseen = engine.begin(TransactionOptions::default());
            let rows: Vec<_> = (5000..6000).map(row).collect();
            unseen.insert(&table, &rows).await.unwrap();

            let with = |amount: i64| (0..5000).filter(move |i| i % 1000 == amount);
            let keys = [7, 999, 3].map(|amount| amount_key(&table, amount));
            let expected: Vec<i32> = with(7)
                .chain(with(999))
                .chain(with(3))
                .map(|i| i as i32)
                .collect();
            let number = |i: &i32| [7, 999, 3].iter().position(|a| i % 1000 == *a).unwrap() as u32;
            let numbers: Vec<_> = expected.iter().map(number).collect();
            for fetch in [true, false] {
                let found = lookups(&engine, &table, BY_AMOUNT, fetch);
                let found = found.find(&keys).await.unwrap();
                assert_eq!(ids(&[found.batch]), expected, "fetch {fetch}");
                assert_eq!(found.key_of_row, numbers);
            }
            let keys: Vec<_> = [4999, 5000, 17, 0, -1]
                .map(|id| key_of(&table, CLUSTERED, Datum::Int(id)))
                .to_vec();
            let found = lookups(&engine, &table, CLUSTERED, false);
            let found = found.find(&keys).await.unwrap();
            assert_eq!(ids(&[found.batch]), [4999, 17, 0]);
            assert_eq!(found.key_of_row, [0, 2, 3]);
            unseen.rollback().await.unwrap();
        });
    }
}

async fn walk(lookups: &Lookups, spans: &KeySpans, reverse: bool) -> Vec<i32> {
    let batches: Vec<RecordBatch> = lookups.spans(spans, reverse).try_collect().await.unwrap();
    ids(&batches)
}

#[test]
fn parts_of_an_index_are_walked_in_order_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..20_000).await;
        let part = |lower: Bound<i64>, upper: Bound<i64>| {
            let key = |amount| amount_key(&table, amount);
            let (lower, upper) = (lower.map(key), upper.map(key));
            let (lower, upper) = (lower.as_ref(), upper.as_ref());
            KeySpan::from_bounds(lower.map(Vec::as_slice), upper.map(Vec::as_slice))
        };
        let hundreds = part(Bound::Excluded(100), Bound::Included(399));
        let none = part(Bound::Included(5000), Bound::Unbounded);
        let singles = (101..400).filter(|n| n % 3 != 0);
        let several = singles.map(|n| part(Bound::Included(n), Bound::Included(n)));
        let several = KeySpans::union(several.chain([none.clone()]).collect());
        assert!(several.len() > 1);
        let by_amount = lookups(&engine, &table, BY_AMOUNT, true);
        for (spans, from, to, thirds) in [
            (KeySpans::all(), -1, 1000, true),
            (hundreds.into(), 101, 400, true),
            (none.into(), 1, 0, true),
            (several, 101, 400, false),
        ] {
            let amount = |i: i32| if i % 10 == 0 { -1 } else { i % 1000 };
            let mut expected: Vec<i32> = (0..20_000)
                .filter(|i| (from..to).contains(&amount(*i)))
                .filter(|i| thirds || amount(*i) % 3 != 0)
                .collect();
            expected.sort_by_key(|i| (amount(*i), *i));
            assert_eq!(walk(&by_amount, &spans, false).await, expected);
            expected.reverse();
            assert_eq!(walk(&by_amount, &spans, true).await, expected);
        }
    });
}

#[test]
fn what_a_batch_of_keys_lacks_is_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..30_000).await;
        engine.shutdown().await.unwrap();
    });
    for (index, fetch) in [(CLUSTERED, false), (BY_AMOUNT, false), (BY_AMOUNT, true)] {
        live(async {
            let (engine, faults) = open_faulty(dir.path(), EngineConfig::default()).await;
            let table = engine.table("test", "t").unwrap();
            let keys: Vec<_> = match index {
                CLUSTERED => (0..30_000)
                    .step_by(75)
                    .map(|id| key_of(&table, CLUSTERED, Datum::Int(id)))
                    .collect(),
                _ => (1..999)
                    .step_by(50)
                    .map(|a| amount_key(&table, a))
                    .collect(),
            };
            let (reads, misses) = (faults.page_reads(), engine.pool().counters().misses);
            let found = lookups(&engine, &table, index, fetch);
            let found = found.find(&keys).await.unwrap();
            let expected = if index == CLUSTERED { 400 } else { 18 * 30 };
            assert!(found.batch.num_rows() >= expected);
            let reads = faults.page_reads() - reads;
            let pages = engine.pool().counters().misses - misses;
            assert!(pages > if fetch { 100 } else { 20 }, "only {pages} pages");
            // A root and its leaves, of one or of two indexes, 64 pages a read.
            assert!(reads <= 8, "{reads} reads of {pages} pages, fetch {fetch}");
        });
    }
    // Who takes few rows reads few pages.
    live(async {
        let (engine, _) = open_faulty(dir.path(), EngineConfig::default()).await;
        let table = engine.table("test", "t").unwrap();
        let misses = engine.pool().counters().misses;
        let found = lookups(&engine, &table, BY_AMOUNT, true);
        let mut rows = found.spans(&KeySpans::all(), true);
        assert!(rows.next().await.unwrap().unwrap().num_rows() >= 10);
        drop(rows);
        let pages = engine.pool().counters().misses - misses;
        assert!(pages < 40, "{pages} pages");
    });
}

#[test]
fn a_cancelled_lookup_ends() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        insert(&engine, &table, 0..100).await;
        let cancel = CancelToken::new();
        let request = LookupRequest {
            table: table.clone(),
            index: BY_AMOUNT,
            fetch: true,
            key_columns: 1,
            key_batches: KeyBatches::Never,
            projection: vec![0],
            predicate: None,
            view: engine.read_view(),
            cancel: cancel.clone(),
        };
        let found = engine.lookups(request).unwrap();
        cancel.cancel();
        let error = found.find(&[amount_key(&table, 5)]).await.unwrap_err();
        assert!(matches!(error, EngineError::Cancelled), "{error}");
    });
}
