//! Near-data processing through the store: every page answered once, declined pages whole, results
//! as of the LSN. What happens under load is in `ndp_control.rs`.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "ndp/joins.rs"]
mod joins;
mod support;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type};
use bytes::Bytes;
use futures::StreamExt;
use perigee_expr::{AggregateFunction, Comparison, Node, NodeId, Program, Type};
use perigee_ndp::{
    Aggregate, Backend, Descriptor, Filter, GroupMethod, Grouping, KeySet, NdpBatch, Scanner,
};
use perigee_page::{PageKind, RecordHeader};
use perigee_page_api::{
    Capabilities, ClientConfig, FilterHash, NdpDecline, NdpFilter, NdpItem, NdpRead, NdpReply,
    NdpUsage, PageStore, PageStoreClient, incoming, serve, transport,
};
use perigee_page_store::{
    Config, DECLINE_REASONS, NdpPlugin, NdpProgram, PageStoreService, PerigeePlugin,
};
use perigee_redo::Op;
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId, RollPtr, TrxId};
use perigee_value::{ColumnType, Datum, RowLayout, encode_row};
use support::{Model, SLICE, UndoFormat, open, settle, small, tempdir};

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const ROWS: i64 = 100;
const WATERMARK: TrxId = TrxId(50);

fn layout() -> RowLayout {
    RowLayout::clustered(&[(INT, false), (INT, false)], &[0]).unwrap()
}

/// Row `i` of all: its key is `i`, its value `i % 1000`.
fn rows(from: i64, n: i64) -> Bytes {
    let mut out = Vec::new();
    for i in from..from + n {
        let header = RecordHeader {
            trx: TrxId(3),
            roll: RollPtr(0),
            ..RecordHeader::default()
        };
        let values = [Datum::Int(i), Datum::Int(i % 1000)];
        encode_row(&layout(), &values, header, &mut out).unwrap();
    }
    out.into()
}

/// Writes leaves `1..=pages` with [`ROWS`] rows each, ten to a group.
async fn load(store: &dyn PageStore, model: &mut Model, pages: u64) {
    store.create_slice(model.slice, 1).await.unwrap();
    let all: Vec<u64> = (1..=pages).collect();
    for ids in all.chunks(10) {
        let (prev, db) = (model.lsn, model.slice.db);
        let group = model.group(ids, |page, _| {
            let Op::Format {
                level,
                index,
                prev,
                next,
                ..
            } = support::format_op(db, PageKind::Clustered)
            else {
                panic!("formats")
            };
            let records = rows((page.0 as i64 - 1) * ROWS, ROWS);
            let format = Op::Format {
                kind: PageKind::Clustered,
                level,
                db,
                index,
                shape: layout().shape,
                prev,
                next,
            };
            let insert = Op::Insert {
                slot: 0,
                trx: TrxId(3),
                records,
            };
            vec![format, insert]
        });
        store
            .write_logs(model.fragment(prev, &[group]))
            .await
            .unwrap();
    }
}

fn column(index: u16) -> Node {
    Node::Column {
        index,
        ty: Type::Int,
    }
}

/// Rows whose value is below `below`, both columns.
fn filter(db: DbId, below: i64) -> Descriptor {
    let constant = Node::Constant {
        value: Datum::Int(below),
        ty: Type::Int,
    };
    let less = Node::Compare {
        op: Comparison::Less,
        left: NodeId(0),
        right: NodeId(1),
    };
    Descriptor {
        projection: vec![0, 1],
        predicate: Some(Program {
            nodes: vec![column(1), constant, less],
        }),
        ..Descriptor::new(db, IndexId(1), layout(), WATERMARK)
    }
}

fn sum(db: DbId) -> Descriptor {
    let value = Program {
        nodes: vec![column(1)],
    };
    Descriptor {
        aggregate: Some(Aggregate {
            group_by: Vec::new(),
            functions: vec![(AggregateFunction::Sum, Some(value))],
        }),
        ..Descriptor::new(db, IndexId(1), layout(), WATERMARK)
    }
}

fn request(model: &Model, pages: &[u64], descriptor: &Descriptor) -> NdpRead {
    NdpRead {
        epoch: perigee_page_api::ANY_EPOCH,
        slice: model.slice,
        lsn: model.lsn,
        pages: pages.iter().map(|p| PageId(*p)).collect(),
        descriptor: descriptor.encode(),
        filters: Vec::new(),
        enough: None,
    }
}

/// What came back, with the answers to each page counted.
#[derive(Default)]
struct Answer {
    batches: Vec<NdpBatch>,
    declined: Vec<(u32, NdpDecline, Bytes)>,
    usage: NdpUsage,
    replies: usize,
    /// Bytes of reduced pages.
    reduced: usize,
    /// Numbers of filters that the store lacks.
    missing: Vec<u32>,
    /// Rows that each filter left out.
    dropped: Vec<u64>,
}

async fn ask(store: &dyn PageStore, read: NdpRead) -> Answer {
    let n = read.pages.len();
    let mut replies = store.ndp_read(read).await.unwrap();
    let mut answer = Answer::default();
    let mut seen = vec![0; n];
    while let Some(reply) = replies.next().await {
        let NdpReply {
            items,
            usage,
            filters,
        } = reply.unwrap();
        let used = filters.unwrap_or_default();
        answer.missing = used.missing;
        answer
            .dropped
            .resize(used.dropped.len().max(answer.dropped.len()), 0);
        for (sum, rows) in answer.dropped.iter_mut().zip(used.dropped) {
            *sum += rows;
        }
        answer.usage.pages += usage.pages;
        answer.usage.bytes_read += usage.bytes_read;
        answer.usage.cpu_nanos += usage.cpu_nanos;
        answer.usage.compiled |= usage.compiled;
        answer.replies += 1;
        for item in items {
            match item {
                NdpItem::Reduced(bytes) => {
                    answer.reduced += bytes.len();
                    let batch = NdpBatch::decode(bytes).unwrap();
                    batch
                        .pages
                        .iter()
                        .for_each(|run| seen[run.index as usize] += 1);
                    answer.batches.push(batch);
                }
                NdpItem::Declined {
                    index,
                    reason,
                    page,
                } => {
                    seen[index as usize] += 1;
                    answer.declined.push((index, reason, page));
                }
            }
        }
    }
    assert!(
        seen.iter().all(|n| *n == 1),
        "every page is answered once: {seen:?}"
    );
    answer.declined.sort_by_key(|d| d.0);
    answer
}

/// The keys that batches deliver, in key order.
fn keys(descriptor: &Descriptor, batches: Vec<NdpBatch>) -> Vec<i32> {
    let scanner = Arc::new(Scanner::new(descriptor.clone(), Backend::Interpreter).unwrap());
    let mut keys = Vec::new();
    for batch in batches {
        let finished = scanner.finish(batch, &[]).unwrap();
        keys.extend(
            finished
                .batch
                .column(0)
                .as_primitive::<Int32Type>()
                .values(),
        );
    }
    keys.sort_unstable();
    keys
}

fn expected(pages: impl Iterator<Item = u64>, below: i32) -> Vec<i32> {
    let keys = pages.flat_map(|p| (p as i32 - 1) * 100..p as i32 * 100);
    keys.filter(|key| key % 1000 < below).collect()
}

/// A client of a store, through a socket.
async fn over_grpc(store: &Arc<PageStoreService>) -> PageStoreClient {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = transport().add_service(serve(store.clone()));
    tokio::spawn(router.serve_with_incoming(incoming(listener, Arc::default())));
    PageStoreClient::new(&address, ClientConfig::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_reduced_as_of_the_lsn() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 500).await;
    let old = model.lsn;
    let pages: Vec<u64> = (1..=500).collect();
    let descriptor = filter(SLICE.db, 100);
    let read = request(&model, &pages, &descriptor);
    // Page 7 loses its rows; the request asks for the state before.
    let prev = model.lsn;
    let group = model.group(&[7], |_, _| {
        vec![Op::Remove {
            slot: 0,
            count: 100,
            trx: TrxId(4),
        }]
    });
    store
        .write_logs(model.fragment(prev, &[group]))
        .await
        .unwrap();
    assert_eq!(read.lsn, old);
    let client = over_grpc(&store).await;
    for (name, store) in [("direct", &*store as &dyn PageStore), ("socket", &client)] {
        let answer = ask(store, read.clone()).await;
        assert!(answer.declined.is_empty(), "{name}");
        assert_eq!(answer.usage.pages, 500, "{name}");
        assert_eq!(answer.usage.bytes_read, 500 * 16384, "{name}");
        assert!(
            answer.usage.cpu_nanos > 100_000 && answer.usage.compiled,
            "{name}"
        );
        assert_eq!(
            keys(&descriptor, answer.batches),
            expected(1..=500, 100),
            "{name}"
        );
    }
    let read = NdpRead {
        lsn: model.lsn,
        ..read
    };
    let answer = ask(&*store, read).await;
    let without_7 = expected((1..=500).filter(|p| *p != 7), 100);
    assert_eq!(keys(&descriptor, answer.batches), without_7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_are_merged_over_the_pages_of_a_worker() {
    let dir = tempdir();
    let config = Config {
        ndp_threads: 2,
        ..small()
    };
    let store = open(dir.path(), config);
    let mut model = Model::new(SLICE);
    load(&store, &mut model, 640).await;
    settle(&store, SLICE).await;
    let pages: Vec<u64> = (1..=640).collect();
    let descriptor = sum(SLICE.db);
    let answer = ask(&store, request(&model, &pages, &descriptor)).await;
    assert!(
        answer.replies <= 2,
        "{} replies of two workers",
        answer.replies
    );
    let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter).unwrap());
    let mut total = 0;
    for batch in answer.batches {
        assert_eq!(batch.rows, 1);
        let finished = scanner.finish(batch, &[]).unwrap();
        total += finished
            .batch
            .column(0)
            .as_primitive::<Decimal128Type>()
            .value(0);
    }
    assert_eq!(total, 64 * (0..1000).sum::<i128>());
}

/// Rows of each value, of 1,000.
fn counts(db: DbId, grouping: Grouping) -> Descriptor {
    let value = Program {
        nodes: vec![column(1)],
    };
    Descriptor {
        aggregate: Some(Aggregate {
            group_by: vec![value],
            functions: vec![(AggregateFunction::CountAll, None)],
        }),
        grouping,
        ..Descriptor::new(db, IndexId(1), layout(), WATERMARK)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_take_as_much_memory_as_the_store_and_the_request_allow() {
    let kib = |n: u64| NonZeroU64::new(n << 10);
    let (mut model, pages) = (Model::new(SLICE), (1..=640).collect::<Vec<_>>());
    let default = Config::default();
    let (request_bytes, tenant_bytes) = (default.ndp_group_bytes, default.ndp_group_bytes_tenant);
    let dir = tempdir();
    let first = open(dir.path(), small());
    load(&first, &mut model, 640).await;
    settle(&first, SLICE).await;
    drop(first);
    for (ndp_group_bytes, ndp_group_bytes_tenant, memory, enough) in [
        (request_bytes, tenant_bytes, None, true),
        (request_bytes, tenant_bytes, kib(1 << 20), true),
        (request_bytes, tenant_bytes, kib(10), false),
        (20 << 10, tenant_bytes, None, false),
        // What each run may hold in any case.
        (request_bytes, 0, None, false),
    ] {
        let config = Config {
            ndp_group_bytes,
            ndp_group_bytes_tenant,
            ..small()
        };
        let store = open(dir.path(), config);
        for method in [GroupMethod::Hash, GroupMethod::Sort] {
            let descriptor = counts(SLICE.db, Grouping { method, memory });
            let answer = ask(&store, request(&model, &pages, &descriptor)).await;
            assert!(answer.declined.is_empty());
            let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter).unwrap());
            let (mut rows, mut of_value) = (0, HashMap::<i32, i64>::new());
            for batch in answer.batches {
                rows += batch.rows;
                let states = scanner.finish(batch, &[]).unwrap().batch;
                let values = states.column(0).as_primitive::<Int32Type>().values().iter();
                let counts = states.column(1).as_primitive::<Int64Type>().values();
                for (value, count) in values.zip(counts) {
                    *of_value.entry(*value).or_default() += count;
                }
            }
            assert!((0..1000).all(|value| of_value[&value] == 64), "{method:?}");
            let few = rows <= 1000 * small().ndp_threads;
            // Sorted groups take less: those of a small part of the memory still fit.
            let fit = enough || (method == GroupMethod::Sort && ndp_group_bytes_tenant == 0);
            assert_eq!(
                few, fit,
                "{rows} rows by {method:?} in {ndp_group_bytes}, {memory:?}"
            );
            assert_eq!(store.figures().ndp.group_bytes, 0, "all is given back");
        }
    }
}

#[tokio::test]
async fn declined_pages_come_whole_with_the_reason() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let config = Config {
        decline_every: Some(3),
        ..small()
    };
    let store = open(dir.path(), config);
    load(&store, &mut model, 100).await;
    // Page 200 is no leaf of the index.
    let (prev, db, lsn) = (model.lsn, SLICE.db, model.lsn.next());
    let group = model.group(&[200], |page, _| {
        UndoFormat::change(db, page, lsn, true).ops
    });
    store
        .write_logs(model.fragment(prev, &[group]))
        .await
        .unwrap();
    let mut pages: Vec<u64> = (1..=100).collect();
    pages[42] = 200;
    let descriptor = filter(SLICE.db, 500);
    let answer = ask(&store, request(&model, &pages, &descriptor)).await;
    let forced: Vec<u32> = (0..100).filter(|i| (i + 1) % 3 == 0).collect();
    assert!(!forced.contains(&42));
    assert_eq!(answer.declined.len(), forced.len() + 1);
    for (index, reason, page) in &answer.declined {
        let expected = if *index == 42 {
            NdpDecline::Page
        } else {
            NdpDecline::Forced
        };
        assert_eq!(*reason, expected, "page {index}");
        let same = model.page(pages[*index as usize], model.lsn).unwrap();
        assert!(*page == same, "declined page {index} is another one");
    }
    let taken = (0..100_u32).filter(|i| *i != 42 && !forced.contains(i));
    let taken = taken.map(|i| pages[i as usize]);
    assert_eq!(keys(&descriptor, answer.batches), expected_of(taken, 500));

    // Operators are told the same.
    let figures = store.figures();
    let ndp = figures.ndp;
    assert_eq!((ndp.requests, ndp.pages_reduced), (1, 66));
    assert_eq!(DECLINE_REASONS, ["descriptor", "busy", "page", "forced"]);
    assert_eq!(ndp.pages_declined, [0, 0, 1, 33]);
    assert_eq!(ndp.bytes_read, 100 * PAGE_SIZE as u64);
    assert!(ndp.bytes_shipped > 34 * PAGE_SIZE as u64 && ndp.bytes_shipped < ndp.bytes_read);
    assert!(ndp.cpu > Duration::ZERO);
    assert_eq!((ndp.queued_chunks, ndp.threads), (0, small().ndp_threads));
    let cached = figures.descriptors;
    assert_eq!((cached.misses, cached.hits, cached.entries), (1, 0, 1));
    assert!(cached.miss_time > Duration::ZERO);
    ask(&store, request(&model, &pages, &descriptor)).await;
    let after = store.figures();
    assert_eq!((after.descriptors.misses, after.descriptors.hits), (1, 1));
    assert_eq!(after.descriptors.miss_time, cached.miss_time);
    assert_eq!(after.ndp.pages_declined, [0, 0, 2, 66]);
    assert_eq!(after.log.fragments, 11);
    assert_eq!(after.log.pages_read, 0, "these are no plain reads");
    let slice = &after.slices[0];
    assert_eq!((slice.key, slice.status.persistent_lsn), (SLICE, model.lsn));
    assert!(!slice.damaged && slice.disk_bytes > 0);
}

/// Page versions on disk are counted, and what is consolidated.
#[tokio::test]
async fn figures_follow_consolidation() {
    let dir = tempdir();
    let store = open(dir.path(), small());
    let mut model = Model::new(SLICE);
    load(&store, &mut model, 100).await;
    settle(&store, SLICE).await;
    let figures = store.figures();
    let slice = &figures.slices[0];
    assert_eq!((slice.pages, slice.versions), (100, 100));
    assert_eq!(slice.live_bytes, 100 * PAGE_SIZE as u64);
    assert_eq!(slice.status.backlog_bytes, 0);
    let log = figures.log;
    assert_eq!((log.fragments, log.consolidated_fragments), (10, 10));
    assert!(log.versions_written >= 100 && log.bytes > 100 * 100);
    assert_eq!(log.backlog_bytes, 0);
    let read = NdpRead {
        epoch: perigee_page_api::ANY_EPOCH,
        slice: SLICE,
        lsn: model.lsn,
        pages: (1..=100).map(PageId).collect(),
        descriptor: Bytes::from_static(b"no descriptor"),
        filters: Vec::new(),
        enough: None,
    };
    let answer = ask(&store, read).await;
    assert!(
        answer
            .declined
            .iter()
            .all(|d| d.1 == NdpDecline::Descriptor)
    );
    let after = store.figures();
    let declined = answer.declined.len() as u64;
    assert_eq!(after.ndp.pages_declined, [declined, 0, 0, 0]);
    assert_eq!(after.descriptors.refused, 1);
    assert_eq!(
        after.log.pages_read, declined,
        "declined pages are read plainly"
    );
}

fn expected_of(pages: impl Iterator<Item = u64>, below: i32) -> Vec<i32> {
    expected(pages, below)
}

#[tokio::test]
async fn what_does_not_fit_the_queue_is_declined_page_by_page() {
    let dir = tempdir();
    let config = Config {
        ndp_queue: 2,
        ..small()
    };
    let store = open(dir.path(), config);
    let mut model = Model::new(SLICE);
    load(&store, &mut model, 200).await;
    let pages: Vec<u64> = (1..=200).collect();
    let descriptor = filter(SLICE.db, 1000);
    // The queue is empty at the time, so exactly two chunks of 32 pages fit, each time.
    for _ in 0..20 {
        let answer = ask(&store, request(&model, &pages, &descriptor)).await;
        assert_eq!(answer.declined.len(), 200 - 64);
        assert!(
            answer
                .declined
                .iter()
                .all(|(_, reason, _)| *reason == NdpDecline::Busy)
        );
        assert_eq!(answer.declined[0].0, 64);
        assert_eq!(keys(&descriptor, answer.batches), expected(1..=64, 1000));
        assert_eq!(answer.usage.pages, 200);
    }
}

#[tokio::test]
async fn descriptors_of_other_tenants_reduce_nothing() {
    let dir = tempdir();
    let store = open(dir.path(), small());
    let mut model = Model::new(SLICE);
    load(&store, &mut model, 20).await;
    let other = filter(DbId(99), 1000);
    let pages: Vec<u64> = (1..=20).collect();
    let answer = ask(&store, request(&model, &pages, &other)).await;
    assert_eq!(answer.declined.len(), 20);
    assert!(
        answer
            .declined
            .iter()
            .all(|(_, reason, _)| *reason == NdpDecline::Page)
    );
    let mut newer = filter(SLICE.db, 10).encode().to_vec();
    newer[4..].fill(0xff);
    let read = NdpRead {
        descriptor: newer.into(),
        filters: Vec::new(),
        ..request(&model, &pages, &other)
    };
    let answer = ask(&store, read).await;
    assert!(
        answer
            .declined
            .iter()
            .all(|(_, reason, _)| *reason == NdpDecline::Descriptor)
    );
}

/// A filter for rows with these keys, of the store's table.
fn key_filter(keys: &[i64]) -> Filter {
    let mut set = KeySet::new(&[INT]).unwrap();
    for key in keys {
        let mut encoded = Vec::new();
        let key = Datum::Int(*key);
        perigee_value::key::encode_part(INT, false, key.as_ref(), &mut encoded).unwrap();
        set.insert(&encoded);
    }
    set.filter(&[0]).unwrap()
}

fn sent(content: Bytes) -> NdpFilter {
    NdpFilter {
        hash: FilterHash::of(&content),
        content: Some(content),
    }
}

fn by_hash(filter: &NdpFilter) -> NdpFilter {
    NdpFilter {
        content: None,
        ..filter.clone()
    }
}

/// The reply says of each page that it was looked at (YourSQL's match hints, turned round).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_without_a_match_costs_two_bytes_at_most_and_no_message() {
    let dir = tempdir();
    let config = Config {
        ndp_threads: 2,
        ..small()
    };
    let store = Arc::new(open(dir.path(), config));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 1000).await;
    let descriptor = filter(SLICE.db, -1);
    for pages in [100, 1000] {
        let pages: Vec<u64> = (1..=pages).collect();
        let answer = ask(&*store, request(&model, &pages, &descriptor)).await;
        assert_eq!(answer.usage.pages, pages.len() as u64);
        let (replies, bytes) = (answer.replies, answer.reduced);
        assert!(replies <= 8, "{replies} messages for {} pages", pages.len());
        let most = 400 + 2 * pages.len();
        assert!(bytes <= most, "{bytes} bytes for {} pages", pages.len());
        assert!(keys(&descriptor, answer.batches).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_behind_rows_enough_are_not_even_read() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 1000).await;
    let pages: Vec<u64> = (1..=1000).collect();
    let descriptor = filter(SLICE.db, 500);
    let read = |enough| NdpRead {
        enough,
        ..request(&model, &pages, &descriptor)
    };
    let all = expected(1..=1000, 500);
    let client = over_grpc(&store).await;
    let stores: [&dyn PageStore; 2] = [&*store, &client];
    for store in stores {
        for enough in [0, 1, 5, 60] {
            // Each page is in the answer once, or `ask` says so.
            let answer = ask(store, read(Some(enough))).await;
            let found = keys(&descriptor, answer.batches);
            assert!(found.len() as u64 >= enough, "{enough}: {}", found.len());
            assert!(found.iter().all(|key| all.contains(key)));
            let read = answer.usage.pages;
            assert!(read < 500, "{enough} rows: {read} pages were read");
        }
        let answer = ask(store, read(Some(1 << 40))).await;
        assert_eq!(keys(&descriptor, answer.batches), all);
        assert_eq!(answer.usage.pages, 1000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_come_once_and_are_known_by_their_hash() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 100).await;
    let pages: Vec<u64> = (1..=100).collect();
    let descriptor = filter(SLICE.db, 500);
    let read = |filters| NdpRead {
        filters,
        ..request(&model, &pages, &descriptor)
    };
    let all = expected(1..=100, 500);
    let few = sent(key_filter(&[3, 400, 777, 2001]).encode());
    let passing = vec![3, 400, 2001];

    let unknown = ask(&*store, read(vec![by_hash(&few)])).await;
    assert_eq!(unknown.missing, [0], "it was never sent");
    assert_eq!(keys(&descriptor, unknown.batches), all);
    for filter in [few.clone(), by_hash(&few)] {
        let answer = ask(&*store, read(vec![filter])).await;
        assert!(answer.missing.is_empty());
        assert_eq!(answer.dropped, [(all.len() - passing.len()) as u64]);
        assert_eq!(keys(&descriptor, answer.batches), passing);
    }
    // A later batch brings a second, tighter one; one that it cannot run changes nothing.
    let tighter = sent(key_filter(&[400, 401]).encode());
    let broken = sent(Bytes::from_static(b"no filter"));
    let both = vec![by_hash(&few), broken, tighter];
    let answer = ask(&*store, read(both)).await;
    assert!(answer.missing.is_empty());
    assert_eq!(answer.dropped, [(all.len() - passing.len()) as u64, 0, 2]);
    assert_eq!(keys(&descriptor, answer.batches), [400]);

    let figures = store.figures().filters;
    assert_eq!(
        (figures.misses, figures.refused, figures.missing),
        (3, 1, 1)
    );
    assert_eq!(figures.entries, 3);
    // A store that was restarted has forgotten it, says so, and goes on with its content.
    drop(store);
    let store = open(dir.path(), small());
    let answer = ask(&store, read(vec![by_hash(&few)])).await;
    assert_eq!(answer.missing, [0]);
    assert_eq!(keys(&descriptor, answer.batches), all);
    let answer = ask(&store, read(vec![few])).await;
    assert_eq!(keys(&descriptor, answer.batches), passing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_are_not_what_they_say_are_left_out() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 10).await;
    let other = perigee_page_api::SliceKey {
        db: DbId(SLICE.db.0 + 1),
        ..SLICE
    };
    let mut other = Model::new(other);
    load(&*store, &mut other, 10).await;
    let pages: Vec<u64> = (1..=10).collect();
    let read = |model: &Model, sent| NdpRead {
        filters: vec![sent],
        ..request(model, &pages, &filter(model.slice.db, 1000))
    };
    let descriptor = filter(SLICE.db, 1000);
    let all = expected(1..=10, 1000);
    let right = sent(key_filter(&[5]).encode());
    let changed = NdpFilter {
        content: Some(key_filter(&[6]).encode()),
        ..right.clone()
    };
    let answer = ask(&*store, read(&model, changed)).await;
    assert_eq!(
        keys(&descriptor, answer.batches),
        all,
        "it has another hash"
    );
    let answer = ask(&*store, read(&model, right.clone())).await;
    assert_eq!(
        keys(&descriptor, answer.batches),
        [5],
        "the wrong one was not kept"
    );
    let answer = ask(&*store, read(&other, by_hash(&right))).await;
    assert_eq!(answer.missing, [0], "it is another tenant's");
    // Over columns that the records do not have.
    let foreign = KeySet::new(&[INT]).unwrap().filter(&[7]).unwrap();
    let answer = ask(&*store, read(&model, sent(foreign.encode()))).await;
    assert_eq!(keys(&descriptor, answer.batches), all);
    let mut newer = key_filter(&[5]).encode().to_vec();
    newer[8] = 9;
    let crc = perigee_types::checksum(&newer[8..]);
    newer[4..8].copy_from_slice(&crc.to_le_bytes());
    let answer = ask(&*store, read(&model, sent(newer.into()))).await;
    assert_eq!(
        keys(&descriptor, answer.batches),
        all,
        "its version is unknown"
    );
}

/// NDP as it was before there were filters.
struct Older(PerigeePlugin);

impl NdpPlugin for Older {
    fn prepare(&self, descriptor: &Bytes) -> Result<Arc<dyn NdpProgram>, String> {
        self.0.prepare(descriptor)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_says_what_it_knows() {
    let dirs = [tempdir(), tempdir()];
    let newer = open(dirs[0].path(), small());
    let plugin = Arc::new(Older(PerigeePlugin::default()));
    let older = PageStoreService::open_with_plugin(dirs[1].path(), small(), plugin).unwrap();
    let known = newer.capabilities().await.unwrap();
    assert_eq!((known.descriptor, known.filter), (3, 2));
    assert_eq!(older.capabilities().await.unwrap(), Capabilities::OLDEST);
    assert_eq!(
        known.common(Capabilities::OLDEST),
        Capabilities::OLDEST,
        "a database is planned for with what all its stores know"
    );
    let mut model = Model::new(SLICE);
    load(&older, &mut model, 10).await;
    let pages: Vec<u64> = (1..=10).collect();
    let descriptor = filter(SLICE.db, 1000);
    let read = NdpRead {
        filters: vec![sent(key_filter(&[5]).encode())],
        ..request(&model, &pages, &descriptor)
    };
    let answer = ask(&older, read).await;
    assert_eq!(keys(&descriptor, answer.batches), expected(1..=10, 1000));
}
