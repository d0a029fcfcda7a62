//! What interpreter and JIT have in common: evaluating a program over many records of one page.

use crate::Type;

/// Values of one expression over a run of records, one lane per record.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// The lanes; a NULL lane holds zero or an empty string.
    pub lanes: Lanes,
    /// One byte per lane, 1 = not NULL; `None` if no lane is NULL.
    pub valid: Option<Vec<u8>>,
}

/// Physical form of a vector, given by the expression's type ([`Lanes::for_type`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Lanes {
    /// Int, Bool (0 or 1), Date, DateTime, and Decimal of at most 18 digits.
    I64(Vec<i64>),
    /// UInt.
    U64(Vec<u64>),
    /// Decimal of more than 18 digits.
    I128(Vec<i128>),
    /// Double.
    F64(Vec<f64>),
    /// String: lane `i` is `data[ends[i - 1]..ends[i]]`.
    Bytes {
        /// End of each lane in `data`.
        ends: Vec<u32>,
        /// All strings, one after the other.
        data: Vec<u8>,
    },
}

impl Lanes {
    /// Empty lanes of the form that values of `ty` take.
    #[must_use]
    pub fn for_type(ty: Type) -> Self {
        match ty {
            Type::Decimal { precision, .. } if precision > 18 => Self::I128(Vec::new()),
            Type::Bool | Type::Int | Type::Date | Type::DateTime | Type::Decimal { .. } => {
                Self::I64(Vec::new())
            }
            Type::UInt => Self::U64(Vec::new()),
            Type::Double => Self::F64(Vec::new()),
            Type::String => Self::Bytes { ends: Vec::new(), data: Vec::new() },
        }
    }
}

/// A program bound to a record layout, ready to run over records of a page.
///
/// `base` is a page or a single record; `records` are offsets of records in it. The caller
/// guarantees that each offset begins a record that the layout's shape accepts
/// (`RecordShape::record_len`), which verified pages give.
pub trait Evaluator: Send + Sync {
    /// For a Bool program: appends to `pass` the offsets of records for which it is true, in
    /// order, and to `failed` those whose evaluation is an error (overflow, range).
    fn filter(&self, base: &[u8], records: &[u16], pass: &mut Vec<u16>, failed: &mut Vec<u16>);

    /// Appends one lane per record to `out`, and to `failed` the positions (in `records`) whose
    /// evaluation is an error; their lanes are NULL.
    fn evaluate(&self, base: &[u8], records: &[u16], out: &mut Vector, failed: &mut Vec<u32>);

    /// Type of the program's value.
    fn result_type(&self) -> Type;
}
