//! IN lists of many literals: they are cut out of a text before it is split into tokens, and the binder reads their
//! values. Tokens, trees and expressions take two kilobytes for each value of a list.
//!
//! One pass over the bytes decides. Only lists of whole numbers and lists of strings without backslashes are
//! cut; others are parsed as all else is.

use std::borrow::Cow;

use perigee_sql_bind::{ListItem, ListItems};

use super::scan::Scan;

/// Texts that are not longer are parsed as a whole, in bytes.
const LONG: usize = 64 << 10;

/// Values that a list has that is cut. With fewer, keys and storage are asked for each of them.
const LEAST: usize = 10_000;

/// Digits of numbers that are integers whatever their digits are.
const DIGITS: usize = 18;

/// What the name that stands for a list begins with; its number follows.
const NAME: &str = "/list@";

/// First words of the statements whose lists are cut.
const STATEMENTS: [&str; 6] = ["SELECT", "WITH", "UPDATE", "DELETE", "INSERT", "REPLACE"];

/// The lists that were cut out of a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongLists<'a>(&'a [&'a str]);

impl<'a> LongLists<'a> {
    /// Lists that [`cut`] gave.
    pub(super) fn new(lists: &'a [&'a str]) -> Self {
        Self(lists)
    }

    /// The values of the list that a name stands for.
    #[must_use]
    pub fn named(self, name: &str) -> Option<ListItems<'a>> {
        let number: usize = name.strip_prefix(NAME)?.parse().ok()?;
        Some(items(self.0.get(number)?))
    }

    /// A part of the text as it was written.
    #[must_use]
    pub fn written(self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(&format!("`{NAME}")) {
            let (number, behind) = after.split_once('`')?;
            out.push_str(before);
            out.push_str(self.0.get(number.parse::<usize>().ok()?)?);
            rest = behind;
        }
        out.push_str(rest);
        Some(out)
    }
}

/// Cuts the long lists out of a text. What remains has names in their places, and as many lines.
pub(super) fn cut(text: &str) -> Option<(String, Vec<&str>)> {
    if text.len() <= LONG || text.contains(NAME) {
        return None;
    }
    let mut scan = Scan {
        text,
        at: 0,
        escapes: true,
    };
    scan.white();
    let first = scan.word();
    if !STATEMENTS
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
    {
        return None;
    }
    let (mut remaining, mut lists, mut copied) = (String::new(), Vec::new(), 0);
    while let Some(byte) = scan.peek() {
        if !is_word(byte) {
            other(&mut scan)?;
            continue;
        }
        let start = scan.at;
        scan.skip(is_word);
        let end = scan.at;
        if !text[start..end].eq_ignore_ascii_case("IN") {
            continue;
        }
        let Some((from, to)) = list(&mut scan) else {
            scan.at = end;
            continue;
        };
        remaining.push_str(&text[copied..from]);
        remaining.push_str(&format!("`{NAME}{}`", lists.len()));
        let lines = text[from..to].bytes().filter(|byte| *byte == b'\n');
        remaining.extend(lines.map(|_| '\n'));
        lists.push(&text[from..to]);
        (copied, scan.at) = (to, to);
    }
    if lists.is_empty() {
        return None;
    }
    remaining.push_str(&text[copied..]);
    Some((remaining, lists))
}

/// A byte of a word, or of a number.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'@' | 0x80..)
}

/// Passes over a byte that is of no word, and over the string, name or comment that begins with it.
fn other(scan: &mut Scan<'_>) -> Option<()> {
    let byte = scan.peek()?;
    scan.at += 1;
    let end = match (byte, scan.peek()) {
        (b'\'' | b'"', _) => return scan.string(byte),
        (b'`', _) => "`",
        (b'#', _) => "\n",
        (b'/', Some(b'*')) => "*/",
        (b'-', Some(b'-')) => {
            // Two minus signs, or a comment.
            let next = scan.text.as_bytes().get(scan.at + 1);
            next.filter(|byte| byte.is_ascii_whitespace())?;
            "\n"
        }
        _ => return Some(()),
    };
    scan.at += scan.text[scan.at..].find(end)? + end.len();
    Some(())
}

/// Where the values of a long list are that is next, without its parentheses.
fn list(scan: &mut Scan<'_>) -> Option<(usize, usize)> {
    scan.white();
    if scan.peek() != Some(b'(') {
        return None;
    }
    scan.at += 1;
    let from = scan.at;
    let mut kind = None;
    for count in 1_usize.. {
        scan.white();
        let found = value(scan)?;
        if *kind.get_or_insert(found) != found {
            return None;
        }
        scan.white();
        match scan.peek()? {
            b',' => scan.at += 1,
            b')' if count >= LEAST => return Some((from, scan.at)),
            _ => return None,
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
}

/// Passes over a plain value.
fn value(scan: &mut Scan<'_>) -> Option<Kind> {
    match scan.peek()? {
        b'\'' => {
            scan.at += 1;
            let start = scan.at;
            while scan.peek()? != b'\'' || scan.text.as_bytes().get(scan.at + 1) == Some(&b'\'') {
                scan.at += 1 + usize::from(scan.peek() == Some(b'\''));
            }
            scan.at += 1;
            (!scan.text[start..scan.at].contains('\\')).then_some(Kind::Text)
        }
        byte => {
            scan.at += usize::from(byte == b'-');
            let start = scan.at;
            scan.skip(|byte| byte.is_ascii_digit());
            (1..=DIGITS)
                .contains(&(scan.at - start))
                .then_some(Kind::Number)
        }
    }
}

/// The values of a list that was cut.
fn items(list: &str) -> ListItems<'_> {
    let mut scan = Scan {
        text: list,
        at: 0,
        escapes: true,
    };
    scan.white();
    if scan.peek() == Some(b'\'') {
        return Box::new(Texts(scan));
    }
    let numbers = list.split(',').map(|number| {
        let number = number.trim().parse();
        ListItem::Integer(number.expect("a list of numbers was cut"))
    });
    Box::new(numbers)
}

/// Strings with commas between them.
struct Texts<'a>(Scan<'a>);

impl<'a> Iterator for Texts<'a> {
    type Item = ListItem<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self(scan) = self;
        scan.white();
        let start = scan.at + 1;
        value(scan)?;
        let text = &scan.text[start..scan.at - 1];
        scan.comma();
        Some(ListItem::Text(match text.contains('\'') {
            true => Cow::Owned(text.replace("''", "'")),
            false => Cow::Borrowed(text),
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    fn many(item: impl Fn(usize) -> String) -> String {
        (0..LEAST).map(item).collect::<Vec<_>>().join(" ,\n")
    }

    #[test]
    fn lists_become_values_and_texts_stay_what_they_were() {
        let numbers = many(|i| {
            if i % 2 == 0 {
                format!("-{i}")
            } else {
                i.to_string()
            }
        });
        let texts = many(|i| format!("'it''s, {i})é'"));
        let text = format!(
            "SELECT a IN (1, 2), 'x IN (1)' /* in */ FROM t WHERE a IN ({numbers}) -- in (\n\
             AND s NOT in ( {texts}) LIMIT 1"
        );
        let (remaining, lists) = cut(&text).unwrap();
        assert_eq!(lists.len(), 2);
        assert_eq!(lists[0], numbers);
        let lines = |text: &str| text.matches('\n').count();
        assert_eq!(lines(&remaining), lines(&text));
        assert!(remaining.len() < 3 * LEAST, "{}", remaining.len());
        let squeezed = |text: &str| text.replace('\n', "");
        let long = LongLists::new(&lists);
        assert_eq!(
            squeezed(&long.written(&remaining).unwrap()),
            squeezed(&text)
        );
        let found: Vec<_> = long.named("/list@0").unwrap().collect();
        assert_eq!(found.len(), LEAST);
        assert_eq!(found[1..3], [1, -2].map(ListItem::Integer));
        let found: Vec<_> = long.named("/list@1").unwrap().collect();
        assert_eq!(found.len(), LEAST);
        let last = format!("it's, {})é", LEAST - 1);
        assert_eq!(found[LEAST - 1], ListItem::Text(last.into()));
        assert!(long.named("/list@2").is_none() && long.named("a").is_none());
    }

    #[test]
    fn what_is_not_plain_stays_in_the_text() {
        for (items, statement) in [
            (many(|i| format!("{i}.5")), "SELECT"),
            (many(|i| format!("'{i}\\n'")), "SELECT"),
            (many(|i| format!("a{i}")), "SELECT"),
            (many(|i| format!("{i}1234567890123456789")), "SELECT"),
            (
                many(|i| {
                    if i == 7 {
                        "'7'".to_owned()
                    } else {
                        "7777".to_owned()
                    }
                }),
                "SELECT",
            ),
            (
                many(|i| {
                    if i == 7 {
                        "NULL".to_owned()
                    } else {
                        "7777".to_owned()
                    }
                }),
                "SELECT",
            ),
            (many(|i| format!("{i} + 1")), "SELECT"),
            (many(|i| format!("'{i}'")), "EXPLAIN"),
            (many(|i| format!("'{i} /list@0'")), "SELECT"),
            (many(|i| format!("{i:05}")), "SELECT 5--1,"),
            (many(|i| format!("{i:05}")), "SELECT '1' /* ' */ , 'x IN ("),
        ] {
            let text = format!("{statement} 1 FROM t WHERE a IN ({items})");
            assert!(text.len() > LONG);
            assert!(cut(&text).is_none(), "{:.60}", text);
        }
        let short = format!("SELECT 1 IN (1, 2), '{}'", "x".repeat(LONG));
        assert!(cut(&short).is_none());
    }
}
