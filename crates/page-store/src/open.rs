//! Opening a slice after a restart: log directory and chain are made from the segment files.
//!
//! Order: page segments first, then the log. A fragment whose records are all in page versions
//! already is dead at once; the rest waits for consolidation again. Dropped versions that are still
//! in a file come back and are dropped again: the recycle LSN was made durable before them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic;

use perigee_crash::{Point, reach};
use perigee_page_api::{PageError, SliceKey};
use perigee_types::{Lsn, PageId};

use crate::directory::Version;
use crate::failstop::disk;
use crate::fragment::LogFragment;
use crate::frame::{SegmentId, SegmentKind};
use crate::identity::SliceLabel;
use crate::recover::{Found, open_segment};
use crate::segment::{SegmentWriter, file_name, parse_file_name};
use crate::slice::{Shared, Slice, Tenant};

impl Slice {
    /// Opens the slice in `dir`, which has this label.
    pub(crate) fn open(
        key: SliceKey,
        number: u32,
        dir: &Path,
        shared: Arc<Shared>,
        tenant: Arc<Tenant>,
        label: SliceLabel,
    ) -> Result<Self, PageError> {
        let slice = Self::empty(key, number, dir, shared, tenant, label);
        let files = list(dir)?;
        let synced = (label.page_segment, label.page_offset);
        let pages = slice.open_segments(SegmentKind::Pages, &files, synced)?;
        slice.open_pages(pages)?;
        reach(Point::PagesOpened);
        let log = slice.open_segments(SegmentKind::Log, &files, (0, 0))?;
        slice.open_log(log, label.epoch)?;
        slice.prune_all();
        slice.queue_pending()?;
        Ok(slice)
    }

    /// Opens all segments of a kind, in number order. `synced` says up to where, by segment number
    /// and offset, they are known to be durable.
    fn open_segments(
        &self,
        kind: SegmentKind,
        files: &BTreeMap<(SegmentKind, u64), PathBuf>,
        synced: (u64, u64),
    ) -> Result<Vec<Found>, PageError> {
        let of_kind = || files.iter().filter(|((k, _), _)| *k == kind);
        let last = of_kind().next_back().map(|((_, number), _)| *number);
        if synced.1 > 0 && last.is_none_or(|last| last < synced.0) {
            let (slice, name) = (self.key, file_name(kind, synced.0));
            let text = format!(
                "{slice}, file {}: it is missing",
                self.dir.join(name).display()
            );
            return Err(PageError::Corrupt(text));
        }
        let mut found = Vec::new();
        for ((_, number), path) in of_kind() {
            let id = SegmentId {
                slice: self.key,
                kind,
                number: *number,
            };
            let synced = match number.cmp(&synced.0) {
                _ if Some(*number) != last => u64::MAX,
                Ordering::Less => u64::MAX,
                Ordering::Equal => synced.1,
                Ordering::Greater => 0,
            };
            if let Some(segment) = open_segment(id, path, synced, &self.shared.stop)? {
                self.add_segment(&segment.segment);
                if segment.end.is_none() {
                    segment.segment.is_closed(&self.shared.files);
                }
                found.push(segment);
            }
        }
        Ok(found)
    }

    fn open_pages(&self, segments: Vec<Found>) -> Result<(), PageError> {
        let mut worker = self.worker.lock();
        for found in segments {
            for frame in &found.frames {
                let version = Version {
                    lsn: frame.lsn,
                    segment: found.segment.clone(),
                    offset: frame.offset,
                    freed: frame.freed,
                };
                self.directory.add_version(PageId(frame.id), version);
            }
            worker.next_number = found.segment.id().number + 1;
            worker.pages = match found.end {
                Some(end) => Some(SegmentWriter::resume(found.segment, end, found.frames)?),
                None => None,
            };
        }
        Ok(())
    }

    /// Follows the chain through the log segments and indexes what lies in them.
    fn open_log(&self, segments: Vec<Found>, mut epoch: u64) -> Result<(), PageError> {
        let (mut chain, mut next_number, mut writer) = ((0, Lsn(0)), 1, None);
        for found in segments {
            // Segments before this one may be gone, those behind it are not.
            let start = (found.start.sequence, found.start.lsn);
            let segment = found.segment;
            if start.0 < chain.0 || start.0 == chain.0 && start.1 != chain.1 {
                let what = format!("it begins at {} but the log goes to {}", start.1, chain.1);
                return Err(segment.corrupt(0, what));
            }
            chain = start;
            for frame in &found.frames {
                let (fragment, groups) = LogFragment::read(&segment, frame.offset)?;
                let expected = (chain.0 + 1, chain.1);
                if (fragment.sequence, fragment.prev_lsn) != expected {
                    let (sequence, prev) = (fragment.sequence, fragment.prev_lsn);
                    let what = format!("fragment {sequence} follows {prev}, not {}", chain.1);
                    return Err(segment.corrupt(frame.offset, what));
                }
                chain = (fragment.sequence, fragment.last_lsn);
                epoch = epoch.max(fragment.epoch);
                let fragment = Arc::new(fragment);
                self.add_records(&fragment, &groups);
                self.shared.cache.insert(&fragment, &groups);
                self.queue
                    .lock()
                    .fragments
                    .push_back((fragment, std::time::Instant::now()));
            }
            next_number = segment.id().number + 1;
            writer = match found.end {
                Some(end) => Some(SegmentWriter::resume(segment, end, found.frames)?),
                None => None,
            };
        }
        self.persistent.store(chain.1.0, atomic::Ordering::Release);
        self.appender
            .lock()
            .resume(writer, next_number, chain, epoch);
        Ok(())
    }

    /// Drops what the recycle LSN allows, of all pages.
    fn prune_all(&self) {
        let recycle = self.tenant.recycle_lsn();
        let mut worker = self.worker.lock();
        for page in self.directory.page_ids() {
            let pruned = self.directory.prune(page, recycle, &self.shared.cache);
            if let Some(newest) = self.directory.lsns(page).0.last() {
                worker.note_pruned(page, newest.lsn, pruned);
            }
        }
    }

    /// Takes the fragments off the queue that are consolidated: the first ones whose pages all have
    /// versions at or above their records.
    fn queue_pending(&self) -> Result<(), PageError> {
        let fragments = std::mem::take(&mut self.queue.lock().fragments);
        let mut waiting = false;
        for (fragment, _) in fragments {
            if !waiting && !fragment.is_dead() {
                let groups = fragment.groups(&self.shared.cache)?;
                waiting = groups.iter().any(|group| {
                    group.changes.iter().any(|change| {
                        let (versions, _) = self.directory.lsns(change.page);
                        versions.last().is_none_or(|newest| newest.lsn < group.lsn)
                    })
                });
            }
            if waiting {
                self.enqueue(fragment);
            } else {
                fragment.set_consolidated();
            }
        }
        Ok(())
    }
}

/// The segment files in a directory.
pub(crate) fn list(dir: &Path) -> Result<BTreeMap<(SegmentKind, u64), PathBuf>, PageError> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(|e| disk("listing of", dir, &e))? {
        let entry = entry.map_err(|e| disk("listing of", dir, &e))?;
        if let Some(id) = entry.file_name().to_str().and_then(parse_file_name) {
            files.insert(id, entry.path());
        }
    }
    Ok(files)
}
