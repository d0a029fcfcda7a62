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
use perigee_crash::{Point, reach};
use perigee_page_api::{PageError, give_way};
use perigee_reserve::Purpose;
use perigee_types::{Lsn, PAGE_SIZE, PageId, checksum};

use crate::directory::{Newest, PAGE_FRAME, Pruned, Version};
use crate::failstop::disk;
use crate::fragment::LogFragment;
use crate::frame::{ChainStart, FrameKind, SegmentId, SegmentKind};
use crate::materialize::lsn_of;
use crate::pool::Use;
use crate::segment::{NewFrame, SegmentWriter};
use crate::slice::{Slice, Worker};

/// Page versions that are written with one append and one sync: 32 MiB.
const BATCH_PAGES: usize = 2048;

/// As many on a disk that is short of room: 1 MiB.
const SCARCE_BATCH_PAGES: usize = 64;

/// Length at which a segment is closed there at the latest.
const SCARCE_SEGMENT: u64 = 2 << 20;

/// Of these, those that the kernel is given at once: it does not stop amid a call for threads that
/// answer reads.
const WRITTEN_AT_ONCE: usize = 16;

/// Log of the fragments that are consolidated together.
const BATCH_LOG: u64 = 16 << 20;

/// Smallest length at which a segment is closed.
const MIN_SEGMENT: u64 = 1 << 20;

/// A segment is closed at this share of the slice's live bytes, so that a small slice does not
/// carry much garbage and a large one does not have many files.
const SEGMENT_SHARE: u64 = 8;

/// And at this share of the reserve, so that what is needed of it can be moved where nothing else has room.
const RESERVE_SHARE: u64 = 8;

/// Log is consolidated at once when a slice has more of it than this share of its live bytes, and than
/// [`MIN_LOG`]: log takes space until then, but a page that changes often takes more if it is written more
/// often than the recycle LSN moves.
const LOG_SHARE: u64 = 2;

/// Log that may always wait.
const MIN_LOG: u64 = 2 << 20;

/// A page version to be written.
pub(crate) enum NewVersion {
    /// The page.
    Page(Bytes),
    /// A tombstone.
    Freed(Lsn),
}

impl NewVersion {
    fn frame(&self, page: PageId) -> NewFrame<'_> {
        let (kind, lsn, bytes) = match self {
            Self::Page(bytes) => (FrameKind::Page, lsn_of(bytes), &bytes[..]),
            Self::Freed(lsn) => (FrameKind::Freed, *lsn, &[][..]),
        };
        let len = bytes.len();
        assert!(len == PAGE_SIZE || len == 0, "P3: a page of {len} bytes");
        let payload_crc = match bytes.first_chunk() {
            // The page's own.
            Some(crc) => u32::from_le_bytes(*crc),
            None => checksum(&[]),
        };
        NewFrame {
            kind,
            id: page.0,
            lsn,
            payload_crc,
            payload: [bytes, &[]],
        }
    }
}

impl Slice {
    /// True if log should be consolidated now.
    pub(crate) fn consolidation_due(&self, now: Instant, urgent: bool) -> bool {
        let config = &self.shared.config;
        let queue = self.queue.lock();
        let Some((_, arrived)) = queue.fragments.front() else {
            return false;
        };
        let live = self.directory.pages() * PAGE_SIZE as u64;
        let much = queue.backlog >= (live / LOG_SHARE).max(MIN_LOG);
        let idle = queue
            .last_arrival
            .is_none_or(|last| now - last >= config.consolidate_idle);
        urgent
            || idle
            || much
            || now.saturating_duration_since(*arrived) >= config.consolidate_after
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
        let most = self.batch_pages(BATCH_PAGES);
        for batch in pages.chunks(most) {
            self.consolidate_pages(worker, batch)?;
        }
        for _ in fragments {
            self.dequeue();
        }
        Ok(())
    }

    /// How many page versions are written with one append and one sync, where `usual` are usually. On a
    /// disk that is short of room few: what they take the place of can go sooner.
    pub(crate) fn batch_pages(&self, usual: usize) -> usize {
        match self.shared.reserve.is_low() {
            true => SCARCE_BATCH_PAGES,
            false => usual,
        }
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
        let mut made = Vec::with_capacity(pages.len());
        for page in pages {
            let view = match self.directory.pending(*page) {
                Some(Newest::Page(view)) => view,
                Some(Newest::Freed(lsn)) => {
                    made.push((*page, NewVersion::Freed(lsn)));
                    continue;
                }
                None => continue,
            };
            match self.make(*page, &view) {
                Ok(bytes) => made.push((*page, NewVersion::Page(bytes))),
                Err(error @ PageError::Corrupt(_)) => {
                    tracing::error!("consolidation leaves a page out: {error}");
                    self.directory.set_broken(*page);
                }
                Err(error) => return Err(error),
            }
            give_way();
        }
        let versions = self.append_pages(worker, &made, Purpose::Versions)?;
        let written = &self.shared.counters.versions_written;
        written.add(versions.len() as u64);
        let recycle = self.tenant.recycle_lsn();
        for ((page, new), version) in made.into_iter().zip(versions) {
            let lsn = version.lsn;
            let cache = &self.shared.cache;
            let pruned = self.directory.publish(page, version, recycle, cache);
            worker.note_pruned(page, lsn, pruned);
            if let NewVersion::Page(bytes) = new {
                let key = (self.number, page);
                self.shared.pool.insert(key, lsn, bytes, Use::Wanted);
            }
        }
        Ok(())
    }

    /// Appends page versions to the slice's page segment and syncs it, if their purpose leaves enough of the reserve.
    pub(crate) fn append_pages(
        &self,
        worker: &mut Worker,
        pages: &[(PageId, NewVersion)],
        purpose: Purpose,
    ) -> Result<Vec<Version>, PageError> {
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let stop = &self.shared.stop;
        stop.check()?;
        let room = self
            .shared
            .reserve
            .check(purpose, pages.len() as u64 * PAGE_FRAME);
        room.map_err(|e| disk("pages of", &self.dir, &e))?;
        let writer = self.page_writer(worker)?;
        let frames: Vec<_> = pages.iter().map(|(page, new)| new.frame(*page)).collect();
        let mut offsets = Vec::with_capacity(frames.len());
        for part in frames.chunks(WRITTEN_AT_ONCE) {
            match writer.append(part) {
                Ok(written) => offsets.extend(written),
                Err(error) => {
                    // A part that nobody knows of would only take room.
                    writer.take_back_unsynced();
                    return Err(error);
                }
            }
            give_way();
        }
        reach(Point::VersionsWritten);
        writer.sync(stop)?;
        reach(Point::VersionsSynced);
        let segment = writer.segment();
        let versions = frames.iter().zip(offsets).map(|(frame, offset)| Version {
            lsn: frame.lsn,
            segment: segment.clone(),
            offset,
            freed: frame.kind == FrameKind::Freed,
        });
        Ok(versions.collect())
    }

    fn page_writer<'a>(&self, worker: &'a mut Worker) -> Result<&'a mut SegmentWriter, PageError> {
        let stop = &self.shared.stop;
        let limit = self.segment_limit(self.shared.config.page_segment_bytes);
        if worker.pages.as_ref().is_some_and(|w| w.end() >= limit) {
            self.close_pages(worker)?;
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
        let writer = worker.pages.as_mut().expect("just made");
        writer.allocate_ahead(!self.shared.reserve.is_low());
        Ok(writer)
    }

    /// Length at which a segment is closed.
    pub(crate) fn segment_limit(&self, most: u64) -> u64 {
        let live = self.directory.pages() * PAGE_SIZE as u64;
        let reserve = self.shared.reserve.size() / RESERVE_SHARE;
        let most = most.min(reserve.max(MIN_SEGMENT));
        let limit = (live / SEGMENT_SHARE).clamp(MIN_SEGMENT.min(most), most);
        match self.shared.reserve.is_low() {
            // What is in a closed one can be collected.
            true => limit.min(SCARCE_SEGMENT),
            false => limit,
        }
    }

    /// Closes the page segment that is being written.
    pub(crate) fn close_pages(&self, worker: &mut Worker) -> Result<(), PageError> {
        if let Some(current) = worker.pages.take() {
            let sealed = current.seal(&self.shared.stop)?;
            reach(Point::PageSegmentSealed);
            sealed.is_closed(&self.shared.files);
            self.pages_are_synced(sealed.id().number, sealed.size())?;
        }
        Ok(())
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
            let pruned = self.directory.prune(page, recycle, &self.shared.cache);
            // If more can go later, a newer version of the page is in the heap too.
            let later = false;
            worker.note_pruned(page, lsn, Pruned { later, ..pruned });
        }
        worker.pruned = recycle;
    }
}

/// How long the worker leaves a slice alone after an error that is not about one page: the disk is
/// full, or cannot be read.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);
