//! Near-data processing under load: work that nobody wants stops, tenants share fairly, what waits is
//! bounded, a slow or broken program harms nobody else.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use perigee_ndp::{Descriptor, NdpBatch};
use perigee_page::{PageKind, RecordHeader};
use perigee_page_api::{
    ClientConfig, NdpDecline, NdpItem, NdpRead, PageError, PageStore, PageStoreClient, ReadPages,
    SliceKey, serve_apart,
};
use perigee_page_store::{
    Config, NdpPlugin, NdpProgram, NdpRun, NdpRuntime, PageOutcome, PageStoreService, RunResources,
    answer_at_once,
};
use perigee_redo::Op;
use perigee_types::{DbId, IndexId, Lsn, PageId, TrxId};
use perigee_value::{Collation, ColumnType, Datum, RowLayout, encode_row};
use support::{Model, SLICE, open, small, tempdir};
use tokio::runtime::Runtime;

/// Pages of a request; so many chunks.
const PAGES: u64 = 1000;
const CHUNKS: usize = 1000_usize.div_ceil(32);

/// A plugin that counts what it does, and is slow.
#[derive(Clone)]
struct Slow {
    prepared: Arc<AtomicUsize>,
    /// Pages by the first byte of the descriptor.
    pages: Arc<[AtomicUsize; 256]>,
    descriptor: u8,
    /// For a page, asleep,
    delay: Duration,
    /// or at work.
    works: Duration,
    /// To prepare a descriptor.
    prepares: Duration,
    panics: bool,
}

impl Default for Slow {
    fn default() -> Self {
        Self {
            prepared: Arc::default(),
            pages: Arc::new([const { AtomicUsize::new(0) }; 256]),
            descriptor: 0,
            delay: Duration::ZERO,
            works: Duration::ZERO,
            prepares: Duration::ZERO,
            panics: false,
        }
    }
}

impl Slow {
    fn pages_of(&self, descriptor: u8) -> usize {
        self.pages[usize::from(descriptor)].load(Ordering::SeqCst)
    }

    fn pages(&self) -> usize {
        (0..=255).map(|descriptor| self.pages_of(descriptor)).sum()
    }
}

impl NdpPlugin for Slow {
    fn prepare(&self, descriptor: &Bytes) -> Result<Arc<dyn NdpProgram>, String> {
        std::thread::sleep(self.prepares);
        self.prepared.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(Self {
            descriptor: descriptor[0],
            ..self.clone()
        }))
    }
}

impl NdpProgram for Slow {
    fn run(&self, _: RunResources<'_>) -> Box<dyn NdpRun> {
        Box::new(self.clone())
    }
    fn is_compiled(&self) -> bool {
        false
    }
}

impl NdpRun for Slow {
    fn page(&mut self, _: u32, _: &[u8]) -> PageOutcome {
        assert!(!self.panics, "the plugin is broken");
        self.pages[usize::from(self.descriptor)].fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.delay);
        let begin = Instant::now();
        while begin.elapsed() < self.works {}
        PageOutcome::Taken
    }
    fn leave_out(&mut self, _: u32) -> PageOutcome {
        PageOutcome::Taken
    }
    // Every chunk is a result of its own.
    fn rows(&self) -> usize {
        1 << 20
    }
    fn bytes(&self) -> usize {
        0
    }
    fn take(&mut self) -> Bytes {
        Bytes::from_static(b"result")
    }
}

/// Writes pages of any kind.
async fn load(store: &dyn PageStore, model: &mut Model, pages: u64) {
    store.create_slice(model.slice, 1).await.unwrap();
    let all: Vec<u64> = (1..=pages).collect();
    for ids in all.chunks(100) {
        let fragment = model.touch(ids);
        store.write_logs(fragment).await.unwrap();
    }
}

async fn slow_store(
    dir: &Path,
    plugin: &Slow,
    config: Config,
) -> (Arc<PageStoreService>, [Model; 2]) {
    let store = PageStoreService::open_with_plugin(dir, config, Arc::new(plugin.clone())).unwrap();
    let other = SliceKey {
        db: DbId(55),
        ..SLICE
    };
    let mut models = [Model::new(SLICE), Model::new(other)];
    for model in &mut models {
        load(&store, model, PAGES).await;
    }
    (Arc::new(store), models)
}

fn threads(ndp_threads: usize) -> Config {
    Config {
        ndp_threads,
        ..small()
    }
}

fn request(model: &Model, descriptor: &'static [u8]) -> NdpRead {
    NdpRead {
        epoch: perigee_page_api::ANY_EPOCH,
        slice: model.slice,
        lsn: model.lsn,
        pages: (1..=PAGES).map(PageId).collect(),
        descriptor: Bytes::from_static(descriptor),
        filters: Vec::new(),
        enough: None,
    }
}

fn part(model: &Model, descriptor: &'static [u8], pages: u64) -> NdpRead {
    NdpRead {
        pages: (1..=pages).map(PageId).collect(),
        ..request(model, descriptor)
    }
}

/// Clients of one server, which serves NDP on threads that give way to others, as a process does.
async fn clients<const N: usize>(
    store: &Arc<PageStoreService>,
    config: &ClientConfig,
) -> [PageStoreClient; N] {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let store = store.clone();
    tokio::spawn(async move {
        let ndp = NdpRuntime::start().unwrap();
        let until = std::future::pending();
        serve_apart(store, listener, Arc::default(), ndp.handle(), until).await
    });
    std::array::from_fn(|_| PageStoreClient::new(&address, config.clone()).unwrap())
}

async fn over_grpc(store: &Arc<PageStoreService>, config: ClientConfig) -> PageStoreClient {
    let [client] = clients(store, &config).await;
    client
}

/// Pages reduced, pages declined as the store is busy.
async fn count(store: &dyn PageStore, read: NdpRead) -> (usize, usize) {
    let (mut reduced, mut busy) = (0, 0);
    let mut replies = store.ndp_read(read).await.unwrap();
    while let Some(reply) = replies.next().await {
        for item in reply.unwrap().items {
            match item {
                NdpItem::Reduced(_) => reduced += 1,
                NdpItem::Declined { reason, .. } => {
                    assert_eq!(reason, NdpDecline::Busy);
                    busy += 1;
                }
            }
        }
    }
    (reduced, busy)
}

/// Panics if work goes on 100 ms from now.
async fn assert_stops(plugin: &Slow) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = plugin.pages();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(plugin.pages(), after, "the work goes on");
    assert!(after < 900, "{after} of {PAGES} pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_stops_within_100_ms_when_its_client_leaves() {
    let dir = tempdir();
    let plugin = Slow {
        // A chunk takes 640 ms: work stops inside of it.
        delay: Duration::from_millis(20),
        ..Slow::default()
    };
    let (store, [model, _]) = slow_store(dir.path(), &plugin, threads(2)).await;
    let client = over_grpc(&store, ClientConfig::default()).await;
    for store in [&*store as &dyn PageStore, &client] {
        let before = plugin.pages();
        let replies = store.ndp_read(request(&model, b"a")).await.unwrap();
        while plugin.pages() < before + 8 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(replies);
        assert_stops(&plugin).await;
    }
    // The queue is empty again: a request is taken as a whole, and its descriptor is known.
    let fast = part(&model, b"a", 100);
    assert_eq!(count(&*store, fast).await, (4, 0));
    assert_eq!(plugin.prepared.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_stops_when_its_deadline_passes() {
    let dir = tempdir();
    let plugin = Slow {
        delay: Duration::from_millis(30),
        ..Slow::default()
    };
    let (store, [model, _]) = slow_store(dir.path(), &plugin, threads(1)).await;
    let config = ClientConfig {
        read_timeout: Duration::from_millis(300),
        ..ClientConfig::default()
    };
    let client = over_grpc(&store, config).await;
    let mut replies = client.ndp_read(request(&model, b"a")).await.unwrap();
    let late = replies.next().await.unwrap();
    assert!(matches!(late, Err(PageError::Unavailable(_))), "{late:?}");
    assert!(replies.next().await.is_none(), "the stream is over");
    assert_stops(&plugin).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_sleeps_holds_no_thread() {
    let dir = tempdir();
    let plugin = Slow::default();
    let (store, [model, _]) = slow_store(dir.path(), &plugin, threads(1)).await;
    let sleeper = store.ndp_read(request(&model, b"a")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = plugin.pages();
    assert!(before < 600, "results nobody takes are not made: {before}");
    let other = count(&*store, request(&model, b"b"));
    let other = tokio::time::timeout(Duration::from_secs(20), other).await;
    assert_eq!(other.expect("the only thread is free"), (CHUNKS, 0));
    // And the first one gets the rest when it wakes up.
    assert_eq!(sleeper.count().await, CHUNKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_who_sleep_on_keep_their_room_for_a_while_only() {
    let dir = tempdir();
    let plugin = Slow::default();
    let config = Config {
        ndp_queue: 30,
        ndp_patience: Duration::from_millis(300),
        ..threads(1)
    };
    let (store, [model, _]) = slow_store(dir.path(), &plugin, config).await;
    let mut sleepers = Vec::new();
    for _ in 0..10 {
        sleepers.push(store.ndp_read(request(&model, b"a")).await.unwrap());
    }
    let (reduced, busy) = count(&*store, part(&model, b"a", 320)).await;
    assert!(busy > 0, "{reduced} chunks are taken beside the sleepers'");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(count(&*store, part(&model, b"a", 320)).await, (10, 0));
    // They get what was made; the rest is missing, which tells them.
    let first = sleepers.remove(0).count().await;
    assert!((1..CHUNKS).contains(&first), "{first} replies");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_request_does_not_wait_for_a_large_one() {
    let dir = tempdir();
    let plugin = Slow {
        delay: Duration::from_millis(1),
        ..Slow::default()
    };
    let (store, [model, other]) = slow_store(dir.path(), &plugin, threads(1)).await;
    let large = store.ndp_read(request(&model, b"a")).await.unwrap();
    let large = tokio::spawn(large.count());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    assert_eq!(count(&*store, part(&other, b"b", 20)).await, (1, 0));
    let took = start.elapsed();
    assert!(!large.is_finished(), "the large request was not large");
    assert!(took < Duration::from_millis(600), "it waited for {took:?}");
    large.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_many_requests_gets_no_more_than_one_with_few() {
    for ndp_threads in [1, 2] {
        let dir = tempdir();
        let plugin = Slow {
            delay: Duration::from_millis(1),
            ..Slow::default()
        };
        let config = threads(ndp_threads);
        let (store, [greedy, modest]) = slow_store(dir.path(), &plugin, config).await;
        let mut running = Vec::new();
        for _ in 0..12 {
            let replies = store.ndp_read(request(&greedy, b"g")).await.unwrap();
            running.push(tokio::spawn(replies.count()));
        }
        let replies = store.ndp_read(request(&modest, b"m")).await.unwrap();
        let begin = plugin.pages_of(b'g');
        replies.count().await;
        let greedy = plugin.pages_of(b'g') - begin;
        // As many pages for each, up to the turn that was under way.
        assert!(
            (700..1500).contains(&greedy),
            "{greedy} pages of the greedy tenant, {PAGES} of the modest one"
        );
        running.iter().for_each(|task| task.abort());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_much_in_the_queue_leaves_room_for_others() {
    let dir = tempdir();
    let plugin = Slow {
        delay: Duration::from_millis(5),
        ..Slow::default()
    };
    let config = Config {
        ndp_queue: 16,
        ..threads(1)
    };
    let (store, [greedy, modest]) = slow_store(dir.path(), &plugin, config).await;
    let mut sleepers = Vec::new();
    for _ in 0..8 {
        sleepers.push(store.ndp_read(request(&greedy, b"g")).await.unwrap());
    }
    // 16 chunks wait, and 16 are free: another tenant gets eight of them.
    let (reduced, busy) = count(&*store, part(&modest, b"m", 32 * 10)).await;
    assert!((8..=10).contains(&reduced), "{reduced} chunks are taken");
    assert_eq!(busy, 32 * (10 - reduced));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_descriptors_does_not_keep_a_tenant_waiting() {
    let dir = tempdir();
    let plugin = Slow {
        prepares: Duration::from_millis(20),
        ..Slow::default()
    };
    let (store, [greedy, modest]) = slow_store(dir.path(), &plugin, threads(1)).await;
    let flood: Vec<_> = (0..400_u32)
        .map(|n| {
            let read = NdpRead {
                descriptor: n.to_le_bytes().to_vec().into(),
                ..part(&greedy, b"", 1)
            };
            let store = store.clone();
            tokio::spawn(async move { count(&*store, read).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    assert_eq!(count(&*store, part(&modest, b"m", 20)).await, (1, 0));
    let took = start.elapsed();
    assert!(took < Duration::from_millis(500), "it waited for {took:?}");
    // More wait than may: the rest is declined, page by page.
    let mut declined = 0;
    for task in flood {
        declined += task.await.unwrap().1;
    }
    assert!((50..=144).contains(&declined), "{declined} of 400 declined");
}

/// Half of a hundred reads of a page, and of changes of one, took no longer than this.
async fn medians(client: &PageStoreClient, model: &mut Model) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for page in 1..=100 {
        let read = ReadPages {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: model.slice,
            lsn: model.lsn,
            pages: vec![PageId(page * 9)],
        };
        let begin = Instant::now();
        client.read_pages(read).await.unwrap();
        times[0].push(begin.elapsed());
        let fragment = model.touch(&[page]);
        let begin = Instant::now();
        client.write_logs(fragment).await.unwrap();
        times[1].push(begin.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[50]
    })
}

/// Pages reduced and declined of scans that go on until they are told to stop; each page of each is
/// answered once.
async fn demand(client: PageStoreClient, read: NdpRead, stop: Arc<AtomicBool>) -> [usize; 2] {
    let mut all = [0, 0];
    while !stop.load(Ordering::Relaxed) {
        let mut answered = 0;
        let mut replies = client.ndp_read(read.clone()).await.unwrap();
        while let Some(reply) = replies.next().await {
            let reply = reply.unwrap();
            let whole = |item: &&NdpItem| matches!(item, NdpItem::Declined { .. });
            let whole = reply.items.iter().filter(whole).count();
            let pages = reply.usage.pages as usize;
            answered += pages;
            all = [all[0] + pages - whole, all[1] + whole];
        }
        assert_eq!(answered, read.pages.len());
    }
    all
}

/// True if threads of this process can be nicer than it is.
fn can_be_nicer() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let nice: i32 = after_name
        .split_whitespace()
        .nth(16)
        .unwrap()
        .parse()
        .unwrap();
    nice < 10
}

#[test]
fn reads_and_log_do_not_wait_for_far_too_much_ndp() {
    answer_at_once();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(far_too_much_ndp());
}

async fn far_too_much_ndp() {
    let dir = tempdir();
    let plugin = Slow {
        works: Duration::from_millis(2),
        ..Slow::default()
    };
    let config = Config {
        ndp_queue: 8,
        pool_bytes: 64 << 20,
        ..threads(2)
    };
    let (store, [mut model, _]) = slow_store(dir.path(), &plugin, config).await;
    let [client, others @ ..] = clients::<9>(&store, &ClientConfig::default()).await;
    medians(&client, &mut model).await;
    let idle = medians(&client, &mut model).await;
    // Clients are on other machines in life; here they give way as well.
    let machines = NdpRuntime::start().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let scans = others.map(|other| {
        let read = request(&model, b"a");
        machines.handle().spawn(demand(other, read, stop.clone()))
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let loaded = medians(&client, &mut model).await;
    stop.store(true, Ordering::Relaxed);
    let (mut reduced, mut declined) = (0, 0);
    for scan in scans {
        let [some, others] = scan.await.unwrap();
        (reduced, declined) = (reduced + some, declined + others);
    }
    println!("idle {idle:?}, loaded {loaded:?}, {reduced} pages reduced, {declined} declined");
    assert!(reduced > 0 && declined > 3 * reduced);
    let counted: u64 = store.figures().ndp.pages_declined.iter().sum();
    assert_eq!(counted, declined as u64);
    // Who runs the tests with the lowest priority there is has none to give away.
    if can_be_nicer() {
        for (idle, loaded) in idle.into_iter().zip(loaded) {
            // The goal is 1.5, on a machine that has nothing else to do.
            let most = 5 * idle + Duration::from_millis(5);
            assert!(loaded < most, "{idle:?} {loaded:?}");
        }
    }
    model.check(&*store, 1, model.lsn).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_one_descriptor_prepare_it_once() {
    let dir = tempdir();
    let plugin = Slow {
        prepares: Duration::from_millis(50),
        ..Slow::default()
    };
    let (store, [model, other]) = slow_store(dir.path(), &plugin, threads(2)).await;
    let requests = (0..20).map(|n| {
        let model = if n % 2 == 0 { &model } else { &other };
        count(&*store, part(model, b"same", 40))
    });
    for answer in futures::future::join_all(requests).await {
        assert_eq!(answer, (2, 0));
    }
    // Once for each tenant: they share nothing.
    assert_eq!(plugin.prepared.load(Ordering::SeqCst), 2);
    count(&*store, part(&model, b"same", 1)).await;
    let stats = store.figures().descriptors;
    assert_eq!((stats.misses, stats.entries), (2, 2), "{stats:?}");
    assert!(stats.hits >= 1 && stats.miss_time >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_plugin_that_panics_fails_the_request_and_not_the_store() {
    let dir = tempdir();
    let plugin = Slow {
        panics: true,
        ..Slow::default()
    };
    let (store, [model, _]) = slow_store(dir.path(), &plugin, threads(1)).await;
    for _ in 0..3 {
        let replies = store.ndp_read(request(&model, b"a")).await.unwrap();
        let replies: Vec<_> = replies.collect().await;
        assert!(replies.iter().any(Result::is_err), "{replies:?}");
    }
    assert_eq!(model.lsn, Lsn(10));
    model.check(&*store, 1, model.lsn).await;
}

/// Who asks for each value thousands of times over gets it for a few pages, and the rest whole.
#[tokio::test]
async fn results_larger_than_their_pages_are_bounded() {
    const COPIES: usize = 4096;
    let dir = tempdir();
    let store = open(dir.path(), threads(1));
    let mut model = Model::new(SLICE);
    store.create_slice(SLICE, 1).await.unwrap();
    let text = ColumnType::Varchar {
        chars: 200,
        collation: Collation::UTF8MB4_BIN,
    };
    let int = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };
    let layout = RowLayout::clustered(&[(int, false), (text, false)], &[0]).unwrap();
    let none = PageId(0);
    let pages: Vec<u64> = (1..=64).collect();
    let group = model.group(&pages, |page, _| {
        let mut records = Vec::new();
        for i in 0..50 {
            let text = Datum::String(format!("{:199}.", page.0 * 100 + i).into_bytes());
            let row = [Datum::Int((page.0 * 100 + i) as i64), text];
            encode_row(&layout, &row, RecordHeader::default(), &mut records).unwrap();
        }
        let format = Op::Format {
            kind: PageKind::Clustered,
            level: 0,
            db: SLICE.db,
            index: IndexId(1),
            shape: layout.shape,
            prev: none,
            next: none,
        };
        let insert = Op::Insert {
            slot: 0,
            trx: TrxId(0),
            records: records.into(),
        };
        vec![format, insert]
    });
    let fragment = model.fragment(Lsn(0), &[group]);
    store.write_logs(fragment).await.unwrap();
    let descriptor = Descriptor {
        projection: vec![1; COPIES],
        ..Descriptor::new(SLICE.db, IndexId(1), layout, TrxId(9))
    };
    let read = NdpRead {
        descriptor: descriptor.encode(),
        ..part(&model, b"", 64)
    };
    let mut replies = store.ndp_read(read).await.unwrap();
    let (mut reduced, mut busy) = (0, 0);
    while let Some(reply) = replies.next().await {
        let mut bytes = 0;
        for item in reply.unwrap().items {
            match item {
                NdpItem::Reduced(batch) => {
                    bytes += batch.len();
                    // One thread may take both chunks.
                    reduced += NdpBatch::decode(batch).unwrap().pages.len();
                }
                NdpItem::Declined { reason, .. } => {
                    assert_eq!(reason, NdpDecline::Busy);
                    busy += 1;
                }
            }
        }
        // A page has 40 MiB of them.
        assert!(bytes < 50 << 20, "a reply of {bytes} bytes");
    }
    assert_eq!(
        (reduced, busy),
        (2, 62),
        "one page of each chunk is reduced"
    );
}
