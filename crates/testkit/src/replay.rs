//! [`ReplayPageStore`]: a Page Store of real pages in its simplest form. It keeps every log record
//! for ever and answers reads of old versions by replaying from empty. It forgets everything when
//! dropped.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use perigee_page::PageMut;
use perigee_page_api::{
    Fragment, NdpDecline, NdpItem, NdpRead, NdpReply, NdpStream, NdpUsage, PageError, PageStore,
    ReadPages, SliceKey, SliceStatus, StoreStatus,
};
use perigee_redo::{Change, Group, apply_change};
use perigee_types::{DbId, Lsn, PAGE_SIZE, PageId};

#[derive(Default)]
struct Slice {
    epoch: u64,
    status: SliceStatus,
    pages: BTreeMap<PageId, History>,
}

struct History {
    changes: Vec<(Lsn, Change)>,
    /// After all changes; a read of the newest version need not replay.
    newest: Box<[u8; PAGE_SIZE]>,
}

impl History {
    fn exists(&self) -> bool {
        self.changes.last().is_some_and(|(_, last)| !last.frees())
    }

    /// True if no read at or above this LSN finds a page.
    fn is_gone(&self, recycle: Lsn) -> bool {
        let last = self.changes.last();
        last.is_none_or(|(lsn, last)| last.frees() && *lsn <= recycle)
    }
}

#[derive(Default)]
struct State {
    slices: BTreeMap<SliceKey, Slice>,
    /// Of the last deletion of a slice.
    epochs: BTreeMap<DbId, u64>,
    recycle: BTreeMap<DbId, Lsn>,
}

/// A Page Store in memory. It declines all near-data processing.
#[derive(Default)]
pub struct ReplayPageStore {
    state: Mutex<State>,
}

impl ReplayPageStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recycle LSN of a database.
    #[must_use]
    pub fn recycle_lsn(&self, db: DbId) -> Lsn {
        self.state().recycle.get(&db).copied().unwrap_or_default()
    }

    /// Makes the store forget a slice, as if its disk had been replaced.
    pub fn lose_slice(&self, slice: SliceKey) {
        self.state().slices.remove(&slice);
    }

    fn read(
        &self,
        slice: SliceKey,
        epoch: u64,
        lsn: Lsn,
        pages: &[PageId],
    ) -> Result<Vec<Bytes>, PageError> {
        let state = self.state();
        let recycle = state.recycle.get(&slice.db).copied().unwrap_or_default();
        let found = state.slices.get(&slice);
        let found = found.ok_or_else(|| PageError::NotFound(slice.to_string()))?;
        if epoch < found.epoch {
            return Err(PageError::Fenced(format!("{slice}: old epoch")));
        }
        if found.status.persistent_lsn < lsn {
            return Err(PageError::Behind(format!("{slice} has not reached {lsn}")));
        }
        if lsn < recycle {
            return Err(PageError::Recycled(format!("{slice} at {lsn}")));
        }
        pages
            .iter()
            .map(|page| found.replay(slice, *page, lsn))
            .collect()
    }
}

impl Slice {
    fn replay(&self, slice: SliceKey, id: PageId, lsn: Lsn) -> Result<Bytes, PageError> {
        let missing = || PageError::NotFound(format!("{id} of {slice} at {lsn}"));
        let History { changes, newest } = self.pages.get(&id).ok_or_else(missing)?;
        let seen = &changes[..changes.partition_point(|(at, _)| *at <= lsn)];
        if seen.last().is_none_or(|(_, change)| change.frees()) {
            return Err(missing());
        }
        let mut page = newest.clone();
        if seen.len() < changes.len() {
            page.fill(0);
            for (at, change) in seen {
                apply(&mut page, *at, change)?;
            }
        }
        PageMut::new(&mut page).seal();
        Ok(Bytes::copy_from_slice(&page[..]))
    }

    fn write(&mut self, fragment: &Fragment) -> Result<SliceStatus, PageError> {
        let name = format!("fragment {} of {}", fragment.sequence, fragment.slice);
        let refuse = |text: &str| Err(PageError::Refused(format!("{name}: {text}")));
        if fragment.epoch < self.epoch {
            return Err(PageError::Fenced(format!("{name}: old epoch")));
        }
        if fragment.sequence == 0 || fragment.first_lsn <= fragment.prev_lsn {
            return refuse("makes no sense");
        }
        let status = &mut self.status;
        if fragment.sequence <= status.sequence {
            let last = fragment.sequence == status.sequence;
            if last && fragment.last_lsn != status.persistent_lsn {
                return refuse("is another one than before");
            }
            return Ok(*status);
        }
        if fragment.sequence != status.sequence + 1 || fragment.prev_lsn != status.persistent_lsn {
            return refuse("comes after a hole");
        }
        let groups = Group::decode_all(&fragment.groups)
            .map_err(|e| PageError::Refused(format!("{name}: {e}")))?;
        for group in groups {
            for change in group.changes {
                let empty = || History {
                    changes: Vec::new(),
                    newest: Box::new([0; PAGE_SIZE]),
                };
                let history = self.pages.entry(change.page).or_insert_with(empty);
                apply(&mut history.newest, group.lsn, &change)?;
                history.changes.push((group.lsn, change));
            }
        }
        self.epoch = fragment.epoch;
        *status = SliceStatus {
            sequence: fragment.sequence,
            persistent_lsn: fragment.last_lsn,
            consolidated_lsn: fragment.last_lsn,
            backlog_bytes: 0,
            pages: self.pages.values().filter(|p| p.exists()).count() as u64,
        };
        Ok(*status)
    }
}

fn apply(page: &mut [u8; PAGE_SIZE], lsn: Lsn, change: &Change) -> Result<(), PageError> {
    match apply_change(page, lsn, change) {
        Ok(true) => Ok(()),
        Ok(false) => Err(PageError::Corrupt(format!(
            "{lsn} of {} comes twice",
            change.page
        ))),
        Err(e) => Err(PageError::Corrupt(e.to_string())),
    }
}

#[async_trait]
impl PageStore for ReplayPageStore {
    async fn create_slice(&self, slice: SliceKey, epoch: u64) -> Result<(), PageError> {
        let mut state = self.state();
        let deleted = state.epochs.get(&slice.db).copied().unwrap_or_default();
        let found = state.slices.get(&slice);
        if epoch < found.map_or(deleted, |found| found.epoch) {
            return Err(PageError::Fenced(format!("{slice}: old epoch")));
        }
        state.slices.entry(slice).or_default().epoch = epoch;
        Ok(())
    }

    async fn delete_slice(&self, slice: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        let mut state = self.state();
        let recycle = state.recycle.get(&slice.db).copied().unwrap_or_default();
        let Some(found) = state.slices.get(&slice) else {
            return Ok(true);
        };
        if epoch < found.epoch {
            return Err(PageError::Fenced(format!("{slice}: old epoch")));
        }
        let ended = found.status.sequence > 0 && found.status.persistent_lsn == end;
        if !ended || !found.pages.values().all(|page| page.is_gone(recycle)) {
            return Ok(false);
        }
        state.slices.remove(&slice);
        state.epochs.insert(slice.db, epoch);
        Ok(true)
    }

    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        let mut state = self.state();
        match state.slices.get_mut(&fragment.slice) {
            Some(slice) => slice.write(&fragment),
            None => Err(PageError::NotFound(fragment.slice.to_string())),
        }
    }

    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        self.read(read.slice, read.epoch, read.lsn, &read.pages)
    }

    async fn ndp_read(&self, read: NdpRead) -> Result<NdpStream, PageError> {
        let pages = self.read(read.slice, read.epoch, read.lsn, &read.pages)?;
        let reply = |(index, page)| {
            let reason = NdpDecline::Descriptor;
            let items = vec![NdpItem::Declined {
                index: index as u32,
                reason,
                page,
            }];
            Ok(NdpReply {
                items,
                usage: NdpUsage::default(),
                filters: None,
            })
        };
        let replies: Vec<_> = pages.into_iter().enumerate().map(reply).collect();
        Ok(futures::stream::iter(replies).boxed())
    }

    async fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError> {
        let mut state = self.state();
        let recycle = state.recycle.entry(db).or_default();
        *recycle = lsn.max(*recycle);
        Ok(())
    }

    async fn slice_status(&self, slice: SliceKey) -> Result<SliceStatus, PageError> {
        let state = self.state();
        let found = state.slices.get(&slice);
        found
            .map(|s| s.status)
            .ok_or_else(|| PageError::NotFound(slice.to_string()))
    }

    async fn status(&self) -> Result<StoreStatus, PageError> {
        let state = self.state();
        let pages: usize = state.slices.values().map(|s| s.pages.len()).sum();
        let bytes = (pages * PAGE_SIZE) as u64;
        Ok(StoreStatus {
            slices: state.slices.iter().map(|(k, s)| (*k, s.status)).collect(),
            live_bytes: bytes,
            disk_bytes: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use perigee_page::{HEADER_LEN, PageKind, RecordShape};
    use perigee_page_api::conformance::{Format, Touch, run};
    use perigee_redo::Op;
    use perigee_types::{IndexId, Writer};

    use super::*;

    /// Meta pages into which every change writes its LSN.
    struct MetaPages;

    fn change(db: DbId, lsn: Lsn, touch: Touch) -> Change {
        let (index, shape, none) = (IndexId(0), RecordShape::default(), PageId(0));
        let (kind, prev, next) = (PageKind::Meta, none, none);
        let format = Op::Format {
            kind,
            level: 0,
            db,
            index,
            shape,
            prev,
            next,
        };
        let bytes = Bytes::copy_from_slice(&lsn.0.to_le_bytes());
        let write = Op::Write {
            offset: HEADER_LEN as u16,
            bytes,
        };
        let ops = if touch.first {
            vec![format, write]
        } else {
            vec![write]
        };
        Change {
            page: touch.page,
            ops,
        }
    }

    impl Format for MetaPages {
        fn groups(&self, db: DbId, groups: &[(Lsn, Vec<Touch>)]) -> Bytes {
            let mut w = Writer::new();
            for (lsn, touches) in groups {
                let changes = touches.iter().map(|t| change(db, *lsn, *t)).collect();
                Group { lsn: *lsn, changes }.encode(&mut w);
            }
            w.into_bytes().into()
        }

        fn page(&self, db: DbId, page: PageId, changes: &[Lsn]) -> Bytes {
            let mut bytes = Box::new([0; PAGE_SIZE]);
            for (i, lsn) in changes.iter().enumerate() {
                let change = change(
                    db,
                    *lsn,
                    Touch {
                        page,
                        first: i == 0,
                    },
                );
                apply_change(&mut bytes, *lsn, &change).expect("applies");
            }
            PageMut::new(&mut bytes).seal();
            Bytes::copy_from_slice(&bytes[..])
        }
    }

    #[tokio::test]
    async fn it_is_a_page_store() {
        run(&ReplayPageStore::default(), &MetaPages, 1).await;
    }
}
