//! What the tests share: a store in a temporary directory, pages to write, and a model that
//! replays everything from empty.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "test code; no test uses all of it"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use perigee_page::{CLUSTERED_HEADER_LEN, PageKind, PageMut, PageRef, RecordHeader, RecordShape};
use perigee_page_api::conformance::{Format, Touch};
use perigee_page_api::{Fragment, PageError, PageStore, ReadPages, SliceKey, SliceStatus};
use perigee_page_store::{Config, PageStoreService};
use perigee_redo::{Change, Group, Op, apply_change};
use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, RollPtr, SliceId, TrxId, Writer};

pub const SLICE: SliceKey = SliceKey {
    db: DbId(7),
    slice: SliceId(3),
};

/// Small limits, so that small tests reach them.
pub fn small() -> Config {
    Config {
        pool_bytes: 4 << 20,
        log_cache_bytes: 1 << 20,
        consolidate_above: 64 << 10,
        consolidate_after: Duration::from_millis(20),
        consolidate_idle: Duration::from_millis(5),
        hole_wait: Duration::from_millis(20),
        log_segment_bytes: 64 << 10,
        page_segment_bytes: 1 << 20,
        ..Config::default()
    }
}

/// Never consolidates by itself.
pub fn lazy() -> Config {
    Config {
        consolidate_above: u64::MAX,
        consolidate_after: Duration::from_secs(3600),
        consolidate_idle: Duration::from_secs(3600),
        ..small()
    }
}

/// Key of four bytes, one string.
pub const SHAPE: RecordShape = RecordShape {
    fixed_len: CLUSTERED_HEADER_LEN as u16 + 4,
    key_offset: CLUSTERED_HEADER_LEN as u16,
    key_len: 4,
    var_count: 1,
    header_len: CLUSTERED_HEADER_LEN as u8,
};

pub fn record(key: u32, value: &[u8], trx: u64) -> Vec<u8> {
    let header = RecordHeader {
        trx: TrxId(trx),
        roll: RollPtr(0),
        ..RecordHeader::default()
    };
    let mut out = header.to_bytes().to_vec();
    out.extend(key.to_be_bytes());
    out.extend(((SHAPE.var_data_offset() + value.len()) as u16).to_le_bytes());
    out.extend(value);
    out
}

pub fn format_op(db: DbId, kind: PageKind) -> Op {
    Op::Format {
        kind,
        level: 0,
        db,
        index: IndexId(1),
        shape: if kind == PageKind::Clustered {
            SHAPE
        } else {
            RecordShape::default()
        },
        prev: PageId(0),
        next: PageId(0),
    }
}

/// Pages without records; a change writes its LSN at a place that depends on it.
pub struct UndoFormat;

impl UndoFormat {
    pub fn change(db: DbId, page: PageId, lsn: Lsn, first: bool) -> Change {
        let mut ops = Vec::new();
        if first {
            ops.push(format_op(db, PageKind::Undo));
        }
        let bytes: Vec<u8> = (0..4)
            .flat_map(|_| (lsn.0 ^ page.0 << 40).to_le_bytes())
            .collect();
        ops.push(Op::Write {
            offset: 100 + (lsn.0 * 7 % 16_000) as u16,
            bytes: bytes.into(),
        });
        Change { page, ops }
    }
}

impl Format for UndoFormat {
    fn groups(&self, db: DbId, groups: &[(Lsn, Vec<Touch>)]) -> Bytes {
        let mut w = Writer::new();
        for (lsn, touches) in groups {
            let change = |t: &Touch| Self::change(db, t.page, *lsn, t.first);
            Group {
                lsn: *lsn,
                changes: touches.iter().map(change).collect(),
            }
            .encode(&mut w);
        }
        w.into_bytes().into()
    }

    fn page(&self, db: DbId, page: PageId, changes: &[Lsn]) -> Bytes {
        let changes: Vec<_> = changes
            .iter()
            .enumerate()
            .map(|(i, lsn)| (*lsn, Self::change(db, page, *lsn, i == 0)))
            .collect();
        replay(&changes)
    }
}

/// The page that changes make of nothing.
pub fn replay(changes: &[(Lsn, Change)]) -> Bytes {
    let mut page = [0; PAGE_SIZE];
    for (lsn, change) in changes {
        assert!(apply_change(&mut page, *lsn, change).unwrap());
    }
    PageMut::new(&mut page).seal();
    PageRef::new(&page).unwrap().verify().unwrap();
    Bytes::copy_from_slice(&page)
}

/// Everything that was written to one slice, and what must be read from it.
pub struct Model {
    pub slice: SliceKey,
    pub epoch: u64,
    pub sequence: u64,
    pub lsn: Lsn,
    pub recycle: Lsn,
    pub changes: BTreeMap<PageId, Vec<(Lsn, Change)>>,
    pub now: BTreeMap<PageId, Box<[u8; PAGE_SIZE]>>,
}

impl Model {
    pub fn new(slice: SliceKey) -> Self {
        Self {
            slice,
            epoch: 1,
            sequence: 0,
            lsn: Lsn(0),
            recycle: Lsn(0),
            changes: BTreeMap::new(),
            now: BTreeMap::new(),
        }
    }

    /// Applies a group of changes to the model, which decides the operations page by page.
    pub fn group(
        &mut self,
        pages: &[u64],
        mut op: impl FnMut(PageId, Option<PageRef<'_>>) -> Vec<Op>,
    ) -> Group {
        self.lsn = self.lsn.next();
        let lsn = self.lsn;
        let mut changes = Vec::new();
        for page in pages {
            let page = PageId(*page);
            let image = self
                .now
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE_SIZE]));
            let ops = op(page, PageRef::new(&image[..]).ok());
            let change = Change { page, ops };
            assert!(apply_change(image, lsn, &change).unwrap());
            self.changes
                .entry(page)
                .or_default()
                .push((lsn, change.clone()));
            changes.push(change);
        }
        Group { lsn, changes }
    }

    /// The next fragment, of groups that this model made and that no fragment holds yet.
    pub fn fragment(&mut self, prev: Lsn, groups: &[Group]) -> Fragment {
        let mut w = Writer::new();
        groups.iter().for_each(|g| g.encode(&mut w));
        self.sequence += 1;
        Fragment {
            slice: self.slice,
            epoch: self.epoch,
            sequence: self.sequence,
            prev_lsn: prev,
            first_lsn: groups.first().map_or(prev.next(), |g| g.lsn),
            last_lsn: groups.last().map_or(prev.next(), |g| g.lsn),
            groups: w.into_bytes().into(),
        }
    }

    /// A fragment of one group that writes to undo pages.
    pub fn touch(&mut self, pages: &[u64]) -> Fragment {
        let (prev, db, lsn) = (self.lsn, self.slice.db, self.lsn.next());
        let group = self.group(pages, |page, image| {
            let is_used = image.is_some_and(|image| image.kind() == PageKind::Undo);
            UndoFormat::change(db, page, lsn, !is_used).ops
        });
        self.fragment(prev, &[group])
    }

    /// A fragment of one group that frees pages.
    pub fn free(&mut self, pages: &[u64]) -> Fragment {
        let prev = self.lsn;
        let group = self.group(pages, |_, _| vec![Op::Free]);
        self.fragment(prev, &[group])
    }

    /// The page as of `lsn`, replayed from empty; `None` if it is not there or was freed.
    pub fn page(&self, page: u64, lsn: Lsn) -> Option<Bytes> {
        let all = self.changes.get(&PageId(page))?;
        let seen = &all[..all.partition_point(|(l, _)| *l <= lsn)];
        let is_there = seen.last().is_some_and(|(_, last)| !last.frees());
        is_there.then(|| replay(seen))
    }

    /// Reads a page from the store and compares it with the replay.
    pub async fn check(&self, store: &dyn PageStore, page: u64, lsn: Lsn) {
        let found = read(store, self.slice, &[page], lsn).await;
        match self.page(page, lsn) {
            _ if lsn < self.recycle => {
                assert!(
                    matches!(found, Err(PageError::Recycled(_))),
                    "P8: {found:?}"
                );
            }
            Some(expected) => {
                let found = found.unwrap_or_else(|e| panic!("page {page} at {lsn}: {e}"));
                assert!(found == [expected], "P2: page {page} at {lsn} differs");
            }
            None => assert!(
                matches!(found, Err(PageError::NotFound(_))),
                "{page} at {lsn}"
            ),
        }
    }

    /// Compares every page at the newest LSN.
    pub async fn check_newest(&self, store: &dyn PageStore) {
        let mut pages: Vec<u64> = self.changes.keys().map(|p| p.0).collect();
        pages.retain(|page| self.page(*page, self.lsn).is_some());
        for chunk in pages.chunks(256) {
            let found = read(store, self.slice, chunk, self.lsn).await.unwrap();
            for (page, bytes) in chunk.iter().zip(found) {
                assert!(
                    Some(bytes) == self.page(*page, self.lsn),
                    "P2: page {page} differs"
                );
            }
        }
    }
}

pub async fn read(
    store: &dyn PageStore,
    slice: SliceKey,
    pages: &[u64],
    lsn: Lsn,
) -> Result<Vec<Bytes>, PageError> {
    let pages = pages.iter().map(|p| PageId(*p)).collect();
    store
        .read_pages(ReadPages {
            epoch: perigee_page_api::ANY_EPOCH,
            slice,
            lsn,
            pages,
        })
        .await
}

/// Waits until everything is consolidated.
pub async fn settle(store: &dyn PageStore, slice: SliceKey) -> SliceStatus {
    for _ in 0..2000 {
        let status = store.slice_status(slice).await.unwrap();
        if status.backlog_bytes == 0 && status.consolidated_lsn == status.persistent_lsn {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("consolidation does not end");
}

/// A temporary directory, in memory where the machine has that: syncs cost little there.
pub fn tempdir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}

pub fn open(dir: &Path, config: Config) -> PageStoreService {
    PageStoreService::open(dir, config).unwrap()
}

/// The files of the test slice whose names begin with `prefix`, in name order.
pub fn files(dir: &Path, prefix: &str) -> Vec<std::path::PathBuf> {
    let dir = dir.join(format!("db-{}/slice-{}", SLICE.db.0, SLICE.slice.0));
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    files.sort();
    files
}
