//! Exact decimals: an `i128` of units of 10^-scale. Checked operations; rounding is half away from
//! zero everywhere, as in MySQL. Decimals of more than 38 digits are [`Units`](crate::Units).

use crate::text::number::Number;

/// Greatest precision of the decimals here: what 128 bits hold. Wide ones have more.
pub const MAX_PRECISION: u8 = 38;

/// Powers of ten that an `i128` holds.
pub const POW10: [i128; 39] = {
    let mut table = [1; 39];
    let mut i = 1;
    while i < 39 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// 10^n.
///
/// # Panics
/// If `n` is above 38.
#[inline]
#[must_use]
pub const fn pow10(n: u8) -> i128 {
    POW10[n as usize]
}

/// True if `units` has at most `precision` digits.
///
/// # Panics
/// If `precision` is above 38.
#[inline]
#[must_use]
pub const fn fits(units: i128, precision: u8) -> bool {
    units.unsigned_abs() < POW10[precision as usize] as u128
}

/// Number of decimal digits of `units`, at least 1.
#[must_use]
pub fn digits(units: i128) -> u8 {
    let magnitude = units.unsigned_abs();
    POW10
        .iter()
        .skip(1)
        .take_while(|power| magnitude >= **power as u128)
        .count() as u8
        + 1
}

/// `a / b` rounded half away from zero; `None` if `b` is zero or the quotient does not fit.
#[inline]
#[must_use]
pub fn divide_round(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let rest = (a % b).unsigned_abs();
    // rest >= |b| / 2, without overflow.
    if rest >= b.unsigned_abs() - rest {
        quotient.checked_add(if (a < 0) == (b < 0) { 1 } else { -1 })
    } else {
        Some(quotient)
    }
}

/// The same number in units of 10^-`to` instead of 10^-`from`; `None` if it does not fit 128 bits.
///
/// # Panics
/// If the scales are more than 38 apart.
#[inline]
#[must_use]
pub fn rescale(units: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from {
        units.checked_mul(pow10(to - from))
    } else {
        divide_round(units, pow10(from - to))
    }
}

/// `a * b / 10^drop`, rounded; `None` if it does not fit 128 bits. `drop` is what the scales of
/// the factors have together beyond the scale of the product.
///
/// # Panics
/// If `drop` is above 38.
#[inline]
#[must_use]
pub fn multiply(a: i128, b: i128, drop: u8) -> Option<i128> {
    match a.checked_mul(b) {
        Some(product) if drop == 0 => Some(product),
        Some(product) => divide_round(product, pow10(drop)),
        None if drop == 0 => None,
        None => multiply_divide(a, b, pow10(drop), Rounding::HalfAway),
    }
}

/// `a / b` in units of 10^-`scale`, as MySQL divides numbers of the scales `scales`: the quotient
/// is cut off after [`quotient_digits`] digits and then rounded. `None` if `b` is zero or it does
/// not fit 128 bits.
///
/// # Panics
/// If `scale` is below that of `a`, or `scale` and that of `b` exceed that of `a` by more than 38.
#[inline]
#[must_use]
pub fn divide(a: i128, b: i128, scales: (u8, u8), scale: u8) -> Option<i128> {
    if scales.0 > scales.1 + scale {
        // The dividend has more digits than are asked for.
        let cut = shift_divide(a, b, scales.1, Rounding::Cut)?;
        return rescale(cut, scales.0, scale);
    }
    let digits = quotient_digits(scales.0, scales.1);
    if scale < digits {
        // Cutting off further behind does not change the rounding.
        shift_divide(a, b, scales.1 + scale - scales.0, Rounding::HalfAway)
    } else {
        let shift = scales.1 + digits - scales.0;
        shift_divide(a, b, shift, Rounding::Cut)?.checked_mul(pow10(scale - digits))
    }
}

/// Digits behind the point to which MySQL computes a quotient: it keeps decimals in groups of nine
/// digits, and adds groups until there are four digits more than both scales. So a dividend with
/// 5, 14 or 23 of them divided by an integer has a result that is cut off, not rounded.
#[must_use]
pub const fn quotient_digits(dividend: u8, divisor: u8) -> u8 {
    const GROUP: u8 = 9;
    const MORE: u8 = 4;
    let grouped = dividend.next_multiple_of(GROUP) + divisor.next_multiple_of(GROUP);
    let spare = grouped - dividend - divisor;
    (grouped + MORE.saturating_sub(spare)).next_multiple_of(GROUP)
}

/// What happens to the digits that do not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    HalfAway,
    Cut,
}

/// `a * 10^shift / b`.
fn shift_divide(a: i128, b: i128, shift: u8, rounding: Rounding) -> Option<i128> {
    match a.checked_mul(pow10(shift)) {
        Some(scaled) if rounding == Rounding::HalfAway => divide_round(scaled, b),
        Some(scaled) => scaled.checked_div(b),
        None => multiply_divide(a, pow10(shift), b, rounding),
    }
}

/// `a * b / c` with a 256-bit product.
fn multiply_divide(a: i128, b: i128, c: i128, rounding: Rounding) -> Option<i128> {
    if c == 0 {
        return None;
    }
    let negative = (a < 0) ^ (b < 0) ^ (c < 0);
    let divisor = c.unsigned_abs();
    let (high, low) = multiply_wide(a.unsigned_abs(), b.unsigned_abs());
    // The quotient fits 128 bits only if the high half is below the divisor.
    if high >= divisor {
        return None;
    }
    let (mut rest, mut quotient) = (high, 0u128);
    for bit in (0..128).rev() {
        let carry = rest >> 127 == 1;
        rest = rest << 1 | low >> bit & 1;
        quotient <<= 1;
        if carry || rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    if rounding == Rounding::HalfAway && rest >= divisor - rest {
        quotient = quotient.checked_add(1)?;
    }
    if negative {
        0i128.checked_sub_unsigned(quotient)
    } else {
        i128::try_from(quotient).ok()
    }
}

/// High and low half of a 256-bit product, from four products of 64-bit halves.
fn multiply_wide(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let middle2 = a0 * b1 + (middle & LOW);
    (
        a1 * b1 + (middle >> 64) + (middle2 >> 64),
        middle2 << 64 | low & LOW,
    )
}

/// The nearest double.
///
/// # Panics
/// If `scale` is above 38.
#[must_use]
pub fn to_f64(units: i128, scale: u8) -> f64 {
    // Both sides exact, so one correctly rounded division (Clinger's fast path).
    if units.unsigned_abs() < 1 << 53 && scale <= 22 {
        return units as f64 / pow10(scale) as f64;
    }
    let mut text = String::new();
    format(units, scale, &mut text);
    text.parse().expect("a formatted decimal is a number")
}

/// The double in units of 10^-`scale`, rounded from its shortest decimal form as MySQL does;
/// `None` if it is not finite or does not fit 128 bits.
#[must_use]
pub fn from_f64(value: f64, scale: u8) -> Option<i128> {
    if !value.is_finite() {
        return None;
    }
    let text = crate::text::shortest(value);
    Number::scan(text.as_bytes())?.0.to_units(scale)
}

/// Appends the number as MySQL prints it: `scale` digits after the point, a zero before it.
pub fn format(units: i128, scale: u8, out: &mut String) {
    use std::fmt::Write;
    if units < 0 {
        out.push('-');
    }
    let magnitude = units.unsigned_abs();
    let written = if scale == 0 {
        write!(out, "{magnitude}")
    } else {
        let power = POW10[usize::from(scale)] as u128;
        let width = usize::from(scale);
        write!(out, "{}.{:0width$}", magnitude / power, magnitude % power)
    };
    written.expect("writing to a String cannot fail");
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_is_half_away_from_zero() {
        assert_eq!(rescale(125, 2, 1), Some(13));
        assert_eq!(rescale(-125, 2, 1), Some(-13));
        assert_eq!(rescale(124, 2, 1), Some(12));
        assert_eq!(rescale(i128::MAX, 0, 1), None);
        assert_eq!(divide_round(1, 2), Some(1));
        assert_eq!(divide_round(-1, 2), Some(-1));
        assert_eq!(divide_round(1, -3), Some(0));
        assert_eq!(divide_round(i128::MIN, -1), None);
        assert_eq!(divide_round(5, 0), None);
    }

    #[test]
    fn division_keeps_the_asked_scale() {
        assert_eq!(divide(1, 3, (0, 0), 4), Some(3333));
        assert_eq!(divide(200, 3, (2, 0), 6), Some(666_667));
        assert_eq!(divide(POW10[37], 3, (0, 0), 5), None);
        assert_eq!(divide(POW10[37], POW10[20], (0, 2), 8), Some(POW10[27]));
        assert_eq!(divide(5, 0, (0, 0), 4), None);
        assert_eq!(multiply(POW10[30], POW10[30], 30), Some(POW10[30]));
        assert_eq!(multiply(POW10[30], POW10[30], 0), None);
    }

    #[test]
    fn quotients_have_groups_of_nine_digits() {
        assert_eq!(quotient_digits(0, 0), 9);
        assert_eq!(quotient_digits(2, 2), 18);
        assert_eq!(quotient_digits(9, 0), 18);
        // MySQL: 0.00002 / 3 is 0.000006666, 0.0002 / 3 is 0.00006667.
        assert_eq!(
            (quotient_digits(5, 0), divide(2, 3, (5, 0), 9)),
            (9, Some(6666))
        );
        assert_eq!(divide(2, 3, (4, 0), 8), Some(6667));
        assert_eq!(divide(-2, 3, (0, 0), 11), Some(-66_666_666_600));
    }

    #[test]
    fn decimals_print_like_mysql() {
        let text = |units, scale| {
            let mut out = String::new();
            format(units, scale, &mut out);
            out
        };
        assert_eq!(text(-5, 2), "-0.05");
        assert_eq!(text(0, 2), "0.00");
        assert_eq!(text(12345, 2), "123.45");
        assert_eq!(text(-7, 0), "-7");
        assert_eq!(
            text(i128::MIN, 38),
            "-1.70141183460469231731687303715884105728"
        );
    }

    #[test]
    fn doubles_round_by_their_shortest_form() {
        assert_eq!(from_f64(1.005, 2), Some(101));
        assert_eq!(from_f64(-2.5, 0), Some(-3));
        assert_eq!(from_f64(1e20, 0), Some(POW10[20]));
        assert_eq!(from_f64(1e39, 0), None);
        assert_eq!(from_f64(f64::NAN, 0), None);
        assert_eq!(from_f64(1e-40, 5), Some(0));
        assert_eq!(to_f64(1, 1), 0.1);
        assert_eq!(
            to_f64(12_345_678_901_234_567_890_123, 3),
            1.234_567_890_123_456_8e19
        );
    }

    #[test]
    fn digits_count() {
        assert_eq!(
            (digits(0), digits(9), digits(-10), digits(i128::MIN)),
            (1, 1, 2, 39)
        );
    }

    proptest! {
        #[test]
        fn wide_multiply_divide_agrees_with_narrow(a: i64, b: i64, c: i64) {
            let (a, b, c) = (i128::from(a), i128::from(b), i128::from(c));
            let product = a * b;
            let wide = |rounding| multiply_divide(a, b, c, rounding);
            prop_assert_eq!(wide(Rounding::HalfAway), divide_round(product, c));
            prop_assert_eq!(wide(Rounding::Cut), product.checked_div(c));
        }

        #[test]
        fn wide_division_inverts_multiplication(a: i128, b: i128) {
            prop_assume!(b != 0 && a != i128::MIN);
            prop_assert_eq!(multiply_divide(a, b, b, Rounding::HalfAway), Some(a));
        }

        #[test]
        fn double_of_decimal_is_nearest(units: i128, scale in 0u8..=38) {
            let mut text = String::new();
            format(units, scale, &mut text);
            prop_assert_eq!(to_f64(units, scale), text.parse::<f64>().unwrap());
        }
    }
}
