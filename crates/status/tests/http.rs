//! The server over real sockets: what it answers, and what clients that are slow, many or hostile can
//! do to it, which is nothing.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perigee_status::{Metrics, Report, Source, serve};
use perigee_testkit::Exposition;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How long a test waits for an answer: longer than a connection may live.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Counting {
    reports: AtomicU64,
    ill: AtomicBool,
}

impl Source for Counting {
    fn report(&self) -> Report {
        let reports = self.reports.fetch_add(1, Ordering::Relaxed);
        let mut metrics = Metrics::default();
        let help = "Reports made";
        metrics
            .section("Test")
            .counter("test_reports_total", help, reports);
        Report {
            title: "test".to_owned(),
            facts: Vec::new(),
            metrics,
        }
    }

    fn health(&self) -> Result<(), String> {
        match self.ill.load(Ordering::Relaxed) {
            true => Err("a disk is gone".to_owned()),
            false => Ok(()),
        }
    }
}

struct Server {
    address: SocketAddr,
    source: Arc<Counting>,
    /// Its threads serve.
    _runtime: Runtime,
}

fn server() -> Server {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let bound = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = bound.unwrap();
    let address = listener.local_addr().unwrap();
    let source = Arc::new(Counting::default());
    runtime.spawn(serve(listener, source.clone()));
    Server {
        address,
        source,
        _runtime: runtime,
    }
}

impl Server {
    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// All that comes back to some bytes.
    fn answer(&self, request: &[u8]) -> String {
        let mut socket = self.connect();
        // It may have been refused before all was sent.
        let _ = socket.write_all(request);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn request(&self, method: &str, path: &str) -> (u16, String, String) {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        parts(&self.answer(request.as_bytes()))
    }
}

/// Status, head and body of an answer.
fn parts(answer: &str) -> (u16, String, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).unwrap_or("0");
    (
        status.parse().unwrap(),
        head.to_lowercase(),
        body.to_owned(),
    )
}

#[test]
fn pages_metrics_and_health() {
    let server = server();
    let (status, head, body) = server.request("GET", "/");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html; charset=utf-8"));
    assert!(head.contains("content-security-policy: default-src 'none'"));
    assert!(body.contains("<h1>Perigee test</h1>") && body.ends_with("</html>\n"));
    let (status, _, body) = server.request("GET", "/?refresh=5");
    assert_eq!(status, 200);
    assert!(body.contains("http-equiv=\"refresh\" content=\"5\""));

    let (status, head, body) = server.request("GET", "/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    let read = Exposition::parse(&body).unwrap();
    assert_eq!(read.get("test_reports_total", &[]), Some(2.0));

    let (status, _, body) = server.request("GET", "/healthz");
    assert_eq!((status, body.as_str()), (200, "ok\n"));
    server.source.ill.store(true, Ordering::Relaxed);
    let (status, _, body) = server.request("GET", "/healthz");
    assert_eq!((status, body.as_str()), (503, "a disk is gone\n"));
    let (status, _, body) = server.request("GET", "/");
    assert_eq!(status, 200, "the page is shown all the more");
    assert!(body.contains("a disk is gone"));
}

#[test]
fn a_head_is_a_get_without_its_body() {
    let server = server();
    for path in ["/", "/metrics", "/healthz", "/nothing"] {
        let (status, head, body) = server.request("HEAD", path);
        let (of_get, _, got) = server.request("GET", path);
        assert_eq!((status, body.as_str()), (of_get, ""), "{path}");
        let length = format!("content-length: {}", got.len());
        assert!(head.contains(&length), "{path}: {head}");
    }
}

#[test]
fn nothing_else_is_served() {
    let server = server();
    for path in ["/nothing", "/metrics/", "//", "/../etc/passwd", "/%2e%2e/"] {
        let (status, _, body) = server.request("GET", path);
        assert_eq!(status, 404, "{path}");
        assert_eq!(body, "there are /, /metrics and /healthz\n");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "WORK"] {
        for path in ["/", "/metrics", "/nothing"] {
            let (status, head, _) = server.request(method, path);
            assert_eq!(status, 405, "{method} {path}");
            assert!(head.contains("allow: get, head"), "{head}");
        }
    }
    let posted = "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nname=data";
    assert_eq!(parts(&server.answer(posted.as_bytes())).0, 405);
    assert_eq!(server.source.reports.load(Ordering::Relaxed), 0);
}

#[test]
fn a_connection_is_for_one_request() {
    let server = server();
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    let answer = server.answer(request.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"));
}

#[test]
fn nonsense_is_refused() {
    let server = server();
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let long_header = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(1 << 20));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(10_000));
    let cases: &[(&str, &[u8])] = &[
        ("nothing at all", b"\r\n\r\n"),
        ("no HTTP", b"SELECT 1;\r\n\r\n"),
        ("another version", b"GET / HTTP/9.9\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("bytes", &[0, 255, 10, 13, 128, 10, 10, 1, 2, 3]),
        ("a header without a name", b"GET / HTTP/1.1\r\n: b\r\n\r\n"),
        (
            "two lengths",
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ),
        ("a long path", long_path.as_bytes()),
        ("a long header", long_header.as_bytes()),
        ("many headers", headers.as_bytes()),
    ];
    for (name, request) in cases {
        let mut socket = server.connect();
        let _ = socket.write_all(request);
        let _ = socket.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(refused, "{name}: {answer}");
    }
    assert_eq!(server.source.reports.load(Ordering::Relaxed), 0);
    assert_eq!(server.request("GET", "/").0, 200);
}

/// More clients than there are places say nothing, or a byte a second; whoever comes next waits for
/// seconds, not for ever.
#[test]
fn slow_clients_lose_their_places() {
    let server = server();
    let mut slow: Vec<_> = (0..40).map(|_| server.connect()).collect();
    let begin = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let dripping = std::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            for socket in slow.iter_mut().skip(20) {
                let _ = socket.write_all(b"G");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let (status, ..) = server.request("GET", "/");
    stop.store(true, Ordering::Relaxed);
    assert_eq!(status, 200);
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "{:?}",
        begin.elapsed()
    );
    dripping.join().unwrap();
}

/// Who does not read an answer takes its place for seconds only.
#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let server = server();
    for round in 0..200 {
        let mut socket = server.connect();
        let request: &[u8] = match round % 3 {
            0 => b"GET / HTTP/1.1\r\n",
            1 => b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            _ => b"",
        };
        let _ = socket.write_all(request);
    }
    let begin = Instant::now();
    assert_eq!(server.request("GET", "/healthz").0, 200);
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}
