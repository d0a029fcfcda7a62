//! Tokens of definitions as SHOW CREATE writes them: words, texts and names in quotes, groups in parentheses.

/// A token; a group in parentheses is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub text: String,
    /// A space comes before it.
    pub spaced: bool,
}

impl Token {
    pub(super) fn word(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            spaced: true,
        }
    }
}

/// Length of what begins with a quote: a doubled quote does not end it, nor one behind a backslash in a text.
fn quoted(text: &[u8]) -> usize {
    let quote = text[0];
    let mut at = 1;
    while at < text.len() {
        if text[at] == b'\\' && quote != b'`' {
            at += 2;
        } else if text[at] != quote {
            at += 1;
        } else if text.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    text.len()
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'`' | b'\'' | b'"')
}

/// Length of a group in parentheses.
fn group(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        match text[at] {
            quote if is_quote(quote) => {
                at += quoted(&text[at..]);
                continue;
            }
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The text with the contents of comments for versions, such as `/*!50100 PARTITION BY … */`, in their places.
pub(super) fn unwrapped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut open) = (0, 0);
    while at < bytes.len() {
        if is_quote(bytes[at]) {
            let len = quoted(&bytes[at..]);
            out.push_str(&text[at..at + len]);
            at += len;
        } else if bytes[at..].starts_with(b"/*!") || bytes[at..].starts_with(b"/*M!") {
            at += 3 + usize::from(bytes[at + 2] == b'M');
            at += bytes[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            open += 1;
        } else if open > 0 && bytes[at..].starts_with(b"*/") {
            at += 2;
            open -= 1;
        } else {
            let len = bytes[at..]
                .iter()
                .skip(1)
                .take_while(|byte| !is_special(**byte))
                .count()
                + 1;
            out.push_str(&text[at..at + len]);
            at += len;
        }
    }
    out
}

fn is_special(byte: u8) -> bool {
    is_quote(byte) || matches!(byte, b'/' | b'*')
}

/// The clauses between the parentheses of a CREATE TABLE, and what comes behind them.
pub(super) fn clauses(text: &str) -> (Vec<String>, String) {
    let bytes = text.as_bytes();
    let mut open = 0;
    while open < bytes.len() && bytes[open] != b'(' {
        open += if is_quote(bytes[open]) {
            quoted(&bytes[open..])
        } else {
            1
        };
    }
    let end = open + group(&bytes[open.min(bytes.len())..]);
    if end <= open + 1 {
        return (Vec::new(), String::new());
    }
    let inner = &text[open + 1..end - 1];
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    let bytes = inner.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b',' => {
                found.push(inner[start..at].trim().to_owned());
                at += 1;
                start = at;
            }
            b'(' => at += group(&bytes[at..]),
            quote if is_quote(quote) => at += quoted(&bytes[at..]),
            _ => at += 1,
        }
    }
    found.push(inner[start..].trim().to_owned());
    (found, text[end..].trim().to_owned())
}

/// The tokens of a clause.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut spaced) = (0, false);
    while at < bytes.len() {
        let len = match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                (at, spaced) = (at + 1, true);
                continue;
            }
            b'(' => group(&bytes[at..]),
            quote if is_quote(quote) => quoted(&bytes[at..]),
            byte if is_word(byte) => bytes[at..]
                .iter()
                .take_while(|byte| is_word(**byte))
                .count(),
            _ => 1,
        };
        found.push(Token {
            text: text[at..at + len].to_owned(),
            spaced,
        });
        (at, spaced) = (at + len, false);
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'$' | b'@') || byte >= 0x80
}
