//! Scanning decimal numbers out of text.

use std::ops::Neg;

use crate::Units;

/// A number as written: sign, digits before and after the point, exponent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<'a> {
    negative: bool,
    before: &'a [u8],
    after: &'a [u8],
    exponent: i64,
}

/// An exponent that moves every digit that fits a line of text beyond any type's range.
const GREAT_EXPONENT: i64 = 1 << 40;

impl<'a> Number<'a> {
    /// Reads the longest number that `text` begins with; gives it and its length, or `None` if
    /// there is no digit.
    pub(crate) fn scan(text: &'a [u8]) -> Option<(Self, usize)> {
        let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
        let before = digits(&text[sign..]);
        let mut end = sign + before.len();
        let mut after: &[u8] = &[];
        if text.get(end) == Some(&b'.') {
            after = digits(&text[end + 1..]);
            end += 1 + after.len();
        }
        if before.is_empty() && after.is_empty() {
            return None;
        }
        let mut exponent = 0;
        if let Some((value, len)) = scan_exponent(&text[end..]) {
            exponent = value;
            end += len;
        }
        Some((
            Self {
                negative: text[0] == b'-',
                before,
                after,
                exponent,
            },
            end,
        ))
    }

    /// The number in units of 10^-`scale`, rounded half away from zero; `None` if it is too long for
    /// `T`.
    pub(crate) fn to_units<T: Whole>(self, scale: u8) -> Option<T> {
        let digits = self
            .before
            .iter()
            .chain(self.after)
            .map(|digit| digit - b'0');
        let count = (self.before.len() + self.after.len()) as i64;
        // Digits to the left of the unit's own place, that is how many of them count.
        let kept = self.before.len() as i64 + self.exponent + i64::from(scale);
        let mut units = T::ZERO;
        for digit in digits.clone().take(kept.clamp(0, count) as usize) {
            units = units.append(digit)?;
        }
        if units != T::ZERO {
            // Ends soon, because a number that is not zero becomes too long.
            for _ in count..kept {
                units = units.append(0)?;
            }
        }
        if (0..count).contains(&kept) && digits.clone().nth(kept as usize) >= Some(5) {
            units = units.add_one()?;
        }
        Some(if self.negative { -units } else { units })
    }
}

/// A number that digits are put behind. None is negative until it is negated.
pub(crate) trait Whole: Copy + PartialEq + Neg<Output = Self> {
    const ZERO: Self;

    /// With another digit behind it; `None` if it is too long.
    fn append(self, digit: u8) -> Option<Self>;

    /// `None` if it is too long.
    fn add_one(self) -> Option<Self>;
}

impl Whole for i128 {
    const ZERO: Self = 0;

    fn append(self, digit: u8) -> Option<Self> {
        self.checked_mul(10)?.checked_add(digit.into())
    }

    fn add_one(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Whole for Units {
    const ZERO: Self = Self::ZERO;

    fn append(self, digit: u8) -> Option<Self> {
        self.times_ten_plus(digit)
    }

    fn add_one(self) -> Option<Self> {
        self.plus(1.into())
    }
}

fn digits(text: &[u8]) -> &[u8] {
    let len = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    &text[..len]
}

/// `e`, an optional sign and digits, at the start of `text`.
fn scan_exponent(text: &[u8]) -> Option<(i64, usize)> {
    if !matches!(text.first(), Some(b'e' | b'E')) {
        return None;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    let digits = digits(&text[1 + sign..]);
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits.iter().fold(0, |value, digit| {
        GREAT_EXPONENT.min(value * 10 + i64::from(digit - b'0'))
    });
    let value = if text[1] == b'-' {
        -magnitude
    } else {
        magnitude
    };
    Some((value, 1 + sign + digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str, scale: u8) -> Option<(Option<i128>, usize)> {
        let (number, len) = Number::scan(text.as_bytes())?;
        let (units, long) = (number.to_units(scale), number.to_units::<Units>(scale));
        match units {
            Some(units) => assert_eq!(long, Some(Units::from(units)), "{text}"),
            None => assert!(long.is_none_or(|long| long.to_i128().is_none()), "{text}"),
        }
        Some((units, len))
    }

    #[test]
    fn numbers() {
        assert_eq!(units("12.345", 2), Some((Some(1235), 6)));
        assert_eq!(units("-12.344x", 2), Some((Some(-1234), 7)));
        assert_eq!(units(".5", 0), Some((Some(1), 2)));
        assert_eq!(units("5.", 1), Some((Some(50), 2)));
        assert_eq!(units("1.5e2", 0), Some((Some(150), 5)));
        assert_eq!(units("15e-1", 0), Some((Some(2), 5)));
        assert_eq!(units("15e-2", 0), Some((Some(0), 5)));
        assert_eq!(units("95e-2", 0), Some((Some(1), 5)));
        assert_eq!(units("5e-1", 0), Some((Some(1), 4)));
        assert_eq!(units("5e-2", 0), Some((Some(0), 4)));
        assert_eq!(units("1e", 0), Some((Some(1), 1)));
        assert_eq!(units("1e400", 0), Some((None, 5)));
        assert_eq!(units("0e400", 0), Some((Some(0), 5)));
        assert_eq!(units("1e99999999999999999999", 0), Some((None, 22)));
        assert_eq!(units("1e-99999999999999999999", 5), Some((Some(0), 23)));
        assert_eq!(units("", 0), None);
        assert_eq!(units("-.", 0), None);
        assert_eq!(units("e5", 0), None);
        assert_eq!(units(&"9".repeat(39), 0), Some((None, 39)));
        assert_eq!(units(&"0".repeat(100), 0), Some((Some(0), 100)));
    }
}
