//! Disk space: bounded under endless updates, and what happens when there is none.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use perigee_page_api::{PageError, PageStore};
use perigee_page_store::Config;
use perigee_types::{Lsn, PAGE_SIZE};
use support::{Model, SLICE, files, open, settle, small, tempdir};

fn used(dir: &Path) -> u64 {
    ["log-", "pages-"]
        .iter()
        .flat_map(|kind| files(dir, kind))
        .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
        .sum()
}

/// Twice the live bytes, and for what is in flight: a page segment and a log segment that are
/// written, the log since the recycle LSN, and the garbage that is not worth collecting.
#[tokio::test]
async fn disk_use_is_bounded_under_endless_updates() {
    const PAGES: u64 = 1000;
    const CONSTANT: u64 = 12 << 20;
    let dir = tempdir();
    let config = Config {
        consolidate_above: 1 << 20,
        ..small()
    };
    let store = open(dir.path(), config.clone());
    store.create_slice(SLICE, 1).await.unwrap();
    let mut model = Model::new(SLICE);
    let all: Vec<u64> = (1..=PAGES).collect();
    let (mut most, mut random) = (0, 12345_u64);
    for round in 0..60 {
        // All pages one after the other, then single ones here and there.
        let chunks: Vec<Vec<u64>> = if round % 2 == 0 {
            all.chunks(100).map(<[u64]>::to_vec).collect()
        } else {
            let mut next = || {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                1 + (random >> 33) % PAGES
            };
            (0..150).map(|_| vec![next()]).collect()
        };
        for pages in chunks {
            store.write_logs(model.touch(&pages)).await.unwrap();
        }
        settle(&store, SLICE).await;
        model.recycle = model.lsn;
        store.set_recycle_lsn(SLICE.db, model.lsn).await.unwrap();
        if round < 2 {
            continue;
        }
        let status = store.status().await.unwrap();
        assert_eq!(status.live_bytes, PAGES * PAGE_SIZE as u64);
        most = most.max(status.disk_bytes).max(used(dir.path()));
        assert!(
            most <= 2 * status.live_bytes + CONSTANT,
            "round {round}: {most} bytes for {} live ones",
            status.live_bytes
        );
    }
    let written: u64 = model.changes.values().map(|c| c.len() as u64).sum();
    assert!(written > 30 * PAGES, "the test updates little");
    let first = files(dir.path(), "pages-").remove(0);
    assert!(
        !first.ends_with("pages-0000000000000001.seg"),
        "nothing was collected"
    );
    model.check_newest(&store).await;
    drop(store);
    let store = open(dir.path(), config);
    model.check_newest(&store).await;
    assert_eq!(
        store.status().await.unwrap().live_bytes,
        PAGES * PAGE_SIZE as u64
    );
}

/// A file system of its own that is unmounted when the test is over.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
            .arg(dir.path())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_survived() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: a small file system can only be mounted by root");
        return;
    };
    let dir = disk.0.path().join("store");
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    let store = open(&dir, small());
    store.create_slice(SLICE, 1).await.unwrap();
    let mut model = Model::new(SLICE);
    let pages: Vec<u64> = (1..=50).collect();
    let mut refused = None;
    for _ in 0..5000 {
        let fragment = model.touch(&pages);
        match store.write_logs(fragment.clone()).await {
            Ok(_) => {}
            Err(PageError::Full(text)) => {
                assert!(text.contains("space"), "{text}");
                refused = Some(fragment);
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let refused = refused.expect("the disk gets full");
    let status = store.slice_status(SLICE).await.unwrap();
    assert_eq!(
        status.sequence,
        refused.sequence - 1,
        "what failed is not acknowledged"
    );
    let last = Lsn(model.lsn.0 - 1);
    for page in [1, 25, 50] {
        model.check(&store, page, last).await;
    }
    let again = store.write_logs(refused.clone()).await;
    assert!(matches!(again, Err(PageError::Full(_))), "{again:?}");
    fs::remove_file(&ballast).unwrap();
    store.write_logs(refused).await.unwrap();
    settle(&store, SLICE).await;
    store.set_recycle_lsn(SLICE.db, model.lsn).await.unwrap();
    model.recycle = model.lsn;
    model.check_newest(&store).await;
    drop(store);
    let store = open(&dir, small());
    assert_eq!(
        store.slice_status(SLICE).await.unwrap().sequence,
        model.sequence
    );
    model.check_newest(&store).await;
}
