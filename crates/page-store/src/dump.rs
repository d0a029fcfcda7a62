//! A store's directory for people: what a slice holds as text, and single page versions. Changes
//! nothing and needs no lock; what a running store appends meanwhile may be missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use perigee_page::PageRef;
use perigee_page_api::{PageError, SliceKey};
use perigee_redo::Group;
use perigee_types::{DbId, Lsn, PageId, SliceId};

use crate::directory::{Directory, Record, Version};
use crate::failstop::disk;
use crate::fragment::{LogCache, LogFragment};
use crate::frame::{IndexEntry, SegmentId, SegmentKind};
use crate::open::list;
use crate::recover::{is_zero, read_frames};
use crate::segment::Segment;
use crate::service::{db_name, numbered};
use crate::{identity, materialize};

/// What a slice's directory holds.
#[derive(Debug)]
pub struct SliceDump {
    /// Its segments with their frames, then for each page its versions and log records.
    pub text: String,
    /// What fails its checks; it is told in the text too, at its place.
    pub damage: Vec<PageError>,
}

/// Lists the segments of the slice in `dir` (`.../db-<id>/slice-<id>`) with their frames, and for
/// each page its versions and log records. Everything is read and checked.
///
/// # Errors
/// [`PageError::NotFound`] if `dir` is no slice's directory; [`PageError::Corrupt`] if its label is
/// damaged; [`PageError::Disk`] if it cannot be read.
pub fn dump_slice(dir: &Path) -> Result<SliceDump, PageError> {
    let not_found = || PageError::NotFound(format!("slice in {}", dir.display()));
    let full = fs::canonicalize(dir).map_err(|e| disk("finding of", dir, &e))?;
    let number = |path: Option<&Path>, prefix: &str| {
        path?
            .file_name()?
            .to_str()?
            .strip_prefix(prefix)?
            .parse::<u32>()
            .ok()
    };
    let db_dir = full.parent().ok_or_else(not_found)?;
    let key = SliceKey {
        db: DbId(number(Some(db_dir), "db-").ok_or_else(not_found)?),
        slice: SliceId(number(Some(&full), "slice-").ok_or_else(not_found)?),
    };
    let label = identity::read_slice(&full, key)?.ok_or_else(not_found)?;
    let recycle = identity::read_recycle(db_dir, key.db)?;
    let mut listing = Listing::default();
    listing.line(format_args!(
        "{key} epoch {} recycle {recycle}",
        label.epoch
    ));
    for ((kind, number), path) in list(&full)? {
        let id = SegmentId {
            slice: key,
            kind,
            number,
        };
        if let Err(error) = listing.segment(id, &path) {
            listing.damaged(0, error);
        }
    }
    Ok(listing.finish())
}

/// The page as of `lsn`, made from the files of the Page Store in `dir` as the store itself would;
/// `None` asks for the newest version. Returns it with the slice that has it.
///
/// # Errors
/// [`PageError::NotFound`] if no slice of the database has the page at that LSN, or `dir` is no
/// Page Store; [`PageError::Refused`] if it is one of another format; [`PageError::Recycled`],
/// [`PageError::Corrupt`] and [`PageError::Disk`] as from the store.
pub fn read_page(
    dir: &Path,
    db: DbId,
    page: PageId,
    lsn: Option<Lsn>,
) -> Result<(SliceKey, Bytes), PageError> {
    if !identity::check_store(dir)? {
        let text = format!("pages in {}: it is empty", dir.display());
        return Err(PageError::NotFound(text));
    }
    let db_dir = dir.join(db_name(db));
    if !db_dir.is_dir() {
        return Err(PageError::NotFound(format!("{db} in {}", dir.display())));
    }
    let recycle = identity::read_recycle(&db_dir, db)?;
    if let Some(lsn) = lsn.filter(|lsn| *lsn < recycle) {
        let text = format!("{page} at {lsn}, the recycle LSN is {recycle}");
        return Err(PageError::Recycled(text));
    }
    let lsn = lsn.unwrap_or(Lsn(u64::MAX));
    let mut trouble = None;
    for (slice, dir) in numbered(&db_dir, "slice-")? {
        let slice = SliceId(slice);
        let key = SliceKey { db, slice };
        match page_of_slice(key, &dir, page, lsn) {
            Ok(None) => {}
            Ok(Some(bytes)) => return Ok((key, bytes)),
            // Another slice may have the page. If none has it, this is why.
            Err(error) => trouble = Some(error),
        }
    }
    Err(trouble.unwrap_or_else(|| {
        let when = match lsn {
            Lsn(u64::MAX) => String::new(),
            lsn => format!(" at {lsn}"),
        };
        PageError::NotFound(format!("{page} of {db}{when} in {}", dir.display()))
    }))
}

fn page_of_slice(
    key: SliceKey,
    dir: &Path,
    page: PageId,
    lsn: Lsn,
) -> Result<Option<Bytes>, PageError> {
    if identity::read_slice(dir, key)?.is_none() {
        return Ok(None);
    }
    let directory = Directory::new();
    for ((kind, number), path) in list(dir)? {
        let id = SegmentId {
            slice: key,
            kind,
            number,
        };
        let segment = open(id, &path)?;
        for frame in read_frames(&segment)?.0 {
            match kind {
                SegmentKind::Pages if frame.id == page.0 => {
                    let version = Version {
                        lsn: frame.lsn,
                        segment: segment.clone(),
                        offset: frame.offset,
                        freed: frame.freed,
                    };
                    directory.add_version(page, version);
                }
                SegmentKind::Pages => {}
                SegmentKind::Log => add_records(&directory, &segment, frame.offset, page)?,
            }
        }
    }
    let Some(view) = directory.view(page, lsn) else {
        return Ok(None);
    };
    let base = match &view.base {
        Some(version) if !view.records.iter().any(|r| r.formats) => {
            Some(materialize::read_one(page, version)?)
        }
        _ => None,
    };
    if view.records.is_empty() {
        return Ok(base);
    }
    let cache = LogCache::new(usize::MAX);
    materialize::apply(key, page, base.as_deref(), &view.records, &cache).map(Some)
}

/// Adds the page's records in the fragment at `offset`.
fn add_records(
    directory: &Directory,
    segment: &Arc<Segment>,
    offset: u64,
    page: PageId,
) -> Result<(), PageError> {
    let (fragment, groups) = LogFragment::read(segment, offset)?;
    let fragment = Arc::new(fragment);
    for (at, group) in groups.iter().enumerate() {
        if let Some(change) = group.changes.iter().position(|c| c.page == page) {
            directory.add_record(page, record_of(&fragment, group, (at, change)));
        }
    }
    Ok(())
}

/// The record of a change, given by the numbers of its group and in that.
pub(crate) fn record_of(
    fragment: &Arc<LogFragment>,
    group: &Group,
    (at, change): (usize, usize),
) -> Record {
    Record {
        lsn: group.lsn,
        fragment: fragment.clone(),
        group: at as u32,
        change: change as u16,
        formats: group.changes[change].formats(),
        frees: group.changes[change].frees(),
    }
}

pub(crate) fn open(id: SegmentId, path: &Path) -> Result<Arc<Segment>, PageError> {
    let file = File::open(path).map_err(|e| disk("opening of", path, &e))?;
    let metadata = file.metadata();
    let size = metadata
        .map_err(|e| disk("examination of", path, &e))?
        .len();
    Ok(Arc::new(Segment::new(id, path.to_owned(), file, size)))
}

/// Where a page has versions and log.
#[derive(Default)]
struct PageLines {
    versions: Vec<String>,
    records: Vec<Lsn>,
}

/// A listing in the making.
#[derive(Default)]
struct Listing {
    text: String,
    pages: BTreeMap<PageId, PageLines>,
    damage: Vec<PageError>,
}

impl Listing {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{text}").expect("writing to a string succeeds");
    }

    fn damaged(&mut self, offset: u64, error: PageError) {
        self.line(format_args!("{offset:>10}  DAMAGED: {error}"));
        self.damage.push(error);
    }

    fn segment(&mut self, id: SegmentId, path: &Path) -> Result<(), PageError> {
        let segment = open(id, path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.line(format_args!("{name} {} bytes", segment.size()));
        let (frames, end) = read_frames(&segment)?;
        for frame in &frames {
            let read = match id.kind {
                SegmentKind::Log => self.fragment(&segment, frame),
                SegmentKind::Pages => self.version(&segment, frame, &name),
            };
            if let Err(error) = read {
                self.damaged(frame.offset, error);
            }
        }
        if let Some(end) = end {
            let mut rest = vec![0; (segment.size() - end) as usize];
            segment.read(&mut rest, end)?;
            if !is_zero(&rest) {
                let len = rest.len();
                self.line(format_args!(
                    "{end:>10}  {len} bytes that are no whole frame: torn, or made of log again"
                ));
            }
        }
        let state = if end.is_some() { "open" } else { "sealed" };
        self.line(format_args!("            {} frames, {state}", frames.len()));
        Ok(())
    }

    fn version(
        &mut self,
        segment: &Arc<Segment>,
        frame: &IndexEntry,
        name: &str,
    ) -> Result<(), PageError> {
        let (page, lsn, offset) = (PageId(frame.id), frame.lsn, frame.offset);
        if frame.freed {
            self.line(format_args!("{offset:>10}  {page} {lsn} freed"));
            let versions = &mut self.pages.entry(page).or_default().versions;
            versions.push(format!("{lsn} freed in {name} at {offset}"));
            return Ok(());
        }
        let version = Version {
            lsn,
            segment: segment.clone(),
            offset,
            freed: false,
        };
        let bytes = materialize::read_one(page, &version)?;
        let structure = PageRef::new(&bytes[..]).and_then(PageRef::verify);
        structure.map_err(|e| segment.corrupt(offset, e))?;
        self.line(format_args!("{offset:>10}  {page} {lsn}"));
        let versions = &mut self.pages.entry(page).or_default().versions;
        versions.push(format!("{lsn} in {name} at {offset}"));
        Ok(())
    }

    fn fragment(&mut self, segment: &Arc<Segment>, frame: &IndexEntry) -> Result<(), PageError> {
        let (fragment, groups) = LogFragment::read(segment, frame.offset)?;
        let (sequence, prev, last) = (fragment.sequence, fragment.prev_lsn, fragment.last_lsn);
        let (epoch, bytes, n) = (fragment.epoch, fragment.log_bytes(), groups.len());
        self.line(format_args!(
            "{:>10}  fragment {sequence} {prev}..={last} epoch {epoch} {bytes} bytes {n} groups",
            frame.offset
        ));
        for group in groups.iter() {
            for change in &group.changes {
                let lines = self.pages.entry(change.page).or_default();
                lines.records.push(group.lsn);
            }
        }
        Ok(())
    }

    /// Adds what each page has.
    fn finish(mut self) -> SliceDump {
        for (page, lines) in std::mem::take(&mut self.pages) {
            self.line(format_args!("{page}"));
            for version in lines.versions {
                self.line(format_args!("  version {version}"));
            }
            if !lines.records.is_empty() {
                let records: Vec<_> = lines.records.iter().map(|lsn| lsn.0.to_string()).collect();
                self.line(format_args!("  log {}", records.join(" ")));
            }
        }
        SliceDump {
            text: self.text,
            damage: self.damage,
        }
    }
}
