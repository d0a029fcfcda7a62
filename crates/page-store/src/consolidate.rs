//! Consolidation: making durable page versions from log, in the background.
//!
//! Fragments are taken in arrival order, so that the log cache can let go of them in that order
//! (taurus-2020 section 7). For each page that a fragment touches, all log that the page has is
//! applied, also that of later fragments: a page that changes often is written once for all of it.
//! New versions are appended to the slice's page segment and synced by the dozen; only then are
//! they in the log directory and may the log be forgotten.
//!
//! A page whose log cannot be applied is left as it is, with its log, and named in the error log;
//! reads of it say why. The rest of the slice goes on.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use perigee_page_api::{PageError, give_way};
use perigee_types::{PAGE_SIZE, PageId};

use crate::directory::Version;
use crate::fragment::LogFragment;
use crate::frame::{ChainStart, FrameKind, SegmentId, SegmentKind};
use crate::materialize::lsn_of;
use crate::pool::Use;
use crate::segment::{NewFrame, SegmentWriter};
use crate::slice::{Slice, Worker};

/// Page versions that are written with one append and one sync: 32 MiB.
const BATCH_PAGES: usize = 2048;

/// Of these, those that the kernel is given at once: it does not stop amid a call for threads that
/// answer reads.
const WRITTEN_AT_ONCE: usize = 16;

/// Log of the fragments that are consolidated together.
const BATCH_LOG: u64 = 16 << 20;

/// Smallest length at which a page segment is closed.
const MIN_SEGMENT: u64 = 4 << 20;

/// A segment is closed at this share of the slice's live bytes, so that a small slice does not
/// carry much garbage and a large one does not have many files.
const SEGMENT_SHARE: u64 = 8;

impl Slice {
    /// True if log should be consolidated now.
    pub(crate) fn consolidation_due(&self, now: Instant, urgent: bool) -> bool {
        let config = &self.shared.config;
        let queue = self.queue.lock();
        let Some((_, arrived)) = queue.fragments.front() else {
            return false;
        };
        let idle = queue
            .last_arrival
            .is_none_or(|last| now - last >= config.consolidate_idle);
        urgent || idle || now.saturating_duration_since(*arrived) >= config.consolidate_after
    }

    /// Consolidates the oldest fragments. Blocks.
    pub(crate) fn consolidate(&self, worker: &mut Worker) -> Result<(), PageError> {
        let (mut fragments, mut bytes) = (Vec::new(), 0);
        for (fragment, _) in &self.queue.lock().fragments {
            bytes += fragment.log_bytes();
            if !fragments.is_empty() && bytes > BATCH_LOG {
                break;
            }
            fragments.push(fragment.clone());
        }
        let pages = self.pages_of(&fragments)?;
        for batch in pages.chunks(BATCH_PAGES) {
            self.consolidate_pages(worker, batch)?;
        }
        for _ in fragments {
            self.dequeue();
        }
        Ok(())
    }

    /// The pages that fragments touch, in id order: neighbours are often read together later.
    fn pages_of(&self, fragments: &[Arc<LogFragment>]) -> Result<Vec<PageId>, PageError> {
        let mut pages = Vec::new();
        for fragment in fragments.iter().filter(|f| !f.is_dead()) {
            let groups = fragment.groups(&self.shared.cache)?;
            pages.extend(
                groups
                    .iter()
                    .flat_map(|g| &g.changes)
                    .map(|change| change.page),
            );
        }
        pages.sort_unstable();
        pages.dedup();
        Ok(pages)
    }

    fn consolidate_pages(&self, worker: &mut Worker, pages: &[PageId]) -> Result<(), PageError> {
        let mut made: Vec<(PageId, Bytes)> = Vec::with_capacity(pages.len());
        for page in pages {
            let Some(view) = self.directory.pending(*page) else {
                continue;
            };
            match self.make(*page, &view) {
                Ok(bytes) => made.push((*page, bytes)),
                Err(error @ PageError::Corrupt(_)) => {
                    tracing::error!("consolidation leaves a page out: {error}");
                    self.directory.set_broken(*page);
                }
                Err(error) => return Err(error),
            }
            give_way();
        }
        let versions = self.append_pages(worker, &made)?;
        let written = &self.shared.counters.versions_written;
        written.add(versions.len() as u64);
        let recycle = self.tenant.recycle_lsn();
        for ((page, bytes), version) in made.into_iter().zip(versions) {
            let lsn = version.lsn;
            if self
                .directory
                .publish(page, version, recycle, &self.shared.cache)
            {
                worker.unpruned.push(Reverse((lsn, page)));
            }
            self.shared
                .pool
                .insert((self.number, page), lsn, bytes, Use::Wanted);
        }
        Ok(())
    }

    /// Appends page versions to the slice's page segment and syncs it.
    pub(crate) fn append_pages(
        &self,
        worker: &mut Worker,
        pages: &[(PageId, Bytes)],
    ) -> Result<Vec<Version>, PageError> {
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let stop = &self.shared.stop;
        stop.check()?;
        let writer = self.page_writer(worker)?;
        let frames: Vec<_> = pages
            .iter()
            .map(|(page, bytes)| {
                assert!(
                    bytes.len() == PAGE_SIZE,
                    "P3: a page of {} bytes",
                    bytes.len()
                );
                NewFrame {
                    kind: FrameKind::Page,
                    id: page.0,
                    lsn: lsn_of(bytes),
                    payload_crc: u32::from_le_bytes(*bytes.first_chunk().expect("a page")),
                    payload: [bytes, &[]],
                }
            })
            .collect();
        let mut offsets = Vec::with_capacity(frames.len());
        for part in frames.chunks(WRITTEN_AT_ONCE) {
            offsets.extend(writer.append(part)?);
            give_way();
        }
        writer.sync(stop)?;
        let segment = writer.segment();
        let versions = frames.iter().zip(offsets).map(|(frame, offset)| Version {
            lsn: frame.lsn,
            segment: segment.clone(),
            offset,
        });
        Ok(versions.collect())
    }

    fn page_writer<'a>(&self, worker: &'a mut Worker) -> Result<&'a mut SegmentWriter, PageError> {
        let stop = &self.shared.stop;
        let live = self.directory.pages() * PAGE_SIZE as u64;
        let most = self.shared.config.page_segment_bytes;
        let limit = (live / SEGMENT_SHARE).clamp(MIN_SEGMENT.min(most), most);
        if worker.pages.as_ref().is_some_and(|w| w.end() >= limit) {
            let full = worker.pages.take().expect("checked in the line above");
            let sealed = full.seal(stop)?;
            self.pages_are_synced(sealed.id().number, sealed.size())?;
        }
        if worker.pages.is_none() {
            let id = SegmentId {
                slice: self.key,
                kind: SegmentKind::Pages,
                number: worker.next_number,
            };
            let made = SegmentWriter::create(&self.dir, id, ChainStart::default(), stop)?;
            worker.next_number += 1;
            self.add_segment(made.segment());
            worker.pages = Some(made);
        }
        Ok(worker.pages.as_mut().expect("just made"))
    }

    /// True if the recycle LSN allows to drop something.
    pub(crate) fn pruning_due(&self, worker: &Worker) -> bool {
        let recycle = self.tenant.recycle_lsn();
        worker
            .unpruned
            .peek()
            .is_some_and(|Reverse((lsn, _))| *lsn <= recycle)
    }

    /// Drops what the recycle LSN allows.
    pub(crate) fn prune(&self, worker: &mut Worker) {
        let recycle = self.tenant.recycle_lsn();
        while let Some(Reverse((lsn, page))) = worker.unpruned.peek().copied() {
            if lsn > recycle {
                break;
            }
            worker.unpruned.pop();
            // If more can go later, a newer version of the page is in the heap too.
            self.directory.prune(page, recycle, &self.shared.cache);
        }
        worker.pruned = recycle;
    }
}

/// How long the worker leaves a slice alone after an error that is not about one page: the disk is
/// full, or cannot be read.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);
