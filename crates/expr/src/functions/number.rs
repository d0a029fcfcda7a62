//! Mathematical functions of DOUBLEs.

use std::f64::consts::PI;

use super::Kind::Double;
use super::{Call, DOUBLE, Function, Outcome, Value};

/// A function of one DOUBLE whose result is NULL where it has none.
macro_rules! of_double {
    ($name:literal, $about:literal, $compute:expr) => {
        Function::new(&[$name], (1, 1), &[Double], DOUBLE, $about, |c| {
            let compute: fn(f64) -> f64 = $compute;
            Ok(finite(compute(c.double(0))))
        })
    };
}

pub(super) static FUNCTIONS: &[Function] = &[
    of_double!("sqrt", "The square root.", f64::sqrt),
    Function::new(
        &["exp"],
        (1, 1),
        &[Double],
        DOUBLE,
        "e to the power of a number.",
        |c| c.checked(c.double(0).exp()),
    ),
    of_double!("ln", "The natural logarithm.", f64::ln),
    of_double!("log2", "The logarithm to base 2.", f64::log2),
    of_double!("log10", "The logarithm to base 10.", f64::log10),
    Function::new(
        &["log"],
        (1, 2),
        &[Double],
        DOUBLE,
        "The natural logarithm, or that to a base, which comes first.",
        log,
    ),
    Function::new(
        &["power", "pow"],
        (2, 2),
        &[Double],
        DOUBLE,
        "A number to the power of another one.",
        |c| c.checked(c.double(0).powf(c.double(1))),
    ),
    Function::new(&["pi"], (0, 0), &[], DOUBLE, "π.", |_| {
        Ok(Value::Double(PI))
    }),
    of_double!("sin", "The sine.", f64::sin),
    of_double!("cos", "The cosine.", f64::cos),
    of_double!("tan", "The tangent.", f64::tan),
    Function::new(&["cot"], (1, 1), &[Double], DOUBLE, "The cotangent.", |c| {
        c.checked(1.0 / c.double(0).tan())
    }),
    of_double!("asin", "The arc sine; NULL outside of -1 to 1.", f64::asin),
    of_double!(
        "acos",
        "The arc cosine; NULL outside of -1 to 1.",
        f64::acos
    ),
    Function::new(
        &["atan", "atan2"],
        (1, 2),
        &[Double],
        DOUBLE,
        "The arc tangent, or that of a quotient of two numbers.",
        |c| {
            Ok(Value::Double(match c.has(1) {
                true => c.double(0).atan2(c.double(1)),
                false => c.double(0).atan(),
            }))
        },
    ),
    Function::new(
        &["degrees"],
        (1, 1),
        &[Double],
        DOUBLE,
        "Radians as degrees.",
        |c| c.checked(c.double(0) * (180.0 / PI)),
    ),
    Function::new(
        &["radians"],
        (1, 1),
        &[Double],
        DOUBLE,
        "Degrees as radians.",
        |c| c.checked(c.double(0) * (PI / 180.0)),
    ),
];

fn finite<'a>(value: f64) -> Value<'a> {
    match value.is_finite() {
        true => Value::Double(value),
        false => Value::Null,
    }
}

fn log<'a>(c: &Call<'a>) -> Outcome<'a> {
    if !c.has(1) {
        return Ok(finite(c.double(0).ln()));
    }
    let (base, value) = (c.double(0), c.double(1));
    if base <= 0.0 || base == 1.0 || value <= 0.0 {
        return Ok(Value::Null);
    }
    Ok(finite(value.ln() / base.ln()))
}

/// The number a text begins with, as MySQL converts strings: 0 if there is none.
#[must_use]
pub fn leading_number(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes[from..].iter();
        rest.take_while(|b| b.is_ascii_digit()).count()
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let before = digits(sign);
    let mut end = sign + before;
    let mut after = 0;
    if bytes.get(end) == Some(&b'.') {
        after = digits(end + 1);
        end += 1 + after;
    }
    if before + after == 0 {
        return 0.0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    text[..end].parse().unwrap_or(0.0)
}
