//! Lines and fields of a text file, by the options of LOAD DATA. Pure.

use std::borrow::Cow;

use crate::parse::{Fields, Lines};

/// A field: NULL, or bytes without quotes and escapes.
pub(super) type Field<'a> = Option<Cow<'a, [u8]>>;

/// Why a line has no fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// A quote is opened and not closed.
    Unclosed,
}

/// How a file is written.
#[derive(Clone, Debug)]
pub(super) struct Format {
    fields: Fields,
    lines: Lines,
}

impl Format {
    pub(super) fn new(fields: &Fields, lines: &Lines) -> Self {
        Self {
            fields: fields.clone(),
            lines: lines.clone(),
        }
    }

    /// Length of the first line with its terminator, if it is complete.
    pub(super) fn first_line(&self, text: &[u8]) -> Option<usize> {
        self.terminator(text)
            .map(|at| at + self.lines.terminated.len())
    }

    /// Length of the longest prefix of whole lines.
    pub(super) fn whole_lines(&self, text: &[u8]) -> usize {
        let terminator = &self.lines.terminated;
        if self.fields.enclosed.is_some() {
            // Whether a terminator counts depends on all quotes before it.
            let mut len = 0;
            while let Some(line) = self.first_line(&text[len..]) {
                len += line;
            }
            return len;
        }
        let mut end = text.len();
        while let Some(at) = rfind(&text[..end], terminator) {
            if !self.is_escaped(text, at) {
                return at + terminator.len();
            }
            end = at + terminator.len() - 1;
        }
        0
    }

    /// The lines of a block, without terminators and without what STARTING BY skips.
    pub(super) fn lines<'a>(&'a self, block: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        let mut rest = block;
        std::iter::from_fn(move || {
            loop {
                if rest.is_empty() {
                    return None;
                }
                let (line, next) = match self.terminator(rest) {
                    Some(at) => (&rest[..at], &rest[at + self.lines.terminated.len()..]),
                    None => (rest, &rest[rest.len()..]),
                };
                rest = next;
                if self.lines.starting.is_empty() {
                    return Some(line);
                }
                // Lines without the prefix are no rows.
                if let Some(at) = find(line, &self.lines.starting) {
                    return Some(&line[at + self.lines.starting.len()..]);
                }
            }
        })
    }

    /// Offset of the first line terminator that counts.
    fn terminator(&self, text: &[u8]) -> Option<usize> {
        let terminator = &self.lines.terminated;
        let Some(quote) = self.fields.enclosed else {
            let mut from = 0;
            loop {
                let at = from + find(&text[from..], terminator)?;
                if !self.is_escaped(text, at) {
                    return Some(at);
                }
                from = at + 1;
            }
        };
        let mut at = 0;
        let mut field_start = true;
        let mut quoted = false;
        while at < text.len() {
            let byte = text[at];
            if Some(byte) == self.fields.escaped && byte != quote {
                at += 2;
                field_start = false;
            } else if quoted {
                if byte == quote {
                    if text.get(at + 1) == Some(&quote) {
                        at += 1;
                    } else {
                        quoted = false;
                    }
                }
                at += 1;
            } else if field_start && byte == quote {
                quoted = true;
                field_start = false;
                at += 1;
            } else if text[at..].starts_with(terminator) {
                return Some(at);
            } else if text[at..].starts_with(&self.fields.terminated) {
                at += self.fields.terminated.len();
                field_start = true;
            } else {
                field_start = false;
                at += 1;
            }
        }
        None
    }

    /// True if an odd number of escape characters comes before `at`.
    fn is_escaped(&self, text: &[u8], at: usize) -> bool {
        let Some(escape) = self.fields.escaped else {
            return false;
        };
        text[..at]
            .iter()
            .rev()
            .take_while(|byte| **byte == escape)
            .count()
            % 2
            == 1
    }

    /// Splits a line into its fields.
    pub(super) fn split<'a>(
        &self,
        line: &'a [u8],
        out: &mut Vec<Field<'a>>,
    ) -> Result<(), LineError> {
        out.clear();
        let separator = &self.fields.terminated;
        let mut rest = line;
        loop {
            if let Some(quote) = self.fields.enclosed
                && rest.first() == Some(&quote)
            {
                let (field, len) = self.quoted(rest, quote)?;
                out.push(Some(Cow::Owned(field)));
                rest = &rest[len..];
                if rest.is_empty() {
                    return Ok(());
                }
                rest = rest.strip_prefix(separator.as_slice()).unwrap_or(rest);
                continue;
            }
            let end = self.separator(rest);
            out.push(self.unquoted(&rest[..end.unwrap_or(rest.len())]));
            match end {
                Some(end) => rest = &rest[end + separator.len()..],
                None => return Ok(()),
            }
        }
    }

    /// Offset of the first separator that is not escaped.
    fn separator(&self, text: &[u8]) -> Option<usize> {
        let separator = &self.fields.terminated;
        let mut from = 0;
        loop {
            let at = from + find(&text[from..], separator)?;
            if !self.is_escaped(text, at) {
                return Some(at);
            }
            from = at + 1;
        }
    }

    fn unquoted<'a>(&self, field: &'a [u8]) -> Field<'a> {
        if self.fields.enclosed.is_some() && field == b"NULL" {
            return None;
        }
        let Some(escape) = self.fields.escaped else {
            return Some(Cow::Borrowed(field));
        };
        if !field.contains(&escape) {
            return Some(Cow::Borrowed(field));
        }
        if field == [escape, b'N'] {
            return None;
        }
        let mut out = Vec::with_capacity(field.len());
        let mut bytes = field.iter();
        while let Some(byte) = bytes.next() {
            if *byte != escape {
                out.push(*byte);
            } else if let Some(next) = bytes.next() {
                out.push(unescaped(*next));
            } else {
                out.push(escape);
            }
        }
        Some(Cow::Owned(out))
    }

    /// A field in quotes, and its length with them.
    fn quoted(&self, text: &[u8], quote: u8) -> Result<(Vec<u8>, usize), LineError> {
        let mut out = Vec::new();
        let mut at = 1;
        while let Some(byte) = text.get(at) {
            if Some(*byte) == self.fields.escaped && *byte != quote {
                match text.get(at + 1) {
                    Some(next) => out.push(unescaped(*next)),
                    None => return Err(LineError::Unclosed),
                }
                at += 2;
            } else if *byte != quote {
                out.push(*byte);
                at += 1;
            } else if text.get(at + 1) == Some(&quote) {
                out.push(quote);
                at += 2;
            } else {
                return Ok((out, at + 1));
            }
        }
        Err(LineError::Unclosed)
    }
}

/// What an escape sequence stands for.
fn unescaped(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'b' => 8,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'Z' => 26,
        other => other,
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    match what {
        [byte] => text.iter().position(|b| b == byte),
        // The last byte of a terminator such as `|\n` is rarer than its first.
        [.., last] => {
            let skip = what.len() - 1;
            let mut from = skip;
            while from < text.len() {
                let at = from + text[from..].iter().position(|b| b == last)?;
                if text[at - skip..].starts_with(what) {
                    return Some(at - skip);
                }
                from = at + 1;
            }
            None
        }
        [] => None,
    }
}

fn rfind(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|window| window == what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn format(terminated: &str, enclosed: Option<u8>, escaped: Option<u8>, lines: &str) -> Format {
        Format {
            fields: Fields {
                terminated: terminated.into(),
                enclosed,
                optionally: false,
                escaped,
            },
            lines: Lines {
                starting: Vec::new(),
                terminated: lines.into(),
            },
        }
    }

    fn rows(format: &Format, text: &str) -> Vec<String> {
        let mut fields = Vec::new();
        format
            .lines(text.as_bytes())
            .map(|line| {
                format.split(line, &mut fields).expect("quotes are closed");
                let texts: Vec<_> = fields
                    .iter()
                    .map(|f| match f {
                        Some(f) => String::from_utf8_lossy(f).into_owned(),
                        None => "NULL".to_owned(),
                    })
                    .collect();
                texts.join(";")
            })
            .collect()
    }

    #[test]
    fn tpch_lines() {
        let format = format("|", None, Some(b'\\'), "|\n");
        assert_eq!(rows(&format, "1|a b||\n2|x|c|\n"), ["1;a b;", "2;x;c"]);
        assert_eq!(format.whole_lines(b"1|a|\n2|b"), 5);
        assert_eq!(format.whole_lines(b"1|a"), 0);
        assert_eq!(format.first_line(b"1|a|\n2|b|\n"), Some(5));
    }

    #[test]
    fn escapes_and_nulls() {
        let format = format("\t", None, Some(b'\\'), "\n");
        assert_eq!(
            rows(&format, "a\\tb\t\\N\tx\\\\\ny\\\nz\t1\t2\n"),
            ["a\tb;NULL;x\\", "y\nz;1;2"]
        );
        assert_eq!(format.whole_lines(b"a\\\\\nb\\\n"), 4);
        let plain = self::format(",", None, None, "\r\n");
        assert_eq!(rows(&plain, "a\\,\\N\r\n\r\nlast"), ["a\\;\\N", "", "last"]);
    }

    #[test]
    fn quotes() {
        let format = format(",", Some(b'"'), Some(b'\\'), "\n");
        let text = "\"a,b\",\"say \"\"x\"\"\",NULL,\"NULL\"\n1,\"two\nlines\",\"\\\"\",\"\"\n";
        assert_eq!(
            rows(&format, text),
            ["a,b;say \"x\";NULL;NULL", "1;two\nlines;\";"]
        );
        let cut = &text.as_bytes()[..text.len() - 3];
        assert_eq!(
            format.whole_lines(cut),
            text.find("\n1,").expect("it is there") + 1
        );
        let mut fields = Vec::new();
        assert_eq!(format.split(b"\"a", &mut fields), Err(LineError::Unclosed));
    }

    #[test]
    fn starting_by_skips_other_lines() {
        let format = Format {
            fields: Fields {
                terminated: b",".to_vec(),
                enclosed: None,
                optionally: false,
                escaped: None,
            },
            lines: Lines {
                starting: b"xx".to_vec(),
                terminated: b"\n".to_vec(),
            },
        };
        assert_eq!(rows(&format, "xx1,2\nnothing\nabcxx3,4\n"), ["1;2", "3;4"]);
    }

    /// Bytes that mean something to some format, and some that mean nothing.
    fn byte() -> impl Strategy<Value = u8> {
        prop::sample::select(b"ab1N,|\"\\\n\r\t0 \x00\xff".to_vec())
    }

    fn any_format() -> impl Strategy<Value = Format> {
        let separator = prop::sample::select(vec![",", "|", "\t", "||"]);
        let enclosed = prop::sample::select(vec![None, Some(b'"')]);
        let escaped = prop::sample::select(vec![None, Some(b'\\'), Some(b'"')]);
        let lines = prop::sample::select(vec!["\n", "|\n", "\r\n"]);
        (separator, enclosed, escaped, lines).prop_map(|(separator, enclosed, escaped, lines)| {
            format(separator, enclosed, escaped, lines)
        })
    }

    /// Fields as SELECT INTO OUTFILE writes them: every byte that could mean something is escaped.
    fn written(rows: &[Vec<Field<'_>>]) -> Vec<u8> {
        let mut text = Vec::new();
        for row in rows {
            for (i, field) in row.iter().enumerate() {
                text.extend_from_slice(if i > 0 { b"," } else { b"" });
                match field {
                    None => text.extend_from_slice(b"\\N"),
                    Some(bytes) => bytes.iter().for_each(|byte| match byte {
                        b',' | b'\n' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
                        other => text.push(*other),
                    }),
                }
            }
            text.push(b'\n');
        }
        text
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_lines_and_fields_or_an_error(
            format in any_format(),
            text in prop::collection::vec(byte(), 0..60),
        ) {
            let whole = format.whole_lines(&text);
            prop_assert!(whole <= text.len());
            prop_assert!(format.first_line(&text).unwrap_or(0) <= text.len());
            let mut fields = Vec::new();
            for line in format.lines(&text) {
                if format.split(line, &mut fields).is_ok() {
                    let bytes: usize = fields.iter().flatten().map(|field| field.len()).sum();
                    prop_assert!(bytes <= line.len());
                }
            }
        }

        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec(
                prop::collection::vec(
                    prop::option::of(prop::collection::vec(byte(), 0..6).prop_map(Cow::Owned)),
                    1..4,
                ),
                0..5,
            ),
            cut in 0_usize..200,
        ) {
            let format = format(",", None, Some(b'\\'), "\n");
            let text = written(&rows);
            let cut = cut.min(text.len());
            // A block of the file is cut after its last whole line; the rest comes with the next.
            let whole = format.whole_lines(&text[..cut]);
            let mut read = Vec::new();
            for block in [&text[..whole], &text[whole..]] {
                for line in format.lines(block) {
                    let mut fields = Vec::new();
                    format.split(line, &mut fields).expect("nothing is quoted");
                    read.push(fields);
                }
            }
            prop_assert_eq!(read, rows);
        }
    }
}
