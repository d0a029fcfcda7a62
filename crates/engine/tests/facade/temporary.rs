//! Temporary tables: in nobody's catalog, and nothing of them is left after a crash.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use perigee_engine::txn::Transaction;
use perigee_engine::{Analysis, TableName, TemporaryTables};

use super::space::{settle, space};
use super::*;

async fn make(tables: &mut TemporaryTables, name: &str) -> Arc<Table> {
    let schema = tables.schema("test").to_owned();
    let def = TableDef {
        schema,
        ..definition(name)
    };
    tables.create(def).await.unwrap()
}

async fn insert(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    ids: std::ops::Range<i64>,
) -> Transaction {
    let mut transaction = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = ids.map(row).collect();
    transaction.insert(table, &rows).await.unwrap();
    transaction
}

/// A life that ends with the process: one transaction on temporary tables is committed, one is not, and both have
/// written to a lasting table, too.
#[test]
fn after_a_crash_their_pages_are_free() {
    let dir = tempfile::tempdir().unwrap();
    let left = live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let lasting = engine.create_table(definition("t")).await.unwrap();
        let mut tables = engine.temporary_tables();
        let one = make(&mut tables, "t").await;
        let two = make(&mut tables, "two").await;
        insert(&engine, &one, 0..3000).await.commit().await.unwrap();
        let mut transaction = insert(&engine, &two, 0..3000).await;
        transaction.insert(&lasting, &[row(1)]).await.unwrap();
        transaction.commit().await.unwrap();
        let mut transaction = insert(&engine, &one, 5000..6000).await;
        transaction.insert(&lasting, &[row(2)]).await.unwrap();
        let last = engine.sal().last_lsn();
        engine.sal().wait_durable(last).await.unwrap();
        (transaction, tables)
    });
    // Without a runtime nothing is rolled back, and nothing freed.
    drop(left);
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let names: Vec<_> = engine
            .tables("test")
            .iter()
            .map(|t| t.def.name.clone())
            .collect();
        assert_eq!(names, ["t"]);
        assert_eq!(engine.schemas(), ["test"]);
        settle(&engine).await;
        let table = engine.table("test", "t").unwrap();
        // What was not committed is rolled back in the background.
        let end = Instant::now() + Duration::from_secs(30);
        while engine.verify_table(&table).await.unwrap()[0].records != 1 {
            assert!(Instant::now() < end, "it is not rolled back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        settle(&engine).await;
        engine.shutdown().await.unwrap();
    });
    let report = space(dir.path());
    assert_eq!(report.pending, 0);
    let indexes: BTreeSet<_> = report.owners.iter().map(|o| o.index).collect();
    // Undo and the like, the catalog, and the two indexes of the table.
    assert_eq!(indexes.len(), 4, "{:?}", report.owners);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_of_a_session_that_ends_are_freed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    for _ in 0..50 {
        let mut tables = engine.temporary_tables();
        let one = make(&mut tables, "one").await;
        insert(&engine, &one, 0..500).await.commit().await.unwrap();
        // Dropped within the transaction that writes to it.
        let two = make(&mut tables, "two").await;
        let transaction = insert(&engine, &two, 0..500).await;
        tables.remove(&two);
        drop(two);
        transaction.rollback().await.unwrap();
        assert!(tables.find("test", "one").is_some());
        assert!(tables.find("test", "two").is_none());
    }
    settle(&engine).await;
    engine.shutdown().await.unwrap();
    drop(engine);
    let report = space(dir.path());
    assert_eq!(report.pending, 0);
    // Were they not freed, each would have its extents.
    assert!(report.handed_out < 64 * 64, "{} pages", report.handed_out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_temporary_table_changes_its_definition_and_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    let mut tables = engine.temporary_tables();
    let mut others = engine.temporary_tables();
    let table = make(&mut tables, "t").await;
    make(&mut others, "t").await;
    insert(&engine, &table, 0..100)
        .await
        .commit()
        .await
        .unwrap();
    let name = TableName::of(&table);
    assert_eq!(name.to_string(), "test.t");
    let locker = engine.table_locker(Duration::from_secs(5), &CancelToken::new());
    let locked = engine.lock_exclusively(&name, &locker).await.unwrap();
    engine.truncate_table(locked, true).await.unwrap();
    let emptied = tables.find("test", "t").unwrap();
    assert_ne!(emptied.id, table.id);
    let trees = engine.verify_table(&emptied).await.unwrap();
    assert_eq!(trees[0].records, 0);
    // What there was is read by who has it.
    let trees = engine.verify_table(&table).await.unwrap();
    assert_eq!(trees[0].records, 100);
    let cancel = CancelToken::new();
    let analyzed = engine.analyze_table(&emptied, &Analysis::All, &cancel);
    analyzed.await.unwrap();
    let analyzed = engine.analyze_table(&table, &Analysis::All, &cancel);
    assert!(matches!(analyzed.await, Err(EngineError::TableChanged(_))));
    let again = tables.create(table.def.clone()).await;
    assert!(matches!(again, Err(EngineError::TableExists(_))));
    engine.shutdown().await.unwrap();
}
