//! A database over stores in memory that survive its frontend, and records for its trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use perigee_engine::EngineError;
use perigee_engine::btree::{Tree, TreeSpec};
use perigee_engine::buffer::{Access, BufferPool};
use perigee_engine::mtr::Mtr;
use perigee_log_api::LogStore;
use perigee_page::{
    CLUSTERED_HEADER_LEN, PLAIN_HEADER_LEN, PageKind, PageMut, RecordFlags, RecordHeader,
    RecordShape,
};
use perigee_page_api::PageStore;
use perigee_redo::{Group, apply_change};
use perigee_sal::{Sal, SalConfig};
use perigee_testkit::{Faulty, MemoryLogStore, ReplayPageStore};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId, RollPtr, TrxId};

pub const DB: DbId = DbId(3);

/// What survives a frontend.
pub struct Database {
    pub log: Arc<Faulty<MemoryLogStore>>,
    pub pages: Vec<Arc<Faulty<ReplayPageStore>>>,
}

impl Database {
    pub fn new() -> Self {
        Self {
            log: Arc::default(),
            pages: (0..2).map(|_| Arc::default()).collect(),
        }
    }

    /// A frontend with a pool of this many pages.
    pub async fn open(&self, pages: usize) -> Arc<BufferPool> {
        let stores = self
            .pages
            .iter()
            .map(|p| p.clone() as Arc<dyn PageStore>)
            .collect();
        let log: Arc<dyn LogStore> = self.log.clone();
        let sal = Sal::open(config(), log, stores).await.unwrap();
        BufferPool::open(sal, pages * PAGE_SIZE).await.unwrap()
    }

    /// Every page of the database that is not freed, replayed from the log from empty.
    pub async fn replay(&self) -> BTreeMap<PageId, Box<[u8; PAGE_SIZE]>> {
        let mut pages = BTreeMap::new();
        for group in self.groups().await {
            for change in &group.changes {
                let page = pages
                    .entry(change.page)
                    .or_insert_with(|| Box::new([0; PAGE_SIZE]));
                assert!(apply_change(page, group.lsn, change).unwrap());
                if change.frees() {
                    pages.remove(&change.page);
                }
            }
        }
        pages
    }

    /// Every log group so far, once it is durable.
    pub async fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for plog in self.log.list(DB).await.unwrap() {
            for entry in self.log.read(plog.plog, 0, u64::MAX).await.unwrap() {
                groups.extend(Group::decode_all(&entry.payload).unwrap());
            }
        }
        groups
    }

    /// Panics unless the pool's pages are, byte for byte, what the log says (*do = redo*).
    pub async fn check_replay(&self, pool: &Arc<BufferPool>) {
        let lsn = pool.sal().last_lsn();
        pool.sal().wait_page_persistent(lsn).await.unwrap();
        let replayed = self.replay().await;
        assert!(!replayed.is_empty());
        for (id, mut expected) in replayed {
            let page = pool.fetch(id, Access::Scan).await.unwrap().page();
            let mut found = Box::new(**page.bytes());
            PageMut::new(&mut found).seal();
            PageMut::new(&mut expected).seal();
            assert!(found == expected, "{id} differs from its replay");
        }
    }
}

/// Small slices, so that a test uses several; short times; a log that is kept for replays.
pub fn config() -> SalConfig {
    let ms = Duration::from_millis;
    SalConfig {
        slice_pages: 256,
        log_flush_interval: ms(1),
        slice_flush_interval: ms(0),
        // All log is kept, to be replayed.
        maintenance_interval: Duration::from_secs(3600),
        maintenance_log_bytes: u64::MAX,
        throttle_timeout: Duration::from_secs(3),
        ..SalConfig::new(DB)
    }
}

/// Leaves with a 4-byte key and a value: clustered.
pub const FIXED: RecordShape = RecordShape {
    fixed_len: CLUSTERED_HEADER_LEN as u16 + 4,
    key_offset: CLUSTERED_HEADER_LEN as u16,
    key_len: 4,
    var_count: 1,
    header_len: CLUSTERED_HEADER_LEN as u8,
};

/// Leaves with a key of any length and a value: secondary.
pub const VARIABLE: RecordShape = RecordShape {
    fixed_len: PLAIN_HEADER_LEN as u16,
    key_offset: 0,
    key_len: 0,
    var_count: 2,
    header_len: PLAIN_HEADER_LEN as u8,
};

/// A record of a clustered tree.
pub fn fixed_record(key: u32, trx: TrxId, value: &[u8]) -> Vec<u8> {
    let header = RecordHeader {
        flags: RecordFlags(0),
        trx,
        roll: RollPtr(0),
    };
    let mut record = header.to_bytes().to_vec();
    record.extend(key.to_be_bytes());
    let end = record.len() + 2 + value.len();
    record.extend((end as u16).to_le_bytes());
    record.extend(value);
    record
}

/// A record of a tree with variable keys.
pub fn variable_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = vec![0];
    let data = 1 + 4;
    record.extend(((data + key.len()) as u16).to_le_bytes());
    record.extend(((data + key.len() + value.len()) as u16).to_le_bytes());
    record.extend(key);
    record.extend(value);
    record
}

/// An empty clustered tree.
pub async fn fixed_tree(pool: &Arc<BufferPool>) -> Tree {
    new_tree(pool, IndexId(10), PageKind::Clustered, FIXED)
}

/// An empty tree with variable keys.
pub async fn variable_tree(pool: &Arc<BufferPool>) -> Tree {
    new_tree(pool, IndexId(11), PageKind::Secondary, VARIABLE)
}

fn new_tree(pool: &Arc<BufferPool>, index: IndexId, kind: PageKind, shape: RecordShape) -> Tree {
    let mut mtr = Mtr::new(pool);
    let spec = Tree::create(&mut mtr, pool, index, kind, shape);
    mtr.commit();
    Tree::open(pool, spec)
}

/// The same tree in another frontend.
pub fn reopen(pool: &Arc<BufferPool>, spec: &TreeSpec) -> Tree {
    Tree::open(pool, *spec)
}

/// Keys and records of a range, by a cursor.
pub async fn scan(
    tree: &Tree,
    span: perigee_engine::btree::KeySpan,
    reverse: bool,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, EngineError> {
    let mut cursor = tree.range(span, reverse, Access::Scan);
    let mut found = Vec::new();
    while let Some(run) = cursor.next().await? {
        let page = run.page.get();
        let mut records: Vec<_> = run
            .slots
            .map(|s| (page.key(s).to_vec(), page.record(s).to_vec()))
            .collect();
        if reverse {
            records.reverse();
        }
        found.extend(records);
    }
    Ok(found)
}
