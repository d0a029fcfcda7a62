//! Pages come back: of dropped and emptied tables, of what was not finished, of undo.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use perigee_engine::space::{PageSource, SpaceReport, account};
use perigee_page_store::OfflineStore;
use perigee_types::PageId;

use super::*;

struct Stores(Vec<OfflineStore>);

impl PageSource for Stores {
    fn page(&mut self, page: PageId) -> Result<Option<Bytes>, EngineError> {
        let mut newest = None;
        for store in &self.0 {
            let found = store.page(page).unwrap();
            newest = newest.max(Some((found.lsn, found.bytes)));
        }
        Ok(newest.and_then(|(_, bytes)| bytes))
    }
}

/// Every page, accounted for after an end in good order.
pub fn space(dir: &Path) -> SpaceReport {
    let open = |name| OfflineStore::open(&dir.join(name), DbId(1)).unwrap();
    let mut stores = Stores(["pages-0", "pages-1"].map(open).into());
    let report = account(&mut stores).unwrap();
    assert_eq!(report.wrong, [""; 0]);
    assert_eq!(report.leaked, []);
    report
}

/// Waits until all trees that are not needed are freed, and their undo purged.
pub async fn settle(engine: &Engine) {
    // A task that has just ended lets go of its table.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let end = Instant::now() + Duration::from_secs(30);
    while engine.is_reclaiming() || engine.history_length() > 0 {
        assert!(Instant::now() < end, "freeing does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What was taken off the list is being freed.
    tokio::time::sleep(Duration::from_millis(200)).await;
}

async fn filled(engine: &Arc<Engine>, name: &str, rows: i64) -> Arc<Table> {
    let table = engine.create_table(definition(name)).await.unwrap();
    load(engine, &table, rows).await;
    table
}

async fn load(engine: &Arc<Engine>, table: &Arc<Table>, rows: i64) {
    let mut load = engine.bulk_load(table).await.unwrap();
    let encoder = load.encoder();
    let mut chunk = encoder.chunk(0);
    for id in 0..rows {
        encoder.push(&mut chunk, &row(id)).unwrap();
    }
    encoder.finish(&mut chunk);
    load.push(chunk).await.unwrap();
    load.finish().await.unwrap();
}

async fn locked(engine: &Engine, name: &str) -> perigee_engine::ExclusiveTable {
    let locker = engine.table_locker(Duration::from_secs(5), &CancelToken::new());
    let name = perigee_engine::TableName {
        schema: "test".into(),
        name: name.into(),
    };
    engine.lock_exclusively(&name, &locker).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_come_and_go_take_no_more_space_than_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut used = BTreeMap::new();
    for round in 0..4 {
        let engine = open(dir.path(), EngineConfig::default()).await;
        if round == 0 {
            engine.create_schema("test").await.unwrap();
        }
        let table = filled(&engine, "t", 20_000).await;
        drop(table);
        engine
            .truncate_table(locked(&engine, "t").await, true)
            .await
            .unwrap();
        let table = engine.table("test", "t").unwrap();
        load(&engine, &table, 20_000).await;
        // A statement that still uses the table keeps its pages.
        let mut slow = engine
            .scan(request(&engine, &table, false))
            .unwrap()
            .partition();
        let first = slow.try_next().await.unwrap();
        let tables = vec![locked(&engine, "t").await];
        engine.drop_tables(tables, true).await.unwrap();
        drop(table);
        settle(&engine).await;
        let mut rows = first.map_or(0, |batch| batch.num_rows());
        while let Some(batch) = slow.try_next().await.unwrap() {
            rows += batch.num_rows();
        }
        assert_eq!(rows, 20_000);
        drop(slow);
        settle(&engine).await;
        engine.shutdown().await.unwrap();
        drop(engine);
        let report = space(dir.path());
        assert_eq!(report.pending, 0);
        used.insert(round, (report.in_use(), report.handed_out));
    }
    let (first, last) = (used[&0], used[&3]);
    assert!(first.0 < 20, "{used:?}");
    assert_eq!(first, last, "{used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_finished_is_freed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    filled(&engine, "t", 5000).await;
    engine.create_table(definition("empty")).await.unwrap();
    settle(&engine).await;
    engine.shutdown().await.unwrap();
    drop(engine);
    let before = space(dir.path()).in_use();
    let engine = open(dir.path(), EngineConfig::default()).await;
    // A table with rows that is given up, and a load that is undone.
    let cancel = CancelToken::new();
    let mut new = engine
        .begin_table(definition("new"), &cancel)
        .await
        .unwrap();
    for id in 0..20_000 {
        new.push(&row(id)).await.unwrap();
    }
    let table = engine.table("test", "empty").unwrap();
    let mut load = engine.bulk_load(&table).await.unwrap();
    let encoder = load.encoder();
    let mut chunk = encoder.chunk(0);
    for id in (0..20_000).chain([5]) {
        encoder.push(&mut chunk, &row(id)).unwrap();
    }
    encoder.finish(&mut chunk);
    load.push(chunk).await.unwrap();
    drop(new);
    assert!(load.finish().await.is_err());
    drop(table);
    settle(&engine).await;
    engine.shutdown().await.unwrap();
    drop(engine);
    assert_eq!(space(dir.path()).in_use(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_that_a_view_kept_is_freed_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    let table = filled(&engine, "t", 2000).await;
    let view = engine.read_view();
    for round in 0..10 {
        let mut trx = engine.begin(TransactionOptions::default());
        for id in 0..2000 {
            let mut new = row(id);
            new[2] = Datum::String(format!("round {round} of row {id}").into_bytes());
            let key = key_of(&table, id);
            let written = trx.change_row(&table, &key, |_| Some(new.clone())).await;
            written.unwrap();
        }
        trx.commit().await.unwrap();
    }
    let old = engine.row(&table, &key_of(&table, 7), &view).await.unwrap();
    assert!(old.is_some());
    drop(view);
    settle(&engine).await;
    drop(table);
    engine.shutdown().await.unwrap();
    drop(engine);
    let report = space(dir.path());
    let undo = report.owners.iter().find(|owner| owner.name == "undo");
    let pages = undo.unwrap().pages();
    assert!(pages <= 2, "{pages} pages of undo are kept");
}

fn key_of(table: &Table, id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
    out
}

/// An engine with default settings over two stores, four slices.
async fn open_striped(dir: &Path) -> Arc<Engine> {
    let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
    let store = |name| PageStoreService::open(dir.join(name), Default::default()).unwrap();
    let stores = ["pages-0", "pages-1"].map(|name| Arc::new(store(name)) as _);
    let config = SalConfig {
        width: 4,
        ..SalConfig::new(DbId(1))
    };
    let sal = Sal::open(config, Arc::new(log), stores.into()).await;
    Engine::open(sal.unwrap(), EngineConfig::default())
        .await
        .unwrap()
}

/// Live bytes and bytes on disk of all Page Stores.
async fn sizes(engine: &Engine) -> (u64, u64) {
    let stores = engine.sal().page_store_status().await.unwrap();
    let sum = |of: fn(&perigee_page_api::StoreStatus) -> u64| stores.iter().map(of).sum();
    (sum(|s| s.live_bytes), sum(|s| s.disk_bytes))
}

/// What a slice may take however little there is in it: garbage that is not worth collecting, the segments
/// being written, log that waits.
const CONSTANT: u64 = 4 * (4 << 20);

/// Changes rows here and there for a while; the disk never has more than twice what is live.
async fn update(engine: &Arc<Engine>, table: &Arc<Table>, rows: i64, time: Duration) {
    let (end, mut id) = (Instant::now() + time, 1);
    let (mut round, mut most, log) = (0, None, engine.sal().log_bytes());
    // On a busy machine it takes longer.
    while Instant::now() < end || round <= 10 {
        let mut trx = engine.begin(TransactionOptions::default());
        for _ in 0..100 {
            id = (id * 48271) % 0x7fff_ffff;
            let id = id % rows;
            let mut new = long_row(id);
            new[2] = Datum::String(format!("{round:0>100}").into_bytes());
            let key = key_of(table, id);
            let changed = trx.change_row(table, &key, |_| Some(new.clone())).await;
            changed.unwrap();
        }
        trx.commit().await.unwrap();
        round += 1;
        let (live, disk) = sizes(engine).await;
        most = most.max(Some((disk * 100 / live, live, disk)));
        assert!(
            disk <= 2 * live + CONSTANT,
            "{disk} bytes for {live} live ones"
        );
    }
    let log = (engine.sal().log_bytes() - log) >> 10;
    println!("{round} transactions, {log} KiB of log; most (percent, live, disk): {most:?}");
}

fn long_row(id: i64) -> Vec<Datum> {
    let mut row = row(id);
    row[2] = Datum::String(format!("{id:0>100}").into_bytes());
    row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_has_twice_what_is_live_with_and_without_an_old_view() {
    const ROWS: i64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = open_striped(dir.path()).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    let mut load = engine.bulk_load(&table).await.unwrap();
    let encoder = load.encoder();
    let mut chunk = encoder.chunk(0);
    for id in 0..ROWS {
        encoder.push(&mut chunk, &long_row(id)).unwrap();
    }
    encoder.finish(&mut chunk);
    load.push(chunk).await.unwrap();
    load.finish().await.unwrap();
    let time = Duration::from_secs(3);
    update(&engine, &table, ROWS, time).await;
    settle(&engine).await;
    let (before, _) = sizes(&engine).await;
    let view = engine.read_view();
    update(&engine, &table, ROWS, time).await;
    let (during, _) = sizes(&engine).await;
    drop(view);
    assert!(during > before, "undo takes space: {during} after {before}");
    // Updates go on.
    let end = Instant::now() + Duration::from_secs(40);
    loop {
        update(&engine, &table, ROWS, time / 6).await;
        let (live, disk) = sizes(&engine).await;
        if live <= before + (1 << 20) && disk <= 2 * live + CONSTANT / 2 {
            break;
        }
        assert!(
            Instant::now() < end,
            "{live} live bytes after {before}, {disk} on disk"
        );
    }
}
