//! What a store finds when it opens again: seals, epochs, torn ends, damage.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use perigee_log_api::{Append, LogError, LogStore, PlogInfo, PlogKey};
use perigee_log_store::{Config, LogStoreService, dump_plog};
use perigee_types::{DbId, Lsn, PlogId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn key(plog: u64) -> PlogKey {
    PlogKey {
        db: DbId(1),
        plog: PlogId(plog),
    }
}

fn append(plog: PlogKey, offset: u64, lsn: u64, payload: &[u8]) -> Append {
    Append {
        plog,
        epoch: 1,
        offset,
        first_lsn: Lsn(lsn),
        last_lsn: Lsn(lsn),
        payload: Bytes::copy_from_slice(payload),
    }
}

fn open(dir: &Path) -> LogStoreService {
    LogStoreService::open(dir, Config::default()).unwrap()
}

fn file_of(dir: &Path, plog: u64) -> PathBuf {
    dir.join(format!("db-1/plog-{plog:016x}.log"))
}

/// Makes a PLog with these payloads.
async fn fill(store: &LogStoreService, plog: PlogKey, payloads: &[Vec<u8>]) {
    store.create_plog(plog, 1).await.unwrap();
    let mut offset = 0;
    for (i, payload) in payloads.iter().enumerate() {
        offset = store
            .append(append(plog, offset, i as u64 + 1, payload))
            .await
            .unwrap();
    }
}

/// A PLog file as text, with the first byte of each payload.
fn dump(path: &Path) -> (String, Result<(), LogError>) {
    let mut out = String::new();
    let done = dump_plog(path, &mut out, |payload, out| {
        out.push_str(&format!("            {:?}…\n", payload[0]));
    });
    (out, done)
}

/// Positions of the frames of a PLog file and of its end, from its dump.
fn positions(path: &Path) -> Vec<u64> {
    let mut dump = String::new();
    dump_plog(path, &mut dump, |_, _| {}).unwrap();
    let lines = dump.lines().skip(1);
    lines
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect()
}

#[tokio::test]
async fn seals_lengths_and_epochs_survive() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, key(1), &[vec![1; 100], vec![2; 200]]).await;
    assert_eq!(store.seal(key(1), 4).await, Ok(300));
    store.create_plog(key(2), 4).await.unwrap();
    // Seen only by a call that failed, and kept all the same.
    assert!(store.delete(key(2), 5).await.is_err());
    drop(store);

    let store = open(dir.path());
    let sealed = PlogInfo {
        plog: key(1),
        epoch: 1,
        length: 300,
        sealed: true,
        first_lsn: Lsn(1),
        last_lsn: Lsn(2),
    };
    let empty = PlogInfo {
        plog: key(2),
        epoch: 4,
        length: 0,
        sealed: false,
        first_lsn: Lsn(0),
        last_lsn: Lsn(0),
    };
    assert_eq!(store.list(DbId(1)).await, Ok(vec![sealed, empty]));
    assert!(matches!(
        store.append(append(key(1), 300, 3, b"x")).await,
        Err(LogError::Fenced(_))
    ));
    let old = Append {
        epoch: 4,
        ..append(key(2), 0, 3, b"x")
    };
    assert!(matches!(
        store.append(old.clone()).await,
        Err(LogError::Fenced(_))
    ));
    assert_eq!(store.append(Append { epoch: 5, ..old }).await, Ok(1));
    assert_eq!(store.seal(key(1), 5).await, Ok(300));

    // The fence outlives the PLogs.
    assert_eq!(store.seal(key(2), 5).await, Ok(1));
    store.delete(key(1), 5).await.unwrap();
    store.delete(key(2), 6).await.unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.list(DbId(1)).await, Ok(vec![]));
    assert!(matches!(
        store.create_plog(key(3), 5).await,
        Err(LogError::Fenced(_))
    ));
    store.create_plog(key(3), 6).await.unwrap();
}

#[tokio::test]
async fn the_last_append_can_be_repeated_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, key(1), &[vec![1; 100], vec![2; 200]]).await;
    drop(store);
    let store = open(dir.path());
    assert_eq!(
        store.append(append(key(1), 100, 2, &[2; 200])).await,
        Ok(300)
    );
    let other = store.append(append(key(1), 100, 2, &[3; 200])).await;
    assert!(matches!(other, Err(LogError::Refused(_))), "{other:?}");
    assert_eq!(store.append(append(key(1), 300, 3, b"x")).await, Ok(301));
}

#[tokio::test]
async fn an_append_torn_at_any_byte_is_removed_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let last = vec![7; 300];
    fill(&store, key(1), &[vec![1; 100], last.clone()]).await;
    drop(store);
    let path = file_of(dir.path(), 1);
    let [_, start, end] = positions(&path)[..] else {
        panic!("two frames and an end")
    };
    let mut good = fs::read(&path).unwrap();
    good.truncate(end as usize + 5000);
    for cut in start..end {
        // Half of the times in space that was made ready.
        let mut torn = good.clone();
        if cut % 2 == 0 {
            torn[cut as usize..].fill(0);
        } else {
            torn.truncate(cut as usize);
        }
        fs::write(&path, &torn).unwrap();
        let store = open(dir.path());
        assert_eq!(store.damage(), vec![], "cut at {cut}");
        let entries = store.read(key(1), 0, 9999).await.unwrap();
        assert_eq!(entries.len(), 1, "cut at {cut}");
        // The place is used again, by something shorter.
        assert_eq!(
            store.append(append(key(1), 100, 2, &[8; 33])).await,
            Ok(133)
        );
        drop(store);
        let store = open(dir.path());
        let entries = store.read(key(1), 0, 9999).await.unwrap();
        assert_eq!(entries[1].payload, vec![8; 33], "cut at {cut}");
    }
}

#[tokio::test]
async fn nothing_of_a_torn_append_stays_behind() {
    // Long appends go to space that is not filled with zeros first.
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, key(1), &[vec![1; 100], vec![7; 900_000]]).await;
    drop(store);
    let path = file_of(dir.path(), 1);
    let [_, start, end] = positions(&path)[..] else {
        panic!("two frames and an end")
    };
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 64], end - 64).unwrap();
    let store = open(dir.path());
    assert_eq!(fs::metadata(&path).unwrap().len(), start, "it is cut off");
    store
        .append(append(key(1), 100, 2, &vec![8; 300_000]))
        .await
        .unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.damage(), vec![]);
    assert_eq!(store.list(DbId(1)).await.unwrap()[0].length, 300_100);
}

#[tokio::test]
async fn flipped_bits_are_found_and_named_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(2020);
    let store = open(dir.path());
    let payloads: Vec<Vec<u8>> = (0..20)
        .map(|_| {
            let len = random.random_range(1..3000);
            (0..len).map(|_| random.random()).collect()
        })
        .collect();
    fill(&store, key(1), &payloads).await;
    fill(&store, key(2), &payloads).await;
    store.seal(key(2), 1).await.unwrap();
    let elsewhere = PlogKey {
        db: DbId(2),
        plog: PlogId(1),
    };
    fill(&store, elsewhere, &payloads).await;
    drop(store);

    for round in 0..40 {
        let victim = round % 2 + 1;
        let path = file_of(dir.path(), victim);
        let positions = positions(&path);
        let at = random.random_range(0..*positions.last().unwrap());
        let frame = positions.iter().rfind(|p| **p <= at).copied().unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        let flipped = byte[0] ^ (1 << random.random_range(0..8));
        file.write_all_at(&[flipped], at).unwrap();
        let before = fs::read(&path).unwrap();

        let store = open(dir.path());
        let expected = format!("{} at byte {frame}: ", path.display());
        let named = |answer: Result<(), LogError>| match answer {
            Err(LogError::Corrupt(text)) if text.starts_with(&expected) => {}
            other => panic!("flip at {at}: expected {expected:?}, got {other:?}"),
        };
        assert_eq!(store.damage().len(), 1);
        named(Err(store.damage()[0].clone()));
        named(store.read(key(victim), 0, 10).await.map(drop));
        named(
            store
                .append(append(key(victim), 0, 1, b"x"))
                .await
                .map(drop),
        );
        named(store.seal(key(victim), 1).await.map(drop));
        named(store.create_plog(key(victim), 1).await);
        named(store.delete(key(victim), 1).await);
        named(store.list(DbId(1)).await.map(drop));
        assert_eq!(
            store
                .read(key(3 - victim), 0, u64::MAX)
                .await
                .unwrap()
                .len(),
            20
        );
        assert_eq!(store.list(DbId(2)).await.unwrap().len(), 1);
        assert_eq!(store.read(elsewhere, 0, u64::MAX).await.unwrap().len(), 20);
        drop(store);
        assert!(
            fs::read(&path).unwrap() == before,
            "a damaged file is left as it is"
        );

        file.write_all_at(&byte, at).unwrap();
        let store = open(dir.path());
        assert_eq!(store.damage(), vec![]);
    }
}

#[tokio::test]
async fn damage_that_appears_later_is_found_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        cache_bytes: 0,
        ..Config::default()
    };
    let store = LogStoreService::open(dir.path(), config).unwrap();
    fill(
        &store,
        key(1),
        &[vec![1; 1000], vec![2; 1000], vec![3; 1000]],
    )
    .await;
    let path = file_of(dir.path(), 1);
    let second = positions(&path)[1];
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"rot", second + 500).unwrap();
    assert_eq!(store.read(key(1), 0, 10).await.unwrap().len(), 1);
    assert_eq!(store.read(key(1), 2000, 10).await.unwrap().len(), 1);
    let answer = store.read(key(1), 1000, 10).await;
    let expected = format!("{} at byte {second}: ", path.display());
    assert!(
        matches!(&answer, Err(LogError::Corrupt(t)) if t.starts_with(&expected)),
        "{answer:?}"
    );
}

#[tokio::test]
async fn files_out_of_place_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, key(1), &[vec![1; 100]]).await;
    drop(store);
    fs::copy(file_of(dir.path(), 1), file_of(dir.path(), 2)).unwrap();
    fs::write(
        dir.path().join("db-1/plog-0000000000000003.log.tmp"),
        "half",
    )
    .unwrap();
    fs::write(dir.path().join("db-1/notes.txt"), "mine").unwrap();
    let store = open(dir.path());
    let answer = store.read(key(2), 0, 10).await;
    assert!(
        matches!(&answer, Err(LogError::Corrupt(t)) if t.ends_with("it belongs to db:1 plog:1")),
        "{answer:?}"
    );
    assert!(store.read(key(1), 0, 10).await.is_ok());
    assert!(
        !dir.path()
            .join("db-1/plog-0000000000000003.log.tmp")
            .exists()
    );
    assert!(dir.path().join("db-1/notes.txt").exists());
}

#[tokio::test]
async fn a_lost_or_damaged_epoch_refuses_its_database_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, key(1), &[vec![1; 100]]).await;
    let other = PlogKey {
        db: DbId(2),
        plog: PlogId(1),
    };
    fill(&store, other, &[vec![1; 100]]).await;
    drop(store);
    let path = dir.path().join("db-1/EPOCH");
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[17] ^= 1;
    for content in [Some(bad), None] {
        match content {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let store = open(dir.path());
        for answer in [
            store.read(key(1), 0, 10).await.map(drop),
            store.create_plog(key(9), 9).await,
            store.list(DbId(1)).await.map(drop),
        ] {
            let named = path.display().to_string();
            assert!(
                matches!(&answer, Err(LogError::Corrupt(t)) if t.contains(&named)),
                "{answer:?}"
            );
        }
        assert_eq!(store.damage().len(), 1);
        assert!(store.read(other, 0, 10).await.is_ok());
    }
    fs::write(&path, good).unwrap();
    assert!(open(dir.path()).read(key(1), 0, 10).await.is_ok());
}

#[tokio::test]
async fn a_dump_tells_what_a_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, key(0xab), &[vec![1; 100], vec![2; 5000]]).await;
    let path = file_of(dir.path(), 0xab);
    let mut torn = fs::read(&path).unwrap();
    store.seal(key(0xab), 2).await.unwrap();
    let expected = "db:1 plog:171 epoch 1
      4096  entry  offset 0 bytes 100 lsn:1..=lsn:1 epoch 1
            1…
      4288  entry  offset 100 bytes 5000 lsn:2..=lsn:2 epoch 1
            2…
      9408  seal   offset 5100 epoch 2
      9536  end, sealed, 5100 bytes of payload, then nothing
";
    assert_eq!(dump(&path), (expected.to_owned(), Ok(())));
    torn[9400..].fill(0);
    fs::write(&path, &torn).unwrap();
    let (text, done) = dump(&path);
    assert!(
        done.is_ok()
            && text.ends_with("4288  end, open, 100 bytes of payload, then an unfinished append\n"),
        "{text}"
    );
    torn[4100] ^= 1;
    fs::write(&path, torn).unwrap();
    let (text, done) = dump(&path);
    assert_eq!(text, "db:1 plog:171 epoch 1\n");
    let named = format!("{} at byte 4096", path.display());
    assert!(
        matches!(&done, Err(LogError::Corrupt(t)) if t.contains(&named)),
        "{done:?}"
    );
}
