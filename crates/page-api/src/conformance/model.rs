//! The reference model: every log record kept in memory for ever, every read a replay.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use perigee_types::{DbId, Lsn, PAGE_SIZE, PageId, Reader, Writer};

use super::{Format, Touch};
use crate::{
    Fragment, NdpDecline, NdpItem, NdpRead, NdpReply, NdpStream, NdpUsage, PageError, PageStore,
    ReadPages, SliceKey, SliceStatus, StoreStatus,
};

/// Pages that say nothing but which changes they had.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToyFormat;

impl Format for ToyFormat {
    fn groups(&self, _: DbId, groups: &[(Lsn, Vec<Touch>)]) -> Bytes {
        let mut w = Writer::new();
        for (lsn, touches) in groups {
            w.u64(lsn.0).u32(touches.len() as u32);
            for touch in touches {
                w.u64(touch.page.0);
            }
        }
        w.into_bytes().into()
    }

    fn page(&self, db: DbId, page: PageId, changes: &[Lsn]) -> Bytes {
        let mut w = Writer::new();
        w.u32(db.0).u64(page.0);
        for lsn in changes {
            w.u64(lsn.0);
        }
        let mut bytes = w.into_bytes();
        bytes.resize(PAGE_SIZE, 0);
        bytes.into()
    }
}

impl ToyFormat {
    fn decode(groups: &[u8]) -> Result<Vec<(Lsn, Vec<PageId>)>, PageError> {
        let malformed = |e: perigee_types::DecodeError| PageError::Corrupt(e.to_string());
        let mut r = Reader::new(groups, "toy group");
        let mut out = Vec::new();
        while r.remaining() > 0 {
            let lsn = Lsn(r.u64().map_err(malformed)?);
            let n = r.u32().map_err(malformed)?;
            let pages = (0..n)
                .map(|_| r.u64().map(PageId).map_err(malformed))
                .collect::<Result<_, _>>()?;
            out.push((lsn, pages));
        }
        Ok(out)
    }
}

#[derive(Default)]
struct Slice {
    epoch: u64,
    status: SliceStatus,
    changes: BTreeMap<PageId, Vec<Lsn>>,
}

#[derive(Default)]
struct State {
    slices: BTreeMap<SliceKey, Slice>,
    /// Of the last deletion of a slice.
    epochs: BTreeMap<DbId, u64>,
    recycle: BTreeMap<DbId, Lsn>,
}

/// A [`PageStore`] of [`ToyFormat`] pages in memory.
#[derive(Default)]
pub struct MemoryPageStore {
    state: Mutex<State>,
}

impl MemoryPageStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let found = state
            .slices
            .get(&slice)
            .ok_or_else(|| PageError::NotFound(slice.to_string()))?;
        if epoch < found.epoch {
            return Err(PageError::Fenced(format!("{slice}: old epoch")));
        }
        if found.status.persistent_lsn < lsn {
            return Err(PageError::Behind(format!("{slice} has not reached {lsn}")));
        }
        if lsn < recycle {
            return Err(PageError::Recycled(format!("{slice} at {lsn}")));
        }
        let page = |page: &PageId| {
            let all = found.changes.get(page).map_or(&[][..], Vec::as_slice);
            let seen = &all[..all.partition_point(|l| *l <= lsn)];
            if seen.is_empty() {
                return Err(PageError::NotFound(format!("{page} of {slice} at {lsn}")));
            }
            Ok(ToyFormat.page(slice.db, *page, seen))
        };
        pages.iter().map(page).collect()
    }
}

impl Slice {
    fn write(&mut self, fragment: &Fragment) -> Result<SliceStatus, PageError> {
        let (slice, sequence) = (fragment.slice, fragment.sequence);
        let refuse =
            |text: &str| PageError::Refused(format!("fragment {sequence} of {slice}: {text}"));
        if fragment.epoch < self.epoch {
            let text = format!("fragment {sequence} of {slice}: old epoch");
            return Err(PageError::Fenced(text));
        }
        if sequence == 0 || fragment.first_lsn <= fragment.prev_lsn {
            return Err(refuse("makes no sense"));
        }
        let status = &mut self.status;
        if sequence <= status.sequence {
            if sequence == status.sequence && fragment.last_lsn != status.persistent_lsn {
                return Err(refuse("is another one than before"));
            }
            return Ok(*status);
        }
        if sequence != status.sequence + 1 || fragment.prev_lsn != status.persistent_lsn {
            return Err(refuse("comes after a hole"));
        }
        let groups = ToyFormat::decode(&fragment.groups)?;
        for (lsn, pages) in groups {
            for page in pages {
                self.changes.entry(page).or_default().push(lsn);
            }
        }
        self.epoch = fragment.epoch;
        *status = SliceStatus {
            sequence,
            persistent_lsn: fragment.last_lsn,
            consolidated_lsn: fragment.last_lsn,
            backlog_bytes: 0,
            pages: self.changes.len() as u64,
        };
        Ok(*status)
    }
}

#[async_trait]
impl PageStore for MemoryPageStore {
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
        let Some(found) = state.slices.get(&slice) else {
            return Ok(true);
        };
        if epoch < found.epoch {
            return Err(PageError::Fenced(format!("{slice}: old epoch")));
        }
        let ended = found.status.sequence > 0 && found.status.persistent_lsn == end;
        if !ended || !found.changes.is_empty() {
            return Ok(false);
        }
        state.slices.remove(&slice);
        state.epochs.insert(slice.db, epoch);
        Ok(true)
    }

    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        let mut state = self.state();
        let slice = state
            .slices
            .get_mut(&fragment.slice)
            .ok_or_else(|| PageError::NotFound(fragment.slice.to_string()))?;
        slice.write(&fragment)
    }

    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        self.read(read.slice, read.epoch, read.lsn, &read.pages)
    }

    async fn ndp_read(&self, read: NdpRead) -> Result<NdpStream, PageError> {
        let pages = self.read(read.slice, read.epoch, read.lsn, &read.pages)?;
        let replies = pages.into_iter().enumerate().map(|(index, page)| {
            Ok(NdpReply {
                items: vec![NdpItem::Declined {
                    index: index as u32,
                    reason: NdpDecline::Descriptor,
                    page,
                }],
                usage: NdpUsage::default(),
                filters: None,
            })
        });
        Ok(futures::stream::iter(replies.collect::<Vec<_>>()).boxed())
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
        let pages: usize = state.slices.values().map(|s| s.changes.len()).sum();
        let bytes = (pages * PAGE_SIZE) as u64;
        Ok(StoreStatus {
            slices: state.slices.iter().map(|(k, s)| (*k, s.status)).collect(),
            live_bytes: bytes,
            disk_bytes: bytes,
        })
    }
}
