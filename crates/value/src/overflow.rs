//! Long values in records (`docs/format/row.md`): inline, or a reference to the overflow pages that
//! hold them. What is moved out is decided here; the pages are the engine's business.

use perigee_types::PageId;

use crate::key::encode_part;
use crate::{ColumnType, MAX_RECORD_LEN, Place, RowLayout, ValueRef};

/// Form of an item whose value follows.
pub(crate) const INLINE: u8 = 0;

/// Form of an item with a reference.
const OUTSIDE: u8 = 1;

/// Length of an item with a reference.
const ITEM_LEN: usize = 21;

/// Values up to this length stay in the row: moved out they would save next to nothing.
const ALWAYS_INLINE: usize = 40;

/// Where a long value lies that is not in its row: a chain of overflow pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverflowRef {
    /// Length of the value in bytes.
    pub len: u32,
    /// First page of the chain. `PageId(0)` for a value that has no pages yet, or if the record is
    /// damaged.
    pub first: PageId,
    /// Number of the chain, which its pages carry.
    pub chain: u64,
}

impl OverflowRef {
    /// What stands for a reference that cannot be read.
    const DAMAGED: Self = Self {
        len: 0,
        first: PageId(0),
        chain: u64::MAX,
    };

    /// Stands in a record for the value with this number of a list, until it has pages
    /// ([`patch_refs`]).
    #[must_use]
    pub fn pending(number: usize, len: usize) -> Self {
        Self {
            len: len as u32, // checked against the column's limit
            first: PageId(0),
            chain: number as u64,
        }
    }

    /// Reads the item of a long column that is not NULL.
    ///
    /// # Errors
    /// The value itself if it is in the item.
    pub fn of_item(item: &[u8]) -> Result<Self, &[u8]> {
        match read_item(item) {
            ValueRef::Overflow(reference) => Ok(reference),
            _ => Err(&item[1..]),
        }
    }

    /// The reference as an item.
    pub(crate) fn to_item(self) -> [u8; ITEM_LEN] {
        let mut item = [OUTSIDE; ITEM_LEN];
        item[1..5].copy_from_slice(&self.len.to_le_bytes());
        item[5..13].copy_from_slice(&self.first.0.to_le_bytes());
        item[13..].copy_from_slice(&self.chain.to_le_bytes());
        item
    }

    fn decode(item: &[u8; ITEM_LEN]) -> Self {
        let u64_at = |at: usize| u64::from_le_bytes(item[at..at + 8].try_into().expect("8 bytes"));
        Self {
            len: u32::from_le_bytes(item[1..5].try_into().expect("4 bytes")),
            first: PageId(u64_at(5)),
            chain: u64_at(13),
        }
    }
}

/// The value that the item of a long column stands for.
#[inline]
pub(crate) fn read_item(item: &[u8]) -> ValueRef<'_> {
    match item.split_first() {
        Some((&INLINE, value)) => ValueRef::String(value),
        Some((&OUTSIDE, _)) => match item.try_into() {
            Ok(item) => ValueRef::Overflow(OverflowRef::decode(item)),
            Err(_) => ValueRef::Overflow(OverflowRef::DAMAGED),
        },
        _ => ValueRef::Overflow(OverflowRef::DAMAGED),
    }
}

/// The long columns whose values have to leave the row for its record to be short enough: the
/// longest ones, and no more than needed.
#[must_use]
pub fn values_to_move_out<'v>(
    layout: &RowLayout,
    value: impl Fn(usize) -> ValueRef<'v>,
) -> Vec<usize> {
    let mut len = layout.shape.var_data_offset();
    if layout.shape.key_len == 0 {
        let mut key = Vec::new();
        for column in &layout.key {
            let column = usize::from(*column);
            let place = &layout.columns[column];
            // What is wrong with it is found when the row is encoded.
            let _ = encode_part(place.ty, place.null_bit.is_some(), value(column), &mut key);
        }
        len += key.len();
    }
    let mut movable = Vec::new();
    for (column, place) in layout.columns.iter().enumerate() {
        let Place::Var { .. } = place.place else {
            continue;
        };
        match value(column) {
            ValueRef::String(text) if place.ty.is_long() => {
                len += 1 + text.len();
                movable.push((text.len(), column));
            }
            ValueRef::String(text) => len += text.len(),
            ValueRef::Overflow(_) => len += ITEM_LEN,
            _ => {}
        }
    }
    movable.retain(|(len, _)| *len > ALWAYS_INLINE);
    movable.sort_unstable();
    let mut moved = Vec::new();
    while len > MAX_RECORD_LEN
        && let Some((longest, column)) = movable.pop()
    {
        len -= 1 + longest - ITEM_LEN;
        moved.push(column);
    }
    moved
}

/// Puts references in the places of those that [`OverflowRef::pending`] made, in records that follow
/// each other.
///
/// # Panics
/// If one stands for a value that has no reference, or the bytes are not records.
pub fn patch_refs(layout: &RowLayout, records: &mut [u8], refs: &[OverflowRef]) {
    let long: Vec<usize> = layout
        .columns
        .iter()
        .filter(|column| column.ty.is_long())
        .filter_map(|column| match column.place {
            Place::Var { item } => Some(usize::from(item)),
            _ => None,
        })
        .collect();
    let mut at = 0;
    while at < records.len() {
        let record = &mut records[at..];
        let len = layout.shape.record_len(record).expect("V1: whole records");
        for item in &long {
            let found = layout.shape.var_item(record, *item);
            let start = found.as_ptr() as usize - record.as_ptr() as usize;
            if let Ok(item) = <&[u8; ITEM_LEN]>::try_from(found)
                && item[0] == OUTSIDE
                && OverflowRef::decode(item).first == PageId(0)
            {
                let number = OverflowRef::decode(item).chain as usize;
                record[start..start + ITEM_LEN].copy_from_slice(&refs[number].to_item());
            }
        }
        at += len;
    }
}

/// True if a long value of this type may have such a reference.
pub(crate) fn is_plausible(ty: ColumnType, reference: OverflowRef) -> bool {
    ty.greatest_length()
        .is_some_and(|most| reference.first != PageId(0) && reference.len <= most)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use perigee_page::RecordHeader;

    use super::*;
    use crate::{Collation, Datum, RecordView, RowError, ValueErrorKind, encode_row};

    const INT: ColumnType = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };
    const TEXT: ColumnType = ColumnType::Long {
        prefix: 2,
        collation: Collation::UTF8MB4_BIN,
    };
    const BLOB: ColumnType = ColumnType::Long {
        prefix: 4,
        collation: Collation::BINARY,
    };
    const REF: OverflowRef = OverflowRef {
        len: 0x0102_0304,
        first: PageId(0x1112_1314_1516_1718),
        chain: 0x2122_2324_2526_2728,
    };

    fn layout() -> RowLayout {
        RowLayout::clustered(&[(INT, false), (TEXT, true), (BLOB, true)], &[0]).unwrap()
    }

    fn record(row: &[Datum]) -> Result<Vec<u8>, RowError> {
        let mut out = Vec::new();
        encode_row(&layout(), row, RecordHeader::default(), &mut out)?;
        Ok(out)
    }

    #[test]
    fn long_items_byte_by_byte() {
        let row = [
            Datum::Int(1),
            Datum::String(b"hi".to_vec()),
            Datum::Overflow(REF),
        ];
        let bytes = record(&row).unwrap();
        let items = [
            &[0][..],                                          // inline
            b"hi",                                             // the value
            &[1],                                              // a reference
            &[4, 3, 2, 1],                                     // length
            &[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11], // first page
            &[0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21], // chain
        ];
        let items = items.concat();
        assert_eq!(bytes[bytes.len() - items.len()..], items);
        assert_eq!(RecordView::new(&layout(), &bytes).row().unwrap(), row);
        let empty = [Datum::Int(1), Datum::String(Vec::new()), Datum::Null];
        let bytes = record(&empty).unwrap();
        assert_eq!(bytes[bytes.len() - 1..], [0], "an empty text is not NULL");
        assert_eq!(RecordView::new(&layout(), &bytes).row().unwrap(), empty);
    }

    #[test]
    fn damaged_references_are_errors() {
        let row = [Datum::Int(1), Datum::Null, Datum::Overflow(REF)];
        let good = record(&row).unwrap();
        let item = good.len() - ITEM_LEN;
        let kind = |bytes: &[u8]| {
            let layout = layout();
            let read = RecordView::new(&layout, bytes).get(2);
            read.map_err(|error| error.kind)
        };
        assert_eq!(kind(&good), Ok(Datum::Overflow(REF)));
        let mut bytes = good.clone();
        bytes[item] = 2;
        assert_eq!(kind(&bytes), Err(ValueErrorKind::Corrupt), "unknown form");
        let mut bytes = good.clone();
        bytes[item + 5..item + 13].fill(0);
        assert_eq!(kind(&bytes), Err(ValueErrorKind::Corrupt), "no page");
        // A text of 64 KiB at most cannot be that long.
        let row = [Datum::Int(1), Datum::Overflow(REF), Datum::Null];
        let layout = layout();
        let bytes = record(&row).unwrap();
        let read = RecordView::new(&layout, &bytes).get(1);
        assert_eq!(read.unwrap_err().kind, ValueErrorKind::Corrupt);
    }

    #[test]
    fn values_are_checked_and_bounded() {
        let kind = |row: &[Datum]| match record(row) {
            Err(RowError::Column { error, .. }) => error.kind,
            other => panic!("{other:?}"),
        };
        let long = |len| Datum::String(vec![b'x'; len]);
        let row = [Datum::Int(1), long(65_536), Datum::Null];
        assert_eq!(kind(&row), ValueErrorKind::TooLong);
        let row = [Datum::Int(1), Datum::String(vec![0xff]), Datum::Null];
        assert_eq!(kind(&row), ValueErrorKind::Incorrect);
        let row = [Datum::Int(1), Datum::Int(1), Datum::Null];
        assert_eq!(kind(&row), ValueErrorKind::Incorrect);
        let row = [Datum::Int(1), Datum::Null, Datum::String(vec![0xff, 0])];
        assert!(record(&row).is_ok(), "a BLOB takes any bytes");
        assert!(RowLayout::clustered(&[(TEXT, false)], &[0]).is_err());
        assert!(RowLayout::secondary(&[(TEXT, false), (INT, false)]).is_err());
    }

    #[test]
    fn the_longest_values_are_moved_out_and_no_more_than_needed() {
        let moved = |text: usize, blob: usize| {
            let row = [
                Datum::Int(1),
                Datum::String(vec![b'a'; text]),
                Datum::String(vec![b'b'; blob]),
            ];
            let layout = layout();
            let moved = values_to_move_out(&layout, |column| row[column].as_ref());
            let row: Vec<Datum> = row
                .into_iter()
                .enumerate()
                .map(|(column, value)| {
                    if moved.contains(&column) {
                        Datum::Overflow(REF)
                    } else {
                        value
                    }
                })
                .collect();
            record(&row).unwrap();
            moved
        };
        let room = MAX_RECORD_LEN - layout().shape.var_data_offset() - 2;
        assert_eq!(moved(40, room - 40), [0_usize; 0]);
        assert_eq!(moved(40, room - 39), [2]);
        assert_eq!(moved(8000, 200), [1]);
        assert_eq!(moved(60_000, 8090), [1, 2]);
        assert_eq!(moved(60_000, 8070), [1]);
    }

    #[test]
    fn pending_references_are_patched() {
        let layout = layout();
        let mut records = Vec::new();
        for n in [1, 0] {
            let row = [
                Datum::Int(1),
                Datum::String(vec![1; ITEM_LEN - 1]),
                Datum::Overflow(OverflowRef::pending(n, 100)),
            ];
            records.extend(record(&row).unwrap());
        }
        let other = OverflowRef { chain: 7, ..REF };
        patch_refs(&layout, &mut records, &[REF, other]);
        let len = records.len() / 2;
        for (at, expected) in [(0, other), (len, REF)] {
            let view = RecordView::new(&layout, &records[at..]);
            assert_eq!(view.value(2), ValueRef::Overflow(expected));
            assert_eq!(view.value(1), ValueRef::String(&[1; ITEM_LEN - 1]));
        }
    }
}
