//! Rows that storage picks out of their pages by their keys are those of whole pages: for every view, of every index,
//! whatever storage declines and whatever happens to the tree in between.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_array::Array;
use perigee_engine::catalog::{Table, TableDef};
use perigee_engine::scan::{CancelToken, KeyBatches, Lookup, LookupRequest};
use perigee_engine::txn::{ReadView, TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_store::{Config, PageStoreService};
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;
use perigee_value::{Datum, key};

use crate::{definition, live, load, open, row};

const ROWS: i64 = 20_000;
const CLUSTERED: usize = 0;
const BY_AMOUNT: usize = 1;

/// Rows that lie together by a text; `(note, id)` is the primary key.
fn grouped() -> TableDef {
    TableDef {
        primary_key: vec![2, 0],
        indexes: Vec::new(),
        ..definition("g")
    }
}

/// A row of it: most notes have a few rows, a few have pages of them.
fn grouped_row(id: i64) -> Vec<Datum> {
    let note = match id % 3 {
        0 => format!("group {}", id % 4),
        _ => format!("note {}", id / 30),
    };
    let mut row = row(id);
    row[2] = Datum::String(note.into_bytes());
    row
}

fn note_key(table: &Table, note: &str) -> Vec<u8> {
    key_of(table, CLUSTERED, Datum::String(note.as_bytes().to_vec()))
}

async fn open_over(dir: &Path, stores: Config, config: EngineConfig) -> Arc<Engine> {
    let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
    let mut services: Vec<Arc<dyn perigee_page_api::PageStore>> = Vec::new();
    for store in ["pages-0", "pages-1"] {
        let store = PageStoreService::open(dir.join(store), stores.clone()).unwrap();
        services.push(Arc::new(store));
    }
    let sal = Sal::open(SalConfig::new(DbId(1)), Arc::new(log), services);
    Engine::open(sal.await.unwrap(), config).await.unwrap()
}

fn key_of(table: &Table, index: usize, value: Datum) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.indexes[index].layout, &[value], &mut out).unwrap();
    out
}

/// Rows change their amounts, go, and come back.
async fn change(engine: &Arc<Engine>, table: &Arc<Table>) {
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in (0..ROWS).step_by(7) {
        let mut new = row(id);
        new[1] = Datum::Decimal(i128::from(999 - id % 1000));
        let key = key_of(table, CLUSTERED, Datum::Int(id));
        let written = match id % 3 {
            0 => transaction.delete_row(table, &key).await.unwrap(),
            _ => transaction.update_row(table, &key, &new).await.unwrap(),
        };
        assert_eq!(written, Written::Done);
    }
    let back: Vec<_> = (0..ROWS).step_by(21).take(50).map(row).collect();
    transaction.insert(table, &back).await.unwrap();
    transaction.commit().await.unwrap();
}

/// The same for rows of notes.
async fn change_notes(engine: &Arc<Engine>, table: &Arc<Table>) {
    let mut transaction = engine.begin(TransactionOptions::default());
    for id in (0..ROWS).step_by(17) {
        let mut new = grouped_row(id);
        let mut key = Vec::new();
        let parts = [new[2].clone(), new[0].clone()];
        key::encode_key(&table.clustered().layout, &parts, &mut key).unwrap();
        new[1] = Datum::Decimal(i128::from(999 - id % 1000));
        let written = match id % 3 {
            1 => transaction.delete_row(table, &key).await.unwrap(),
            _ => transaction.update_row(table, &key, &new).await.unwrap(),
        };
        assert_eq!(written, Written::Done);
    }
    transaction.commit().await.unwrap();
}

/// The rows that keys lead to, each with the number of its key.
async fn find(
    (engine, table): (&Arc<Engine>, &Arc<Table>),
    (index, fetch): (usize, bool),
    view: &Arc<ReadView>,
    key_batches: KeyBatches,
) -> Vec<String> {
    let keys: Vec<_> = match index {
        // Some of which nothing has.
        CLUSTERED => (0..ROWS + 500)
            .step_by(13)
            .map(|id| key_of(table, index, Datum::Int(id)))
            .collect(),
        _ => (0..1000)
            .step_by(7)
            .map(|amount| key_of(table, index, Datum::Decimal(amount)))
            .collect(),
    };
    let request = LookupRequest {
        table: table.clone(),
        index,
        fetch,
        key_columns: 1,
        key_batches,
        projection: vec![0, 1, 2],
        predicate: Some(crate::below(table, 400)),
        view: view.clone(),
        cancel: CancelToken::new(),
    };
    let found = engine.lookups(request).unwrap().find(&keys).await.unwrap();
    shown(&found)
}

/// Rows as texts, each with the number of its key. Those of one key come in any order, and so they are sorted.
fn shown(found: &Lookup) -> Vec<String> {
    let rows = found.key_of_row.iter().enumerate().map(|(at, key)| {
        let columns = found.batch.columns().iter();
        let values: Vec<_> = columns.map(|column| column.slice(at, 1)).collect();
        format!("{key}: {values:?}")
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// The rows of some notes, each with the number of its note.
async fn find_notes(
    (engine, table): (&Arc<Engine>, &Arc<Table>),
    view: &Arc<ReadView>,
    key_batches: KeyBatches,
) -> Vec<String> {
    let groups = (0..4).map(|n| format!("group {n}"));
    let notes = (0..700).step_by(3).map(|n| format!("note {n}"));
    let mut keys: Vec<_> = groups
        .chain(notes)
        .map(|note| note_key(table, &note))
        .collect();
    keys.sort();
    let request = LookupRequest {
        table: table.clone(),
        index: CLUSTERED,
        fetch: false,
        key_columns: 1,
        key_batches,
        projection: vec![1, 0],
        predicate: Some(crate::below(table, 400)),
        view: view.clone(),
        cancel: CancelToken::new(),
    };
    let found = engine.lookups(request).unwrap().find(&keys).await.unwrap();
    shown(&found)
}

async fn agree_on_notes(engine: &Arc<Engine>, table: &Arc<Table>, views: &[Arc<ReadView>]) {
    let counters = engine.scan_counters();
    for view in views {
        let whole = find_notes((engine, table), view, KeyBatches::Never).await;
        assert!(whole.len() > 2000, "{} rows", whole.len());
        let before = counters.keys_fetched.load(Ordering::Relaxed);
        let picked = find_notes((engine, table), view, KeyBatches::Always).await;
        assert_eq!(picked, whole);
        let keys = counters.keys_fetched.load(Ordering::Relaxed) - before;
        assert!(keys > 200, "{keys} keys");
    }
}

async fn agree(engine: &Arc<Engine>, table: &Arc<Table>, views: &[Arc<ReadView>], what: &str) {
    let counters = engine.scan_counters();
    for view in views {
        for path in [(CLUSTERED, false), (BY_AMOUNT, true)] {
            let place = (engine, table);
            let whole = find(place, path, view, KeyBatches::Never).await;
            assert!(whole.len() > 300, "{what}: {} rows", whole.len());
            let before = counters.keys_fetched.load(Ordering::Relaxed);
            let picked = find(place, path, view, KeyBatches::Always).await;
            assert_eq!(picked, whole, "{what}, {path:?}");
            let keys = counters.keys_fetched.load(Ordering::Relaxed) - before;
            assert!(keys > 300, "{what}, {path:?}: {keys} keys");
        }
    }
}

#[test]
fn rows_picked_out_of_their_pages_are_those_of_whole_pages() {
    let past_pool = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    let splitting = EngineConfig {
        split_behind_scans: true,
        all_ambiguous: true,
        ..past_pool.clone()
    };
    let declining = Config {
        decline_every: Some(3),
        ..Config::default()
    };
    for (what, stores, config) in [
        ("as usual", Config::default(), past_pool.clone()),
        ("leaves are split meanwhile", Config::default(), splitting),
        ("pages are declined", declining, past_pool),
    ] {
        let dir = tempfile::tempdir().unwrap();
        live(async {
            let engine = open_over(dir.path(), stores, config).await;
            engine.create_schema("test").await.unwrap();
            let table = engine.create_table(definition("t")).await.unwrap();
            load(&engine, &table, 0..ROWS).await;
            let old = engine.read_view();
            change(&engine, &table).await;
            let views = [old, engine.read_view()];
            agree(&engine, &table, &views, what).await;
            let table = engine.create_table(grouped()).await.unwrap();
            let mut transaction = engine.begin(TransactionOptions::default());
            let rows: Vec<_> = (0..ROWS).map(grouped_row).collect();
            transaction.insert(&table, &rows).await.unwrap();
            transaction.commit().await.unwrap();
            let old = engine.read_view();
            change_notes(&engine, &table).await;
            let views = [old, engine.read_view()];
            agree_on_notes(&engine, &table, &views).await;
        });
    }
}

#[test]
fn rows_are_picked_out_where_the_index_is_larger_than_the_pool() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..ROWS).await;
        engine.shutdown().await.unwrap();
    });
    for (pool, picks) in [(256 << 20, false), (200 << 10, true)] {
        let config = EngineConfig {
            buffer_pool: pool,
            // What gathers statistics reads pages, too.
            statistics_interval: Duration::from_secs(3600),
            ..EngineConfig::default()
        };
        live(async {
            let engine = open(dir.path(), config).await;
            let table = engine.table("test", "t").unwrap();
            let view = engine.read_view();
            let counters = engine.scan_counters();
            let shipped = || counters.bytes_shipped.load(Ordering::Relaxed);
            let place = (&engine, &table);
            let found = find(place, (CLUSTERED, false), &view, KeyBatches::WhereItPays).await;
            assert!(found.len() > 300);
            let keys = counters.keys_fetched.load(Ordering::Relaxed);
            assert_eq!(keys > 0, picks, "{keys} keys with {pool} bytes of pool");
            // A record has some 40 bytes, its page 16 KiB.
            let all = counters.snapshot();
            assert!(shipped() < 100 * keys.max(1), "{all:?}");
        });
    }
}

#[test]
fn an_index_that_fits_is_brought_in_when_as_many_pages_were_gone_through() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        load(&engine, &table, 0..6 * ROWS).await;
        engine.shutdown().await.unwrap();
    });
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = engine.table("test", "t").unwrap();
        let pages = table.stats().leaf_pages[CLUSTERED];
        assert!(pages > 200, "{pages} pages");
        let (view, counters) = (engine.read_view(), engine.scan_counters());
        let place = (&engine, &table);
        let mut batches = Vec::new();
        for _ in 0..30 {
            find(place, (CLUSTERED, false), &view, KeyBatches::WhereItPays).await;
            batches.push(counters.key_batches.load(Ordering::Relaxed));
        }
        // Not at once, and not for ever.
        assert!(batches[0] > 0 && batches[1] > batches[0], "{batches:?}");
        assert_eq!(batches[28], batches[29], "{batches:?}");
        let resident = engine.resident_pages(table.clustered());
        assert!(resident > 40, "{resident} pages");
    });
}
