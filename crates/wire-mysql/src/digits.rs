//! Numbers as MySQL writes them, without allocation.
//!
//! - Integers: plain decimal digits.
//! - Decimals: all digits of the scale, `0` before the point where there is no other digit.
//! - DOUBLE: the fewest digits that name the number; FLOAT: at most six significant digits. Both
//!   in plain form if the decimal point lies within 15 places of the first digit or among the
//!   digits, else as `1.5e20`. Zero has no sign.

use std::fmt::{self, Write as _};

/// Room for the longest text made here: a DOUBLE with a fixed number of decimals has up to 309
/// digits before the point and 30 behind it, a sign and the point.
const CAPACITY: usize = 344;

/// A short text on the stack.
pub(crate) struct Digits {
    len: usize,
    bytes: [u8; CAPACITY],
}

impl Digits {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            bytes: [0; CAPACITY],
        }
    }

    /// What was written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Makes room for another number.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends one byte.
    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Appends bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn zeros(&mut self, n: usize) {
        self.bytes[self.len..self.len + n].fill(b'0');
        self.len += n;
    }

    /// Appends an unsigned number.
    pub(crate) fn u64(&mut self, mut v: u64) {
        let mut reversed = [0; 20];
        let mut n = 0;
        loop {
            reversed[n] = b'0' + (v % 10) as u8;
            n += 1;
            v /= 10;
            if v == 0 {
                break;
            }
        }
        for i in 0..n {
            self.bytes[self.len + i] = reversed[n - 1 - i];
        }
        self.len += n;
    }

    /// Appends a signed number.
    pub(crate) fn i64(&mut self, v: i64) {
        if v < 0 {
            self.push(b'-');
        }
        self.u64(v.unsigned_abs());
    }

    /// Appends `v` with at least `width` digits.
    pub(crate) fn padded(&mut self, v: u64, width: usize) {
        let digits = if v == 0 { 1 } else { v.ilog10() as usize + 1 };
        self.zeros(width.saturating_sub(digits));
        self.u64(v);
    }

    /// Appends `unscaled` / 10^`scale`. A negative scale appends zeros.
    pub(crate) fn decimal(&mut self, unscaled: i128, scale: i8) {
        if unscaled < 0 {
            self.push(b'-');
        }
        let start = self.len;
        self.u128(unscaled.unsigned_abs());
        if scale < 0 && unscaled != 0 {
            self.zeros(usize::from(scale.unsigned_abs()));
        } else if scale > 0 {
            self.put_point(start, usize::from(scale.unsigned_abs()));
        }
    }

    /// Appends the decimal whose digits (and sign) are `text`, the unscaled number.
    pub(crate) fn decimal_text(&mut self, text: &str, scale: i8) {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if sign {
            self.push(b'-');
        }
        let start = self.len;
        self.extend(digits.as_bytes());
        if scale < 0 && digits != "0" {
            self.zeros(usize::from(scale.unsigned_abs()));
        } else if scale > 0 {
            self.put_point(start, usize::from(scale.unsigned_abs()));
        }
    }

    fn u128(&mut self, v: u128) {
        const CHUNK: u128 = 10_000_000_000_000_000_000; // greatest power of ten in a u64
        if v < CHUNK {
            return self.u64(v as u64);
        }
        self.u128(v / CHUNK);
        self.padded((v % CHUNK) as u64, 19);
    }

    /// Puts a point before the last `scale` of the digits from `start` on.
    fn put_point(&mut self, start: usize, scale: usize) {
        let digits = self.len - start;
        if digits <= scale {
            let missing = scale + 1 - digits;
            self.bytes.copy_within(start..self.len, start + missing);
            self.bytes[start..start + missing].fill(b'0');
            self.len += missing;
        }
        let point = self.len - scale;
        self.bytes.copy_within(point..self.len, point + 1);
        self.bytes[point] = b'.';
        self.len += 1;
    }

    /// Appends a finite DOUBLE with the fewest digits that name it.
    pub(crate) fn f64(&mut self, v: f64) {
        let mut text = Digits::new();
        write!(text, "{v:e}").expect("the shortest digits of a DOUBLE fit");
        self.real(&text);
    }

    /// Appends a finite FLOAT with at most six significant digits.
    pub(crate) fn f32(&mut self, v: f32) {
        let mut text = Digits::new();
        write!(text, "{:.5e}", f64::from(v)).expect("six digits fit");
        self.real(&text);
    }

    /// Appends a finite number with exactly `decimals` digits behind the point.
    pub(crate) fn fixed(&mut self, v: f64, decimals: u8) {
        let v = if v == 0.0 { 0.0 } else { v };
        write!(self, "{v:.*}", usize::from(decimals.min(30))).expect("309 + 30 digits fit");
    }

    /// Lays out `d.ddde±x` as MySQL does.
    fn real(&mut self, scientific: &Digits) {
        /// Greatest distance of the point from the first digit in plain form (DBL_DIG).
        const MAX_PLAIN: i32 = 15;
        let (sign, digits, exponent) = parts(scientific.as_bytes());
        if digits.as_bytes() == b"0" {
            return self.push(b'0');
        }
        if sign {
            self.push(b'-');
        }
        let digits = digits.as_bytes();
        let len = digits.len() as i32;
        // The number is 0.ddd * 10^point.
        let point = exponent + 1;
        if point < 1 - MAX_PLAIN || (point > MAX_PLAIN && point >= len) {
            self.push(digits[0]);
            if len > 1 {
                self.push(b'.');
                self.extend(&digits[1..]);
            }
            self.push(b'e');
            self.i64(i64::from(exponent));
        } else if point <= 0 {
            self.extend(b"0.");
            self.zeros(point.unsigned_abs() as usize);
            self.extend(digits);
        } else if point >= len {
            self.extend(digits);
            self.zeros((point - len) as usize);
        } else {
            let (whole, fraction) = digits.split_at(point as usize);
            self.extend(whole);
            self.push(b'.');
            self.extend(fraction);
        }
    }
}

/// Sign, digits without trailing zeros and exponent of `-d.ddde-x`.
fn parts(text: &[u8]) -> (bool, Digits, i32) {
    let mut digits = Digits::new();
    let mut exponent = 0;
    let mut exponent_sign = 1;
    let mut in_exponent = false;
    let sign = text.first() == Some(&b'-');
    for byte in &text[usize::from(sign)..] {
        match byte {
            b'.' => {}
            b'e' => in_exponent = true,
            b'-' => exponent_sign = -1,
            digit if in_exponent => exponent = exponent * 10 + i32::from(digit - b'0'),
            digit => digits.push(*digit),
        }
    }
    while digits.len > 1 && digits.as_bytes().last() == Some(&b'0') {
        digits.len -= 1;
    }
    (sign, digits, exponent * exponent_sign)
}

impl fmt::Write for Digits {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.len + s.len() > CAPACITY {
            return Err(fmt::Error);
        }
        self.extend(s.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Digits)) -> String {
        let mut digits = Digits::new();
        write(&mut digits);
        String::from_utf8(digits.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn doubles_look_as_in_mysql() {
        // Each as `mariadb` 10.11 prints it.
        let cases = [
            (1e20, "1e20"),
            (1e15, "1e15"),
            (1e14, "100000000000000"),
            (1.5e15, "1.5e15"),
            (1e-4, "0.0001"),
            (1e-10, "0.0000000001"),
            (1e-14, "0.00000000000001"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.25e-15, "0.00000000000000125"),
            (123456789012345678.0, "1.2345678901234568e17"),
            (1.2345678901234567e-5, "0.000012345678901234568"),
            (-1.2345678901234567e-5, "-0.000012345678901234568"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0, "0"),
            (-0.0, "0"),
            (1e100, "1e100"),
            (-1e-100, "-1e-100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e308"),
            (123456789012345.6, "123456789012345.6"),
            (999999999999999.0, "999999999999999"),
            (9999999999999998.0, "9.999999999999998e15"),
            (1234567890123456.8, "1234567890123456.8"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(|d| d.f64(value)), expected, "{value:e}");
        }
    }

    #[test]
    fn floats_have_six_digits() {
        let cases = [
            (std::f32::consts::PI, "3.14159"),
            (1e20, "1e20"),
            (123456789.0, "123457000"),
            (1e-5, "0.00001"),
            (1234567.0, "1234570"),
            (123456.0, "123456"),
            (0.000012345678, "0.0000123457"),
            (1e10, "10000000000"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1e-15, "0.000000000000001"),
            (1.5e-16, "1.5e-16"),
            (16777216.0, "16777200"),
            (-999999.5, "-1000000"),
            (-0.0, "0"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(|d| d.f32(value)), expected, "{value:e}");
        }
    }

    #[test]
    fn a_fixed_number_of_decimals_rounds_the_exact_value() {
        assert_eq!(text(|d| d.fixed(1.23456, 3)), "1.235");
        assert_eq!(text(|d| d.fixed(f64::from(2.675f32), 2)), "2.67");
        assert_eq!(text(|d| d.fixed(-0.0, 3)), "0.000");
        assert_eq!(text(|d| d.fixed(f64::MIN, 30)).len(), 1 + 309 + 1 + 30);
    }

    #[test]
    fn decimals_show_every_digit_of_their_scale() {
        let cases = [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (12345, 2, "123.45"),
            (-100, 2, "-1.00"),
            (7, -3, "7000"),
            (0, -3, "0"),
            (10_000_000_000_000_000_000, 0, "10000000000000000000"),
        ];
        for (unscaled, scale, expected) in cases {
            assert_eq!(text(|d| d.decimal(unscaled, scale)), expected);
            assert_eq!(
                text(|d| d.decimal_text(&unscaled.to_string(), scale)),
                expected
            );
        }
        let nines = text(|d| d.decimal(-99999999999999999999999999999999999999, 38));
        assert_eq!(nines, "-0.99999999999999999999999999999999999999");
    }

    proptest! {
        #[test]
        fn integers_are_rusts(a: i64, b: u64, c: i128, shift in 0u32..127) {
            prop_assert_eq!(text(|d| d.i64(a)), a.to_string());
            prop_assert_eq!(text(|d| d.u64(b)), b.to_string());
            let c = c >> shift;
            prop_assert_eq!(text(|d| d.decimal(c, 0)), c.to_string());
        }

        #[test]
        fn doubles_read_back_as_themselves(bits: u64) {
            let v = f64::from_bits(bits);
            prop_assume!(v.is_finite());
            prop_assert_eq!(text(|d| d.f64(v)).parse::<f64>().unwrap(), v);
        }

        #[test]
        fn decimals_read_back(unscaled: i64, scale in 0i8..20) {
            let shown = text(|d| d.decimal(i128::from(unscaled), scale));
            let point = shown.find('.').map_or(0, |at| shown.len() - at - 1);
            prop_assert_eq!(point, usize::from(scale.unsigned_abs()));
            let digits = shown.replace('.', "").parse::<i128>().unwrap();
            prop_assert_eq!(digits, i128::from(unscaled));
        }
    }
}
