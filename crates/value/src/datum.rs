//! A single SQL value.

/// A SQL value outside of a record: a literal, a parsed field, a constant of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// SQL NULL.
    Null,
    /// Signed integers.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// Units of 10^-scale of the type that goes with it.
    Decimal(i128),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00:00.
    DateTime(i64),
    /// CHAR and VARCHAR (UTF-8), or bytes.
    String(Vec<u8>),
    /// Truth value.
    Bool(bool),
}
