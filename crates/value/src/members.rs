//! [`Members`]: what the values of an ENUM or the elements of a SET are called. Rows store numbers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use perigee_types::{DecodeError, Reader, Writer};

use crate::string::trim_end;
use crate::{Collation, ColumnType, Datum, ValueError, ValueErrorKind, format_value};

/// Which type the texts belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MembersKind {
    /// ENUM: a value is one of them. They are numbered from 1; the number 0 is what IGNORE stores instead of something
    /// else, and is shown as the empty text.
    Enum,
    /// SET: a value has any of them. Each is a bit of the value's number, the first one the lowest.
    Set,
}

/// The texts of an ENUM or SET column, in the order of its definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members {
    kind: MembersKind,
    texts: Vec<String>,
    collation: Collation,
}

/// Why texts cannot be the members of an ENUM or a SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersError {
    /// There is none, or more than [`Members::MAX`], or [`Members::MAX_OF_SET`].
    Count(usize),
    /// One of a SET has a comma.
    Comma(String),
    /// One has more than [`Members::MAX_CHARS`] characters.
    TooLong,
    /// Two are equal under the collation; the first of them.
    Duplicate(String),
}

impl Members {
    /// Greatest number of values: MySQL's but for the last one, so that a number of two bytes is left
    /// that stands for none.
    pub const MAX: usize = 65_534;

    /// Greatest number of members of a SET: as many as a number has bits.
    pub const MAX_OF_SET: usize = 64;

    /// Most members of a SET of which [`Members::numbers`] looks at each value.
    const MOST_TESTED: usize = 12;

    /// Greatest length of a value in characters.
    pub const MAX_CHARS: usize = 255;

    /// The values of an ENUM with these texts, see [`Members::of`].
    ///
    /// # Errors
    /// As [`Members::of`].
    pub fn new(texts: Vec<String>, collation: Collation) -> Result<Self, MembersError> {
        Self::of(MembersKind::Enum, texts, collation)
    }

    /// Members with these texts, of which trailing spaces are no part.
    ///
    /// # Errors
    /// If there are too few or too many, or one is too long, has a comma in a SET, or is there twice.
    pub fn of(
        kind: MembersKind,
        texts: Vec<String>,
        collation: Collation,
    ) -> Result<Self, MembersError> {
        let most = match kind {
            MembersKind::Enum => Self::MAX,
            MembersKind::Set => Self::MAX_OF_SET,
        };
        if texts.is_empty() || texts.len() > most {
            return Err(MembersError::Count(texts.len()));
        }
        let mut texts = texts;
        for text in &mut texts {
            if kind == MembersKind::Set && text.contains(',') {
                return Err(MembersError::Comma(text.clone()));
            }
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
        Ok(Self {
            kind,
            texts,
            collation,
        })
    }

    /// The type of the numbers that rows store.
    #[must_use]
    pub fn ty(&self) -> ColumnType {
        let bytes = match (self.kind, self.texts.len()) {
            (MembersKind::Enum, ..=255) | (MembersKind::Set, ..=8) => 1,
            (MembersKind::Enum, _) | (MembersKind::Set, ..=16) => 2,
            (MembersKind::Set, ..=32) => 4,
            (MembersKind::Set, _) => 8,
        };
        ColumnType::Int {
            bytes,
            unsigned: true,
        }
    }

    /// The type that has all numbers, with a sign if it can: what is computed with.
    #[must_use]
    pub fn number_type(&self) -> ColumnType {
        let (bytes, unsigned) = match (self.kind, self.texts.len()) {
            (MembersKind::Enum, _) => (4, false),
            (MembersKind::Set, ..=63) => (8, false),
            (MembersKind::Set, _) => (8, true),
        };
        ColumnType::Int { bytes, unsigned }
    }

    /// Whether they are an ENUM's or a SET's.
    #[must_use]
    pub fn kind(&self) -> MembersKind {
        self.kind
    }

    /// Order and equality of the texts.
    #[must_use]
    pub fn collation(&self) -> Collation {
        self.collation
    }

    /// The texts of the members.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Characters of the longest text.
    #[must_use]
    pub fn max_chars(&self) -> u16 {
        let chars = self.texts.iter().map(|text| text.chars().count());
        let most = match self.kind {
            MembersKind::Enum => chars.max().unwrap_or(0),
            MembersKind::Set => chars.sum::<usize>() + self.texts.len() - 1,
        };
        most as u16 // at most 64 times 255, and commas
    }

    /// The number of the value that has only the member at a place.
    fn number_at(&self, place: usize) -> u64 {
        match self.kind {
            MembersKind::Enum => place as u64 + 1,
            MembersKind::Set => 1 << place,
        }
    }

    /// The greatest number of a value.
    fn greatest(&self) -> u64 {
        match self.kind {
            MembersKind::Enum => self.texts.len() as u64,
            MembersKind::Set => u64::MAX >> (Self::MAX_OF_SET - self.texts.len()),
        }
    }

    /// What a column that cannot be NULL has where NULL comes nearest.
    #[must_use]
    pub fn least(&self) -> u64 {
        match self.kind {
            MembersKind::Enum => 1,
            MembersKind::Set => 0,
        }
    }

    /// The text of a number, if it has one.
    #[must_use]
    pub fn text(&self, number: u64) -> Option<Cow<'_, str>> {
        if number > self.greatest() {
            return None;
        }
        Some(match self.kind {
            _ if number == 0 => Cow::Borrowed(""),
            MembersKind::Enum => Cow::Borrowed(&*self.texts[number as usize - 1]),
            MembersKind::Set if number.is_power_of_two() => {
                Cow::Borrowed(&*self.texts[number.trailing_zeros() as usize])
            }
            MembersKind::Set => {
                let has = |(place, _): &(usize, &String)| number >> place & 1 == 1;
                let texts = self.texts.iter().enumerate().filter(has);
                let texts: Vec<&str> = texts.map(|(_, text)| text.as_str()).collect();
                Cow::Owned(texts.join(","))
            }
        })
    }

    /// The number of the value that a text is: one member, or of a SET any, with commas between.
    #[must_use]
    pub fn number(&self, text: &[u8]) -> Option<u64> {
        match self.kind {
            MembersKind::Enum => self.member(text),
            MembersKind::Set if trim_end(text).is_empty() => Some(0),
            MembersKind::Set => {
                let mut parts = text.split(|byte| *byte == b',');
                parts.try_fold(0, |number, part| Some(number | self.member(part)?))
            }
        }
    }

    /// The number of the value that has only the member with a text.
    fn member(&self, text: &[u8]) -> Option<u64> {
        let text = self.collation.form(trim_end(text));
        let is_it = |member: &String| *self.collation.form(member.as_bytes()) == *text;
        let found = self.texts.iter().position(is_it);
        found.map(|place| self.number_at(place))
    }

    /// The number of the value that is shown as a text.
    #[must_use]
    pub fn shown(&self, text: &str) -> Option<u64> {
        let member = |text: &str| {
            let place = self.texts.iter().position(|member| member == text)?;
            Some(self.number_at(place))
        };
        let number = match self.kind {
            MembersKind::Enum => member(text).or(text.is_empty().then_some(0))?,
            MembersKind::Set if text.is_empty() => 0,
            MembersKind::Set => {
                let mut parts = text.split(',');
                parts.try_fold(0, |number, part| Some(number | member(part)?))?
            }
        };
        // The members of a SET are shown in their order.
        (self.text(number)? == text).then_some(number)
    }

    /// Gives the numbers of many texts as they are shown; those of other texts mean nothing.
    pub fn numbering(&self) -> impl Fn(&str) -> u64 {
        let members = self.texts.iter().enumerate();
        let members = members.map(|(place, text)| (text.as_str(), self.number_at(place)));
        let members: HashMap<&str, u64> = members.collect();
        let member = move |text: &str| members.get(text).copied().unwrap_or(0);
        let is_set = self.kind == MembersKind::Set;
        move |text: &str| match is_set {
            true if text.is_empty() => 0,
            true => text
                .split(',')
                .fold(0, |number, part| number | member(part)),
            false => member(text),
        }
    }

    /// The numbers, 0 among them, of the texts for which a test holds; `None` if a SET has too many texts to look at.
    pub fn numbers(&self, mut test: impl FnMut(&str) -> bool) -> Option<Vec<u64>> {
        let greatest = self.greatest();
        if self.kind == MembersKind::Set && self.texts.len() > Self::MOST_TESTED {
            return None;
        }
        let holds = |number: &u64| test(&self.text(*number).unwrap_or_default());
        Some((0..=greatest).filter(holds).collect())
    }

    /// The number of the value that comes nearest to what is none: of a SET it has the members that there are.
    #[must_use]
    pub fn nearest(&self, text: &str) -> u64 {
        if self.kind == MembersKind::Enum {
            return 0;
        }
        let parts = text.as_bytes().split(|byte| *byte == b',');
        let found = parts.filter_map(|part| self.member(part));
        match found.fold(0, |number, member| number | member) {
            0 => match text.trim().parse::<i128>() {
                // The low bits of a number, whose sign is in the high ones.
                Ok(number) => number as u64 & self.greatest(),
                Err(_) => 0,
            },
            number => number,
        }
    }

    /// The value that a text stands for in a statement: it is its text, or otherwise its number.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(&self, text: &[u8]) -> Result<Datum, ValueError> {
        if let Some(number) = self.number(text) {
            return Ok(Datum::UInt(number));
        }
        let digits = std::str::from_utf8(text).ok();
        let number = digits.and_then(|digits| digits.trim_start().parse::<u64>().ok());
        match number.filter(|number| *number <= self.greatest()) {
            Some(number) => Ok(Datum::UInt(number)),
            None => Err(self.error(text)),
        }
    }

    /// The value that a number stands for.
    fn numbered(&self, number: i128) -> Option<u64> {
        let greatest = self.greatest();
        match self.kind {
            MembersKind::Enum => u64::try_from(number)
                .ok()
                .filter(|number| (1..=greatest).contains(number)),
            MembersKind::Set => {
                // All bits of 64 members are a negative number, too.
                let bits = i64::try_from(number).ok().map(|number| number as u64);
                let bits = bits.or_else(|| u64::try_from(number).ok());
                bits.filter(|bits| *bits <= greatest)
            }
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
        match self.numbered(number) {
            Some(number) => Ok(Datum::UInt(number)),
            None => {
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

    /// Reads what [`Members::encode`] wrote of such members.
    ///
    /// # Errors
    /// If it is not that.
    pub fn decode(kind: MembersKind, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let collation = Collation(r.u16()?);
        if !collation.is_text() {
            return Err(DecodeError::new("ENUM or SET: collation"));
        }
        let count = r.u16()?;
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(r.str()?.to_owned());
        }
        let canonical = texts.clone();
        let members = Self::of(kind, texts, collation);
        match members {
            Ok(members) if members.texts == canonical => Ok(members),
            _ => Err(DecodeError::new("ENUM or SET: members")),
        }
    }
}

impl fmt::Display for Members {
    /// The type as SHOW CREATE TABLE writes it, without collation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            MembersKind::Enum => "enum(",
            MembersKind::Set => "set(",
        })?;
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
        assert_eq!(members.text(0).as_deref(), Some(""));
        assert_eq!(members.text(3).as_deref(), Some("Größe"));
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

    fn set(texts: &[&str], collation: Collation) -> Members {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Members::of(MembersKind::Set, texts, collation).unwrap()
    }

    #[test]
    fn a_set_has_any_of_its_members() {
        let set = set(&["x", "y", "Zoë ", "4"], Collation::UTF8MB4_BIN);
        for (text, number) in [
            ("", 0),
            ("x", 1),
            ("x ", 1),
            ("y,x,y", 3),
            ("Zoë,x", 5),
            ("4", 8),
            ("5", 5),
            ("0", 0),
            ("x,4", 9),
        ] {
            let parsed = set.parse(text.as_bytes());
            assert_eq!(parsed.unwrap(), Datum::UInt(number), "{text}");
        }
        for text in [
            "X", "x,", ",x", "x,,y", " x", "x, y", "16", "-1", "x,5", "1x",
        ] {
            let error = set.parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.kind, ValueErrorKind::Truncated, "{text}");
        }
        for (number, text) in [(0, ""), (4, "Zoë"), (3, "x,y"), (15, "x,y,Zoë,4")] {
            assert_eq!(set.text(number).as_deref(), Some(text));
            assert_eq!(set.numbering()(text), number);
            assert_eq!(set.shown(text), Some(number));
        }
        assert_eq!(set.shown("y,x"), None);
        assert_eq!(set.text(16), None);
        assert_eq!(set.max_chars(), 9);
        assert_eq!(set.to_string(), "set('x','y','Zoë','4')");
        assert_eq!(
            set.numbers(|text| text.starts_with("x,y")),
            Some(vec![3, 7, 11, 15])
        );
        for (text, nearest) in [("x,w,y", 3), ("w", 0), ("99", 3), ("-1", 15), ("x,5", 1)] {
            assert_eq!(set.nearest(text), nearest, "{text}");
        }
    }

    #[test]
    fn a_set_compares_its_members_in_its_collation() {
        let set = set(&["Red", "BLUE"], Collation::UTF8MB4_GENERAL_CI);
        assert_eq!(set.number(b"blue,red"), Some(3));
        assert_eq!(set.text(3).as_deref(), Some("Red,BLUE"));
    }

    #[test]
    fn numbers_of_a_set_are_its_bits() {
        let three = set(&["a", "b", "c"], Collation::UTF8MB4_BIN);
        let of = |set: &Members, number| set.coerce(Datum::Int(number), INT);
        for number in 0..=7 {
            assert_eq!(of(&three, number), Ok(Datum::UInt(number as u64)));
        }
        assert!(of(&three, 8).is_err());
        assert!(of(&three, -1).is_err());
        let texts: Vec<String> = (0..64).map(|n| n.to_string()).collect();
        let all = Members::of(MembersKind::Set, texts.clone(), Collation::UTF8MB4_BIN).unwrap();
        assert_eq!(of(&all, -1), Ok(Datum::UInt(u64::MAX)));
        assert_eq!(
            all.number(all.text(u64::MAX).unwrap().as_bytes()),
            Some(u64::MAX)
        );
        assert_eq!(all.numbers(|_| true), None, "too many");
        assert!(all.number_type().is_unsigned() && !three.number_type().is_unsigned());
        for (count, width) in [(8, 1), (9, 2), (17, 4), (33, 8), (64, 8)] {
            let some = texts[..count].to_vec();
            let set = Members::of(MembersKind::Set, some, Collation::UTF8MB4_BIN).unwrap();
            assert_eq!(set.ty().stored_width(), Some(width));
        }
    }

    #[test]
    fn members_of_a_set_have_no_commas_and_are_at_most_64() {
        let of = |texts: Vec<String>| Members::of(MembersKind::Set, texts, Collation::UTF8MB4_BIN);
        let comma = MembersError::Comma("a,b".into());
        assert_eq!(of(vec!["a,b".into()]), Err(comma));
        let many = (0..65).map(|n| n.to_string()).collect();
        assert_eq!(of(many), Err(MembersError::Count(65)));
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
        fn what_is_encoded_is_decoded(
            texts in proptest::collection::vec("[a-z'é ]{0,9}", 1..9),
            kind in prop::sample::select(vec![MembersKind::Enum, MembersKind::Set]),
        ) {
            if let Ok(members) = Members::of(kind, texts, Collation::UTF8MB4_GENERAL_CI) {
                let mut w = Writer::new();
                members.encode(&mut w);
                let bytes = w.into_bytes();
                let mut r = Reader::new(&bytes, "members");
                prop_assert_eq!(&Members::decode(kind, &mut r).unwrap(), &members);
                r.finish().unwrap();
                for (place, text) in members.texts().iter().enumerate() {
                    let is_nothing = kind == MembersKind::Set && text.is_empty();
                    let number = if is_nothing { 0 } else { members.number_at(place) };
                    prop_assert_eq!(members.number(text.as_bytes()), Some(number));
                }
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            for kind in [MembersKind::Enum, MembersKind::Set] {
                let _ = Members::decode(kind, &mut Reader::new(&bytes, "members"));
            }
        }
    }
}
