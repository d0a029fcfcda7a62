//! The engine over real stores on disk: DDL, inserts, loads, scans with and without near-data
//! processing, restarts.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod accounts;
mod adapt;
mod between;
mod collations;
mod ddl;
mod filters;
mod history;
mod key_batches;
mod large;
mod leftovers;
mod long;
mod lookups;
mod memory;
mod merges;
mod mvcc;
mod outage;
mod samples;
mod short;
mod shrink;
mod space;
mod statistics;
mod temporary;
mod transfers;
mod undone;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use futures::TryStreamExt;
use perigee_engine::catalog::{ColumnDef, IndexDef, Table, TableDef};
use perigee_engine::ndp::{Aggregate, Grouping, KeyRange};
use perigee_engine::scan::{CancelToken, KeySpan, KeySpans, ScanRequest};
use perigee_engine::txn::TransactionOptions;
use perigee_engine::{Engine, EngineConfig, EngineError};
use perigee_expr::{AggregateFunction, Builder, Comparison, Program};
use perigee_log_store::LogStoreService;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_testkit::{Faults, Faulty};
use perigee_types::DbId;
use perigee_value::{Collation, ColumnType, Datum, key};

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const MONEY: ColumnType = ColumnType::Decimal {
    precision: 15,
    scale: 2,
};
const TEXT: ColumnType = ColumnType::Varchar {
    chars: 100,
    collation: Collation::UTF8MB4_BIN,
};

async fn open(dir: &Path, config: EngineConfig) -> Arc<Engine> {
    open_faulty(dir, config).await.0
}

/// An engine over stores whose reads are counted together.
async fn open_faulty(dir: &Path, config: EngineConfig) -> (Arc<Engine>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    (open_with(dir, config, &faults).await, faults)
}

/// An engine over Page Stores that have the same faults from the start.
async fn open_with(dir: &Path, config: EngineConfig, faults: &Arc<Faults>) -> Arc<Engine> {
    let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
    let mut stores: Vec<Arc<dyn perigee_page_api::PageStore>> = Vec::new();
    for store in ["pages-0", "pages-1"] {
        let store = PageStoreService::open(dir.join(store), Default::default()).unwrap();
        stores.push(Arc::new(Faulty {
            store,
            faults: faults.clone(),
        }));
    }
    let sal = Sal::open(SalConfig::new(DbId(1)), Arc::new(log), stores)
        .await
        .unwrap();
    Engine::open(sal, config).await.unwrap()
}

fn column(name: &str, ty: ColumnType, nullable: bool) -> ColumnDef {
    ColumnDef {
        nullable,
        ..ColumnDef::new(name, ty)
    }
}

fn definition(name: &str) -> TableDef {
    TableDef {
        schema: "test".into(),
        name: name.into(),
        columns: vec![
            column("id", INT, false),
            column("amount", MONEY, true),
            column("note", TEXT, false),
        ],
        primary_key: vec![0],
        indexes: vec![IndexDef {
            name: "by_amount".into(),
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

fn row(id: i64) -> Vec<Datum> {
    let amount = if id % 10 == 0 {
        Datum::Null
    } else {
        Datum::Decimal(i128::from(id % 1000))
    };
    vec![
        Datum::Int(id),
        amount,
        Datum::String(format!("note number {id}").into_bytes()),
    ]
}

fn request(engine: &Engine, table: &Arc<Table>, ndp: bool) -> ScanRequest {
    ScanRequest {
        table: table.clone(),
        index: 0,
        spans: KeySpans::all(),
        reverse: false,
        ordered: true,
        projection: vec![0, 1, 2],
        predicate: None,
        join: None,
        aggregate: None,
        grouping: Grouping::default(),
        ndp,
        adapts: false,
        filters: Vec::new(),
        view: engine.read_view(),
        workers: 1,
        limit: None,
        look_ahead: Some(50),
        cancel: CancelToken::new(),
    }
}

async fn run(engine: &Arc<Engine>, request: ScanRequest) -> Vec<RecordBatch> {
    let partitions = if request.ordered { 1 } else { request.workers };
    let scan = engine.scan(request).unwrap();
    let workers = (0..partitions).map(|_| tokio::spawn(scan.partition().try_collect::<Vec<_>>()));
    let rows = futures::future::join_all(workers).await;
    rows.into_iter()
        .flat_map(|rows| rows.unwrap().unwrap())
        .collect()
}

fn ids(batches: &[RecordBatch]) -> Vec<i32> {
    let column = |b: &RecordBatch| b.column(0).as_primitive::<Int32Type>().values().to_vec();
    batches.iter().flat_map(column).collect()
}

/// `amount < units`, over the clustered layout.
fn below(table: &Table, units: i128) -> Program {
    let mut builder = Builder::new(&table.clustered().layout);
    let amount = builder.column(1).unwrap();
    let limit = builder.decimal(units, 2).unwrap();
    let less = builder.compare(Comparison::Less, amount, limit).unwrap();
    builder.finish(less).unwrap()
}

async fn insert(engine: &Arc<Engine>, table: &Arc<Table>, ids: impl Iterator<Item = i64>) {
    let rows: Vec<_> = ids.map(row).collect();
    let mut transaction = engine.begin(TransactionOptions::default());
    transaction.insert(table, &rows).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn load(engine: &Arc<Engine>, table: &Arc<Table>, ids: impl Iterator<Item = i64>) -> u64 {
    let mut load = engine.bulk_load(table).await.unwrap();
    let encoder = load.encoder();
    let rows: Vec<_> = ids.map(row).collect();
    for rows in rows.chunks(1000) {
        let mut chunk = encoder.chunk(engine.row_ids(table, rows.len() as u64));
        rows.iter()
            .for_each(|row| encoder.push(&mut chunk, row).unwrap());
        encoder.finish(&mut chunk);
        load.push(chunk).await.unwrap();
    }
    load.finish().await.unwrap()
}

/// Runs one life of a process: when this returns, nothing of it is left.
fn live<T>(life: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(life)
}

#[test]
fn scans_agree_with_and_without_ndp_after_inserts_and_loads() {
    let modes = [
        EngineConfig::default(),
        EngineConfig {
            all_ambiguous: true,
            ..EngineConfig::default()
        },
        EngineConfig {
            past_pool: true,
            split_behind_scans: true,
            ..EngineConfig::default()
        },
        EngineConfig {
            all_ambiguous: true,
            past_pool: true,
            split_behind_scans: true,
            ..EngineConfig::default()
        },
    ];
    for loaded in [false, true] {
        for config in modes.clone() {
            let dir = tempfile::tempdir().unwrap();
            let config = EngineConfig {
                buffer_pool: 8 << 20,
                ..config
            };
            let count = if loaded { 8_000 } else { 2_000 };
            live(async {
                let engine = open(dir.path(), config.clone()).await;
                engine.create_schema("test").await.unwrap();
                let table = engine.create_table(definition("t")).await.unwrap();
                // A permutation: 7 does not divide the count.
                let shuffled = (0..count).map(|i| i * 7 % count);
                if loaded {
                    assert_eq!(load(&engine, &table, shuffled).await, count as u64);
                } else {
                    insert(&engine, &table, shuffled).await;
                }
                check_scans(&engine, &table, count).await;
                engine.shutdown().await.unwrap();
            });
            live(async {
                let engine = open(dir.path(), config).await;
                let table = engine.table("test", "t").unwrap();
                check_scans(&engine, &table, count).await;
            });
        }
    }
}

async fn check_scans(engine: &Arc<Engine>, table: &Arc<Table>, count: i64) {
    let all: Vec<i32> = (0..count as i32).collect();
    let few: Vec<i32> = all
        .iter()
        .copied()
        .filter(|i| i % 10 != 0 && i % 1000 < 50)
        .collect();
    for (ndp, workers) in [(true, 1), (false, 3), (true, 3), (false, 1)] {
        let request = |engine: &Engine, table: &Arc<Table>, ndp| ScanRequest {
            workers,
            ..request(engine, table, ndp)
        };
        assert_eq!(
            ids(&run(engine, request(engine, table, ndp)).await),
            all,
            "ndp {ndp}"
        );
        for reverse in [false, true] {
            let unordered = ScanRequest {
                ordered: false,
                look_ahead: Some(5),
                reverse,
                ..request(engine, table, ndp)
            };
            let mut found = ids(&run(engine, unordered).await);
            found.sort_unstable();
            assert_eq!(found, all, "ndp {ndp} workers {workers}");
        }
        let backwards = ScanRequest {
            reverse: true,
            ..request(engine, table, ndp)
        };
        let reversed: Vec<_> = all.iter().rev().copied().collect();
        assert_eq!(ids(&run(engine, backwards).await), reversed, "ndp {ndp}");
        let filtered = ScanRequest {
            predicate: Some(below(table, 50)),
            ..request(engine, table, ndp)
        };
        assert_eq!(ids(&run(engine, filtered).await), few, "ndp {ndp}");
        check_range(engine, table, ndp).await;
        check_aggregate(engine, table, ndp, &few).await;
        check_secondary(engine, table, ndp, count).await;
    }
}

async fn check_range(engine: &Arc<Engine>, table: &Arc<Table>, ndp: bool) {
    let bound = |id: i64| {
        let mut out = Vec::new();
        key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
        out
    };
    let range = KeyRange {
        lower: Bound::Excluded(bound(100)),
        upper: Bound::Included(bound(1234)),
    };
    let ranged = ScanRequest {
        spans: (&range).into(),
        ..request(engine, table, ndp)
    };
    assert_eq!(
        ids(&run(engine, ranged).await),
        (101..=1234).collect::<Vec<_>>()
    );
    check_parts(engine, table, ndp).await;
}

/// Scans of several parts, some of them in one page, some of many pages, some without rows.
async fn check_parts(engine: &Arc<Engine>, table: &Arc<Table>, ndp: bool) {
    let bound = |id: i64| {
        let mut out = Vec::new();
        key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
        out
    };
    let singles = (0..600).filter(|id| id % 7 == 3).map(|id| (id, id));
    let parts = [
        (900, 2300),
        (700, 705),
        (-5, -1),
        (2400, 2401),
        (2402, 2402),
    ];
    let parts: Vec<(i64, i64)> = parts.into_iter().chain(singles).collect();
    let span = |(from, to): &(i64, i64)| {
        let (from, to) = (bound(*from), bound(*to));
        KeySpan::from_bounds(Bound::Included(&from), Bound::Included(&to))
    };
    let spans = KeySpans::union(parts.iter().map(span).collect());
    let is_in = |id: &i32| {
        let id = i64::from(*id);
        parts.iter().any(|(from, to)| (*from..=*to).contains(&id))
    };
    let rows = ids(&run(engine, request(engine, table, ndp)).await);
    let mut expected: Vec<i32> = rows.into_iter().filter(is_in).collect();
    for (reverse, ordered, workers) in [(false, true, 1), (true, true, 3), (false, false, 3)] {
        let request = ScanRequest {
            spans: spans.clone(),
            reverse,
            ordered,
            workers,
            ..request(engine, table, ndp)
        };
        let mut rows = ids(&run(engine, request).await);
        if !ordered {
            rows.sort_unstable();
            expected.sort_unstable();
        }
        if reverse {
            rows.reverse();
        }
        assert_eq!(rows, expected);
    }
    let nothing = ScanRequest {
        spans: KeySpans::union(Vec::new()),
        ..request(engine, table, ndp)
    };
    assert!(ids(&run(engine, nothing).await).is_empty());
}

async fn check_aggregate(engine: &Arc<Engine>, table: &Arc<Table>, ndp: bool, few: &[i32]) {
    let mut builder = Builder::new(&table.clustered().layout);
    let amount = builder.column(1).unwrap();
    let amount = builder.finish(amount).unwrap();
    let functions = vec![
        (AggregateFunction::CountAll, None),
        (AggregateFunction::Sum, Some(amount)),
    ];
    let aggregated = ScanRequest {
        predicate: Some(below(table, 50)),
        aggregate: Some(Aggregate {
            group_by: vec![],
            functions,
        }),
        ordered: false,
        ..request(engine, table, ndp)
    };
    let (mut count, mut sum) = (0, 0);
    for batch in run(engine, aggregated).await {
        count += batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .sum::<i64>();
        let sums = batch.column(1).as_primitive::<Decimal128Type>();
        sum += (0..sums.len())
            .filter(|i| sums.is_valid(*i))
            .map(|i| sums.value(i))
            .sum::<i128>();
    }
    assert_eq!(count, few.len() as i64, "ndp {ndp}");
    assert_eq!(
        sum,
        few.iter().map(|i| i128::from(i % 1000)).sum::<i128>(),
        "ndp {ndp}"
    );
}

async fn check_secondary(engine: &Arc<Engine>, table: &Arc<Table>, ndp: bool, count: i64) {
    let by_amount = ScanRequest {
        index: 1,
        projection: vec![1, 0],
        ..request(engine, table, ndp)
    };
    let found = ids(&run(engine, by_amount).await);
    let mut expected: Vec<_> = (0..count as i32).collect();
    expected.sort_by_key(|i| (if i % 10 == 0 { -1 } else { i % 1000 }, *i));
    assert_eq!(found, expected, "ndp {ndp}");
}

#[test]
fn uncommitted_rows_are_invisible_and_rolled_back_even_by_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        insert(&engine, &table, 0..100).await;

        let mut transaction = engine.begin(TransactionOptions::default());
        transaction
            .insert(&table, &(100..200).map(row).collect::<Vec<_>>())
            .await
            .unwrap();
        expect_first(&engine, &table, 100).await;
        transaction.rollback().await.unwrap();
        expect_first(&engine, &table, 100).await;

        let mut transaction = engine.begin(TransactionOptions::default());
        let error = transaction
            .insert(&table, &[row(300), row(5)])
            .await
            .unwrap_err();
        let EngineError::DuplicateKey { index, value } = error else {
            panic!("{error}")
        };
        assert_eq!((index.as_str(), value.as_str()), ("PRIMARY", "5"));
        transaction.rollback().await.unwrap();

        let mut transaction = engine.begin(TransactionOptions::default());
        transaction
            .insert(&table, &(400..900).map(row).collect::<Vec<_>>())
            .await
            .unwrap();
        engine
            .sal()
            .wait_durable(engine.sal().last_lsn())
            .await
            .unwrap();
        transaction
    });
    // Without a runtime nothing is rolled back: as if the process died here.
    drop(unfinished);
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        let table = engine.table("test", "t").unwrap();
        expect_first(&engine, &table, 100).await;
        insert(&engine, &table, 100..150).await;
        expect_first(&engine, &table, 150).await;
    });
}

async fn expect_first(engine: &Arc<Engine>, table: &Arc<Table>, count: i32) {
    for ndp in [true, false] {
        let committed: Vec<_> = (0..count).collect();
        assert_eq!(
            ids(&run(engine, request(engine, table, ndp)).await),
            committed,
            "ndp {ndp}"
        );
    }
}
