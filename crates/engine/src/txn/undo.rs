//! Undo records and the pages they lie in.
//!
//! Undo pages are pages like all others: logged, in slices. Body of an undo page, from the end of the
//! page header (`docs/format/undo.md`):
//!
//! ```text
//! 0   8  next page of the segment, 0 if none
//! 8   2  end: offset in the page of the first byte after the records
//! 10  …  records, each: length of what follows 2, kind 1, transaction 6, table 4, and
//!          1 insert   the key of the clustered index
//!          2 load     nothing
//!          3 update   flags 1 (1 = entries of secondary indexes differ), header of the version before
//!                     14, key length 2, key, and how its body differs from that of the version after:
//!                     length of the common prefix 2, of the common suffix 2, the bytes in between
//!          4 made     a chain of overflow pages was made: its first page 8, its number 8
//!          5 left     no current row leads to this chain any more: as 4
//!          6 void     as 5, which was undone
//! ```
//!
//! A roll pointer leads to the record at its offset.

use bytes::Bytes;
use perigee_page::{CLUSTERED_HEADER_LEN, HEADER_LEN, PageRef, RecordHeader};
use perigee_redo::Op;
use perigee_types::{PAGE_SIZE, PageId, RollPtr, TableId, TrxId};

use crate::EngineError;
use crate::overflow::ChainId;

const NEXT: usize = HEADER_LEN;
const END: usize = HEADER_LEN + 8;
/// Offset of the first record.
pub(super) const RECORDS: usize = HEADER_LEN + 10;
const KIND_INSERT: u8 = 1;
const KIND_LOAD: u8 = 2;
const KIND_UPDATE: u8 = 3;
const KIND_CHAIN_MADE: u8 = 4;
const KIND_CHAIN_LEFT: u8 = 5;
const KIND_VOID: u8 = 6;
/// Offset in a record of its kind.
const KIND: u16 = 2;
/// Length of a record about a chain.
pub(super) const CHAIN_RECORD_LEN: usize = 2 + 1 + 6 + 4 + 16;
const TOUCHES_ENTRIES: u8 = 1;

/// What it takes to undo one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UndoRecord {
    /// The transaction.
    pub trx: TrxId,
    /// The table.
    pub table: TableId,
    /// The change.
    pub change: UndoChange,
}

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UndoChange {
    /// A row was inserted.
    Insert {
        /// Encoded key of the clustered index.
        key: Vec<u8>,
    },
    /// An empty table was loaded.
    Load,
    /// A row was updated, delete-marked, or put in the place of a delete-marked one.
    Update {
        /// Encoded key of the clustered index.
        key: Vec<u8>,
        /// True if versions before and after have other entries in secondary indexes.
        touches_entries: bool,
        /// The version before.
        before: Before,
    },
    /// A chain of overflow pages was made.
    ChainMade(ChainId),
    /// The value that a chain holds was replaced, or its row deleted.
    ChainLeft(ChainId),
    /// A chain was left; that was undone.
    Void,
}

/// A version of a record in terms of the one after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// Its header.
    pub header: RecordHeader,
    prefix: u16,
    suffix: u16,
    middle: Vec<u8>,
}

impl Before {
    /// The version `before` in terms of `after`, both whole clustered records.
    pub fn new(before: &[u8], after: &[u8]) -> Self {
        let (old, new) = (
            &before[CLUSTERED_HEADER_LEN..],
            &after[CLUSTERED_HEADER_LEN..],
        );
        let prefix = old.iter().zip(new).take_while(|(o, n)| o == n).count();
        let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
        let pairs = old_rest.iter().rev().zip(new_rest.iter().rev());
        let suffix = pairs.take_while(|(o, n)| o == n).count();
        Self {
            header: RecordHeader::read(before),
            prefix: prefix as u16, // records are shorter than a page
            suffix: suffix as u16,
            middle: old_rest[..old_rest.len() - suffix].to_vec(),
        }
    }

    /// The version before, given the one after; `None` if they do not belong together.
    pub fn restore(&self, after: &[u8]) -> Option<Vec<u8>> {
        let body = &after[CLUSTERED_HEADER_LEN..];
        let (prefix, suffix) = (usize::from(self.prefix), usize::from(self.suffix));
        if prefix + suffix > body.len() {
            return None;
        }
        let mut record = self.header.to_bytes().to_vec();
        record.extend(&body[..prefix]);
        record.extend(&self.middle);
        record.extend(&body[body.len() - suffix..]);
        Some(record)
    }
}

impl UndoRecord {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0, 0];
        let kind = match self.change {
            UndoChange::Insert { .. } => KIND_INSERT,
            UndoChange::Load => KIND_LOAD,
            UndoChange::Update { .. } => KIND_UPDATE,
            UndoChange::ChainMade(_) => KIND_CHAIN_MADE,
            UndoChange::ChainLeft(_) => KIND_CHAIN_LEFT,
            UndoChange::Void => KIND_VOID,
        };
        out.push(kind);
        out.extend(&self.trx.0.to_le_bytes()[..6]);
        out.extend(self.table.0.to_le_bytes());
        match &self.change {
            UndoChange::Insert { key } => out.extend(key),
            UndoChange::Load | UndoChange::Void => {}
            UndoChange::ChainMade(chain) | UndoChange::ChainLeft(chain) => {
                out.extend(chain.first.0.to_le_bytes());
                out.extend(chain.number.to_le_bytes());
            }
            UndoChange::Update {
                key,
                touches_entries,
                before,
            } => {
                out.push(u8::from(*touches_entries) * TOUCHES_ENTRIES);
                out.extend(before.header.to_bytes());
                out.extend((key.len() as u16).to_le_bytes());
                out.extend(key);
                out.extend(before.prefix.to_le_bytes());
                out.extend(before.suffix.to_le_bytes());
                out.extend(&before.middle);
            }
        }
        let len = (out.len() - 2) as u16; // keys and records are shorter than a page
        out[..2].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// Decodes what follows the length.
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let [kind] = *take(&mut bytes)?;
        let mut trx = [0; 8];
        trx[..6].copy_from_slice(take::<6>(&mut bytes)?);
        let table = TableId(u32::from_le_bytes(*take(&mut bytes)?));
        let change = match kind {
            KIND_INSERT => UndoChange::Insert {
                key: bytes.to_vec(),
            },
            KIND_LOAD if bytes.is_empty() => UndoChange::Load,
            KIND_CHAIN_MADE => UndoChange::ChainMade(decode_chain(bytes)?),
            KIND_CHAIN_LEFT => UndoChange::ChainLeft(decode_chain(bytes)?),
            KIND_VOID => UndoChange::Void,
            KIND_UPDATE => {
                let [flags] = *take(&mut bytes)?;
                let header = RecordHeader::read(take::<CLUSTERED_HEADER_LEN>(&mut bytes)?);
                let key_len = usize::from(u16::from_le_bytes(*take(&mut bytes)?));
                let key = bytes.split_off(..key_len)?.to_vec();
                let prefix = u16::from_le_bytes(*take(&mut bytes)?);
                let suffix = u16::from_le_bytes(*take(&mut bytes)?);
                let middle = bytes.to_vec();
                UndoChange::Update {
                    key,
                    touches_entries: flags & TOUCHES_ENTRIES != 0,
                    before: Before {
                        header,
                        prefix,
                        suffix,
                        middle,
                    },
                }
            }
            _ => return None,
        };
        let trx = TrxId(u64::from_le_bytes(trx));
        Some(Self { trx, table, change })
    }
}

fn decode_chain(mut bytes: &[u8]) -> Option<ChainId> {
    let first = PageId(u64::from_le_bytes(*take(&mut bytes)?));
    let number = u64::from_le_bytes(*take(&mut bytes)?);
    bytes.is_empty().then_some(ChainId { first, number })
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    bytes.split_off(..N)?.try_into().ok()
}

/// An undo page to read.
#[derive(Clone, Copy)]
pub(super) struct UndoPage<'a>(PageRef<'a>);

impl<'a> UndoPage<'a> {
    /// The undo page over a page; checks that it is one and that its end is inside.
    pub fn new(page: PageRef<'a>) -> Result<Self, EngineError> {
        let undo = Self(page);
        let inside = (RECORDS..=PAGE_SIZE).contains(&undo.end());
        if page.kind() != perigee_page::PageKind::Undo || !inside {
            return Err(EngineError::Corrupt(format!(
                "undo {}: not an undo page, or its end lies outside",
                page.id()
            )));
        }
        Ok(undo)
    }

    /// Next page of the segment.
    #[must_use]
    pub fn next(self) -> Option<PageId> {
        let bytes = self.0.bytes()[NEXT..NEXT + 8].try_into().expect("8 bytes");
        Some(PageId(u64::from_le_bytes(bytes))).filter(|page| page.0 != 0)
    }

    /// Offset of the first byte after the records.
    #[must_use]
    pub fn end(self) -> usize {
        let bytes = self.0.bytes();
        usize::from(u16::from_le_bytes([bytes[END], bytes[END + 1]]))
    }

    /// Bytes that more records may take.
    #[must_use]
    pub fn room(self) -> usize {
        PAGE_SIZE - self.end()
    }

    /// True if it has no records.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end() == RECORDS
    }

    /// The record at this offset.
    pub fn record(self, offset: u16) -> Result<UndoRecord, EngineError> {
        let (record, _) = self.record_and_end(usize::from(offset))?;
        Ok(record)
    }

    /// The records from this offset on, oldest first, with their offsets.
    pub fn records(self, from: u16) -> Result<Vec<(u16, UndoRecord)>, EngineError> {
        let mut at = usize::from(from);
        let mut records = Vec::new();
        while at < self.end() {
            let (record, end) = self.record_and_end(at)?;
            records.push((at as u16, record));
            at = end;
        }
        Ok(records)
    }

    fn record_and_end(self, offset: usize) -> Result<(UndoRecord, usize), EngineError> {
        let corrupt = || {
            let page = self.0.id();
            EngineError::Corrupt(format!("undo {page}: no record at {offset}"))
        };
        if offset < RECORDS || offset + 2 > self.end() {
            return Err(corrupt());
        }
        let bytes = &self.0.bytes()[offset..self.end()];
        let len = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let body = bytes.get(2..2 + len).ok_or_else(corrupt)?;
        let record = UndoRecord::decode(body).ok_or_else(corrupt)?;
        Ok((record, offset + 2 + len))
    }
}

/// The operation that makes an undo page empty, with this one behind it in its segment.
#[must_use]
pub(super) fn begin_page(next: Option<PageId>) -> Op {
    let mut bytes = next.unwrap_or_default().0.to_le_bytes().to_vec();
    bytes.extend((RECORDS as u16).to_le_bytes());
    Op::Write {
        offset: NEXT as u16,
        bytes: Bytes::from(bytes),
    }
}

/// The operation that links a page behind an undo page.
#[must_use]
pub(super) fn link(next: PageId) -> Op {
    Op::Write {
        offset: NEXT as u16,
        bytes: Bytes::copy_from_slice(&next.0.to_le_bytes()),
    }
}

/// The operation that makes the record at an offset, of a chain that was left, void.
#[must_use]
pub(super) fn make_void(offset: u16) -> Op {
    Op::Write {
        offset: offset + KIND,
        bytes: Bytes::from_static(&[KIND_VOID]),
    }
}

/// How many of `records` fit the page, the operations that append them, and their roll pointers.
#[must_use]
pub(super) fn append(page: UndoPage<'_>, records: &[UndoRecord]) -> (Vec<Op>, Vec<RollPtr>) {
    let (mut bytes, mut pointers) = (Vec::new(), Vec::new());
    for record in records {
        let encoded = record.encode();
        let at = page.end() + bytes.len();
        if at + encoded.len() > PAGE_SIZE {
            break;
        }
        pointers.push(RollPtr::new(page.0.id(), at as u16));
        bytes.extend(encoded);
    }
    let end = (page.end() + bytes.len()) as u16;
    let write = |offset: usize, bytes| Op::Write {
        offset: offset as u16,
        bytes,
    };
    let ops = vec![
        write(page.end(), Bytes::from(bytes)),
        write(END, Bytes::copy_from_slice(&end.to_le_bytes())),
    ];
    (ops, pointers)
}

#[cfg(test)]
mod tests {
    use perigee_page::{PageKind, RecordFlags, RecordShape};
    use perigee_redo::apply;
    use perigee_testkit::Fuzz;
    use perigee_types::{DbId, IndexId};
    use proptest::prelude::*;

    use super::*;

    const ID: PageId = PageId(40);

    fn empty_page() -> Box<[u8; PAGE_SIZE]> {
        let mut page = Box::new([0; PAGE_SIZE]);
        let format = Op::Format {
            kind: PageKind::Undo,
            level: 0,
            db: DbId(1),
            index: IndexId(0),
            shape: RecordShape::default(),
            prev: PageId(0),
            next: PageId(0),
        };
        apply(&mut page, ID, &format).expect("formats");
        apply(&mut page, ID, &begin_page(Some(PageId(41)))).expect("begins");
        page
    }

    fn insert(n: u32, len: usize) -> UndoRecord {
        UndoRecord {
            trx: TrxId(u64::from(n)),
            table: TableId(n),
            change: UndoChange::Insert {
                key: vec![n as u8; len],
            },
        }
    }

    fn version(trx: u64, body: &[u8]) -> Vec<u8> {
        let header = RecordHeader {
            flags: RecordFlags((trx % 2) as u8),
            trx: TrxId(trx),
            roll: RollPtr(trx << 16),
        };
        [&header.to_bytes()[..], body].concat()
    }

    fn write(page: &mut [u8; PAGE_SIZE], records: &[UndoRecord]) -> Vec<RollPtr> {
        let view = UndoPage::new(PageRef::new(page).expect("page")).expect("undo page");
        let (ops, pointers) = append(view, records);
        ops.iter()
            .for_each(|op| apply(page, ID, op).expect("applies"));
        pointers
    }

    fn undo_page(page: &[u8; PAGE_SIZE]) -> Result<UndoPage<'_>, EngineError> {
        UndoPage::new(PageRef::new(page).expect("page"))
    }

    #[test]
    fn records_come_back_in_order_until_the_page_is_full() {
        let mut page = empty_page();
        assert!(undo_page(&page).expect("undo page").is_empty());
        let records: Vec<_> = (0..500).map(|n| insert(n, 100)).collect();
        let mut pointers = Vec::new();
        loop {
            let written = pointers.len();
            let batch = &records[written..(written + 7).min(records.len())];
            let new = write(&mut page, batch);
            assert!(new.iter().all(|p| p.page() == ID));
            let full = new.len() < batch.len();
            pointers.extend(new);
            if full {
                break;
            }
        }
        let view = undo_page(&page).expect("undo page");
        assert_eq!(pointers.len(), (PAGE_SIZE - RECORDS) / 113);
        let all = view.records(RECORDS as u16).expect("records");
        let offsets: Vec<_> = all.iter().map(|(at, _)| *at).collect();
        assert_eq!(
            offsets,
            pointers.iter().map(|p| p.offset()).collect::<Vec<_>>()
        );
        assert!(all.iter().map(|(_, r)| r).eq(&records[..pointers.len()]));
        assert_eq!(view.record(offsets[9]).expect("a record"), records[9]);
        assert_eq!(view.records(offsets[9]).expect("records"), all[9..]);
        assert_eq!(view.next(), Some(PageId(41)));
    }

    #[test]
    fn a_broken_record_is_an_error() {
        let mut page = empty_page();
        let _ = write(&mut page, &[insert(1, 10)]);
        for (at, byte) in [(RECORDS, 200), (RECORDS + 2, 9), (END, 0), (END + 1, 0xff)] {
            let mut broken = page.clone();
            broken[at] = byte;
            let read = undo_page(&broken).and_then(|page| page.records(RECORDS as u16));
            assert!(read.is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn a_version_comes_back_from_the_one_after(
            before in prop::collection::vec(0..3_u8, 0..40),
            after in prop::collection::vec(0..3_u8, 0..40),
            key in prop::collection::vec(any::<u8>(), 0..9),
            touches_entries: bool,
        ) {
            let (before, after) = (version(5, &before), version(8, &after));
            let change = UndoChange::Update { key, touches_entries, before: Before::new(&before, &after) };
            let record = UndoRecord { trx: TrxId(8), table: TableId(3), change };
            let mut page = empty_page();
            let roll = write(&mut page, std::slice::from_ref(&record))[0];
            let read = undo_page(&page).and_then(|page| page.record(roll.offset())).expect("a record");
            prop_assert_eq!(&read, &record);
            let UndoChange::Update { before: back, .. } = read.change else { unreachable!() };
            prop_assert_eq!(back.restore(&after), Some(before));
        }
    }

    #[test]
    fn damaged_undo_pages_are_refused_or_read() {
        // From the end of the records on: where they end, and the records.
        let corpus = (0..8_u64).map(|n| {
            let mut page = empty_page();
            let mut records = vec![insert(n as u32, 10)];
            let (before, after) = (version(5, &[1; 30]), version(8, &[2; 20]));
            let change = UndoChange::Update {
                key: vec![n as u8; 4],
                touches_entries: n % 2 == 0,
                before: Before::new(&before, &after),
            };
            records.push(UndoRecord {
                trx: TrxId(8),
                table: TableId(3),
                change,
            });
            let _ = write(&mut page, &records);
            page[HEADER_LEN..RECORDS + 200].to_vec()
        });
        let after = version(8, &[2; 20]);
        Fuzz::new(corpus).run("undo pages", |bytes| {
            let mut page = empty_page();
            let body = &mut page[HEADER_LEN..];
            let len = bytes.len().min(body.len());
            body[..len].copy_from_slice(&bytes[..len]);
            let Ok(view) = undo_page(&page) else {
                return false;
            };
            for at in RECORDS as u16..RECORDS as u16 + 64 {
                if let Ok(UndoRecord {
                    change: UndoChange::Update { before, .. },
                    ..
                }) = view.record(at)
                {
                    let _ = before.restore(&after);
                }
            }
            view.records(RECORDS as u16).is_ok()
        });
    }
}
