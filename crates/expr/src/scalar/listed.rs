//! The values of a long IN list as they are compared: sorted, a few bytes for each.
//!
//! A value has a key in its domain, and two values of a domain are equal if their keys are. Numbers that have no place
//! among 64-bit integers have no key: a list does not hold them, and no value of a list is equal to them.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};

use perigee_value::{Collation, Units};

use super::Domain;
use crate::functions::Value;

/// Values of one domain.
#[derive(Default)]
pub struct Listed {
    numbers: Vec<i64>,
    strings: Strings,
    /// What equals none of the others may equal a NULL.
    has_null: bool,
}

/// Strings one behind the other.
#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    /// Where each begins and ends, in their order.
    places: Vec<(u32, u32)>,
}

/// What a value of a domain is told by.
enum Key<'k> {
    Number(i64),
    String(Cow<'k, [u8]>),
    Null,
    /// No value of a list is equal to it.
    Foreign,
}

impl Listed {
    /// Adds a value of a domain, the same for all values; false if a list cannot hold it.
    #[must_use]
    pub fn push(&mut self, domain: Domain, value: &Value<'_>) -> bool {
        match key(domain, value) {
            Key::Number(number) => self.numbers.push(number),
            Key::String(string) => return self.strings.push(&string),
            Key::Null => self.has_null = true,
            Key::Foreign => return false,
        }
        true
    }

    /// The list, in which values can be looked for.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.numbers.shrink_to_fit();
        self.strings.sort();
        self
    }

    /// True if a value of the domain is one of the list; `None` for NULL, and if a NULL of the list may be it.
    #[must_use]
    pub fn contains(&self, domain: Domain, value: &Value<'_>) -> Option<bool> {
        let is_found = match key(domain, value) {
            Key::Number(number) => self.numbers.binary_search(&number).is_ok(),
            Key::String(string) => self.strings.contain(&string),
            Key::Null => return None,
            Key::Foreign => false,
        };
        (is_found || !self.has_null).then_some(is_found)
    }

    /// How many different values it has.
    fn count(&self) -> usize {
        self.numbers.len() + self.strings.places.len() + usize::from(self.has_null)
    }
}

impl Strings {
    fn push(&mut self, string: &[u8]) -> bool {
        let place = |at| u32::try_from(at).ok();
        let (start, end) = (self.bytes.len(), self.bytes.len() + string.len());
        let Some(place) = place(start).zip(place(end)) else {
            return false;
        };
        self.bytes.extend_from_slice(string);
        self.places.push(place);
        true
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let string = |(start, end): (u32, u32)| &bytes[start as usize..end as usize];
        self.places
            .sort_unstable_by(|a, b| string(*a).cmp(string(*b)));
        self.places.dedup_by(|a, b| string(*a) == string(*b));
        self.places.shrink_to_fit();
    }

    fn contain(&self, wanted: &[u8]) -> bool {
        let string = |(start, end): (u32, u32)| &self.bytes[start as usize..end as usize];
        let found = self
            .places
            .binary_search_by(|place| string(*place).cmp(wanted));
        found.is_ok()
    }
}

impl Debug for Listed {
    /// Short, and another text for each list.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} values at {:p}", self.count(), self)
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.count())
    }
}

fn key<'v>(domain: Domain, value: &'v Value<'_>) -> Key<'v> {
    let whole = |units: Units, scale: u8| {
        let whole = units.rescale(scale, 0)?;
        let is_whole = whole.rescale(0, scale) == Some(units);
        let number = whole.to_i128().filter(|_| is_whole);
        number.and_then(|number| i64::try_from(number).ok())
    };
    let number = |number: Option<i64>| number.map_or(Key::Foreign, Key::Number);
    match (domain, value) {
        (_, Value::Null) => Key::Null,
        (Domain::Exact, Value::Int(v)) => Key::Number(*v),
        (Domain::Exact, Value::UInt(v)) => number(i64::try_from(*v).ok()),
        (Domain::Exact, Value::Decimal(units, scale)) => number(whole(*units, *scale)),
        // The negative zero is equal to zero.
        (Domain::Double, Value::Double(v)) if !v.is_nan() => {
            Key::Number((v + 0.0).to_bits().cast_signed())
        }
        (Domain::Text(by), Value::Text(text)) => Key::String(text_key(by, text)),
        (Domain::Bytes, Value::Bytes(bytes)) => Key::String(Cow::Borrowed(bytes)),
        (Domain::Moment, Value::DateTime(v)) | (Domain::Time, Value::Time(v)) => Key::Number(*v),
        _ => Key::Foreign,
    }
}

/// What equal texts of a collation have in common.
fn text_key(by: Collation, text: &str) -> Cow<'_, [u8]> {
    by.form(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::order;
    use super::*;

    fn values() -> Vec<(Domain, Vec<Value<'static>>)> {
        let texts = ["", " ", "a", "A ", "ä", "b", "a\t", "a  "];
        let texts: Vec<_> = texts.iter().map(|text| Value::text(*text)).collect();
        let decimal = |units: i128, scale| Value::Decimal(units.into(), scale);
        vec![
            (
                Domain::Exact,
                vec![
                    Value::Int(-1),
                    Value::UInt(1),
                    Value::Int(1),
                    decimal(10, 1),
                    decimal(11, 1),
                    decimal(-100, 2),
                    Value::UInt(u64::MAX),
                ],
            ),
            (
                Domain::Double,
                [0.0, -0.0, 1.5, -1.5, 1e300].map(Value::Double).to_vec(),
            ),
            (Domain::Text(Collation::UTF8MB4_BIN), texts.clone()),
            (Domain::Text(Collation::UTF8MB4_GENERAL_CI), texts),
            (
                Domain::Bytes,
                vec![Value::bytes(&b"a"[..]), Value::bytes(&b"a "[..])],
            ),
            (
                Domain::Moment,
                vec![Value::DateTime(i64::MIN), Value::DateTime(0)],
            ),
            (Domain::Time, vec![Value::Time(-1), Value::Time(0)]),
        ]
    }

    #[test]
    fn a_list_has_the_values_that_compare_as_equal() {
        for (domain, values) in values() {
            for (one, first) in values.iter().enumerate() {
                let mut list = Listed::default();
                if !list.push(domain, first) {
                    continue;
                }
                assert!(list.push(domain, &values[(one + 1) % 2]));
                let list = list.sorted();
                for wanted in &values {
                    let is_equal =
                        |other| order(domain, wanted, other) == Some(std::cmp::Ordering::Equal);
                    let expected = is_equal(first) || is_equal(&values[(one + 1) % 2]);
                    let found = list.contains(domain, wanted);
                    assert_eq!(found, Some(expected), "{wanted:?} in {first:?}, {domain}");
                }
            }
        }
    }

    #[test]
    fn a_null_may_be_any_value() {
        let mut list = Listed::default();
        assert!(list.push(Domain::Exact, &Value::Null));
        assert!(list.push(Domain::Exact, &Value::Int(7)));
        let list = list.sorted();
        assert_eq!(list.contains(Domain::Exact, &Value::Int(7)), Some(true));
        assert_eq!(list.contains(Domain::Exact, &Value::Int(8)), None);
        assert_eq!(list.contains(Domain::Exact, &Value::Null), None);
    }
}
