//! Demand for near-data processing far beyond what a store has for it: what becomes of plain reads
//! and of log.
//!
//! `cargo run --release -p perigee-page-store --example overload -- [directory] [seconds]`
//!
//! Three processes, all over gRPC: the store; the demand: 32 scans at a time, each of a thousand pages
//! with an expensive predicate, of four tenants; and the measurement: one page read every 2 ms, and
//! every 5 ms a change of a page, which is waited for to be on disk and then to be in the page that is
//! read. Without the demand and with it in turn; its connections are there all the time.
//!
//! Clients are other machines' in life. So the store has half of the cores for itself, and on the
//! other half the demand runs when the measurement does not.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use perigee_expr::{Node, NodeId, Program, Type};
use perigee_ndp::Descriptor;
use perigee_page::{PageKind, RecordHeader};
use perigee_page_api::{
    ClientConfig, Fragment, NdpItem, NdpRead, PageStore, PageStoreClient, ReadPages, SliceKey,
    serve_apart,
};
use perigee_page_store::{Config, NdpRuntime, PageStoreService, answer_at_once};
use perigee_redo::{Change, Group, Op};
use perigee_types::{DbId, IndexId, Lsn, PageId, SliceId, TrxId, Writer};
use perigee_value::{Collation, ColumnType, Datum, RowLayout, encode_row};

const TENANTS: u32 = 4;
const PAGES: u64 = 2000;
const ROWS: i64 = 100;
const SCANS: u32 = 32;
/// Pairs of measurements without and with the demand.
const ROUNDS: usize = 3;
/// What it takes for scans that were begun or left to be all there is, or to be gone.
const SETTLING: Duration = Duration::from_millis(300);
/// The slice whose log is measured, and its pages.
const LOG_TENANT: u32 = 100;
const LOG_PAGES: u64 = 500;

fn slice(db: u32) -> SliceKey {
    SliceKey {
        db: DbId(db),
        slice: SliceId(0),
    }
}

fn layout() -> RowLayout {
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let text = ColumnType::Varchar {
        chars: 120,
        collation: Collation::UTF8MB4_BIN,
    };
    RowLayout::clustered(&[(int, false), (text, false)], &[0]).unwrap()
}

/// A leaf with rows of about 100 bytes.
fn leaf(db: u32, page: u64) -> Change {
    let mut records = Vec::new();
    for i in 0..ROWS {
        let id = page as i64 * ROWS + i;
        let text =
            format!("{id:>20} carefully final deposits sleep furiously among the pending accounts");
        let row = [Datum::Int(id), Datum::String(text.into_bytes())];
        encode_row(&layout(), &row, RecordHeader::default(), &mut records).unwrap();
    }
    let format = Op::Format {
        kind: PageKind::Clustered,
        level: 0,
        db: DbId(db),
        index: IndexId(1),
        shape: layout().shape,
        prev: PageId(0),
        next: PageId(0),
    };
    let insert = Op::Insert {
        slot: 0,
        trx: TrxId(0),
        records: records.into(),
    };
    Change {
        page: PageId(page),
        ops: vec![format, insert],
    }
}

fn fragment(db: u32, sequence: u64, prev: Lsn, groups: &[Group]) -> Fragment {
    let mut w = Writer::new();
    groups.iter().for_each(|group| group.encode(&mut w));
    Fragment {
        slice: slice(db),
        epoch: 1,
        sequence,
        prev_lsn: prev,
        first_lsn: prev.next(),
        last_lsn: groups.last().unwrap().lsn,
        groups: w.into_bytes().into(),
    }
}

/// Writes the pages of a tenant.
async fn load(store: &dyn PageStore, db: u32, pages: u64) {
    store.create_slice(slice(db), 1).await.unwrap();
    let all: Vec<u64> = (1..=pages).collect();
    for (sequence, pages) in (1..).zip(all.chunks(100)) {
        let groups = pages.iter().map(|page| Group {
            lsn: Lsn(*page),
            changes: vec![leaf(db, *page)],
        });
        let groups: Vec<_> = groups.collect();
        let prev = Lsn(pages[0] - 1);
        let fragment = fragment(db, sequence, prev, &groups);
        store.write_logs(fragment).await.unwrap();
    }
}

/// Patterns that no row matches, each of which is looked for in the whole text: machine code cannot
/// make them fast.
fn expensive(db: u32) -> Bytes {
    let column = Node::Column {
        index: 1,
        ty: Type::String,
    };
    let like = |n: usize| Node::Like {
        operand: NodeId(0),
        pattern: format!("%{n}%depos_ts%fur%{n}x%"),
        escape: '\\',
    };
    let mut nodes = vec![column];
    nodes.extend((0..20).map(like));
    nodes.push(Node::Or((1..=20).map(NodeId).collect()));
    let descriptor = Descriptor {
        projection: vec![0],
        predicate: Some(Program { nodes }),
        ..Descriptor::new(DbId(db), IndexId(1), layout(), TrxId(9))
    };
    descriptor.encode()
}

/// The store's process.
async fn store(dir: &Path) {
    // A short queue, so that much is declined.
    let config = Config {
        ndp_queue: 64,
        ..Config::default()
    };
    let store = PageStoreService::open(dir, config).unwrap();
    for db in 0..TENANTS {
        load(&store, db, PAGES).await;
    }
    load(&store, LOG_TENANT, LOG_PAGES).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let ndp = NdpRuntime::start().unwrap();
    let until = std::future::pending();
    let served = serve_apart(
        Arc::new(store),
        listener,
        Arc::default(),
        ndp.handle(),
        until,
    );
    served.await.unwrap();
}

/// Pages reduced and declined.
type Counts = Arc<[AtomicU64; 2]>;

/// Scans the tenants' pages again and again.
async fn scan(client: PageStoreClient, db: u32, counts: Counts) {
    let descriptor = expensive(db);
    for from in (0..).map(|round| round * 1000 % PAGES) {
        let read = NdpRead {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: slice(db),
            lsn: Lsn(PAGES),
            pages: (from + 1..=from + 1000).map(PageId).collect(),
            descriptor: descriptor.clone(),
            filters: Vec::new(),
            enough: None,
        };
        let mut pages = 0;
        let mut replies = client.ndp_read(read).await.unwrap();
        while let Some(reply) = replies.next().await {
            let reply = reply.unwrap();
            pages += reply.usage.pages;
            let items = reply.items.iter();
            let whole = items.filter(|item| matches!(item, NdpItem::Declined { .. }));
            let whole = whole.count() as u64;
            counts[0].fetch_add(reply.usage.pages - whole, Ordering::Relaxed);
            counts[1].fetch_add(whole, Ordering::Relaxed);
        }
        assert_eq!(pages, 1000, "each page is answered");
    }
}

/// The demand's process. A line makes it begin or stop; it answers with the pages reduced and
/// declined since it began.
async fn demand(address: &str) {
    let nothing = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameter; 0 is this thread. The others begin like it.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const nothing) };
    assert!(done == 0);
    let clients = (0..SCANS).map(|_| PageStoreClient::new(address, ClientConfig::default()));
    let clients: Vec<_> = clients.map(Result::unwrap).collect();
    for client in &clients {
        client.status().await.unwrap();
    }
    let mut scans = tokio::task::JoinSet::new();
    let mut counts = Counts::default();
    // This waits on a thread that runs nothing else.
    for _ in std::io::stdin().lines() {
        let [reduced, declined] = [&counts[0], &counts[1]].map(|n| n.load(Ordering::Relaxed));
        println!("{reduced} {declined}");
        if scans.is_empty() {
            counts = Counts::default();
            for (db, client) in (0..TENANTS).cycle().zip(&clients) {
                scans.spawn(scan(client.clone(), db, counts.clone()));
            }
        } else {
            scans.abort_all();
            while let Some(ended) = scans.join_next().await {
                assert!(ended.unwrap_err().is_cancelled(), "a scan failed");
            }
        }
    }
}

/// Latencies of one kind.
#[derive(Default)]
struct Latencies(Vec<Duration>);

impl Latencies {
    fn at(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() as f64 * share) as usize;
        self.0[at.min(self.0.len() - 1)].as_secs_f64() * 1e6
    }
}

/// The log that was written so far.
struct Log {
    lsn: Lsn,
    sequence: u64,
}

#[derive(Default)]
struct Measured {
    read: Latencies,
    durable: Latencies,
    applied: Latencies,
}

async fn measure(client: &PageStoreClient, log: &mut Log, lasts: Duration) -> Measured {
    let end = Instant::now() + lasts;
    let reader = client.clone();
    let reads = tokio::spawn(async move {
        let mut latencies = Latencies::default();
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        for n in 0_u64.. {
            ticks.tick().await;
            if Instant::now() > end {
                break;
            }
            let read = ReadPages {
                epoch: perigee_page_api::ANY_EPOCH,
                slice: slice((n % u64::from(TENANTS)) as u32),
                lsn: Lsn(PAGES),
                pages: vec![PageId(1 + n * 7919 % PAGES)],
            };
            let begin = Instant::now();
            reader.read_pages(read).await.unwrap();
            latencies.0.push(begin.elapsed());
        }
        latencies
    });
    let mut measured = Measured::default();
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while Instant::now() < end {
        ticks.tick().await;
        let (prev, lsn) = (log.lsn, log.lsn.next());
        let page = PageId(1 + lsn.0 % LOG_PAGES);
        let op = Op::SetLinks {
            prev: PageId(lsn.0),
            next: PageId(0),
        };
        let change = Change {
            page,
            ops: vec![op],
        };
        let groups = [Group {
            lsn,
            changes: vec![change],
        }];
        let begin = Instant::now();
        let fragment = fragment(LOG_TENANT, log.sequence, prev, &groups);
        client.write_logs(fragment).await.unwrap();
        measured.durable.0.push(begin.elapsed());
        let read = ReadPages {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: slice(LOG_TENANT),
            lsn,
            pages: vec![page],
        };
        let begin = Instant::now();
        client.read_pages(read).await.unwrap();
        measured.applied.0.push(begin.elapsed());
        *log = Log {
            lsn,
            sequence: log.sequence + 1,
        };
    }
    measured.read = reads.await.unwrap();
    measured
}

/// This program as another process; killed when dropped.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Box<dyn Iterator<Item = String>>,
}

impl Process {
    fn start(role: &str, argument: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([role, argument])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            input: child.stdin.take().unwrap(),
            output: Box::new(lines.map(Result::unwrap)),
            child,
        }
    }

    /// Lets the demand begin or stop; pages reduced and declined since the last time.
    fn switch(&mut self) -> [u64; 2] {
        self.input.write_all(b"\n").unwrap();
        let line = self.output.next().unwrap();
        let (reduced, declined) = line.split_once(' ').unwrap();
        std::thread::sleep(SETTLING);
        [reduced, declined].map(|n| n.parse().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Keeps this process on half of the cores, if there are two.
fn stay_on(half: usize) {
    // Of the machine: the half that this process was started on is another one's.
    // SAFETY: the call takes a number.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as usize;
    let middle = cores / 2;
    let of_half = [0..middle, middle..cores][half].clone();
    if of_half.is_empty() {
        return;
    }
    // SAFETY: a set of cores is bits, and there are more of them than cores; 0 is this process, which
    // has one thread so far.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        of_half.for_each(|core| libc::CPU_SET(core, &mut set));
        assert!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0);
    }
}

fn report(what: &str, idle: &mut Latencies, loaded: &mut Latencies) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let (idle, loaded) = (idle.at(share), loaded.at(share));
        let ratio = loaded / idle;
        println!(
            "{what:<28} {name}   idle {idle:>8.0} µs   loaded {loaded:>8.0} µs   ratio {ratio:.2}"
        );
    }
}

async fn run(dir: &Path, lasts: Duration) {
    drop(std::fs::remove_dir_all(dir));
    let mut store = Process::start("store", dir.to_str().unwrap());
    let address = store.output.next().unwrap();
    let mut demand = Process::start("demand", &address);
    let client = PageStoreClient::new(&address, ClientConfig::default()).unwrap();
    let mut log = Log {
        lsn: Lsn(LOG_PAGES),
        sequence: LOG_PAGES / 100 + 1,
    };
    measure(&client, &mut log, Duration::from_secs(2)).await;
    let (mut idle, mut loaded) = (Measured::default(), Measured::default());
    let (mut reduced, mut declined) = (0, 0);
    for _ in 0..ROUNDS {
        let quiet = measure(&client, &mut log, lasts).await;
        demand.switch();
        let busy = measure(&client, &mut log, lasts).await;
        let [some, others] = demand.switch();
        reduced += some;
        declined += others;
        for (all, part) in [(&mut idle, quiet), (&mut loaded, busy)] {
            all.read.0.extend(part.read.0);
            all.durable.0.extend(part.durable.0);
            all.applied.0.extend(part.applied.0);
        }
    }
    report("plain read of a page", &mut idle.read, &mut loaded.read);
    report(
        "log until it is on disk",
        &mut idle.durable,
        &mut loaded.durable,
    );
    report(
        "log until it is in the page",
        &mut idle.applied,
        &mut loaded.applied,
    );
    let share = 100.0 * declined as f64 / (reduced + declined).max(1) as f64;
    println!("NDP: {reduced} pages reduced, {declined} declined ({share:.0} %)");
    drop(std::fs::remove_dir_all(dir));
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let is_store = matches!(args[..], ["store", _]);
    stay_on(usize::from(!is_store));
    if is_store {
        answer_at_once();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        match &args[..] {
            ["store", dir] => store(Path::new(dir)).await,
            ["demand", address] => demand(address).await,
            rest => {
                let dir = rest.first().map_or_else(std::env::temp_dir, PathBuf::from);
                let seconds = rest.get(1).map_or(5, |n| n.parse().expect("seconds"));
                run(&dir.join("overload"), Duration::from_secs(seconds)).await;
            }
        }
    });
}
