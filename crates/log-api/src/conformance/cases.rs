//! The cases of the conformance suite, one function a rule.

use std::time::{Duration, Instant};

use bytes::Bytes;
use perigee_types::{DbId, Lsn, PlogId};

use crate::{Append, LogEntry, LogError, LogStore, MAX_APPEND, PLOG_SIZE, PlogInfo, PlogKey};

pub(super) async fn run(store: &dyn LogStore, first_db: u32) {
    let db = |n: u32| DbId(first_db + n);
    an_unknown_database_is_empty(store, db(0)).await;
    a_plog_begins_empty_and_open(store, db(1)).await;
    appends_are_read_back(store, db(2)).await;
    a_wrong_offset_is_refused(store, db(3)).await;
    an_exact_repeat_is_acknowledged(store, db(4)).await;
    lsns_follow_each_other(store, db(5)).await;
    reads_are_bounded(store, db(6)).await;
    reads_begin_at_entries(store, db(7)).await;
    a_sealed_plog_is_final(store, db(8)).await;
    an_old_epoch_is_refused(store, db(9)).await;
    a_new_epoch_counts_even_if_its_call_fails(store, db(10)).await;
    databases_do_not_meet(store, db(11), db(12)).await;
    only_sealed_plogs_are_deleted(store, db(13)).await;
    sizes_are_limited(store, db(14)).await;
    appends_to_several_plogs_run_together(store, db(15)).await;
    one_of_many_racing_appends_wins(store, db(16)).await;
    every_opening_has_an_epoch_of_its_own(store, db(17)).await;
    a_new_epoch_is_told_at_once(store, db(18)).await;
}

fn key(db: DbId, plog: u64) -> PlogKey {
    PlogKey {
        db,
        plog: PlogId(plog),
    }
}

/// An append of one group at `offset`.
fn one(plog: PlogKey, epoch: u64, offset: u64, lsn: u64, payload: &[u8]) -> Append {
    Append {
        plog,
        epoch,
        offset,
        first_lsn: Lsn(lsn),
        last_lsn: Lsn(lsn),
        payload: Bytes::copy_from_slice(payload),
    }
}

async fn created(store: &dyn LogStore, plog: PlogKey) -> PlogKey {
    store
        .create_plog(plog, 1)
        .await
        .expect("a new PLog can be created");
    plog
}

async fn appended(store: &dyn LogStore, append: Append) -> u64 {
    let offset = append.offset;
    store
        .append(append)
        .await
        .unwrap_or_else(|e| panic!("append at {offset} is valid: {e}"))
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(answer: Result<T, LogError>, what: &str) {
    assert!(
        matches!(answer, Err(LogError::Refused(_))),
        "{what}: {answer:?}"
    );
}

#[track_caller]
fn assert_fenced<T: std::fmt::Debug>(answer: Result<T, LogError>, what: &str) {
    assert!(
        matches!(answer, Err(LogError::Fenced(_))),
        "{what}: {answer:?}"
    );
}

#[track_caller]
fn assert_not_found<T: std::fmt::Debug>(answer: Result<T, LogError>, what: &str) {
    assert!(
        matches!(answer, Err(LogError::NotFound(_))),
        "{what}: {answer:?}"
    );
}

async fn an_unknown_database_is_empty(store: &dyn LogStore, db: DbId) {
    assert_eq!(
        store.list(db).await,
        Ok(vec![]),
        "list of an unknown database"
    );
    let plog = key(db, 1);
    assert_not_found(store.append(one(plog, 1, 0, 1, b"x")).await, "append");
    assert_not_found(store.read(plog, 0, 100).await, "read");
    assert_not_found(store.seal(plog, 1).await, "seal");
    assert_not_found(store.delete(plog, 1).await, "delete");
    assert_eq!(store.list(db).await, Ok(vec![]), "list after failed calls");
}

async fn a_plog_begins_empty_and_open(store: &dyn LogStore, db: DbId) {
    let second = created(store, key(db, u64::MAX)).await;
    let first = created(store, key(db, 7)).await;
    store
        .create_plog(first, 1)
        .await
        .expect("creating an empty open PLog again succeeds");
    let empty = |plog| PlogInfo {
        plog,
        epoch: 1,
        length: 0,
        sealed: false,
        first_lsn: Lsn(0),
        last_lsn: Lsn(0),
    };
    assert_eq!(
        store.list(db).await,
        Ok(vec![empty(first), empty(second)]),
        "list in id order"
    );
    assert_eq!(
        store.read(first, 0, 100).await,
        Ok(vec![]),
        "read of an empty PLog"
    );
    assert_not_found(store.read(key(db, 8), 0, 100).await, "read of another PLog");
    appended(store, one(first, 1, 0, 1, b"x")).await;
    assert_refused(
        store.create_plog(first, 1).await,
        "create over a PLog with entries",
    );
}

async fn appends_are_read_back(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    let mut expected = Vec::new();
    let mut offset = 0;
    let mut lsn = 100;
    for (i, len) in [1_usize, 63, 64, 65, 511, 512, 4096, 100_000, 5, 300_000]
        .iter()
        .enumerate()
    {
        // Bytes of zero in front, behind and throughout are as good as others.
        let payload: Vec<u8> = (0..*len)
            .map(|b| if i % 3 == 0 { 0 } else { (b * i) as u8 })
            .collect();
        let (first_lsn, last_lsn) = (Lsn(lsn), Lsn(lsn + i as u64));
        let payload = Bytes::from(payload);
        let append = Append {
            plog,
            epoch: 1,
            offset,
            first_lsn,
            last_lsn,
            payload: payload.clone(),
        };
        let end = appended(store, append).await;
        assert_eq!(end, offset + *len as u64, "the end counts payload bytes");
        expected.push(LogEntry {
            offset,
            next_offset: end,
            first_lsn,
            last_lsn,
            payload,
        });
        (offset, lsn) = (end, last_lsn.0 + 1);
    }
    assert_eq!(
        store.read(plog, 0, u64::MAX).await,
        Ok(expected.clone()),
        "read of everything"
    );
    for (i, entry) in expected.iter().enumerate() {
        let answer = store.read(plog, entry.offset, u64::MAX).await;
        assert_eq!(answer, Ok(expected[i..].to_vec()), "read from entry {i}");
    }
    assert_eq!(
        store.read(plog, offset, u64::MAX).await,
        Ok(vec![]),
        "read at the end"
    );
    let info = PlogInfo {
        plog,
        epoch: 1,
        length: offset,
        sealed: false,
        first_lsn: Lsn(100),
        last_lsn: Lsn(lsn - 1),
    };
    assert_eq!(store.list(db).await, Ok(vec![info]), "list");
}

async fn a_wrong_offset_is_refused(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    assert_refused(
        store.append(one(plog, 1, 1, 1, b"abc")).await,
        "append beyond an empty PLog",
    );
    appended(store, one(plog, 1, 0, 1, b"abc")).await;
    for offset in [0, 1, 2, 4, u64::MAX] {
        let answer = store.append(one(plog, 1, offset, 2, b"def")).await;
        assert_refused(answer, &format!("append at {offset} of a PLog of length 3"));
    }
    assert_eq!(
        store.read(plog, 0, 100).await.map(|e| e.len()),
        Ok(1),
        "nothing was appended"
    );
    assert_eq!(appended(store, one(plog, 1, 3, 2, b"def")).await, 6);
}

async fn an_exact_repeat_is_acknowledged(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    appended(store, one(plog, 1, 0, 1, b"abc")).await;
    let last = one(plog, 1, 3, 2, b"defg");
    assert_eq!(appended(store, last.clone()).await, 7);
    assert_eq!(
        appended(store, last.clone()).await,
        7,
        "the repeat gets the same answer"
    );
    assert_refused(
        store.append(one(plog, 1, 3, 2, b"deff")).await,
        "repeat with other bytes",
    );
    assert_refused(
        store.append(one(plog, 1, 3, 2, b"def")).await,
        "repeat with fewer bytes",
    );
    assert_refused(
        store.append(one(plog, 1, 3, 3, b"defg")).await,
        "repeat with another LSN",
    );
    assert_refused(
        store.append(one(plog, 1, 0, 1, b"abc")).await,
        "repeat of an older append",
    );
    assert_eq!(
        store.read(plog, 0, 100).await.map(|e| e.len()),
        Ok(2),
        "two entries are stored"
    );
    assert_eq!(appended(store, one(plog, 1, 7, 3, b"h")).await, 8);
    assert_refused(store.append(last).await, "repeat after another append");
}

async fn lsns_follow_each_other(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    assert_refused(store.append(one(plog, 1, 0, 0, b"a")).await, "LSN 0");
    let reversed = Append {
        last_lsn: Lsn(4),
        ..one(plog, 1, 0, 5, b"a")
    };
    assert_refused(store.append(reversed).await, "last LSN below the first");
    appended(
        store,
        Append {
            last_lsn: Lsn(9),
            ..one(plog, 1, 0, 5, b"a")
        },
    )
    .await;
    for lsn in [4, 5, 9, 11] {
        assert_refused(
            store.append(one(plog, 1, 1, lsn, b"b")).await,
            &format!("{lsn} after 9"),
        );
    }
    appended(store, one(plog, 1, 1, 10, b"b")).await;
}

async fn reads_are_bounded(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    for i in 0..10 {
        appended(store, one(plog, 1, i * 1000, i + 1, &[i as u8; 1000])).await;
    }
    for (max, count) in [
        (0, 1),
        (1, 1),
        (999, 1),
        (1000, 1),
        (2500, 2),
        (9999, 9),
        (10_000, 10),
    ] {
        let entries = store.read(plog, 0, max).await.expect("a valid read");
        let bytes: usize = entries.iter().map(|e| e.payload.len()).sum();
        assert!(!entries.is_empty(), "at least one entry for {max} bytes");
        assert!(bytes as u64 <= max.max(1000), "{bytes} bytes for {max}");
        assert!(
            entries.len() <= count,
            "{} entries for {max} bytes",
            entries.len()
        );
    }
    // However a store cuts its answers, following them shows everything once.
    let mut offset = 0;
    let mut seen = Vec::new();
    loop {
        let entries = store.read(plog, offset, 3500).await.expect("a valid read");
        let Some(last) = entries.last() else { break };
        offset = last.next_offset;
        seen.extend(entries.iter().map(|e| e.payload[0]));
    }
    assert_eq!(
        (offset, seen),
        (10_000, (0..10).collect()),
        "reads in steps"
    );
}

async fn reads_begin_at_entries(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    assert_refused(store.read(plog, 1, 100).await, "read beyond an empty PLog");
    appended(store, one(plog, 1, 0, 1, b"abcdef")).await;
    appended(store, one(plog, 1, 6, 2, b"ghi")).await;
    for offset in [1, 5, 7, 8, 10, 4096, u64::MAX] {
        assert_refused(
            store.read(plog, offset, 100).await,
            &format!("read at {offset}"),
        );
    }
}

async fn a_sealed_plog_is_final(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    let last = one(plog, 1, 0, 1, b"abc");
    appended(store, last.clone()).await;
    assert_eq!(store.seal(plog, 1).await, Ok(3), "seal tells the length");
    assert_eq!(store.seal(plog, 1).await, Ok(3), "and again");
    assert_refused(
        store.append(one(plog, 1, 3, 2, b"d")).await,
        "append to a sealed PLog",
    );
    assert_refused(
        store.append(last).await,
        "repeat of an append to a sealed PLog",
    );
    assert_refused(
        store.create_plog(plog, 1).await,
        "create over a sealed PLog",
    );
    let info = PlogInfo {
        plog,
        epoch: 1,
        length: 3,
        sealed: true,
        first_lsn: Lsn(1),
        last_lsn: Lsn(1),
    };
    assert_eq!(store.list(db).await, Ok(vec![info]), "list");
    assert_eq!(
        store.read(plog, 0, 100).await.map(|e| e.len()),
        Ok(1),
        "it is still read"
    );
    assert_eq!(
        store.read(plog, 3, 100).await,
        Ok(vec![]),
        "read at its end"
    );

    let empty = created(store, key(db, 2)).await;
    assert_eq!(
        store.seal(empty, 1).await,
        Ok(0),
        "an empty PLog can be sealed"
    );
    assert_refused(
        store.create_plog(empty, 1).await,
        "create over an empty sealed PLog",
    );
}

async fn an_old_epoch_is_refused(store: &dyn LogStore, db: DbId) {
    let old = created(store, key(db, 1)).await;
    appended(store, one(old, 1, 0, 1, b"abc")).await;
    let new = key(db, 2);
    store
        .create_plog(new, 5)
        .await
        .expect("a greater epoch is accepted");
    assert_fenced(
        store.append(one(old, 4, 3, 2, b"d")).await,
        "append with an old epoch",
    );
    assert_fenced(
        store.append(one(new, 4, 0, 2, b"d")).await,
        "append to the new PLog",
    );
    assert_fenced(
        store.append(one(old, 1, 0, 1, b"abc")).await,
        "repeat with an old epoch",
    );
    assert_fenced(
        store.create_plog(key(db, 3), 4).await,
        "create with an old epoch",
    );
    assert_fenced(
        store.create_plog(new, 4).await,
        "create again with an old epoch",
    );
    assert_fenced(store.seal(old, 4).await, "seal with an old epoch");
    assert_eq!(store.seal(old, 5).await, Ok(3), "seal with the new epoch");
    assert_fenced(store.delete(old, 4).await, "delete with an old epoch");
    appended(store, one(new, 5, 0, 2, b"d")).await;
    appended(store, one(new, 6, 1, 3, b"e")).await;
    assert_fenced(
        store.append(one(new, 5, 2, 4, b"f")).await,
        "epochs rise with appends too",
    );
    assert_refused(
        store.append(one(new, 7, 1, 3, b"e")).await,
        "a repeat by another writer",
    );
}

async fn a_new_epoch_counts_even_if_its_call_fails(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    assert_not_found(store.seal(key(db, 9), 3).await, "seal of an unknown PLog");
    assert_fenced(
        store.append(one(plog, 2, 0, 1, b"a")).await,
        "the failed seal had epoch 3",
    );
    assert_refused(
        store.append(one(plog, 4, 7, 1, b"a")).await,
        "append at a wrong offset",
    );
    assert_fenced(
        store.append(one(plog, 3, 0, 1, b"a")).await,
        "the failed append had epoch 4",
    );
    appended(store, one(plog, 4, 0, 1, b"a")).await;
}

async fn every_opening_has_an_epoch_of_its_own(store: &dyn LogStore, db: DbId) {
    let first = store.begin_epoch(db).await.expect("of an unknown database");
    assert!(first > 0, "epochs begin above 0");
    let (second, third) = tokio::join!(store.begin_epoch(db), store.begin_epoch(db));
    let (second, third) = (second.expect("again"), third.expect("at once"));
    assert!(first < second.min(third) && second != third, "epochs rise");
    let current = second.max(third);
    assert_fenced(store.create_plog(key(db, 1), current - 1).await, "create");
    let plog = key(db, 77);
    store
        .create_plog(plog, current)
        .await
        .expect("the current epoch writes");
    let above = store.begin_epoch(db).await.expect("a PLog is there");
    assert!(above > 77, "epochs are above the ids of all PLogs: {above}");
    assert_fenced(store.append(one(plog, current, 0, 1, b"x")).await, "append");
    assert_fenced(store.seal(plog, current).await, "seal");
    assert_eq!(
        store.seal(plog, above).await,
        Ok(0),
        "seal by the new writer"
    );
}

async fn a_new_epoch_is_told_at_once(store: &dyn LogStore, db: DbId) {
    let wait = Duration::from_millis(20);
    assert_eq!(store.await_epoch(db, 0, wait).await, Ok(0), "nothing known");
    let mine = store.begin_epoch(db).await.expect("an epoch");
    assert_eq!(
        store.await_epoch(db, mine, wait).await,
        Ok(mine),
        "no other"
    );
    let begin = Instant::now();
    let (told, next) = tokio::join!(
        store.await_epoch(db, mine, Duration::from_secs(60)),
        async {
            tokio::time::sleep(wait).await;
            store.begin_epoch(db).await
        }
    );
    let next = next.expect("another epoch");
    assert_eq!(told, Ok(next), "the new epoch is told");
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "and not at the end"
    );
    let told = store.await_epoch(db, mine, Duration::from_secs(60)).await;
    assert_eq!(told, Ok(next), "to who asks later, too");
}

async fn databases_do_not_meet(store: &dyn LogStore, one_db: DbId, other_db: DbId) {
    let (mine, theirs) = (created(store, key(one_db, 1)).await, key(other_db, 1));
    store
        .create_plog(theirs, 50)
        .await
        .expect("epochs are per database");
    appended(store, one(mine, 1, 0, 1, b"mine")).await;
    appended(store, one(theirs, 50, 0, 7, b"theirs")).await;
    let payload = async |plog| store.read(plog, 0, 100).await.map(|e| e[0].payload.clone());
    assert_eq!(payload(mine).await, Ok(Bytes::from_static(b"mine")));
    assert_eq!(payload(theirs).await, Ok(Bytes::from_static(b"theirs")));
    assert_eq!(store.list(one_db).await.map(|l| l.len()), Ok(1));
}

async fn only_sealed_plogs_are_deleted(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    let next = created(store, key(db, 2)).await;
    appended(store, one(plog, 1, 0, 1, b"abc")).await;
    assert_refused(store.delete(plog, 1).await, "delete of an open PLog");
    store
        .seal(plog, 1)
        .await
        .expect("an open PLog can be sealed");
    store
        .delete(plog, 3)
        .await
        .expect("a sealed PLog can be deleted");
    assert_not_found(store.delete(plog, 3).await, "delete of a deleted PLog");
    assert_not_found(store.read(plog, 0, 100).await, "read of a deleted PLog");
    assert_eq!(
        store.list(db).await.map(|l| l.len()),
        Ok(1),
        "the other PLog is there"
    );
    assert_fenced(
        store.append(one(next, 2, 0, 2, b"d")).await,
        "the delete had epoch 3",
    );
}

async fn sizes_are_limited(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    assert_refused(
        store.append(one(plog, 1, 0, 1, b"")).await,
        "an empty payload",
    );
    let longest = Bytes::from(vec![0xa5; MAX_APPEND]);
    let too_long = Bytes::from(vec![0xa5; MAX_APPEND + 1]);
    let append = |offset, lsn, payload: &Bytes| Append {
        payload: payload.clone(),
        ..one(plog, 1, offset, lsn, b"")
    };
    assert_refused(
        store.append(append(0, 1, &too_long)).await,
        "a payload above the limit",
    );
    let mut offset = 0;
    let mut lsn = 1;
    while offset + (MAX_APPEND as u64) < PLOG_SIZE {
        offset = appended(store, append(offset, lsn, &longest)).await;
        lsn += 1;
    }
    let rest = longest.slice(..(PLOG_SIZE - offset) as usize - 1);
    offset = appended(store, append(offset, lsn, &rest)).await;
    assert_refused(
        store.append(one(plog, 1, offset, lsn + 1, b"ab")).await,
        "one byte too many",
    );
    offset = appended(store, one(plog, 1, offset, lsn + 1, b"a")).await;
    assert_eq!(offset, PLOG_SIZE, "a PLog can be filled to its limit");
    let append = one(plog, 1, offset, lsn + 2, b"a");
    assert_refused(store.append(append).await, "append to a full PLog");
    assert_eq!(store.seal(plog, 1).await, Ok(PLOG_SIZE));
    let entries = store.read(plog, 0, 1).await.expect("a valid read");
    assert_eq!(
        entries[0].payload, longest,
        "the longest payload is read back"
    );
}

async fn appends_to_several_plogs_run_together(store: &dyn LogStore, db: DbId) {
    let writer = async |plog: PlogKey| {
        created(store, plog).await;
        for i in 0..20 {
            appended(
                store,
                one(plog, 1, i * 8, i + 1, &(i * plog.plog.0).to_le_bytes()),
            )
            .await;
        }
    };
    tokio::join!(writer(key(db, 1)), writer(key(db, 2)), writer(key(db, 3)));
    for plog in 1..=3_u64 {
        let entries = store
            .read(key(db, plog), 0, u64::MAX)
            .await
            .expect("a valid read");
        let payloads: Vec<_> = entries.iter().map(|e| e.payload.to_vec()).collect();
        let expected: Vec<_> = (0..20).map(|i| (i * plog).to_le_bytes().to_vec()).collect();
        assert_eq!(payloads, expected, "PLog {plog}");
    }
}

async fn one_of_many_racing_appends_wins(store: &dyn LogStore, db: DbId) {
    let plog = created(store, key(db, 1)).await;
    let racers = (0..16_u8).map(|i| store.append(one(plog, 1, 0, 1, &[i; 100])));
    let answers = futures::future::join_all(racers).await;
    let winners: Vec<usize> = (0..16).filter(|&i| answers[i] == Ok(100)).collect();
    assert_eq!(winners.len(), 1, "one append wins: {answers:?}");
    for answer in answers.into_iter().filter(|a| *a != Ok(100)) {
        assert_refused(answer, "the others are refused");
    }
    let entries = store.read(plog, 0, 1000).await.expect("a valid read");
    assert_eq!(entries.len(), 1, "one entry is stored");
    assert_eq!(
        entries[0].payload,
        vec![winners[0] as u8; 100],
        "the winner's"
    );
}
