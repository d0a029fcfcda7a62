//! Commands with strings that are not UTF-8: a dump of BLOBs has their bytes between quotes.
//!
//! The text of a statement is UTF-8 from here on. A string that is not becomes a hexadecimal literal of its bytes,
//! which is what it means; whatever else is not UTF-8 is an error.

/// The same text with each string that is not UTF-8 as X'…'; at most twice as long. With `escapes` a backslash begins an
/// escape sequence.
///
/// # Errors
/// Where bytes outside of strings are not UTF-8.
pub(crate) fn with_hexadecimal(text: &[u8], escapes: bool) -> Result<String, usize> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 2);
    // What is copied begins here.
    let mut copied = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let end = match rest[0] {
            quote @ (b'\'' | b'"') => {
                let end = string_end(text, at, quote, escapes);
                if let Some(end) = end
                    && std::str::from_utf8(&text[at..end]).is_err()
                {
                    out.extend_from_slice(&text[copied..at]);
                    put_hexadecimal(&mut out, &text[at + 1..end - 1], quote, escapes);
                    copied = end;
                }
                end
            }
            b'`' => string_end(text, at, b'`', false),
            b'#' => find(text, at, b"\n"),
            b'-' if is_comment(rest) => find(text, at, b"\n"),
            // A comment for MySQL is a part of the statement.
            b'/' if rest.starts_with(b"/*") && !rest.starts_with(b"/*!") => {
                find(text, at + 2, b"*/")
            }
            _ => Some(at + 1),
        };
        // Without an end it goes on to that of the text.
        at = end.unwrap_or(text.len());
    }
    out.extend_from_slice(&text[copied..]);
    String::from_utf8(out).map_err(|_| {
        let valid = std::str::from_utf8(text).map(str::len);
        valid.unwrap_or_else(|error| error.valid_up_to())
    })
}

/// Behind the quote that ends a string.
fn string_end(text: &[u8], start: usize, quote: u8, escapes: bool) -> Option<usize> {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            b'\\' if escapes => at += 2,
            byte if byte != quote => at += 1,
            _ if text.get(at + 1) == Some(&quote) => at += 2,
            _ => return Some(at + 1),
        }
    }
    None
}

/// Two dashes begin a comment if white space follows.
fn is_comment(text: &[u8]) -> bool {
    let next = text.get(2);
    text.starts_with(b"--") && next.is_none_or(|byte| *byte <= b' ')
}

/// Behind the next place of `what`.
fn find(text: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = text.get(from..)?;
    let found = rest.windows(what.len()).position(|part| part == what)?;
    Some(from + found + what.len())
}

/// Writes the bytes that a string between two `quote`s stands for as X'…'.
fn put_hexadecimal(out: &mut Vec<u8>, inner: &[u8], quote: u8, escapes: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(b"X'");
    let mut put = |byte: u8| {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    };
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if escapes => match bytes.next() {
                // These two keep their backslash, for LIKE.
                Some(wildcard @ (b'%' | b'_')) => {
                    put(b'\\');
                    put(wildcard);
                }
                Some(escaped) => put(unescaped(escaped)),
                None => put(b'\\'),
            },
            _ if byte == quote => {
                // It is doubled.
                bytes.next();
                put(byte);
            }
            _ => put(byte),
        }
    }
    out.push(b'\'');
}

/// What a byte behind a backslash stands for.
fn unescaped(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'r' => b'\r',
        b'Z' => 26,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_are_not_utf8_become_hexadecimal() {
        let cases: [(&[u8], &str); 7] = [
            (b"SELECT '\xff'", "SELECT X'FF'"),
            (
                b"VALUES (1,'\0\xff\\'\\\\\\n\\0\\Z''\"'),('\xc3\xa4')",
                "VALUES (1,X'00FF275C0A001A2722'),('\u{e4}')",
            ),
            (b"('a','\x80','b') -- it's", "('a',X'80','b') -- it's"),
            (b"(\"\x80''\\\"\"\"\")", "(X'8027272222')"),
            (b"# don't\n('\x80')", "# don't\n(X'80')"),
            (
                b"/* ' */ '\xfe' /*!1 , '\xfd' */",
                "/* ' */ X'FE' /*!1 , X'FD' */",
            ),
            (b"`it's`,'\x80\\%'", "`it's`,X'805C25'"),
        ];
        for (text, expected) in cases {
            assert_eq!(with_hexadecimal(text, true).as_deref(), Ok(expected));
        }
        let plain = with_hexadecimal(b"('\x80\\','')", false);
        assert_eq!(plain.as_deref(), Ok("(X'805C','')"));
    }

    #[test]
    fn other_bytes_are_refused_where_they_stand() {
        assert_eq!(with_hexadecimal(b"SELECT \xff", true), Err(7));
        assert_eq!(with_hexadecimal(b"SELECT '\xff', \xfe", true), Err(8));
        assert_eq!(with_hexadecimal(b"SELECT `\xff`", true), Err(8));
    }

    #[test]
    fn a_string_without_end_stays_within_the_text() {
        for text in [
            &b"'\xff"[..],
            b"'",
            b"'\\",
            b"\xff'\xff\\",
            b"/*\xff",
            b"--",
            b"'\xff\\",
        ] {
            let text = with_hexadecimal(text, true);
            assert!(text.is_err() || text.is_ok_and(|text| text.len() < 12));
        }
    }
}
