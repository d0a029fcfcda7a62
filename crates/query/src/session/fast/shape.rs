//! The shape of a statement's text: the text with a `?` for each literal. Statements that differ in
//! literals only have one shape, so that the statement need not be parsed to find what was made of
//! its shape before.
//!
//! One pass over the bytes. Whatever is not plain (comments, double quotes, escapes, numbers that
//! are no integers, several statements) has no shape.

use perigee_value::Datum;

/// Longest text that has a shape.
const MAX_TEXT: usize = 4096;

/// Puts the shape of a text into `shape` and its literals into `literals`; false if it has none.
pub(super) fn split(text: &str, shape: &mut String, literals: &mut Vec<Datum>) -> bool {
    shape.clear();
    literals.clear();
    text.len() <= MAX_TEXT && Scan { text, at: 0 }.run(shape, literals).is_some()
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn run(mut self, shape: &mut String, literals: &mut Vec<Datum>) -> Option<()> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            let start = self.at;
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                    self.skip(is_word);
                    // A prefix of a string: N'…', X'…', _utf8'…'.
                    if bytes.get(self.at) == Some(&b'\'') {
                        return None;
                    }
                }
                b'0'..=b'9' => {
                    literals.push(self.number()?);
                    shape.push('?');
                    continue;
                }
                b'\'' => {
                    literals.push(self.string()?);
                    shape.push('?');
                    continue;
                }
                b'`' => {
                    self.at += 1;
                    self.skip(|byte| byte != b'`');
                    self.at += 1;
                    if self.at > bytes.len() {
                        return None;
                    }
                }
                b'-' if bytes.get(start + 1) == Some(&b'-') => return None,
                // Behind a point a number may be a fraction, or part of a name.
                b'.' if bytes.get(start + 1).is_some_and(u8::is_ascii_digit) => return None,
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b'(' | b')' | b',' | b'.' | b'*' | b'=' | b'<' | b'>' | b'+' | b'-' => self.at += 1,
                _ => return None,
            }
            shape.push_str(&self.text[start..self.at]);
        }
        Some(())
    }

    fn skip(&mut self, belongs: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().position(|byte| !belongs(*byte));
        self.at += len.unwrap_or(rest.len());
    }

    /// An integer as its value is written.
    fn number(&mut self) -> Option<Datum> {
        let start = self.at;
        self.skip(|byte| is_word(byte) || byte == b'.');
        integer(&self.text[start..self.at])
    }

    /// A string without escapes and doubled quotes.
    fn string(&mut self) -> Option<Datum> {
        let start = self.at + 1;
        let rest = &self.text.as_bytes()[start..];
        let len = rest.iter().position(|byte| matches!(byte, b'\'' | b'\\'))?;
        self.at = start + len + 1;
        let doubled = rest.get(len + 1) == Some(&b'\'');
        (rest[len] == b'\'' && !doubled).then(|| Datum::String(rest[..len].to_vec()))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// The value of an integer that is written without leading zeros.
pub(super) fn integer(text: &str) -> Option<Datum> {
    if text.len() > 1 && text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let signed = text.parse().map(Datum::Int);
    signed.or_else(|_| text.parse().map(Datum::UInt)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(text: &str) -> Option<(String, Vec<Datum>)> {
        let (mut shape, mut literals) = (String::new(), Vec::new());
        split(text, &mut shape, &mut literals).then_some((shape, literals))
    }

    #[test]
    fn literals_become_parameters() {
        let text = |t: &str| Datum::String(t.as_bytes().to_vec());
        for (statement, shape, literals) in [
            (
                "SELECT c FROM t1 WHERE id=17 AND n='a b'",
                "SELECT c FROM t1 WHERE id=? AND n=?",
                vec![Datum::Int(17), text("a b")],
            ),
            (
                "select `2x` from t$2 where é<=-3 limit 0,18446744073709551615",
                "select `2x` from t$2 where é<=-? limit ?,?",
                vec![Datum::Int(3), Datum::Int(0), Datum::UInt(u64::MAX)],
            ),
            (
                "INSERT INTO s.t VALUES(1,'','é')",
                "INSERT INTO s.t VALUES(?,?,?)",
                vec![Datum::Int(1), text(""), text("é")],
            ),
        ] {
            assert_eq!(
                shape_of(statement),
                Some((shape.to_owned(), literals)),
                "{statement}"
            );
        }
    }

    #[test]
    fn what_is_not_plain_has_no_shape() {
        for text in [
            "SELECT 1.5",
            "SELECT 1e3",
            "SELECT .5",
            "SELECT t.1a",
            "SELECT 007",
            "SELECT 0x1F",
            "SELECT 18446744073709551616",
            "SELECT 'a\\'b'",
            "SELECT 'a''b'",
            "SELECT 'a",
            "SELECT `a",
            "SELECT \"a\"",
            "SELECT N'a'",
            "SELECT 1 -- x",
            "SELECT 1 # x",
            "SELECT /* x */ 1",
            "SELECT 1; SELECT 2",
            "SELECT @a",
            "SELECT ?",
            "SELECT 1 / 2",
        ] {
            assert_eq!(shape_of(text), None, "{text}");
        }
        assert_eq!(
            shape_of(&format!("SELECT '{}'", "x".repeat(MAX_TEXT))),
            None
        );
    }
}
