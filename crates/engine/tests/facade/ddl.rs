//! Changes of definitions beside readers and writers, and what a restart finds of them.

use std::time::Duration;

use perigee_engine::catalog::{AutoIncrement, ColumnDef, ColumnDefault, IndexDef, Step};
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{Alteration, ExclusiveTable, Source, TableName};
use perigee_value::Zone;

use super::*;

fn name() -> TableName {
    TableName {
        schema: "test".into(),
        name: "t".into(),
    }
}

/// The table as it is with one more index, over its note.
fn with_index(table: &Table) -> Alteration {
    let mut def = table.def.clone();
    def.indexes.push(IndexDef {
        name: "by_note".into(),
        columns: vec![2],
        unique: true,
        ..IndexDef::default()
    });
    let columns = 0..def.columns.len() as u16;
    Alteration {
        sources: columns.map(Source::Column).collect(),
        def,
        zero_is_a_value: false,
        zero_dates: true,
        zone: Zone::Utc,
        force: false,
        checks: true,
        row_fill: None,
        row_check: None,
    }
}

/// The table with a comment of so many bytes.
fn with_comment(table: &Table, len: usize) -> Alteration {
    let mut alteration = with_index(table);
    alteration.def.indexes.pop();
    alteration.def.comment = "c".repeat(len);
    alteration
}

/// Locks the table exclusively, waiting for a few seconds at most.
async fn lock(engine: &Arc<Engine>, cancel: &CancelToken) -> Result<ExclusiveTable, EngineError> {
    let locker = engine.table_locker(Duration::from_secs(5), cancel);
    engine.lock_exclusively(&name(), &locker).await
}

async fn alter(
    engine: &Arc<Engine>,
    change: impl Fn(&Table) -> Alteration,
) -> Result<u64, EngineError> {
    let none = CancelToken::new();
    let locker = engine.table_locker(Duration::from_secs(5), &none);
    let locked = engine.lock_with_related(&name(), &[], &locker).await?;
    let alteration = change(locked.table());
    engine.alter_table(locked, alteration, &none).await
}

async fn made(dir: &Path, rows: i64) -> (Arc<Engine>, Arc<Table>) {
    let engine = open(dir, EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    insert(&engine, &table, 0..rows).await;
    (engine, table)
}

#[test]
fn views_and_statements_from_before_a_rebuild_are_refused() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let (engine, old) = made(dir.path(), 500).await;
        let before = engine.read_view();
        alter(&engine, with_index).await.unwrap();
        let new = engine.table("test", "t").unwrap();
        assert_eq!(new.indexes.len(), 3);
        let trees = engine.verify_table(&new).await.unwrap();
        assert!(trees.iter().all(|tree| tree.records == 500), "{trees:?}");

        let scan = |table: &Arc<Table>, view| ScanRequest {
            view,
            ..request(&engine, table, true)
        };
        let refused = engine.scan(scan(&new, before.clone()));
        assert!(matches!(refused, Err(EngineError::TableChanged(_))));
        // What was there is still there for those who began before.
        let rows = ids(&run(&engine, scan(&old, before)).await);
        assert_eq!(rows, (0..500).collect::<Vec<_>>());
        let rows = ids(&run(&engine, scan(&new, engine.read_view())).await);
        assert_eq!(rows, (0..500).collect::<Vec<_>>());

        let mut late = engine.begin(TransactionOptions::default());
        let refused = late.insert(&old, &[row(900)]).await;
        assert!(
            matches!(refused, Err(EngineError::TableChanged(_))),
            "{refused:?}"
        );
        late.rollback().await.unwrap();
        insert(&engine, &new, 500..510).await;
        let trees = engine.verify_table(&new).await.unwrap();
        assert!(trees.iter().all(|tree| tree.records == 510), "{trees:?}");
    });
}

#[test]
fn a_change_waits_for_writers_and_leaves_nothing_if_it_fails() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let (engine, table) = made(dir.path(), 100).await;
        let mut writer = engine.begin(TransactionOptions::default());
        let twice = vec![Datum::Int(200), Datum::Null, row(7)[2].clone()];
        writer.insert(&table, &[twice]).await.unwrap();

        let waiting = tokio::spawn({
            let engine = engine.clone();
            async move { alter(&engine, with_index).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished(), "somebody writes to the table");
        writer.commit().await.unwrap();
        let failed = waiting.await.unwrap();
        assert!(
            matches!(&failed, Err(EngineError::DuplicateKey { index, .. }) if index == "by_note"),
            "{failed:?}"
        );
        assert!(Arc::ptr_eq(&table, &engine.table("test", "t").unwrap()));

        let mut writer = engine.begin(TransactionOptions::default());
        writer.insert(&table, &[row(300)]).await.unwrap();
        let cancel = CancelToken::new();
        let waiting = tokio::spawn({
            let (engine, cancel) = (engine.clone(), cancel.clone());
            async move { lock(&engine, &cancel).await.map(drop) }
        });
        cancel.cancel();
        let cancelled = waiting.await.unwrap();
        assert!(
            matches!(cancelled, Err(EngineError::Cancelled)),
            "{cancelled:?}"
        );
        writer.rollback().await.unwrap();
        insert(&engine, &table, 100..110).await;
    });
}

#[test]
fn a_restart_finds_what_was_changed_and_goes_on_numbering() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, _) = made(dir.path(), 3000).await;
        // Another order of columns, one more of them, and numbers for the rows.
        let change = |table: &Table| {
            let mut def = table.def.clone();
            def.columns.insert(0, column("extra", TEXT, true));
            def.columns.push(ColumnDef {
                default: Some(ColumnDefault::Value(Datum::Int(5))),
                ..column("five", INT, false)
            });
            def.primary_key = vec![1];
            def.indexes[0].columns = vec![2, 0];
            def.auto_increment = Some(AutoIncrement {
                column: 1,
                start: 1,
            });
            let five = Source::Value(Datum::Int(5));
            let columns = (0..3).map(Source::Column);
            Alteration {
                sources: [Source::Value(Datum::Null)]
                    .into_iter()
                    .chain(columns)
                    .chain([five])
                    .collect(),
                def,
                zero_is_a_value: true,
                zero_dates: true,
                zone: Zone::Utc,
                force: false,
                checks: true,
                row_fill: None,
                row_check: None,
            }
        };
        assert_eq!(alter(&engine, change).await.unwrap(), 3000);
        engine.shutdown().await.unwrap();
    });
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = engine.table("test", "t").unwrap();
        assert_eq!(table.stats().rows, 3000);
        let trees = engine.verify_table(&table).await.unwrap();
        assert!(trees.iter().all(|tree| tree.records == 3000), "{trees:?}");
        let numbers = engine.numbers(&table).await.unwrap().unwrap();
        assert_eq!(numbers.take(Step::default()), Some(3000));
        let request = ScanRequest {
            projection: vec![1, 4],
            ..request(&engine, &table, true)
        };
        let batches = run(&engine, request).await;
        assert_eq!(ids(&batches), (0..3000).collect::<Vec<_>>());
        let fives = batches
            .iter()
            .flat_map(|b| b.column(1).as_primitive::<Int32Type>().values());
        assert!(fives.copied().all(|five| five == 5));

        let locked = lock(&engine, &CancelToken::new()).await;
        engine.truncate_table(locked.unwrap(), true).await.unwrap();
        let table = engine.table("test", "t").unwrap();
        let numbers = engine.numbers(&table).await.unwrap().unwrap();
        assert_eq!(numbers.take(Step::default()), Some(1));
    });
}

#[test]
fn definitions_may_be_longer_than_a_page() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, _) = made(dir.path(), 100).await;
        engine.shutdown().await.unwrap();
    });
    for len in [20_000, 3_000_000, 9_000, 8_000, 0, 100_000] {
        live(async {
            let engine = open(dir.path(), EngineConfig::default()).await;
            let altered = alter(&engine, |table| with_comment(table, len)).await;
            altered.unwrap();
            let too_long = alter(&engine, |table| with_comment(table, 70_000_000)).await;
            let error = too_long.unwrap_err();
            assert!(matches!(error, EngineError::BadDefinition(_)), "{error}");
            engine.shutdown().await.unwrap();
            drop(engine);
            let engine = open(dir.path(), EngineConfig::default()).await;
            let table = engine.table("test", "t").unwrap();
            assert_eq!(table.def.comment.len(), len);
            let batches = run(&engine, request(&engine, &table, true)).await;
            assert_eq!(ids(&batches).len(), 100);
            engine.shutdown().await.unwrap();
        });
    }
    // Nothing stays of it under its name.
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let none = CancelToken::new();
        let locker = engine.table_locker(Duration::from_secs(5), &none);
        engine.drop_schema("test", true, &locker).await.unwrap();
        engine.create_schema("test").await.unwrap();
        engine.create_table(definition("t")).await.unwrap();
        engine.shutdown().await.unwrap();
        drop(engine);
        let engine = open(dir.path(), EngineConfig::default()).await;
        assert_eq!(engine.table("test", "t").unwrap().def, definition("t"));
        engine.shutdown().await.unwrap();
    });
}
