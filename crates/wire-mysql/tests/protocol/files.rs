//! LOAD DATA LOCAL INFILE: the server asks for a file and reads it as it comes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use perigee_wire_mysql::Capabilities;

use crate::client::{Answer, Client, MODERN};
use crate::script::{Seen, start};

/// Sends the query and takes the request for a file.
async fn asked(client: &mut Client, sql: &str, name: &str) {
    client.command(&[b"\x03", sql.as_bytes()].concat()).await;
    let request = client.receive().await;
    assert_eq!(request, [b"\xfb", name.as_bytes()].concat());
}

#[tokio::test]
async fn a_file_is_read_to_its_end() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD data.tbl", "data.tbl").await;
    for part in ["1|a\n2|b", "\n3|c\n", &"x".repeat(200_000)] {
        client.send(part.as_bytes()).await;
    }
    client.send(b"").await;
    let Answer::Ok { affected, info, .. } = client.result().await else {
        panic!("no OK")
    };
    assert_eq!(
        (affected, info.as_str()),
        (3, "Records: 3  Deleted: 0  Skipped: 0  Warnings: 0")
    );
    assert_eq!(seen.file_bytes.load(Ordering::SeqCst), 200_012);
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn an_empty_file_and_a_file_longer_than_a_frame() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD empty", "empty").await;
    client.send(b"").await;
    assert!(client.result().await.is_ok());
    asked(&mut client, "LOAD long", "long").await;
    client.send(&vec![b'\n'; 0xFF_FFFF]).await; // and the empty frame that ends the packet
    client.send(&vec![b'\n'; 0xFF_FFFF + 10]).await;
    client.send(b"").await;
    let Answer::Ok { affected, .. } = client.result().await else {
        panic!("no OK")
    };
    assert_eq!(affected, 2 * 0xFF_FFFF + 10);
    assert_eq!(seen.file_bytes.load(Ordering::SeqCst), 2 * 0xFF_FFFF + 10);
}

#[tokio::test]
async fn what_is_left_after_an_error_is_drained_before_the_answer() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD BADLY x", "x").await;
    for _ in 0..200 {
        client.send(&[b'x'; 10_000]).await;
    }
    client.send(b"").await;
    let Answer::Err { errno, message, .. } = client.result().await else {
        panic!("no error")
    };
    assert_eq!(errno, 1366);
    assert_eq!(
        message,
        "Incorrect integer value: 'x' for column 'a' at row 1"
    );
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn files_among_other_results() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client
        .command(b"\x03SELECT 1; LOAD a; LOAD b; SELECT 1")
        .await;
    assert_eq!(client.result().await.value(), "1");
    for name in [b"\xfba", b"\xfbb"] {
        assert_eq!(client.receive().await, name);
        client.send(b"line\n").await;
        client.send(b"").await;
        assert!(client.result().await.is_ok());
    }
    assert_eq!(client.result().await.value(), "1");
}

#[tokio::test]
async fn a_client_that_sends_no_files_is_not_asked() {
    let (server, _) = start(|_| {});
    let without = MODERN.without(Capabilities::LOCAL_FILES);
    let (mut client, _) = Client::login(server.address(), without, "root", "", None).await;
    assert_eq!(client.query("LOAD x").await.errno(), 3948);
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_ends_the_statement() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD x", "x").await;
    client.send(b"half a file").await;
    drop(client);
    Seen::wait(&seen.dropped, 1).await;
    assert_eq!(
        seen.file_bytes.load(Ordering::SeqCst),
        0,
        "the file was not taken for whole"
    );
}

#[tokio::test]
async fn a_client_that_stops_sending_is_given_up() {
    let (server, seen) = start(|config| config.net_read_timeout = Duration::from_millis(300));
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD x", "x").await;
    client.send(b"half a file").await;
    Seen::wait(&seen.dropped, 1).await;
    client.expect_end().await;
}

#[tokio::test]
async fn a_load_can_be_killed() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD SLOWLY x", "x").await;
    client.send(b"part").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.registry().kill_query(client.id).unwrap();
    // The client goes on sending, as clients do, and learns of it at the end.
    for _ in 0..50 {
        client.send(&[b'x'; 1000]).await;
    }
    client.send(b"").await;
    assert_eq!(client.result().await.errno(), 1317);
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn a_killed_connection_does_not_wait_for_the_rest_of_a_file() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD BADLY x", "x").await;
    client.send(b"part").await; // the session fails, and the rest is awaited
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.registry().kill_connection(client.id).unwrap();
    client.expect_end().await;
    Seen::wait(&seen.dropped, 1).await;
}

#[tokio::test]
async fn a_file_is_read_no_faster_than_the_session_takes_it() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    asked(&mut client, "LOAD SLOWLY x", "x").await;
    // 64 MiB cannot fit in the buffers between: the client must be held up.
    let part = vec![b'x'; 1 << 20];
    let sending = async {
        for _ in 0..64 {
            client.send(&part).await;
        }
    };
    let finished = tokio::time::timeout(Duration::from_millis(500), sending).await;
    assert!(finished.is_err(), "the client was not held up");
    assert!(seen.file_bytes.load(Ordering::SeqCst) < 8 << 20);
}
