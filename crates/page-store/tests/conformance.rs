//! The conformance suite of the API against the store, directly and over real sockets, with
//! consolidation running and without.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::sync::Arc;

use perigee_page_api::{ClientConfig, PageStoreClient, conformance, incoming, serve, transport};
use support::{UndoFormat, lazy, open, small, tempdir};
use tokio::net::TcpListener;

#[tokio::test]
async fn the_store_conforms() {
    for config in [small(), lazy()] {
        let dir = tempdir();
        let store = open(dir.path(), config);
        conformance::run(&store, &UndoFormat, 1).await;
    }
}

#[tokio::test]
async fn the_store_conforms_over_a_socket() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = incoming(listener, Arc::default());
    tokio::spawn(async move {
        let router = transport().add_service(serve(store));
        router.serve_with_incoming(connections).await.unwrap();
    });
    let client = PageStoreClient::new(&format!("http://{address}"), ClientConfig::default());
    conformance::run(&client.unwrap(), &UndoFormat, 100).await;
}
