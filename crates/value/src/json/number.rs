//! Numbers of JSON values: their kinds, their text, their order.

use std::fmt;

use crate::format_double;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// An integer beyond [`i64::MAX`].
    UInt(u64),
    /// Any other number of a text; finite.
    Double(f64),
    /// The digits of an exact number that is none of the above.
    Decimal(String),
}

impl Number {
    /// The number of a JSON literal; decimals are kept if `exact`. `None` if it is too large.
    pub(super) fn of_literal(text: &str, exact: bool) -> Option<Self> {
        if let Ok(integer) = text.parse::<i64>() {
            return Some(Self::Int(integer));
        }
        if let Ok(integer) = text.parse::<u64>() {
            return Some(Self::UInt(integer));
        }
        let double: f64 = text.parse().ok()?;
        if !double.is_finite() {
            return None;
        }
        let number = Self::Double(double);
        let is_decimal = exact && !text.contains(['e', 'E']) && number.to_string() != text;
        Some(match is_decimal {
            true => Self::Decimal(text.to_owned()),
            false => number,
        })
    }

    /// An exact number by its digits, as SQL writes a DECIMAL.
    ///
    /// # Panics
    /// If it is no number.
    #[must_use]
    pub fn exact(text: &str) -> Self {
        Self::of_literal(text, true).expect("the caller has a decimal")
    }

    /// A double; what is not finite, which no value of SQL is, counts as zero.
    #[must_use]
    pub fn double(value: f64) -> Self {
        Self::Double(if value.is_finite() { value } else { 0.0 })
    }

    /// An unsigned integer.
    #[must_use]
    pub fn unsigned(value: u64) -> Self {
        i64::try_from(value).map_or(Self::UInt(value), Self::Int)
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::Int(v) => *v as f64,
            Self::UInt(v) => *v as f64,
            Self::Double(v) => *v,
            Self::Decimal(digits) => digits.parse().unwrap_or(0.0),
        }
    }

    /// Appends bytes that are ordered as numbers are, and equal for equal numbers of any kind.
    pub(super) fn append_sort_key(&self, out: &mut Vec<u8>) {
        // A double of an integer's size is that integer, not its shortest digits.
        let text = match self {
            Self::Double(v) if v.fract() == 0.0 && v.abs() < INTEGERS => {
                format!("{}", *v as i128)
            }
            other => other.to_string(),
        };
        let Some(Scientific {
            negative,
            exponent,
            digits,
        }) = Scientific::of(&text)
        else {
            out.push(ZERO);
            return;
        };
        let start = out.len();
        out.push(POSITIVE);
        out.extend_from_slice(&exponent.wrapping_add(i32::MIN).to_be_bytes());
        out.extend_from_slice(digits.as_bytes());
        // Below any digit, so that 1 comes before 11.
        out.push(0);
        if negative {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// 2^64.
const INTEGERS: f64 = 18_446_744_073_709_551_616.0;

/// First byte of zero's sort key.
const ZERO: u8 = 0x80;

/// First byte of a positive number's sort key; a negative one's is its complement.
const POSITIVE: u8 = 0xc0;

/// A number that is not zero: its digits, without zeros at either end, and the power of ten of the
/// first one.
struct Scientific {
    negative: bool,
    exponent: i32,
    digits: String,
}

impl Scientific {
    fn of(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let leading = all.len() - digits.len();
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() {
            return None;
        }
        let place = whole.len() as i32 - 1 - leading as i32;
        Some(Self {
            negative,
            exponent: place.saturating_add(power.parse().unwrap_or(0)),
            digits: digits.to_owned(),
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
            Self::UInt(v) => write!(f, "{v}"),
            Self::Double(v) => {
                let mut text = String::new();
                format_double(*v, &mut text);
                // What looks like an integer would become one.
                if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
                    text.push_str(".0");
                }
                f.write_str(&text)
            }
            Self::Decimal(digits) => f.write_str(digits),
        }
    }
}
