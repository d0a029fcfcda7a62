//! `ReadPage`: page versions as of an LSN.
//!
//! A read first takes a view of each page from the log directory, then does its I/O and applies log
//! without any latch. Views taken before the recycle LSN passed the read's LSN are complete; that
//! it has not is checked after the last view was taken.

use bytes::Bytes;
use perigee_page_api::PageError;
use perigee_types::{Lsn, PageId};

use crate::directory::View;
use crate::materialize;
use crate::pool::Use;
use crate::slice::Slice;

/// Records that take some ten microseconds to be applied, with the pages that they are applied to.
const LITTLE_LOG: usize = 8;

/// A page that is on its way to a reader.
enum Pending {
    Done(Bytes),
    /// Log must be applied to a base that is in memory, or to nothing.
    Apply(Option<(Lsn, Bytes)>, View),
    /// The base must be read from disk, then log may have to be applied.
    Read(View),
}

impl Slice {
    /// Checks that the slice can answer for `lsn`.
    pub(crate) fn check_lsn(&self, lsn: Lsn) -> Result<(), PageError> {
        self.shared.stop.check()?;
        let persistent = self.persistent_lsn();
        if persistent < lsn {
            return Err(PageError::Behind(format!(
                "{} is at {persistent}, not {lsn}",
                self.key
            )));
        }
        let recycle = self.tenant.recycle_lsn();
        if lsn < recycle {
            let text = format!("{} at {lsn}, the recycle LSN is {recycle}", self.key);
            return Err(PageError::Recycled(text));
        }
        Ok(())
    }

    /// Pages that can be given without I/O and with little log to apply, if all can; never blocks. So a page
    /// that has just been changed does not cost a way to another thread and back.
    pub(crate) fn read_from_memory(
        &self,
        lsn: Lsn,
        pages: &[PageId],
        usage: Use,
    ) -> Result<Option<Vec<Bytes>>, PageError> {
        self.check_lsn(lsn)?;
        let mut found = Vec::with_capacity(pages.len());
        let mut left = LITTLE_LOG;
        for page in pages {
            let bytes = match self.look_up(lsn, *page, usage)? {
                Pending::Done(bytes) => bytes,
                Pending::Apply(base, view) if view.records.len() <= left && view.is_in_memory() => {
                    left -= view.records.len();
                    // What is made goes to the pool: the view must be complete.
                    self.check_lsn(lsn)?;
                    self.apply(*page, base, &view)?
                }
                _ => return Ok(None),
            };
            found.push(bytes);
        }
        self.check_lsn(lsn)?;
        Ok(Some(found))
    }

    /// Page versions as of `lsn`, in the order of `pages`; the first that fails fails all. Blocks.
    pub(crate) fn read_blocking(
        &self,
        lsn: Lsn,
        pages: &[PageId],
        usage: Use,
    ) -> Result<Vec<Bytes>, PageError> {
        self.check_lsn(lsn)?;
        let mut out = vec![Bytes::new(); pages.len()];
        let mut from_disk = Vec::new();
        let mut views = Vec::new();
        let mut to_apply = Vec::new();
        let looked_up: Vec<_> = pages.iter().map(|p| self.look_up(lsn, *p, usage)).collect();
        // A page that is missing because the recycle LSN moved on is not missing but recycled.
        self.check_lsn(lsn)?;
        for (i, pending) in looked_up.into_iter().enumerate() {
            match pending? {
                Pending::Done(bytes) => out[i] = bytes,
                Pending::Apply(base, view) => to_apply.push((i, base, view)),
                Pending::Read(mut view) => {
                    let base = view.base.take().expect("only pages with a base are read");
                    from_disk.push((pages[i], base));
                    views.push((i, view));
                }
            }
        }
        let mut failed = None;
        materialize::read_versions(&from_disk, |at, result| match result {
            Ok(bytes) => {
                let (i, view) = &views[at];
                let lsn = from_disk[at].1.lsn;
                self.shared
                    .pool
                    .insert((self.number, pages[*i]), lsn, bytes.clone(), usage);
                if view.records.is_empty() {
                    out[*i] = bytes;
                } else {
                    to_apply.push((*i, Some((lsn, bytes)), view.clone()));
                }
            }
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        for (i, base, view) in to_apply {
            out[i] = self.apply(pages[i], base, &view)?;
        }
        Ok(out)
    }

    /// What there is of a page in memory, and what is missing.
    fn look_up(&self, lsn: Lsn, page: PageId, usage: Use) -> Result<Pending, PageError> {
        let Some(mut view) = self.directory.view(page, lsn) else {
            return Err(PageError::NotFound(format!(
                "{page} of {} at {lsn}",
                self.key
            )));
        };
        let pooled = self
            .shared
            .pool
            .get((self.number, page), view.base_lsn(), lsn, usage);
        if let Some((have, bytes)) = pooled {
            let applied = view.records.partition_point(|r| r.lsn <= have);
            view.records.drain(..applied);
            if view.records.is_empty() {
                return Ok(Pending::Done(bytes));
            }
            return Ok(Pending::Apply(Some((have, bytes)), view));
        }
        let needs_base = view.base.is_some() && !view.records.iter().any(|r| r.formats);
        Ok(if needs_base {
            Pending::Read(view)
        } else {
            Pending::Apply(None, view)
        })
    }

    /// Applies the records of a view to its base; the result goes to the pool.
    fn apply(
        &self,
        page: PageId,
        base: Option<(Lsn, Bytes)>,
        view: &View,
    ) -> Result<Bytes, PageError> {
        let base = base.as_ref().map(|(_, bytes)| &bytes[..]);
        let cache = &self.shared.cache;
        let made = materialize::apply(self.key, page, base, &view.records, cache)?;
        let lsn = view
            .records
            .last()
            .map(|r| r.lsn)
            .expect("there is something to apply");
        let key = (self.number, page);
        self.shared.pool.insert(key, lsn, made.clone(), Use::Wanted);
        Ok(made)
    }

    /// The newest version of a page, made from what `view` says; `None` in place of a base on disk
    /// that the pool has.
    pub(crate) fn make(&self, page: PageId, view: &View) -> Result<Bytes, PageError> {
        let newest = view.lsn().expect("a view is not empty");
        let key = (self.number, page);
        let pooled = self
            .shared
            .pool
            .get(key, view.base_lsn(), newest, Use::Scanned);
        if let Some((have, bytes)) = pooled {
            if have == newest {
                return Ok(bytes);
            }
            let applied = view.records.partition_point(|r| r.lsn <= have);
            let rest = &view.records[applied..];
            return materialize::apply(self.key, page, Some(&bytes), rest, &self.shared.cache);
        }
        let base = match &view.base {
            Some(base) if !view.records.iter().any(|r| r.formats) => {
                Some(materialize::read_one(page, base)?)
            }
            _ => None,
        };
        materialize::apply(
            self.key,
            page,
            base.as_deref(),
            &view.records,
            &self.shared.cache,
        )
    }
}
