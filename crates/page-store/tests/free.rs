//! Freed pages: they cannot be read any more, their versions go when nobody may read them, nothing of
//! them comes back with a restart, and a slice without pages takes next to nothing.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use perigee_page_api::{Fragment, PageError, PageStore};
use perigee_page_store::PageStoreService;
use perigee_testkit::Rng;
use perigee_types::{Lsn, PAGE_SIZE};
use support::{Model, SLICE, files, open, read, settle, small, tempdir};

fn used(dir: &Path) -> u64 {
    let files = ["log-", "pages-"].iter().flat_map(|kind| files(dir, kind));
    files.map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// Waits until the files take no more than so many bytes.
async fn shrinks_to(dir: &Path, most: u64, when: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while used(dir) > most {
        let used = used(dir);
        assert!(
            Instant::now() < end,
            "{used} bytes, {most} expected, {when}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn recycle(store: &PageStoreService, model: &mut Model) {
    settle(store, SLICE).await;
    model.recycle = model.lsn;
    store.set_recycle_lsn(SLICE.db, model.lsn).await.unwrap();
}

#[tokio::test]
async fn a_freed_page_costs_nothing_once_nobody_may_read_it() {
    const PAGES: u64 = 500;
    let dir = tempdir();
    let store = open(dir.path(), small());
    store.create_slice(SLICE, 1).await.unwrap();
    let mut model = Model::new(SLICE);
    let all: Vec<u64> = (1..=PAGES).collect();
    for pages in all.chunks(100) {
        store.write_logs(model.touch(pages)).await.unwrap();
    }
    recycle(&store, &mut model).await;
    let before = model.lsn;
    let live = || async { store.status().await.unwrap().live_bytes };
    assert_eq!(live().await, PAGES * PAGE_SIZE as u64);

    for pages in all.chunks(100) {
        store.write_logs(model.free(pages)).await.unwrap();
    }
    settle(&store, SLICE).await;
    assert_eq!(live().await, 0);
    for page in [1, 77, PAGES] {
        model.check(&store, page, before).await;
        let gone = read(&store, SLICE, &[page], model.lsn).await;
        assert!(matches!(gone, Err(PageError::NotFound(_))), "{gone:?}");
    }
    recycle(&store, &mut model).await;
    shrinks_to(dir.path(), 300 << 10, "all pages are freed").await;

    // Used again, it is another page.
    store.write_logs(model.touch(&[7, 8])).await.unwrap();
    recycle(&store, &mut model).await;
    model.check_newest(&store).await;
    drop(store);
    let store = open(dir.path(), small());
    model.check_newest(&store).await;
    assert_eq!(
        store.status().await.unwrap().live_bytes,
        2 * PAGE_SIZE as u64
    );
    let gone = read(&store, SLICE, &[9], model.lsn).await;
    assert!(matches!(gone, Err(PageError::NotFound(_))), "{gone:?}");
}

/// Freed while it is on no segment yet, used again before that is consolidated, freed behind an old reader.
#[tokio::test]
async fn pages_that_come_and_go_are_what_they_were_at_every_lsn() {
    for seed in 1..=6 {
        let dir = tempdir();
        let mut store = open(dir.path(), small());
        store.create_slice(SLICE, 1).await.unwrap();
        let (mut model, mut rng) = (Model::new(SLICE), Rng(seed));
        let mut used = Vec::new();
        for _ in 0..300 {
            let page = rng.between(1, 40) as u64;
            let fragment = match used.iter().position(|p| *p == page) {
                Some(at) if rng.chance(2) => {
                    used.swap_remove(at);
                    model.free(&[page])
                }
                Some(_) => model.touch(&[page]),
                None => {
                    used.push(page);
                    model.touch(&[page])
                }
            };
            store.write_logs(fragment).await.unwrap();
            match rng.between(0, 40) {
                0 => recycle(&store, &mut model).await,
                1 => {
                    drop(store);
                    store = open(dir.path(), small());
                }
                2 => drop(settle(&store, SLICE).await),
                _ => {}
            }
            let lsn = Lsn(rng.between(model.recycle.0 as i64, model.lsn.0 as i64) as u64);
            model.check(&store, rng.between(1, 40) as u64, lsn).await;
        }
        recycle(&store, &mut model).await;
        model.check_newest(&store).await;
        let live = used.len() as u64 * PAGE_SIZE as u64;
        assert_eq!(
            store.status().await.unwrap().live_bytes,
            live,
            "seed {seed}"
        );
        if !used.is_empty() {
            store.write_logs(model.free(&used)).await.unwrap();
        }
        recycle(&store, &mut model).await;
        drop(store);
        let store = open(dir.path(), small());
        assert_eq!(store.status().await.unwrap().live_bytes, 0, "seed {seed}");
        // A page segment that is open, garbage that is not worth a rewrite, and some log.
        shrinks_to(dir.path(), 1536 << 10, "nothing is left").await;
        let pages = store.figures().slices[0].pages;
        assert_eq!(pages, 0, "seed {seed}");
    }
}

/// Waits until the slice is deleted.
async fn deleted(store: &PageStoreService, model: &Model, epoch: u64) {
    let end = Instant::now() + Duration::from_secs(10);
    while !store.delete_slice(SLICE, epoch, model.lsn).await.unwrap() {
        assert!(Instant::now() < end, "it is kept");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_slice_without_pages_can_be_deleted() {
    let dir = tempdir();
    let mut store = open(dir.path(), small());
    let home = dir.path().join("db-7");
    let slices = || {
        let names = fs::read_dir(&home).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name != "RECYCLE" && name != "EPOCH");
        names
    };
    let mut end = Lsn(1);
    for life in 1..=3 {
        store.create_slice(SLICE, life).await.unwrap();
        let mut model = Model::new(SLICE);
        (model.epoch, model.lsn) = (life, end);
        let nothing = Fragment {
            last_lsn: end,
            ..model.fragment(Lsn(0), &[])
        };
        store.write_logs(nothing).await.unwrap();
        for _ in 0..40 {
            store.write_logs(model.touch(&[1, 2, 3])).await.unwrap();
        }
        settle(&store, SLICE).await;
        store.write_logs(model.free(&[1, 3])).await.unwrap();
        recycle(&store, &mut model).await;
        let kept = store.delete_slice(SLICE, life, model.lsn).await.unwrap();
        assert!(!kept, "page 2 is there");
        model.check_newest(&store).await;
        // Versions that somebody may read.
        let before = model.lsn;
        store.write_logs(model.free(&[2])).await.unwrap();
        settle(&store, SLICE).await;
        let kept = store.delete_slice(SLICE, life, model.lsn).await.unwrap();
        assert!(!kept, "page 2 may be read as of {before}");
        model.check(&store, 2, before).await;
        recycle(&store, &mut model).await;
        if life == 2 {
            drop(store);
            store = open(dir.path(), small());
        }
        let status = store.slice_status(SLICE).await.unwrap();
        assert_eq!(status.pages, 0);
        deleted(&store, &model, life).await;
        end = model.lsn;
        assert_eq!(slices(), [""; 0]);
        // What a crash leaves of one.
        fs::create_dir(home.join("gone-3")).unwrap();
        fs::write(home.join("gone-3/SLICE"), "what it was").unwrap();
        if life == 1 {
            // The epoch of the deletion is remembered.
            drop(store);
            store = open(dir.path(), small());
            assert_eq!(slices(), [""; 0]);
            let late = store.create_slice(SLICE, 0).await;
            assert!(matches!(late, Err(PageError::Fenced(_))), "{late:?}");
        }
        let status = store.slice_status(SLICE).await;
        assert!(matches!(status, Err(PageError::NotFound(_))), "{status:?}");
    }
}
