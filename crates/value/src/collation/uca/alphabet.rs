//! Primary weights as texts: the codes that forms are made of.
//!
//! A code is one or two characters, no code is a prefix of another one, and codes order as their weights do. The space
//! is itself, so that what pads with spaces pads forms, too; weights below the space have characters below it. Letters and
//! digits of ASCII and some punctuation, the *frequent* ones, have one byte each. What lies between two of these has a byte
//! of its own, with a character behind it; what lies above all of them is one character, and ideographs are, too.

use std::collections::{BTreeMap, BTreeSet};

use super::decode::Elements;

/// Weights that are the first half of two: bases of characters that no table has.
const BASES: std::ops::Range<u16> = 0xfb00..0xfc00;
/// Base of characters that are not ideographs.
const OTHER_BASE: u16 = 0xfbc0;
/// Base of the ideographs of later blocks.
const RARE_BASE: u16 = 0xfb80;
/// Base of ideographs.
const IDEOGRAPH_BASE: u16 = 0xfb40;

/// The character that [`Alphabet::implicit`] gives the least ideograph, U+3400 upwards being possible.
const IDEOGRAPHS: u32 = 0x6000;
/// The same of Tangut, of which there are 7,000.
const TANGUT: u32 = 0x4400;
/// The same of the ideographs of later blocks.
const RARE: u32 = 0x1_0000;
/// The same of everything else: one for each 32,768 characters, and another one behind it.
const OTHER: u32 = 0xf_0000;
/// The second one.
const OTHER_LOW: u32 = 0x4000;
/// The weight above all others, that of U+FFFD.
const HIGHEST: u16 = 0xfffd;

/// Codes of primary weights.
pub(super) struct Alphabet {
    codes: BTreeMap<u16, String>,
}

/// Characters whose weights have one byte each.
const FREQUENT: &str = "_-,./:@0123456789abcdefghijklmnopqrstuvwxyz";

fn char_of(number: u32) -> char {
    char::from_u32(number).expect("V3: codes leave surrogates out")
}

impl Alphabet {
    /// Codes for all weights of a table.
    pub fn of(table: &Elements) -> Self {
        let (mut weights, mut frequent) = (BTreeSet::new(), BTreeSet::new());
        let mut space = 0;
        for (char, elements) in table.iter() {
            let mut is_second = false;
            for element in elements {
                let is_base = !is_second && BASES.contains(&element.primary);
                if element.primary > 0 && !is_base && !is_second {
                    weights.insert(element.primary);
                }
                is_second = is_base;
            }
            match (char, elements) {
                (' ', [only]) => space = only.primary,
                (char, [only]) if FREQUENT.contains(char) => {
                    frequent.insert(only.primary);
                }
                _ => {}
            }
        }
        Self {
            codes: codes(&weights, space, &frequent),
        }
    }

    /// Appends the code of a weight that is not a half of two.
    fn push(&self, weight: u16, out: &mut String) {
        out.push_str(&self.codes[&weight]);
    }

    /// Appends the codes of weights.
    pub fn push_all(&self, weights: impl IntoIterator<Item = u16>, out: &mut String) {
        let mut weights = weights.into_iter().filter(|weight| *weight > 0);
        while let Some(weight) = weights.next() {
            match BASES.contains(&weight) {
                true => {
                    let low = weights.next().expect("V3: bases have second halves");
                    implicit(weight, low, out);
                }
                false => self.push(weight, out),
            }
        }
    }
}

fn codes(weights: &BTreeSet<u16>, space: u16, frequent: &BTreeSet<u16>) -> BTreeMap<u16, String> {
    let mut codes = BTreeMap::new();
    // 1 lies below all codes: it separates levels.
    for (weight, code) in weights.range(..space).zip(2..) {
        assert!(
            code < u32::from(b' '),
            "V3: few weights are below the space"
        );
        codes.insert(*weight, char_of(code).to_string());
    }
    codes.insert(space, ' '.to_string());
    let mut byte = u32::from(b' ');
    let mut gap = None;
    let last = *frequent.last().expect("V3: ASCII has weights");
    for weight in weights.range(space + 1..=last) {
        let code = if frequent.contains(weight) {
            (byte, gap) = (byte + 1, None);
            char_of(byte).to_string()
        } else {
            let (first, next) = gap.unwrap_or_else(|| {
                byte += 1;
                (byte, 0x80)
            });
            gap = Some((first, next + 1));
            String::from_iter([char_of(first), char_of(next)])
        };
        codes.insert(*weight, code);
    }
    assert!(byte < 0x7f, "V3: frequent weights have codes of a byte");
    for (weight, code) in weights
        .range(last + 1..)
        .filter(|w| **w != HIGHEST)
        .zip(0x80..)
    {
        assert!(
            code < TANGUT,
            "V3: codes of weights and of ideographs are disjoint"
        );
        codes.insert(*weight, char_of(code).to_string());
    }
    codes.insert(HIGHEST, char::MAX.to_string());
    codes
}

/// Appends the code of two weights that stand for a character in no table.
fn implicit(base: u16, low: u16, out: &mut String) {
    let low = u32::from(low & 0x7fff);
    let high = |first: u16| u32::from(base - first) << 15;
    if base < IDEOGRAPH_BASE {
        out.push(char_of(TANGUT + low));
    } else if base < RARE_BASE {
        // U+4E00 to U+9FFF, then a few from U+FA0E.
        let char = high(IDEOGRAPH_BASE) + low;
        let code = match char < 0xa000 {
            true => char - 0x4e00,
            false => char - 0xfa00 + 0x5200,
        };
        out.push(char_of(IDEOGRAPHS + code));
    } else if base < OTHER_BASE {
        out.push(char_of(RARE + high(RARE_BASE) + low));
    } else {
        out.push(char_of(OTHER + u32::from(base - OTHER_BASE)));
        out.push(char_of(OTHER_LOW + low));
    }
}

/// Appends the code of the weight above all others.
pub(super) fn push_highest(out: &mut String) {
    out.push(char::MAX);
}

/// Appends the code of a character in no table, of version 9.0.0 or before it.
pub(super) fn push_implicit(char: char, is_900: bool, out: &mut String) {
    let code = u32::from(char);
    if is_900 && (0x1_7000..=0x1_8aff).contains(&code) {
        return implicit(0xfb00, (code - 0x1_7000) as u16 | 0x8000, out);
    }
    let first = match is_900 {
        true => base_900(code),
        false => base_before_900(code),
    };
    implicit(
        first + (code >> 15) as u16,
        (code & 0x7fff) as u16 | 0x8000,
        out,
    );
}

const fn base_900(code: u32) -> u16 {
    match code {
        0x4e00..=0x9fd5
        | 0xfa0e
        | 0xfa0f
        | 0xfa11
        | 0xfa13
        | 0xfa14
        | 0xfa1f
        | 0xfa21
        | 0xfa23
        | 0xfa24
        | 0xfa27..=0xfa29 => IDEOGRAPH_BASE,
        0x3400..=0x4db5
        | 0x2_0000..=0x2_a6d6
        | 0x2_a700..=0x2_b734
        | 0x2_b740..=0x2_b81d
        | 0x2_b820..=0x2_cea1 => RARE_BASE,
        _ => OTHER_BASE,
    }
}

const fn base_before_900(code: u32) -> u16 {
    match code {
        0x4e00..=0x9fa5 => IDEOGRAPH_BASE,
        0x3400..=0x4db5 => RARE_BASE,
        _ => OTHER_BASE,
    }
}
