//! Statistics of tables: gathered on demand and in the background, kept over restarts.

use std::time::Duration;

use perigee_engine::Analysis;
use perigee_engine::catalog::{ColumnStats, TableStats};

use super::*;

/// Rows that one transaction inserts: `row(id)` of these ids.
async fn insert(engine: &Arc<Engine>, table: &Arc<Table>, ids: std::ops::Range<i64>) {
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in ids {
        transaction.insert_row(table, &row(id)).await.unwrap();
    }
    transaction.commit().await.unwrap();
}

async fn with_rows(engine: &Arc<Engine>, rows: i64) -> Arc<Table> {
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    insert(engine, &table, 0..rows).await;
    table
}

fn soon() -> EngineConfig {
    EngineConfig {
        statistics_interval: Duration::from_millis(5),
        ..EngineConfig::default()
    }
}

/// Waits until the statistics are as they should be.
async fn until(table: &Table, good: impl Fn(&TableStats) -> bool) {
    for _ in 0..2000 {
        if good(&table.stats()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the statistics stay {:?}", table.stats());
}

fn amounts(stats: &TableStats) -> &ColumnStats {
    &stats.columns[1]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserted_rows_are_analyzed_and_the_outcome_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    let rows = 5000;
    let table = with_rows(&engine, rows).await;
    assert!(table.stats().columns.is_empty());
    let cancel = CancelToken::new();
    let all = Analysis::All;
    engine.analyze_table(&table, &all, &cancel).await.unwrap();
    let stats = table.stats();
    assert_eq!(stats.rows, rows as u64);
    let trees = engine.verify_table(&table).await.unwrap();
    let leaves: Vec<u64> = trees.iter().map(|tree| tree.leaf_pages).collect();
    assert_eq!(stats.leaf_pages, leaves);
    assert_eq!(amounts(&stats).nulls, rows as u64 / 10);
    assert_eq!(amounts(&stats).max, Some(Datum::Decimal(999)));
    // 900 amounts are spread evenly.
    assert!((880..=920).contains(&amounts(&stats).distinct));
    let half = amounts(&stats).below(&Datum::Decimal(500)).unwrap();
    assert!((half - 0.5).abs() < 0.02, "{half}");
    engine.shutdown().await.unwrap();
    drop((table, engine));

    let engine = open(dir.path(), EngineConfig::default()).await;
    let table = engine.table("test", "t").unwrap();
    assert_eq!(table.stats(), stats);
    // Forgetting histograms is kept, too, and so is that a table is gone.
    let none = Analysis::NoHistograms(vec![1, 2]);
    engine.analyze_table(&table, &none, &cancel).await.unwrap();
    engine.shutdown().await.unwrap();
    drop((table, engine));
    let engine = open(dir.path(), EngineConfig::default()).await;
    let table = engine.table("test", "t").unwrap();
    let with = |column: usize| table.stats().columns[column].histogram.is_some();
    assert_eq!([with(0), with(1), with(2)], [true, false, false]);
    let some = Analysis::Histograms {
        columns: vec![2],
        buckets: 7,
    };
    engine.analyze_table(&table, &some, &cancel).await.unwrap();
    assert_eq!([with(0), with(1), with(2)], [true, false, true]);
    let notes = table.stats().columns[2].histogram.clone().unwrap();
    assert!((1..=7).contains(&notes.buckets().len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_tell_how_values_are_spread() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    let mut load = engine.bulk_load(&table).await.unwrap();
    let encoder = load.encoder();
    for first in (0..20_000).step_by(1000) {
        let mut chunk = encoder.chunk(0);
        for id in first..first + 1000 {
            let mut row = row(id);
            // Half of the amounts are 7, the others up to 20,000.
            row[1] = Datum::Decimal(i128::from(if id % 2 == 0 { 7 } else { id }));
            encoder.push(&mut chunk, &row).unwrap();
        }
        encoder.finish(&mut chunk);
        load.push(chunk).await.unwrap();
    }
    load.finish().await.unwrap();
    let stats = table.stats();
    let seven = amounts(&stats).equal(&Datum::Decimal(7));
    assert!((seven - 0.5).abs() < 0.03, "{seven}");
    let below = amounts(&stats).below(&Datum::Decimal(10_000)).unwrap();
    assert!((below - 0.75).abs() < 0.03, "{below}");
    let other = amounts(&stats).equal(&Datum::Decimal(9_999));
    assert!(other < 0.001, "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_many_rows_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), soon()).await;
    let table = with_rows(&engine, 1000).await;
    until(&table, |stats| {
        stats.columns.len() == 3 && stats.rows == 1000
    })
    .await;
    assert_eq!(amounts(&table.stats()).max, Some(Datum::Decimal(999)));
    // A tenth of the rows would be few.
    insert(&engine, &table, 1000..1200).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (by_statements, in_background) = engine.analyses();
    assert_eq!((by_statements, in_background), (0, 1));
    // Updates count as well as inserts.
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in 1..101 {
        let key = key_of(&table, id);
        let mut row = row(id);
        row[1] = Datum::Decimal(5000);
        transaction.update_row(&table, &key, &row).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let updated = |stats: &TableStats| amounts(stats).max == Some(Datum::Decimal(5000));
    until(&table, updated).await;
    // So does what is rolled back not.
    let before = engine.analyses();
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in 2000..3000 {
        transaction.insert_row(&table, &row(id)).await.unwrap();
    }
    transaction.rollback().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.analyses(), before);

    engine.keep_statistics_fresh(false);
    insert(&engine, &table, 2000..3000).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.analyses(), before);
    engine.keep_statistics_fresh(true);
    until(&table, |stats| {
        stats.columns[0].max == Some(Datum::Int(2999))
    })
    .await;
    engine.shutdown().await.unwrap();
}

fn key_of(table: &Table, id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    key::encode_part(INT, false, Datum::Int(id).as_ref(), &mut key).unwrap();
    assert_eq!(table.clustered().key_columns, 1);
    key
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathering_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), soon()).await;
    let cancel = CancelToken::new();
    for round in 0..10 {
        let name = format!("t{round}");
        let _ = engine.create_schema("test").await;
        let table = engine.create_table(definition(&name)).await.unwrap();
        insert(&engine, &table, 0..500).await;
        tokio::time::sleep(Duration::from_millis(round)).await;
        // Statistics of a table that is gone are not stored.
        let locker = engine.table_locker(Duration::from_secs(5), &cancel);
        let of = perigee_engine::TableName::of(&table);
        let locked = engine.lock_exclusively(&of, &locker).await.unwrap();
        engine.drop_tables(vec![locked], true).await.unwrap();
        let outcome = engine.analyze_table(&table, &Analysis::All, &cancel).await;
        assert!(
            matches!(outcome, Err(EngineError::TableChanged(_))),
            "{outcome:?}"
        );
    }
    // An end in the middle of it.
    let table = engine.create_table(definition("last")).await.unwrap();
    insert(&engine, &table, 0..3000).await;
    tokio::time::sleep(Duration::from_millis(6)).await;
    engine.shutdown().await.unwrap();
    let outcome = engine.analyze_table(&table, &Analysis::All, &cancel).await;
    assert!(
        matches!(outcome, Err(EngineError::Cancelled)),
        "{outcome:?}"
    );
    drop((table, engine));
    let engine = open(dir.path(), soon()).await;
    let table = engine.table("test", "last").unwrap();
    engine.look_at_size(&table).await.unwrap();
    until(&table, |stats| stats.columns.len() == 3).await;
    assert_eq!(table.stats().rows, 3000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histograms_of_loads_have_the_ends() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    // Many more rows than samples have, each with another id.
    let rows = 30_000;
    load(&engine, &table, 0..rows).await;
    let stats = table.stats();
    let ids = &stats.columns[0];
    for end in [0, rows - 1] {
        assert!(ids.equal(&Datum::Int(end)) > 0.0, "{end}");
    }
    for outside in [-1, rows] {
        assert_eq!(ids.equal(&Datum::Int(outside)), 0.0, "{outside}");
    }
    let below = ids.below(&Datum::Int(20)).unwrap();
    assert!((1e-4..3e-3).contains(&below), "{below}");
}
