//! Long values: what is written is read by every path and every view, and the overflow pages of what
//! nobody sees are used again, whatever became of the transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use futures::TryStreamExt;
use perigee_engine::buffer::Access;
use perigee_engine::catalog::{ColumnDef, IndexDef, Table, TableDef};
use perigee_engine::scan::{CancelToken, KeyBatches, KeySpans, LookupRequest};
use perigee_engine::txn::{ReadView, Transaction, TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig, EngineError};
use perigee_expr::{Builder, Comparison};
use perigee_page::{HEADER_LEN, OVERFLOW_CAPACITY, OverflowPage, PageKind};
use perigee_types::PageId;
use perigee_value::{Collation, ColumnType, Datum};

use super::mvcc::key_of;
use super::{INT, column, live, open, request, run};

/// A row: the indexed number, the text, the bytes.
type Row = (i64, Option<Vec<u8>>, Option<Vec<u8>>);
type Rows = BTreeMap<i64, Row>;

fn definition() -> TableDef {
    let long = |collation| ColumnType::Long {
        prefix: 4,
        collation,
    };
    let column = |name: &str, ty| -> ColumnDef { column(name, ty, name != "id") };
    TableDef {
        schema: "test".into(),
        name: "t".into(),
        columns: vec![
            column("id", INT),
            column("number", INT),
            column("words", long(Collation::UTF8MB4_BIN)),
            column("bytes", long(Collation::BINARY)),
        ],
        primary_key: vec![0],
        indexes: vec![IndexDef {
            name: "by_number".into(),
            columns: vec![1],
            unique: false,
            ..IndexDef::default()
        }],
        auto_increment: None,
        collation: Collation::UTF8MB4_BIN,
        comment: String::new(),
        ..TableDef::default()
    }
}

async fn table(engine: &Arc<Engine>) -> Arc<Table> {
    engine.create_schema("test").await.unwrap();
    engine.create_table(definition()).await.unwrap()
}

/// Bytes that tell where they belong.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn words(seed: u64, len: usize) -> Vec<u8> {
    bytes(seed, len)
        .iter()
        .map(|byte| b'a' + byte % 26)
        .collect()
}

fn row_of(seed: u64, text: usize, blob: usize) -> Row {
    let number = (seed % 7) as i64;
    (number, Some(words(seed, text)), Some(bytes(seed, blob)))
}

fn datums(id: i64, (number, text, blob): &Row) -> Vec<Datum> {
    let long = |value: &Option<Vec<u8>>| value.clone().map_or(Datum::Null, Datum::String);
    vec![Datum::Int(id), Datum::Int(*number), long(text), long(blob)]
}

fn collect(batches: &[RecordBatch]) -> Rows {
    let mut rows = Rows::new();
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int32Type>();
        let numbers = batch.column(1).as_primitive::<Int32Type>();
        let texts = batch.column(2).as_string_view();
        let blobs = batch.column(3).as_binary_view();
        for i in 0..batch.num_rows() {
            let text = texts
                .is_valid(i)
                .then(|| texts.value(i).as_bytes().to_vec());
            let blob = blobs.is_valid(i).then(|| blobs.value(i).to_vec());
            let row = (i64::from(numbers.value(i)), text, blob);
            assert!(rows.insert(i64::from(ids.value(i)), row).is_none());
        }
    }
    rows
}

/// What a view shows, by scans without and with near-data processing and by the secondary index.
async fn seen(engine: &Arc<Engine>, table: &Arc<Table>, view: &Arc<ReadView>) -> Rows {
    let mut all = Vec::new();
    for ndp in [false, true] {
        let mut request = request(engine, table, ndp);
        request.view = view.clone();
        request.projection = vec![0, 1, 2, 3];
        all.push(collect(&run(engine, request).await));
    }
    let request = LookupRequest {
        table: table.clone(),
        index: 1,
        fetch: true,
        key_columns: 1,
        key_batches: KeyBatches::Never,
        projection: vec![0, 1, 2, 3],
        predicate: None,
        view: view.clone(),
        cancel: CancelToken::new(),
    };
    let lookups = engine.lookups(request).unwrap();
    let range = lookups.spans(&KeySpans::all(), false);
    all.push(collect(&range.try_collect::<Vec<_>>().await.unwrap()));
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "all paths");
    all.swap_remove(0)
}

/// Pages of chains, by looking at every page that was ever handed out.
async fn overflow_pages(engine: &Engine) -> usize {
    let superblock = engine.pool().fetch(PageId(1), Access::Point).await.unwrap();
    let end = superblock.read(|page| {
        let bytes = &page.bytes()[HEADER_LEN + 64..][..8];
        u64::from_le_bytes(bytes.try_into().unwrap())
    });
    let mut count = 0;
    for id in 64..end {
        // Not every page of an extent was ever used.
        if let Ok(frame) = engine.pool().fetch(PageId(id), Access::Scan).await {
            frame.read(|page| {
                page.verify().unwrap();
                count += usize::from(page.kind() == PageKind::Overflow);
            });
        }
    }
    count
}

/// Pages that rows need.
fn needed(rows: &Rows) -> usize {
    let pages = |value: &Option<Vec<u8>>| {
        let len = value.as_ref().map_or(0, Vec::len);
        len.div_ceil(OVERFLOW_CAPACITY) * usize::from(len > 8100)
    };
    rows.values()
        .map(|(_, text, blob)| pages(text) + pages(blob))
        .sum()
}

/// Waits until purge has left what the rows need, and no page more.
async fn assert_no_page_more(engine: &Engine, rows: &Rows) {
    let expected = needed(rows);
    let mut found = 0;
    for _ in 0..200 {
        found = overflow_pages(engine).await;
        if found == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(found, expected, "pages of chains");
}

async fn begin(engine: &Arc<Engine>) -> Transaction {
    engine.begin(TransactionOptions::default())
}

async fn insert(engine: &Arc<Engine>, table: &Arc<Table>, rows: &Rows) {
    let mut transaction = begin(engine).await;
    let rows: Vec<_> = rows.iter().map(|(id, row)| datums(*id, row)).collect();
    transaction.insert(table, &rows).await.unwrap();
    transaction.commit().await.unwrap();
}

#[test]
fn values_of_all_lengths_come_back_by_every_path() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [
        0,
        1,
        40,
        8000,
        8100,
        8127,
        16_000,
        OVERFLOW_CAPACITY,
        OVERFLOW_CAPACITY + 1,
        70_000,
    ];
    let mut rows = Rows::new();
    for (i, text) in lengths.into_iter().enumerate() {
        for (j, blob) in lengths.into_iter().enumerate() {
            let id = (10 * i + j) as i64;
            rows.insert(id, row_of(id as u64, text, blob));
        }
    }
    rows.insert(1000, (0, None, Some(bytes(1, 17 << 20))));
    rows.insert(1001, (1, Some(words(2, 600_000)), None));
    let config = || EngineConfig {
        // Less than the largest value has pages.
        buffer_pool: 2 << 20,
        ..EngineConfig::default()
    };
    live(async {
        let engine = open(dir.path(), config()).await;
        let table = table(&engine).await;
        insert(&engine, &table, &rows).await;
        assert!(seen(&engine, &table, &engine.read_view()).await == rows);
        engine.shutdown().await.unwrap();
    });
    for all_ambiguous in [false, true] {
        live(async {
            let config = EngineConfig {
                all_ambiguous,
                past_pool: true,
                ..config()
            };
            let engine = open(dir.path(), config).await;
            let table = engine.table("test", "t").unwrap();
            assert!(seen(&engine, &table, &engine.read_view()).await == rows);
            engine.shutdown().await.unwrap();
        });
    }
}

#[test]
fn rows_that_are_left_out_and_columns_that_are_not_asked_for_cost_no_overflow_page() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Rows = (0..20)
        .map(|id| (id, row_of(id as u64, 20_000, 20_000)))
        .collect();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = table(&engine).await;
        insert(&engine, &table, &rows).await;
        engine.shutdown().await.unwrap();
    });
    for ndp in [false, true] {
        live(async {
            let engine = open(dir.path(), EngineConfig::default()).await;
            let table = engine.table("test", "t").unwrap();
            let resident = || engine.resident_pages(table.clustered());
            let mut narrow = request(&engine, &table, ndp);
            narrow.projection = vec![0, 1];
            assert_eq!(super::ids(&run(&engine, narrow).await).len(), 20);
            let trees = engine.verify_table(&table).await.unwrap();
            let before = resident();
            assert!(before <= trees[0].leaf_pages + 1, "{before} pages");
            let mut builder = Builder::new(&table.clustered().layout);
            let (number, three) = (builder.column(1).unwrap(), builder.int(3).unwrap());
            let equal = builder.compare(Comparison::Equal, number, three).unwrap();
            let mut filtered = request(&engine, &table, ndp);
            filtered.projection = vec![0, 1, 2, 3];
            filtered.predicate = Some(builder.finish(equal).unwrap());
            let found = collect(&run(&engine, filtered).await);
            let expected: Rows = rows
                .iter()
                .filter(|(_, row)| row.0 == 3)
                .map(|(id, row)| (*id, row.clone()))
                .collect();
            assert!(found == expected && !found.is_empty());
            assert_eq!(resident() - before, needed(&expected) as u64);
            engine.shutdown().await.unwrap();
        });
    }
}

#[test]
fn readers_of_old_versions_see_old_values_and_purge_frees_them_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = table(&engine).await;
        let mut rows: Rows = (0..10)
            .map(|id| (id, row_of(id as u64, 20_000, 40_000)))
            .collect();
        insert(&engine, &table, &rows).await;
        let mut views = vec![(engine.read_view(), rows.clone())];
        for round in 1..6_u64 {
            let mut transaction = begin(&engine).await;
            for id in 0..10 {
                let key = key_of(&table, id);
                let mut row = rows[&id].clone();
                match (round + id as u64) % 5 {
                    0 => row.1 = Some(words(round * 100 + id as u64, 30_000)),
                    1 => row.2 = Some(bytes(round * 100 + id as u64, 100)),
                    2 => row.0 += 1,
                    3 => row.2 = Some(bytes(round * 100 + id as u64, 50_000)),
                    _ => {
                        let deleted = transaction.delete_row(&table, &key).await.unwrap();
                        assert_eq!(deleted, Written::Done);
                        row = row_of(round * 100 + id as u64, 25_000, 9000);
                        let inserted = transaction.insert_row(&table, &datums(id, &row)).await;
                        assert_eq!(inserted.unwrap(), Written::Done);
                        rows.insert(id, row);
                        continue;
                    }
                }
                let updated = transaction
                    .update_row(&table, &key, &datums(id, &row))
                    .await;
                assert_eq!(updated.unwrap(), Written::Done);
                let again = transaction
                    .update_row(&table, &key, &datums(id, &row))
                    .await;
                assert_eq!(again.unwrap(), Written::Unchanged);
                rows.insert(id, row);
            }
            transaction.commit().await.unwrap();
            views.push((engine.read_view(), rows.clone()));
        }
        for (view, rows) in &views {
            assert!(seen(&engine, &table, view).await == *rows);
        }
        // One view after the other goes, in another order than they came.
        views.swap(0, 3);
        while let Some((view, _)) = views.pop() {
            drop(view);
            tokio::time::sleep(Duration::from_millis(30)).await;
            for (view, rows) in &views {
                assert!(seen(&engine, &table, view).await == *rows);
            }
        }
        assert_no_page_more(&engine, &rows).await;
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn what_is_undone_leaves_no_page_and_frees_none_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = table(&engine).await;
        let mut rows: Rows = (0..5)
            .map(|id| (id, row_of(id as u64, 20_000, 10)))
            .collect();
        insert(&engine, &table, &rows).await;
        let mut transaction = begin(&engine).await;
        let kept = row_of(77, 40_000, 40_000);
        let written = transaction
            .update_row(&table, &key_of(&table, 0), &datums(0, &kept))
            .await;
        assert_eq!(written.unwrap(), Written::Done);
        let savepoint = transaction.savepoint();
        for id in 0..3 {
            let row = datums(id, &row_of(88 + id as u64, 33_000, 33_000));
            let written = transaction
                .update_row(&table, &key_of(&table, id), &row)
                .await;
            assert_eq!(written.unwrap(), Written::Done);
        }
        let deleted = transaction.delete_row(&table, &key_of(&table, 3)).await;
        assert_eq!(deleted.unwrap(), Written::Done);
        transaction
            .insert(&table, &[datums(50, &row_of(50, 90_000, 0))])
            .await
            .unwrap();
        transaction.rollback_to(&savepoint).await.unwrap();
        // A duplicate that is no error leaves nothing either.
        let row = datums(4, &row_of(99, 50_000, 50_000));
        let duplicate = transaction.insert_row(&table, &row).await.unwrap();
        assert!(matches!(duplicate, Written::Duplicate(_)));
        transaction.commit().await.unwrap();
        rows.insert(0, kept);
        assert_no_page_more(&engine, &rows).await;
        assert!(seen(&engine, &table, &engine.read_view()).await == rows);
        let mut transaction = begin(&engine).await;
        for id in 0..5 {
            let row = datums(id + 100, &row_of(id as u64, 33_000, 33_000));
            let moved = transaction
                .update_row(&table, &key_of(&table, id), &row)
                .await;
            assert_eq!(moved.unwrap(), Written::Done);
        }
        transaction.rollback().await.unwrap();
        assert_no_page_more(&engine, &rows).await;
        assert!(seen(&engine, &table, &engine.read_view()).await == rows);
        // A row that moves takes its values along.
        let mut transaction = begin(&engine).await;
        let mut row = rows.remove(&0).unwrap();
        row.0 = 3;
        let moved = transaction
            .update_row(&table, &key_of(&table, 0), &datums(200, &row))
            .await;
        assert_eq!(moved.unwrap(), Written::Done);
        transaction.commit().await.unwrap();
        rows.insert(200, row);
        assert_no_page_more(&engine, &rows).await;
        assert!(seen(&engine, &table, &engine.read_view()).await == rows);
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn churn_needs_no_more_pages_than_the_rows_do() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = table(&engine).await;
        let mut rows = Rows::new();
        for round in 0..12_u64 {
            let mut transaction = begin(&engine).await;
            for id in 0..8 {
                let row = row_of(round * 8 + id as u64, 20_000 + 7 * round as usize, 60_000);
                let values = datums(id, &row);
                let written = match rows.insert(id, row) {
                    None => transaction.insert_row(&table, &values).await,
                    Some(_) => {
                        transaction
                            .update_row(&table, &key_of(&table, id), &values)
                            .await
                    }
                };
                assert_eq!(written.unwrap(), Written::Done);
            }
            transaction.commit().await.unwrap();
            assert_no_page_more(&engine, &rows).await;
        }
        let superblock = engine.pool().fetch(PageId(1), Access::Point).await.unwrap();
        let handed_out = superblock.read(|page| {
            let bytes = &page.bytes()[HEADER_LEN + 64..][..8];
            u64::from_le_bytes(bytes.try_into().unwrap())
        });
        // Some extents of trees and undo, and twice what the rows need.
        let most = 64 * 8 + 2 * needed(&rows) as u64;
        assert!(handed_out < most, "{handed_out} pages were handed out");
        let mut transaction = begin(&engine).await;
        for id in 0..8 {
            let deleted = transaction.delete_row(&table, &key_of(&table, id)).await;
            assert_eq!(deleted.unwrap(), Written::Done);
        }
        transaction.commit().await.unwrap();
        assert_no_page_more(&engine, &Rows::new()).await;
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn crashes_between_chains_and_rows_leave_nothing() {
    for stop in 0..12_u64 {
        let dir = tempfile::tempdir().unwrap();
        let rows: Rows = (0..6)
            .map(|id| (id, row_of(id as u64, 20_000, 30_000)))
            .collect();
        let unfinished = live(async {
            let engine = open(dir.path(), EngineConfig::default()).await;
            let table = table(&engine).await;
            insert(&engine, &table, &rows).await;
            let mut transaction = begin(&engine).await;
            let work = async {
                let updated = datums(0, &row_of(500, 300_000, 900_000));
                let _ = transaction
                    .update_row(&table, &key_of(&table, 0), &updated)
                    .await;
                let _ = transaction.delete_row(&table, &key_of(&table, 1)).await;
                let inserted = datums(9, &row_of(600, 5, 2 << 20));
                let _ = transaction.insert(&table, &[inserted]).await;
                let updated = datums(2, &row_of(700, 0, 90_000));
                let _ = transaction
                    .update_row(&table, &key_of(&table, 2), &updated)
                    .await;
            };
            // Wherever the work is then.
            let _ = tokio::time::timeout(Duration::from_micros(stop * stop * 700), work).await;
            let lsn = engine.sal().last_lsn();
            engine.sal().wait_durable(lsn).await.unwrap();
            transaction
        });
        // Without a runtime nothing is rolled back: as if the process died here.
        drop(unfinished);
        // The rollback itself is cut off, too.
        for pause in [1_u64, 0, 3000] {
            live(async {
                let engine = open(dir.path(), EngineConfig::default()).await;
                if pause < 3000 {
                    tokio::time::sleep(Duration::from_millis(pause * stop)).await;
                    let lsn = engine.sal().last_lsn();
                    engine.sal().wait_durable(lsn).await.unwrap();
                    return;
                }
                let table = engine.table("test", "t").unwrap();
                assert_no_page_more(&engine, &rows).await;
                assert!(seen(&engine, &table, &engine.read_view()).await == rows);
            });
        }
    }
}

#[test]
fn purge_that_a_crash_cut_off_frees_each_page_once() {
    for stop in 0..6_u64 {
        let dir = tempfile::tempdir().unwrap();
        let mut rows: Rows = (0..12)
            .map(|id| (id, row_of(id as u64, 90_000, 30_000)))
            .collect();
        live(async {
            let engine = open(dir.path(), EngineConfig::default()).await;
            let table = table(&engine).await;
            insert(&engine, &table, &rows).await;
            let view = engine.read_view();
            for id in 0..12 {
                let mut transaction = begin(&engine).await;
                let row = row_of(1000 + id as u64, 50_000, 60_000);
                let values = datums(id, &row);
                let written = transaction
                    .update_row(&table, &key_of(&table, id), &values)
                    .await;
                assert_eq!(written.unwrap(), Written::Done);
                transaction.commit().await.unwrap();
                rows.insert(id, row);
            }
            drop(view);
            tokio::time::sleep(Duration::from_millis(stop * 3)).await;
            // Freed pages are used again before the crash.
            let row = row_of(2000, 30_000, 80_000);
            let mut transaction = begin(&engine).await;
            transaction
                .insert(&table, &[datums(77, &row)])
                .await
                .unwrap();
            transaction.commit().await.unwrap();
            rows.insert(77, row);
        });
        live(async {
            let engine = open(dir.path(), EngineConfig::default()).await;
            let table = engine.table("test", "t").unwrap();
            assert_no_page_more(&engine, &rows).await;
            assert!(seen(&engine, &table, &engine.read_view()).await == rows);
        });
    }
}

#[test]
fn loads_make_chains_and_undo_them() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = table(&engine).await;
        let mut rows = Rows::new();
        for into_rows in [false, true] {
            let more: Rows = (0..30)
                .map(|i| (if into_rows { 100 + i } else { 29 - i }, i as u64))
                .map(|(id, seed)| (id, row_of(seed, 20_000, 9000 * (seed as usize % 4))))
                .collect();
            for finish in [false, true] {
                let mut load = engine.bulk_load(&table).await.unwrap();
                let encoder = load.encoder();
                let mut chunk = encoder.chunk(0);
                for (id, row) in &more {
                    encoder.push(&mut chunk, &datums(*id, row)).unwrap();
                }
                encoder.finish(&mut chunk);
                load.push(chunk).await.unwrap();
                if finish {
                    assert_eq!(load.finish().await.unwrap(), 30);
                } else {
                    load.rollback().await.unwrap();
                    assert_no_page_more(&engine, &rows).await;
                }
            }
            rows.extend(more);
            assert_no_page_more(&engine, &rows).await;
            assert!(seen(&engine, &table, &engine.read_view()).await == rows);
        }
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn damaged_chains_are_errors_that_name_the_page() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = table(&engine).await;
        let row = row_of(1, 10, 40_000);
        insert(&engine, &table, &[(1, row)].into()).await;
        let record = engine
            .row(&table, &key_of(&table, 1), &engine.read_view())
            .await;
        let record = record.unwrap().unwrap();
        let view = perigee_value::RecordView::new(&table.clustered().layout, &record);
        let Datum::Overflow(reference) = view.value(3).to_datum() else {
            panic!("the value does not fit the row");
        };
        let frame = engine
            .pool()
            .fetch(reference.first, Access::Point)
            .await
            .unwrap();
        let second = frame.read(|page| {
            assert_eq!(OverflowPage::new(page).unwrap().chain(), reference.chain);
            page.next().unwrap()
        });
        let fetch = async |reference| {
            let mut row = vec![Datum::Overflow(reference)];
            engine.fetch_long(&mut row).await.map(|()| row)
        };
        assert!(fetch(reference).await.is_ok());
        let mut wrong = vec![reference; 5];
        wrong[0].first = second;
        wrong[1].first = table.clustered().root;
        wrong[2].chain += 1;
        wrong[3].len += 1;
        wrong[4].len -= 20_000;
        let named = [
            Some(second),
            Some(table.clustered().root),
            Some(reference.first),
            None,
            None,
        ];
        for (reference, page) in wrong.into_iter().zip(named) {
            let error = fetch(reference).await.unwrap_err();
            assert!(matches!(error, EngineError::Corrupt(_)), "{error}");
            if let Some(page) = page {
                assert!(error.to_string().contains(&page.to_string()), "{error}");
            }
        }
        engine.shutdown().await.unwrap();
    });
}
