//! The page verifier: everything that a good page satisfies, checked without a schema.

use perigee_types::PAGE_SIZE;

use crate::header::{FORMAT_VERSION, HEADER_LEN, at};
use crate::{OverflowPage, PageFormatError, PageKind, PageRef, RecordFlags, RecordHeader};

impl PageRef<'_> {
    /// Checks the structure: header fields, every record inside the heap, no overlaps, the space
    /// account, strictly increasing keys, the delete-mark count and the largest transaction id.
    ///
    /// Does not check the checksum, which is stale while a page is being changed.
    pub fn verify(self) -> Result<(), PageFormatError> {
        if self.bytes()[at::VERSION] != FORMAT_VERSION {
            return Err(PageFormatError::Version {
                page: self.id(),
                version: self.bytes()[at::VERSION],
            });
        }
        let Some(kind) = PageKind::from_u8(self.bytes()[at::KIND]) else {
            return Err(self.broken("unknown page kind"));
        };
        if !kind.has_records() {
            if self.slot_count() != 0 {
                return Err(self.broken("stray slots"));
            }
            return match kind {
                PageKind::Overflow => OverflowPage::new(self).map(drop),
                _ => Ok(()),
            };
        }
        self.verify_header(kind)?;
        self.verify_heap()?;
        self.verify_records(kind)
    }

    fn verify_header(self, kind: PageKind) -> Result<(), PageFormatError> {
        self.shape().check(kind).map_err(|what| self.broken(what))?;
        if (kind == PageKind::Inner) != (self.level() > 0) {
            return Err(self.broken("level does not fit the page kind"));
        }
        let directory = PAGE_SIZE.saturating_sub(2 * usize::from(self.slot_count()));
        if self.heap_end() < HEADER_LEN || self.heap_end() > directory {
            return Err(self.broken("heap and slot directory overlap"));
        }
        Ok(())
    }

    /// Records lie inside the heap, do not overlap, and with the garbage fill it.
    fn verify_heap(self) -> Result<(), PageFormatError> {
        let (shape, heap_end) = (self.shape(), self.heap_end());
        let mut used = [0_u64; PAGE_SIZE / 64];
        let mut total = 0;
        for slot in 0..self.slot_count() {
            let offset = usize::from(self.record_offset(slot));
            let bad = |what| PageFormatError::Record {
                page: self.id(),
                slot,
                what,
            };
            if offset < HEADER_LEN || offset >= heap_end {
                return Err(bad("offset outside the heap"));
            }
            let len = shape
                .record_len(&self.bytes()[offset..heap_end])
                .ok_or_else(|| bad("record reaches outside the heap"))?;
            if claim(&mut used, offset, len) {
                return Err(bad("record overlaps another"));
            }
            total += len;
        }
        if total + self.garbage() != heap_end - HEADER_LEN {
            return Err(self.broken("records and garbage do not fill the heap"));
        }
        Ok(())
    }

    fn verify_records(self, kind: PageKind) -> Result<(), PageFormatError> {
        let mut deleted = 0;
        for slot in 0..self.slot_count() {
            let bad = |what| PageFormatError::Record {
                page: self.id(),
                slot,
                what,
            };
            let record = self.record(slot);
            if slot > 0 && self.key(slot - 1) >= self.key(slot) {
                return Err(bad("keys are out of order"));
            }
            if kind == PageKind::Clustered && RecordHeader::read(record).trx > self.max_trx() {
                return Err(bad("transaction id above the page's largest"));
            }
            deleted += u16::from(RecordFlags(record[0]).is_deleted());
        }
        if deleted == self.deleted_count() {
            Ok(())
        } else {
            Err(self.broken("delete-mark count is wrong"))
        }
    }

    fn broken(self, what: &'static str) -> PageFormatError {
        PageFormatError::Structure {
            page: self.id(),
            what,
        }
    }
}

/// Marks the bytes of a record as used; true if one was already.
fn claim(used: &mut [u64; PAGE_SIZE / 64], offset: usize, len: usize) -> bool {
    let mut overlap = false;
    let (mut bit, end) = (offset, offset + len);
    while bit < end {
        let word_end = (bit / 64 + 1) * 64;
        let n = end.min(word_end) - bit;
        let mask = (u64::MAX >> (64 - n)) << (bit % 64);
        overlap |= used[bit / 64] & mask != 0;
        used[bit / 64] |= mask;
        bit += n;
    }
    overlap
}
