//! Clients that do not log in, or take their time to: a `perigee serve` goes on answering those who do, at once.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perigee_workload::{Client, Embedded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// How soon a client has logged in and has an answer, while others do not.
const SOON: Duration = Duration::from_secs(1);

/// Clients that connect and do not log in.
const HALF_OPEN: usize = 1000;

/// Clients that log in slowly.
const SLOW: usize = 200;

/// Time between two bytes of a slow login: it takes some four seconds.
const BYTE: Duration = Duration::from_millis(50);

/// What a client of the protocol sends to log in as root: capabilities, longest packet, character set, and the
/// name with an empty password.
fn login() -> Vec<u8> {
    /// `PROTOCOL_41`, `SECURE_CONNECTION` and `LONG_PASSWORD`.
    const CAPABILITIES: u32 = 0x0200 | 0x8000 | 1;
    let mut body = CAPABILITIES.to_le_bytes().to_vec();
    body.extend((16_u32 << 20).to_le_bytes());
    body.push(45);
    body.extend([0; 23]);
    body.extend(b"root\0\0");
    let mut packet = vec![body.len() as u8, 0, 0, 1];
    packet.extend(body);
    packet
}

/// What a client sends to turn its connection to TLS, and the beginning of the handshake.
fn half_a_handshake() -> Vec<u8> {
    /// As for a login, and `SSL`.
    const CAPABILITIES: u32 = 0x0200 | 0x8000 | 0x0800 | 1;
    let mut packet = vec![32, 0, 0, 1];
    packet.extend(CAPABILITIES.to_le_bytes());
    packet.extend((16_u32 << 20).to_le_bytes());
    packet.push(45);
    packet.extend([0; 23]);
    packet.extend([0x16, 3, 1, 2, 0, 1, 0, 1]);
    packet
}

/// A connection that has got the greeting.
async fn greeted(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let _ = packet(&mut socket).await.unwrap();
    socket
}

async fn packet(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).await?;
    let mut body = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8];
    socket.read_exact(&mut body).await?;
    Ok(body)
}

/// Logs in a byte at a time; the first byte of the server's answer.
async fn log_in_slowly(address: SocketAddr) -> u8 {
    let mut socket = greeted(address).await;
    for byte in login() {
        socket.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(BYTE).await;
    }
    packet(&mut socket).await.unwrap()[0]
}

/// A client that logs in, asks and leaves, again and again.
struct Others {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(u32, Duration)>,
}

impl Others {
    fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let (mut logins, mut longest) = (0, Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let mut client = Client::connect(address, None).await.unwrap();
                assert_eq!(client.number("SELECT 41 + 1").await.unwrap(), 42.0);
                longest = longest.max(begun.elapsed());
                logins += 1;
                client.close().await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (logins, longest)
        });
        Self { stop, task }
    }

    /// Asserts that each was answered soon.
    async fn end(self, what: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let (logins, longest) = self.task.await.unwrap();
        println!("{what}: {logins} others, the longest took {longest:?}");
        assert!(logins >= 10, "{what}: {logins} others");
        assert!(longest <= SOON, "{what}: a login took {longest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_that_take_long_keep_nobody_out() {
    support::raise_files();
    let dir = tempfile::tempdir().unwrap();
    // The slow ones may all be done at the same time.
    let places = support::args(&["--max-connections", "500"]);
    let mut server = Embedded::start(&support::binary(), dir.path(), &places).unwrap();
    let address = server.address();

    let others = Others::start(address);
    let mut half_open = Vec::new();
    for n in 0..HALF_OPEN {
        let socket = match n % 4 {
            // It does not even take the greeting.
            0 => TcpStream::connect(address).await.unwrap(),
            1 => greeted(address).await,
            2 => {
                let mut socket = greeted(address).await;
                drop(socket.write_all(&half_a_handshake()).await);
                socket
            }
            _ => {
                let mut socket = greeted(address).await;
                // The server may have closed it to make room.
                drop(socket.write_all(&login()[..20]).await);
                socket
            }
        };
        half_open.push(socket);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    others.end("half open").await;

    // The places of the half-open ones are all taken still.
    let others = Others::start(address);
    let slow: Vec<_> = (0..SLOW)
        .map(|_| tokio::spawn(log_in_slowly(address)))
        .collect();
    for login in slow {
        assert_eq!(login.await.unwrap(), 0, "a slow login succeeds");
    }
    others.end("slow").await;
    drop(half_open);
    server.stop().unwrap();
}
