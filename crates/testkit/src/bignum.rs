//! Integers of any length, slowly: sign and decimal digits, least significant first.

use std::cmp::Ordering;
use std::fmt;

/// A whole number, to compare arithmetic with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Big {
    negative: bool,
    digits: Vec<u8>,
}

impl Big {
    /// A number of 128 bits.
    #[must_use]
    pub fn new(value: i128) -> Self {
        let digits = value
            .unsigned_abs()
            .to_string()
            .bytes()
            .rev()
            .map(|b| b - b'0')
            .collect();
        Self {
            negative: value < 0,
            digits,
        }
        .trimmed()
    }

    /// The number that the digits of a text are, perhaps behind a minus.
    #[must_use]
    pub fn of_digits(text: &str) -> Self {
        let digits = text.bytes().rev().filter(u8::is_ascii_digit);
        Self {
            negative: text.starts_with('-'),
            digits: digits.map(|b| b - b'0').collect(),
        }
        .trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        self.negative &= !self.digits.is_empty();
        self
    }

    /// True for zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Number of digits; zero has none.
    #[must_use]
    pub fn digit_count(&self) -> usize {
        self.digits.len()
    }

    /// The value, if it fits.
    #[must_use]
    pub fn to_i128(&self) -> Option<i128> {
        let text: String = self
            .digits
            .iter()
            .rev()
            .map(|d| char::from(d + b'0'))
            .collect();
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}0{text}").parse().ok()
    }

    /// With so many zeros behind it.
    #[must_use]
    pub fn shifted(&self, zeros: usize) -> Self {
        let mut digits = vec![0; zeros];
        digits.extend(&self.digits);
        Self {
            negative: self.negative,
            digits,
        }
        .trimmed()
    }

    /// With the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self {
            negative: !self.negative,
            digits: self.digits.clone(),
        }
        .trimmed()
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        let by_length = self.digits.len().cmp(&other.digits.len());
        by_length.then_with(|| self.digits.iter().rev().cmp(other.digits.iter().rev()))
    }

    fn add_magnitude(&self, other: &Self) -> Vec<u8> {
        let mut digits = Vec::new();
        let mut carry = 0;
        for i in 0..=self.digits.len().max(other.digits.len()) {
            let sum = self.digits.get(i).unwrap_or(&0) + other.digits.get(i).unwrap_or(&0) + carry;
            digits.push(sum % 10);
            carry = sum / 10;
        }
        digits
    }

    /// |self| - |other|, where |self| is not smaller.
    fn subtract_magnitude(&self, other: &Self) -> Vec<u8> {
        let mut digits = Vec::new();
        let mut borrow = 0;
        for (i, digit) in self.digits.iter().enumerate() {
            let minus = other.digits.get(i).unwrap_or(&0) + borrow;
            borrow = u8::from(*digit < minus);
            digits.push(digit + 10 * borrow - minus);
        }
        digits
    }

    /// The digits, with a point before the last `scale` of them and a zero before it.
    #[must_use]
    pub fn with_point(&self, scale: usize) -> String {
        let digits = self.digits.iter().rev().map(|d| char::from(d + b'0'));
        let digits: String = digits.collect();
        let mut text = format!("{digits:0>width$}", width = scale + 1);
        if scale > 0 {
            text.insert(text.len() - scale, '.');
        }
        if self.negative {
            text.insert(0, '-');
        }
        text
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (negative, digits) = if self.negative == other.negative {
            (self.negative, self.add_magnitude(other))
        } else if self.compare_magnitude(other) == Ordering::Less {
            (other.negative, other.subtract_magnitude(self))
        } else {
            (self.negative, self.subtract_magnitude(other))
        };
        Self { negative, digits }.trimmed()
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let mut sum = Self::new(0);
        for (place, digit) in other.digits.iter().enumerate() {
            for _ in 0..*digit {
                let shifted = self.shifted(place);
                sum = Self {
                    negative: false,
                    digits: sum.add_magnitude(&shifted),
                }
                .trimmed();
            }
        }
        Self {
            negative: self.negative != other.negative,
            digits: sum.digits,
        }
        .trimmed()
    }

    /// Quotient towards zero and remainder with the sign of `self`: long division.
    #[must_use]
    pub fn divided(&self, divisor: &Self) -> (Self, Self) {
        let mut rest = Self::new(0);
        let mut quotient = vec![0; self.digits.len()];
        for (place, digit) in self.digits.iter().enumerate().rev() {
            rest = rest.shifted(1).plus(&Self::new(i128::from(*digit)));
            while rest.compare_magnitude(divisor) != Ordering::Less {
                rest = Self {
                    negative: false,
                    digits: rest.subtract_magnitude(divisor),
                }
                .trimmed();
                quotient[place] += 1;
            }
        }
        rest.negative = self.negative;
        let negative = self.negative != divisor.negative;
        (
            Self {
                negative,
                digits: quotient,
            }
            .trimmed(),
            rest.trimmed(),
        )
    }

    /// Quotient rounded half away from zero.
    #[must_use]
    pub fn divided_round(&self, divisor: &Self) -> Self {
        let (quotient, rest) = self.divided(divisor);
        let twice = rest.plus(&rest);
        if twice.compare_magnitude(divisor) == Ordering::Less {
            return quotient;
        }
        let away = if self.negative != divisor.negative {
            -1
        } else {
            1
        };
        quotient.plus(&Self::new(away))
    }

    /// From units of 10^-from to units of 10^-to.
    #[must_use]
    pub fn rescaled(&self, from: u8, to: u8) -> Self {
        if to >= from {
            self.shifted(usize::from(to - from))
        } else {
            self.divided_round(&Self::new(1).shifted(usize::from(from - to)))
        }
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
            (negative, _) => (!negative).cmp(&negative),
        }
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Big {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_point(0))
    }
}
