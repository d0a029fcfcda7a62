//! What values count as in arithmetic.

use perigee_value::{ColumnType, MembersKind, bits, decimal};

use crate::SqlType;

/// What an operand of arithmetic counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Signed integer of so many digits.
    Int(u8),
    /// Unsigned integer of so many digits.
    UInt(u8),
    /// Exact decimal: digits, and those after the decimal point.
    Decimal(u8, u8),
    /// DOUBLE; strings count as such.
    Double,
    /// The literal NULL.
    Null,
}

impl Number {
    /// Greatest number of digits after the decimal point, as in MySQL.
    pub const MAX_SCALE: u8 = 30;

    /// Precision and scale as an exact number; `None` for DOUBLE.
    #[must_use]
    pub const fn exact(self) -> Option<(u8, u8)> {
        match self {
            Self::Int(digits) | Self::UInt(digits) => Some((digits, 0)),
            Self::Decimal(precision, scale) => Some((precision, scale)),
            Self::Null => Some((1, 0)),
            Self::Double => None,
        }
    }

    /// Greatest precision of what is computed from numbers of which the longest has so many digits. Only wide
    /// operands have wide results, so that nothing becomes slower that storage can do.
    #[must_use]
    pub const fn most_digits(precision: u8) -> u8 {
        if precision > decimal::MAX_PRECISION {
            ColumnType::MAX_PRECISION
        } else {
            decimal::MAX_PRECISION
        }
    }

    /// What a value of a type counts as. Dates and times count as numbers such as 20200131 and 235959, values of an
    /// ENUM or a SET as their numbers.
    #[must_use]
    pub fn of(ty: &SqlType) -> Self {
        let Some(column) = ty.column else {
            return Self::Null;
        };
        if let Some(members) = &ty.members {
            return match (members.kind(), members.number_type().is_unsigned()) {
                (MembersKind::Enum, _) => Self::Int(5),
                (MembersKind::Set, false) => Self::Int(19),
                (MembersKind::Set, true) => Self::UInt(20),
            };
        }
        if let (ColumnType::Int { unsigned, .. }, Some(digits)) = (column, ty.digits) {
            return if unsigned {
                Self::UInt(digits)
            } else {
                Self::Int(digits)
            };
        }
        let moment = |digits: u8, fsp: u8| match fsp {
            0 => Self::Int(digits),
            fsp => Self::Decimal(digits + fsp, fsp),
        };
        match column {
            ColumnType::Int { bytes, unsigned } => {
                let digits = match (bytes, unsigned) {
                    (1, _) => 3,
                    (2, _) => 5,
                    (3 | 4, _) => 10,
                    (_, false) => 19,
                    (_, true) => 20,
                };
                if unsigned {
                    Self::UInt(digits)
                } else {
                    Self::Int(digits)
                }
            }
            ColumnType::Decimal { precision, scale } => {
                Self::Decimal(precision.min(ColumnType::MAX_PRECISION), scale)
            }
            ColumnType::Year => Self::UInt(5),
            ColumnType::Bit { bits } => Self::UInt(bits::digits(bits)),
            ColumnType::Date => Self::Int(8),
            ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => moment(14, fsp),
            ColumnType::Time { fsp } => moment(7, fsp),
            _ => Self::Double,
        }
    }
}
