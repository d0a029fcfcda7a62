//! Making page versions: reading bases from segments and applying log to them.
//!
//! This is the only place where the store changes the bytes of a page, and it does so with the
//! function that the frontend used (*do = redo*), on a private copy.

use std::sync::Arc;

use bytes::Bytes;
use perigee_page::{PageMut, PageRef};
use perigee_page_api::{PageError, SliceKey};
use perigee_redo::{Group, apply_change};
use perigee_types::{Lsn, PAGE_SIZE, PageId};

use crate::directory::{PAGE_FRAME, Record, Version};
use crate::fragment::{LogCache, LogFragment};
use crate::frame::{FRAME_HEADER, FrameHeader, FrameKind};

/// Applies `records` to `base`, or to nothing; returns the sealed page. Its LSN is the last
/// record's.
pub(crate) fn apply(
    slice: SliceKey,
    page: PageId,
    base: Option<&[u8]>,
    records: &[Record],
    cache: &LogCache,
) -> Result<Bytes, PageError> {
    // What was before the last format does not matter.
    let formatted = records.iter().rposition(|r| r.formats);
    let (base, records) = match formatted {
        Some(first) => (None, &records[first..]),
        None => (base, records),
    };
    let mut bytes: Box<[u8]> = match base {
        Some(base) => base.into(),
        None => vec![0; PAGE_SIZE].into_boxed_slice(),
    };
    let buffer: &mut [u8; PAGE_SIZE] = (&mut *bytes).try_into().expect("P3: bases are pages");
    let mut current: Option<(&Arc<LogFragment>, Arc<Vec<Group>>)> = None;
    for record in records {
        if current
            .as_ref()
            .is_none_or(|(f, _)| !Arc::ptr_eq(f, &record.fragment))
        {
            current = Some((&record.fragment, record.fragment.groups(cache)?));
        }
        let (_, groups) = current.as_ref().expect("just set");
        let change = &groups[record.group as usize].changes[usize::from(record.change)];
        assert!(
            change.page == page,
            "P2: a record of {} is applied to {page}",
            change.page
        );
        apply_change(buffer, record.lsn, change).map_err(|e| {
            PageError::Corrupt(format!(
                "{slice}, {page}, {}: log does not apply: {e}",
                record.lsn
            ))
        })?;
    }
    PageMut::new(buffer).seal();
    Ok(bytes.into())
}

/// Reads page versions from disk and checks them: frame, checksum, and that each is the page, the
/// database and the LSN that it should be. Versions that lie one behind the other in a segment are
/// read at once. `done` gets each result with the index of its version.
pub(crate) fn read_versions(
    versions: &[(PageId, Version)],
    mut done: impl FnMut(usize, Result<Bytes, PageError>),
) {
    let mut order: Vec<usize> = (0..versions.len()).collect();
    order.sort_unstable_by_key(|i| {
        let version = &versions[*i].1;
        (version.segment.id().number, version.offset)
    });
    let mut buffer = Vec::new();
    let mut rest = &order[..];
    while let Some(&first) = rest.first() {
        let run = run_length(versions, rest);
        let (now, later) = rest.split_at(run);
        rest = later;
        let start = &versions[first].1;
        buffer.resize(run * PAGE_FRAME as usize, 0);
        let read = start.segment.read(&mut buffer, start.offset);
        for (&i, frame) in now.iter().zip(buffer.chunks_exact(PAGE_FRAME as usize)) {
            let (page, version) = &versions[i];
            // If the run cannot be read, perhaps a part of it can.
            let result = match &read {
                Ok(()) => check(*page, version, frame),
                Err(_) => read_one(*page, version),
            };
            done(i, result);
        }
    }
}

/// Reads one page version.
pub(crate) fn read_one(page: PageId, version: &Version) -> Result<Bytes, PageError> {
    let mut frame = vec![0; PAGE_FRAME as usize];
    version.segment.read(&mut frame, version.offset)?;
    check(page, version, &frame)
}

/// Longest run that is read at once, in pages: 1 MiB.
const MAX_RUN: usize = 64;

/// How many of the first of `order` lie one behind the other.
fn run_length(versions: &[(PageId, Version)], order: &[usize]) -> usize {
    let follows = |pair: &[usize]| {
        let (a, b) = (&versions[pair[0]].1, &versions[pair[1]].1);
        Arc::ptr_eq(&a.segment, &b.segment) && b.offset == a.offset + PAGE_FRAME
    };
    let run = order.windows(2).take_while(|pair| follows(pair)).count() + 1;
    run.min(MAX_RUN)
}

/// Checks a page frame and copies the page out of it.
fn check(page: PageId, version: &Version, frame: &[u8]) -> Result<Bytes, PageError> {
    let (segment, offset) = (&version.segment, version.offset);
    let corrupt = |what: String| segment.corrupt(offset, format!("{page}: {what}"));
    let header = FrameHeader::decode(frame, segment.id(), offset)
        .ok_or_else(|| corrupt("the frame header is damaged".into()))?;
    let bytes = &frame[FRAME_HEADER..];
    let found = PageRef::new(bytes).map_err(|e| corrupt(e.to_string()))?;
    found
        .verify_checksum()
        .map_err(|e| corrupt(e.to_string()))?;
    let expected = (FrameKind::Page, page.0, version.lsn, PAGE_SIZE as u32);
    if (header.kind, header.id, header.lsn, header.payload_len) != expected
        || (found.id(), found.db(), found.lsn()) != (page, segment.slice().db, version.lsn)
    {
        return Err(corrupt(format!(
            "{} at {} is in its place",
            found.id(),
            found.lsn()
        )));
    }
    Ok(Bytes::copy_from_slice(bytes))
}

/// LSN of a page that this store made.
pub(crate) fn lsn_of(page: &[u8]) -> Lsn {
    PageRef::new(page)
        .expect("P2: the store gives out pages")
        .lsn()
}
