//! Types of results of arithmetic: what is shown of them, and what is computed with.
//!
//! MySQL computes a quotient to whole groups of nine digits after the decimal point and shows four more than the
//! dividend has. What computes with it (arithmetic, CAST, ROUND) takes all of its digits, everything else what is
//! shown.

use perigee_sql_type::{LONGEST_DECIMAL, Number};
use perigee_value::{ColumnType, decimal};

use crate::Arithmetic;

/// Most digits after the decimal point that are computed and not shown: two groups, as MySQL has them of quotients of
/// integers by quotients.
const MOST_UNROUNDED: u8 = 18;

/// The type of `left op right`.
#[must_use]
pub fn arithmetic_type(op: Arithmetic, left: Number, right: Number) -> Number {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply, Subtract};
    use Number::{Decimal, Double, Int, UInt};
    let unsigned = matches!(left, UInt(_)) || (matches!(right, UInt(_)) && op != Modulo);
    let integer = if unsigned { UInt(20) } else { Int(19) };
    if op == IntDivide {
        return integer;
    }
    let (Some((p1, s1)), Some((p2, s2))) = (left.exact(), right.exact()) else {
        return Double;
    };
    let decimals = matches!(left, Decimal(..)) || matches!(right, Decimal(..));
    let (precision, scale) = match op {
        Add | Subtract | Multiply | Modulo if !decimals => return integer,
        Add | Subtract => ((p1 - s1).max(p2 - s2) + s1.max(s2) + 1, s1.max(s2)),
        Multiply => (p1 + p2, s1 + s2),
        Modulo => ((p1 - s1).max(p2 - s2) + s1.max(s2), s1.max(s2)),
        Divide | IntDivide => (p1 + s2 + 4, s1 + 4),
    };
    let scale = scale.min(Number::MAX_SCALE);
    let most = Number::most_digits(p1.max(p2));
    Decimal(precision.clamp(scale.max(1), most), scale)
}

/// The type with all digits that MySQL computes of `left op right`, of which `shown` may be rounded; `None` if it has
/// no more of them. A quotient has whole groups of nine digits after the point, so that `10/3*3` is 10; products and
/// sums of such have theirs.
#[must_use]
pub fn unrounded_type(
    op: Arithmetic,
    left: Number,
    right: Number,
    shown: Number,
) -> Option<Number> {
    let Number::Decimal(p, s) = shown else {
        return None;
    };
    let ((p1, s1), (_, s2)) = (left.exact()?, right.exact()?);
    let (digits, scale) = match op {
        Arithmetic::Divide => {
            // What is divided must have its digits in 256 bits, and what it is multiplied by in 128.
            let most = LONGEST_DECIMAL.saturating_sub(p1 + s2) + s1;
            let most = most.min((decimal::MAX_PRECISION + s1).saturating_sub(s2));
            (p - s, decimal::quotient_digits(s1, s2).min(most))
        }
        _ => match arithmetic_type(op, left, right) {
            Number::Decimal(p, s) => (p - s, s),
            _ => return None,
        },
    };
    let scale = scale
        .min(MOST_UNROUNDED)
        .min(ColumnType::MAX_PRECISION - digits);
    (scale > s).then_some(Number::Decimal(digits + scale, scale))
}
