//! Strings as `utf8mb4_bin` sees them: code point order, trailing spaces do not count; and
//! operations that count characters.
//!
//! All functions take bytes and are total: bytes that are not UTF-8 give some answer, no panic.

use std::cmp::Ordering;

/// Compares as `utf8mb4_bin` does: as if both strings were padded with spaces.
#[inline]
#[must_use]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.len().min(b.len());
    match a[..common].cmp(&b[..common]) {
        Ordering::Equal => {
            if a.len() >= b.len() {
                compare_with_spaces(&a[common..])
            } else {
                compare_with_spaces(&b[common..]).reverse()
            }
        }
        unequal => unequal,
    }
}

/// Compares `rest` with as many spaces.
fn compare_with_spaces(rest: &[u8]) -> Ordering {
    rest.iter()
        .find(|byte| **byte != b' ')
        .map_or(Ordering::Equal, |byte| byte.cmp(&b' '))
}

/// `text` without trailing spaces.
#[inline]
#[must_use]
pub fn trim_end(text: &[u8]) -> &[u8] {
    let len = text
        .iter()
        .rposition(|byte| *byte != b' ')
        .map_or(0, |last| last + 1);
    &text[..len]
}

/// Number of characters.
#[inline]
#[must_use]
pub fn char_count(text: &[u8]) -> usize {
    text.iter().filter(|byte| starts_char(**byte)).count()
}

/// `SUBSTRING(text, start, length)`: characters counted from 1, or from the end if `start` is
/// negative; empty if `start` is 0, lies outside, or `length` is not positive.
#[must_use]
pub fn substring(text: &[u8], start: i64, length: Option<i64>) -> &[u8] {
    if start == 0 || length.is_some_and(|length| length <= 0) {
        return &[];
    }
    let from = if start > 0 {
        match nth_char(text, start as u64 - 1) {
            Some(from) => from,
            None => return &[],
        }
    } else {
        let Some(skip) = (char_count(text) as u64).checked_sub(start.unsigned_abs()) else {
            return &[];
        };
        nth_char(text, skip).unwrap_or(text.len())
    };
    let rest = &text[from..];
    match length {
        Some(length) => &rest[..nth_char(rest, length as u64).unwrap_or(rest.len())],
        None => rest,
    }
}

/// Offset of character `n`, if there are more than `n`.
fn nth_char(text: &[u8], n: u64) -> Option<usize> {
    // In ASCII prefixes character and byte numbers agree.
    if n < text.len() as u64 && text[..=n as usize].is_ascii() {
        return Some(n as usize);
    }
    let starts = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| starts_char(**byte));
    starts.map(|(at, _)| at).nth(usize::try_from(n).ok()?)
}

/// True for the first byte of a UTF-8 sequence.
#[inline]
pub(crate) fn starts_char(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trailing_spaces_do_not_count() {
        assert_eq!(compare(b"a", b"a   "), Ordering::Equal);
        assert_eq!(compare(b"", b"  "), Ordering::Equal);
        assert_eq!(compare(b"a\t", b"a"), Ordering::Less);
        assert_eq!(compare(b"a", b"a!"), Ordering::Less);
        assert_eq!(compare(b"a  b", b"a"), Ordering::Greater);
        assert_eq!(compare(b"a \t", b"a"), Ordering::Less);
        assert_eq!(compare("é".as_bytes(), "z".as_bytes()), Ordering::Greater);
    }

    #[test]
    fn substrings_count_characters() {
        let text = "aé€😀z".as_bytes();
        let sub = |start, length| std::str::from_utf8(substring(text, start, length)).unwrap();
        assert_eq!(sub(1, Some(2)), "aé");
        assert_eq!(sub(3, None), "€😀z");
        assert_eq!(sub(-2, Some(1)), "😀");
        assert_eq!(sub(-5, None), "aé€😀z");
        assert_eq!((sub(-6, None), sub(0, None), sub(6, None)), ("", "", ""));
        assert_eq!((sub(1, Some(0)), sub(1, Some(-1))), ("", ""));
        assert_eq!(sub(5, Some(i64::MAX)), "z");
        assert_eq!((sub(i64::MAX, None), sub(i64::MIN, None)), ("", ""));
    }

    proptest! {
        #[test]
        fn compare_equals_padding(a in "[\t !ab]{0,5}", b in "[\t !ab]{0,5}") {
            let expected = format!("{a:8}").cmp(&format!("{b:8}"));
            prop_assert_eq!(compare(a.as_bytes(), b.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_are_fine(text in prop::collection::vec(any::<u8>(), 0..20), start: i64, length: Option<i64>) {
            let _ = substring(&text, start, length);
            let _ = substring(&text, start % 8, length.map(|l| l % 8));
            let _ = char_count(&text);
        }
    }
}
