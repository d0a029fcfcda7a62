//! What is acknowledged is there after a restart, whatever was consolidated, dropped or torn.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::path::Path;

use perigee_page_api::{PageError, PageStore, ReadPages};
use perigee_page_store::{PageStoreService, dump_slice, read_page};
use perigee_types::{Lsn, PageId};
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
    let twice = PageStoreService::open(dir.path(), lazy());
    assert!(
        matches!(&twice, Err(PageError::Refused(t)) if t.contains("in use")),
        "{twice:?}"
    );
    drop(store);
    let identity = dir.path().join("STORE");
    for (text, expected) in [
        ("perigee page-store 9\n", "format version 9"),
        (
            "perigee log-store 1\n",
            "holds a log-store, expected a page-store",
        ),
        ("something", "does not say"),
    ] {
        std::fs::write(&identity, text).unwrap();
        let refused = PageStoreService::open(dir.path(), lazy());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_file(&identity).unwrap();
    std::fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
    let refused = PageStoreService::open(dir.path(), lazy());
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

fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let files = files(dir, "");
    files.iter().map(|f| std::fs::read(f).unwrap()).collect()
}

/// A store that has made pages 1 and 2 from log, and has more log of 2 and 3.
async fn half_consolidated(dir: &Path, model: &mut Model) -> PageStoreService {
    let store = open(dir, small());
    store.create_slice(SLICE, 1).await.unwrap();
    store.write_logs(model.touch(&[1, 2])).await.unwrap();
    settle(&store, SLICE).await;
    drop(store);
    let store = open(dir, lazy());
    store.write_logs(model.touch(&[2, 3])).await.unwrap();
    store
}

#[tokio::test]
async fn a_slice_is_dumped_without_being_touched() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let store = half_consolidated(dir.path(), &mut model).await;
    drop(store);
    let before = contents(dir.path());
    let slice = dir.path().join("db-7/slice-3");
    let dump = dump_slice(&slice).unwrap();
    for expected in [
        "db:7 slice:3 epoch 1 recycle lsn:0",
        "log-0000000000000001.seg",
        "fragment 1 lsn:0..=lsn:1 epoch 1",
        "fragment 2 lsn:1..=lsn:2 epoch 1",
        "pages-0000000000000001.seg",
        "page:2 lsn:1",
        "page:2\n  version lsn:1 in pages-0000000000000001.seg at",
        "\n  log 1 2\npage:3\n  log 2\n",
    ] {
        assert!(
            dump.text.contains(expected),
            "no {expected:?} in:\n{}",
            dump.text
        );
    }
    assert_eq!(dump.damage, []);
    assert!(before == contents(dir.path()), "the dump changed something");
    let nothing = dump_slice(dir.path());
    assert!(
        matches!(nothing, Err(PageError::NotFound(_))),
        "{nothing:?}"
    );
}

#[tokio::test]
async fn pages_are_read_from_the_files_as_the_store_would() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let store = half_consolidated(dir.path(), &mut model).await;
    store.write_logs(model.touch(&[2])).await.unwrap();
    let (db, before) = (SLICE.db, contents(dir.path()));
    for (page, lsn) in [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2)] {
        let (page, lsn) = (PageId(page), Lsn(lsn));
        let read = ReadPages {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: SLICE,
            lsn,
            pages: vec![page],
        };
        let expected = store.read_pages(read).await.unwrap().remove(0);
        let found = read_page(dir.path(), db, page, Some(lsn)).unwrap();
        assert_eq!(found, (SLICE, expected), "{page} at {lsn}");
    }
    assert_eq!(
        read_page(dir.path(), db, PageId(2), None),
        read_page(dir.path(), db, PageId(2), Some(Lsn(3)))
    );
    assert!(before == contents(dir.path()), "reading changed something");
    for (page, lsn) in [(9, None), (3, Some(Lsn(1)))] {
        let nothing = read_page(dir.path(), db, PageId(page), lsn);
        assert!(
            matches!(nothing, Err(PageError::NotFound(_))),
            "{nothing:?}"
        );
    }
    store.set_recycle_lsn(db, Lsn(2)).await.unwrap();
    let gone = read_page(dir.path(), db, PageId(2), Some(Lsn(1)));
    assert!(matches!(gone, Err(PageError::Recycled(_))), "{gone:?}");
}

#[tokio::test]
async fn damage_is_told_by_a_dump_at_its_place() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let store = open(dir.path(), small());
    store.create_slice(SLICE, 1).await.unwrap();
    store.write_logs(model.touch(&[1, 2])).await.unwrap();
    settle(&store, SLICE).await;
    // Once more, so that the first versions are known to be synced.
    store.write_logs(model.touch(&[2])).await.unwrap();
    settle(&store, SLICE).await;
    drop(store);
    let segment = files(dir.path(), "pages-").pop().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    // Inside the first page version.
    bytes[64 + 48 + 1000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let dump = dump_slice(&dir.path().join("db-7/slice-3")).unwrap();
    let [PageError::Corrupt(text)] = &dump.damage[..] else {
        panic!("{:?}", dump.damage)
    };
    assert!(
        text.contains("pages-0000000000000001.seg, offset 64: page:1: "),
        "{text}"
    );
    assert!(
        dump.text.contains("DAMAGED") && dump.text.contains("page:2"),
        "{}",
        dump.text
    );
    let end = dump.text.contains("bytes that are no whole frame");
    assert!(!end, "{}", dump.text);
    read_page(dir.path(), SLICE.db, PageId(2), None).unwrap();
    // The last version is vouched for by nothing, and the log is still there.
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[64 + 3 * (48 + 16384) - 1000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let dump = dump_slice(&dir.path().join("db-7/slice-3")).unwrap();
    assert!(
        dump.text.contains("bytes that are no whole frame"),
        "{}",
        dump.text
    );
    let remade = read_page(dir.path(), SLICE.db, PageId(2), None).unwrap();
    assert_eq!(Some(remade.1), model.page(2, model.lsn));
}
