//! Sort codes: the key of a group as bytes whose order is the order of the keys.
//!
//! NULL comes first, numbers order as they compare, strings as the bytes of what tells them apart (their text
//! without trailing spaces, or its weights). No code is a prefix of another one of the same parts, and a
//! code tells its key: a run keeps nothing else of it. The first 16 bytes are a number; most codes have
//! no more.

use std::cmp::Ordering;

use perigee_expr::{Lanes, Vector};

use crate::aggregate::keys::{KeyPart, KeyValues};

/// Bytes of a code that are in its number.
const NUMBER: usize = 16;

/// First byte of a nullable part or of a string.
const NULL: u8 = 0;
const NOT_NULL: u8 = 1;

/// Behind a zero byte that is one of a string; two zero bytes end it.
const ESCAPED: u8 = 0xff;

/// Codes of some rows or groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codes {
    /// The first bytes of each, with zeros behind those that are shorter.
    pub(crate) numbers: Vec<u128>,
    /// Where the rest of each ends in `rests`; nothing if no code has a rest.
    ends: Vec<u32>,
    rests: Vec<u8>,
}

impl Codes {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<u128>() * self.numbers.len()
            + size_of::<u32>() * self.ends.len()
            + self.rests.len()
    }

    /// True if some code has more than its number.
    pub(crate) fn have_rests(&self) -> bool {
        !self.rests.is_empty()
    }

    /// What a code has behind its number.
    pub(crate) fn rest(&self, at: usize) -> &[u8] {
        if self.ends.is_empty() {
            return &[];
        }
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.rests[start as usize..self.ends[at] as usize]
    }

    /// How a code compares with one of others.
    #[inline]
    pub(crate) fn compare(&self, at: usize, other: &Self, of_other: usize) -> Ordering {
        let by_number = self.numbers[at].cmp(&other.numbers[of_other]);
        by_number.then_with(|| self.rest(at).cmp(other.rest(of_other)))
    }

    /// The first of these codes, which are in order, that is above all of others, which are, too.
    pub(crate) fn behind(&self, others: &Self) -> usize {
        let Some(last) = others.len().checked_sub(1) else {
            return 0;
        };
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.compare(middle, others, last) {
                Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        low
    }

    /// Appends a code of others.
    pub(crate) fn push(&mut self, other: &Self, at: usize) {
        self.append(other.numbers[at], other.rest(at));
    }

    fn append(&mut self, number: u128, rest: &[u8]) {
        if !rest.is_empty() && self.ends.is_empty() {
            self.ends.resize(self.numbers.len(), 0);
        }
        self.numbers.push(number);
        self.rests.extend_from_slice(rest);
        if !self.rests.is_empty() || !self.ends.is_empty() {
            self.ends.push(self.rests.len() as u32); // what is held is bounded
        }
    }

    /// Takes away the codes from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let numbers = self.numbers.split_off(at);
        if self.ends.is_empty() {
            return Self {
                numbers,
                ..Self::default()
            };
        }
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        let ends = self.ends.split_off(at);
        Self {
            numbers,
            ends: ends.iter().map(|end| end - start).collect(),
            rests: self.rests.split_off(start as usize),
        }
    }

    /// The codes of a run of rows.
    pub(crate) fn of_rows(parts: &[KeyPart], keys: &[KeyValues<'_>], rows: usize) -> Self {
        let mut codes = Self {
            numbers: Vec::with_capacity(rows),
            ..Self::default()
        };
        let mut rest = Vec::new();
        for row in 0..rows {
            let mut writer = CodeWriter {
                number: 0,
                len: 0,
                rest: &mut rest,
            };
            for (part, key) in parts.iter().zip(keys) {
                writer.part(part, key, row);
            }
            let number = writer.number;
            codes.append(number, &rest);
            rest.clear();
        }
        codes
    }

    /// Appends the keys of all codes to columns of the keys' forms.
    pub(crate) fn give_out(&self, parts: &[KeyPart], columns: &mut [Vector]) {
        let mut code = Vec::new();
        for at in 0..self.len() {
            code.clear();
            code.extend_from_slice(&self.numbers[at].to_be_bytes());
            code.extend_from_slice(self.rest(at));
            let mut reader = CodeReader(&code);
            for (part, column) in parts.iter().zip(&mut *columns) {
                reader.part(part, column);
            }
        }
    }
}

/// A code in the making.
struct CodeWriter<'a> {
    number: u128,
    /// Bytes so far.
    len: usize,
    rest: &'a mut Vec<u8>,
}

impl CodeWriter<'_> {
    fn part(&mut self, part: &KeyPart, key: &KeyValues<'_>, row: usize) {
        let vector = match key {
            KeyValues::Lanes(vector) if !matches!(vector.lanes, Lanes::Bytes { .. }) => vector,
            _ => {
                let Some(text) = key.string(row) else {
                    return self.byte(NULL);
                };
                self.byte(NOT_NULL);
                for byte in &*part.text.of(text) {
                    self.byte(*byte);
                    if *byte == 0 {
                        self.byte(ESCAPED);
                    }
                }
                return self.number(0, 2);
            }
        };
        if part.nullable {
            let null = vector.is_null(row);
            self.byte(if null { NULL } else { NOT_NULL });
            if null {
                return;
            }
        }
        match &vector.lanes {
            Lanes::I64(lanes) => self.number((lanes[row] as u64 ^ 1 << 63).into(), 8),
            Lanes::U64(lanes) => self.number(lanes[row].into(), 8),
            Lanes::I128(lanes) => self.number(lanes[row] as u128 ^ 1 << 127, 16),
            Lanes::F64(lanes) => self.number(order_of(lanes[row]).into(), 8),
            Lanes::Bytes { .. } => panic!("N1: strings were written above"),
        }
    }

    /// Appends the low `width` bytes of a number, the most significant first.
    #[inline]
    fn number(&mut self, value: u128, width: usize) {
        if self.len + width <= NUMBER {
            self.number |= value << (8 * (NUMBER - self.len - width));
            self.len += width;
            return;
        }
        for byte in &value.to_be_bytes()[NUMBER - width..] {
            self.byte(*byte);
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        if self.len < NUMBER {
            self.number |= u128::from(byte) << (8 * (NUMBER - 1 - self.len));
        } else {
            self.rest.push(byte);
        }
        self.len += 1;
    }
}

/// A number that orders as doubles do; both zeros have one.
fn order_of(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

/// The double of such a number.
fn double_of(order: u64) -> f64 {
    f64::from_bits(match order >> 63 {
        0 => !order,
        _ => order & !(1 << 63),
    })
}

/// What is left of a code.
struct CodeReader<'a>(&'a [u8]);

impl CodeReader<'_> {
    fn part(&mut self, part: &KeyPart, column: &mut Vector) {
        let is_string = matches!(column.lanes, Lanes::Bytes { .. });
        let valid = !(is_string || part.nullable) || self.take::<1>() == [NOT_NULL];
        match &mut column.lanes {
            Lanes::Bytes { ends, data } => {
                if valid {
                    self.string(data);
                }
                ends.push(data.len() as u32);
            }
            Lanes::I64(lanes) => lanes.push(match valid {
                true => (u64::from_be_bytes(self.take()) ^ 1 << 63) as i64,
                false => 0,
            }),
            Lanes::U64(lanes) => lanes.push(match valid {
                true => u64::from_be_bytes(self.take()),
                false => 0,
            }),
            Lanes::I128(lanes) => lanes.push(match valid {
                true => (u128::from_be_bytes(self.take()) ^ 1 << 127) as i128,
                false => 0,
            }),
            Lanes::F64(lanes) => lanes.push(match valid {
                true => double_of(u64::from_be_bytes(self.take())),
                false => 0.0,
            }),
        }
        if let Some(own) = &mut column.valid {
            own.push(valid.into());
        } else if !valid {
            let mut own = vec![1; column.lanes.len()];
            own[column.lanes.len() - 1] = 0;
            column.valid = Some(own);
        }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (bytes, rest) = self.0.split_first_chunk().expect("N8: a code is whole");
        self.0 = rest;
        *bytes
    }

    /// Appends a string up to its end.
    fn string(&mut self, data: &mut Vec<u8>) {
        loop {
            let [byte] = self.take();
            if byte == 0 && self.take() != [ESCAPED] {
                return;
            }
            data.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::keys::Text;

    fn part(text: Text, nullable: bool) -> KeyPart {
        KeyPart {
            text,
            width: 8,
            nullable,
        }
    }

    fn strings(values: &[Option<&str>]) -> Vector {
        let mut vector = Vector::new(perigee_expr::Type::String);
        for value in values {
            vector.push(match value {
                Some(text) => perigee_value::ValueRef::String(text.as_bytes()),
                None => perigee_value::ValueRef::Null,
            });
        }
        vector
    }

    /// The codes order as `columns` do, and give them out again.
    fn check(parts: &[KeyPart], columns: &[Vector]) {
        let keys: Vec<_> = columns.iter().map(KeyValues::Lanes).collect();
        let rows = columns[0].len();
        let codes = Codes::of_rows(parts, &keys, rows);
        for row in 1..rows {
            let order = codes.compare(row - 1, &codes, row);
            assert_eq!(order, Ordering::Less, "rows {} and {row}", row - 1);
        }
        let empty = |column: &Vector| {
            let mut column = column.clone();
            column.clear();
            column
        };
        let mut out: Vec<_> = columns.iter().map(empty).collect();
        codes.give_out(parts, &mut out);
        assert_eq!(out, columns);
        let mut head = codes.clone();
        let tail = head.split_off(rows / 2);
        let mut joined = head;
        (0..tail.len()).for_each(|at| joined.push(&tail, at));
        let mut out: Vec<_> = columns.iter().map(empty).collect();
        joined.give_out(parts, &mut out);
        assert_eq!(out, columns);
    }

    #[test]
    fn codes_order_as_keys_do_and_tell_them() {
        let lanes = |lanes| Vector { lanes, valid: None };
        let number = [part(Text::Bytes, false)];
        check(
            &number,
            &[lanes(Lanes::I64(vec![i64::MIN, -1, 0, 1, i64::MAX]))],
        );
        check(&number, &[lanes(Lanes::U64(vec![0, 1, 1 << 63, u64::MAX]))]);
        let wide = vec![i128::MIN, -1, 0, 1, i128::MAX];
        check(&number, &[lanes(Lanes::I128(wide))]);
        let doubles = vec![f64::MIN, -1.5, 0.0, 1e-300, f64::MAX];
        check(&number, &[lanes(Lanes::F64(doubles))]);
        let nullable = Vector {
            lanes: Lanes::I64(vec![0, -7, 7]),
            valid: Some(vec![0, 1, 1]),
        };
        check(&[part(Text::Bytes, true)], &[nullable]);
        let long = "a string that is longer than the number of a code";
        let texts = [
            None,
            Some(""),
            Some("\0"),
            Some("\0\0a"),
            Some("a"),
            Some("a\0"),
            Some(&long[..15]),
            Some(&long[..16]),
            Some(long),
        ];
        check(&[part(Text::Trimmed, true)], &[strings(&texts)]);
        let firsts = lanes(Lanes::I64(vec![1, 1, 1, 2, 2, 3]));
        let seconds = strings(&[Some("a"), Some(long), Some("b"), None, Some("a"), None]);
        check(
            &[part(Text::Bytes, false), part(Text::Bytes, true)],
            &[firsts, seconds],
        );
    }

    #[test]
    fn equal_keys_have_equal_codes() {
        let doubles = Vector {
            lanes: Lanes::F64(vec![0.0, -0.0]),
            valid: None,
        };
        let padded = strings(&[Some("a"), Some("a  ")]);
        for (text, column) in [(Text::Bytes, doubles), (Text::Trimmed, padded)] {
            let parts = [part(text, false)];
            let codes = Codes::of_rows(&parts, &[KeyValues::Lanes(&column)], 2);
            assert_eq!(codes.compare(0, &codes, 1), Ordering::Equal);
        }
    }
}
