//! A database over stores in memory, and log groups that make pages whose contents tell what was
//! written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use perigee_log_api::LogStore;
use perigee_page::{HEADER_LEN, PageKind, PageRef, RecordShape};
use perigee_page_api::PageStore;
use perigee_redo::{Change, Op};
use perigee_sal::{Sal, SalConfig, SalError};
use perigee_testkit::{Faulty, MemoryLogStore, ReplayPageStore};
use perigee_types::{DbId, IndexId, Lsn, PageId};

pub const DB: DbId = DbId(3);

/// One Log Store and some Page Stores; what survives a frontend.
pub struct Cluster {
    pub log: Arc<Faulty<MemoryLogStore>>,
    pub pages: Vec<Arc<Faulty<ReplayPageStore>>>,
}

impl Cluster {
    pub fn new(stores: usize) -> Self {
        let pages = (0..stores).map(|_| Arc::default()).collect();
        Self {
            log: Arc::default(),
            pages,
        }
    }

    pub fn stores(&self) -> Vec<Arc<dyn PageStore>> {
        self.pages
            .iter()
            .map(|p| p.clone() as Arc<dyn PageStore>)
            .collect()
    }

    pub async fn open_with(&self, config: SalConfig) -> Result<Arc<Sal>, SalError> {
        let log: Arc<dyn LogStore> = self.log.clone();
        Sal::open(config, log, self.stores()).await
    }

    pub async fn open(&self) -> Arc<Sal> {
        self.open_with(config()).await.unwrap()
    }
}

/// Small slices and short times.
pub fn config() -> SalConfig {
    let ms = Duration::from_millis;
    SalConfig {
        slice_pages: 128,
        log_flush_interval: ms(1),
        slice_flush_interval: ms(1),
        maintenance_interval: ms(5),
        read_timeout: ms(400),
        open_timeout: ms(400),
        throttle_timeout: ms(200),
        ..SalConfig::new(DB)
    }
}

/// What the pages should hold.
#[derive(Clone, Debug, Default)]
pub struct Model(pub BTreeMap<PageId, Vec<u64>>);

impl Model {
    /// Appends a group that adds `stamp` to each page: the pages' first change makes them.
    pub fn write(&mut self, sal: &Sal, pages: &[u64], stamp: u64) -> Lsn {
        let changes = pages
            .iter()
            .map(|page| self.change(PageId(*page), stamp))
            .collect();
        sal.append(changes)
    }

    fn change(&mut self, page: PageId, stamp: u64) -> Change {
        let stamps = self.0.entry(page).or_default();
        let mut ops = Vec::new();
        if stamps.is_empty() {
            let (kind, none) = (PageKind::Meta, PageId(0));
            let (index, shape) = (IndexId(0), RecordShape::default());
            ops.push(Op::Format {
                kind,
                level: 0,
                db: DB,
                index,
                shape,
                prev: none,
                next: none,
            });
        }
        let offset = (HEADER_LEN + 8 * stamps.len()) as u16;
        ops.push(Op::Write {
            offset,
            bytes: Bytes::copy_from_slice(&stamp.to_le_bytes()),
        });
        stamps.push(stamp);
        Change { page, ops }
    }

    /// Panics unless storage has exactly this, as of `lsn`.
    pub async fn check(&self, sal: &Sal, lsn: Lsn) {
        let ids: Vec<_> = self.0.keys().copied().collect();
        let pages = sal.read_pages(&ids, lsn).await.unwrap();
        for ((id, stamps), bytes) in self.0.iter().zip(pages) {
            let page = PageRef::new(&bytes).unwrap();
            page.verify_checksum().unwrap();
            assert_eq!(page.id(), *id);
            let found: Vec<_> = page.bytes()[HEADER_LEN..]
                .chunks_exact(8)
                .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
                .take_while(|stamp| *stamp != 0)
                .collect();
            assert_eq!(found, *stamps, "{id} as of {lsn}");
        }
    }
}

/// Waits until `ready` holds.
pub async fn eventually(what: &str, ready: impl Fn() -> bool) {
    for _ in 0..2000 {
        if ready() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never: {what}");
}
