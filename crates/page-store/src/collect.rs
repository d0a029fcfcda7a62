//! Garbage collection: deleting segments that nobody needs, rewriting page segments that hold
//! little of what is needed, forgetting pages that were freed.
//!
//! Bound: a slice's page segments take no more than what is needed of them, plus [`GARBAGE_PERCENT`] % of its
//! pages, plus [`SLACK`], plus what is allocated ahead of the end of the one being written. A log
//! segment goes as a whole when page versions have taken the place of all its records; the one
//! being written goes too when nothing is written to it. So a slice without pages takes next to nothing.

use std::sync::Arc;

use perigee_crash::{Point, reach};
use perigee_page_api::PageError;
use perigee_reserve::Purpose;
use perigee_types::PageId;

use crate::consolidate::NewVersion;
use crate::directory::{PAGE_FRAME, Version};
use crate::failstop::disk;
use crate::frame::SegmentKind;
use crate::materialize;
use crate::segment::{Segment, SegmentIndex};
use crate::slice::{Slice, Worker};

/// Garbage in all page segments, as a percentage of the newest versions of all pages, at which one of
/// them is rewritten. Lower wastes less space, higher rewrites less. What older versions and log take,
/// which cannot be dropped yet, must fit into the rest of twice the live bytes.
const GARBAGE_PERCENT: u64 = 40;

/// Garbage that is never worth a rewrite.
const SLACK: u64 = 256 << 10;

/// When tombstones are more than one part in so many of what is needed, the oldest segment is
/// rewritten: they can go when it has gone. What is rewritten for them is bounded by that.
const TOMBSTONE_PART: u64 = 8;

/// [`GARBAGE_PERCENT`] on a disk that is short of room, where work is cheaper than space.
const SCARCE_GARBAGE_PERCENT: u64 = 10;

/// The least garbage in a segment that is worth a rewrite where log is refused for lack of room, as a percentage of the
/// segment: the reserve does not grow with the disk, so [`SCARCE_GARBAGE_PERCENT`] of a large one may be more than all of it.
const LEAST_GARBAGE_PERCENT: u64 = 2;

/// Page versions that are moved with one append and one sync.
const BATCH_PAGES: usize = 256;

impl Slice {
    /// Deletes closed segments without anything needed; true if there were any.
    pub(crate) fn delete_dead(&self, worker: &mut Worker) -> Result<bool, PageError> {
        let current_log = self.appender.lock().current_segment();
        let segments = self.segments.lock();
        // The youngest page segment stays, written or closed: the label may name it, and a slice whose
        // files end before what the label says has lost some.
        let pages = segments
            .keys()
            .filter(|(kind, _)| *kind == SegmentKind::Pages);
        let youngest = pages.map(|(_, number)| *number).max();
        let dead: Vec<_> = segments
            .iter()
            .filter(|((kind, number), segment)| {
                let closed = match kind {
                    SegmentKind::Log => *number < current_log,
                    SegmentKind::Pages => Some(*number) != youngest,
                };
                closed && segment.live() == 0
            })
            .map(|(_, segment)| segment.clone())
            .collect();
        drop(segments);
        if let (false, Some(writer)) = (dead.is_empty(), &worker.pages) {
            self.pages_are_synced(writer.segment().id().number, writer.synced())?;
        }
        for segment in &dead {
            self.delete_segment(segment)?;
            worker
                .damaged
                .retain(|number| *number != segment.id().number);
        }
        Ok(!dead.is_empty())
    }

    /// Forgets pages that were freed, once no file but that of the tombstone can hold an older version;
    /// true if there were any.
    pub(crate) fn forget_buried(&self, worker: &mut Worker) -> bool {
        let recycle = self.tenant.recycle_lsn();
        let mut worked = false;
        while let Some((number, page)) = worker.buried.front().copied() {
            // None: it was used again.
            if let Some(grave) = self.directory.grave(page, recycle) {
                let segments = self.segments.lock();
                let older = (SegmentKind::Pages, 0)..=(SegmentKind::Pages, number);
                let mut others = segments.range(older).filter(|((_, n), _)| *n != grave);
                if others.next().is_some() {
                    break;
                }
                drop(segments);
                self.directory.forget(page, recycle);
            }
            worker.buried.pop_front();
            worked = true;
        }
        worked
    }

    /// The page segment that is most worth rewriting, if there is too much garbage.
    pub(crate) fn rewrite_due(&self, worker: &Worker) -> Option<Arc<Segment>> {
        let current = worker.current();
        let segments = self.segments.lock();
        let candidates = segments.iter().filter(|((kind, number), _)| {
            *kind == SegmentKind::Pages && !worker.damaged.contains(number)
        });
        let (mut size, mut live, mut worst) = (0, 0, None);
        let mut oldest = None;
        for ((_, number), segment) in candidates {
            let is_current = Some(*number) == current;
            let end = worker.pages.as_ref().filter(|_| is_current);
            let s = end.map_or_else(|| segment.size(), |writer| writer.end());
            let l = segment.live();
            (size, live) = (size + s, live + l);
            let share = l as f64 / s as f64;
            if worst.as_ref().is_none_or(|(least, _)| share < *least) {
                worst = Some((share, segment.clone()));
            }
            if oldest.is_none() && !is_current {
                oldest = Some(segment.clone());
            }
        }
        let percent = match self.shared.reserve.is_low() {
            true => SCARCE_GARBAGE_PERCENT,
            false => GARBAGE_PERCENT,
        };
        let newest = self.directory.pages() * PAGE_FRAME;
        if size > live + newest * percent / 100 + SLACK {
            return worst.map(|(_, segment)| segment);
        }
        let least_live = (100 - LEAST_GARBAGE_PERCENT) as f64 / 100.0;
        if let Some((share, segment)) = worst.filter(|(share, _)| *share < least_live)
            && size > live + SLACK
            && self.shared.reserve.is_used_up()
        {
            tracing::debug!(
                "{}: {:.1} % is needed",
                segment.path().display(),
                share * 100.0
            );
            return Some(segment);
        }
        // Those that keep tombstones from going.
        let buried_in = worker.buried.front()?.0;
        let many = self.directory.tombstone_bytes() * TOMBSTONE_PART > live;
        oldest.filter(|segment| many && segment.id().number <= buried_in)
    }

    /// Moves what is needed of a page segment to the current one.
    pub(crate) fn rewrite(
        &self,
        worker: &mut Worker,
        segment: &Arc<Segment>,
    ) -> Result<(), PageError> {
        let (live, size) = (segment.live(), segment.size());
        tracing::debug!(
            "rewriting {}: {live} of {size} bytes",
            segment.path().display()
        );
        if worker.current() == Some(segment.id().number) {
            self.close_pages(worker)?;
        }
        // A part of it that was moved has taken room, and freed none.
        let room = self.shared.reserve.check(Purpose::Moves, live);
        room.map_err(|e| disk("moving what is needed of", segment.path(), &e))?;
        let mut versions = Vec::new();
        for (page, offset) in self.frames_of(segment)? {
            if let Some(version) = self.directory.version_at(page, segment, offset) {
                versions.push((page, version));
            }
        }
        for batch in versions.chunks(self.batch_pages(BATCH_PAGES)) {
            let (tombstones, pages): (Vec<_>, Vec<_>) = batch
                .iter()
                .cloned()
                .partition(|(_, version)| version.freed);
            let mut moving: Vec<_> = tombstones
                .into_iter()
                .map(|(page, version)| (page, version.offset, NewVersion::Freed(version.lsn)))
                .collect();
            let mut failed = None;
            materialize::read_versions(&pages, |i, result| match result {
                Ok(bytes) => {
                    let (page, version) = &pages[i];
                    moving.push((*page, version.offset, NewVersion::Page(bytes)));
                }
                Err(error) => failed = Some(error),
            });
            if let Some(error) = failed {
                // The bad page stays where it is and is named when it is read (C4).
                tracing::error!("segment is not rewritten: {error}");
                worker.damaged.push(segment.id().number);
                return Ok(());
            }
            self.relocate(worker, segment, moving)?;
        }
        Ok(())
    }

    /// Writes versions of a segment anew; each is given with its page and its offset there.
    fn relocate(
        &self,
        worker: &mut Worker,
        from: &Arc<Segment>,
        moving: Vec<(PageId, u64, NewVersion)>,
    ) -> Result<(), PageError> {
        let (places, versions): (Vec<_>, Vec<_>) = moving
            .into_iter()
            .map(|(page, offset, version)| ((page, offset), (page, version)))
            .unzip();
        let moved: Vec<Version> = self.append_pages(worker, &versions, Purpose::Moves)?;
        reach(Point::VersionsMoved);
        for ((page, offset), to) in places.into_iter().zip(moved) {
            let to = (&to.segment, to.offset);
            self.directory.relocate(page, (from, offset), to);
        }
        Ok(())
    }

    /// Page and offset of every frame of a closed page segment.
    fn frames_of(&self, segment: &Arc<Segment>) -> Result<Vec<(PageId, u64)>, PageError> {
        let entries = match segment.read_index()? {
            SegmentIndex::Good(entries) => entries,
            // Without an index the directory is asked for everything it has in the segment.
            SegmentIndex::None | SegmentIndex::Damaged(_) => {
                let mut frames = Vec::new();
                for page in self.directory.page_ids() {
                    let (versions, _) = self.directory.lsns(page);
                    let here = versions.iter().filter(|v| Arc::ptr_eq(&v.segment, segment));
                    frames.extend(here.map(|v| (page, v.offset)));
                }
                return Ok(frames);
            }
        };
        let frames = entries.iter().map(|e| (PageId(e.id), e.offset));
        Ok(frames.collect())
    }
}
