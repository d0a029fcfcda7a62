//! Operators and functions over 64 bits.

use super::Kind::{Bits, Int};
use super::{BYTES, Call, Function, INT, UINT, Value};

/// An operator of two operands.
macro_rules! operator {
    ($name:literal, $about:literal, $compute:expr) => {
        Function::new(&[$name], (2, 2), &[Bits], UINT, $about, |c| {
            let compute: fn(u64, u64) -> u64 = $compute;
            Ok(Value::UInt(compute(c.bits(0), c.bits(1))))
        })
    };
}

pub(super) static FUNCTIONS: &[Function] = &[
    operator!("&", "Bits that both have.", |a, b| a & b),
    operator!("|", "Bits that one has.", |a, b| a | b),
    operator!("^", "Bits that one of both has.", |a, b| a ^ b),
    operator!("<<", "Bits moved to the left.", |a, by| shifted(by)
        .map_or(0, |by| a << by)),
    operator!(">>", "Bits moved to the right.", |a, by| shifted(by)
        .map_or(0, |by| a >> by)),
    Function::new(
        &["~"],
        (1, 1),
        &[Bits],
        UINT,
        "The bits that are not set.",
        |c: &Call<'_>| Ok(Value::UInt(!c.bits(0))),
    ),
    Function::new(
        &["bit_count"],
        (1, 1),
        &[Bits],
        INT,
        "How many bits are set.",
        |c| Ok(Value::Int(i64::from(c.bits(0).count_ones()))),
    ),
    Function::new(
        &["bits as bytes"],
        (2, 2),
        &[Bits, Int],
        BYTES,
        "So many of the lowest bytes of 64 bits, as BIT columns are strings.",
        |c| {
            let width = usize::try_from(c.int(1)).unwrap_or(0).min(8);
            Ok(Value::bytes(c.bits(0).to_be_bytes()[8 - width..].to_vec()))
        },
    ),
];

/// How far bits move, if any of them is left.
fn shifted(by: u64) -> Option<u32> {
    u32::try_from(by).ok().filter(|by| *by < u64::BITS)
}
