//! What compiled code calls: the operations that it does not do inline, by the very functions that
//! the interpreter uses (`perigee_expr::operations`, `perigee_value`).
//!
//! A helper never unwinds into compiled code: what it calls is total over its types (E2), and a
//! panic in an `extern "C"` function aborts. Pointers come from `Constants` and live as long as the
//! code; strings come from the record after the bounds check of `compile::column`.

use std::slice;

use perigee_expr::{Arithmetic, Type, operations};
use perigee_value::{Collation, LikePattern, ValueRef, string};

/// Status of a helper: there is a value.
const VALUE: u64 = 0;
/// Status of a helper: the result is NULL.
pub(crate) const NULL: u64 = 1;
/// Status of a helper: the evaluation is an error.
pub(crate) const ERROR: u64 = 2;

/// An arithmetic operation: operator, types of the operands, type of the result.
pub(crate) struct Operation {
    pub op: Arithmetic,
    pub operands: (Type, Type),
    pub ty: Type,
}

/// A conversion.
pub(crate) struct Conversion {
    pub from: Type,
    pub to: Type,
}

/// A number as two registers.
#[derive(Clone, Copy)]
struct Halves {
    low: u64,
    high: u64,
}

impl Halves {
    fn value(self, ty: Type) -> ValueRef<'static> {
        let wide = u128::from(self.high) << 64 | u128::from(self.low);
        match ty {
            Type::Bool => ValueRef::Bool(self.low != 0),
            Type::Int => ValueRef::Int(self.low as i64),
            Type::UInt => ValueRef::UInt(self.low),
            Type::Decimal { .. } => ValueRef::Decimal(wide as i128),
            Type::Double => ValueRef::Double(f64::from_bits(self.low)),
            Type::Date => ValueRef::Date(self.low as i32),
            Type::DateTime => ValueRef::DateTime(self.low as i64),
            Type::Time => ValueRef::Time(self.low as i64),
            Type::String | Type::Collated(_) => panic!("J2: a string is not a number"),
        }
    }
}

/// Leaves the result's 16 bytes in `out` and gives the status.
fn give(outcome: operations::Outcome<'_>, out: &mut i128) -> u64 {
    *out = match outcome {
        Err(_) => return ERROR,
        Ok(ValueRef::Null) => return NULL,
        Ok(ValueRef::Bool(v)) => i128::from(v),
        Ok(ValueRef::Int(v) | ValueRef::DateTime(v) | ValueRef::Time(v)) => i128::from(v),
        Ok(ValueRef::UInt(v)) => i128::from(v),
        Ok(ValueRef::Decimal(v)) => v,
        Ok(ValueRef::Double(v)) => i128::from(v.to_bits()),
        Ok(ValueRef::Date(v)) => i128::from(v),
        Ok(ValueRef::Wide(_) | ValueRef::String(_) | ValueRef::Overflow(_)) => {
            panic!("J2: no operation on numbers gives a string or more than 128 bits")
        }
    };
    VALUE
}

/// An arithmetic operation on two numbers that are not NULL.
pub(crate) extern "C" fn arithmetic(
    a_low: u64,
    a_high: u64,
    b_low: u64,
    b_high: u64,
    operation: &Operation,
    out: &mut i128,
) -> u64 {
    let a = Halves {
        low: a_low,
        high: a_high,
    }
    .value(operation.operands.0);
    let b = Halves {
        low: b_low,
        high: b_high,
    }
    .value(operation.operands.1);
    give(
        operations::arithmetic(operation.op, a, b, operation.operands, operation.ty),
        out,
    )
}

/// A conversion of a number that is not NULL.
pub(crate) extern "C" fn cast(low: u64, high: u64, conversion: &Conversion, out: &mut i128) -> u64 {
    let value = Halves { low, high }.value(conversion.from);
    give(operations::cast(value, conversion.from, conversion.to), out)
}

/// The bytes of a string in registers.
///
/// # Safety
/// `start` and `len` describe bytes that stay readable and unchanged during the call.
unsafe fn text<'a>(start: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: by this function's contract.
    unsafe { slice::from_raw_parts(start, len) }
}

/// Compares with PAD SPACE: below, at or above 0.
///
/// # Safety
/// As [`text`], for both strings.
pub(crate) unsafe extern "C" fn compare_strings(
    a: *const u8,
    a_len: usize,
    b: *const u8,
    b_len: usize,
) -> i64 {
    // SAFETY: by this function's contract.
    let (a, b) = unsafe { (text(a, a_len), text(b, b_len)) };
    string::compare(a, b) as i64
}

/// Compares as the collation with this number: below, at or above 0.
///
/// # Safety
/// As [`text`], for both strings.
pub(crate) unsafe extern "C" fn compare_collated(
    a: *const u8,
    a_len: usize,
    b: *const u8,
    b_len: usize,
    collation: u64,
) -> i64 {
    // SAFETY: by this function's contract.
    let (a, b) = unsafe { (text(a, a_len), text(b, b_len)) };
    Collation(collation as u16).compare(a, b) as i64
}

/// 1 if all bytes are spaces.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe extern "C" fn is_blank(start: *const u8, len: usize) -> u64 {
    // SAFETY: by this function's contract.
    u64::from(unsafe { text(start, len) }.iter().all(|byte| *byte == b' '))
}

/// 1 if `a` and `b` are the same bytes.
///
/// # Safety
/// As [`text`], for both strings.
pub(crate) unsafe extern "C" fn same_bytes(a: *const u8, b: *const u8, len: usize) -> u64 {
    // SAFETY: by this function's contract.
    u64::from(unsafe { text(a, len) == text(b, len) })
}

/// 1 if the string is LIKE the pattern.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe extern "C" fn like(pattern: &LikePattern, start: *const u8, len: usize) -> u64 {
    // SAFETY: by this function's contract.
    u64::from(pattern.matches(unsafe { text(start, len) }))
}

/// SUBSTRING: leaves address and length in `out`.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe extern "C" fn substring(
    start: *const u8,
    len: usize,
    first: i64,
    length: i64,
    out: &mut [usize; 2],
) {
    // SAFETY: by this function's contract.
    let part = string::substring(unsafe { text(start, len) }, first, Some(length));
    // An empty part may lie anywhere; inside the string its address is always valid.
    *out = if part.is_empty() {
        [start.addr(), 0]
    } else {
        [part.as_ptr().addr(), part.len()]
    };
}

/// 1 if the string is in the list, which is sorted as [`string::compare`] says.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe extern "C" fn in_strings(
    list: &Vec<Box<[u8]>>,
    start: *const u8,
    len: usize,
) -> u64 {
    // SAFETY: by this function's contract.
    let wanted = unsafe { text(start, len) };
    u64::from(
        list.binary_search_by(|item| string::compare(item, wanted))
            .is_ok(),
    )
}

/// Strings in the order of a collation.
pub(crate) struct CollatedList {
    pub strings: Vec<Box<[u8]>>,
    pub collation: Collation,
}

/// 1 if the string is in the list.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe extern "C" fn in_collated(
    list: &CollatedList,
    start: *const u8,
    len: usize,
) -> u64 {
    // SAFETY: by this function's contract.
    let wanted = unsafe { text(start, len) };
    u64::from(
        list.strings
            .binary_search_by(|item| list.collation.compare(item, wanted))
            .is_ok(),
    )
}

/// 1 if the number is in the ascending list.
pub(crate) extern "C" fn in_numbers(list: &Vec<i64>, number: i64) -> u64 {
    u64::from(list.binary_search(&number).is_ok())
}

/// 1 if the number is in the ascending list.
pub(crate) extern "C" fn in_wide_numbers(list: &Vec<i128>, low: u64, high: u64) -> u64 {
    let number = (u128::from(high) << 64 | u128::from(low)) as i128;
    u64::from(list.binary_search(&number).is_ok())
}

/// 1 if the number is in the ascending list.
pub(crate) extern "C" fn in_doubles(list: &Vec<f64>, bits: u64) -> u64 {
    let number = f64::from_bits(bits);
    let found = list.binary_search_by(|item| {
        operations::order(ValueRef::Double(*item), ValueRef::Double(number))
    });
    u64::from(found.is_ok())
}
