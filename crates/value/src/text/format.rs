//! Value to text, as MySQL's text protocol shows it.

use std::fmt::Write;

use crate::{ColumnType, ValueRef, date, decimal, time};

/// Positions of the decimal point beyond which MySQL writes an exponent (its `DBL_DIG`).
const MAX_POINT: i32 = 15;

/// Significant digits of a FLOAT (C's `FLT_DIG`).
const FLOAT_DIGITS: usize = 6;

/// Appends the text of a value of type `ty`; NULL appends nothing. Strings must be UTF-8 (others
/// are shown with replacement characters).
pub fn format_value(ty: ColumnType, value: ValueRef<'_>, out: &mut String) {
    let written = match value {
        ValueRef::Null => Ok(()),
        ValueRef::Int(v) => write!(out, "{v}"),
        ValueRef::UInt(v) if ty == ColumnType::Year => write!(out, "{v:04}"),
        ValueRef::UInt(v) => write!(out, "{v}"),
        ValueRef::Bool(v) => write!(out, "{}", u8::from(v)),
        ValueRef::Decimal(v) => {
            decimal::format(v, ty.scale(), out);
            Ok(())
        }
        ValueRef::Wide(v) => {
            v.units().format(ty.scale(), out);
            Ok(())
        }
        ValueRef::Double(v) => {
            if ty == ColumnType::Float {
                format_float(v, out);
            } else {
                format_double(v, out);
            }
            Ok(())
        }
        ValueRef::Date(v) => {
            date::format_day(v, out);
            Ok(())
        }
        ValueRef::DateTime(v) => {
            date::format_micros(v, ty.fsp().unwrap_or(0), out);
            Ok(())
        }
        ValueRef::Time(v) => {
            time::format_time(v, ty.fsp().unwrap_or(0), out);
            Ok(())
        }
        // A value is fetched before it is shown.
        ValueRef::Overflow(v) => write!(out, "({} bytes in chain {})", v.len, v.chain),
        ValueRef::String(v) => {
            out.push_str(&String::from_utf8_lossy(v));
            Ok(())
        }
    };
    written.expect("writing to a String cannot fail");
}

/// Appends a DOUBLE: the shortest digits that read back as the same number; an exponent if the
/// point lies more than 15 places away and no digit behind it.
pub fn format_double(value: f64, out: &mut String) {
    place_point(&shortest(value), out);
}

/// The shortest `d.ddde±x` that reads back as `value`. Where two of them are equally near, it is
/// the one with the even last digit, as C's `dtoa` gives it; Rust's shortest form is the greater.
pub(crate) fn shortest(value: f64) -> String {
    let text = format!("{value:e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    // A halfway case has a digit more than a double can have.
    if digits < 16 {
        return text;
    }
    // Rust's rounding to a number of digits is half to even.
    let rounded = format!("{value:.*e}", digits - 1);
    if rounded.parse() == Ok(value) {
        rounded
    } else {
        text
    }
}

/// Appends a FLOAT: six significant digits.
pub fn format_float(value: f64, out: &mut String) {
    let digits = FLOAT_DIGITS - 1;
    place_point(&format!("{value:.digits$e}"), out);
}

/// Rewrites Rust's `d.ddde±x`.
fn place_point(scientific: &str, out: &mut String) {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        // Not finite; no SQL value is.
        out.push_str(scientific);
        return;
    };
    let exponent: i32 = exponent.parse().expect("Rust writes an integer after e");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let mut digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    digits.truncate(digits.trim_end_matches('0').len().max(1));
    out.push_str(sign);
    let point = exponent + 1;
    let len = digits.len() as i32;
    if digits == "0" {
        out.push('0');
    } else if point < -MAX_POINT + 1 || (point > MAX_POINT && point >= len) {
        out.push_str(&digits[..1]);
        if len > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        write!(out, "e{exponent}").expect("writing to a String cannot fail");
    } else if point <= 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
        out.push_str(&digits);
    } else if point >= len {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', (point - len) as usize));
    } else {
        out.push_str(&digits[..point as usize]);
        out.push('.');
        out.push_str(&digits[point as usize..]);
    }
}
