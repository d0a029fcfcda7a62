//! Garbage collection: deleting segments that nobody needs, rewriting page segments that hold
//! little of what is needed.
//!
//! Bound: a slice's page segments take no more than [`GARBAGE_PERCENT`] % of the bytes that are
//! needed, plus the segment being written and two more of that size. A log segment goes as a
//! whole when page versions have taken the place of all its records.

use std::sync::Arc;

use perigee_page_api::PageError;
use perigee_types::{Lsn, PageId};

use crate::directory::Version;
use crate::frame::SegmentKind;
use crate::materialize;
use crate::segment::{Segment, SegmentIndex};
use crate::slice::{Slice, Worker};

/// Size of all closed page segments, as a percentage of what is needed of them, at which one of
/// them is rewritten. Lower wastes less space, higher rewrites less.
const GARBAGE_PERCENT: u64 = 150;

/// Garbage that is never worth a rewrite.
const SLACK: u64 = 4 << 20;

/// Page versions that are moved with one append and one sync.
const BATCH_PAGES: usize = 256;

impl Slice {
    /// Deletes closed segments without anything needed; true if there were any.
    pub(crate) fn delete_dead(&self, worker: &mut Worker) -> Result<bool, PageError> {
        let current_log = self.appender.lock().current_segment();
        let current_pages = worker.pages.as_ref().map(|w| w.segment().id().number);
        let dead: Vec<_> = self
            .segments
            .lock()
            .iter()
            .filter(|((kind, number), segment)| {
                let closed = match kind {
                    SegmentKind::Log => *number < current_log,
                    SegmentKind::Pages => Some(*number) != current_pages,
                };
                closed && segment.live() == 0
            })
            .map(|(_, segment)| segment.clone())
            .collect();
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

    /// The closed page segment that is most worth rewriting, if there is too much garbage.
    pub(crate) fn rewrite_due(&self, worker: &Worker) -> Option<Arc<Segment>> {
        let current = worker.pages.as_ref().map(|w| w.segment().id().number);
        let segments = self.segments.lock();
        let closed = segments.iter().filter(|((kind, number), _)| {
            *kind == SegmentKind::Pages
                && Some(*number) != current
                && !worker.damaged.contains(number)
        });
        let (mut size, mut live, mut worst) = (0, 0, None);
        for (_, segment) in closed {
            let (s, l) = (segment.size(), segment.live());
            (size, live) = (size + s, live + l);
            let share = l as f64 / s as f64;
            if worst.as_ref().is_none_or(|(least, _)| share < *least) {
                worst = Some((share, segment.clone()));
            }
        }
        let too_much = size > live * GARBAGE_PERCENT / 100 + SLACK;
        worst.filter(|_| too_much).map(|(_, segment)| segment)
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
        let mut versions = Vec::new();
        for (page, lsn, offset) in self.frames_of(segment)? {
            if self.directory.is_at(page, segment, offset) {
                let segment = segment.clone();
                versions.push((
                    page,
                    Version {
                        lsn,
                        segment,
                        offset,
                    },
                ));
            }
        }
        for batch in versions.chunks(BATCH_PAGES) {
            let mut pages = Vec::with_capacity(batch.len());
            let mut offsets = Vec::with_capacity(batch.len());
            let mut failed = None;
            materialize::read_versions(batch, |i, result| match result {
                Ok(bytes) => {
                    pages.push((batch[i].0, bytes));
                    offsets.push(batch[i].1.offset);
                }
                Err(error) => failed = Some(error),
            });
            if let Some(error) = failed {
                // The bad page stays where it is and is named when it is read (C4).
                tracing::error!("segment is not rewritten: {error}");
                worker.damaged.push(segment.id().number);
                return Ok(());
            }
            let moved = self.append_pages(worker, &pages)?;
            for (((page, _), from), to) in pages.iter().zip(offsets).zip(moved) {
                self.directory
                    .relocate(*page, (segment, from), (&to.segment, to.offset));
            }
        }
        Ok(())
    }

    /// Page, LSN and offset of every frame of a closed page segment.
    fn frames_of(&self, segment: &Arc<Segment>) -> Result<Vec<(PageId, Lsn, u64)>, PageError> {
        let entries = match segment.read_index()? {
            SegmentIndex::Good(entries) => entries,
            // Without an index the directory is asked for everything it has in the segment.
            SegmentIndex::None | SegmentIndex::Damaged(_) => {
                let mut frames = Vec::new();
                for page in self.directory.page_ids() {
                    let (versions, _) = self.directory.lsns(page);
                    let here = versions.iter().filter(|v| Arc::ptr_eq(&v.segment, segment));
                    frames.extend(here.map(|v| (page, v.lsn, v.offset)));
                }
                return Ok(frames);
            }
        };
        Ok(entries
            .iter()
            .map(|e| (PageId(e.id), e.lsn, e.offset))
            .collect())
    }
}
