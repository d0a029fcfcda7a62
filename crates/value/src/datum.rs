//! A single SQL value: owned ([`Datum`]) and borrowed ([`ValueRef`]).

use perigee_types::{DecodeError, Reader, Writer};

use crate::{OverflowRef, Wide};

/// A SQL value outside of a record: a literal, a parsed field, a constant of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// SQL NULL.
    Null,
    /// Signed integers.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// Units of 10^-scale of the type that goes with it, which has at most 38 digits.
    Decimal(i128),
    /// The same for a type of more digits.
    Wide(Wide),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00:00: DATETIME and TIMESTAMP.
    DateTime(i64),
    /// Microseconds: TIME.
    Time(i64),
    /// CHAR, VARCHAR and TEXT (UTF-8), or bytes.
    String(Vec<u8>),
    /// A long value that lies outside of its row.
    Overflow(OverflowRef),
    /// Truth value.
    Bool(bool),
}

/// A SQL value that borrows its bytes from a record, a line of text or a [`Datum`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// Signed integers.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// Units of 10^-scale of the type that goes with it, which has at most 38 digits.
    Decimal(i128),
    /// The same for a type of more digits.
    Wide(Wide),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00:00: DATETIME and TIMESTAMP.
    DateTime(i64),
    /// Microseconds: TIME.
    Time(i64),
    /// CHAR, VARCHAR and TEXT (UTF-8), or bytes.
    String(&'a [u8]),
    /// A long value that lies outside of its row.
    Overflow(OverflowRef),
    /// Truth value.
    Bool(bool),
}

/// Rows of values are copied about: none is larger than an `i128` makes it.
const _: () = assert!(size_of::<Datum>() == 32 && size_of::<ValueRef<'_>>() == 32);

impl ValueRef<'_> {
    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_datum(self) -> Datum {
        match self {
            ValueRef::Null => Datum::Null,
            ValueRef::Int(v) => Datum::Int(v),
            ValueRef::UInt(v) => Datum::UInt(v),
            ValueRef::Decimal(v) => Datum::Decimal(v),
            ValueRef::Wide(v) => Datum::Wide(v),
            ValueRef::Double(v) => Datum::Double(v),
            ValueRef::Date(v) => Datum::Date(v),
            ValueRef::DateTime(v) => Datum::DateTime(v),
            ValueRef::Time(v) => Datum::Time(v),
            ValueRef::String(v) => Datum::String(v.to_vec()),
            ValueRef::Overflow(v) => Datum::Overflow(v),
            ValueRef::Bool(v) => Datum::Bool(v),
        }
    }

    /// True for SQL NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }
}

impl Datum {
    /// True for 0000-00-00, as a date or as a point in time.
    #[must_use]
    pub fn is_zero_date(&self) -> bool {
        use crate::date::{ZERO_DAY, ZERO_MICROS};
        matches!(self, Self::Date(ZERO_DAY) | Self::DateTime(ZERO_MICROS))
    }

    /// The same value, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(v) => ValueRef::Int(*v),
            Self::UInt(v) => ValueRef::UInt(*v),
            Self::Decimal(v) => ValueRef::Decimal(*v),
            Self::Wide(v) => ValueRef::Wide(*v),
            Self::Double(v) => ValueRef::Double(*v),
            Self::Date(v) => ValueRef::Date(*v),
            Self::DateTime(v) => ValueRef::DateTime(*v),
            Self::Time(v) => ValueRef::Time(*v),
            Self::String(v) => ValueRef::String(v),
            Self::Overflow(v) => ValueRef::Overflow(*v),
            Self::Bool(v) => ValueRef::Bool(*v),
        }
    }

    /// True for SQL NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Appends the wire form: a tag and the value.
    ///
    /// # Panics
    /// If it is a reference: constants are values.
    pub fn encode(&self, w: &mut Writer) {
        match self {
            Self::Null => w.u8(0),
            Self::Int(v) => w.u8(1).u64(*v as u64),
            Self::UInt(v) => w.u8(2).u64(*v),
            Self::Decimal(v) => w.u8(3).i128(*v),
            Self::Double(v) => w.u8(4).u64(v.to_bits()),
            Self::Date(v) => w.u8(5).u32(*v as u32),
            Self::DateTime(v) => w.u8(6).u64(*v as u64),
            Self::String(v) => w.u8(7).bytes(v),
            Self::Overflow(_) => panic!("V8: what lies outside of a row is no constant"),
            Self::Bool(v) => w.u8(8).u8(u8::from(*v)),
            Self::Time(v) => w.u8(9).u64(*v as u64),
            Self::Wide(v) => w.u8(10).raw(v.as_bytes()),
        };
    }

    /// Reads what [`Datum::encode`] wrote. Whether the value fits a type is the caller's question.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match r.u8()? {
            0 => Self::Null,
            1 => Self::Int(r.u64()? as i64),
            2 => Self::UInt(r.u64()?),
            3 => Self::Decimal(r.i128()?),
            4 => Self::Double(f64::from_bits(r.u64()?)),
            5 => Self::Date(r.u32()? as i32),
            6 => Self::DateTime(r.u64()? as i64),
            7 => Self::String(r.bytes()?.to_vec()),
            8 => Self::Bool(match r.u8()? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::new("value: truth value")),
            }),
            9 => Self::Time(r.u64()? as i64),
            10 => {
                let bytes = r.raw(Wide::WIDTH)?.first_chunk();
                Self::Wide(Wide::from_bytes(*bytes.expect("so many were read")))
            }
            _ => return Err(DecodeError::new("value: tag")),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;
    use crate::strategies::{column_type, value};

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(datum in column_type().prop_flat_map(value), null: bool) {
            let datum = if null { Datum::Null } else { datum };
            let mut w = Writer::new();
            datum.encode(&mut w);
            let bytes = w.into_bytes();
            let mut r = Reader::new(&bytes, "value");
            prop_assert_eq!(Datum::decode(&mut r).unwrap(), datum);
            r.finish().unwrap();
        }
    }
}
