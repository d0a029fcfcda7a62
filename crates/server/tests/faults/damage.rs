//! Flipped bits and truncated files.

use std::fs;
use std::path::{Path, PathBuf};

use perigee_log_api::LogStoreClient;
use perigee_page_api::{PageError, PageStore, PageStoreClient};
use perigee_types::{DbId, Lsn};
use perigee_workload::{Client, Cluster, Role};

use crate::support::{address, cluster, consolidated, files, perigee, stderr, stdout};
use crate::tables::{ROWS, append_first, check_good, good_and_bad};

/// Flips a bit in each place where the bad table's row 100 lies; returns the files.
fn damage(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let needle = b"needle-100";
    let mut hit = Vec::new();
    for path in files(dir, prefix) {
        let mut bytes = fs::read(&path).unwrap();
        let places: Vec<_> = (0..bytes.len().saturating_sub(needle.len()))
            .filter(|at| bytes[*at..].starts_with(needle))
            .collect();
        if !places.is_empty() {
            places.iter().for_each(|at| bytes[at + 3] ^= 1);
            fs::write(&path, bytes).unwrap();
            hit.push(path);
        }
    }
    assert!(!hit.is_empty(), "the row is in no {prefix} file");
    hit
}

/// What the client is told of the bad table, with near-data processing and without.
async fn errors_of_bad(client: &mut Client) -> Vec<String> {
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    let mut errors = Vec::new();
    for mode in ["OFF", "ON"] {
        let set = format!("SET ndp_mode = {mode}");
        client.execute(&set).await.unwrap();
        let error = client.query("SELECT MAX(v) FROM f.bad").await.unwrap_err();
        errors.push(error.to_string());
    }
    errors
}

/// Each text names the file and holds all of `expected`.
fn assert_named(texts: &[String], hit: &[PathBuf], expected: &[&str]) {
    for text in texts {
        let named = |path: &PathBuf| text.contains(&*path.to_string_lossy());
        assert!(hit.iter().any(named), "{hit:?} in {text}");
        for expected in expected {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_version_is_named_and_all_else_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    good_and_bad(&cluster).await;
    cluster.stop(Role::Frontend).unwrap();
    cluster.stop(Role::PageStore(0)).unwrap();
    let hit = damage(&dir.path().join("page-store-0"), "pages-");
    // Twice: what was damaged does not get worse by serving the rest.
    for _ in 0..2 {
        cluster.restart(Role::PageStore(0)).unwrap();
        cluster.restart(Role::Frontend).unwrap();
        let mut client = cluster.client(None).await.unwrap();
        let errors = errors_of_bad(&mut client).await;
        assert_named(&errors, &hit, &["1030", "page:", "offset", "checksum"]);
        check_good(&mut client).await;
        client.close().await.unwrap();
        cluster.stop(Role::Frontend).unwrap();
        cluster.stop(Role::PageStore(0)).unwrap();
    }
    let dump = perigee(&[
        "inspect",
        "slice",
        &dir.path().join("page-store-0").to_string_lossy(),
    ]);
    assert!(!dump.status.success());
    assert_named(&[stderr(&dump)], &hit, &["page:", "offset"]);
    assert!(stdout(&dump).contains("DAMAGED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_with_damaged_log_is_refused_and_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    // One extent a slice, so that the tables lie in different ones.
    let mut cluster = cluster(dir.path(), 1, &["--slice-size", "1MiB"]);
    good_and_bad(&cluster).await;
    cluster.stop(Role::PageStore(0)).unwrap();
    let hit = damage(&dir.path().join("page-store-0"), "log-");
    cluster.restart(Role::PageStore(0)).unwrap();
    cluster.stop(Role::Frontend).unwrap();
    cluster.restart(Role::Frontend).unwrap();
    let mut client = cluster.client(None).await.unwrap();
    let errors = errors_of_bad(&mut client).await;
    assert_named(&errors, &hit, &["1030", "slice:", "offset", "damaged"]);
    check_good(&mut client).await;
    client.close().await.unwrap();
    // The store itself, asked directly: one slice is refused, each of the others answers.
    let uri = format!("http://{}", address(dir.path(), "page-store-0"));
    let store = PageStoreClient::new(&uri, Default::default()).unwrap();
    let slices = store.status().await.unwrap().slices;
    let mut refused = 0;
    for (key, _) in &slices {
        match store.slice_status(*key).await {
            Ok(status) => assert!(status.persistent_lsn > Lsn(0), "{key}"),
            Err(PageError::Corrupt(text)) => {
                assert_named(&[text], &hit, &[&key.to_string()]);
                refused += 1;
            }
            Err(other) => panic!("{key}: {other}"),
        }
    }
    assert_eq!(refused, hit.len());
    assert!(slices.len() > refused, "{slices:?}");
    cluster.stop(Role::Frontend).unwrap();
    cluster.stop(Role::PageStore(0)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_plog_is_refused_and_other_databases_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    good_and_bad(&cluster).await;
    let mut client = cluster.client(None).await.unwrap();
    cluster.stop(Role::LogStore).unwrap();
    let hit = damage(&dir.path().join("log-store"), "plog-");
    cluster.restart(Role::LogStore).unwrap();
    // A running frontend can write no more, and says why.
    let insert = client
        .execute("INSERT INTO f.good VALUES (1000, 'x')")
        .await;
    assert_named(
        &[insert.unwrap_err().to_string()],
        &hit,
        &["1030", "at byte"],
    );
    drop(client);
    cluster.kill(Role::Frontend).unwrap();
    // A new one does not begin with half a log.
    let error = cluster.restart(Role::Frontend).unwrap_err().to_string();
    assert_named(&[error], &hit, &["at byte", "corruption"]);
    let uri = format!("http://{}", address(dir.path(), "log-store"));
    let store = LogStoreClient::new(&uri, Default::default()).unwrap();
    assert_eq!(append_first(&store, DbId(9), b"bytes").await, 5);
    cluster.stop(Role::LogStore).unwrap();
    let dump = perigee(&[
        "inspect",
        "log",
        &dir.path().join("log-store").to_string_lossy(),
    ]);
    assert!(!dump.status.success());
    assert_named(&[stderr(&dump)], &hit, &["at byte"]);
}

/// A cluster with the two tables, of which the log is all there: each opening begins another PLog, and the ones
/// before may go.
async fn opened_once(dir: &Path) -> Cluster {
    let cluster = cluster(dir, 1, &[]);
    good_and_bad(&cluster).await;
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_page_store_lost_comes_again() {
    // Half of each: page versions are made of log again, log comes from the Log Store again.
    for prefix in ["pages-", "log-"] {
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = opened_once(dir.path()).await;
        cluster.stop(Role::Frontend).unwrap();
        cluster.stop(Role::PageStore(0)).unwrap();
        truncate(&dir.path().join("page-store-0"), prefix);
        cluster.restart(Role::PageStore(0)).unwrap();
        cluster.restart(Role::Frontend).unwrap();
        let mut client = cluster.client(None).await.unwrap();
        check_good(&mut client).await;
        let bad = client.number("SELECT COUNT(*) FROM f.bad").await.unwrap();
        assert_eq!(bad as u64, ROWS);
        consolidated(&mut client).await;
        client.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_log_store_lost_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = opened_once(dir.path()).await;
    cluster.stop(Role::Frontend).unwrap();
    cluster.stop(Role::LogStore).unwrap();
    truncate(&dir.path().join("log-store"), "plog-");
    cluster.restart(Role::LogStore).unwrap();
    let error = cluster.restart(Role::Frontend).unwrap_err().to_string();
    for expected in ["log was lost: slice:", "db:1", "the log ends with lsn:"] {
        assert!(error.contains(expected), "{expected:?} in {error}");
    }
    cluster.stop(Role::LogStore).unwrap();
    cluster.stop(Role::PageStore(0)).unwrap();
}

/// Cuts what was written into the files to half, if that is more than a header.
fn truncate(dir: &Path, prefix: &str) {
    let all = files(dir, prefix);
    assert!(!all.is_empty(), "there is no {prefix} file");
    for path in all {
        let bytes = fs::read(&path).unwrap();
        let written = bytes.iter().rposition(|b| *b != 0).unwrap() as u64;
        if written > 8192 {
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(written / 2).unwrap();
        }
    }
}
