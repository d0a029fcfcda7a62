//! The columns of a result: their SQL types, and the definition packet that describes each to the
//! client. Type code, character set, display length, flags and decimals all follow from the
//! [`SqlType`], so that they cannot contradict each other; they are the values a MySQL server
//! sends for a column of that type.

use bytes::{BufMut, BytesMut};

use crate::codec::{put_lenenc_bytes, put_lenenc_int};
use crate::flags::ColumnFlags;

/// The collation id of bytes that are not text.
pub const BINARY_COLLATION: u16 = 63;

/// `utf8mb4_general_ci`, which every client knows: what text is sent as to a client whose own
/// collation is not one of utf8mb4.
pub const UTF8MB4_GENERAL_CI: u16 = 45;

/// `utf8mb4_bin`.
pub const UTF8MB4_BIN: u16 = 46;

/// `utf8mb4_0900_ai_ci`, the default of MySQL 8.
pub const UTF8MB4_0900_AI_CI: u16 = 255;

/// Decimals of a floating-point number that is shown with as many digits as it needs.
pub const NOT_FIXED_DECIMALS: u8 = 31;

/// Bytes of the longest character of utf8mb4.
const MAX_CHAR_BYTES: u32 = 4;

/// True if `collation` is one of utf8mb4's.
#[must_use]
pub fn is_utf8mb4(collation: u16) -> bool {
    matches!(collation, 45 | 46 | 224..=247 | 255..=323)
}

/// A MySQL type with what its metadata needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    /// NULL without a type.
    Null,
    /// One byte.
    TinyInt {
        /// No negative numbers.
        unsigned: bool,
    },
    /// Two bytes.
    SmallInt {
        /// No negative numbers.
        unsigned: bool,
    },
    /// Three bytes.
    MediumInt {
        /// No negative numbers.
        unsigned: bool,
    },
    /// Four bytes.
    Int {
        /// No negative numbers.
        unsigned: bool,
    },
    /// Eight bytes.
    BigInt {
        /// No negative numbers.
        unsigned: bool,
    },
    /// Four bytes IEEE 754; shown with six significant digits.
    Float,
    /// Eight bytes IEEE 754; shown with the fewest digits that name it.
    Double,
    /// Exact decimal number.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
        /// No negative numbers.
        unsigned: bool,
    },
    /// A day.
    Date,
    /// Day and time without a zone.
    DateTime {
        /// Digits of the fraction of a second, 0 to 6.
        fsp: u8,
    },
    /// Day and time in the session's zone.
    Timestamp {
        /// Digits of the fraction of a second, 0 to 6.
        fsp: u8,
    },
    /// A span of time, -838:59:59 to 838:59:59.
    Time {
        /// Digits of the fraction of a second, 0 to 6.
        fsp: u8,
    },
    /// A year of four digits.
    Year,
    /// Text of fixed length.
    Char {
        /// Length in characters.
        chars: u32,
    },
    /// One of some texts.
    Enum {
        /// Length of the longest in characters.
        chars: u32,
    },
    /// Any of some texts, with commas between.
    Set {
        /// Length of all of them in characters.
        chars: u32,
    },
    /// Text of varying length.
    VarChar {
        /// Greatest length in characters.
        chars: u32,
    },
    /// Long text.
    Text {
        /// Greatest length in bytes.
        bytes: u32,
    },
    /// Bytes of fixed length.
    Binary {
        /// Length in bytes.
        bytes: u32,
    },
    /// Bytes of varying length.
    VarBinary {
        /// Greatest length in bytes.
        bytes: u32,
    },
    /// Many bytes.
    Blob {
        /// Greatest length in bytes.
        bytes: u32,
    },
    /// A JSON document, as text.
    Json,
    /// A bit string.
    Bit {
        /// Number of bits, 1 to 64.
        width: u8,
    },
}

/// The code of a type on the wire. TINYBLOB, MEDIUMBLOB and LONGBLOB are sent as BLOB, as MySQL
/// does; the length tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TypeCode {
    /// TINYINT.
    Tiny = 1,
    /// SMALLINT.
    Short = 2,
    /// INT.
    Long = 3,
    /// FLOAT.
    Float = 4,
    /// DOUBLE.
    Double = 5,
    /// NULL.
    Null = 6,
    /// TIMESTAMP.
    Timestamp = 7,
    /// BIGINT.
    LongLong = 8,
    /// MEDIUMINT.
    Int24 = 9,
    /// DATE.
    Date = 10,
    /// TIME.
    Time = 11,
    /// DATETIME.
    DateTime = 12,
    /// YEAR.
    Year = 13,
    /// BIT.
    Bit = 16,
    /// JSON.
    Json = 245,
    /// DECIMAL.
    NewDecimal = 246,
    /// TEXT and BLOB.
    Blob = 252,
    /// VARCHAR and VARBINARY.
    VarString = 253,
    /// CHAR and BINARY.
    String = 254,
}

impl SqlType {
    /// The type's code on the wire.
    #[must_use]
    pub fn code(self) -> TypeCode {
        match self {
            Self::Null => TypeCode::Null,
            Self::TinyInt { .. } => TypeCode::Tiny,
            Self::SmallInt { .. } => TypeCode::Short,
            Self::MediumInt { .. } => TypeCode::Int24,
            Self::Int { .. } => TypeCode::Long,
            Self::BigInt { .. } => TypeCode::LongLong,
            Self::Float => TypeCode::Float,
            Self::Double => TypeCode::Double,
            Self::Decimal { .. } => TypeCode::NewDecimal,
            Self::Date => TypeCode::Date,
            Self::DateTime { .. } => TypeCode::DateTime,
            Self::Timestamp { .. } => TypeCode::Timestamp,
            Self::Time { .. } => TypeCode::Time,
            Self::Year => TypeCode::Year,
            Self::Char { .. } | Self::Binary { .. } | Self::Enum { .. } | Self::Set { .. } => {
                TypeCode::String
            }
            Self::VarChar { .. } | Self::VarBinary { .. } => TypeCode::VarString,
            Self::Text { .. } | Self::Blob { .. } => TypeCode::Blob,
            Self::Json => TypeCode::Json,
            Self::Bit { .. } => TypeCode::Bit,
        }
    }

    /// True if values are text in a character set.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Self::Char { .. }
                | Self::VarChar { .. }
                | Self::Text { .. }
                | Self::Enum { .. }
                | Self::Set { .. }
        )
    }

    /// Greatest length of a value as text: characters for numbers and times, bytes for the rest.
    #[must_use]
    pub fn display_length(self) -> u32 {
        let signed = |unsigned: bool, digits: u32| digits + u32::from(!unsigned);
        let fraction = |fsp: u8| if fsp == 0 { 0 } else { 1 + u32::from(fsp) };
        match self {
            Self::Null => 0,
            Self::TinyInt { unsigned } => signed(unsigned, 3),
            Self::SmallInt { unsigned } => signed(unsigned, 5),
            Self::MediumInt { unsigned } => {
                if unsigned {
                    8
                } else {
                    9
                }
            }
            Self::Int { unsigned } => signed(unsigned, 10),
            Self::BigInt { .. } => 20,
            Self::Float => 12,
            Self::Double => 22,
            Self::Decimal {
                precision,
                scale,
                unsigned,
            } => signed(unsigned, u32::from(precision)) + u32::from(scale > 0),
            Self::Date => 10,
            Self::DateTime { fsp } | Self::Timestamp { fsp } => 19 + fraction(fsp),
            Self::Time { fsp } => 10 + fraction(fsp),
            Self::Year => 4,
            Self::Char { chars }
            | Self::VarChar { chars }
            | Self::Enum { chars }
            | Self::Set { chars } => chars.saturating_mul(MAX_CHAR_BYTES),
            Self::Text { bytes } => bytes.saturating_mul(MAX_CHAR_BYTES),
            Self::Binary { bytes } | Self::VarBinary { bytes } | Self::Blob { bytes } => bytes,
            Self::Json => u32::MAX,
            Self::Bit { width } => u32::from(width),
        }
    }

    /// Digits behind the point or of the fraction of a second.
    #[must_use]
    pub fn decimals(self) -> u8 {
        match self {
            Self::Float | Self::Double => NOT_FIXED_DECIMALS,
            Self::Decimal { scale, .. } => scale,
            Self::DateTime { fsp } | Self::Timestamp { fsp } | Self::Time { fsp } => fsp,
            _ => 0,
        }
    }

    /// The flags every column of the type has.
    #[must_use]
    pub fn flags(self) -> ColumnFlags {
        match self {
            Self::TinyInt { unsigned }
            | Self::SmallInt { unsigned }
            | Self::MediumInt { unsigned }
            | Self::Int { unsigned }
            | Self::BigInt { unsigned }
            | Self::Decimal { unsigned, .. } => {
                ColumnFlags::NONE.with_if(unsigned, ColumnFlags::UNSIGNED)
            }
            Self::Float | Self::Double => ColumnFlags::NONE,
            Self::Bit { .. } => ColumnFlags::UNSIGNED,
            Self::Year => ColumnFlags::UNSIGNED.with(ColumnFlags::ZEROFILL),
            // The only collation compares bytes, so text has the flag too.
            Self::Text { .. } | Self::Blob { .. } | Self::Json => {
                ColumnFlags::BLOB.with(ColumnFlags::BINARY)
            }
            Self::Enum { .. } => ColumnFlags::ENUM.with(ColumnFlags::BINARY),
            Self::Set { .. } => ColumnFlags::SET.with(ColumnFlags::BINARY),
            _ => ColumnFlags::BINARY,
        }
    }
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Database of the table; empty for an expression.
    pub schema: String,
    /// Table as the statement names it; empty for an expression.
    pub table: String,
    /// Table as the catalog names it; empty for an expression.
    pub org_table: String,
    /// The name the result shows.
    pub name: String,
    /// Column as the catalog names it; empty for an expression.
    pub org_name: String,
    /// Type of the values.
    pub sql_type: SqlType,
    /// Flags besides those of the type: keys, NOT NULL, AUTO_INCREMENT.
    pub flags: ColumnFlags,
    /// The length to report instead of the type's, for example 1 for a truth value.
    pub display_length: Option<u32>,
    /// Digits behind the point of a `FLOAT(M,D)` or `DOUBLE(M,D)`; ignored for other types.
    pub fixed_decimals: Option<u8>,
}

impl Column {
    /// A column that belongs to no table.
    #[must_use]
    pub fn expression(name: impl Into<String>, sql_type: SqlType) -> Self {
        Self {
            schema: String::new(),
            table: String::new(),
            org_table: String::new(),
            name: name.into(),
            org_name: String::new(),
            sql_type,
            flags: ColumnFlags::NONE,
            display_length: None,
            fixed_decimals: None,
        }
    }

    /// The column `name` of the table `schema`.`table`, shown under its own names.
    #[must_use]
    pub fn of_table(schema: &str, table: &str, name: &str, sql_type: SqlType) -> Self {
        Self {
            schema: schema.to_owned(),
            table: table.to_owned(),
            org_table: table.to_owned(),
            org_name: name.to_owned(),
            ..Self::expression(name, sql_type)
        }
    }

    /// The column with more flags.
    #[must_use]
    pub fn with_flags(mut self, flags: ColumnFlags) -> Self {
        self.flags = self.flags.with(flags);
        self
    }

    /// Digits behind the point, as the definition reports them.
    #[must_use]
    pub fn decimals(&self) -> u8 {
        match (self.sql_type, self.fixed_decimals) {
            (SqlType::Float | SqlType::Double, Some(digits)) => digits,
            (sql_type, _) => sql_type.decimals(),
        }
    }

    /// Appends the payload of the definition packet. Text is described in `text_collation`, the
    /// collation of the client.
    pub(crate) fn encode(&self, text_collation: u16, out: &mut BytesMut) {
        put_lenenc_bytes(out, b"def");
        for name in [
            &self.schema,
            &self.table,
            &self.org_table,
            &self.name,
            &self.org_name,
        ] {
            put_lenenc_bytes(out, name.as_bytes());
        }
        put_lenenc_int(out, 12); // bytes that follow
        // As MySQL has it, JSON is binary in a table's column and a text in an expression.
        let is_text = match self.sql_type {
            SqlType::Json => self.org_table.is_empty(),
            ty => ty.is_text(),
        };
        out.put_u16_le(if is_text {
            text_collation
        } else {
            BINARY_COLLATION
        });
        out.put_u32_le(
            self.display_length
                .unwrap_or(self.sql_type.display_length()),
        );
        out.put_u8(self.sql_type.code() as u8);
        out.put_u16_le(self.sql_type.flags().with(self.flags).0);
        out.put_u8(self.decimals());
        out.put_u16_le(0);
    }
}

#[cfg(test)]
mod tests;
