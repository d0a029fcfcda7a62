//! The pages of a Page Store as they lie on disk, for programs that look at all of them. Changes nothing
//! and needs no lock; what a running store appends meanwhile may be missing.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use perigee_page_api::{PageError, SliceKey};
use perigee_types::{DbId, Lsn, PageId, SliceId};

use crate::directory::{Directory, Newest, Version};
use crate::dump::{open, record_of};
use crate::fragment::{LogCache, LogFragment};
use crate::frame::{SegmentId, SegmentKind};
use crate::open::list;
use crate::recover::read_frames;
use crate::service::{db_name, numbered};
use crate::{identity, materialize};

/// A slice as it is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfflineSlice {
    /// The slice.
    pub key: SliceKey,
    /// Pages that have content.
    pub pages: u64,
    /// Bytes of its segments.
    pub disk_bytes: u64,
}

/// What a Page Store has of a database.
#[derive(Debug)]
pub struct OfflineStore {
    slices: BTreeMap<SliceKey, Directory>,
    /// Bytes of segments, by slice.
    bytes: BTreeMap<SliceKey, u64>,
    /// The slice of each page that there is something of.
    pages: BTreeMap<PageId, SliceKey>,
    cache: LogCache,
}

/// A page as it is on disk, with its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflinePage {
    /// LSN of the last log group that changed or freed it; 0 if there is nothing of it.
    pub lsn: Lsn,
    /// The page, if it was not freed.
    pub bytes: Option<Bytes>,
}

impl OfflineStore {
    /// Reads where the pages of a database are in the Page Store in `dir`.
    ///
    /// # Errors
    /// [`PageError::NotFound`] if there is no such database, [`PageError::Refused`] if `dir` is a store of
    /// another format, [`PageError::Corrupt`] and [`PageError::Disk`].
    pub fn open(dir: &Path, db: DbId) -> Result<Self, PageError> {
        let db_dir = dir.join(db_name(db));
        if !identity::check_store(dir)? || !db_dir.is_dir() {
            return Err(PageError::NotFound(format!("{db} in {}", dir.display())));
        }
        let (mut slices, mut pages) = (BTreeMap::new(), BTreeMap::new());
        let mut bytes = BTreeMap::new();
        for (slice, dir) in numbered(&db_dir, "slice-")? {
            let slice = SliceId(slice);
            let key = SliceKey { db, slice };
            if identity::read_slice(&dir, key)?.is_none() {
                continue;
            }
            let (directory, size) = read_slice(key, &dir)?;
            bytes.insert(key, size);
            pages.extend(directory.page_ids().into_iter().map(|page| (page, key)));
            slices.insert(key, directory);
        }
        Ok(Self {
            slices,
            bytes,
            pages,
            cache: LogCache::new(usize::MAX),
        })
    }

    /// The newest version of a page.
    ///
    /// # Errors
    /// [`PageError::Corrupt`] and [`PageError::Disk`].
    pub fn page(&self, page: PageId) -> Result<OfflinePage, PageError> {
        let (mut lsn, mut bytes) = (Lsn(0), None);
        let Some(key) = self.pages.get(&page) else {
            return Ok(OfflinePage { lsn, bytes });
        };
        let directory = &self.slices[key];
        let (versions, records) = directory.lsns(page);
        lsn = lsn.max(records.last().copied().unwrap_or_default());
        lsn = lsn.max(versions.last().map_or(Lsn(0), |version| version.lsn));
        match directory.pending(page) {
            Some(Newest::Freed(_)) => {}
            Some(Newest::Page(view)) => {
                let formats = view.records.iter().any(|record| record.formats);
                let base = view.base.as_ref().filter(|_| !formats);
                let base = base.map(|base| materialize::read_one(page, base));
                let base = base.transpose()?;
                let (base, records) = (base.as_deref(), &view.records);
                bytes = Some(materialize::apply(*key, page, base, records, &self.cache)?);
            }
            None => {
                if let Some(newest) = versions.last().filter(|newest| !newest.freed) {
                    bytes = Some(materialize::read_one(page, newest)?);
                }
            }
        }
        Ok(OfflinePage { lsn, bytes })
    }

    /// All slices.
    #[must_use]
    pub fn slices(&self) -> Vec<OfflineSlice> {
        let slice = |(key, directory): (&SliceKey, &Directory)| {
            let exists = |page: &PageId| match directory.pending(*page) {
                Some(newest) => matches!(newest, Newest::Page(_)),
                None => (directory.lsns(*page).0.last()).is_some_and(|newest| !newest.freed),
            };
            OfflineSlice {
                key: *key,
                pages: directory.page_ids().iter().filter(|p| exists(p)).count() as u64,
                disk_bytes: self.bytes[key],
            }
        };
        self.slices.iter().map(slice).collect()
    }

    /// All pages that there is something of; some may be freed.
    #[must_use]
    pub fn pages(&self) -> Vec<PageId> {
        self.pages.keys().copied().collect()
    }
}

/// What is in a slice, and the bytes of its segments.
fn read_slice(key: SliceKey, dir: &Path) -> Result<(Directory, u64), PageError> {
    let (directory, mut bytes) = (Directory::new(), 0);
    for ((kind, number), path) in list(dir)? {
        let slice = key;
        let segment = open(
            SegmentId {
                slice,
                kind,
                number,
            },
            &path,
        )?;
        bytes += segment.size();
        for frame in read_frames(&segment)?.0 {
            if kind == SegmentKind::Pages {
                let version = Version {
                    lsn: frame.lsn,
                    segment: segment.clone(),
                    offset: frame.offset,
                    freed: frame.freed,
                };
                directory.add_version(PageId(frame.id), version);
                continue;
            }
            let (fragment, groups) = LogFragment::read(&segment, frame.offset)?;
            let fragment = std::sync::Arc::new(fragment);
            for (number, group) in groups.iter().enumerate() {
                for change in 0..group.changes.len() {
                    let record = record_of(&fragment, group, (number, change));
                    directory.add_record(group.changes[change].page, record);
                }
            }
        }
    }
    Ok((directory, bytes))
}
