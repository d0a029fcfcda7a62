//! The cases.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::StreamExt;
use perigee_types::{DbId, Lsn, PageId, SliceId};

use super::{Format, Touch};
use crate::{
    Fragment, NdpDecline, NdpItem, NdpRead, PageError, PageStore, ReadPages, SliceKey, SliceStatus,
};

/// A writer of one slice that remembers what it wrote, so that it can say what a page must be.
struct Writer<'a> {
    store: &'a dyn PageStore,
    format: &'a dyn Format,
    slice: SliceKey,
    epoch: u64,
    sequence: u64,
    last: Lsn,
    changes: BTreeMap<PageId, Vec<Lsn>>,
}

impl<'a> Writer<'a> {
    async fn new(store: &'a dyn PageStore, format: &'a dyn Format, db: u32) -> Self {
        Self::new_in(store, format, db, 1).await
    }

    async fn new_in(store: &'a dyn PageStore, format: &'a dyn Format, db: u32, epoch: u64) -> Self {
        let slice = SliceKey {
            db: DbId(db),
            slice: SliceId(3),
        };
        store.create_slice(slice, epoch).await.expect("a new slice");
        Self {
            store,
            format,
            slice,
            epoch,
            sequence: 0,
            last: Lsn(0),
            changes: BTreeMap::new(),
        }
    }

    /// The next fragment: groups with LSNs from `from` on, each changing the pages of its item.
    fn fragment(&mut self, from: u64, groups: &[&[u64]]) -> Fragment {
        let mut list = Vec::new();
        for (i, pages) in groups.iter().enumerate() {
            let lsn = Lsn(from + i as u64);
            let touch = |page: &u64| {
                let lsns = self.changes.entry(PageId(*page)).or_default();
                lsns.push(lsn);
                Touch {
                    page: PageId(*page),
                    first: lsns.len() == 1,
                }
            };
            list.push((lsn, pages.iter().map(touch).collect()));
        }
        let last = Lsn(from + groups.len() as u64 - 1);
        let fragment = Fragment {
            slice: self.slice,
            epoch: self.epoch,
            sequence: self.sequence + 1,
            prev_lsn: self.last,
            first_lsn: Lsn(from),
            last_lsn: last,
            groups: self.format.groups(self.slice.db, &list),
        };
        self.sequence += 1;
        self.last = last;
        fragment
    }

    async fn write(&mut self, from: u64, groups: &[&[u64]]) -> Fragment {
        let fragment = self.fragment(from, groups);
        let written = self.store.write_logs(fragment.clone()).await;
        let status = written.expect("the next fragment is accepted");
        assert_eq!(status.sequence, self.sequence, "sequence in the answer");
        assert_eq!(
            status.persistent_lsn, self.last,
            "persistent LSN in the answer"
        );
        fragment
    }

    async fn read(&self, lsn: u64, pages: &[u64]) -> Result<Vec<Bytes>, PageError> {
        let read = ReadPages {
            slice: self.slice,
            epoch: self.epoch,
            lsn: Lsn(lsn),
            pages: pages.iter().map(|p| PageId(*p)).collect(),
        };
        self.store.read_pages(read).await
    }

    /// The page as of `lsn`, by replay from empty.
    fn expected(&self, lsn: u64, page: u64) -> Option<Bytes> {
        let all = self.changes.get(&PageId(page))?;
        let seen = &all[..all.partition_point(|l| l.0 <= lsn)];
        let page = PageId(page);
        (!seen.is_empty()).then(|| self.format.page(self.slice.db, page, seen))
    }

    /// Reads one page and compares it with the replay, also that it does not exist.
    async fn check(&self, lsn: u64, page: u64) {
        let found = self.read(lsn, &[page]).await;
        match self.expected(lsn, page) {
            Some(expected) => {
                let found = found.unwrap_or_else(|e| panic!("page {page} at {lsn}: {e}"));
                assert!(
                    found == [expected],
                    "P2: page {page} at {lsn} is another one"
                );
            }
            None => assert!(
                matches!(found, Err(PageError::NotFound(_))),
                "page {page} does not exist at {lsn}"
            ),
        }
    }

    async fn status(&self) -> SliceStatus {
        let status = self.store.slice_status(self.slice).await;
        status.expect("status of a slice that exists")
    }
}

pub(super) async fn run(store: &dyn PageStore, format: &dyn Format, db: u32) {
    versions_are_read_at_any_lsn(store, format, db).await;
    holes_are_refused(store, format, db + 1).await;
    repeats_are_harmless(store, format, db + 2).await;
    old_epochs_are_refused(store, format, db + 3).await;
    what_is_not_there_is_named(store, format, db + 4).await;
    recycled_versions_are_gone_and_others_stay(store, format, db + 5).await;
    many_pages_come_in_order(store, format, db + 6).await;
    unknown_descriptors_are_declined(store, format, db + 7).await;
    databases_are_apart(store, format, db + 8).await;
    malformed_groups_are_refused(store, format, db + 10).await;
    an_idle_slice_moves_on(store, format, db + 11).await;
    a_slice_without_pages_is_deleted(store, format, db + 12).await;
}

async fn versions_are_read_at_any_lsn(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    w.write(1, &[&[10], &[10, 11], &[12]]).await;
    // LSNs of groups that touch other slices only are not in this slice's fragments.
    w.write(7, &[&[11], &[10], &[10]]).await;
    for lsn in 1..=9 {
        for page in 10..=13 {
            w.check(lsn, page).await;
        }
    }
    let status = w.status().await;
    assert_eq!((status.sequence, status.persistent_lsn), (2, Lsn(9)));
}

async fn holes_are_refused(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    w.write(1, &[&[1]]).await;
    let second = w.fragment(2, &[&[1]]);
    let third = w.fragment(3, &[&[1]]);
    let early = store.write_logs(third.clone()).await;
    assert!(
        matches!(early, Err(PageError::Refused(_))),
        "P1: a hole: {early:?}"
    );
    let unchained = Fragment {
        prev_lsn: Lsn(0),
        ..second.clone()
    };
    let refused = store.write_logs(unchained).await;
    assert!(
        matches!(refused, Err(PageError::Refused(_))),
        "P1: a wrong chain: {refused:?}"
    );
    let status = w.status().await;
    assert_eq!((status.sequence, status.persistent_lsn), (1, Lsn(1)), "P1");
    for fragment in [second, third] {
        store.write_logs(fragment).await.expect("no hole any more");
    }
    w.check(3, 1).await;
}

async fn repeats_are_harmless(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    let first = w.write(1, &[&[1, 2], &[2]]).await;
    let second = w.write(3, &[&[1]]).await;
    for fragment in [&first, &second, &first] {
        let status = store
            .write_logs(fragment.clone())
            .await
            .expect("P5: a repeat");
        assert_eq!((status.sequence, status.persistent_lsn), (2, Lsn(3)), "P5");
    }
    for lsn in 1..=3 {
        w.check(lsn, 1).await;
        w.check(lsn, 2).await;
    }
    let other = Fragment {
        last_lsn: Lsn(9),
        ..second
    };
    let refused = store.write_logs(other).await;
    assert!(
        matches!(refused, Err(PageError::Refused(_))),
        "another fragment with the same number"
    );
}

async fn old_epochs_are_refused(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    w.epoch = 5;
    w.write(1, &[&[1]]).await;
    let mut old = w.fragment(2, &[&[1]]);
    old.epoch = 4;
    let refused = store.write_logs(old.clone()).await;
    assert!(
        matches!(refused, Err(PageError::Fenced(_))),
        "an old epoch writes: {refused:?}"
    );
    let refused = store.create_slice(w.slice, 4).await;
    assert!(
        matches!(refused, Err(PageError::Fenced(_))),
        "an old epoch creates: {refused:?}"
    );
    store
        .create_slice(w.slice, 6)
        .await
        .expect("creating again");
    old.epoch = 5;
    let refused = store.write_logs(old.clone()).await;
    assert!(
        matches!(refused, Err(PageError::Fenced(_))),
        "create_slice fences: {refused:?}"
    );
    old.epoch = 6;
    store.write_logs(old).await.expect("the new epoch writes");
    w.epoch = 6;
    w.check(2, 1).await;
    w.epoch = 5;
    let refused = w.read(2, &[1]).await;
    assert!(
        matches!(refused, Err(PageError::Fenced(_))),
        "an old epoch reads: {refused:?}"
    );
    let read = NdpRead {
        slice: w.slice,
        epoch: 5,
        lsn: Lsn(2),
        pages: vec![PageId(1)],
        descriptor: Bytes::from_static(b"no descriptor of any version"),
        filters: Vec::new(),
        enough: None,
    };
    let refused = match store.ndp_read(read).await {
        Ok(mut replies) => replies.next().await.map(|reply| reply.map(drop)),
        Err(error) => Some(Err(error)),
    };
    assert!(
        matches!(refused, Some(Err(PageError::Fenced(_)))),
        "an old epoch reads with near-data processing: {refused:?}"
    );
}

async fn what_is_not_there_is_named(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    w.write(1, &[&[1]]).await;
    let ahead = w.read(2, &[1]).await;
    assert!(
        matches!(ahead, Err(PageError::Behind(_))),
        "read above the log: {ahead:?}"
    );
    let missing = w.read(1, &[1, 99]).await;
    match &missing {
        Err(PageError::NotFound(text)) => assert!(text.contains("page:99"), "names it: {text}"),
        other => panic!("a page that was never written: {other:?}"),
    }
    let unknown = SliceKey {
        slice: SliceId(77),
        ..w.slice
    };
    let status = store.slice_status(unknown).await;
    assert!(
        matches!(status, Err(PageError::NotFound(_))),
        "unknown slice: {status:?}"
    );
    let mut astray = w.fragment(2, &[&[1]]);
    astray.slice = unknown;
    let written = store.write_logs(astray).await;
    assert!(
        matches!(written, Err(PageError::NotFound(_))),
        "unknown slice: {written:?}"
    );
}

async fn recycled_versions_are_gone_and_others_stay(
    store: &dyn PageStore,
    format: &dyn Format,
    db: u32,
) {
    let mut w = Writer::new(store, format, db).await;
    w.write(1, &[&[1], &[1, 2], &[1]]).await;
    w.write(4, &[&[2], &[1]]).await;
    store
        .set_recycle_lsn(w.slice.db, Lsn(3))
        .await
        .expect("recycle");
    store
        .set_recycle_lsn(w.slice.db, Lsn(2))
        .await
        .expect("an older one is no error");
    let gone = w.read(2, &[1]).await;
    assert!(matches!(gone, Err(PageError::Recycled(_))), "P8: {gone:?}");
    for lsn in 3..=5 {
        w.check(lsn, 1).await;
        w.check(lsn, 2).await;
    }
}

async fn many_pages_come_in_order(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    let pages: Vec<u64> = (100..400).collect();
    w.write(1, &[&pages, &pages[..150]]).await;
    let mut asked: Vec<u64> = pages.iter().rev().copied().collect();
    asked.extend([100, 100, 399]);
    for lsn in [1, 2] {
        let found = w.read(lsn, &asked).await.expect("300 pages");
        let expected: Vec<_> = asked
            .iter()
            .map(|p| w.expected(lsn, *p).expect("it exists"))
            .collect();
        assert!(found == expected, "P2: a batch of pages at {lsn}");
    }
    assert!(w.read(2, &[]).await.expect("no pages").is_empty());
}

async fn unknown_descriptors_are_declined(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    let pages: Vec<u64> = (1..=100).collect();
    w.write(1, &[&pages]).await;
    let read = NdpRead {
        slice: w.slice,
        epoch: w.epoch,
        lsn: Lsn(1),
        pages: pages.iter().map(|p| PageId(*p)).collect(),
        descriptor: Bytes::from_static(b"no descriptor of any version"),
        filters: Vec::new(),
        enough: None,
    };
    let mut replies = store.ndp_read(read.clone()).await.expect("a stream");
    let mut seen = vec![false; pages.len()];
    while let Some(reply) = replies.next().await {
        for item in reply.expect("declining is no error").items {
            let NdpItem::Declined {
                index,
                reason,
                page,
            } = item
            else {
                panic!("reduced by an unknown descriptor");
            };
            assert_eq!(reason, NdpDecline::Descriptor);
            let expected = w.expected(1, pages[index as usize]);
            assert!(
                Some(page) == expected,
                "declined page {index} is another one"
            );
            assert!(!seen[index as usize], "page {index} is answered twice");
            seen[index as usize] = true;
        }
    }
    assert!(seen.iter().all(|s| *s), "every page is answered");
    let ahead = NdpRead {
        lsn: Lsn(2),
        ..read
    };
    // The error may be the answer or the first thing in the stream.
    let error = match store.ndp_read(ahead).await {
        Err(error) => error,
        Ok(mut replies) => match replies.next().await {
            Some(Err(error)) => error,
            other => panic!("NDP read above the log: {other:?}"),
        },
    };
    assert!(
        matches!(error, PageError::Behind(_)),
        "NDP read above the log: {error}"
    );
}

async fn databases_are_apart(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut one = Writer::new(store, format, db).await;
    let mut two = Writer::new(store, format, db + 1).await;
    one.write(1, &[&[1], &[2]]).await;
    two.write(1, &[&[1]]).await;
    two.write(2, &[&[1]]).await;
    one.check(2, 1).await;
    two.check(2, 1).await;
    two.check(2, 2).await;
    store
        .set_recycle_lsn(one.slice.db, Lsn(2))
        .await
        .expect("recycle");
    two.check(1, 1).await;
    let status = store.status().await.expect("status");
    for w in [&one, &two] {
        let found = status.slices.iter().find(|(key, _)| *key == w.slice);
        let (_, slice) = found.expect("every slice is listed");
        assert_eq!(slice.persistent_lsn, Lsn(2));
    }
}

async fn malformed_groups_are_refused(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    w.write(1, &[&[1]]).await;
    let good = w.fragment(2, &[&[1], &[1]]);
    let mut cut = good.clone();
    cut.groups.truncate(good.groups.len() - 1);
    let refused = store.write_logs(cut).await;
    assert!(
        matches!(refused, Err(PageError::Corrupt(_) | PageError::Refused(_))),
        "malformed groups: {refused:?}"
    );
    assert_eq!(w.status().await.persistent_lsn, Lsn(1), "nothing was taken");
    store.write_logs(good).await.expect("the good one is");
    w.check(3, 1).await;
}

/// A fragment without groups says that the slice has nothing up to its last LSN.
async fn an_idle_slice_moves_on(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    w.write(1, &[&[1]]).await;
    let mut empty = w.fragment(2, &[&[]]);
    empty.groups = Bytes::new();
    empty.last_lsn = Lsn(20);
    w.last = Lsn(20);
    let status = store.write_logs(empty).await.expect("an empty fragment");
    assert_eq!(status.persistent_lsn, Lsn(20));
    w.check(20, 1).await;
    w.write(25, &[&[1]]).await;
    w.check(25, 1).await;
    w.check(24, 1).await;
}

async fn a_slice_without_pages_is_deleted(store: &dyn PageStore, format: &dyn Format, db: u32) {
    let mut w = Writer::new(store, format, db).await;
    let slice = w.slice;
    let delete = |epoch, end| async move { store.delete_slice(slice, epoch, Lsn(end)).await };
    let kept = delete(1, 0).await.expect("an answer");
    assert!(!kept, "a slice that got nothing yet is deleted");
    // That there is nothing for it up to LSN 4.
    let passed = Fragment {
        groups: Bytes::new(),
        ..w.fragment(1, &[&[], &[], &[], &[]])
    };
    let status = store.write_logs(passed.clone()).await;
    assert_eq!(status.expect("taken").persistent_lsn, Lsn(4));
    store.create_slice(slice, 3).await.expect("a new epoch");
    let kept = delete(3, 3).await.expect("an answer");
    assert!(!kept, "a slice that has gone on is deleted");
    let refused = delete(2, 4).await;
    assert!(
        matches!(refused, Err(PageError::Fenced(_))),
        "an old epoch deletes: {refused:?}"
    );
    for _ in 0..2 {
        let deleted = delete(3, 4).await.expect("an answer");
        assert!(
            deleted,
            "a slice without pages is deleted, and may be twice"
        );
        let status = store.slice_status(slice).await;
        assert!(matches!(status, Err(PageError::NotFound(_))), "{status:?}");
    }
    let written = store.write_logs(passed).await;
    assert!(
        matches!(written, Err(PageError::NotFound(_))),
        "a deleted slice is written: {written:?}"
    );
    let refused = store.create_slice(slice, 2).await;
    assert!(
        matches!(refused, Err(PageError::Fenced(_))),
        "an old epoch brings a slice back: {refused:?}"
    );
    // A new life, with a chain of its own.
    let mut w = Writer::new_in(store, format, db, 3).await;
    w.write(9, &[&[7]]).await;
    w.check(9, 7).await;
    let kept = delete(3, 9).await.expect("an answer");
    assert!(!kept, "a slice with a page is deleted");
    w.check(9, 7).await;
}
