//! The conformance suite against the reference model, directly and through client and server over
//! a real socket; and what only the transport can get wrong.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use perigee_page_api::conformance::{self, MemoryPageStore, ToyFormat};
use perigee_page_api::{
    Capabilities, ClientConfig, FilterHash, Fragment, MAX_FILTERS, NdpDecline, NdpFilter,
    NdpFilterUse, NdpItem, NdpRead, NdpReply, NdpStream, NdpUsage, PageError, PageStore,
    PageStoreClient, ReadPages, SliceKey, SliceStatus, StoreStatus, TransportBytes, incoming,
    serve, serve_apart, transport,
};
use perigee_types::{DbId, Lsn, PAGE_SIZE, PageId, SliceId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Serves `store` on a port of its own until the test's runtime ends.
async fn server(store: Arc<dyn PageStore>) -> (SocketAddr, Arc<TransportBytes>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = Arc::new(TransportBytes::default());
    let connections = incoming(listener, bytes.clone());
    tokio::spawn(async move {
        let router = transport().add_service(serve(store));
        router.serve_with_incoming(connections).await.unwrap();
    });
    (address, bytes)
}

fn client(address: SocketAddr, config: ClientConfig) -> PageStoreClient {
    PageStoreClient::new(&format!("http://{address}"), config).unwrap()
}

const SLICE: SliceKey = SliceKey {
    db: DbId(1),
    slice: SliceId(2),
};

fn read(pages: u64) -> ReadPages {
    ReadPages {
        epoch: perigee_page_api::ANY_EPOCH,
        slice: SLICE,
        lsn: Lsn(1),
        pages: (0..pages).map(PageId).collect(),
    }
}

fn ndp(pages: u64) -> NdpRead {
    NdpRead {
        epoch: perigee_page_api::ANY_EPOCH,
        slice: SLICE,
        lsn: Lsn(1),
        pages: (0..pages).map(PageId).collect(),
        descriptor: Bytes::from_static(b"d"),
        filters: Vec::new(),
        enough: None,
    }
}

/// Answers reads as told; all else is unavailable.
struct Scripted {
    read: fn(ReadPages) -> Result<Vec<Bytes>, PageError>,
    reply: fn(u32) -> Option<NdpReply>,
    replies: AtomicUsize,
    dropped: Arc<AtomicBool>,
    delay: Duration,
}

impl Scripted {
    fn new() -> Self {
        Self {
            read: |r| {
                Ok(r.pages
                    .iter()
                    .map(|_| Bytes::from(vec![7; PAGE_SIZE]))
                    .collect())
            },
            reply: |_| None,
            replies: AtomicUsize::new(0),
            dropped: Arc::default(),
            delay: Duration::ZERO,
        }
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn unavailable<T>() -> Result<T, PageError> {
    Err(PageError::Unavailable("scripted".into()))
}

#[async_trait]
impl PageStore for Scripted {
    async fn create_slice(&self, _: SliceKey, _: u64) -> Result<(), PageError> {
        unavailable()
    }
    async fn delete_slice(&self, _: SliceKey, _: u64, _: Lsn) -> Result<bool, PageError> {
        unavailable()
    }
    async fn write_logs(&self, _: Fragment) -> Result<SliceStatus, PageError> {
        Ok(SliceStatus::default())
    }
    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        self.replies.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        (self.read)(read)
    }
    async fn ndp_read(&self, _: NdpRead) -> Result<NdpStream, PageError> {
        let guard = SetOnDrop(self.dropped.clone());
        let (reply, delay) = (self.reply, self.delay);
        let replies = futures::stream::unfold((0, guard), move |(i, guard)| async move {
            tokio::time::sleep(delay).await;
            Some((Ok(reply(i)?), (i + 1, guard)))
        });
        Ok(replies.boxed())
    }
    async fn set_recycle_lsn(&self, _: DbId, _: Lsn) -> Result<(), PageError> {
        tokio::time::sleep(self.delay).await;
        Ok(())
    }
    async fn slice_status(&self, _: SliceKey) -> Result<SliceStatus, PageError> {
        Err(PageError::Corrupt(format!("{SLICE} offset 17")))
    }
    async fn status(&self) -> Result<StoreStatus, PageError> {
        unavailable()
    }
    async fn has_room(&self) -> Result<bool, PageError> {
        Ok(false)
    }
    async fn capabilities(&self) -> Result<Capabilities, PageError> {
        Ok(Capabilities {
            descriptor: 3,
            expression: 2,
            filter: 1,
        })
    }
}

#[tokio::test]
async fn the_model_conforms() {
    conformance::run(&MemoryPageStore::default(), &ToyFormat, 1).await;
}

#[tokio::test]
async fn the_model_conforms_over_a_socket() {
    let (address, _) = server(Arc::new(MemoryPageStore::default())).await;
    conformance::run(&client(address, ClientConfig::default()), &ToyFormat, 1).await;
}

/// What the client has `(sent, received)`, once the other end has received and sent as much: HTTP/2 frames
/// of flow control may be under way when a call returns.
async fn settled(client: &TransportBytes, server: &TransportBytes) -> (u64, u64) {
    let equal = async {
        loop {
            let (sent, received) = client.snapshot();
            if (received, sent) == server.snapshot() {
                return (sent, received);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(5), equal).await;
    within.expect("both ends count the same bytes")
}

#[tokio::test]
async fn bytes_are_counted_at_both_ends_of_the_socket() {
    let (address, at_server) = server(Arc::new(Scripted::new())).await;
    let client = client(address, ClientConfig::default());
    let pages = client.read_pages(read(500)).await.unwrap();
    assert_eq!(pages.len(), 500);
    let (sent, received) = settled(client.transport_bytes(), &at_server).await;
    let payload = 500 * PAGE_SIZE as u64;
    assert!(
        received > payload && received < payload + payload / 50,
        "{received} of {payload}"
    );
    assert!(
        (500..20_000).contains(&sent),
        "{sent} bytes sent for 500 page ids"
    );
}

#[tokio::test]
async fn errors_keep_their_kind_in_calls_and_streams() {
    let store = Scripted {
        read: |r| match r.pages[0].0 {
            0 => Ok(r
                .pages
                .iter()
                .map(|_| Bytes::from(vec![0; PAGE_SIZE]))
                .collect()),
            _ => Err(PageError::Recycled("page at lsn:1".into())),
        },
        ..Scripted::new()
    };
    let (address, _) = server(Arc::new(store)).await;
    let client = client(address, ClientConfig::default());
    let error = client.slice_status(SLICE).await.unwrap_err();
    assert_eq!(error, PageError::Corrupt(format!("{SLICE} offset 17")));
    // The second message of the stream fails.
    let error = client.read_pages(read(100)).await.unwrap_err();
    assert_eq!(error, PageError::Recycled("page at lsn:1".into()));
}

#[tokio::test]
async fn nonsense_answers_are_not_believed() {
    let fragment = Fragment {
        slice: SLICE,
        epoch: 1,
        sequence: 1,
        prev_lsn: Lsn(0),
        first_lsn: Lsn(1),
        last_lsn: Lsn(1),
        groups: Bytes::new(),
    };
    let short = Scripted {
        read: |_| Ok(vec![Bytes::from_static(b"short")]),
        reply: |i| {
            (i == 0).then(|| NdpReply {
                items: vec![NdpItem::Declined {
                    index: 3,
                    reason: NdpDecline::Busy,
                    page: Bytes::from(vec![0; PAGE_SIZE]),
                }],
                usage: NdpUsage::default(),
                filters: None,
            })
        },
        ..Scripted::new()
    };
    let (address, _) = server(Arc::new(short)).await;
    let client = client(address, ClientConfig::default());
    let written = client.write_logs(fragment).await;
    assert!(matches!(written, Err(PageError::Corrupt(_))), "{written:?}");
    let pages = client.read_pages(read(1)).await;
    assert!(matches!(pages, Err(PageError::Corrupt(_))), "{pages:?}");
    let pages = client.read_pages(read(70)).await;
    assert!(matches!(pages, Err(PageError::Corrupt(_))), "{pages:?}");
    let mut replies = client.ndp_read(ndp(3)).await.unwrap();
    let reply = replies.next().await.unwrap();
    assert!(matches!(reply, Err(PageError::Corrupt(_))), "{reply:?}");
    assert!(replies.next().await.is_none(), "a failed stream is over");
}

#[tokio::test]
async fn ndp_replies_arrive_as_they_are_made() {
    let store = Scripted {
        reply: |i| {
            (i < 3).then(|| NdpReply {
                items: vec![NdpItem::Reduced(Bytes::from(vec![i as u8; 5]))],
                usage: NdpUsage {
                    pages: 1,
                    bytes_read: 2,
                    cpu_nanos: 3,
                    compiled: true,
                },
                filters: None,
            })
        },
        ..Scripted::new()
    };
    let (address, _) = server(Arc::new(store)).await;
    let replies = client(address, ClientConfig::default())
        .ndp_read(ndp(3))
        .await
        .unwrap();
    let replies: Vec<_> = replies.map(Result::unwrap).collect().await;
    assert_eq!(replies.len(), 3);
    for (i, reply) in replies.iter().enumerate() {
        assert_eq!((reply.usage.pages, reply.usage.compiled), (1, true));
        assert!(matches!(&reply.items[..], [NdpItem::Reduced(b)] if b[..] == [i as u8; 5]));
    }
}

#[tokio::test]
async fn dropping_a_stream_stops_the_work_in_the_store() {
    let store = Scripted {
        reply: |_| Some(NdpReply::default()),
        delay: Duration::from_millis(5),
        ..Scripted::new()
    };
    let dropped = store.dropped.clone();
    let (address, _) = server(Arc::new(store)).await;
    let client = client(address, ClientConfig::default());
    let mut replies = client.ndp_read(ndp(3)).await.unwrap();
    replies.next().await.unwrap().unwrap();
    assert!(!dropped.load(Ordering::SeqCst));
    drop(replies);
    let start = Instant::now();
    while !dropped.load(Ordering::SeqCst) {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "the store's stream lives on"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn dropping_a_read_stops_reading() {
    let store = Arc::new(Scripted {
        delay: Duration::from_millis(50),
        ..Scripted::new()
    });
    let (address, _) = server(store.clone()).await;
    let client = client(address, ClientConfig::default());
    let call = client.read_pages(read(64 * 100));
    assert!(
        tokio::time::timeout(Duration::from_millis(200), call)
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = store.replies.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(store.replies.load(Ordering::SeqCst), after, "of 100 chunks");
    assert!((1..60).contains(&after), "{after} of 100 chunks were read");
}

#[tokio::test]
async fn every_call_has_a_deadline() {
    let store = Scripted {
        delay: Duration::from_secs(60),
        ..Scripted::new()
    };
    let (address, _) = server(Arc::new(store)).await;
    let config = ClientConfig {
        call_timeout: Duration::from_millis(100),
        read_timeout: Duration::from_millis(100),
        ..ClientConfig::default()
    };
    let client = client(address, config);
    let start = Instant::now();
    let call = client.set_recycle_lsn(DbId(1), Lsn(1)).await;
    assert!(matches!(call, Err(PageError::Unavailable(_))), "{call:?}");
    let pages = client.read_pages(read(1)).await;
    assert!(matches!(pages, Err(PageError::Unavailable(_))), "{pages:?}");
    let mut replies = client.ndp_read(ndp(1)).await.unwrap();
    let reply = replies.next().await.unwrap();
    assert!(matches!(reply, Err(PageError::Unavailable(_))), "{reply:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_store_that_is_away_is_unavailable_and_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client(address, ClientConfig::default());
    let away = client.status().await;
    assert!(matches!(away, Err(PageError::Unavailable(_))), "{away:?}");
    let listener = TcpListener::bind(address).await.unwrap();
    let connections = incoming(listener, Arc::default());
    tokio::spawn(async move {
        let router = transport().add_service(serve(Arc::new(MemoryPageStore::default())));
        router.serve_with_incoming(connections).await.unwrap();
    });
    client.create_slice(SLICE, 1).await.unwrap();
    assert_eq!(client.status().await.unwrap().slices.len(), 1);
}

/// Serves `store` on a port of its own, NDP on one thread, until it is told to stop.
async fn server_apart(
    store: Arc<dyn PageStore>,
) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let ndp = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let serving = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        let served = serve_apart(store, listener, Arc::default(), ndp.handle(), stopped).await;
        ndp.shutdown_background();
        served.unwrap();
    });
    (address, stop, serving)
}

#[tokio::test]
async fn calls_are_answered_while_no_thread_is_free_for_ndp() {
    const BUSY: Duration = Duration::from_secs(1);
    let store = Scripted {
        reply: |i| {
            std::thread::sleep(BUSY);
            (i == 0).then(NdpReply::default)
        },
        ..Scripted::new()
    };
    let (address, stop, serving) = server_apart(Arc::new(store)).await;
    let client = client(address, ClientConfig::default());
    let scans: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.ndp_read(ndp(1)).await.unwrap().count().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(client.read_pages(read(1)).await.unwrap().len(), 1);
    }
    assert!(start.elapsed() < BUSY, "{:?}", start.elapsed());
    assert!(!scans.iter().any(JoinHandle::is_finished));
    for scan in scans {
        assert_eq!(scan.await.unwrap(), 1);
    }
    stop.send(()).unwrap();
    drop(client);
    serving.await.unwrap();
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn connections_that_begin_with_nothing_or_nonsense_harm_nobody() {
    let (address, _stop, _) = server_apart(Arc::new(Scripted::new())).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut nonsense = TcpStream::connect(address).await.unwrap();
    nonsense.write_all(b"NDPx").await.unwrap();
    let client = client(address, ClientConfig::default());
    let replies = client.ndp_read(ndp(1)).await.unwrap();
    assert_eq!(replies.count().await, 0);
    assert_eq!(client.read_pages(read(1)).await.unwrap().len(), 1);
    let answer = nonsense.read(&mut [0; 8]).await;
    assert_eq!(answer.unwrap(), 0, "it is closed");
}

#[tokio::test]
async fn a_store_says_that_it_has_no_room() {
    let (full, _) = server(Arc::new(Scripted::new())).await;
    let asked = client(full, ClientConfig::default()).has_room().await;
    assert_eq!(asked, Ok(false));
    let (empty, _) = server(Arc::new(MemoryPageStore::default())).await;
    let asked = client(empty, ClientConfig::default()).has_room().await;
    assert_eq!(asked, Ok(true));
}

#[tokio::test]
async fn what_a_store_knows_is_told_and_filters_go_along() {
    let store = Scripted {
        reply: |i| {
            (i == 0).then(|| NdpReply {
                items: Vec::new(),
                usage: NdpUsage::default(),
                filters: Some(NdpFilterUse {
                    missing: vec![1],
                    dropped: vec![7, 0],
                }),
            })
        },
        ..Scripted::new()
    };
    let (address, _) = server(Arc::new(store)).await;
    let client = client(address, ClientConfig::default());
    let known = client.capabilities().await.unwrap();
    assert_eq!(
        (known.descriptor, known.expression, known.filter),
        (3, 2, 1)
    );
    let mut replies = client.ndp_read(ndp(3)).await.unwrap();
    let used = replies.next().await.unwrap().unwrap().filters.unwrap();
    assert_eq!((used.missing, used.dropped), (vec![1], vec![7, 0]));
    let filter = |hash: &'static [u8]| NdpFilter {
        hash: FilterHash::of(hash),
        content: None,
    };
    let mut read = ndp(3);
    read.filters = vec![filter(b"a"); MAX_FILTERS + 1];
    let refused = match client.ndp_read(read).await {
        Ok(mut replies) => replies.next().await.map(|reply| reply.map(drop)),
        Err(error) => Some(Err(error)),
    };
    assert!(
        matches!(refused, Some(Err(PageError::Refused(_)))),
        "{refused:?}"
    );
}
