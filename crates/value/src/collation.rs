//! What strings are compared by. Under `utf8mb4_general_ci` a character has one weight, that of all
//! its variants: `a`, `A` and `ä` are the same. Weights are characters themselves, those of the
//! variant that stands for all (`A`), so the weights of a string are a string, and comparing weights as
//! `utf8mb4_bin` compares strings is comparing under `utf8mb4_general_ci`. A weight is its own weight,
//! and wildcards, the backslash and the space are the weight of no other character.
//!
//! All functions take bytes and are total: bytes that are not UTF-8 are their own weights.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::{Collation, string};

mod general_ci;

/// Characters behind U+FFFF all have one weight.
const SUPPLEMENTARY: u16 = 0xfffd;

/// Characters of one page of the table.
const PAGE: usize = 256;

/// Pages that have a character whose weight is another.
const PAGES: usize = 11;

/// Weights of the pages, and for each high byte of a character the number of its page plus 1, or 0.
struct Table {
    page_of: [u8; PAGE],
    weights: [[u16; PAGE]; PAGES],
}

static TABLE: Table = table();

const fn table() -> Table {
    let mut table = Table {
        page_of: [0; PAGE],
        weights: [[0; PAGE]; PAGES],
    };
    let (mut pages, mut run) = (0, 0);
    while run < general_ci::RUNS.len() {
        let (first, last, step, mut weight, advance) = general_ci::RUNS[run];
        // Wider than a character, so that the step behind the last one does not overflow.
        let mut char = first as usize;
        while char <= last as usize {
            let high = char / PAGE;
            if table.page_of[high] == 0 {
                let mut low = 0;
                while low < PAGE {
                    table.weights[pages][low] = (high * PAGE + low) as u16;
                    low += 1;
                }
                pages += 1;
                table.page_of[high] = pages as u8;
            }
            table.weights[table.page_of[high] as usize - 1][char % PAGE] = weight;
            weight = weight.wrapping_add(advance);
            char += step as usize;
        }
        run += 1;
    }
    table
}

/// The weight of a character, as a character.
#[inline]
#[must_use]
pub fn weight(char: char) -> char {
    let weight = match u16::try_from(u32::from(char)) {
        Err(_) => SUPPLEMENTARY,
        Ok(code) => match TABLE.page_of[usize::from(code >> 8)] {
            0 => return char,
            page => TABLE.weights[usize::from(page) - 1][usize::from(code) % PAGE],
        },
    };
    char::from_u32(u32::from(weight)).unwrap_or(char)
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

/// Appends the weights of a text.
pub fn append_weights(mut text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len());
    while !text.is_empty() {
        let (char, len) = first_char(text);
        match char {
            Ok(char) => {
                let mut buffer = [0; 4];
                out.extend_from_slice(weight(char).encode_utf8(&mut buffer).as_bytes());
            }
            Err(byte) => out.push(byte),
        }
        text = &text[len..];
    }
}

/// True if a text is its own weights.
fn is_weights(mut text: &[u8]) -> bool {
    while !text.is_empty() {
        let (char, len) = first_char(text);
        if char.is_ok_and(|char| weight(char) != char) {
            return false;
        }
        text = &text[len..];
    }
    true
}

/// The weights of a text.
#[must_use]
pub fn weights(text: &[u8]) -> Cow<'_, [u8]> {
    if is_weights(text) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::new();
    append_weights(text, &mut out);
    Cow::Owned(out)
}

/// What the strings of a collation are compared by, bytewise but for padding: their weights, or
/// themselves.
#[must_use]
pub fn compared_by(collation: Collation, text: &[u8]) -> Cow<'_, [u8]> {
    match collation {
        Collation::UTF8MB4_GENERAL_CI => weights(text),
        _ => Cow::Borrowed(text),
    }
}

/// The order of two strings in a collation.
#[inline]
#[must_use]
pub fn compare(collation: Collation, a: &[u8], b: &[u8]) -> Ordering {
    match collation {
        Collation::BINARY => a.cmp(b),
        Collation::UTF8MB4_GENERAL_CI => compare_weights(a, b),
        _ => string::compare(a, b),
    }
}

/// Compares as `utf8mb4_general_ci` does: by weights, as if both strings were padded with spaces.
#[must_use]
pub fn compare_weights(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !a.is_empty() && !b.is_empty() {
        if a[0] < 0x80 && b[0] < 0x80 {
            let weights = &TABLE.weights[usize::from(TABLE.page_of[0]) - 1];
            match weights[usize::from(a[0])].cmp(&weights[usize::from(b[0])]) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
            (a, b) = (&a[1..], &b[1..]);
            continue;
        }
        let ((x, x_len), (y, y_len)) = (first_char(a), first_char(b));
        match (x, y) {
            (Ok(x), Ok(y)) => match weight(x).cmp(&weight(y)) {
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
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_weights(text: &str) -> String {
        String::from_utf8(weights(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn variants_of_a_character_have_one_weight() {
        assert_eq!(text_weights("aAäÅ"), "AAAA");
        assert_eq!(text_weights("Straße"), "STRASE");
        assert_eq!(text_weights("ñµøæ"), "N\u{39c}\u{d8}\u{c6}");
        assert_eq!(text_weights("ωώ я"), "\u{3a9}\u{3a9} \u{42f}");
        assert_eq!(text_weights("ａ中"), "\u{ff21}中");
        assert_eq!(
            text_weights("😀\u{10ffff}\u{fffd}"),
            "\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn the_table_has_no_free_page() {
        let pages = TABLE.page_of.iter().filter(|page| **page > 0).count();
        assert_eq!(pages, PAGES);
    }

    #[test]
    fn weights_are_their_own_weights_and_spare_what_patterns_are_made_of() {
        for char in '\u{0}'..=char::MAX {
            let weighed = weight(char);
            assert_eq!(weight(weighed), weighed, "{char:?}");
            let plain = ['%', '_', '\\', ' '].contains(&weighed);
            assert!(!plain || weighed == char, "{char:?}");
            assert!(u32::from(weighed) <= 0xffff, "{char:?}");
        }
    }

    #[test]
    fn padding_is_that_of_all_texts() {
        let order = |a: &str, b: &str| compare_weights(a.as_bytes(), b.as_bytes());
        assert_eq!(order("a", "A   "), Ordering::Equal);
        assert_eq!(order("A\t", "a"), Ordering::Less);
        assert_eq!(order("a  B", "A"), Ordering::Greater);
        assert_eq!(order("B", "a"), Ordering::Greater);
        assert_eq!(
            order("_", "a"),
            Ordering::Greater,
            "letters weigh as capitals"
        );
        assert_eq!(order("😀", "🚀"), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn comparing_is_comparing_weights(
            a in "[\t !aAbBäßéÉ😀]{0,6}",
            b in "[\t !aAbBäßéÉ😀]{0,6}",
        ) {
            let expected = string::compare(text_weights(&a).as_bytes(), text_weights(&b).as_bytes());
            prop_assert_eq!(compare_weights(a.as_bytes(), b.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_are_compared_by_their_weights(
            a in prop::collection::vec(any::<u8>(), 0..12),
            b in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let expected = string::compare(&weights(&a), &weights(&b));
            prop_assert_eq!(compare_weights(&a, &b), expected);
            prop_assert_eq!(compare_weights(&b, &a), expected.reverse());
            prop_assert_eq!(weights(&a).len() <= 3 * a.len(), true);
        }
    }
}
