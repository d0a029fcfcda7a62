//! Measures a Page Store: log in, consolidated pages, pages out; directly and over sockets.
//!
//! `cargo run --release -p perigee-page-store --example throughput -- <directory> [MiB]`
//!
//! The log is that of a bulk load: each group formats a page and fills it with records of about
//! 130 bytes, fragments have about 2 MiB, and two slices are written at a time.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use perigee_page::{CLUSTERED_HEADER_LEN, PageKind, RecordHeader, RecordShape};
use perigee_page_api::{
    ClientConfig, Fragment, PageStore, PageStoreClient, ReadPages, SliceKey, incoming, serve,
    transport,
};
use perigee_page_store::{Config, PageStoreService};
use perigee_redo::{Change, Group, Op};
use perigee_types::{DbId, IndexId, Lsn, PageId, SliceId, TrxId, Writer};

const SLICES: u32 = 2;
const PAGES_PER_FRAGMENT: u64 = 128;
const RECORDS_PER_PAGE: u64 = 114;
const RECORD_LEN: usize = 138;

const SHAPE: RecordShape = RecordShape {
    fixed_len: RECORD_LEN as u16,
    key_offset: CLUSTERED_HEADER_LEN as u16,
    key_len: 8,
    var_count: 0,
    header_len: CLUSTERED_HEADER_LEN as u8,
};

fn slice(n: u32) -> SliceKey {
    SliceKey {
        db: DbId(1),
        slice: SliceId(n),
    }
}

fn group(page: u64) -> Group {
    let mut records = Vec::with_capacity(RECORD_LEN * RECORDS_PER_PAGE as usize);
    for i in 0..RECORDS_PER_PAGE {
        records.extend(RecordHeader::default().to_bytes());
        records.extend((page * RECORDS_PER_PAGE + i).to_be_bytes());
        let start = records.len() - CLUSTERED_HEADER_LEN - 8;
        records.extend(
            (0..)
                .map(|n: usize| (n as u64 * i) as u8)
                .take(RECORD_LEN - 22),
        );
        assert_eq!(records.len() - start, RECORD_LEN);
    }
    let format = Op::Format {
        kind: PageKind::Clustered,
        level: 0,
        db: DbId(1),
        index: IndexId(1),
        shape: SHAPE,
        prev: PageId(page.saturating_sub(1)),
        next: PageId(page + 1),
    };
    let insert = Op::Insert {
        slot: 0,
        trx: TrxId(1),
        records: records.into(),
    };
    Group {
        lsn: Lsn(page),
        changes: vec![Change {
            page: PageId(page),
            ops: vec![format, insert],
        }],
    }
}

fn fragments(n: u64) -> Vec<Bytes> {
    let fragment = |f| {
        let mut w = Writer::new();
        for page in 0..PAGES_PER_FRAGMENT {
            group(1 + f * PAGES_PER_FRAGMENT + page).encode(&mut w);
        }
        w.into_bytes().into()
    };
    (0..n).map(fragment).collect()
}

/// Writes all fragments to a slice, four at a time on their way.
async fn write(store: &dyn PageStore, slice: SliceKey, fragments: &[Bytes]) {
    store.create_slice(slice, 1).await.unwrap();
    let writes = fragments.iter().enumerate().map(|(i, groups)| {
        let prev = i as u64 * PAGES_PER_FRAGMENT;
        store.write_logs(Fragment {
            slice,
            epoch: 1,
            sequence: i as u64 + 1,
            prev_lsn: Lsn(prev),
            first_lsn: Lsn(prev + 1),
            last_lsn: Lsn(prev + PAGES_PER_FRAGMENT),
            groups: groups.clone(),
        })
    });
    let mut writes = futures::stream::iter(writes).buffered(4);
    while let Some(written) = writes.next().await {
        written.unwrap();
    }
}

async fn settle(store: &dyn PageStore) {
    loop {
        let status = store.status().await.unwrap();
        if status.slices.iter().all(|(_, s)| s.backlog_bytes == 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Reads all pages of all slices in batches of 1,000, two batches at a time on their way.
async fn read(store: &dyn PageStore, pages: u64) -> u64 {
    let bytes = AtomicU64::new(0);
    let batches = (0..pages)
        .step_by(1000)
        .flat_map(|first| (0..SLICES).map(move |s| (first, s)));
    let reads = batches.map(|(first, s)| {
        let read = ReadPages {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: slice(s),
            lsn: Lsn(pages),
            pages: (first + 1..=pages.min(first + 1000)).map(PageId).collect(),
        };
        async {
            let pages = store.read_pages(read).await.unwrap();
            bytes.fetch_add(
                pages.iter().map(|p| p.len() as u64).sum(),
                Ordering::Relaxed,
            );
        }
    });
    futures::stream::iter(reads)
        .buffered(2)
        .collect::<Vec<_>>()
        .await;
    bytes.into_inner()
}

fn report(what: &str, bytes: u64, took: Duration) {
    let rate = bytes as f64 / 1e6 / took.as_secs_f64();
    println!(
        "{what:<44} {rate:>7.0} MB/s   ({} MB in {took:.2?})",
        bytes / 1_000_000
    );
}

async fn measure(name: &str, store: &dyn PageStore, log: &[Bytes]) {
    let log_bytes = u64::from(SLICES) * log.iter().map(|f| f.len() as u64).sum::<u64>();
    let pages = log.len() as u64 * PAGES_PER_FRAGMENT;
    let start = Instant::now();
    let writes = (0..SLICES).map(|s| write(store, slice(s), log));
    futures::future::join_all(writes).await;
    report(
        &format!("{name}: write_logs, acknowledged"),
        log_bytes,
        start.elapsed(),
    );
    settle(store).await;
    report(
        &format!("{name}: write_logs, consolidated"),
        log_bytes,
        start.elapsed(),
    );
    for round in 1..=2 {
        let start = Instant::now();
        let bytes = read(store, pages).await;
        report(
            &format!("{name}: read_pages, round {round}"),
            bytes,
            start.elapsed(),
        );
    }
    let status = store.status().await.unwrap();
    let share = status.disk_bytes as f64 / status.live_bytes as f64;
    println!(
        "{name}: {} MB on disk, {share:.2} of the live bytes",
        status.disk_bytes / 1_000_000
    );
}

fn fresh(dir: &Path, name: &str, config: Config) -> (PathBuf, PageStoreService) {
    let dir = dir.join(name);
    drop(std::fs::remove_dir_all(&dir));
    let store = PageStoreService::open(&dir, config).unwrap();
    (dir, store)
}

/// The store with the client in another runtime, as in another process.
async fn over_sockets(dir: &Path, config: Config, log: &[Bytes]) {
    let (path, store) = fresh(dir, "sockets", config);
    let (send, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            let router = transport().add_service(serve(Arc::new(store)));
            router
                .serve_with_incoming(incoming(listener, Arc::default()))
                .await
                .unwrap();
        });
    });
    let address = format!("http://{}", address.recv().unwrap());
    let client = PageStoreClient::new(&address, ClientConfig::default()).unwrap();
    measure("sockets", &client, log).await;
    let (sent, received) = client.transport_bytes().snapshot();
    println!(
        "sockets: {} MB sent, {} MB received",
        sent / 1_000_000,
        received / 1_000_000
    );
    drop(std::fs::remove_dir_all(path));
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("usage: throughput <directory> [MiB]"));
    let mib: u64 = args
        .next()
        .map_or(1024, |n| n.parse().expect("a number of MiB"));
    let log = fragments((mib / 2 / u64::from(SLICES)).max(1));
    let config = Config::default();
    let (path, store) = fresh(&dir, "direct", config.clone());
    measure("direct", &store, &log).await;
    drop(store);
    let start = Instant::now();
    drop(PageStoreService::open(&path, config.clone()).unwrap());
    println!("direct: opened again in {:.2?}", start.elapsed());
    drop(std::fs::remove_dir_all(path));
    over_sockets(&dir, config, &log).await;
}
