//! What a client cannot do: send too much, stay too long, come in too great numbers, break the
//! framing.

use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Answer, Client, MODERN};
use crate::script::{Seen, start};

#[tokio::test]
async fn a_packet_beyond_the_limit_is_refused_with_1153() {
    let (server, seen) = start(|config| config.max_allowed_packet = 1 << 20);
    let mut client = Client::root(server.address()).await;
    let fits = format!("SELECT LENGTH {}", "x".repeat((1 << 20) - 15));
    assert_eq!(
        client.query(&fits).await.value(),
        ((1 << 20) - 15).to_string()
    );
    // The client sends all of its packet before it reads, and must still get the answer.
    let too_long = vec![b'x'; 8 << 20];
    client.command(&[b"\x03", &too_long[..]].concat()).await;
    let Answer::Err {
        errno,
        state,
        message,
    } = client.result().await
    else {
        panic!("no error")
    };
    assert_eq!((errno, state.as_str()), (1153, "08S01"));
    assert_eq!(
        message,
        "Got a packet bigger than 'max_allowed_packet' bytes"
    );
    drop(client);
    Seen::wait(&seen.dropped, 1).await;
}

#[tokio::test]
async fn a_gap_in_the_sequence_ends_the_connection() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.socket.write_all(&[1, 0, 0, 5, 0x0E]).await.unwrap();
    client.seq = 1;
    assert_eq!(client.result().await.errno(), 1156);
    drop(client);
}

#[tokio::test]
async fn one_connection_too_many_gets_1040() {
    let (server, _) = start(|config| config.max_connections = 2);
    let address = server.address();
    let first = Client::root(address).await;
    let mut second = Client::root(address).await;
    let (mut refused, answer) = Client::login(address, MODERN, "root", "", None).await;
    let message = "Too many connections".to_owned();
    assert_eq!(
        answer,
        Answer::Err {
            errno: 1040,
            state: "08004".into(),
            message
        }
    );
    refused.expect_end().await;
    assert_eq!(server.registry().counters().refused_connections, 1);
    assert_eq!(second.query("SELECT 1").await.value(), "1");
    drop(first);
    while server.registry().len() > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Client::root(address).await;
}

#[tokio::test]
async fn a_silent_client_is_sent_away() {
    let (server, _) = start(|config| config.wait_timeout = Duration::from_millis(50));
    let capabilities = MODERN.without(perigee_wire_mysql::Capabilities::INTERACTIVE);
    let (mut client, _) = Client::login(server.address(), capabilities, "root", "", None).await;
    client.seq = 1;
    assert_eq!(client.result().await.errno(), 4031);
    client.expect_end().await;
    // A person has longer.
    let mut person = Client::root(server.address()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(person.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn a_client_that_does_not_log_in_is_closed() {
    let (server, _) = start(|config| config.connect_timeout = Duration::from_millis(50));
    let (mut client, _, _) = Client::greeted(server.address()).await;
    client.expect_end().await;
    // Nor does it help to send a little now and then.
    let (mut slow, _, _) = Client::greeted(server.address()).await;
    slow.socket.write_all(&[200, 0]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(40)).await;
    let _closed_by_now = slow.socket.write_all(&[0, 1]).await;
    slow.expect_end().await;
    assert_eq!(server.registry().counters().aborted_connects, 2);
}

#[tokio::test]
async fn a_packet_that_stops_in_its_middle_is_given_up() {
    let (server, seen) = start(|config| config.net_read_timeout = Duration::from_millis(300));
    let mut client = Client::root(server.address()).await;
    client
        .socket
        .write_all(&[100, 0, 0, 0, 0x03, b'S'])
        .await
        .unwrap();
    client.seq = 1;
    assert_eq!(client.result().await.errno(), 1159);
    client.expect_end().await;
    Seen::wait(&seen.dropped, 1).await;
}

/// Sends `bytes` and waits for the server to close, or for a short while.
async fn throw(address: std::net::SocketAddr, bytes: &[u8], logged_in: bool) {
    let mut client = if logged_in {
        Client::root(address).await
    } else {
        Client::greeted(address).await.0
    };
    if client.socket.write_all(bytes).await.is_ok() {
        let mut sink = [0; 4096];
        let quiet = Duration::from_millis(20);
        while let Ok(Ok(n)) = tokio::time::timeout(quiet, client.socket.read(&mut sink)).await {
            if n == 0 {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a client sends, the server goes on serving others.
    #[test]
    fn garbage_harms_nobody_else(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        framed: bool,
        logged_in: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (server, _) = start(|_| {});
            let mut stream = Vec::new();
            if framed {
                stream.extend_from_slice(&[bytes.len() as u8, 0, 0, u8::from(!logged_in)]);
            }
            stream.extend_from_slice(&bytes);
            throw(server.address(), &stream, logged_in).await;
            let mut other = Client::root(server.address()).await;
            assert_eq!(other.query("SELECT 1").await.value(), "1");
        });
    }
}

/// Time in which a login is done on a loaded machine; far below `connect_timeout`.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn clients_that_do_not_log_in_keep_nobody_out() {
    let (server, _) = start(|config| {
        config.max_connections = 3;
        config.max_unfinished_logins = 50;
        config.connect_timeout = Duration::from_secs(600);
    });
    let address = server.address();
    let mut seated = Client::root(address).await;
    // Some say nothing at all, some stop in the middle of their response.
    let mut half_open = Vec::new();
    for n in 0..300 {
        let (mut client, _, _) = Client::greeted(address).await;
        if n % 2 == 0 {
            client.socket.write_all(&[200, 0, 0, 1, 7]).await.unwrap();
        }
        half_open.push(client);
    }
    let begun = std::time::Instant::now();
    let mut others = Vec::new();
    for _ in 0..2 {
        let login = tokio::time::timeout(SOON, Client::root(address));
        let mut client = login.await.expect("nobody is shut out");
        assert_eq!(client.query("SELECT 1").await.value(), "1");
        others.push(client);
    }
    assert!(begun.elapsed() < SOON);
    assert_eq!(seated.query("SELECT 1").await.value(), "1");
    let (_, full) = Client::login(address, MODERN, "root", "", None).await;
    assert_eq!(full.errno(), 1040, "the seats count those who logged in");
    let counters = server.registry().counters();
    assert!(counters.crowded_out >= 250, "{counters:?}");
    while server.registry().len() > 3 + 50 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The oldest have gone, the youngest have not.
    half_open.remove(0).expect_end().await;
    let (mut young, mut byte) = (half_open.pop().unwrap(), [0]);
    let silence = tokio::time::timeout(Duration::from_millis(50), young.socket.read(&mut byte));
    assert!(silence.await.is_err(), "it may still log in");
}
