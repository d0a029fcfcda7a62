//! Short reads by key: what they find, whom they see, how few pages they read.

use std::ops::Bound;
use std::sync::Arc;

use perigee_engine::catalog::Table;
use perigee_engine::scan::{KeySpan, KeySpans, Records, ShortRead};
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{Engine, EngineConfig};
use perigee_value::{Datum, RecordView, ValueRef, key};

use crate::{definition, insert, live, load, open, open_faulty, row};

const CLUSTERED: usize = 0;
const BY_AMOUNT: usize = 1;

const NONE: [i64; 0] = [];

fn key_of(table: &Table, index: usize, value: Datum) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.indexes[index].layout, &[value], &mut out).unwrap();
    out
}

fn ids_between(table: &Table, from: i64, to: i64) -> KeySpan {
    let bound = |id| key_of(table, CLUSTERED, Datum::Int(id));
    KeySpan::from_bounds(Bound::Included(&bound(from)), Bound::Included(&bound(to)))
}

fn of_amount(table: &Table, amount: i128) -> KeySpan {
    KeySpan::prefix(&key_of(table, BY_AMOUNT, Datum::Decimal(amount)))
}

/// The ids of the rows, and their notes checked; `None` if the part is too long.
async fn ids(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    (index, span, rows): (usize, &KeySpan, usize),
) -> Option<Vec<i64>> {
    ids_of(engine, table, (index, &span.clone().into(), rows)).await
}

/// As [`ids`], of several parts.
async fn ids_of(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    (index, spans, rows): (usize, &KeySpans, usize),
) -> Option<Vec<i64>> {
    let read = ShortRead {
        table,
        index,
        spans,
        rows,
    };
    let mut records = Records::default();
    records.push(b"of the statement before");
    let view = engine.read_view();
    let whole = engine.read_short(&read, &view, &mut records).await.unwrap();
    let id = |record: &[u8]| {
        let record = RecordView::new(&table.clustered().layout, record);
        let ValueRef::Int(id) = record.value(0) else {
            panic!("an id is an integer")
        };
        assert_eq!(record.row().unwrap(), row(id));
        id
    };
    whole.then(|| records.iter().map(id).collect())
}

#[test]
fn rows_are_found_by_each_index() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, (0..20_000).filter(|i| i % 100 != 50)).await;
        insert(&engine, &table, 20_000..20_010).await;
        for (from, to) in [
            (5, 5),
            (48, 52),
            (50, 50),
            (-9, 2),
            (19_998, 30_000),
            (7, 6),
        ] {
            let span = ids_between(&table, from, to);
            let expected: Vec<_> = (from.max(0)..=to.min(20_009))
                .filter(|i| i % 100 != 50)
                .collect();
            let found = ids(&engine, &table, (CLUSTERED, &span, usize::MAX)).await;
            assert_eq!(found.as_ref(), Some(&expected), "{from} to {to}");
            let first = ids(&engine, &table, (CLUSTERED, &span, 3)).await;
            assert_eq!(first.unwrap(), expected[..expected.len().min(3)]);
        }
        // Several parts, which begin where others end, lie in one page or far apart.
        let parts = [
            (48, 52),
            (7, 7),
            (8, 9),
            (15_000, 15_003),
            (3, 2),
            (20_008, 30_000),
        ];
        let of_parts: Vec<_> = parts
            .iter()
            .map(|(from, to)| ids_between(&table, *from, *to))
            .collect();
        let spans = KeySpans::union(of_parts);
        let expected = [
            7, 8, 9, 48, 49, 51, 52, 15_000, 15_001, 15_002, 15_003, 20_008, 20_009,
        ];
        for rows in [usize::MAX, 13, 12, 5, 1, 0] {
            let found = ids_of(&engine, &table, (CLUSTERED, &spans, rows)).await;
            assert_eq!(found.unwrap(), expected[..rows.min(13)], "{rows}");
        }
        let amounts = KeySpans::union([9, 7, 8, 5000].map(|n| of_amount(&table, n)).to_vec());
        let found = ids_of(&engine, &table, (BY_AMOUNT, &amounts, usize::MAX)).await;
        let mut expected: Vec<_> = (0..20_010)
            .filter(|i| (7..10).contains(&(i % 1000)))
            .collect();
        expected.sort_by_key(|i| (i % 1000, *i));
        assert_eq!(found.unwrap(), expected);
        // Across several leaves, and more than a short read goes over.
        let span = ids_between(&table, 100, 899);
        assert_eq!(
            ids(&engine, &table, (CLUSTERED, &span, usize::MAX))
                .await
                .unwrap()
                .len(),
            792
        );
        let span = ids_between(&table, 100, 9000);
        assert_eq!(
            ids(&engine, &table, (CLUSTERED, &span, usize::MAX)).await,
            None
        );
        assert_eq!(
            ids(&engine, &table, (CLUSTERED, &span, 2)).await.unwrap(),
            [100, 101]
        );
        assert_eq!(
            ids(&engine, &table, (CLUSTERED, &span, 0)).await.unwrap(),
            NONE
        );
        let span = of_amount(&table, 7);
        let expected: Vec<_> = (0..20_010).filter(|i| i % 1000 == 7).collect();
        assert_eq!(
            ids(&engine, &table, (BY_AMOUNT, &span, usize::MAX))
                .await
                .unwrap(),
            expected
        );
        assert_eq!(
            ids(&engine, &table, (BY_AMOUNT, &span, 2)).await.unwrap(),
            expected[..2]
        );
        let none = of_amount(&table, 5000);
        assert_eq!(
            ids(&engine, &table, (BY_AMOUNT, &none, usize::MAX))
                .await
                .unwrap(),
            NONE
        );
        let null = KeySpan::prefix(&key_of(&table, BY_AMOUNT, Datum::Null));
        assert_eq!(
            ids(&engine, &table, (BY_AMOUNT, &null, usize::MAX)).await,
            None
        );
    });
}

#[test]
fn rows_of_others_are_not_seen_before_they_commit() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        insert(&engine, &table, 0..10).await;
        let mut others = engine.begin(TransactionOptions::default());
        let rows: Vec<_> = (10..20).map(row).collect();
        others.insert(&table, &rows).await.unwrap();
        let (all, twelve) = (ids_between(&table, 0, 100), of_amount(&table, 12));
        let find = async |index, span| ids(&engine, &table, (index, span, usize::MAX)).await;
        assert_eq!(
            find(CLUSTERED, &all).await.unwrap(),
            (0..10).collect::<Vec<_>>()
        );
        assert_eq!(find(BY_AMOUNT, &twelve).await.unwrap(), NONE);
        others.commit().await.unwrap();
        assert_eq!(
            find(CLUSTERED, &all).await.unwrap(),
            (0..20).collect::<Vec<_>>()
        );
        assert_eq!(find(BY_AMOUNT, &twelve).await.unwrap(), [12]);
    });
}

#[test]
fn what_a_short_read_lacks_is_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..30_000).await;
        engine.shutdown().await.unwrap();
    });
    for (index, amount, rows) in [(CLUSTERED, 0, 800), (BY_AMOUNT, 7, 30)] {
        live(async {
            let (engine, faults) = open_faulty(dir.path(), EngineConfig::default()).await;
            let table = engine.table("test", "t").unwrap();
            let span = match index {
                CLUSTERED => ids_between(&table, 10_000, 10_799),
                _ => of_amount(&table, amount),
            };
            let (reads, misses) = (faults.page_reads(), engine.pool().counters().misses);
            let found = ids(&engine, &table, (index, &span, usize::MAX))
                .await
                .unwrap();
            assert_eq!(found.len(), rows);
            let (reads, pages) = (
                faults.page_reads() - reads,
                engine.pool().counters().misses - misses,
            );
            // A root, then leaves; of one or of two indexes, perhaps in two slices.
            assert!(pages >= 4 && reads <= 6, "{reads} reads of {pages} pages");
            let before = faults.page_reads();
            ids(&engine, &table, (index, &span, usize::MAX))
                .await
                .unwrap();
            assert_eq!(faults.page_reads(), before);
        });
    }
}
