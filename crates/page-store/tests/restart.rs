//! What is acknowledged is there after a restart, whatever was consolidated, dropped or torn.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use perigee_page_api::{PageError, PageStore};
use perigee_types::Lsn;
use support::{Model, SLICE, files, lazy, open, read, settle, small, tempdir};

#[tokio::test]
async fn log_alone_survives() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    for round in 0..4 {
        let store = open(dir.path(), lazy());
        store.create_slice(SLICE, 1).await.unwrap();
        for i in 0..30 {
            let fragment = model.touch(&[i % 7, 10 + i % 3]);
            store.write_logs(fragment).await.unwrap();
        }
        assert_eq!(
            store.slice_status(SLICE).await.unwrap().consolidated_lsn,
            Lsn(0)
        );
        for lsn in (1..=model.lsn.0).step_by(5) {
            model.check(&store, 3, Lsn(lsn)).await;
            model.check(&store, 11, Lsn(lsn)).await;
        }
        let status = store.slice_status(SLICE).await.unwrap();
        assert_eq!(
            (status.sequence, status.persistent_lsn.0),
            (30 * (round + 1), model.lsn.0)
        );
    }
    assert!(files(dir.path(), "pages-").is_empty());
}

#[tokio::test]
async fn page_versions_survive_and_take_the_place_of_log() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    for round in 0..4 {
        let store = open(dir.path(), small());
        store.create_slice(SLICE, 1).await.unwrap();
        let status = store.slice_status(SLICE).await.unwrap();
        assert_eq!(status.persistent_lsn, model.lsn);
        for i in 0..300 {
            let fragment = model.touch(&[i % 70, 100 + round * 300 + i]);
            store.write_logs(fragment).await.unwrap();
        }
        settle(&store, SLICE).await;
        model.recycle = model.lsn;
        store.set_recycle_lsn(SLICE.db, model.lsn).await.unwrap();
        model.check_newest(&store).await;
    }
    let store = open(dir.path(), lazy());
    let status = settle(&store, SLICE).await;
    assert_eq!(
        status.persistent_lsn, model.lsn,
        "the chain is known without the log"
    );
    model.check_newest(&store).await;
    model.check(&store, 5, Lsn(model.lsn.0 - 1)).await;
    let fragment = model.touch(&[5]);
    store.write_logs(fragment).await.unwrap();
    model.check_newest(&store).await;
}

#[tokio::test]
async fn a_store_directory_is_what_it_says() {
    let dir = tempdir();
    let store = open(dir.path(), lazy());
    let twice = perigee_page_store::PageStoreService::open(dir.path(), lazy());
    assert!(
        matches!(&twice, Err(PageError::Refused(t)) if t.contains("in use")),
        "{twice:?}"
    );
    drop(store);
    let identity = dir.path().join("STORE");
    for (text, expected) in [
        ("perigee page-store 9\n", "format 9"),
        (
            "perigee log-store 1\n",
            "holds a log-store, expected a page-store",
        ),
        ("something", "does not say"),
    ] {
        std::fs::write(&identity, text).unwrap();
        let refused = perigee_page_store::PageStoreService::open(dir.path(), lazy());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_file(&identity).unwrap();
    std::fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
    let refused = perigee_page_store::PageStoreService::open(dir.path(), lazy());
    assert!(refused.unwrap_err().to_string().contains("holiday.jpg"));
}

#[tokio::test]
async fn the_recycle_lsn_survives() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    {
        let store = open(dir.path(), small());
        store.create_slice(SLICE, 1).await.unwrap();
        for _ in 0..20 {
            let fragment = model.touch(&[1]);
            store.write_logs(fragment).await.unwrap();
        }
        store.set_recycle_lsn(SLICE.db, Lsn(11)).await.unwrap();
        settle(&store, SLICE).await;
    }
    let store = open(dir.path(), small());
    let gone = read(&store, SLICE, &[1], Lsn(10)).await;
    assert!(matches!(gone, Err(PageError::Recycled(_))), "{gone:?}");
    for lsn in 11..=20 {
        model.check(&store, 1, Lsn(lsn)).await;
    }
}
