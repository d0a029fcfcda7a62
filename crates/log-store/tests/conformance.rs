//! The conformance suite against the store itself and against its client over a real socket.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use perigee_log_api::{ClientConfig, LogStoreClient, conformance, connections, serve, transport};
use perigee_log_store::{Config, LogStoreService};
use tokio::net::TcpListener;

#[tokio::test]
async fn the_store_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let store = LogStoreService::open(dir.path(), Config::default()).unwrap();
    conformance::run(&store, 0).await;
    // And to its own files: everything can be read back.
    drop(store);
    let store = LogStoreService::open(dir.path(), Config::default()).unwrap();
    assert_eq!(store.damage(), vec![]);
    conformance::run(&store, 100).await;
}

#[tokio::test]
async fn the_store_conforms_without_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        cache_bytes: 0,
        ..Config::default()
    };
    let store = LogStoreService::open(dir.path(), config).unwrap();
    conformance::run(&store, 0).await;
    assert_eq!(store.stats().cached_reads, 0);
    assert!(store.stats().disk_reads > 0);
}

#[tokio::test]
async fn the_store_conforms_one_call_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        writers: 1,
        readers: 1,
        waiting: 16,
        ..Config::default()
    };
    let store = LogStoreService::open(dir.path(), config).unwrap();
    conformance::run(&store, 0).await;
}

#[tokio::test]
async fn the_store_conforms_on_the_thread_that_calls() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        append_in_place: true,
        ..Config::default()
    };
    let store = LogStoreService::open(dir.path(), config).unwrap();
    conformance::run(&store, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_conforms_over_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let store = LogStoreService::open(dir.path(), Config::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(
        transport()
            .add_service(serve(Arc::new(store)))
            .serve_with_incoming(connections(listener)),
    );
    let client = LogStoreClient::new(&address, ClientConfig::default()).unwrap();
    conformance::run(&client, 0).await;
}
