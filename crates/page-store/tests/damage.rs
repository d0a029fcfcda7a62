//! Torn ends and flipped bits: what was not acknowledged may go, what is damaged is named, the rest
//! is served, and no read ever gives wrong bytes.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use perigee_page_api::{PageError, PageStore, SliceKey};
use perigee_page_store::{Config, PageStoreService};
use perigee_types::{DbId, Lsn};
use proptest::prelude::*;
use support::{Model, SLICE, files, lazy, open, read, settle, small, tempdir};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_torn_end_is_cut_and_the_chain_goes_on() {
    let origin = tempdir();
    let mut model = Model::new(SLICE);
    let store = open(origin.path(), lazy());
    store.create_slice(SLICE, 1).await.unwrap();
    let mut before = 64;
    for i in 0..5 {
        let fragment = model.touch(&[1, 2 + i]);
        before += 48 + 24 + fragment.groups.len();
        store.write_logs(fragment).await.unwrap();
    }
    let last = model.touch(&[1, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]);
    let end = before + 48 + 24 + last.groups.len();
    store.write_logs(last.clone()).await.unwrap();
    drop(store);
    let segment = files(origin.path(), "log-").pop().unwrap();
    let whole = fs::read(&segment).unwrap()[..end].to_vec();
    assert!(end - before > 1200, "more than two sectors");
    for (n, cut) in (before..=end).step_by(7).enumerate() {
        let dir = tempdir();
        copy(origin.path(), dir.path());
        let mut torn = whole.clone();
        match n % 3 {
            // The file was not extended,
            0 => torn.truncate(cut),
            // or it was, but not all sectors arrived,
            1 => torn[cut.next_multiple_of(512).min(end)..].fill(0),
            // or only one sector is missing.
            _ => torn[before.max(cut & !511)..end.min((cut & !511) + 512)].fill(0),
        }
        let segment = files(dir.path(), "log-").pop().unwrap();
        fs::write(&segment, &torn).unwrap();
        let store = open(dir.path(), lazy());
        let status = store.slice_status(SLICE).await.unwrap();
        let expected = if torn == whole { 6 } else { 5 };
        assert_eq!(
            status.sequence, expected,
            "way {n}, cut at {cut} of {before}..{end}"
        );
        assert_eq!(status.persistent_lsn, Lsn(expected));
        model.check(&store, 1, Lsn(5)).await;
        model.check(&store, 6, Lsn(5)).await;
        store.write_logs(last.clone()).await.unwrap();
        drop(store);
        let store = open(dir.path(), lazy());
        assert_eq!(store.slice_status(SLICE).await.unwrap().sequence, 6);
        model.check(&store, 1, Lsn(6)).await;
        model.check(&store, 9, Lsn(6)).await;
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_last_fragment_is_no_torn_end() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let store = open(dir.path(), lazy());
    store.create_slice(SLICE, 1).await.unwrap();
    let fragment = model.touch(&[1, 2]);
    let end = 64 + 48 + 24 + fragment.groups.len() as u64;
    store.write_logs(fragment).await.unwrap();
    drop(store);
    let segment = files(dir.path(), "log-").pop().unwrap();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&segment)
        .unwrap();
    for at in [70, 100, 130, end - 20] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
        let error = open(dir.path(), lazy())
            .slice_status(SLICE)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, PageError::Corrupt(t) if t.contains("offset 64")),
            "{error}"
        );
        file.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(
        open(dir.path(), lazy())
            .slice_status(SLICE)
            .await
            .unwrap()
            .sequence,
        1
    );
}

#[tokio::test]
async fn damage_in_the_log_is_reported_and_not_cut() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let store = open(dir.path(), lazy());
    store.create_slice(SLICE, 1).await.unwrap();
    for _ in 0..5 {
        store.write_logs(model.touch(&[1])).await.unwrap();
    }
    drop(store);
    let segment = files(dir.path(), "log-").pop().unwrap();
    let before = fs::read(&segment).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(&[before[150] ^ 1], 150).unwrap();
    for _ in 0..2 {
        let store = open(dir.path(), lazy());
        for error in [
            store.slice_status(SLICE).await.unwrap_err(),
            read(&store, SLICE, &[1], Lsn(1)).await.unwrap_err(),
            store.write_logs(model.touch(&[1])).await.unwrap_err(),
            store.create_slice(SLICE, 2).await.unwrap_err(),
        ] {
            let PageError::Corrupt(text) = &error else {
                panic!("{error}")
            };
            let name = segment.file_name().unwrap().to_str().unwrap();
            assert!(text.contains("slice:3") && text.contains(name), "{text}");
            assert!(text.contains("offset 64"), "{text}");
        }
        let other = SliceKey {
            db: DbId(8),
            ..SLICE
        };
        store.create_slice(other, 1).await.unwrap();
        store.slice_status(other).await.unwrap();
    }
    assert_eq!(
        fs::read(&segment).unwrap().len(),
        before.len(),
        "nothing was cut"
    );
}

/// Page versions whose log is gone.
async fn versions_without_log(dir: &Path, model: &mut Model, pages: &[u64]) {
    let config = Config {
        log_segment_bytes: 100,
        ..small()
    };
    let store = open(dir, config);
    store.create_slice(SLICE, 1).await.unwrap();
    store.write_logs(model.touch(pages)).await.unwrap();
    settle(&store, SLICE).await;
    let first = files(dir, "log-").remove(0);
    // The next fragment goes to another segment; the first one is not needed any more.
    store.write_logs(model.touch(&[1])).await.unwrap();
    settle(&store, SLICE).await;
    model.recycle = model.lsn;
    store.set_recycle_lsn(SLICE.db, model.lsn).await.unwrap();
    while first.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_damaged_page_version_is_named_and_the_others_are_served() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let pages: Vec<u64> = (1..=40).collect();
    versions_without_log(dir.path(), &mut model, &pages).await;
    let segment = files(dir.path(), "pages-").pop().unwrap();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&segment)
        .unwrap();
    // Somewhere in the body of the third page version.
    let at = 64 + 2 * (48 + 16384) + 48 + 5000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    for round in 0..3 {
        let store = open(dir.path(), small());
        let error = read(&store, SLICE, &pages, model.lsn).await.unwrap_err();
        let PageError::Corrupt(text) = &error else {
            panic!("{error}")
        };
        let offset = format!("offset {}", 64 + 2 * (48 + 16384));
        for part in ["slice:3", "page:3", "pages-0000000000000001.seg", &offset] {
            assert!(text.contains(part), "{text} has no {part}");
        }
        for page in pages.iter().filter(|p| **p != 3) {
            model.check(&store, *page, model.lsn).await;
        }
        // Log goes on arriving; for the damaged page it cannot be consolidated.
        let pages = [3, 4 + round];
        store.write_logs(model.touch(&pages)).await.unwrap();
        settle(&store, SLICE).await;
        model.check(&store, 4 + round, model.lsn).await;
        let error = read(&store, SLICE, &[3], model.lsn).await.unwrap_err();
        assert!(matches!(error, PageError::Corrupt(_)), "{error}");
    }
}

/// What a store says of its slice, which is damaged.
async fn damage_of(dir: &Path) -> String {
    let status = open(dir, lazy()).slice_status(SLICE).await;
    match status.unwrap_err() {
        PageError::Corrupt(text) => text,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_page_segment_that_is_cut_or_missing_is_named() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    versions_without_log(dir.path(), &mut model, &[1, 2, 3]).await;
    let segment = files(dir.path(), "pages-").pop().unwrap();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(64 + 48 + 16384).unwrap();
    let text = damage_of(dir.path()).await;
    assert!(
        text.contains("are missing") && text.contains("pages-"),
        "{text}"
    );
    fs::remove_file(segment).unwrap();
    let text = damage_of(dir.path()).await;
    assert!(
        text.contains("pages-0000000000000001.seg: it is missing"),
        "{text}"
    );
}

#[tokio::test]
async fn a_damaged_page_version_is_made_again_while_its_log_is_there() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let store = open(dir.path(), small());
    store.create_slice(SLICE, 1).await.unwrap();
    let pages: Vec<u64> = (1..=40).collect();
    store.write_logs(model.touch(&pages)).await.unwrap();
    settle(&store, SLICE).await;
    drop(store);
    let segment = files(dir.path(), "pages-").pop().unwrap();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(b"damage", 64 + 2 * (48 + 16384) + 3000)
        .unwrap();
    let store = open(dir.path(), small());
    model.check_newest(&store).await;
    settle(&store, SLICE).await;
    model.check_newest(&store).await;
}

/// Every file of a store except the lock.
fn all_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_files(&path, out);
        } else if path.file_name().unwrap() != "LOCK" {
            out.push(path);
        }
    }
    out.sort();
}

/// A store with log and page versions of two databases, and what they must hold.
async fn two_databases(dir: &Path) -> [Model; 2] {
    let other = SliceKey {
        db: DbId(8),
        ..SLICE
    };
    let mut models = [Model::new(SLICE), Model::new(other)];
    let store = open(dir, small());
    for model in &mut models {
        store.create_slice(model.slice, 1).await.unwrap();
        for i in 0..40 {
            store
                .write_logs(model.touch(&[1 + i % 6, 20 + i]))
                .await
                .unwrap();
        }
        settle(&store, model.slice).await;
        model.recycle = Lsn(35);
        store
            .set_recycle_lsn(model.slice.db, Lsn(35))
            .await
            .unwrap();
    }
    drop(store);
    let store = open(dir, lazy());
    for model in &mut models {
        for i in 0..10 {
            store.write_logs(model.touch(&[1 + i % 6])).await.unwrap();
        }
    }
    models
}

/// After damage to `file`, everything is right, or an error that says where the damage is.
async fn check_damaged(dir: &Path, file: &Path, models: &[Model; 2]) -> usize {
    let store = match PageStoreService::open(dir, lazy()) {
        Ok(store) => store,
        Err(error) => {
            assert_eq!(file.file_name().unwrap(), "STORE", "{error}");
            return 1;
        }
    };
    let mut found = 0;
    for model in models {
        let hurt = file
            .to_str()
            .unwrap()
            .contains(&format!("/db-{}/", model.slice.db.0));
        let behind = match store.slice_status(model.slice).await {
            Ok(status) => status.persistent_lsn < model.lsn,
            Err(PageError::Corrupt(text)) => {
                assert!(hurt && text.contains(file.to_str().unwrap()), "{text}");
                found += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(hurt || !behind, "{} lost log", model.slice);
        for lsn in [35, 42, 50] {
            for page in [1, 4, 20, 40, 55, 59] {
                let lsn = Lsn(lsn);
                match (
                    read(&store, model.slice, &[page], lsn).await,
                    model.page(page, lsn),
                ) {
                    (Ok(got), Some(expected)) => assert!(got == [expected], "wrong bytes"),
                    (Err(PageError::NotFound(_)), None) => {}
                    (Err(PageError::Behind(_)), _) if behind => found += 1,
                    (Err(PageError::Corrupt(text)), _) if hurt => {
                        assert!(text.contains(file.to_str().unwrap()), "{text}");
                        found += 1;
                    }
                    (got, _) => panic!("page {page} at {lsn} of {}: {got:?}", model.slice),
                }
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_never_give_wrong_bytes(flips in prop::collection::vec((any::<u32>(), any::<u32>(), 0..8_u8), 12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let origin = tempdir();
        let models = runtime.block_on(two_databases(origin.path()));
        for (file, at, bit) in flips {
            let dir = tempdir();
            copy(origin.path(), dir.path());
            let mut names = Vec::new();
            all_files(dir.path(), &mut names);
            let file = &names[file as usize % names.len()];
            let mut bytes = fs::read(file).unwrap();
            // Half of the flips hit the first frames, where headers are dense.
            let range = if at % 2 == 0 { bytes.len() } else { bytes.len().min(400) };
            let at = (at / 2) as usize % range;
            bytes[at] ^= 1 << bit;
            fs::write(file, bytes).unwrap();
            runtime.block_on(check_damaged(dir.path(), file, &models));
        }
    }
}
