//! The store on a disk that fails.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use bytes::Bytes;
use perigee_types::PlogId;

use super::*;

const PLOG: PlogKey = PlogKey {
    db: DbId(1),
    plog: PlogId(1),
};

fn append(offset: u64, lsn: u64, len: usize) -> Append {
    Append {
        plog: PLOG,
        epoch: 1,
        offset,
        first_lsn: Lsn(lsn),
        last_lsn: Lsn(lsn),
        payload: Bytes::from(vec![lsn as u8; len]),
    }
}

fn open(dir: &Path) -> LogStoreService {
    LogStoreService::open(dir, Config::default()).unwrap()
}

#[track_caller]
fn assert_disk_error<T: std::fmt::Debug>(answer: Result<T, LogError>, contains: &str) {
    match answer {
        Err(LogError::Disk(text) | LogError::Full(text)) if text.contains(contains) => {}
        other => panic!("expected a disk error with {contains:?}, got {other:?}"),
    }
}

#[tokio::test]
async fn after_a_failed_sync_the_store_refuses_everything() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.create_plog(PLOG, 1).await.unwrap();
    store.append(append(0, 1, 100)).await.unwrap();
    store.disk().faults.syncs.store(0, Ordering::SeqCst);
    assert_disk_error(store.append(append(100, 2, 100)).await, "cannot sync");

    // The fault is over, and a second sync would succeed. It is not tried.
    let stopped = "the log store has stopped: ";
    assert_disk_error(store.append(append(100, 2, 100)).await, stopped);
    assert_disk_error(store.append(append(0, 1, 100)).await, stopped);
    assert_disk_error(store.read(PLOG, 0, 100).await, stopped);
    assert_disk_error(store.list(PLOG.db).await, stopped);
    assert_disk_error(store.seal(PLOG, 1).await, stopped);
    assert_disk_error(store.delete(PLOG, 1).await, stopped);
    let other = PlogKey {
        db: DbId(9),
        plog: PlogId(1),
    };
    assert_disk_error(store.create_plog(other, 1).await, stopped);
    drop(store);

    // A new start reads what is there; the append that was not acknowledged may be.
    let store = open(dir.path());
    let entries = store.read(PLOG, 0, 1000).await.unwrap();
    assert!((1..=2).contains(&entries.len()), "{entries:?}");
    assert_eq!(entries[0].payload, vec![1; 100]);
    let end = entries.last().unwrap().next_offset;
    store
        .append(append(end, entries.len() as u64 + 1, 50))
        .await
        .unwrap();
}

/// Runs `call` on new stores, letting its first sync fail, then its second and so on, until it
/// succeeds. Returns how many syncs it needs, each of which must stop the store when it fails.
async fn count_syncs<T: std::fmt::Debug>(
    prepare: impl AsyncFn(&LogStoreService),
    call: impl AsyncFn(&LogStoreService) -> Result<T, LogError>,
) -> i64 {
    for syncs in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        prepare(&store).await;
        store.disk().faults.syncs.store(syncs, Ordering::SeqCst);
        let answer = call(&store).await;
        if answer.is_ok() {
            assert!(store.list(PLOG.db).await.is_ok());
            return syncs;
        }
        assert_disk_error(answer, "cannot sync");
        assert_disk_error(store.list(PLOG.db).await, "has stopped");
        drop(store);
        let store = open(dir.path());
        assert_eq!(store.damage(), vec![]);
        assert!(store.list(PLOG.db).await.is_ok());
    }
    unreachable!("no call needs that many syncs");
}

#[tokio::test]
async fn what_is_acknowledged_was_synced() {
    let nothing = async |_: &LogStoreService| ();
    let created = async |store: &LogStoreService| store.create_plog(PLOG, 1).await.unwrap();
    let sealed = async |store: &LogStoreService| {
        created(store).await;
        store.seal(PLOG, 1).await.unwrap();
    };
    let create = async |store: &LogStoreService| store.create_plog(PLOG, 1).await;
    // The directory that holds the database's, the database's, the epoch and its name, the PLog
    // and its name.
    assert_eq!(count_syncs(nothing, create).await, 6);
    let second = PlogKey {
        plog: PlogId(2),
        ..PLOG
    };
    assert_eq!(
        count_syncs(created, async |s| s.create_plog(second, 1).await).await,
        2
    );
    assert_eq!(
        count_syncs(created, async |s| s.append(append(0, 1, 100)).await).await,
        1
    );
    assert_eq!(
        count_syncs(created, async |s| s.append(append(0, 1, 900_000)).await).await,
        1
    );
    assert_eq!(
        count_syncs(created, async |s| s.seal(PLOG, 1).await).await,
        1
    );
    assert_eq!(
        count_syncs(created, async |s| s.seal(PLOG, 2).await).await,
        3
    );
    assert_eq!(
        count_syncs(sealed, async |s| s.delete(PLOG, 1).await).await,
        1
    );
}

#[tokio::test]
async fn a_full_disk_fails_the_append_and_nothing_else() {
    // Whatever part of the frame fits. A long payload is written in three parts.
    for (len, after, step) in [(300, 100, 13), (400_000, 100_000, 31_337)] {
        let frame = len + 64;
        for space in (0..frame).step_by(step) {
            let dir = tempfile::tempdir().unwrap();
            let store = open(dir.path());
            store.create_plog(PLOG, 1).await.unwrap();
            store.append(append(0, 1, 500)).await.unwrap();
            store.disk().faults.space.store(space, Ordering::SeqCst);
            let answer = store.append(append(500, 2, len as usize)).await;
            if answer == Ok(500 + len as u64) {
                panic!("{space} bytes are no room for {frame}");
            }
            assert_disk_error(answer, "No space left on device");
            assert_disk_error(
                store.append(append(500, 2, 200)).await,
                "No space left on device",
            );
            assert_eq!(
                store.read(PLOG, 0, 9999).await.unwrap().len(),
                1,
                "still served"
            );
            store.disk().faults.space.store(-1, Ordering::SeqCst);
            // Another, shorter append takes its place once there is room.
            store.append(append(500, 2, after)).await.unwrap();
            store
                .append(append(500 + after as u64, 3, after))
                .await
                .unwrap();
            drop(store);
            let store = open(dir.path());
            assert_eq!(store.damage(), vec![], "with room for {space} bytes");
            let entries = store.read(PLOG, 0, u64::MAX).await.unwrap();
            let lens: Vec<usize> = entries.iter().map(|e| e.payload.len()).collect();
            assert_eq!(lens, vec![500, after, after], "with room for {space} bytes");
        }
    }
}

#[tokio::test]
async fn a_crash_after_a_failed_append_leaves_what_was_acknowledged() {
    for space in [1, 63, 64, 65, 200, 363] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        store.create_plog(PLOG, 1).await.unwrap();
        store.append(append(0, 1, 500)).await.unwrap();
        store.disk().faults.space.store(space, Ordering::SeqCst);
        assert!(store.append(append(500, 2, 300)).await.is_err());
        drop(store);
        let store = open(dir.path());
        assert_eq!(store.damage(), vec![]);
        assert_eq!(store.list(PLOG.db).await.unwrap()[0].length, 500);
    }
}

#[tokio::test]
async fn a_full_disk_fails_a_seal_which_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.create_plog(PLOG, 1).await.unwrap();
    store.append(append(0, 1, 500)).await.unwrap();
    store.disk().faults.space.store(100, Ordering::SeqCst);
    assert_disk_error(store.seal(PLOG, 1).await, "No space left on device");
    assert!(!store.list(PLOG.db).await.unwrap()[0].sealed);
    store.disk().faults.space.store(-1, Ordering::SeqCst);
    store.append(append(500, 2, 10)).await.unwrap();
    assert_eq!(store.seal(PLOG, 1).await, Ok(510));
    drop(store);
    assert_eq!(open(dir.path()).seal(PLOG, 1).await, Ok(510));
}

#[tokio::test]
async fn a_plog_made_again_after_its_deletion_is_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for lsn in 1..4 {
        store.create_plog(PLOG, 1).await.unwrap();
        assert_eq!(
            store.read(PLOG, 0, 100).await,
            Ok(vec![]),
            "nothing old in the cache"
        );
        store.append(append(0, lsn, 100)).await.unwrap();
        assert_eq!(
            store.read(PLOG, 0, 100).await.unwrap()[0].payload,
            vec![lsn as u8; 100]
        );
        store.seal(PLOG, 1).await.unwrap();
        store.delete(PLOG, 1).await.unwrap();
    }
}

#[tokio::test]
async fn an_append_survives_the_caller_that_drops_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.create_plog(PLOG, 1).await.unwrap();
    for i in 0..20 {
        // Polled once: the work has been handed over.
        let dropped = store.append(append(i * 100, i + 1, 100));
        let _ = timeout(Duration::ZERO, dropped).await;
        // The repeat waits for it and is acknowledged, whichever of the two comes first.
        assert_eq!(
            store.append(append(i * 100, i + 1, 100)).await,
            Ok((i + 1) * 100)
        );
    }
    assert_eq!(store.read(PLOG, 0, 99_999).await.unwrap().len(), 20);
}

#[tokio::test]
async fn figures_tell_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.figures().databases, vec![]);
    let other = PlogKey {
        plog: PlogId(2),
        ..PLOG
    };
    store.create_plog(PLOG, 1).await.unwrap();
    store.append(append(0, 1, 100)).await.unwrap();
    store.append(append(100, 2, 50)).await.unwrap();
    store.seal(PLOG, 1).await.unwrap();
    store.create_plog(other, 1).await.unwrap();
    store.read(PLOG, 0, 100).await.unwrap();
    let figures = store.figures();
    let expected = DatabaseFigures {
        plogs: 2,
        open_plogs: 1,
        bytes: 150,
        last_lsn: Lsn(2),
        ..DatabaseFigures::of(PLOG.db)
    };
    assert_eq!(figures.databases, vec![expected]);
    assert_eq!(
        (figures.stats.appends, figures.stats.append_bytes),
        (2, 150)
    );
    assert_eq!(figures.stats.cached_reads, 1);
    assert_eq!(figures.append_time.count(), 2);
    assert!(figures.append_time.sum > Duration::ZERO);
    // Two appends, a seal, two new files at the least.
    assert!(figures.sync_time.count() >= 5, "{figures:?}");
    assert!((150..1000).contains(&figures.cache_bytes), "{figures:?}");
    assert_eq!(
        figures.cache_capacity_bytes,
        Config::default().cache_bytes as u64
    );
    store.check().unwrap();
    store.disk().faults.syncs.store(0, Ordering::SeqCst);
    assert!(
        store
            .append(Append {
                plog: other,
                ..append(0, 3, 1)
            })
            .await
            .is_err()
    );
    assert!(store.check().is_err());
}
