//! What strings are compared by: the collations, and all that depends on which one it is.
//!
//! A collation turns a string into its *form*, which is a string again: equal strings have equal forms, and forms
//! order as bytes, with PAD SPACE as if the shorter one were padded with spaces. So keys, groups, joins and
//! statistics are about forms and know nothing more of collations. For LIKE, which takes characters one by one, a
//! collation says which character stands for all that are *alike*.
//!
//! A new collation is a row of [`REGISTRY`], and a module if it follows new rules. All functions take bytes and are
//! total: bytes that are not UTF-8 have some form.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::string;

mod charset;
pub mod general_ci;
mod latin1;
mod single;
pub mod uca;

pub use charset::Charset;
use single::Single;
use uca::Uca;

/// Collation of a string: MySQL's collation number, kept in catalog, keys and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collation(pub u16);

/// How strings compare.
#[derive(Clone, Copy, Debug)]
enum Rules {
    /// By bytes, which need not be UTF-8.
    Bytes,
    /// By code points.
    CodePoints,
    /// By the weights of `utf8mb4_general_ci`.
    GeneralCi,
    /// By weights of the characters of a set of 256.
    Single(&'static Single),
    /// By weights of the Unicode Collation Algorithm.
    Uca(&'static Uca),
}

/// How the form of a string is made of its characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Each character has one of its own in the form.
    OfEach,
    /// The form is the characters' forms, each of which may have several characters or none.
    OfSome,
    /// The form has several levels, each about all characters.
    OfAll,
}

/// A collation.
#[derive(Debug)]
struct Entry {
    collation: Collation,
    name: &'static str,
    charset: Charset,
    rules: Rules,
    /// PAD SPACE: trailing spaces do not count.
    pads: bool,
}

#[rustfmt::skip]
static REGISTRY: [Entry; 17] = {
    use Charset::{Ascii, Binary, Latin1, Utf8mb3, Utf8mb4};
    use Rules::{Bytes, CodePoints, GeneralCi, Single, Uca as Weights};
    const fn entry(collation: Collation, name: &'static str, charset: Charset, rules: Rules, pads: bool) -> Entry {
        Entry { collation, name, charset, rules, pads }
    }
    [
        entry(Collation::LATIN1_SWEDISH_CI, "latin1_swedish_ci", Latin1, Single(&single::LATIN1_SWEDISH_CI), true),
        entry(Collation::LATIN1_GENERAL_CI, "latin1_general_ci", Latin1, Single(&single::LATIN1_GENERAL_CI), true),
        entry(Collation::LATIN1_BIN, "latin1_bin", Latin1, Single(&single::BIN), true),
        entry(Collation::ASCII_GENERAL_CI, "ascii_general_ci", Ascii, Single(&single::ASCII_GENERAL_CI), true),
        entry(Collation::ASCII_BIN, "ascii_bin", Ascii, Single(&single::BIN), true),
        entry(Collation::BINARY, "binary", Binary, Bytes, false),
        entry(Collation::UTF8MB4_GENERAL_CI, "utf8mb4_general_ci", Utf8mb4, GeneralCi, true),
        entry(Collation::UTF8MB4_BIN, "utf8mb4_bin", Utf8mb4, CodePoints, true),
        entry(Collation::UTF8MB4_UNICODE_CI, "utf8mb4_unicode_ci", Utf8mb4, Weights(&uca::V400), true),
        entry(Collation::UTF8MB4_UNICODE_520_CI, "utf8mb4_unicode_520_ci", Utf8mb4, Weights(&uca::V520), true),
        entry(Collation::UTF8MB4_0900_AI_CI, "utf8mb4_0900_ai_ci", Utf8mb4, Weights(&uca::V900_AI_CI), false),
        entry(Collation::UTF8MB4_0900_AS_CS, "utf8mb4_0900_as_cs", Utf8mb4, Weights(&uca::V900_AS_CS), false),
        entry(Collation::UTF8MB4_0900_BIN, "utf8mb4_0900_bin", Utf8mb4, CodePoints, false),
        entry(Collation::UTF8MB3_GENERAL_CI, "utf8mb3_general_ci", Utf8mb3, GeneralCi, true),
        entry(Collation::UTF8MB3_BIN, "utf8mb3_bin", Utf8mb3, CodePoints, true),
        entry(Collation::UTF8MB3_UNICODE_CI, "utf8mb3_unicode_ci", Utf8mb3, Weights(&uca::V400), true),
        entry(Collation::UTF8MB3_UNICODE_520_CI, "utf8mb3_unicode_520_ci", Utf8mb3, Weights(&uca::V520), true),
    ]
};

/// Numbers of collations are below this.
const NUMBERS: usize = 310;

/// For each number the place in [`REGISTRY`] plus 1, or 0.
static PLACES: [u8; NUMBERS] = {
    let mut places = [0; NUMBERS];
    let mut at = 0;
    while at < REGISTRY.len() {
        places[REGISTRY[at].collation.0 as usize] = at as u8 + 1;
        at += 1;
    }
    places
};

impl Collation {
    /// `utf8mb4_general_ci`: order of the characters' weights, PAD SPACE.
    pub const UTF8MB4_GENERAL_CI: Self = Self(45);
    /// `utf8mb4_bin`: code point order, PAD SPACE (trailing spaces do not count).
    pub const UTF8MB4_BIN: Self = Self(46);
    /// `binary`: byte order, no padding.
    pub const BINARY: Self = Self(63);
    /// `utf8mb4_unicode_ci`: primary weights of the Unicode Collation Algorithm 4.0.0, PAD SPACE.
    pub const UTF8MB4_UNICODE_CI: Self = Self(224);
    /// `utf8mb4_unicode_520_ci`: the same of version 5.2.0.
    pub const UTF8MB4_UNICODE_520_CI: Self = Self(246);
    /// `utf8mb4_0900_ai_ci`: primary weights of version 9.0.0, NO PAD.
    pub const UTF8MB4_0900_AI_CI: Self = Self(255);
    /// `utf8mb4_0900_as_cs`: weights of three levels of version 9.0.0, NO PAD.
    pub const UTF8MB4_0900_AS_CS: Self = Self(278);
    /// `utf8mb4_0900_bin`: code point order, NO PAD.
    pub const UTF8MB4_0900_BIN: Self = Self(309);

    /// `utf8mb3_general_ci`: as `utf8mb4_general_ci`.
    pub const UTF8MB3_GENERAL_CI: Self = Self(33);
    /// `utf8mb3_bin`: as `utf8mb4_bin`.
    pub const UTF8MB3_BIN: Self = Self(83);
    /// `utf8mb3_unicode_ci`: as `utf8mb4_unicode_ci`.
    pub const UTF8MB3_UNICODE_CI: Self = Self(192);
    /// `utf8mb3_unicode_520_ci`: as `utf8mb4_unicode_520_ci`.
    pub const UTF8MB3_UNICODE_520_CI: Self = Self(214);

    /// `latin1_swedish_ci`.
    pub const LATIN1_SWEDISH_CI: Self = Self(8);
    /// `latin1_bin`.
    pub const LATIN1_BIN: Self = Self(47);
    /// `latin1_general_ci`.
    pub const LATIN1_GENERAL_CI: Self = Self(48);
    /// `ascii_general_ci`.
    pub const ASCII_GENERAL_CI: Self = Self(11);
    /// `ascii_bin`.
    pub const ASCII_BIN: Self = Self(65);

    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTRY.iter().map(|entry| entry.collation)
    }

    /// The collation with this name, in whatever case; `utf8` is another name of `utf8mb3`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = REGISTRY.iter();
        let lower = name.to_ascii_lowercase();
        let long = lower
            .strip_prefix("utf8_")
            .map(|rest| format!("utf8mb3_{rest}"));
        let name = long.as_ref().unwrap_or(&lower);
        let found = all.find(|entry| entry.name == name);
        found.map(|entry| entry.collation)
    }

    const fn entry(self) -> Option<&'static Entry> {
        let number = self.0 as usize;
        if number >= NUMBERS || PLACES[number] == 0 {
            return None;
        }
        Some(&REGISTRY[PLACES[number] as usize - 1])
    }

    fn rules(self) -> Rules {
        self.entry().map_or(Rules::CodePoints, |entry| entry.rules)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.entry() {
            Some(entry) => entry.name,
            None => "unknown",
        }
    }

    /// Its character set.
    #[must_use]
    pub const fn charset(self) -> Charset {
        match self.entry() {
            Some(entry) => entry.charset,
            None => Charset::Binary,
        }
    }

    /// True for the collations of texts: values are UTF-8.
    #[must_use]
    pub const fn is_text(self) -> bool {
        self.entry().is_some() && self.0 != Self::BINARY.0
    }

    /// True if trailing spaces do not count: PAD SPACE.
    #[must_use]
    pub const fn pads(self) -> bool {
        matches!(self.entry(), Some(entry) if entry.pads)
    }

    /// True if a text compares by something else than its bytes without trailing spaces.
    #[must_use]
    pub const fn has_form(self) -> bool {
        self.is_text() && self.0 != Self::UTF8MB4_BIN.0
    }

    /// What a string is compared by; of a text that is a text, which has no trailing spaces if the collation pads.
    #[must_use]
    pub fn form(self, text: &[u8]) -> Cow<'_, [u8]> {
        let text = match self.pads() {
            true => string::trim_end(text),
            false => text,
        };
        match self.rules() {
            Rules::Bytes | Rules::CodePoints => Cow::Borrowed(text),
            Rules::GeneralCi => weighed(text, general_ci::weight),
            Rules::Single(single) => weighed(text, |char| single.weight(char)),
            Rules::Uca(uca) => Cow::Owned(uca.form(text)),
        }
    }

    /// How forms are made of characters.
    #[must_use]
    pub fn weight(self) -> Weight {
        match self.rules() {
            Rules::Bytes | Rules::CodePoints | Rules::GeneralCi | Rules::Single(_) => {
                Weight::OfEach
            }
            Rules::Uca(uca) if uca.has_levels() => Weight::OfAll,
            Rules::Uca(_) => Weight::OfSome,
        }
    }

    /// What the forms of all texts begin with that begin with characters alike those of `prefix`. It may be shorter
    /// than necessary.
    #[must_use]
    pub fn form_prefix(self, prefix: &[u8]) -> Cow<'_, [u8]> {
        match self.rules() {
            Rules::Uca(uca) => Cow::Owned(uca.form_prefix(prefix)),
            _ => self.form(prefix),
        }
    }

    /// The order of two strings.
    #[inline]
    #[must_use]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        if self == Self::UTF8MB4_BIN {
            return string::compare(a, b);
        }
        match self.rules() {
            Rules::Bytes => a.cmp(b),
            Rules::CodePoints if self.pads() => string::compare(a, b),
            Rules::CodePoints => a.cmp(b),
            Rules::GeneralCi => compare_weights(a, b),
            Rules::Single(_) => string::compare(&self.form(a), &self.form(b)),
            Rules::Uca(uca) => uca.compare(a, b),
        }
    }

    /// True if two strings are equal and end with as many spaces, also where the collation pads.
    #[must_use]
    pub fn equal_without_padding(self, a: &[u8], b: &[u8]) -> bool {
        let spaces = |text: &[u8]| text.len() - string::trim_end(text).len();
        spaces(a) == spaces(b) && self.compare(a, b).is_eq()
    }

    /// The character that stands for all that LIKE takes for this one.
    #[must_use]
    pub fn alike(self, char: char) -> char {
        match self.rules() {
            Rules::Bytes | Rules::CodePoints => char,
            Rules::GeneralCi => general_ci::weight(char),
            Rules::Single(single) => single.alike(char),
            Rules::Uca(uca) => uca.alike(char),
        }
    }

    /// A text whose characters are replaced by those that stand for them in LIKE.
    #[must_use]
    pub fn alike_text(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self.rules() {
            Rules::Bytes | Rules::CodePoints => Cow::Borrowed(text),
            Rules::GeneralCi => weighed(text, general_ci::weight),
            Rules::Single(single) => weighed(text, |char| single.alike(char)),
            Rules::Uca(uca) => weighed(text, |char| uca.alike(char)),
        }
    }

    /// True if texts that differ in nothing but case are equal.
    #[must_use]
    pub fn is_case_insensitive(self) -> bool {
        self.alike('a') == self.alike('A')
    }
}

/// The first character of a text that is not empty, or its first byte if it begins with none; and its
/// length.
#[inline]
fn first_char(text: &[u8]) -> (Result<char, u8>, usize) {
    let len = match text[0] {
        0..0x80 => return (Ok(char::from(text[0])), 1),
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
        _ => return (Err(text[0]), 1),
    };
    let char = text
        .get(..len)
        .and_then(|char| std::str::from_utf8(char).ok());
    match char.and_then(|char| char.chars().next()) {
        Some(char) => (Ok(char), len),
        None => (Err(text[0]), 1),
    }
}

/// A text whose characters are replaced by their weights; bytes that are no character weigh themselves.
fn weighed(text: &[u8], weight: impl Fn(char) -> char) -> Cow<'_, [u8]> {
    let mut rest = text;
    while !rest.is_empty() {
        let (char, len) = first_char(rest);
        if char.is_ok_and(|char| weight(char) != char) {
            break;
        }
        rest = &rest[len..];
    }
    if rest.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + text.len() / 2);
    out.extend_from_slice(&text[..text.len() - rest.len()]);
    while !rest.is_empty() {
        let (char, len) = first_char(rest);
        match char {
            Ok(char) => {
                let mut buffer = [0; 4];
                out.extend_from_slice(weight(char).encode_utf8(&mut buffer).as_bytes());
            }
            Err(byte) => out.push(byte),
        }
        rest = &rest[len..];
    }
    Cow::Owned(out)
}

/// Compares as `utf8mb4_general_ci` does: by weights, as if both strings were padded with spaces.
fn compare_weights(mut a: &[u8], mut b: &[u8]) -> Ordering {
    let weights = |text| weighed(text, general_ci::weight);
    while !a.is_empty() && !b.is_empty() {
        if a[0] < 0x80 && b[0] < 0x80 {
            match general_ci::ascii_weight(a[0]).cmp(&general_ci::ascii_weight(b[0])) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
            (a, b) = (&a[1..], &b[1..]);
            continue;
        }
        let ((x, x_len), (y, y_len)) = (first_char(a), first_char(b));
        match (x, y) {
            (Ok(x), Ok(y)) => match general_ci::weight(x).cmp(&general_ci::weight(y)) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
            // Damaged bytes compare with the bytes of weights.
            _ => return string::compare(&weights(a), &weights(b)),
        }
        (a, b) = (&a[x_len..], &b[y_len..]);
    }
    string::compare(&weights(a), &weights(b))
}

#[cfg(test)]
mod tests;
