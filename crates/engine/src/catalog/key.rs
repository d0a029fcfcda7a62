//! What keys are made of: secondary indexes, the order of their parts, and hidden columns, which hold the parts that
//! are no columns of the user's.

use perigee_types::{DecodeError, Reader, Writer};

use super::ColumnDef;

/// Of the byte about an index: UNIQUE.
const UNIQUE_INDEX: u8 = 1;
/// Of the same: INVISIBLE.
const INVISIBLE_INDEX: u8 = 2;
/// Of the same: key columns with DESC.
const DESCENDING_INDEX: u8 = 4;

/// What a hidden column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// The beginning of another column of the table.
    Prefix {
        /// That column.
        of: u16,
        /// Characters, of a column of bytes bytes.
        length: u16,
    },
    /// The value of an expression.
    Expression,
}

impl Hidden {
    pub(super) fn encode(self, w: &mut Writer) {
        match self {
            Self::Prefix { of, length } => {
                w.u8(1).u16(of).u16(length);
            }
            Self::Expression => {
                w.u8(2);
            }
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.u8()? {
            1 => Ok(Self::Prefix {
                of: r.u16()?,
                length: r.u16()?,
            }),
            2 => Ok(Self::Expression),
            _ => Err(DecodeError::new("definition: kind of a hidden column")),
        }
    }
}

/// A secondary index as CREATE TABLE gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexDef {
    /// Name.
    pub name: String,
    /// Table columns, in key order.
    pub columns: Vec<u16>,
    /// UNIQUE: no two rows agree in all key columns, unless one of them is NULL.
    pub unique: bool,
    /// INVISIBLE: no statement uses it to find rows.
    pub invisible: bool,
    /// Which key columns are defined with DESC; their entries ascend all the same.
    pub descending: Descending,
}

/// The parts of a key that are defined with DESC, by their place, which is below 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descending(u16);

impl Descending {
    /// True for a part with DESC.
    #[must_use]
    pub const fn has(self, place: usize) -> bool {
        place < 16 && self.0 >> place & 1 != 0
    }

    pub(super) fn encode(self, w: &mut Writer) {
        w.u16(self.0);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u16().map(Self)
    }
}

impl FromIterator<bool> for Descending {
    /// Of parts in key order.
    fn from_iter<I: IntoIterator<Item = bool>>(parts: I) -> Self {
        let parts = parts.into_iter().take(16).enumerate();
        Self(parts.fold(0, |bits, (place, is_descending)| {
            bits | u16::from(is_descending) << place
        }))
    }
}

impl IndexDef {
    pub(super) fn encode(&self, w: &mut Writer) {
        let is_descending = self.descending != Descending::default();
        let flags =
            u8::from(self.unique) | u8::from(self.invisible) << 1 | u8::from(is_descending) << 2;
        w.str(&self.name).u8(flags);
        encode_columns(&self.columns, w);
        if is_descending {
            self.descending.encode(w);
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>, count: u16) -> Result<Self, DecodeError> {
        let (name, flags) = (r.str()?.into(), r.u8()?);
        if flags > UNIQUE_INDEX | INVISIBLE_INDEX | DESCENDING_INDEX {
            return Err(DecodeError::new("catalog: flags of an index"));
        }
        Ok(Self {
            name,
            unique: flags & UNIQUE_INDEX != 0,
            invisible: flags & INVISIBLE_INDEX != 0,
            columns: decode_columns(r, count)?,
            descending: match flags & DESCENDING_INDEX {
                0 => Descending::default(),
                _ => Descending::decode(r)?,
            },
        })
    }
}

/// Checks that hidden columns come last and are generated, and that prefixes are of others.
pub(super) fn check_hidden(columns: &[ColumnDef]) -> Result<(), DecodeError> {
    let is_hidden = |column: &ColumnDef| column.hidden.is_some();
    let shown = columns
        .iter()
        .take_while(|column| !is_hidden(column))
        .count();
    let good = |column: &ColumnDef| match column.hidden {
        None => false,
        Some(Hidden::Prefix { of, .. }) => column.generated.is_some() && usize::from(of) < shown,
        Some(Hidden::Expression) => column.generated.is_some(),
    };
    match columns[shown..].iter().all(good) {
        true => Ok(()),
        false => Err(DecodeError::new("catalog: hidden columns")),
    }
}

pub(super) fn encode_columns(columns: &[u16], w: &mut Writer) {
    w.u16(columns.len() as u16);
    for column in columns {
        w.u16(*column);
    }
}

pub(super) fn decode_columns(r: &mut Reader<'_>, count: u16) -> Result<Vec<u16>, DecodeError> {
    let n = r.u16()?;
    let columns = (0..n).map(|_| r.u16()).collect::<Result<Vec<_>, _>>()?;
    if columns.iter().any(|c| *c >= count) {
        return Err(DecodeError::new("catalog: column of a key"));
    }
    Ok(columns)
}
