//! [`PageMut`], the changing face: one single change at a time, each with its preconditions
//! checked, because redo brings changes from outside.
//!
//! A change that returns an error has changed nothing. No change allocates or logs.

use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, TrxId, checksum};

use crate::header::{FORMAT_VERSION, HEADER_LEN, at, slot_at};
use crate::{PageFormatError, PageKind, PageRef, RecordFlags, RecordShape};

/// A page to change.
pub struct PageMut<'a>(&'a mut [u8; PAGE_SIZE]);

impl<'a> PageMut<'a> {
    /// The changing face of a page.
    pub fn new(bytes: &'a mut [u8; PAGE_SIZE]) -> Self {
        Self(bytes)
    }

    /// The reading face.
    #[must_use]
    pub fn as_ref(&self) -> PageRef<'_> {
        PageRef(self.0)
    }

    /// Computes the checksum; the page may now leave the process.
    pub fn seal(&mut self) {
        let sum = checksum(&self.0[at::VERSION..]);
        self.0[at::CHECKSUM..at::VERSION].copy_from_slice(&sum.to_le_bytes());
    }

    /// Sets the page's LSN.
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.put_u64(at::LSN, lsn.0);
    }

    /// Makes this an empty page of the given identity, zeroing everything else.
    pub fn format(
        &mut self,
        id: PageId,
        (kind, level): (PageKind, u8),
        (db, index): (DbId, IndexId),
        shape: RecordShape,
        (prev, next): (PageId, PageId),
    ) -> Result<(), PageFormatError> {
        if kind.has_records() {
            shape
                .check(kind)
                .map_err(|what| PageFormatError::Structure { page: id, what })?;
        }
        self.0.fill(0);
        self.0[at::VERSION] = FORMAT_VERSION;
        self.0[at::KIND] = kind as u8;
        self.0[at::LEVEL] = level;
        self.put_u64(at::ID, id.0);
        self.0[at::DB..at::DB + 4].copy_from_slice(&db.0.to_le_bytes());
        self.0[at::INDEX..at::INDEX + 4].copy_from_slice(&index.0.to_le_bytes());
        self.put_u16(at::HEAP_END, HEADER_LEN as u16);
        self.put_u16(at::FIXED_LEN, shape.fixed_len);
        self.put_u16(at::KEY_OFFSET, shape.key_offset);
        self.put_u16(at::KEY_LEN, shape.key_len);
        self.0[at::VAR_COUNT] = shape.var_count;
        self.0[at::RECORD_HEADER_LEN] = shape.header_len;
        self.set_links(prev, next);
        Ok(())
    }

    /// Makes this a page without content that still has its identity.
    pub fn free(&mut self) -> Result<(), PageFormatError> {
        let page = self.as_ref();
        let (id, owner, none) = (page.id(), (page.db(), page.index()), PageId(0));
        let kind = (PageKind::Meta, 0);
        self.format(id, kind, owner, RecordShape::default(), (none, none))
    }

    /// Sets the sibling links; `PageId(0)` means none.
    pub fn set_links(&mut self, prev: PageId, next: PageId) {
        self.put_u64(at::PREV, prev.0);
        self.put_u64(at::NEXT, next.0);
    }

    /// Raises the page's largest transaction id to at least `trx`.
    pub fn raise_max_trx(&mut self, trx: TrxId) {
        if trx > self.as_ref().max_trx() {
            self.put_u64(at::MAX_TRX, trx.0);
        }
    }

    /// Inserts `records`, which lie one after the other in key order, at `slot`.
    pub fn insert(&mut self, slot: u16, records: &[u8]) -> Result<(), PageFormatError> {
        let page = self.as_ref();
        self.expect_records()?;
        if slot > page.slot_count() {
            return Err(self.no_slot(slot));
        }
        let count = self.count_records(records)?;
        self.expect_order(slot, records)?;
        self.make_room(records.len() + 2 * count)?;

        let count = count as u16; // room for their slots was found
        let slots = self.as_ref().slot_count();
        self.0.copy_within(
            slot_at(slots) + 2..slot_at(slot) + 2,
            slot_at(slots + count) + 2,
        );
        self.put_u16(at::SLOTS, slots + count);
        let heap_end = self.as_ref().heap_end();
        self.0[heap_end..heap_end + records.len()].copy_from_slice(records);
        self.put_u16(at::HEAP_END, (heap_end + records.len()) as u16);

        let shape = self.as_ref().shape();
        let (mut offset, mut deleted) = (heap_end, 0);
        for i in 0..count {
            self.put_u16(slot_at(slot + i), offset as u16);
            deleted += u16::from(RecordFlags(self.0[offset]).is_deleted());
            let tail = &self.0[offset..heap_end + records.len()];
            offset += shape.record_len(tail).expect("counted before");
        }
        self.add_deleted(deleted, 0);
        Ok(())
    }

    /// Removes `count` records from `slot` on.
    pub fn remove(&mut self, slot: u16, count: u16) -> Result<(), PageFormatError> {
        self.expect_records()?;
        let page = self.as_ref();
        let slots = page.slot_count();
        let Some(end) = slot.checked_add(count).filter(|end| *end <= slots) else {
            return Err(self.no_slot(slot));
        };
        let (mut freed, mut deleted) = (0, 0);
        for s in slot..end {
            let record = page.record(s);
            freed += record.len();
            deleted += u16::from(RecordFlags(record[0]).is_deleted());
        }
        self.0.copy_within(
            slot_at(slots) + 2..slot_at(end) + 2,
            slot_at(slots - count) + 2,
        );
        self.put_u16(at::SLOTS, slots - count);
        self.add_deleted(0, deleted);
        if slots == count {
            self.put_u16(at::HEAP_END, HEADER_LEN as u16);
            self.put_u16(at::GARBAGE, 0);
        } else {
            self.put_u16(at::GARBAGE, (self.as_ref().garbage() + freed) as u16);
        }
        Ok(())
    }

    /// Replaces the record at `slot` by one with the same key.
    pub fn replace(&mut self, slot: u16, record: &[u8]) -> Result<(), PageFormatError> {
        self.expect_slot(slot)?;
        let page = self.as_ref();
        if self.count_records(record)? != 1 || page.shape().key(record) != page.key(slot) {
            return Err(self.bad_record(slot, "replacement is not one record with the same key"));
        }
        let old = page.record(slot);
        let (old_len, was_deleted) = (old.len(), RecordFlags(old[0]).is_deleted());
        if record.len() <= old_len {
            let offset = usize::from(page.record_offset(slot));
            self.put_u16(
                at::GARBAGE,
                (page.garbage() + old_len - record.len()) as u16,
            );
            self.0[offset..offset + record.len()].copy_from_slice(record);
        } else {
            self.grow_record(slot, record, old_len)?;
        }
        let is_deleted = RecordFlags(record[0]).is_deleted();
        self.add_deleted(u16::from(is_deleted), u16::from(was_deleted));
        Ok(())
    }

    /// Overwrites the header of the record at `slot`.
    pub fn set_header(&mut self, slot: u16, header: &[u8]) -> Result<(), PageFormatError> {
        self.expect_slot(slot)?;
        let page = self.as_ref();
        if header.len() != usize::from(page.shape().header_len) {
            return Err(self.bad_record(slot, "header of the wrong length"));
        }
        let offset = usize::from(page.record_offset(slot));
        let was_deleted = RecordFlags(self.0[offset]).is_deleted();
        self.0[offset..offset + header.len()].copy_from_slice(header);
        let is_deleted = RecordFlags(header[0]).is_deleted();
        self.add_deleted(u16::from(is_deleted), u16::from(was_deleted));
        Ok(())
    }

    /// Writes into the body of a page without records.
    pub fn write(&mut self, offset: u16, bytes: &[u8]) -> Result<(), PageFormatError> {
        let page = self.as_ref();
        let at = usize::from(offset);
        if page.kind().has_records() || at < HEADER_LEN || at + bytes.len() > PAGE_SIZE {
            let what = "write outside the body of a page without records";
            return Err(PageFormatError::Structure {
                page: page.id(),
                what,
            });
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn grow_record(
        &mut self,
        slot: u16,
        record: &[u8],
        old_len: usize,
    ) -> Result<(), PageFormatError> {
        let free = self.as_ref().free_space() + old_len;
        if record.len() > free {
            return Err(self.full(record.len(), free));
        }
        self.put_u16(at::GARBAGE, (self.as_ref().garbage() + old_len) as u16);
        if record.len() > self.as_ref().contiguous_space() {
            self.compact(Some(slot));
        }
        let heap_end = self.as_ref().heap_end();
        self.0[heap_end..heap_end + record.len()].copy_from_slice(record);
        self.put_u16(slot_at(slot), heap_end as u16);
        self.put_u16(at::HEAP_END, (heap_end + record.len()) as u16);
        Ok(())
    }

    /// Makes `needed` bytes free between heap and directory.
    fn make_room(&mut self, needed: usize) -> Result<(), PageFormatError> {
        let page = self.as_ref();
        if needed > page.free_space() {
            return Err(self.full(needed, page.free_space()));
        }
        if needed > page.contiguous_space() {
            self.compact(None);
        }
        Ok(())
    }

    /// Rewrites the heap in slot order without garbage, leaving out the record at `skip`. The
    /// result depends on the page alone, so that every replay gives the same bytes.
    fn compact(&mut self, skip: Option<u16>) {
        let old = *self.0;
        let old = PageRef(&old);
        let mut end = HEADER_LEN;
        for slot in (0..old.slot_count()).filter(|slot| Some(*slot) != skip) {
            let record = old.record(slot);
            self.0[end..end + record.len()].copy_from_slice(record);
            self.put_u16(slot_at(slot), end as u16);
            end += record.len();
        }
        self.put_u16(at::HEAP_END, end as u16);
        self.put_u16(at::GARBAGE, 0);
    }

    /// Number of records that `records` consists of, at least one.
    fn count_records(&self, records: &[u8]) -> Result<usize, PageFormatError> {
        let shape = self.as_ref().shape();
        let (mut rest, mut count) = (records, 0);
        loop {
            match shape.record_len(rest) {
                Some(len) if len > 0 => rest = &rest[len..],
                _ => return Err(self.bad_record(0, "bytes are not whole records")),
            }
            count += 1;
            if rest.is_empty() {
                return Ok(count);
            }
        }
    }

    /// The records increase, and lie between their neighbours.
    fn expect_order(&self, slot: u16, records: &[u8]) -> Result<(), PageFormatError> {
        let (page, shape) = (self.as_ref(), self.as_ref().shape());
        let mut before = slot.checked_sub(1).map(|s| page.key(s));
        let mut rest = records;
        while !rest.is_empty() {
            let len = shape.record_len(rest).expect("counted before");
            let key = shape.key(&rest[..len]);
            if before.is_some_and(|b| b >= key) {
                return Err(self.bad_record(slot, "inserted keys are out of order"));
            }
            before = Some(key);
            rest = &rest[len..];
        }
        if slot < page.slot_count() && before.is_some_and(|b| b >= page.key(slot)) {
            return Err(self.bad_record(slot, "inserted keys are out of order"));
        }
        Ok(())
    }

    fn expect_records(&self) -> Result<(), PageFormatError> {
        let page = self.as_ref();
        if page.kind().has_records() {
            return Ok(());
        }
        Err(PageFormatError::Structure {
            page: page.id(),
            what: "page has no records",
        })
    }

    fn expect_slot(&self, slot: u16) -> Result<(), PageFormatError> {
        self.expect_records()?;
        if slot < self.as_ref().slot_count() {
            Ok(())
        } else {
            Err(self.no_slot(slot))
        }
    }

    fn no_slot(&self, slot: u16) -> PageFormatError {
        let page = self.as_ref();
        PageFormatError::Slot {
            page: page.id(),
            slot,
            slots: page.slot_count(),
        }
    }

    fn bad_record(&self, slot: u16, what: &'static str) -> PageFormatError {
        PageFormatError::Record {
            page: self.as_ref().id(),
            slot,
            what,
        }
    }

    fn full(&self, needed: usize, free: usize) -> PageFormatError {
        PageFormatError::Full {
            page: self.as_ref().id(),
            needed,
            free,
        }
    }

    fn add_deleted(&mut self, added: u16, removed: u16) {
        let deleted = self.as_ref().deleted_count() + added - removed;
        self.put_u16(at::DELETED, deleted);
    }

    fn put_u16(&mut self, at: usize, v: u16) {
        self.0[at..at + 2].copy_from_slice(&v.to_le_bytes());
    }

    fn put_u64(&mut self, at: usize, v: u64) {
        self.0[at..at + 8].copy_from_slice(&v.to_le_bytes());
    }
}
