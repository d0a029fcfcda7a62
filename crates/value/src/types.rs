//! SQL column types.

/// Collation of a string column: MySQL's collation number, kept in catalog, keys and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collation(pub u16);

impl Collation {
    /// `utf8mb4_bin`: code point order, PAD SPACE (trailing spaces do not count).
    pub const UTF8MB4_BIN: Self = Self(46);
    /// `binary`: byte order, no padding.
    pub const BINARY: Self = Self(63);
}

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
    /// DECIMAL(precision, scale), precision at most 38.
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
}
