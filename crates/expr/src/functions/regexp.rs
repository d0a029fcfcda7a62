//! Regular expressions, of the kind that is matched in linear time: without references back and looks around,
//! which are refused.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::ErrorKind;

use super::Kind::{Int, Text};
use super::string::byte_at;
use super::{Call, Function, FunctionError, INT, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["regexp_like", "regexp", "rlike"],
        (2, 3),
        &[Text],
        INT,
        "1 if a text has a match.",
        |c| with_regex(c, 2, |regex| Ok(Value::truth(regex.is_match(c.text(0))))),
    )
    .by_collation(),
    Function::new(
        &["regexp_instr"],
        (2, 6),
        &[Text, Text, Int, Int, Int, Text],
        INT,
        "The position of a match, or of what is behind it.",
        instr,
    )
    .by_collation(),
    Function::new(
        &["regexp_substr"],
        (2, 5),
        &[Text, Text, Int, Int, Text],
        TEXT,
        "A match.",
        substr,
    )
    .by_collation(),
    Function::new(
        &["regexp_replace"],
        (3, 6),
        &[Text, Text, Text, Int, Int, Text],
        TEXT,
        "A text with its matches, or one of them, replaced.",
        replace,
    )
    .by_collation(),
];

/// Bytes of a compiled expression (MySQL 3700 beyond).
const MAX_SIZE: usize = 1 << 20;

/// A compiled expression, and what it was made of.
pub struct Compiled {
    pattern: String,
    flags: Flags,
    regex: Regex,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Flags {
    any_case: bool,
    multi_line: bool,
    dot_is_newline: bool,
}

impl Flags {
    fn of(c: &Call<'_>, argument: usize) -> Result<Self, FunctionError> {
        let mut flags = Self {
            any_case: c.collation.is_case_insensitive() && !c.over_bytes,
            multi_line: false,
            dot_is_newline: false,
        };
        let types = if c.has(argument) {
            c.text(argument)
        } else {
            ""
        };
        for flag in types.chars() {
            match flag {
                'c' => flags.any_case = false,
                'i' => flags.any_case = true,
                'm' => flags.multi_line = true,
                'n' => flags.dot_is_newline = true,
                // Lines end with a line feed only, as they do here.
                'u' => {}
                _ => return Err(FunctionError::IncorrectArguments(c.name)),
            }
        }
        Ok(flags)
    }
}

/// Calls `compute` with the expression of the second argument, which is compiled once for rows that have the same.
fn with_regex<'a>(
    c: &Call<'a>,
    flags: usize,
    compute: impl FnOnce(&Regex) -> Outcome<'a>,
) -> Outcome<'a> {
    let (pattern, flags) = (c.text(1), Flags::of(c, flags)?);
    let mut memo = c.memo.regex();
    let known = memo
        .take()
        .filter(|known| known.pattern == pattern && known.flags == flags);
    let compiled = match known {
        Some(known) => known,
        None => compile(pattern, flags)?,
    };
    compute(&memo.insert(compiled).regex)
}

fn compile(pattern: &str, flags: Flags) -> Result<Compiled, FunctionError> {
    if pattern.is_empty() {
        return Err(error(3685, "Illegal argument to a regular expression."));
    }
    let regex = RegexBuilder::new(&with_unicode_classes(pattern))
        .case_insensitive(flags.any_case)
        .multi_line(flags.multi_line)
        .dot_matches_new_line(flags.dot_is_newline)
        .size_limit(MAX_SIZE)
        .build();
    let regex = regex.map_err(|failure| reason(pattern, &failure))?;
    Ok(Compiled {
        pattern: pattern.to_owned(),
        flags,
        regex,
    })
}

/// The pattern with classes of POSIX that have all letters of Unicode, as ICU's have.
fn with_unicode_classes(pattern: &str) -> String {
    const CLASSES: &[(&str, &str)] = &[
        ("[:alpha:]", r"\p{Alphabetic}"),
        ("[:alnum:]", r"\p{Alphabetic}\p{Nd}"),
        ("[:digit:]", r"\p{Nd}"),
        ("[:lower:]", r"\p{Lowercase}"),
        ("[:upper:]", r"\p{Uppercase}"),
        ("[:space:]", r"\s"),
        ("[:punct:]", r"\p{Punctuation}"),
    ];
    let replace =
        |pattern: String, (posix, unicode): &(&str, &str)| pattern.replace(posix, unicode);
    CLASSES.iter().fold(pattern.to_owned(), replace)
}

fn error(errno: u16, message: impl Into<String>) -> FunctionError {
    FunctionError::Regex {
        errno,
        message: message.into(),
    }
}

/// MySQL's error for an expression that is none.
fn reason(pattern: &str, failure: &regex::Error) -> FunctionError {
    if matches!(failure, regex::Error::CompiledTooBig(_)) {
        return error(
            3700,
            "The regular expression pattern exceeds limits on size or complexity.",
        );
    }
    let Err(syntax) = regex_syntax::ast::parse::Parser::new().parse(pattern) else {
        return error(
            3688,
            "Syntax error in regular expression on line 1, character 1.",
        );
    };
    let (line, column) = (syntax.span().start.line, syntax.span().start.column);
    match syntax.kind() {
        ErrorKind::UnsupportedBackreference => {
            FunctionError::NotSupported("back references in regular expressions".to_owned())
        }
        ErrorKind::UnsupportedLookAround => {
            FunctionError::NotSupported("looking around in regular expressions".to_owned())
        }
        ErrorKind::EscapeUnrecognized | ErrorKind::EscapeUnexpectedEof => {
            error(3689, "Unrecognized escape sequence in regular expression.")
        }
        ErrorKind::GroupUnclosed | ErrorKind::GroupUnopened => {
            error(3691, "Mismatched parenthesis in regular expression.")
        }
        ErrorKind::RepetitionCountDecimalEmpty | ErrorKind::RepetitionCountUnclosed => {
            error(3692, "Incorrect description of a {min,max} interval.")
        }
        ErrorKind::RepetitionCountInvalid => error(
            3693,
            "The maximum is less than the minimum in a {min,max} interval.",
        ),
        ErrorKind::ClassUnclosed => error(
            3696,
            "The regular expression contains an unclosed bracket expression.",
        ),
        ErrorKind::ClassRangeInvalid => error(
            3697,
            "The regular expression contains an [x-y] character range where x comes after y.",
        ),
        _ => error(
            3688,
            format!("Syntax error in regular expression on line {line}, character {column}."),
        ),
    }
}

/// Where a search begins, by the number of a character.
fn start(c: &Call<'_>, argument: usize) -> Result<usize, FunctionError> {
    let from = if c.has(argument) { c.int(argument) } else { 1 };
    let text = c.text(0);
    let chars = text.chars().count() as i64;
    match (1..=chars + 1).contains(&from) {
        true => Ok(byte_at(text, (from - 1) as usize)),
        false => Err(error(
            3686,
            "Index out of bounds in regular expression search.",
        )),
    }
}

/// Which of the matches is meant: the first one is 0.
fn occurrence(c: &Call<'_>, argument: usize) -> usize {
    let number = if c.has(argument) { c.int(argument) } else { 1 };
    usize::try_from(number.max(1) - 1).unwrap_or(usize::MAX)
}

fn instr<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (text, from) = (c.text(0), start(c, 2)?);
    let behind = match c.has(4).then(|| c.int(4)) {
        None | Some(0) => false,
        Some(1) => true,
        Some(_) => return Err(FunctionError::IncorrectArguments(c.name)),
    };
    with_regex(c, 5, |regex| {
        let found = nth(regex, text, from, occurrence(c, 3));
        Ok(Value::Int(found.map_or(0, |found| {
            let at = if behind { found.end() } else { found.start() };
            text[..at].chars().count() as i64 + 1
        })))
    })
}

fn substr<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (text, from) = (c.text(0), start(c, 2)?);
    with_regex(c, 4, |regex| {
        let found = nth(regex, text, from, occurrence(c, 3));
        Ok(Value::or_null(
            found.map(|found| Value::text(found.as_str())),
        ))
    })
}

/// A match of the text from a place on.
fn nth<'t>(regex: &Regex, text: &'t str, from: usize, number: usize) -> Option<regex::Match<'t>> {
    let mut from = from;
    let mut left = number;
    loop {
        let found = regex.find_at(text, from)?;
        if left == 0 {
            return Some(found);
        }
        left -= 1;
        from = behind(text, &found)?;
    }
}

/// Where the search goes on after a match; one that is empty is not found again.
fn behind(text: &str, found: &regex::Match<'_>) -> Option<usize> {
    match found.is_empty() {
        false => Some(found.end()),
        true => Some(found.end() + text[found.end()..].chars().next()?.len_utf8()),
    }
}

fn replace<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (text, by, from) = (c.text(0), c.text(2), start(c, 3)?);
    // 0 stands for all of them.
    let only = match c.has(4) && c.int(4) > 0 {
        true => Some(occurrence(c, 4)),
        false => None,
    };
    with_regex(c, 5, |regex| {
        let mut out = text[..from].to_owned();
        let (mut last, mut at, mut number) = (from, from, 0);
        while let Some(captures) = regex.captures_at(text, at) {
            let Some(whole) = captures.get(0) else { break };
            if only.is_none_or(|only| only == number) {
                out.push_str(&text[last..whole.start()]);
                expand(by, &captures, &mut out)?;
                last = whole.end();
            }
            if !c.has_room(out.len()) {
                return Ok(Value::Null);
            }
            number += 1;
            match behind(text, &whole) {
                Some(behind) if only.is_none_or(|only| number <= only) => at = behind,
                _ => break,
            }
        }
        out.push_str(&text[last..]);
        Ok(Value::text(out))
    })
}

/// Appends a replacement, in which `$1` is a group and `\` stands before what is meant as it is.
fn expand(by: &str, captures: &regex::Captures<'_>, out: &mut String) -> Result<(), FunctionError> {
    let mut chars = by.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.extend(chars.next()),
            '$' => {
                let digit = chars.next().and_then(|digit| digit.to_digit(10));
                let mut group = match digit {
                    Some(digit) if (digit as usize) < captures.len() => digit as usize,
                    Some(_) => {
                        return Err(error(
                            3686,
                            "Index out of bounds in regular expression search.",
                        ));
                    }
                    None => {
                        let message = "A capture group has an invalid name.";
                        return Err(error(3887, message));
                    }
                };
                // More digits as long as there is such a group.
                while let Some(digit) = chars.peek().and_then(|digit| digit.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer >= captures.len() {
                        break;
                    }
                    group = longer;
                    chars.next();
                }
                out.push_str(captures.get(group).map_or("", |group| group.as_str()));
            }
            char => out.push(char),
        }
    }
    Ok(())
}
