//! Exact numbers beyond 128 bits, while they are computed with: whole numbers of up to 512 bits,
//! which products and shifted dividends of decimals of 65 digits fit. The operations are those of
//! [`decimal`](crate::decimal), with the same rounding.
//!
//! Decimals of up to 38 digits never come here, so that what is here is simple rather than fast.

use std::cmp::Ordering;
use std::fmt;

use crate::decimal::quotient_digits;
use crate::text::number::Number;
use crate::{Wide, decimal};

/// Limbs of a magnitude.
const LIMBS: usize = 8;

/// A magnitude, least significant limb first.
type Magnitude = [u64; LIMBS];

/// Greatest power of ten in [`POW10`]: the digits that 512 bits hold.
const MAX_POWER: usize = 154;

/// Powers of ten.
static POW10: [Magnitude; MAX_POWER + 1] = {
    let mut table = [[0; LIMBS]; MAX_POWER + 1];
    table[0][0] = 1;
    let mut power = 1;
    while power <= MAX_POWER {
        let mut carry = 0;
        let mut limb = 0;
        while limb < LIMBS {
            let product = table[power - 1][limb] as u128 * 10 + carry;
            table[power][limb] = product as u64;
            carry = product >> 64;
            limb += 1;
        }
        assert!(carry == 0, "the table ends where 512 bits do");
        power += 1;
    }
    table
};

/// A whole number of up to 512 bits. Zero is not negative.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Units {
    negative: bool,
    magnitude: Magnitude,
}

impl Units {
    /// Zero.
    pub const ZERO: Self = Self {
        negative: false,
        magnitude: [0; LIMBS],
    };

    fn new(negative: bool, magnitude: Magnitude) -> Self {
        let zero = magnitude == [0; LIMBS];
        Self {
            negative: negative && !zero,
            magnitude,
        }
    }

    /// 10^n; `None` if it is too long.
    #[must_use]
    pub fn pow10(n: usize) -> Option<Self> {
        Some(Self::new(false, *POW10.get(n)?))
    }

    /// A 256-bit integer: two's complement, little-endian.
    #[must_use]
    pub fn from_le_bytes(bytes: [u8; 32]) -> Self {
        let negative = bytes[31] & 0x80 != 0;
        let mut magnitude = [0; LIMBS];
        for (limb, bytes) in magnitude.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        if negative {
            negate(&mut magnitude[..4]);
        }
        Self::new(negative, magnitude)
    }

    /// The same as a 256-bit integer; `None` if it does not fit.
    #[must_use]
    pub fn to_le_bytes(self) -> Option<[u8; 32]> {
        let mut low = [0; 4];
        low.copy_from_slice(&self.magnitude[..4]);
        let short = self.magnitude[4..] == [0; 4] && low[3] >> 63 == 0;
        if self.negative {
            negate(&mut low);
        }
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(low) {
            *bytes = limb.to_le_bytes();
        }
        short.then_some(bytes)
    }

    /// As an `i128`; `None` if it does not fit.
    #[must_use]
    pub fn to_i128(self) -> Option<i128> {
        let [low, high, rest @ ..] = self.magnitude;
        let magnitude = u128::from(high) << 64 | u128::from(low);
        if rest != [0; LIMBS - 2] {
            None
        } else if self.negative {
            0i128.checked_sub_unsigned(magnitude)
        } else {
            i128::try_from(magnitude).ok()
        }
    }

    /// As a value of a wide decimal of so many digits; `None` if it has more.
    #[must_use]
    pub fn to_wide(self, precision: u8) -> Option<Wide> {
        if !self.fits(precision) {
            return None;
        }
        Wide::from_le_bytes(self.to_le_bytes()?)
    }

    /// True if it has at most `precision` digits.
    #[must_use]
    pub fn fits(self, precision: u8) -> bool {
        let bound = POW10.get(usize::from(precision));
        bound.is_none_or(|bound| compare(&self.magnitude, bound).is_lt())
    }

    /// True below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.negative
    }

    /// True for zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// The same without sign.
    #[must_use]
    pub fn abs(self) -> Self {
        Self::new(false, self.magnitude)
    }

    /// The sum; `None` if it is too long.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        if self.negative == other.negative {
            return Some(Self::new(
                self.negative,
                sum(&self.magnitude, &other.magnitude)?,
            ));
        }
        let (a, b) = (&self.magnitude, &other.magnitude);
        Some(match compare(a, b) {
            Ordering::Less => Self::new(other.negative, difference(b, a)),
            _ => Self::new(self.negative, difference(a, b)),
        })
    }

    /// The difference; `None` if it is too long.
    #[must_use]
    pub fn minus(self, other: Self) -> Option<Self> {
        self.plus(-other)
    }

    /// `self * other / 10^drop`, rounded; `None` if the product is too long.
    #[must_use]
    pub fn times(self, other: Self, drop: u8) -> Option<Self> {
        let product = Self::new(
            self.negative != other.negative,
            product(&self.magnitude, &other.magnitude)?,
        );
        product.rescale(drop, 0)
    }

    /// `self / other` in units of 10^-`scale`, as [`decimal::divide`]; `None` if `other` is zero or
    /// it is too long.
    #[must_use]
    pub fn divide(self, other: Self, scales: (u8, u8), scale: u8) -> Option<Self> {
        if scales.0 > scales.1 + scale {
            // The dividend has more digits than are asked for.
            let cut = self.rescale(0, scales.1)?.quotient(other)?;
            return cut.rescale(scales.0, scale);
        }
        let digits = quotient_digits(scales.0, scales.1);
        if scale < digits {
            // Cutting off further behind does not change the rounding.
            let shift = scales.1 + scale - scales.0;
            return self.rescale(0, shift)?.divide_round(other);
        }
        let cut = self.rescale(0, scales.1 + digits - scales.0)?;
        cut.quotient(other)?.rescale(0, scale - digits)
    }

    /// The quotient, cut off; `None` for division by zero.
    #[must_use]
    pub fn quotient(self, other: Self) -> Option<Self> {
        let (quotient, _) = divide(&self.magnitude, &other.magnitude)?;
        Some(Self::new(self.negative != other.negative, quotient))
    }

    /// The remainder, with the sign of the dividend; `None` for division by zero.
    #[must_use]
    pub fn remainder(self, other: Self) -> Option<Self> {
        let (_, rest) = divide(&self.magnitude, &other.magnitude)?;
        Some(Self::new(self.negative, rest))
    }

    /// The quotient rounded half away from zero; `None` for division by zero.
    #[must_use]
    pub fn divide_round(self, other: Self) -> Option<Self> {
        let (mut quotient, rest) = divide(&self.magnitude, &other.magnitude)?;
        // rest >= |other| / 2, without overflow.
        if compare(&rest, &difference(&other.magnitude, &rest)).is_ge() {
            quotient = sum(&quotient, &POW10[0])?;
        }
        Some(Self::new(self.negative != other.negative, quotient))
    }

    /// The same number in units of 10^-`to` instead of 10^-`from`, rounded; `None` if it is too
    /// long.
    #[must_use]
    pub fn rescale(self, from: u8, to: u8) -> Option<Self> {
        let power = Self::pow10(usize::from(from.abs_diff(to)))?;
        match to.cmp(&from) {
            Ordering::Equal => Some(self),
            Ordering::Less => self.divide_round(power),
            Ordering::Greater => {
                let magnitude = product(&self.magnitude, &power.magnitude)?;
                Some(Self::new(self.negative, magnitude))
            }
        }
    }

    /// Ten times the magnitude and a digit behind it, with the same sign; `None` if it is too long.
    pub(crate) fn times_ten_plus(self, digit: u8) -> Option<Self> {
        let mut magnitude = self.magnitude;
        let carry = multiply_small(&mut magnitude, 10, u64::from(digit));
        (carry == 0).then_some(Self::new(self.negative, magnitude))
    }

    /// Appends the number as MySQL prints it: `scale` digits after the point, a zero before it.
    pub fn format(self, scale: u8, out: &mut String) {
        let (digits, scale) = (self.abs().to_string(), usize::from(scale));
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (before, after) = digits.split_at(digits.len() - scale);
        out.push_str(if self.negative { "-" } else { "" });
        out.push_str(before);
        if scale > 0 {
            out.push('.');
            out.push_str(after);
        }
    }

    /// The nearest double of the number of units of 10^-`scale`.
    #[must_use]
    pub fn to_f64(self, scale: u8) -> f64 {
        let mut text = String::new();
        self.format(scale, &mut text);
        text.parse().expect("a formatted decimal is a number")
    }

    /// The double in units of 10^-`scale`, rounded from its shortest decimal form; `None` if it is
    /// not finite or too long.
    #[must_use]
    pub fn from_f64(value: f64, scale: u8) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let text = crate::text::shortest(value);
        Number::scan(text.as_bytes())?.0.to_units(scale)
    }
}

impl From<i128> for Units {
    fn from(value: i128) -> Self {
        let magnitude = value.unsigned_abs();
        let mut limbs = [0; LIMBS];
        limbs[0] = magnitude as u64;
        limbs[1] = (magnitude >> 64) as u64;
        Self::new(value < 0, limbs)
    }
}

impl std::ops::Neg for Units {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(!self.negative, self.magnitude)
    }
}

impl Ord for Units {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => compare(&self.magnitude, &other.magnitude),
            (true, true) => compare(&other.magnitude, &self.magnitude),
            (negative, _) => (!negative).cmp(&negative),
        }
    }
}

impl PartialOrd for Units {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As many digits at a time as a limb holds.
        const GROUP: usize = 19;
        let group = decimal::POW10[GROUP] as u64;
        let mut rest = self.magnitude;
        let mut groups = Vec::new();
        while rest != [0; LIMBS] {
            groups.push(divide_small(&mut rest, group));
        }
        let first = groups.pop().unwrap_or(0).to_string();
        let others = groups.iter().rev().map(|group| format!("{group:0GROUP$}"));
        f.pad_integral(!self.negative, "", &(first + &others.collect::<String>()))
    }
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn compare(a: &Magnitude, b: &Magnitude) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

/// Two's complement in place.
fn negate(limbs: &mut [u64]) {
    let mut carry = true;
    for limb in limbs {
        (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
    }
}

fn sum(a: &Magnitude, b: &Magnitude) -> Option<Magnitude> {
    let (mut out, mut carry) = ([0; LIMBS], 0);
    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
        let sum = u128::from(*a) + u128::from(*b) + carry;
        *out = sum as u64;
        carry = sum >> 64;
    }
    (carry == 0).then_some(out)
}

/// `a - b`, modulo 2^512 where `b` is greater.
fn difference(a: &Magnitude, b: &Magnitude) -> Magnitude {
    let (mut out, mut borrow) = ([0; LIMBS], false);
    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
        let (first, less) = a.overflowing_sub(*b);
        let (second, still_less) = first.overflowing_sub(u64::from(borrow));
        *out = second;
        borrow = less || still_less;
    }
    out
}

fn product(a: &Magnitude, b: &Magnitude) -> Option<Magnitude> {
    let mut out = [0; LIMBS];
    for (i, a) in a.iter().enumerate().filter(|(_, a)| **a != 0) {
        let mut carry = 0;
        for (j, b) in b.iter().enumerate() {
            let Some(out) = out.get_mut(i + j) else {
                // Beyond the end there may be zeros only.
                if *b != 0 || carry != 0 {
                    return None;
                }
                continue;
            };
            let sum = u128::from(*a) * u128::from(*b) + u128::from(*out) + carry;
            *out = sum as u64;
            carry = sum >> 64;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(out)
}

/// Multiplies by a limb and adds another; gives what does not fit.
fn multiply_small(limbs: &mut Magnitude, factor: u64, addend: u64) -> u64 {
    let mut carry = u128::from(addend);
    for limb in limbs {
        let sum = u128::from(*limb) * u128::from(factor) + carry;
        *limb = sum as u64;
        carry = sum >> 64;
    }
    carry as u64
}

/// Divides by a limb that is not zero; gives the remainder.
fn divide_small(limbs: &mut Magnitude, divisor: u64) -> u64 {
    let mut rest = 0;
    for limb in limbs.iter_mut().rev() {
        let dividend = u128::from(rest) << 64 | u128::from(*limb);
        *limb = (dividend / u128::from(divisor)) as u64;
        rest = (dividend % u128::from(divisor)) as u64;
    }
    rest
}

/// Quotient and remainder, bit by bit; `None` for division by zero.
fn divide(dividend: &Magnitude, divisor: &Magnitude) -> Option<(Magnitude, Magnitude)> {
    let (mut quotient, mut rest) = ([0; LIMBS], [0; LIMBS]);
    if divisor[1..] == [0; LIMBS - 1] {
        quotient = *dividend;
        rest[0] = match divisor[0] {
            0 => return None,
            small => divide_small(&mut quotient, small),
        };
        return Some((quotient, rest));
    }
    let bits = 64
        * dividend
            .iter()
            .rposition(|limb| *limb != 0)
            .map_or(0, |top| top + 1);
    for bit in (0..bits).rev() {
        // The bit that leaves at the top counts, too: a divisor may have all 512 bits.
        let high = rest[LIMBS - 1] >> 63;
        let next = dividend[bit / 64] >> (bit % 64) & 1;
        multiply_small(&mut rest, 2, next);
        if high == 1 || compare(&rest, divisor).is_ge() {
            rest = difference(&rest, divisor);
            quotient[bit / 64] |= 1 << (bit % 64);
        }
    }
    Some((quotient, rest))
}
