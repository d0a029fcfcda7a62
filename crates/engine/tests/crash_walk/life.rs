//! One life of a database in a directory, in a process that may end at any point; and the journal, by
//! which the lives after it know what was promised.
//!
//! Transaction `n` inserts three rows and notes its number in row 0, which all transactions change. So
//! it is there as a whole or not at all, and the order shows. It also changes some of the rows that were
//! there first: pages that change often beside pages that do not make garbage that Page Stores have to
//! collect. Beside it there is a transaction that never ends.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::TryStreamExt;
use perigee_engine::catalog::{ColumnDef, IndexDef, Table, TableDef};
use perigee_engine::scan::{CancelToken, ScanRequest};
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{Engine, EngineConfig, TableName};
use perigee_log_store::LogStoreService;
use perigee_page_api::PageStore;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;
use perigee_value::{Collation, ColumnType, Datum, key};

/// Rows of a transaction.
const ROWS: u64 = 3;

/// Rows that are there first, with ids below 0, and how many of them a transaction changes.
const FIRST: u64 = 40;
const CHANGED: u64 = 4;

/// Ids of rows that are never committed begin here.
const NEVER: i64 = 1 << 30;

/// Transactions of a life.
const SHORT: u64 = 5;
const LONG: u64 = 40;

/// What a life does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Opens, does nothing for a while, and shuts down.
    Idle,
    /// Opens, writes, and shuts down.
    Writes,
    /// Writes much: garbage for the Page Store to collect.
    Long,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Idle, Self::Writes, Self::Long];

    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Writes => "writes",
            Self::Long => "long",
        }
    }
}

/// What was begun and what was acknowledged.
pub struct Journal(PathBuf);

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was begun, and nobody was told how it ended.
    Open,
    /// It is there, for ever: acknowledged, or seen by a later life.
    There,
    /// A later life did not see it.
    Gone,
}

impl Journal {
    pub fn of(dir: &Path) -> Self {
        Self(dir.join("journal"))
    }

    fn note(&self, what: &str, n: u64) {
        let mut file: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.0)
            .unwrap();
        file.write_all(format!("{what} {n}\n").as_bytes()).unwrap();
    }

    pub fn read(&self) -> BTreeMap<u64, Outcome> {
        let mut outcomes = BTreeMap::new();
        for line in std::fs::read_to_string(&self.0).unwrap_or_default().lines() {
            let (what, n) = line.split_once(' ').unwrap();
            let outcome = match what {
                "begin" => Outcome::Open,
                "there" => Outcome::There,
                "gone" => Outcome::Gone,
                other => panic!("{other}"),
            };
            outcomes.insert(n.parse().unwrap(), outcome);
        }
        outcomes
    }
}

/// An engine over all that lies in a directory, with short files and no patience.
pub async fn open(dir: &Path) -> Arc<Engine> {
    let ms = Duration::from_millis;
    let log = perigee_log_store::Config {
        append_in_place: true,
        ..Default::default()
    };
    let log = LogStoreService::open(dir.join("log"), log).unwrap();
    let pages = perigee_page_store::Config {
        pool_bytes: 16 << 20,
        log_cache_bytes: 4 << 20,
        // Each fragment at once.
        consolidate_above: 1,
        consolidate_idle: ms(1),
        consolidate_after: ms(5),
        consolidators: 1,
        ndp_threads: 1,
        log_segment_bytes: 16 << 10,
        page_segment_bytes: 128 << 10,
        ..Default::default()
    };
    let pages: Arc<dyn PageStore> =
        Arc::new(PageStoreService::open(dir.join("pages"), pages).unwrap());
    let sal = SalConfig {
        // Each extent is a slice, which comes and goes with its table.
        slice_pages: 64,
        empty_slice_after: ms(1),
        plog_bytes: 32 << 10,
        log_flush_interval: ms(1),
        slice_flush_interval: ms(1),
        maintenance_interval: ms(5),
        ..SalConfig::new(DbId(1))
    };
    let sal = Sal::open(sal, Arc::new(log), vec![pages]).await;
    let sal = sal.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let config = EngineConfig {
        buffer_pool: 8 << 20,
        ..EngineConfig::default()
    };
    let engine = Engine::open(sal, config).await;
    engine.unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
}

fn definition(name: &str) -> TableDef {
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let text = ColumnType::Varchar {
        chars: 2000,
        collation: Collation::UTF8MB4_BIN,
    };
    let column = |name, ty| ColumnDef {
        nullable: false,
        ..ColumnDef::new(name, ty)
    };
    TableDef {
        schema: "test".into(),
        name: name.into(),
        columns: vec![column("id", int), column("trx", int), column("note", text)],
        primary_key: vec![0],
        indexes: vec![IndexDef {
            name: "by_trx".into(),
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

fn row(id: i64, trx: u64) -> Vec<Datum> {
    let note = vec![b'a' + (trx % 26) as u8; 2000];
    vec![Datum::Int(id), Datum::Int(trx as i64), Datum::String(note)]
}

fn key_of(table: &Table, id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
    out
}

/// The table, made if it is not there; a life that is `long` gives it its first rows.
async fn table(engine: &Arc<Engine>, long: bool) -> Arc<Table> {
    if !engine.schemas().iter().any(|name| name == "test") {
        engine.create_schema("test").await.unwrap();
    }
    if let Ok(table) = engine.table("test", "t") {
        return table;
    }
    let table = engine.create_table(definition("t")).await.unwrap();
    if long {
        let rows: Vec<_> = (1..=FIRST as i64).map(|id| row(-id, 0)).collect();
        let mut transaction = engine.begin(TransactionOptions::default());
        transaction.insert(&table, &rows).await.unwrap();
        transaction.commit().await.unwrap();
    }
    table
}

async fn drop_table(engine: &Arc<Engine>, name: &str) {
    let cancel = CancelToken::new();
    let name = TableName::of(&engine.table("test", name).unwrap());
    let locker = engine.table_locker(Duration::from_secs(5), &cancel);
    let locked = engine.lock_exclusively(&name, &locker).await.unwrap();
    engine.drop_tables(vec![locked], true).await.unwrap();
}

/// The ids of the first rows that transaction `n` changes.
fn changed(n: u64) -> impl Iterator<Item = i64> {
    (0..CHANGED).map(move |i| -(((n * CHANGED + i) * 37 % FIRST + 1) as i64))
}

/// The transaction numbers of all rows, by id.
async fn rows(engine: &Arc<Engine>, table: &Arc<Table>) -> BTreeMap<i64, u64> {
    let mut by_index = Vec::new();
    for (index, columns) in [(0, [0, 1]), (1, [1, 0])] {
        let scan = engine.scan(ScanRequest {
            table: table.clone(),
            index,
            spans: perigee_engine::scan::KeySpans::all(),
            reverse: false,
            ordered: true,
            projection: columns.to_vec(),
            predicate: None,
            aggregate: None,
            grouping: perigee_engine::ndp::Grouping::default(),
            ndp: true,
            adapts: false,
            filters: Vec::new(),
            join: None,
            view: engine.read_view(),
            workers: 1,
            limit: None,
            look_ahead: None,
            cancel: CancelToken::new(),
        });
        let batches: Vec<RecordBatch> = scan.unwrap().partition().try_collect().await.unwrap();
        let mut rows = BTreeMap::new();
        for batch in &batches {
            let column = |at| batch.column(at).as_primitive::<Int64Type>().values();
            for (id, trx) in column(0).iter().zip(column(1)) {
                assert_eq!(rows.insert(*id, *trx as u64), None, "row {id} comes twice");
            }
        }
        by_index.push(rows);
    }
    assert_eq!(by_index[0], by_index[1], "the index has other rows");
    by_index.remove(0)
}

/// Checks what is there against the journal, and settles what was open. Returns the number of the next
/// transaction.
pub async fn check(engine: &Arc<Engine>, journal: &Journal) -> u64 {
    let outcomes = journal.read();
    let next = outcomes.last_key_value().map_or(1, |(n, _)| n + 1);
    let Ok(table) = engine.table("test", "t") else {
        let promised = outcomes.values().any(|o| *o == Outcome::There);
        assert!(!promised, "the table is lost");
        for (n, _) in outcomes.iter().filter(|(_, o)| **o == Outcome::Open) {
            journal.note("gone", *n);
        }
        return next;
    };
    let found = rows(engine, &table).await;
    let mut expected = BTreeMap::new();
    let first = found.contains_key(&-1);
    if first {
        expected.extend((1..=FIRST as i64).map(|id| (-id, 0)));
    }
    let mut last = 0;
    for (n, outcome) in &outcomes {
        let ids = (1..=ROWS).map(|i| (n * ROWS + i) as i64);
        let there = ids.clone().filter(|id| found.contains_key(id)).count() as u64;
        let whole = match there {
            0 => false,
            ROWS => true,
            _ => panic!("transaction {n} is there in part"),
        };
        match outcome {
            Outcome::There => assert!(whole, "transaction {n} was acknowledged and is lost"),
            Outcome::Gone => assert!(!whole, "transaction {n} comes back"),
            Outcome::Open if whole => journal.note("there", *n),
            Outcome::Open => journal.note("gone", *n),
        }
        if whole {
            expected.extend(ids.map(|id| (id, *n)));
            expected.extend(changed(*n).filter(|_| first).map(|id| (id, *n)));
            last = *n;
        }
    }
    if last > 0 {
        expected.insert(0, last);
    }
    assert_eq!(found, expected);
    next
}

/// A transaction, from its beginning to its acknowledgement.
async fn transaction(engine: &Arc<Engine>, table: &Arc<Table>, journal: &Journal, n: u64) {
    journal.note("begin", n);
    let mut transaction = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (1..=ROWS).map(|i| row((n * ROWS + i) as i64, n)).collect();
    transaction.insert(table, &rows).await.unwrap();
    let key = key_of(table, 0);
    let written = transaction.update_row(table, &key, &row(0, n)).await;
    if written.unwrap() == perigee_engine::txn::Written::Missing {
        transaction.insert(table, &[row(0, n)]).await.unwrap();
    }
    for id in changed(n) {
        let key = key_of(table, id);
        // Where they are not, this changes nothing.
        let change = |_: &[u8]| Some(row(id, n));
        let _ = transaction.change_row(table, &key, change).await.unwrap();
    }
    transaction.commit().await.unwrap();
    journal.note("there", n);
}

async fn write(engine: &Arc<Engine>, journal: &Journal, transactions: u64) {
    let next = check(engine, journal).await;
    let table = table(engine, transactions > SHORT).await;
    let mut never = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (0..20).map(|i| row(NEVER + i, next)).collect();
    never.insert(&table, &rows).await.unwrap();
    for n in next..next + transactions {
        transaction(engine, &table, journal, n).await;
        if n == next + 1 {
            let name = format!("s{n}");
            engine.create_table(definition(&name)).await.unwrap();
        }
        if n == next + 2 {
            drop_table(engine, &format!("s{}", n - 1)).await;
        }
        pass(engine).await;
    }
    // Whoever shuts down has told its connections before; a killed one leaves this to the next start.
    never.rollback().await.unwrap();
}

/// Lets what runs in the background have its turn.
async fn pass(engine: &Arc<Engine>) {
    engine.sal().set_recycle_lsn(engine.sal().cv_lsn());
    tokio::time::sleep(Duration::from_millis(4)).await;
}

/// A life in this process.
pub fn live(dir: &Path, mode: Mode) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = open(&dir.join("db")).await;
        let journal = Journal::of(dir);
        match mode {
            Mode::Idle => {
                for _ in 0..8 {
                    pass(&engine).await;
                }
            }
            Mode::Writes => write(&engine, &journal, SHORT).await,
            Mode::Long => write(&engine, &journal, LONG).await,
        }
        engine.shutdown().await.unwrap();
    });
}

/// Opens what the lives left, twice, and checks it: what an idle life forgets, the next one misses.
pub fn check_all(dir: &Path) {
    for life in 0..2 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let engine = open(&dir.join("db")).await;
            check(&engine, &Journal::of(dir)).await;
            for _ in 0..4 {
                pass(&engine).await;
            }
            if life == 1
                && let Ok(table) = engine.table("test", "t")
            {
                engine.verify_table(&table).await.unwrap();
            }
            engine.shutdown().await.unwrap();
        });
    }
}
