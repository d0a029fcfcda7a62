//! Collations by weights of the Unicode Collation Algorithm (UTS #10), as MySQL has them: nothing is ignored but what
//! the table gives no weight, several characters weigh what each of them does, and nothing is normalized.
//!
//! The tables are read when they are first asked for.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use super::first_char;
use crate::string;

mod alphabet;
mod decode;
mod forms;

use alphabet::{Alphabet, push_highest, push_implicit};
use decode::{COMMON_SECONDARY, COMMON_TERTIARY, Element, Elements, decode};
use forms::{CharForms, Chars};

/// Between the levels of a form; below all codes.
const LEVEL_END: u8 = 1;

/// `utf8mb4_unicode_ci`.
pub static V400: Uca = Uca::new(&TABLE_400, true);
/// `utf8mb4_unicode_520_ci`.
pub static V520: Uca = Uca::new(&TABLE_520, true);
/// `utf8mb4_0900_ai_ci`.
pub static V900_AI_CI: Uca = Uca::new(&TABLE_900, false);
/// `utf8mb4_0900_as_cs`.
pub static V900_AS_CS: Uca = Uca::new(&TABLE_900_LEVELS, false);

static TABLE_400: LazyLock<Table> =
    LazyLock::new(|| Table::new(Version::V400, &decode(include_bytes!("400.bin"), false)));
static TABLE_520: LazyLock<Table> =
    LazyLock::new(|| Table::new(Version::V520, &decode(include_bytes!("520.bin"), false)));
static TABLE_900: LazyLock<Table> =
    LazyLock::new(|| Table::new(Version::V900, &decode(include_bytes!("900.bin"), true)));
static TABLE_900_LEVELS: LazyLock<Table> = LazyLock::new(|| {
    let elements = decode(include_bytes!("900.bin"), true);
    let higher = [secondary_code, tertiary_code].map(|code| {
        CharForms::of(elements.iter(), |elements, out| {
            out.extend(elements.iter().filter_map(code));
        })
    });
    Table {
        higher: Some(higher),
        ..Table::new(Version::V900, &elements)
    }
});

/// A collation by weights.
#[derive(Debug)]
pub struct Uca {
    table: &'static LazyLock<Table>,
    pads: bool,
    /// For each character the one that stands for it in LIKE.
    alike: OnceLock<Chars>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V400,
    V520,
    V900,
}

/// The forms of characters by a version of the algorithm.
#[derive(Debug)]
struct Table {
    version: Version,
    primary: CharForms,
    /// Secondary and tertiary weights, of a collation for which they count.
    higher: Option<[CharForms; 2]>,
    /// The codes of ASCII characters that have one of one byte, else 0.
    ascii: [u8; 128],
}

/// What a character of secondary weight is told by on its level.
fn secondary_code(element: &Element) -> Option<char> {
    let weight = element.secondary.checked_sub(COMMON_SECONDARY)?;
    char::from_u32(u32::from(weight) + u32::from(LEVEL_END) + 1)
}

fn tertiary_code(element: &Element) -> Option<char> {
    (element.tertiary > 0).then(|| char::from(element.tertiary))
}

/// The codes on the higher levels of characters in no table.
const IMPLICIT_HIGHER: [u8; 2] = [LEVEL_END + 1, COMMON_TERTIARY];

/// The letters that a syllable of Hangul is made of.
fn jamos(char: char) -> Option<impl Iterator<Item = char>> {
    const VOWELS: u32 = 21;
    const ENDS: u32 = 28;
    let syllable = u32::from(char).checked_sub(0xac00)?;
    let (first, vowel) = (syllable / (VOWELS * ENDS), syllable / ENDS % VOWELS);
    let end = syllable % ENDS;
    let all = [0x1100 + first, 0x1161 + vowel, 0x11a7 + end];
    let all = all.into_iter().take(if end == 0 { 2 } else { 3 });
    (syllable < 11_172).then(|| all.filter_map(char::from_u32))
}

impl Table {
    fn new(version: Version, elements: &Elements) -> Self {
        let alphabet = Alphabet::of(elements);
        let primary = CharForms::of(elements.iter(), |elements, out| {
            alphabet.push_all(elements.iter().map(|element| element.primary), out);
        });
        let mut ascii = [0; 128];
        for (byte, code) in (0..).zip(&mut ascii) {
            if let Some([only]) = primary.get(char::from(byte)) {
                *code = *only;
            }
        }
        Self {
            version,
            primary,
            higher: None,
            ascii,
        }
    }

    /// The characters that a character in no table weighs as, if there are some.
    fn parts(&self, char: char) -> Option<impl Iterator<Item = char>> {
        jamos(char).filter(|_| self.version == Version::V900)
    }

    /// Appends the primary form of a character.
    fn push(&self, char: char, out: &mut Vec<u8>) {
        if let Some(form) = self.primary.get(char) {
            return out.extend_from_slice(form);
        }
        if let Some(parts) = self.parts(char) {
            return parts.for_each(|part| self.push(part, out));
        }
        let mut code = String::new();
        match self.version {
            Version::V400 if u32::from(char) > 0xffff => push_highest(&mut code),
            version => push_implicit(char, version == Version::V900, &mut code),
        }
        out.extend_from_slice(code.as_bytes());
    }

    /// Appends the form of a character on a higher level.
    fn push_higher(&self, level: usize, forms: &CharForms, char: char, out: &mut Vec<u8>) {
        match (forms.get(char), self.parts(char)) {
            (Some(form), _) => out.extend_from_slice(form),
            (None, Some(parts)) => {
                parts.for_each(|part| self.push_higher(level, forms, part, out));
            }
            (None, None) => out.push(IMPLICIT_HIGHER[level]),
        }
    }

    /// Appends the form of one character by all levels that count.
    fn push_all(&self, char: char, out: &mut Vec<u8>) {
        self.push(char, out);
        for (level, forms) in self.higher.iter().flatten().enumerate() {
            out.push(LEVEL_END);
            self.push_higher(level, forms, char, out);
        }
    }

    /// For each character of the table another one of it with the same form, if there is one.
    fn alike(&self) -> Chars {
        let mut first = HashMap::new();
        let mut alike = Chars::default();
        for char in self.primary.chars() {
            let mut form = Vec::new();
            self.push_all(char, &mut form);
            let stands_for = *first.entry(form).or_insert(char);
            if stands_for != char {
                alike.set(char, stands_for);
            }
        }
        alike
    }
}

/// The characters of a text; bytes that are no character are one that stands for them.
fn chars(mut text: &[u8]) -> impl Iterator<Item = char> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (char, len) = first_char(text);
        text = &text[len..];
        Some(char.unwrap_or(char::REPLACEMENT_CHARACTER))
    })
}

impl Uca {
    const fn new(table: &'static LazyLock<Table>, pads: bool) -> Self {
        Self {
            table,
            pads,
            alike: OnceLock::new(),
        }
    }

    /// True if secondary and tertiary weights count.
    #[must_use]
    pub fn has_levels(&self) -> bool {
        self.table.higher.is_some()
    }

    /// What a text is compared by.
    #[must_use]
    pub fn form(&self, text: &[u8]) -> Vec<u8> {
        let table = &**self.table;
        let mut out = self.form_prefix(text);
        for (level, forms) in table.higher.iter().flatten().enumerate() {
            out.push(LEVEL_END);
            chars(text).for_each(|char| table.push_higher(level, forms, char, &mut out));
        }
        out
    }

    /// The first level of a form.
    #[must_use]
    pub fn form_prefix(&self, mut text: &[u8]) -> Vec<u8> {
        let table = &**self.table;
        let mut out = Vec::with_capacity(text.len() + 8);
        while let Some((&first, rest)) = text.split_first() {
            if first < 0x80 && table.ascii[usize::from(first)] != 0 {
                out.push(table.ascii[usize::from(first)]);
                text = rest;
                continue;
            }
            let (char, len) = first_char(text);
            table.push(char.unwrap_or(char::REPLACEMENT_CHARACTER), &mut out);
            text = &text[len..];
        }
        if self.pads {
            out.truncate(string::trim_end(&out).len());
        }
        out
    }

    /// The order of two texts.
    #[must_use]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let table = &**self.table;
        let code = |byte: u8| table.ascii.get(usize::from(byte)).copied().unwrap_or(0);
        let mut at = 0;
        while let (Some(x), Some(y)) = (a.get(at), b.get(at)) {
            match (code(*x), code(*y)) {
                (0, _) | (_, 0) => break,
                (x, y) if x != y => return x.cmp(&y),
                _ => at += 1,
            }
        }
        // What is equal on the first level may differ on a higher one.
        if table.higher.is_some() {
            at = 0;
        }
        let (a, b) = (self.form(&a[at..]), self.form(&b[at..]));
        match self.pads {
            true => string::compare(&a, &b),
            false => a.cmp(&b),
        }
    }

    /// The character that stands for all that LIKE takes for this one.
    #[must_use]
    pub fn alike(&self, char: char) -> char {
        let alike = self.alike.get_or_init(|| self.table.alike());
        alike.get(char).unwrap_or(char)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Lines of allkeys-9.0.0.txt: a character, and primary, secondary and tertiary weights of its elements.
    const EXCERPT: &str = "\
        0000 0000.0000.0000
        0009 0201.0020.0002
        0020 0209.0020.0002
        00A0 0209.0020.001B
        0301 0000.0024.0002
        0041 1C47.0020.0008
        0061 1C47.0020.0002
        00DF 1E71.0020.0004 0000.0110.0004 1E71.0020.0004
        00E1 1C47.0020.0002 0000.0024.0002
        FB01 1CE5.0020.0004 1D32.0020.0004
        F9F8 FB40.0020.0002 FB20.0000.0000
        FFFD FFFD.0020.0002";

    #[test]
    fn the_file_has_the_weights_of_the_table_of_unicode() {
        let elements = decode(include_bytes!("900.bin"), true);
        assert_eq!(elements.iter().count(), 29_809);
        for line in EXCERPT.lines() {
            let mut parts = line.split_whitespace();
            let hex = |text: &str| u32::from_str_radix(text, 16).unwrap();
            let char = parts.next().and_then(|char| char::from_u32(hex(char)));
            let (_, found) = elements.iter().find(|(c, _)| Some(*c) == char).unwrap();
            let expected: Vec<_> = parts
                .map(|element| {
                    let weights: Vec<_> = element.split('.').map(hex).collect();
                    Element {
                        primary: weights[0] as u16,
                        secondary: weights[1] as u16,
                        tertiary: weights[2] as u8,
                    }
                })
                .collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn codes_order_as_weights_do() {
        let table = &**V900_AI_CI.table;
        let form = |char| {
            let mut out = Vec::new();
            table.push(char, &mut out);
            out
        };
        // A tone mark, punctuation, digits, Latin, Greek, a Tangut, ideographs, one of a later block, and no character.
        let ascending =
            "\t .0aøzαя\u{17000}一鿕\u{fa0e}\u{3400}\u{20000}\u{e000}\u{10ffff}\u{fffd}";
        let chars: Vec<char> = ascending.chars().collect();
        for pair in chars.windows(2) {
            assert!(form(pair[0]) < form(pair[1]), "{pair:?}");
        }
        assert_eq!(form('z').len(), 1, "what is frequent is short");
        assert_eq!(form('一').len(), 3);
        assert_eq!(
            form('\u{f900}'),
            form('\u{8c48}'),
            "an ideograph for compatibility"
        );
    }
}
