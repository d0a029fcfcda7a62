//! The conformance suite against the reference model, directly and through client and server over
//! a real socket; and what only the transport can get wrong.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use perigee_log_api::conformance::{self, MemoryLogStore};
use perigee_log_api::{
    Append, ClientConfig, LogEntry, LogError, LogStore, LogStoreClient, PlogInfo, PlogKey,
    connections, serve, transport,
};
use perigee_types::{DbId, Lsn, PlogId};
use tokio::net::TcpListener;

/// A served store; it is stopped with [`Served::stop`] or with the test's runtime.
struct Served {
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    /// Ends the server and its connections.
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

async fn server(store: Arc<dyn LogStore>, address: &str) -> Served {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let stopped = async {
            // A test that lets go of its server does not mean to stop it.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        transport()
            .add_service(serve(store))
            .serve_with_incoming_shutdown(connections(listener), stopped)
            .await
            .unwrap();
    });
    Served {
        address,
        stop,
        task,
    }
}

fn client(address: SocketAddr, config: ClientConfig) -> LogStoreClient {
    LogStoreClient::new(&format!("http://{address}"), config).unwrap()
}

const PLOG: PlogKey = PlogKey {
    db: DbId(1),
    plog: PlogId(1),
};

type Answer = fn() -> Result<Vec<LogEntry>, LogError>;

/// Gives every call the same answer; a seal is never answered.
struct Scripted(Answer);

#[async_trait]
impl LogStore for Scripted {
    async fn begin_epoch(&self, _: DbId) -> Result<u64, LogError> {
        (self.0)().map(|_| 1)
    }
    async fn await_epoch(&self, _: DbId, _: u64, _: Duration) -> Result<u64, LogError> {
        (self.0)().map(|_| 1)
    }
    async fn create_plog(&self, _: PlogKey, _: u64) -> Result<(), LogError> {
        (self.0)().map(drop)
    }
    async fn append(&self, _: Append) -> Result<u64, LogError> {
        (self.0)().map(|_| 0)
    }
    async fn read(&self, _: PlogKey, _: u64, _: u64) -> Result<Vec<LogEntry>, LogError> {
        (self.0)()
    }
    async fn seal(&self, _: PlogKey, _: u64) -> Result<u64, LogError> {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(0)
    }
    async fn list(&self, _: DbId) -> Result<Vec<PlogInfo>, LogError> {
        (self.0)().map(|_| vec![])
    }
    async fn delete(&self, _: PlogKey, _: u64) -> Result<(), LogError> {
        (self.0)().map(drop)
    }
    async fn has_room(&self) -> Result<bool, LogError> {
        Ok(false)
    }
}

#[tokio::test]
async fn the_model_conforms() {
    conformance::run(&MemoryLogStore::default(), 0).await;
}

#[tokio::test]
async fn the_model_conforms_over_a_socket() {
    let address = server(Arc::new(MemoryLogStore::default()), "127.0.0.1:0")
        .await
        .address;
    conformance::run(&client(address, ClientConfig::default()), 0).await;
}

#[tokio::test]
async fn errors_keep_their_kind_over_a_socket() {
    let answers: [Answer; 7] = [
        || Err(LogError::Unavailable("closing".into())),
        || Err(LogError::Refused("it ends at 7 — not 8".into())),
        || Err(LogError::Fenced("epoch 1 is over".into())),
        || Err(LogError::NotFound("db:1 plog:1".into())),
        || Err(LogError::Corrupt("plog-1.log at 4096\n".into())),
        || Err(LogError::Full("12 bytes are left".into())),
        || {
            Err(LogError::Disk(
                "No space left on device (os error 28)".into(),
            ))
        },
    ];
    for answer in answers {
        let address = server(Arc::new(Scripted(answer)), "127.0.0.1:0")
            .await
            .address;
        let client = client(address, ClientConfig::default());
        let expected = answer().unwrap_err();
        assert_eq!(client.begin_epoch(DbId(1)).await, Err(expected.clone()));
        let awaited = client.await_epoch(DbId(1), 1, Duration::ZERO).await;
        assert_eq!(awaited, Err(expected.clone()));
        assert_eq!(client.create_plog(PLOG, 1).await, Err(expected.clone()));
        assert_eq!(client.read(PLOG, 0, 10).await, Err(expected.clone()));
        assert_eq!(client.list(DbId(1)).await, Err(expected.clone()));
        assert_eq!(client.delete(PLOG, 1).await, Err(expected));
    }
}

#[tokio::test]
async fn a_call_without_answer_ends_at_its_deadline() {
    let address = server(Arc::new(Scripted(|| Ok(vec![]))), "127.0.0.1:0")
        .await
        .address;
    let config = ClientConfig {
        call_timeout: Duration::from_millis(200),
        ..ClientConfig::default()
    };
    let start = Instant::now();
    let answer = client(address, config).seal(PLOG, 1).await;
    assert!(
        matches!(&answer, Err(LogError::Unavailable(_))),
        "{answer:?}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "took {:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn an_answer_that_contradicts_its_request_is_not_believed() {
    let bad_entry = || {
        Ok(vec![LogEntry {
            offset: 3,
            next_offset: 4,
            first_lsn: Lsn(1),
            last_lsn: Lsn(1),
            payload: Bytes::from_static(b"x"),
        }])
    };
    let address = server(Arc::new(Scripted(bad_entry)), "127.0.0.1:0")
        .await
        .address;
    let client = client(address, ClientConfig::default());
    let answer = client.read(PLOG, 0, 10).await;
    assert!(matches!(&answer, Err(LogError::Corrupt(_))), "{answer:?}");
    assert_eq!(client.read(PLOG, 3, 10).await.map(|e| e.len()), Ok(1));
    let append = Append {
        plog: PLOG,
        epoch: 1,
        offset: 0,
        first_lsn: Lsn(1),
        last_lsn: Lsn(1),
        payload: Bytes::from_static(b"x"),
    };
    let answer = client.append(append).await;
    assert!(matches!(&answer, Err(LogError::Corrupt(_))), "{answer:?}");
}

#[tokio::test]
async fn a_client_connects_again_after_the_server_came_back() {
    let store: Arc<dyn LogStore> = Arc::new(MemoryLogStore::default());
    let served = server(store.clone(), "127.0.0.1:0").await;
    let address = served.address;
    let client = client(address, ClientConfig::default());
    client.create_plog(PLOG, 1).await.unwrap();
    served.stop().await;
    let down = client.list(DbId(1)).await;
    assert!(matches!(&down, Err(LogError::Unavailable(_))), "{down:?}");
    server(store, &address.to_string()).await;
    assert_eq!(
        client.list(DbId(1)).await.map(|l| l.len()),
        Ok(1),
        "the client reconnects"
    );
}

#[tokio::test]
async fn nobody_at_the_address_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let answer = client(address, ClientConfig::default()).list(DbId(1)).await;
    assert!(
        matches!(&answer, Err(LogError::Unavailable(_))),
        "{answer:?}"
    );
    assert!(matches!(
        LogStoreClient::new("not an address", ClientConfig::default()),
        Err(LogError::Refused(_))
    ));
}

#[tokio::test]
async fn a_store_says_that_it_has_no_room() {
    let full = server(Arc::new(Scripted(|| Ok(Vec::new()))), "127.0.0.1:0").await;
    let asked = client(full.address, ClientConfig::default())
        .has_room()
        .await;
    assert_eq!(asked, Ok(false));
    let empty = server(Arc::new(MemoryLogStore::default()), "127.0.0.1:0").await;
    let asked = client(empty.address, ClientConfig::default())
        .has_room()
        .await;
    assert_eq!(asked, Ok(true));
}
