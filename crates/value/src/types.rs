//! SQL column types: widths, names, wire form.

use std::fmt;

use perigee_types::{DecodeError, Reader, Writer};

use crate::date::{ZERO_MICROS, is_stored_micros};
use crate::{Collation, Wide, bits, decimal};

/// Type of a column, with MySQL's meaning. Stored widths are in `docs/format/row.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT: `bytes` is 1, 2, 3, 4 or 8.
    Int {
        /// MySQL's width in bytes.
        bytes: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// DECIMAL(precision, scale). Above 38 digits it is a *wide* decimal, whose values are
    /// [`Wide`] instead of `i128`.
    Decimal {
        /// Decimal digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DATE: days since 1970-01-01, year 1 to 9999; no zero dates.
    Date,
    /// DATETIME(fsp): microseconds since 1970-01-01, no time zone.
    DateTime {
        /// Digits of fractional seconds, 0 to 6.
        fsp: u8,
    },
    /// TIMESTAMP(fsp): microseconds since 1970-01-01 in UTC, 1970 to 2038; sessions see them in their time zones.
    Timestamp {
        /// Digits of fractional seconds, 0 to 6.
        fsp: u8,
    },
    /// TIME(fsp): microseconds, which may be negative or more than a day has.
    Time {
        /// Digits of fractional seconds, 0 to 6.
        fsp: u8,
    },
    /// YEAR: 1901 to 2155, and 0.
    Year,
    /// BIT(bits): an unsigned integer of so many bits, see [`bits`].
    Bit {
        /// 1 to 64.
        bits: u8,
    },
    /// CHAR(n): trailing spaces are not stored.
    Char {
        /// Greatest length in characters.
        chars: u16,
        /// Order and equality.
        collation: Collation,
    },
    /// VARCHAR(n).
    Varchar {
        /// Greatest length in characters.
        chars: u16,
        /// Order and equality.
        collation: Collation,
    },
    /// TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT and the BLOBs: values that may lie outside of their row.
    Long {
        /// Bytes that say a value's length, 1 to 4: what tells the sizes apart.
        prefix: u8,
        /// Order and equality: `binary` for BLOBs, another one for texts.
        collation: Collation,
    },
    /// JSON: a text in the normal form of [`crate::json`], which may lie outside of its row.
    Json,
}

impl ColumnType {
    /// Greatest precision of a DECIMAL (MySQL's limit).
    pub const MAX_PRECISION: u8 = 65;

    /// Greatest scale of a DECIMAL (MySQL's limit).
    pub const MAX_SCALE: u8 = 30;

    /// Bytes of a stored value, or `None` if its length varies.
    #[must_use]
    pub const fn stored_width(self) -> Option<u16> {
        Some(match self {
            Self::Int { bytes: 3, .. } => 4,
            Self::Int { bytes, .. } => bytes as u16,
            Self::Year => 2,
            Self::Bit { bits: ..=8 } => 1,
            Self::Bit { bits: ..=16 } => 2,
            Self::Bit { bits: ..=32 } => 4,
            Self::Bit { .. } => 8,
            Self::Decimal {
                precision: ..=9, ..
            }
            | Self::Float
            | Self::Date => 4,
            Self::Decimal {
                precision: ..=18, ..
            }
            | Self::Double
            | Self::DateTime { .. }
            | Self::Timestamp { .. }
            | Self::Time { .. } => 8,
            Self::Decimal {
                precision: ..=decimal::MAX_PRECISION,
                ..
            } => 16,
            Self::Decimal { .. } => Wide::WIDTH as u16,
            Self::Char { .. } | Self::Varchar { .. } | Self::Long { .. } | Self::Json => {
                return None;
            }
        })
    }

    /// True for a DECIMAL whose values are [`Wide`]: of more digits than 128 bits hold.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::Decimal { precision, .. } if precision > decimal::MAX_PRECISION)
    }

    /// Digits after the point of a DECIMAL, else 0.
    #[must_use]
    pub const fn scale(self) -> u8 {
        match self {
            Self::Decimal { scale, .. } => scale,
            _ => 0,
        }
    }

    /// True for types whose stored values are unsigned integers.
    #[must_use]
    pub const fn is_unsigned(self) -> bool {
        matches!(
            self,
            Self::Int { unsigned: true, .. } | Self::Year | Self::Bit { .. }
        )
    }

    /// Digits of fractional seconds, of a type that has them.
    #[must_use]
    pub const fn fsp(self) -> Option<u8> {
        match self {
            Self::DateTime { fsp } | Self::Timestamp { fsp } | Self::Time { fsp } => Some(fsp),
            _ => None,
        }
    }

    /// True for TIMESTAMP, whose values are points in time in UTC.
    #[must_use]
    pub const fn is_timestamp(self) -> bool {
        matches!(self, Self::Timestamp { .. })
    }

    /// True for CHAR, VARCHAR, long types and JSON.
    #[must_use]
    pub const fn is_string(self) -> bool {
        self.stored_width().is_none()
    }

    /// True for the types of long values: TEXT, BLOB and their sizes, and JSON.
    #[must_use]
    pub const fn is_long(self) -> bool {
        matches!(self, Self::Long { .. } | Self::Json)
    }

    /// Greatest length in bytes of the values of a long type.
    #[must_use]
    pub const fn greatest_length(self) -> Option<u32> {
        match self {
            Self::Long { prefix, .. } => Some(Self::long_limit(prefix)),
            Self::Json => Some(u32::MAX),
            _ => None,
        }
    }

    /// Greatest length in bytes of the values of a long type with such a prefix.
    #[must_use]
    pub const fn long_limit(prefix: u8) -> u32 {
        u32::MAX >> (32 - 8 * prefix as u32)
    }

    /// Order and equality of a string type.
    #[must_use]
    pub const fn collation(self) -> Option<Collation> {
        match self {
            Self::Char { collation, .. }
            | Self::Varchar { collation, .. }
            | Self::Long { collation, .. } => Some(collation),
            Self::Json => Some(Collation::UTF8MB4_BIN),
            _ => None,
        }
    }

    /// Least and greatest value of an integer type.
    #[must_use]
    pub const fn int_range(bytes: u8, unsigned: bool) -> (i128, i128) {
        let bits = 8 * bytes as u32;
        if unsigned {
            (0, (1 << bits) - 1)
        } else {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        }
    }

    /// Least and greatest point in time of TIMESTAMP.
    const TIMESTAMPS: (i64, i64) = (1_000_000, (1 << 31) * 1_000_000 - 1);

    /// True for a point in time, in microseconds, that a DATETIME or TIMESTAMP can be.
    #[must_use]
    pub const fn has_micros(self, micros: i64) -> bool {
        match self {
            Self::Timestamp { .. } => {
                let (first, last) = Self::TIMESTAMPS;
                (first <= micros && micros <= last) || micros == ZERO_MICROS
            }
            _ => is_stored_micros(micros),
        }
    }

    /// Says what is wrong with the parameters of the type, if anything is.
    pub fn check(self) -> Result<(), &'static str> {
        let known = |c: Collation| c.is_text() || c == Collation::BINARY;
        match self {
            Self::Int {
                bytes: 1 | 2 | 3 | 4 | 8,
                ..
            } => Ok(()),
            Self::Int { .. } => Err("integer width is not 1, 2, 3, 4 or 8"),
            Self::Decimal { precision, scale } => {
                if precision == 0 || precision > Self::MAX_PRECISION {
                    Err("decimal precision is not 1 to 65")
                } else if scale > precision || scale > Self::MAX_SCALE {
                    Err("decimal scale exceeds the precision or 30")
                } else {
                    Ok(())
                }
            }
            Self::Bit { bits } if !(1..=bits::MAX_BITS).contains(&bits) => {
                Err("a BIT has not 1 to 64 bits")
            }
            Self::DateTime { fsp: 7.. }
            | Self::Timestamp { fsp: 7.. }
            | Self::Time { fsp: 7.. } => Err("more than 6 digits of fractional seconds"),
            Self::Char { chars, collation } => {
                if chars > 255 {
                    Err("CHAR is longer than 255 characters")
                } else if !collation.is_text() {
                    Err("unknown collation of a CHAR")
                } else {
                    Ok(())
                }
            }
            Self::Varchar { collation, .. } if !known(collation) => {
                Err("unknown collation of a VARCHAR")
            }
            Self::Long { prefix, .. } if !(1..=4).contains(&prefix) => {
                Err("the length of a TEXT or BLOB is not of 1 to 4 bytes")
            }
            Self::Long { collation, .. } if !known(collation) => {
                Err("unknown collation of a TEXT or BLOB")
            }
            _ => Ok(()),
        }
    }

    /// Appends the wire form: a tag and the parameters.
    pub fn encode(self, w: &mut Writer) {
        match self {
            Self::Int { bytes, unsigned } => w.u8(1).u8(bytes).u8(u8::from(unsigned)),
            Self::Decimal { precision, scale } => w.u8(2).u8(precision).u8(scale),
            Self::Float => w.u8(3),
            Self::Double => w.u8(4),
            Self::Date => w.u8(5),
            Self::DateTime { fsp } => w.u8(6).u8(fsp),
            Self::Char { chars, collation } => w.u8(7).u16(chars).u16(collation.0),
            Self::Varchar { chars, collation } => w.u8(8).u16(chars).u16(collation.0),
            Self::Long { prefix, collation } => w.u8(9).u8(prefix).u16(collation.0),
            Self::Timestamp { fsp } => w.u8(10).u8(fsp),
            Self::Time { fsp } => w.u8(11).u8(fsp),
            Self::Year => w.u8(12),
            Self::Json => w.u8(13),
            Self::Bit { bits } => w.u8(14).u8(bits),
        };
    }

    /// Reads what [`ColumnType::encode`] wrote and checks the parameters.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let ty = match r.u8()? {
            1 => Self::Int {
                bytes: r.u8()?,
                unsigned: match r.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::new("column type: sign")),
                },
            },
            2 => Self::Decimal {
                precision: r.u8()?,
                scale: r.u8()?,
            },
            3 => Self::Float,
            4 => Self::Double,
            5 => Self::Date,
            6 => Self::DateTime { fsp: r.u8()? },
            7 => Self::Char {
                chars: r.u16()?,
                collation: Collation(r.u16()?),
            },
            8 => Self::Varchar {
                chars: r.u16()?,
                collation: Collation(r.u16()?),
            },
            9 => Self::Long {
                prefix: r.u8()?,
                collation: Collation(r.u16()?),
            },
            10 => Self::Timestamp { fsp: r.u8()? },
            11 => Self::Time { fsp: r.u8()? },
            12 => Self::Year,
            13 => Self::Json,
            14 => Self::Bit { bits: r.u8()? },
            _ => return Err(DecodeError::new("column type: tag")),
        };
        ty.check().map_err(DecodeError::new)?;
        Ok(ty)
    }
}

impl fmt::Display for ColumnType {
    /// The type as SHOW CREATE TABLE writes it, without collation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int { bytes, unsigned } => {
                f.write_str(match bytes {
                    1 => "tinyint",
                    2 => "smallint",
                    3 => "mediumint",
                    4 => "int",
                    _ => "bigint",
                })?;
                f.write_str(if *unsigned { " unsigned" } else { "" })
            }
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Float => f.write_str("float"),
            Self::Double => f.write_str("double"),
            Self::Date => f.write_str("date"),
            Self::DateTime { fsp: 0 } => f.write_str("datetime"),
            Self::DateTime { fsp } => write!(f, "datetime({fsp})"),
            Self::Timestamp { fsp: 0 } => f.write_str("timestamp"),
            Self::Timestamp { fsp } => write!(f, "timestamp({fsp})"),
            Self::Time { fsp: 0 } => f.write_str("time"),
            Self::Time { fsp } => write!(f, "time({fsp})"),
            Self::Year => f.write_str("year"),
            Self::Bit { bits } => write!(f, "bit({bits})"),
            Self::Json => f.write_str("json"),
            Self::Char { chars, .. } => write!(f, "char({chars})"),
            Self::Varchar {
                chars,
                collation: Collation::BINARY,
            } => {
                write!(f, "varbinary({chars})")
            }
            Self::Varchar { chars, .. } => write!(f, "varchar({chars})"),
            Self::Long { prefix, collation } => {
                f.write_str(match prefix {
                    1 => "tiny",
                    2 => "",
                    3 => "medium",
                    _ => "long",
                })?;
                f.write_str(match *collation {
                    Collation::BINARY => "blob",
                    _ => "text",
                })
            }
        }
    }
}
