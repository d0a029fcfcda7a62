//! Where and how a column is read: the layout's words checked and turned into constants.
//!
//! Invariant J1: every offset here lies below `RecordShape::var_data_offset`, so that reading it is
//! safe in every record that is at least that long. Both the compiled code and the gather loops
//! rely on it instead of checking bounds per record.

use perigee_expr::Type;
use perigee_value::{ColumnType, Place, RowLayout};

use crate::JitError;
use crate::interval::Interval;

/// One bit of the null bitmap; set means NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NullBit {
    /// Offset of its byte from the start of the record.
    pub offset: u16,
    /// The bit in that byte.
    pub mask: u8,
}

/// How the value's bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// An integer of 1, 2, 4, 8 or 16 bytes.
    Integer {
        offset: u16,
        bytes: u8,
        unsigned: bool,
        key: bool,
    },
    /// FLOAT (4 bytes) or DOUBLE (8 bytes).
    Float { offset: u16, bytes: u8, key: bool },
    /// Variable-length bytes; an offset of an end is that of its `u16`.
    Text { start: TextStart, end_offset: u16 },
}

/// Where variable-length bytes begin, from the start of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStart {
    /// At this constant: the first item.
    Constant(u16),
    /// At the end of the item before, which is the `u16` at this offset.
    EndAt(u16),
}

/// A column of a checked layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnAccess {
    pub slot: Slot,
    pub null: Option<NullBit>,
    /// Type of its values in a program.
    pub ty: Type,
    /// Range of its values, if they are integers.
    pub range: Interval,
}

impl ColumnAccess {
    /// Checks column `index` of the layout.
    pub(crate) fn new(layout: &RowLayout, index: u16) -> Result<Self, JitError> {
        let bad = |what| JitError::Layout {
            column: index,
            what,
        };
        let column = layout
            .columns
            .get(usize::from(index))
            .ok_or(bad("does not exist"))?;
        let fixed_len = usize::from(layout.shape.fixed_len);
        let null = match column.null_bit {
            None => None,
            Some(bit) => {
                let offset = layout.null_offset.checked_add(bit / 8);
                let offset = offset.ok_or(bad("has its null bit outside the record"))?;
                if usize::from(offset) >= fixed_len {
                    return Err(bad("has its null bit outside the record"));
                }
                Some(NullBit {
                    offset,
                    mask: 1 << (bit % 8),
                })
            }
        };
        let slot = slot(layout, column.ty, column.place).ok_or(bad("has no such place"))?;
        if let Slot::Integer { offset, bytes, .. } | Slot::Float { offset, bytes, .. } = slot
            && usize::from(offset) + usize::from(bytes) > fixed_len
        {
            return Err(bad("lies outside the record"));
        }
        Ok(Self {
            slot,
            null,
            ty: Type::of(column.ty),
            range: range(column.ty),
        })
    }
}

/// The place of a column, or `None` if the type cannot be there.
fn slot(layout: &RowLayout, ty: ColumnType, place: Place) -> Option<Slot> {
    let (offset, key) = match place {
        Place::Var { item } => {
            return if ty.is_string() {
                text_slot(layout, item)
            } else {
                None
            };
        }
        Place::Key { offset } => (offset, true),
        Place::Fixed { offset } => (offset, false),
    };
    let bytes = ty.stored_width()? as u8;
    match ty {
        ty if ty.is_wide() => None,
        ColumnType::Float | ColumnType::Double => Some(Slot::Float { offset, bytes, key }),
        _ => {
            let unsigned = ty.is_unsigned();
            Some(Slot::Integer {
                offset,
                bytes,
                unsigned,
                key,
            })
        }
    }
}

fn text_slot(layout: &RowLayout, item: u8) -> Option<Slot> {
    let shape = &layout.shape;
    if item >= shape.var_count {
        return None;
    }
    let end_offset = shape.fixed_len.checked_add(2 * u16::from(item))?;
    let start = if item == 0 {
        TextStart::Constant(u16::try_from(shape.var_data_offset()).ok()?)
    } else {
        TextStart::EndAt(end_offset - 2)
    };
    Some(Slot::Text { start, end_offset })
}

/// Range of a column's values.
fn range(ty: ColumnType) -> Interval {
    match ty {
        // The stored width, not MEDIUMINT's: it holds whatever the bytes are.
        ColumnType::Int { unsigned, .. } => {
            Interval::of_bytes(ty.stored_width().unwrap_or(8) as u8, unsigned)
        }
        ColumnType::Year => Interval::of_bytes(2, true),
        ColumnType::Bit { .. } => Interval::of_bytes(ty.stored_width().unwrap_or(8) as u8, true),
        _ => Interval::of_type(Type::of(ty)),
    }
}
