//! Parts, cases, paddings and positions of strings.

use perigee_value::{Collation, string};

use super::Kind::{Bytes, Int, Text};
use super::{Call, Function, INT, MANY, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["concat"],
        (1, MANY),
        &[Text],
        TEXT,
        "The strings one after the other.",
        concat,
    ),
    Function::new(
        &["substring", "substr", "mid"],
        (2, 3),
        &[Text, Int, Int],
        TEXT,
        "The part of a string from a position on, of a length.",
        |c| {
            let length = c.has(2).then(|| c.int(2));
            Ok(part(string::substring(
                c.text(0).as_bytes(),
                c.int(1),
                length,
            )))
        },
    ),
    Function::new(
        &["left"],
        (2, 2),
        &[Text, Int],
        TEXT,
        "The first characters.",
        |c| {
            Ok(part(string::substring(
                c.text(0).as_bytes(),
                1,
                Some(c.int(1)),
            )))
        },
    ),
    Function::new(
        &["right"],
        (2, 2),
        &[Text, Int],
        TEXT,
        "The last characters.",
        |c| {
            let chars = c.text(0).chars().count();
            let count = usize::try_from(c.int(1)).unwrap_or(0).min(chars);
            Ok(Value::text(&c.text(0)[byte_at(c.text(0), chars - count)..]))
        },
    ),
    Function::new(
        &["length", "octet_length"],
        (1, 1),
        &[Bytes],
        INT,
        "Bytes of a string.",
        |c| Ok(Value::Int(c.bytes(0).len() as i64)),
    ),
    Function::new(
        &["bit_length"],
        (1, 1),
        &[Bytes],
        INT,
        "Bits of a string.",
        |c| Ok(Value::Int(8 * c.bytes(0).len() as i64)),
    ),
    Function::new(
        &["char_length", "character_length"],
        (1, 1),
        &[Text],
        INT,
        "Characters of a string.",
        |c| Ok(Value::Int(c.text(0).chars().count() as i64)),
    ),
    Function::new(
        &["upper", "ucase"],
        (1, 1),
        &[Text],
        TEXT,
        "A string in capitals.",
        |c| Ok(cased(c, char::to_uppercase)),
    ),
    Function::new(
        &["lower", "lcase"],
        (1, 1),
        &[Text],
        TEXT,
        "A string in small letters.",
        |c| Ok(cased(c, char::to_lowercase)),
    ),
    Function::new(
        &["trim"],
        (1, 2),
        &[Text],
        TEXT,
        "A string without spaces, or something else, around it.",
        |c| {
            Ok(Value::text(strip_end(
                strip_start(c.text(0), cut(c)),
                cut(c),
            )))
        },
    ),
    Function::new(
        &["ltrim"],
        (1, 2),
        &[Text],
        TEXT,
        "A string without spaces before it.",
        |c| Ok(Value::text(strip_start(c.text(0), cut(c)))),
    ),
    Function::new(
        &["rtrim"],
        (1, 2),
        &[Text],
        TEXT,
        "A string without spaces behind it.",
        |c| Ok(Value::text(strip_end(c.text(0), cut(c)))),
    ),
    Function::new(
        &["reverse"],
        (1, 1),
        &[Text],
        TEXT,
        "The characters from the last to the first.",
        |c| Ok(Value::text(c.text(0).chars().rev().collect::<String>())),
    ),
    Function::new(
        &["replace"],
        (3, 3),
        &[Text],
        TEXT,
        "A string with a part replaced wherever it occurs.",
        replace,
    ),
    Function::new(
        &["locate", "position"],
        (2, 3),
        &[Text, Text, Int],
        INT,
        "The position of a string in another one.",
        |c| {
            let from = if c.has(2) { c.int(2) } else { 1 };
            Ok(Value::Int(locate(c, c.text(0), c.text(1), from)))
        },
    )
    .by_collation(),
    Function::new(
        &["instr"],
        (2, 2),
        &[Text],
        INT,
        "As LOCATE, with its arguments exchanged.",
        |c| Ok(Value::Int(locate(c, c.text(1), c.text(0), 1))),
    )
    .by_collation(),
    Function::new(
        &["lpad"],
        (3, 3),
        &[Text, Int, Text],
        TEXT,
        "A string filled up or cut to a length, at its beginning.",
        |c| {
            Ok(Value::or_null(
                padding(c).map(|(text, fill)| Value::text(fill + text)),
            ))
        },
    ),
    Function::new(
        &["rpad"],
        (3, 3),
        &[Text, Int, Text],
        TEXT,
        "A string filled up or cut to a length, at its end.",
        |c| {
            Ok(Value::or_null(
                padding(c).map(|(text, fill)| Value::text(text.to_owned() + &fill)),
            ))
        },
    ),
    Function::new(
        &["repeat"],
        (2, 2),
        &[Text, Int],
        TEXT,
        "A string several times.",
        |c| Ok(repeat(c, c.text(0), c.int(1))),
    ),
    Function::new(&["space"], (1, 1), &[Int], TEXT, "So many spaces.", |c| {
        Ok(repeat(c, " ", c.int(0)))
    }),
    Function::new(
        &["insert"],
        (4, 4),
        &[Text, Int, Int, Text],
        TEXT,
        "A string in which a part is replaced.",
        insert,
    ),
    Function::new(
        &["substring_index"],
        (3, 3),
        &[Text, Text, Int],
        TEXT,
        "What stands before the n-th occurrence of a delimiter.",
        |c| {
            Ok(Value::text(before_delimiter(
                c.text(0),
                c.text(1),
                c.int(2),
            )))
        },
    ),
    Function::new(
        &["ascii"],
        (1, 1),
        &[Bytes],
        INT,
        "The number of the first byte.",
        |c| {
            Ok(Value::Int(
                c.bytes(0).first().map_or(0, |byte| i64::from(*byte)),
            ))
        },
    ),
];

fn part<'a>(bytes: &'a [u8]) -> Value<'a> {
    Value::Text(String::from_utf8_lossy(bytes))
}

/// Where a character begins, or where the text ends.
pub(super) fn byte_at(text: &str, char: usize) -> usize {
    text.char_indices()
        .nth(char)
        .map_or(text.len(), |(at, _)| at)
}

fn concat<'a>(c: &Call<'a>) -> Outcome<'a> {
    let length = (0..c.count()).map(|i| c.text(i).len()).sum();
    if !c.has_room(length) {
        return Ok(Value::Null);
    }
    let mut all = String::with_capacity(length);
    (0..c.count()).for_each(|i| all.push_str(c.text(i)));
    Ok(Value::text(all))
}

fn replace<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (text, what, by) = (c.text(0), c.text(1), c.text(2));
    if what.is_empty() {
        return Ok(Value::text(text));
    }
    let grows = by.len().saturating_sub(what.len());
    let length = text.len() + text.matches(what).count().saturating_mul(grows);
    match c.has_room(length) {
        true => Ok(Value::text(text.replace(what, by))),
        false => Ok(Value::Null),
    }
}

/// A text in another case, as MySQL has it: each character becomes one character or stays, `ß` for example.
fn cased<'a, I>(c: &Call<'a>, case: fn(char) -> I) -> Value<'a>
where
    I: ExactSizeIterator<Item = char>,
{
    // Bytes have no case.
    if c.over_bytes {
        return Value::text(c.text(0));
    }
    let one = |char: char| {
        let mut chars = case(char);
        match chars.len() {
            1 => chars.next().unwrap_or(char),
            _ => char,
        }
    };
    Value::text(c.text(0).chars().map(one).collect::<String>())
}

/// What TRIM removes.
fn cut<'a>(c: &Call<'a>) -> &'a str {
    if c.has(1) { c.text(1) } else { " " }
}

fn strip_start<'t>(mut text: &'t str, what: &str) -> &'t str {
    while let Some(rest) = text.strip_prefix(what).filter(|_| !what.is_empty()) {
        text = rest;
    }
    text
}

fn strip_end<'t>(mut text: &'t str, what: &str) -> &'t str {
    while let Some(rest) = text.strip_suffix(what).filter(|_| !what.is_empty()) {
        text = rest;
    }
    text
}

/// Where character `from` of a text begins, or the text ends.
fn start_of(text: &str, from: i64) -> Option<usize> {
    let skip = usize::try_from(from.checked_sub(1)?).ok()?;
    let starts = text.char_indices().map(|(at, _)| at);
    starts.chain([text.len()]).nth(skip)
}

/// Position in characters of `what` in `text` from character `from`, 0 if absent.
fn locate(c: &Call<'_>, what: &str, text: &str, from: i64) -> i64 {
    let Some(start) = start_of(text, from) else {
        return 0;
    };
    let rest = &text[start..];
    let skipped = match c.collation {
        collation if collation.has_form() && !c.over_bytes => find_collated(collation, what, rest),
        _ => rest.find(what).map(|at| rest[..at].chars().count()),
    };
    skipped.map_or(0, |skipped| from + skipped as i64)
}

/// Characters before what equals `what` in a collation. As in MySQL what is found has as many bytes as
/// `what`, and nothing is padded: `'ä'` is not found in `'a'`, nor `'é'` in `'E '`.
fn find_collated(collation: Collation, what: &str, text: &str) -> Option<usize> {
    let found = |at: usize| -> bool {
        let part = text.get(at..at + what.len());
        part.is_some_and(|part| collation.equal_without_padding(part.as_bytes(), what.as_bytes()))
    };
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.position(found)
}

/// What LPAD and RPAD keep of a text, and what they add.
fn padding<'a>(c: &Call<'a>) -> Option<(&'a str, String)> {
    let (text, filler) = (c.text(0), c.text(2));
    let length = usize::try_from(c.int(1))
        .ok()
        .filter(|length| c.has_room(*length))?;
    let chars = text.chars().count();
    if chars >= length {
        return Some((&text[..byte_at(text, length)], String::new()));
    }
    if filler.is_empty() {
        return Some(("", String::new()));
    }
    let (missing, cycle) = (length - chars, filler.chars().count());
    let whole = missing / cycle;
    if !c.has_room(text.len() + filler.len().saturating_mul(whole + 1)) {
        return None;
    }
    let mut fill = filler.repeat(whole);
    fill.push_str(&filler[..byte_at(filler, missing % cycle)]);
    Some((text, fill))
}

fn repeat<'a>(c: &Call<'a>, text: &str, count: i64) -> Value<'a> {
    let count = usize::try_from(count).unwrap_or(0);
    match c.has_room(text.len().saturating_mul(count)) {
        true => Value::text(text.repeat(count)),
        false => Value::Null,
    }
}

fn insert<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (text, new) = (c.text(0), c.text(3));
    let chars = text.chars().count() as i64;
    let from = c.int(1);
    if !(1..=chars).contains(&from) {
        return Ok(Value::text(text));
    }
    let rest = chars - (from - 1);
    let length = match c.int(2) {
        length if (0..=rest).contains(&length) => length,
        _ => rest,
    };
    let start = byte_at(text, (from - 1) as usize);
    let end = start + byte_at(&text[start..], length as usize);
    match c.has_room(text.len() - (end - start) + new.len()) {
        true => Ok(Value::text([&text[..start], new, &text[end..]].concat())),
        false => Ok(Value::Null),
    }
}

/// What stands before the `count`-th delimiter, or behind it, counted from the end, if `count` is negative.
fn before_delimiter<'t>(text: &'t str, delimiter: &str, count: i64) -> &'t str {
    if delimiter.is_empty() || count == 0 {
        return "";
    }
    let nth = usize::try_from(count.unsigned_abs() - 1).unwrap_or(usize::MAX);
    match count > 0 {
        true => text
            .match_indices(delimiter)
            .nth(nth)
            .map_or(text, |(at, _)| &text[..at]),
        false => text
            .rmatch_indices(delimiter)
            .nth(nth)
            .map_or(text, |(at, _)| &text[at + delimiter.len()..]),
    }
}
