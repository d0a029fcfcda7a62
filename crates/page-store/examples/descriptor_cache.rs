//! What the cache of NDP descriptors saves: time to prepare a descriptor, and to find it prepared.
//!
//! `cargo run --release -p perigee-page-store --example descriptor_cache`
//!
//! The descriptors are those of TPC-H's Q6 (a predicate), Q1 (grouped aggregation) and of a list of
//! constants; each is sent with a request for no pages, a thousand times under another watermark,
//! which makes it another descriptor, and a thousand times the same.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::time::Duration;

use perigee_expr::{AggregateFunction, Arithmetic, Builder, Comparison, Program, Type};
use perigee_ndp::{Aggregate, Descriptor};
use perigee_page_api::{NdpRead, PageStore, SliceKey};
use perigee_page_store::{Config, PageStoreService};
use perigee_types::{DbId, IndexId, Lsn, SliceId, TrxId};
use perigee_value::{Collation, ColumnType, Datum, RowLayout};

const SLICE: SliceKey = SliceKey {
    db: DbId(1),
    slice: SliceId(0),
};

const ROUNDS: u64 = 1000;

/// quantity, extendedprice, discount, tax, returnflag, linestatus, shipdate.
fn layout() -> RowLayout {
    let money = ColumnType::Decimal {
        precision: 15,
        scale: 2,
    };
    let flag = ColumnType::Char {
        chars: 1,
        collation: Collation::UTF8MB4_BIN,
    };
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let types = [
        int,
        money,
        money,
        money,
        money,
        flag,
        flag,
        ColumnType::Date,
    ];
    RowLayout::clustered(&types.map(|ty| (ty, false)), &[0]).unwrap()
}

fn descriptor() -> Descriptor {
    Descriptor::new(SLICE.db, IndexId(1), layout(), TrxId(0))
}

/// `shipdate >= … AND shipdate < … AND discount BETWEEN … AND quantity < 24`; the sum of a product.
fn q6() -> Descriptor {
    let mut b = Builder::new(&layout());
    let mut terms = Vec::new();
    let bounds = [
        (7, Comparison::GreaterOrEqual, 8766),
        (7, Comparison::Less, 9131),
    ];
    for (column, op, day) in bounds {
        let (column, day) = (b.column(column).unwrap(), b.date(day).unwrap());
        terms.push(b.compare(op, column, day).unwrap());
    }
    let bounds = [
        (3, Comparison::GreaterOrEqual, 5),
        (3, Comparison::LessOrEqual, 7),
        (1, Comparison::Less, 2400),
    ];
    for (column, op, units) in bounds {
        let (column, limit) = (b.column(column).unwrap(), b.decimal(units, 2).unwrap());
        terms.push(b.compare(op, column, limit).unwrap());
    }
    let all = b.and(terms).unwrap();
    Descriptor {
        predicate: Some(b.finish(all).unwrap()),
        aggregate: Some(Aggregate {
            group_by: Vec::new(),
            functions: vec![(AggregateFunction::Sum, Some(product()))],
        }),
        ..descriptor()
    }
}

/// `extendedprice * discount`.
fn product() -> Program {
    let mut b = Builder::new(&layout());
    let (price, discount) = (b.column(2).unwrap(), b.column(3).unwrap());
    let product = b.arithmetic(Arithmetic::Multiply, price, discount).unwrap();
    b.finish(product).unwrap()
}

fn column(index: u16) -> Program {
    let mut b = Builder::new(&layout());
    let column = b.column(index).unwrap();
    b.finish(column).unwrap()
}

/// Two groups of columns, a condition, eight functions.
fn q1() -> Descriptor {
    let mut b = Builder::new(&layout());
    let (shipped, day) = (b.column(7).unwrap(), b.date(10_471).unwrap());
    let condition = b.compare(Comparison::LessOrEqual, shipped, day).unwrap();
    let sum = |program| (AggregateFunction::Sum, Some(program));
    let functions = vec![
        sum(column(1)),
        sum(column(2)),
        sum(product()),
        sum(product()),
        (AggregateFunction::Count, Some(column(1))),
        (AggregateFunction::Count, Some(column(2))),
        sum(column(3)),
        (AggregateFunction::CountAll, None),
    ];
    Descriptor {
        predicate: Some(b.finish(condition).unwrap()),
        aggregate: Some(Aggregate {
            group_by: vec![column(5), column(6)],
            functions,
        }),
        ..descriptor()
    }
}

/// `id IN (…)` of ten thousand constants.
fn list() -> Descriptor {
    let mut b = Builder::new(&layout());
    let id = b.column(0).unwrap();
    let constants = (0..10_000).map(|n| (Datum::Int(n * 7), Type::Int));
    let found = b.in_list(id, &constants.collect::<Vec<_>>()).unwrap();
    Descriptor {
        projection: vec![0, 1],
        predicate: Some(b.finish(found).unwrap()),
        ..descriptor()
    }
}

async fn measure(store: &PageStoreService, name: &str, descriptor: &Descriptor) {
    let ask = async |descriptor: &Descriptor| {
        let read = NdpRead {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: SLICE,
            lsn: Lsn(0),
            pages: Vec::new(),
            descriptor: descriptor.encode(),
            filters: Vec::new(),
            enough: None,
        };
        drop(store.ndp_read(read).await.unwrap());
    };
    let before = store.figures().descriptors;
    for watermark in 0..ROUNDS {
        let watermark = TrxId(watermark + 1);
        ask(&Descriptor {
            watermark,
            ..descriptor.clone()
        })
        .await;
    }
    for _ in 0..=ROUNDS {
        ask(descriptor).await;
    }
    let after = store.figures().descriptors;
    let each = |times: u64, took: Duration| took.as_secs_f64() * 1e6 / times.max(1) as f64;
    let (misses, hits) = (after.misses - before.misses, after.hits - before.hits);
    println!(
        "{name:<28} {:>7} bytes   miss {:>8.1} µs   hit {:>6.2} µs   ({misses} and {hits})",
        descriptor.encode().len(),
        each(misses, after.miss_time - before.miss_time),
        each(hits, after.hit_time - before.hit_time),
    );
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = PageStoreService::open(dir.path(), Config::default()).unwrap();
    store.create_slice(SLICE, 1).await.unwrap();
    measure(&store, "Q6", &q6()).await;
    measure(&store, "Q1", &q1()).await;
    measure(&store, "a list of 10,000 constants", &list()).await;
    let stats = store.figures().descriptors;
    println!(
        "{} descriptors and {} KiB are kept, {} made room",
        stats.entries,
        stats.bytes >> 10,
        stats.evictions
    );
}
