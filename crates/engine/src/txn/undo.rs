//! Undo records and the pages they lie in.
//!
//! Undo pages are pages like all others: logged, in slices. A transaction's undo log is a chain of
//! pages, written front to back; a rollback reads it back to front. Body of an undo page, from the
//! end of the page header (`docs/format/undo.md`):
//!
//! ```text
//! 0   8  transaction that wrote the records
//! 8   8  next page of the chain, 0 if none
//! 16  2  end: offset in the page of the first byte after the records
//! 18  …  records, each: length of what follows 2, kind 1 (1 insert, 2 load), table 4, and for an
//!        insert the key of the clustered index
//! ```

use bytes::Bytes;
use perigee_page::{HEADER_LEN, PageRef};
use perigee_redo::Op;
use perigee_types::{PAGE_SIZE, PageId, RollPtr, TableId, TrxId};

use crate::EngineError;

const TRX: usize = HEADER_LEN;
const NEXT: usize = HEADER_LEN + 8;
const END: usize = HEADER_LEN + 16;
const RECORDS: usize = HEADER_LEN + 18;
const RECORD_HEADER: usize = 7;
const KIND_INSERT: u8 = 1;
const KIND_LOAD: u8 = 2;

/// What it takes to undo one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoRecord {
    /// Undo of an insert: remove the row with this clustered key, if the transaction's.
    Insert {
        /// The table.
        table: TableId,
        /// Encoded key of the clustered index.
        key: Vec<u8>,
    },
    /// Undo of a load into an empty table: empty its trees.
    Load {
        /// The table.
        table: TableId,
    },
}

impl UndoRecord {
    fn parts(&self) -> (u8, TableId, &[u8]) {
        match self {
            Self::Insert { table, key } => (KIND_INSERT, *table, key),
            Self::Load { table } => (KIND_LOAD, *table, &[]),
        }
    }

    fn encoded_len(&self) -> usize {
        RECORD_HEADER + self.parts().2.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, table, key) = self.parts();
        let len = (self.encoded_len() - 2) as u16; // keys are shorter than a page
        out.extend(len.to_le_bytes());
        out.push(kind);
        out.extend(table.0.to_le_bytes());
        out.extend(key);
    }
}

/// An undo page to read.
#[derive(Clone, Copy)]
pub struct UndoPage<'a>(PageRef<'a>);

impl<'a> UndoPage<'a> {
    /// The undo page over a page of kind undo; checks that its end is inside.
    pub fn new(page: PageRef<'a>) -> Result<Self, EngineError> {
        let undo = Self(page);
        if !(RECORDS..=PAGE_SIZE).contains(&undo.end()) {
            return Err(EngineError::Corrupt(format!(
                "undo {}: end outside the page",
                page.id()
            )));
        }
        Ok(undo)
    }

    /// The transaction that wrote its records.
    #[must_use]
    pub fn trx(self) -> TrxId {
        TrxId(self.u64(TRX))
    }

    /// Next page of the chain.
    #[must_use]
    pub fn next(self) -> Option<PageId> {
        Some(PageId(self.u64(NEXT))).filter(|page| page.0 != 0)
    }

    /// Bytes that further records may take.
    #[must_use]
    pub fn room(self) -> usize {
        PAGE_SIZE - self.end()
    }

    /// All records, oldest first.
    pub fn records(self) -> Result<Vec<UndoRecord>, EngineError> {
        let corrupt = || EngineError::Corrupt(format!("undo {}: broken record", self.0.id()));
        let mut rest = &self.0.bytes()[RECORDS..self.end()];
        let mut records = Vec::new();
        while let Some((len, tail)) = rest.split_first_chunk::<2>() {
            let len = usize::from(u16::from_le_bytes(*len));
            let (record, tail) = tail.split_at_checked(len).ok_or_else(corrupt)?;
            let (&[kind, t0, t1, t2, t3], key) =
                record.split_first_chunk::<5>().ok_or_else(corrupt)?;
            let table = TableId(u32::from_le_bytes([t0, t1, t2, t3]));
            records.push(match kind {
                KIND_INSERT => UndoRecord::Insert {
                    table,
                    key: key.to_vec(),
                },
                KIND_LOAD => UndoRecord::Load { table },
                _ => return Err(corrupt()),
            });
            rest = tail;
        }
        if rest.is_empty() {
            Ok(records)
        } else {
            Err(corrupt())
        }
    }

    fn end(self) -> usize {
        usize::from(u16::from_le_bytes([
            self.0.bytes()[END],
            self.0.bytes()[END + 1],
        ]))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0.bytes()[at..at + 8].try_into().expect("8 bytes"))
    }
}

/// The operations that make an undo page empty for a transaction. The chain is kept: `next` is the
/// page that follows, if the page was part of a chain before.
#[must_use]
pub fn begin_page(trx: TrxId, next: Option<PageId>) -> Op {
    let mut bytes = trx.0.to_le_bytes().to_vec();
    bytes.extend(next.unwrap_or_default().0.to_le_bytes());
    bytes.extend((RECORDS as u16).to_le_bytes());
    Op::Write {
        offset: TRX as u16,
        bytes: Bytes::from(bytes),
    }
}

/// The operation that links a new page behind an undo page.
#[must_use]
pub fn link(next: PageId) -> Op {
    Op::Write {
        offset: NEXT as u16,
        bytes: Bytes::copy_from_slice(&next.0.to_le_bytes()),
    }
}

/// How many of `records` fit the page, the operations that append them, and their roll pointers.
#[must_use]
pub fn append(page: UndoPage<'_>, records: &[UndoRecord]) -> (Vec<Op>, Vec<RollPtr>) {
    let (mut bytes, mut pointers) = (Vec::new(), Vec::new());
    for record in records {
        if bytes.len() + record.encoded_len() > page.room() {
            break;
        }
        pointers.push(RollPtr::new(page.0.id(), (page.end() + bytes.len()) as u16));
        record.encode(&mut bytes);
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
    use perigee_page::{PageKind, RecordShape};
    use perigee_redo::apply;
    use perigee_types::{DbId, IndexId};

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
        apply(&mut page, ID, &begin_page(TrxId(3), Some(PageId(41)))).expect("begins");
        page
    }

    fn record(n: u32, len: usize) -> UndoRecord {
        UndoRecord::Insert {
            table: TableId(n),
            key: vec![n as u8; len],
        }
    }

    #[test]
    fn records_come_back_in_order_until_the_page_is_full() {
        let mut page = empty_page();
        let records: Vec<_> = (0..500).map(|n| record(n, 100)).collect();
        let mut written = 0;
        loop {
            let view = UndoPage::new(PageRef::new(&*page).expect("page")).expect("undo page");
            let batch = &records[written..(written + 7).min(records.len())];
            let (ops, pointers) = append(view, batch);
            ops.iter()
                .for_each(|op| apply(&mut page, ID, op).expect("applies"));
            assert!(pointers.iter().all(|p| p.page() == ID));
            written += pointers.len();
            if pointers.len() < batch.len() {
                break;
            }
        }
        let view = UndoPage::new(PageRef::new(&*page).expect("page")).expect("undo page");
        assert_eq!(written, (PAGE_SIZE - RECORDS) / 107);
        assert_eq!(view.records().expect("records"), records[..written]);
        assert_eq!((view.trx(), view.next()), (TrxId(3), Some(PageId(41))));
    }

    #[test]
    fn a_broken_record_is_an_error() {
        let mut page = empty_page();
        let view = UndoPage::new(PageRef::new(&*page).expect("page")).expect("undo page");
        let (ops, _) = append(view, &[record(1, 10)]);
        ops.iter()
            .for_each(|op| apply(&mut page, ID, op).expect("applies"));
        for (at, byte) in [(RECORDS, 200), (RECORDS + 2, 9), (END, 0), (END + 1, 0xff)] {
            let mut broken = page.clone();
            broken[at] = byte;
            let view = PageRef::new(&*broken).map(UndoPage::new).expect("page");
            assert!(view.and_then(UndoPage::records).is_err(), "byte {at}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            end in 0..500_u16,
        ) {
            let mut page = empty_page();
            page[RECORDS..RECORDS + bytes.len()].copy_from_slice(&bytes);
            page[END..END + 2].copy_from_slice(&end.to_le_bytes());
            if let Ok(view) = UndoPage::new(PageRef::new(&*page).expect("page")) {
                let _ = view.records();
            }
        }
    }
}
