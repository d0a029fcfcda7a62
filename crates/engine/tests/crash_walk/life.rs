//! One life of a database in a directory, in a process that may end at any point; and the journal, by
//! which the lives after it know what was promised.
//!
//! Transaction `n` inserts three rows and notes its number in row 0, which all transactions change. So
//! it is there as a whole or not at all, and the order shows. Beside them there is a transaction that
//! never ends, and tables come and go.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use perigee_engine::catalog::{ColumnDef, IndexDef, Table, TableDef};
use perigee_engine::scan::{KeySpan, Records, ShortRead};
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_api::PageStore;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;
use perigee_value::{Collation, ColumnType, Datum, RecordView, key};

/// Rows of a transaction.
const ROWS: u64 = 3;

/// Ids of rows that are never committed begin here.
const NEVER: i64 = 1 << 30;

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
        consolidate_idle: ms(1),
        consolidate_after: ms(5),
        consolidators: 1,
        ndp_threads: 1,
        log_segment_bytes: 16 << 10,
        page_segment_bytes: 256 << 10,
        ..Default::default()
    };
    let pages: Arc<dyn PageStore> =
        Arc::new(PageStoreService::open(dir.join("pages"), pages).unwrap());
    let sal = SalConfig {
        slice_pages: 64,
        plog_bytes: 16 << 10,
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
        chars: 200,
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
        }],
        auto_increment: None,
        comment: String::new(),
    }
}

fn row(id: i64, trx: u64) -> Vec<Datum> {
    let note = vec![b'a' + (trx % 26) as u8; 150];
    vec![Datum::Int(id), Datum::Int(trx as i64), Datum::String(note)]
}

fn key_of(table: &Table, id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
    out
}

/// The table, made if it is not there.
async fn table(engine: &Arc<Engine>) -> Arc<Table> {
    if !engine.schemas().iter().any(|name| name == "test") {
        engine.create_schema("test").await.unwrap();
    }
    match engine.table("test", "t") {
        Ok(table) => table,
        Err(_) => engine.create_table(definition("t")).await.unwrap(),
    }
}

/// The transaction numbers of all rows, by id.
async fn rows(engine: &Arc<Engine>, table: &Table) -> BTreeMap<i64, u64> {
    let mut by_index = Vec::new();
    for index in [0, 1] {
        let read = ShortRead {
            table,
            index,
            span: &KeySpan::all(),
            rows: usize::MAX,
        };
        let mut records = Records::default();
        let view = engine.read_view();
        assert!(engine.read_short(&read, &view, &mut records).await.unwrap());
        let row = |record| {
            let record = RecordView::new(&table.clustered().layout, record);
            (record.i64(0), record.i64(1) as u64)
        };
        by_index.push(records.iter().map(row).collect::<BTreeMap<_, _>>());
    }
    let (first, second) = (by_index.remove(0), by_index.remove(0));
    assert_eq!(first, second, "the index has other rows than the table");
    first
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
    transaction.commit().await.unwrap();
    journal.note("there", n);
}

async fn write(engine: &Arc<Engine>, journal: &Journal, transactions: u64) {
    let next = check(engine, journal).await;
    let table = table(engine).await;
    let mut never = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (0..20).map(|i| row(NEVER + i, next)).collect();
    never.insert(&table, &rows).await.unwrap();
    for n in next..next + transactions {
        transaction(engine, &table, journal, n).await;
        if n == next + 1 {
            let name = format!("s{n}");
            engine.create_table(definition(&name)).await.unwrap();
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
            Mode::Writes => write(&engine, &journal, 6).await,
            Mode::Long => write(&engine, &journal, 60).await,
        }
        engine.shutdown().await.unwrap();
    });
}

/// Opens what the lives left, twice, and checks it.
pub fn check_all(dir: &Path) {
    for _ in 0..2 {
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
            if let Ok(table) = engine.table("test", "t") {
                engine.verify_table(&table).await.unwrap();
            }
            engine.shutdown().await.unwrap();
        });
    }
}
