//! KILL, clients that vanish, panics, and the orderly stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use perigee_wire_mysql::{Server, ServerConfig, ServerError, ShutdownPatience, ShutdownReport};

use crate::client::{Answer, Client};
use crate::script::{Script, Seen, start};

/// Waits until connection `id` sleeps in a statement.
async fn sleeping(server: &Server, id: u32) {
    let asleep = async {
        while !server
            .registry()
            .list()
            .iter()
            .any(|p| p.id == id && p.state == "sleeping")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asleep)
        .await
        .unwrap();
}

/// Waits until connection `id` runs a statement.
async fn running(server: &Server, id: u32) {
    let runs = async {
        while !server
            .registry()
            .list()
            .iter()
            .any(|p| p.id == id && p.command == "Query")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), runs)
        .await
        .unwrap();
}

#[tokio::test]
async fn kill_query_ends_the_statement_and_not_the_connection() {
    let (server, seen) = start(|_| {});
    let mut victim = Client::root(server.address()).await;
    let mut killer = Client::root(server.address()).await;
    victim.command(b"\x03SLEEP").await;
    sleeping(&server, victim.id).await;
    let list = server.registry().list();
    assert_eq!(list[0].statement.as_deref(), Some("SLEEP"));
    assert_eq!(
        (list[1].command, list[1].statement.as_deref()),
        ("Sleep", None)
    );
    assert!(
        killer
            .query(&format!("KILL QUERY {}", victim.id))
            .await
            .is_ok()
    );
    let Answer::Err { errno, state, .. } = victim.result().await else {
        panic!("no error")
    };
    assert_eq!((errno, state.as_str()), (1317, "70100"));
    assert_eq!(seen.cancelled.load(Ordering::SeqCst), 1);
    assert_eq!(victim.query("SELECT 1").await.value(), "1");
    assert_eq!(killer.query("KILL QUERY 99").await.errno(), 1094);
}

#[tokio::test]
async fn kill_query_reaches_a_statement_whose_client_does_not_read() {
    let (server, seen) = start(|_| {});
    let mut victim = Client::root(server.address()).await;
    victim.command(b"\x03ENDLESS").await;
    Seen::wait(&seen.batches, 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await; // the buffers fill up
    server.registry().kill_query(victim.id).unwrap();
    Seen::wait(&seen.cancelled, 1).await;
    // The rows already under way come whole, then the error, and the connection lives on.
    assert_eq!(victim.result().await.errno(), 1317);
    assert_eq!(victim.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn kill_ends_a_connection_that_runs_and_one_that_sleeps() {
    let (server, seen) = start(|_| {});
    let mut running = Client::root(server.address()).await;
    let mut idle = Client::root(server.address()).await;
    let mut killer = Client::root(server.address()).await;
    running.command(b"\x03SLEEP").await;
    sleeping(&server, running.id).await;
    assert!(killer.query(&format!("KILL {}", running.id)).await.is_ok());
    assert_eq!(running.result().await.errno(), 1317);
    killer
        .command(&[&b"\x0c"[..], &idle.id.to_le_bytes()].concat())
        .await;
    assert!(killer.result().await.is_ok());
    // What the idle client is told is the answer to the command it sends next.
    idle.seq = 1;
    assert_eq!(idle.result().await.errno(), 1317);
    idle.expect_end().await;
    Seen::wait(&seen.dropped, 2).await;
    killer
        .command(&[&b"\x0c"[..], &killer.id.to_le_bytes()].concat())
        .await;
    assert_eq!(killer.result().await.errno(), 1317);
    killer.expect_end().await;
    Seen::wait(&seen.dropped, 3).await;
    assert!(server.registry().is_empty());
}

#[tokio::test]
async fn a_client_that_vanishes_cancels_its_statement() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03SLEEP").await;
    sleeping(&server, client.id).await;
    drop(client);
    Seen::wait(&seen.cancelled, 1).await;
    Seen::wait(&seen.dropped, 1).await;
    assert_eq!(server.registry().counters().aborted_clients, 1);
}

#[tokio::test]
async fn a_client_that_vanishes_with_a_command_sent_ahead_is_noticed_too() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03SLEEP").await;
    sleeping(&server, client.id).await;
    client.command(b"\x03SELECT 1").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(seen.cancelled.load(Ordering::SeqCst), 0);
    drop(client);
    Seen::wait(&seen.cancelled, 1).await;
}

#[tokio::test]
async fn rows_are_produced_no_faster_than_the_client_reads() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03ENDLESS").await;
    Seen::wait(&seen.batches, 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let first = seen.batches.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        seen.batches.load(Ordering::SeqCst),
        first,
        "100 kB a batch, and nobody reads"
    );
    client.seq = 1;
    for _ in 0..2_000_000 / 1_000 * 10 {
        client.receive().await;
        if seen.batches.load(Ordering::SeqCst) > first {
            return;
        }
    }
    panic!("reading did not let the statement go on");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_given_up() {
    let (server, seen) = start(|config| config.net_write_timeout = Duration::from_millis(200));
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03ENDLESS").await;
    Seen::wait(&seen.cancelled, 1).await;
    Seen::wait(&seen.dropped, 1).await;
}

#[tokio::test]
async fn a_panic_ends_only_its_own_connection() {
    let (server, seen) = start(|_| {});
    let mut other = Client::root(server.address()).await;
    for statement in ["PANIC", "UNFINISHED", "; ;"] {
        let mut client = Client::root(server.address()).await;
        client
            .command(&[b"\x03", statement.as_bytes()].concat())
            .await;
        client.expect_end().await;
    }
    Seen::wait(&seen.dropped, 3).await;
    assert_eq!(other.query("SELECT 1").await.value(), "1");
    assert_eq!(server.registry().len(), 1);
}

const QUICK: ShutdownPatience = ShutdownPatience {
    finish: Duration::from_millis(50),
    undo: Duration::from_secs(5),
};

#[tokio::test]
async fn a_stop_tells_idle_clients_and_refuses_new_ones() {
    let (server, seen) = start(|_| {});
    let address = server.address();
    let mut idle = Client::root(address).await;
    let report = server.shutdown(ShutdownPatience::default()).await;
    assert_eq!(
        report,
        ShutdownReport {
            cancelled: false,
            dropped: 0
        }
    );
    idle.seq = 1;
    let Answer::Err { errno, state, .. } = idle.result().await else {
        panic!("no error")
    };
    assert_eq!((errno, state.as_str()), (1053, "08S01"));
    idle.expect_end().await;
    assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_stop_lets_statements_finish() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03NAP").await;
    running(&server, client.id).await;
    let report = server.shutdown(ShutdownPatience::default()).await;
    assert_eq!(
        report,
        ShutdownReport {
            cancelled: false,
            dropped: 0
        }
    );
    assert_eq!(client.result().await.value(), "0");
}

#[tokio::test]
async fn a_stop_cancels_statements_that_do_not_finish() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03SLEEP").await;
    sleeping(&server, client.id).await;
    let report = server.shutdown(QUICK).await;
    assert_eq!(
        report,
        ShutdownReport {
            cancelled: true,
            dropped: 0
        }
    );
    assert_eq!(client.result().await.errno(), 1053);
    assert_eq!(seen.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_stop_drops_statements_that_heed_nothing() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03STUCK").await;
    running(&server, client.id).await;
    let patience = ShutdownPatience {
        finish: Duration::ZERO,
        undo: Duration::from_millis(50),
    };
    let report = server.shutdown(patience).await;
    assert_eq!(
        report,
        ShutdownReport {
            cancelled: true,
            dropped: 1
        }
    );
    client.expect_end().await;
    assert_eq!(
        seen.dropped.load(Ordering::SeqCst),
        1,
        "its session was dropped"
    );
}

#[tokio::test]
async fn a_dropped_server_stops() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03SLEEP").await;
    sleeping(&server, client.id).await;
    drop(server);
    Seen::wait(&seen.dropped, 1).await;
}

#[tokio::test]
async fn a_port_in_use_is_a_clear_error() {
    let (server, _) = start(|_| {});
    let config = ServerConfig {
        listen: server.address(),
        ..ServerConfig::default()
    };
    let accounts = perigee_wire_mysql::StaticAccounts::default();
    let script = Script::default();
    let error = Server::start(
        config,
        std::sync::Arc::new(script),
        std::sync::Arc::new(accounts),
    );
    let error = error.err().unwrap();
    assert!(matches!(error, ServerError::PortInUse { .. }));
    let expected = format!(
        "{} is in use by another process; stop it or choose another port",
        server.address()
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn an_address_of_another_machine_cannot_be_listened_on() {
    let config = ServerConfig {
        listen: ([192, 0, 2, 1], 0).into(),
        ..ServerConfig::default()
    };
    let accounts = std::sync::Arc::new(perigee_wire_mysql::StaticAccounts::default());
    let error = Server::start(config, std::sync::Arc::new(Script::default()), accounts);
    let message = error.err().unwrap().to_string();
    assert!(
        message.starts_with("cannot listen on 192.0.2.1:0: "),
        "{message}"
    );
}

#[test]
fn the_default_is_loopback() {
    assert!(ServerConfig::default().listen.ip().is_loopback());
}
