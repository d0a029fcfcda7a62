//! Which records of a leaf a scan sees, as far as storage can tell (taurus-ndp section IV.D).
//!
//! - Clustered leaf: a record whose transaction id is below the watermark is visible; if it is
//!   visible and delete-marked it is skipped; any other is ambiguous.
//! - Secondary leaf: entries carry no transaction id; if the page's largest one is not below the
//!   watermark, all of them are ambiguous.
//!
//! Everything a page claims of itself is checked before it is used: a page that lies gives an
//! error, no panic and no read outside of it.

use std::ops::{Bound, Range};

use perigee_page::{HEADER_LEN, PageKind, PageRef, RecordFlags, RecordShape};
use perigee_types::{PAGE_SIZE, TrxId};

use crate::{Descriptor, KeyRange, NdpError};

/// Where the heap of a page may extend to: the slot directory.
pub(crate) fn heap_limit(page: PageRef<'_>) -> usize {
    PAGE_SIZE.saturating_sub(2 * usize::from(page.slot_count()))
}

/// Checks that the page is a leaf of the descriptor's index and layout.
pub(crate) fn check_page(descriptor: &Descriptor, page: PageRef<'_>) -> Result<(), NdpError> {
    let shape = &descriptor.layout.shape;
    let kind = if shape.is_clustered() {
        PageKind::Clustered
    } else {
        PageKind::Secondary
    };
    let what = if page.kind() != kind || page.level() != 0 {
        "not a leaf of the kind that the descriptor describes"
    } else if page.db() != descriptor.db || page.index() != descriptor.index {
        "belongs to another index"
    } else if page.shape() != *shape {
        "records are of another shape"
    } else if heap_limit(page) < HEADER_LEN {
        "more slots than fit"
    } else {
        return Ok(());
    };
    Err(NdpError::Page {
        page: page.id(),
        what,
    })
}

/// True if every record of the page is visible and none is deleted.
pub(crate) fn all_visible(descriptor: &Descriptor, page: PageRef<'_>) -> bool {
    page.max_trx() < descriptor.watermark && page.deleted_count() == 0
}

/// Appends the offsets of the page's records inside the key range, in key order, after checking
/// that each has room for its fixed part and that its first `items` variable-length items lie
/// inside the page.
pub(crate) fn locate(
    descriptor: &Descriptor,
    page: PageRef<'_>,
    items: usize,
    out: &mut Vec<u16>,
) -> Result<(), NdpError> {
    let shape = &descriptor.layout.shape;
    let (bytes, limit) = (page.bytes(), heap_limit(page));
    let broken = |what| NdpError::Page {
        page: page.id(),
        what,
    };
    touch(bytes);
    // The slot directory grows down from the end of the page.
    let directory = bytes[limit..].as_chunks::<2>().0;
    out.extend(directory.iter().rev().map(|slot| u16::from_le_bytes(*slot)));
    let last = limit.checked_sub(shape.var_data_offset());
    let last = last.ok_or_else(|| broken("no room for a record"))?;
    let bounds = |(min, max): (u16, u16), &at: &u16| (min.min(at), max.max(at));
    let (min, max) = out.iter().fold((u16::MAX, 0), bounds);
    if usize::from(min) < HEADER_LEN || usize::from(max) > last {
        return Err(broken("record offset outside the heap"));
    }
    // Not `all`: without exits the loop is one straight run over the page.
    let fit = |fit: bool, &at: &u16| fit & items_fit(shape, items, bytes, (at, limit));
    if items > 0 && !out.iter().fold(true, fit) {
        return Err(broken("record reaches outside the heap"));
    }
    if descriptor.range != KeyRange::ALL {
        let inside = clip(&descriptor.range, out, |at| {
            shape.key(&bytes[usize::from(at)..limit])
        });
        out.truncate(inside.end);
        out.drain(..inside.start);
    }
    Ok(())
}

/// Reads a page from its beginning to its end. What of it is only in memory comes fastest so, as a stream
/// that processors look ahead in; the loops that follow would wait for one part of it after the other. One
/// byte of each cache line is not enough: some processors see no stream then.
fn touch(bytes: &[u8; PAGE_SIZE]) {
    let mut sums = [0_u64; 8];
    for line in bytes.as_chunks::<64>().0 {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(*word);
        }
    }
    std::hint::black_box(sums);
}

/// True if the first `items` items of the record at `at`, which has room for its fixed part, follow
/// each other and end before `limit`.
#[inline]
fn items_fit(
    shape: &RecordShape,
    items: usize,
    bytes: &[u8; PAGE_SIZE],
    (at, limit): (u16, usize),
) -> bool {
    let at = usize::from(at);
    let mut end = shape.var_data_offset();
    let ends = &bytes[at + usize::from(shape.fixed_len)..][..2 * items];
    let mut increasing = true;
    for next in ends.as_chunks::<2>().0 {
        let next = usize::from(u16::from_le_bytes(*next));
        increasing &= next >= end;
        end = next;
    }
    increasing & (at + end <= limit)
}

/// The slots whose keys lie in the range.
fn clip<'a>(range: &KeyRange, slots: &[u16], key: impl Fn(u16) -> &'a [u8]) -> Range<usize> {
    // A key is cut to the length of the prefix where the bound speaks of all keys that start so.
    let head = |slot: u16, prefix: &[u8]| {
        let key = key(slot);
        &key[..key.len().min(prefix.len())]
    };
    let start = match &range.lower {
        Bound::Unbounded => 0,
        Bound::Included(prefix) => slots.partition_point(|&slot| key(slot) < prefix.as_slice()),
        Bound::Excluded(prefix) => {
            slots.partition_point(|&slot| head(slot, prefix) <= prefix.as_slice())
        }
    };
    let end = match &range.upper {
        Bound::Unbounded => slots.len(),
        Bound::Included(prefix) => {
            slots.partition_point(|&slot| head(slot, prefix) <= prefix.as_slice())
        }
        Bound::Excluded(prefix) => slots.partition_point(|&slot| key(slot) < prefix.as_slice()),
    };
    start..end.max(start)
}

/// Sorts located records into visible ones and ambiguous ones; deleted ones go nowhere.
pub(crate) fn divide(
    descriptor: &Descriptor,
    page: PageRef<'_>,
    records: &[u16],
    visible: &mut Vec<u16>,
    ambiguous: &mut Vec<u16>,
) {
    let bytes = page.bytes();
    let deleted = |at: u16| RecordFlags(bytes[usize::from(at)]).is_deleted();
    if page.max_trx() < descriptor.watermark {
        visible.extend(records.iter().copied().filter(|&at| !deleted(at)));
    } else if descriptor.layout.shape.is_clustered() {
        for &at in records {
            if transaction(bytes, at) >= descriptor.watermark {
                ambiguous.push(at);
            } else if !deleted(at) {
                visible.push(at);
            }
        }
    } else {
        ambiguous.extend_from_slice(records);
    }
}

/// Transaction id of a clustered record: 48 bits behind the flags.
fn transaction(bytes: &[u8; PAGE_SIZE], at: u16) -> TrxId {
    let at = usize::from(at);
    let word = bytes[at..at + 8].try_into().expect("eight bytes");
    TrxId(u64::from_le_bytes(word) >> 8 & TrxId::MAX.0)
}
