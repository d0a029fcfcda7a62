//! [`Members`]: what the values of an ENUM are called. Rows store their numbers.

use std::fmt;

use perigee_types::{DecodeError, Reader, Writer};

use crate::string::trim_end;
use crate::{Collation, ColumnType, Datum, ValueError, ValueErrorKind, format_value};

/// The values of an ENUM column in the order of its definition, which number them from 1. The number
/// 0 is what IGNORE stores instead of something else; it is shown as the empty text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members {
    texts: Vec<String>,
    collation: Collation,
}

/// Why texts cannot be the values of an ENUM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersError {
    /// There is none, or more than [`Members::MAX`].
    Count(usize),
    /// One has more than [`Members::MAX_CHARS`] characters.
    TooLong,
    /// Two are equal under the collation; the first of them.
    Duplicate(String),
}

impl Members {
    /// Greatest number of values: MySQL's but for the last one, so that a number of two bytes is left
    /// that stands for none.
    pub const MAX: usize = 65_534;

    /// Greatest length of a value in characters.
    pub const MAX_CHARS: usize = 255;

    /// The values with these texts, of which trailing spaces are no part.
    ///
    /// # Errors
    /// If there are too few or too many, or one is too long or there twice.
    pub fn new(texts: Vec<String>, collation: Collation) -> Result<Self, MembersError> {
        if texts.is_empty() || texts.len() > Self::MAX {
            return Err(MembersError::Count(texts.len()));
        }
        let mut texts = texts;
        for text in &mut texts {
            text.truncate(text.trim_end_matches(' ').len());
            if text.chars().count() > Self::MAX_CHARS {
                return Err(MembersError::TooLong);
            }
        }
        let mut sorted: Vec<&String> = texts.iter().collect();
        sorted.sort_by(|a, b| collation.compare(a.as_bytes(), b.as_bytes()));
        let same = |pair: &&[&String]| {
            collation
                .compare(pair[0].as_bytes(), pair[1].as_bytes())
                .is_eq()
        };
        if let Some(pair) = sorted.windows(2).find(same) {
            return Err(MembersError::Duplicate(pair[0].clone()));
        }
        Ok(Self { texts, collation })
    }

    /// The type of the numbers that rows store.
    #[must_use]
    pub fn ty(&self) -> ColumnType {
        let bytes = if self.texts.len() <= usize::from(u8::MAX) {
            1
        } else {
            2
        };
        ColumnType::Int {
            bytes,
            unsigned: true,
        }
    }

    /// Order and equality of the texts.
    #[must_use]
    pub fn collation(&self) -> Collation {
        self.collation
    }

    /// The texts, without that of the number 0.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Characters of the longest text.
    #[must_use]
    pub fn max_chars(&self) -> u16 {
        let chars = self.texts.iter().map(|text| text.chars().count());
        chars.max().unwrap_or(0) as u16
    }

    /// The text of a number, if it has one.
    #[must_use]
    pub fn text(&self, number: u64) -> Option<&str> {
        match number {
            0 => Some(""),
            number => {
                let place = usize::try_from(number - 1).ok()?;
                self.texts.get(place).map(String::as_str)
            }
        }
    }

    /// The number of the value that a text is.
    #[must_use]
    pub fn number(&self, text: &[u8]) -> Option<u64> {
        let text = self.collation.form(trim_end(text));
        let is_it = |member: &&String| *self.collation.form(member.as_bytes()) == *text;
        let found = self
            .texts
            .iter()
            .enumerate()
            .find(|(_, member)| is_it(member));
        found.map(|(place, _)| place as u64 + 1)
    }

    /// The numbers, 0 among them, of the texts for which a test holds.
    pub fn numbers(&self, mut test: impl FnMut(&str) -> bool) -> Vec<u64> {
        let all = 0..=self.texts.len() as u64;
        let holds = |number: &u64| test(self.text(*number).unwrap_or_default());
        all.filter(holds).collect()
    }

    /// The value that a text stands for in a statement: it is one's text, or otherwise its number.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(&self, text: &[u8]) -> Result<Datum, ValueError> {
        if let Some(number) = self.number(text) {
            return Ok(Datum::UInt(number));
        }
        let digits = std::str::from_utf8(text).ok();
        let number = digits.and_then(|digits| digits.trim_start().parse::<u64>().ok());
        match number.filter(|number| self.text(*number).is_some()) {
            Some(number) => Ok(Datum::UInt(number)),
            None => Err(self.error(text)),
        }
    }

    /// A value of type `from` as a value of the column: numbers are numbers of values, anything else is
    /// taken as text.
    ///
    /// # Errors
    /// If there is no such value.
    pub fn coerce(&self, value: Datum, from: ColumnType) -> Result<Datum, ValueError> {
        let number = match &value {
            Datum::Null => return Ok(Datum::Null),
            Datum::String(text) => return self.parse(text),
            Datum::Int(number) => i128::from(*number),
            Datum::UInt(number) => i128::from(*number),
            Datum::Bool(truth) => i128::from(*truth),
            Datum::Double(number) => *number as i128,
            Datum::Decimal(_) | Datum::Wide(_) => {
                let bigint = ColumnType::Int {
                    bytes: 8,
                    unsigned: false,
                };
                match bigint.coerce(value.clone(), from) {
                    Ok(Datum::Int(number)) => i128::from(number),
                    _ => 0,
                }
            }
            Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_) | Datum::Overflow(_) => {
                let mut text = String::new();
                format_value(from, value.as_ref(), &mut text);
                return self.parse(text.as_bytes());
            }
        };
        match u64::try_from(number) {
            Ok(number) if number > 0 && self.text(number).is_some() => Ok(Datum::UInt(number)),
            _ => {
                let mut text = String::new();
                format_value(from, value.as_ref(), &mut text);
                Err(self.error(text.as_bytes()))
            }
        }
    }

    fn error(&self, text: &[u8]) -> ValueError {
        ValueError::new(ValueErrorKind::Truncated, self.ty(), text)
    }

    /// Appends the wire form: the collation and the texts.
    pub fn encode(&self, w: &mut Writer) {
        w.u16(self.collation.0).u16(self.texts.len() as u16);
        for text in &self.texts {
            w.str(text);
        }
    }

    /// Reads what [`Members::encode`] wrote.
    ///
    /// # Errors
    /// If it is not that.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let collation = Collation(r.u16()?);
        if !collation.is_text() {
            return Err(DecodeError::new("ENUM: collation"));
        }
        let count = r.u16()?;
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(r.str()?.to_owned());
        }
        let canonical = texts.clone();
        let members = Self::new(texts, collation);
        match members {
            Ok(members) if members.texts == canonical => Ok(members),
            _ => Err(DecodeError::new("ENUM: values")),
        }
    }
}

impl fmt::Display for Members {
    /// The type as SHOW CREATE TABLE writes it, without collation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum(")?;
        for (place, text) in self.texts.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            let text = text.replace('\\', "\\\\").replace('\'', "''");
            write!(f, "'{text}'")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    const INT: ColumnType = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };

    fn members(texts: &[&str], collation: Collation) -> Members {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Members::new(texts, collation).unwrap()
    }

    #[test]
    fn a_text_is_a_value_or_its_number() {
        let members = members(&["small", "2", "Größe "], Collation::UTF8MB4_BIN);
        let parse = |text: &str| members.parse(text.as_bytes());
        for (text, number) in [
            ("small", 1),
            ("small  ", 1),
            ("2", 2),
            ("3", 3),
            ("1", 1),
            ("Größe", 3),
            ("0", 0),
        ] {
            assert_eq!(parse(text).unwrap(), Datum::UInt(number), "{text}");
        }
        for text in ["SMALL", "", "4", "-1", "1x", "grösse"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind, ValueErrorKind::Truncated, "{text}");
        }
        assert_eq!(members.text(0), Some(""));
        assert_eq!(members.text(3), Some("Größe"));
        assert_eq!(members.text(4), None);
        assert_eq!(members.max_chars(), 5);
        assert_eq!(members.to_string(), "enum('small','2','Größe')");
    }

    #[test]
    fn without_case_a_text_is_a_value_in_any() {
        let members = members(&["Small", "o'clock"], Collation::UTF8MB4_GENERAL_CI);
        assert_eq!(members.number(b"sMALL"), Some(1));
        assert_eq!(members.number("smäll".as_bytes()), Some(1));
        assert_eq!(members.to_string(), "enum('Small','o''clock')");
    }

    #[test]
    fn numbers_are_numbers_of_values() {
        let members = members(&["a", "b"], Collation::UTF8MB4_BIN);
        let of = |value, ty| members.coerce(value, ty);
        assert_eq!(of(Datum::Int(2), INT).unwrap(), Datum::UInt(2));
        assert_eq!(of(Datum::Null, INT).unwrap(), Datum::Null);
        assert_eq!(of(Datum::Bool(true), INT).unwrap(), Datum::UInt(1));
        assert_eq!(
            of(Datum::Double(2.9), ColumnType::Double).unwrap(),
            Datum::UInt(2)
        );
        let decimal = ColumnType::Decimal {
            precision: 3,
            scale: 1,
        };
        assert_eq!(of(Datum::Decimal(15), decimal).unwrap(), Datum::UInt(2));
        for number in [0, 3, -1] {
            assert!(of(Datum::Int(number), INT).is_err());
        }
    }

    #[test]
    fn values_differ() {
        let new = |texts: &[&str], collation| {
            let texts = texts.iter().map(|text| (*text).to_owned()).collect();
            Members::new(texts, collation)
        };
        let duplicate = |text: &str| Err(MembersError::Duplicate(text.to_owned()));
        assert_eq!(
            new(&[], Collation::UTF8MB4_BIN),
            Err(MembersError::Count(0))
        );
        assert_eq!(
            new(&["a", "b", "a "], Collation::UTF8MB4_BIN),
            duplicate("a")
        );
        assert!(new(&["a", "A"], Collation::UTF8MB4_BIN).is_ok());
        assert_eq!(
            new(&["a", "A"], Collation::UTF8MB4_GENERAL_CI),
            duplicate("a")
        );
        let long = "ä".repeat(256);
        assert_eq!(
            new(&[&long], Collation::UTF8MB4_BIN),
            Err(MembersError::TooLong)
        );
        let many: Vec<String> = (0..256).map(|n| n.to_string()).collect();
        let many = Members::new(many, Collation::UTF8MB4_BIN).unwrap();
        assert_eq!(many.ty().stored_width(), Some(2));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(texts in proptest::collection::vec("[a-z'é ]{0,9}", 1..9)) {
            if let Ok(members) = Members::new(texts, Collation::UTF8MB4_GENERAL_CI) {
                let mut w = Writer::new();
                members.encode(&mut w);
                let bytes = w.into_bytes();
                let mut r = Reader::new(&bytes, "members");
                prop_assert_eq!(&Members::decode(&mut r).unwrap(), &members);
                r.finish().unwrap();
                for (place, text) in members.texts().iter().enumerate() {
                    prop_assert_eq!(members.number(text.as_bytes()), Some(place as u64 + 1));
                }
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = Members::decode(&mut Reader::new(&bytes, "members"));
        }
    }
}
