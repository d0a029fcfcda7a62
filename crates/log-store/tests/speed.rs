//! Measures appends, directly and over a socket:
//! `cargo test -p perigee-log-store --test speed -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use perigee_log_api::{
    Append, ClientConfig, LogStore, LogStoreClient, PLOG_SIZE, PlogKey, connections, serve,
    transport,
};
use perigee_log_store::{Config, LogStoreService};
use perigee_types::{DbId, Lsn, PlogId};
use tokio::net::TcpListener;

/// Appends `count` payloads of `len` bytes one after another, in as many PLogs as they need.
async fn measure(store: &dyn LogStore, db: DbId, len: usize, count: u64) -> String {
    let payload = Bytes::from((0..len).map(|i| (i * 31 % 251) as u8).collect::<Vec<_>>());
    let mut plog = PlogKey {
        db,
        plog: PlogId(1),
    };
    store.create_plog(plog, 1).await.unwrap();
    let mut offset = 0;
    let mut times = Vec::new();
    let start = Instant::now();
    for lsn in 1..=count {
        let began = Instant::now();
        if offset + len as u64 > PLOG_SIZE {
            store.seal(plog, 1).await.unwrap();
            plog.plog.0 += 1;
            store.create_plog(plog, 1).await.unwrap();
            offset = 0;
        }
        let payload = payload.clone();
        let (first_lsn, last_lsn) = (Lsn(lsn), Lsn(lsn));
        let append = Append {
            plog,
            epoch: 1,
            offset,
            first_lsn,
            last_lsn,
            payload,
        };
        offset = store.append(append).await.unwrap();
        times.push(began.elapsed());
    }
    let seconds = start.elapsed().as_secs_f64();
    times.sort();
    let listed = store.list(db).await.unwrap();
    assert_eq!(
        listed.iter().map(|i| i.length).sum::<u64>(),
        count * len as u64
    );
    format!(
        "{:>8.0} appends/s {:>8.1} MB/s, median {:?}, 99 % {:?}",
        count as f64 / seconds,
        count as f64 * len as f64 / seconds / 1e6,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; takes some seconds and 1 GB of disk"]
async fn appends_per_second() {
    // Not in /tmp, which may be memory: beside the build's output.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = LogStoreService::open(dir.path(), Config::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(
        transport()
            .add_service(serve(Arc::new(store.clone())))
            .serve_with_incoming_shutdown(connections(listener), async { drop(stopped.await) }),
    );
    let client = LogStoreClient::new(&address, ClientConfig::default()).unwrap();
    for (name, len, count) in [("4 KiB", 4 << 10, 5000), ("4 MiB", 4 << 20, 60)] {
        let first = len as u32;
        println!(
            "{name} direct: {}",
            measure(&store, DbId(first), len, count).await
        );
        println!(
            "{name} socket: {}",
            measure(&client, DbId(first + 1), len, count).await
        );
    }
    let stats = store.stats();
    drop((client, store));
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    let start = Instant::now();
    let again = LogStoreService::open(dir.path(), Config::default()).unwrap();
    let rate = stats.append_bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("opening again: {:?}, {rate:.1} MB/s", start.elapsed());
    assert_eq!(again.damage(), vec![]);
}
