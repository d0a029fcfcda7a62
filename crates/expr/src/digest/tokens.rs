//! The tokens of a statement, as far as its digest tells them apart.

use super::Unended;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A literal or the mark of a parameter.
    Value,
    /// A name in quotes, as it is written between them.
    Name(&'a str),
    /// A word; `calls` if a parenthesis follows at once.
    Word { text: &'a str, calls: bool },
    /// A variable with its `@`.
    Variable(&'a str),
    /// An operator, a comma or a parenthesis.
    Symbol(&'a str),
}

/// Operators of several characters, the longest first.
const OPERATORS: [&str; 14] = [
    "->>", "<=>", "->", "<=", ">=", "<>", "!=", "||", "&&", ":=", "<<", ">>", "**", "::",
];

/// The tokens.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    ansi_quotes: bool,
}

impl<'a> Tokens<'a> {
    pub fn new(statement: &'a str, ansi_quotes: bool) -> Self {
        Self {
            rest: statement,
            ansi_quotes,
        }
    }

    /// Takes so many bytes.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes the characters for which something holds.
    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !holds(c));
        self.take(end.unwrap_or(self.rest.len()))
    }

    /// Leaves out white space and comments.
    fn white(&mut self) -> Result<(), Unended> {
        loop {
            self.take_while(|c| c.is_whitespace() || c == '\0');
            let rest = self.rest;
            let dashes = rest.strip_prefix("--");
            let is_line = rest.starts_with('#')
                || dashes
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
            if is_line {
                self.take_while(|c| c != '\n');
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or(Unended)?;
                self.take(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    /// What stands between the quotes that begin here; a quote in it is doubled or, in a string, behind a backslash.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Result<&'a str, Unended> {
        let bytes = self.rest.as_bytes();
        let mut at = 1;
        loop {
            match bytes.get(at) {
                None => return Err(Unended),
                Some(b'\\') if escapes => at += 2,
                Some(byte) if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
                Some(byte) if *byte == quote => break,
                Some(_) => at += 1,
            }
        }
        let whole = self.take(at + 1);
        Ok(&whole[1..at])
    }

    fn word(&mut self) -> Result<Token<'a>, Unended> {
        let text = self.take_while(is_of_word);
        // `x'…'`, `b'…'`, `n'…'` and `_utf8mb4'…'` are literals.
        let introduces =
            text.starts_with('_') || ["x", "b", "n"].contains(&text.to_lowercase().as_str());
        if introduces && self.rest.starts_with('\'') {
            self.quoted(b'\'', true)?;
            return Ok(Token::Value);
        }
        let calls = self.rest.starts_with('(');
        Ok(Token::Word { text, calls })
    }

    fn number(&mut self) -> Token<'a> {
        let digits = self.take_while(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
        // The sign of an exponent.
        let is_hex = digits.starts_with("0x") || digits.starts_with("0X");
        if digits.ends_with(['e', 'E']) && !is_hex && self.rest.starts_with(['+', '-']) {
            self.take(1);
            self.take_while(|c| c.is_ascii_digit());
        }
        Token::Value
    }

    fn variable(&mut self) -> Result<Token<'a>, Unended> {
        let start = self.rest;
        self.take_while(|c| c == '@');
        match self.rest.as_bytes().first() {
            Some(quote @ (b'\'' | b'"' | b'`')) => {
                self.quoted(*quote, *quote != b'`')?;
            }
            _ => {
                self.take_while(|c| is_of_word(c) || c == '.');
            }
        }
        Ok(Token::Variable(&start[..start.len() - self.rest.len()]))
    }

    fn token(&mut self, first: char) -> Result<Token<'a>, Unended> {
        match first {
            '\'' => self.quoted(b'\'', true).map(|_| Token::Value),
            '"' if self.ansi_quotes => self.quoted(b'"', false).map(Token::Name),
            '"' => self.quoted(b'"', true).map(|_| Token::Value),
            '`' => {
                let name = self.quoted(b'`', false)?;
                Ok(Token::Name(name))
            }
            '?' => {
                self.take(1);
                Ok(Token::Value)
            }
            '@' => self.variable(),
            '.' if self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => Ok(self.number()),
            first if first.is_ascii_digit() => Ok(self.number()),
            first if is_of_word(first) => self.word(),
            first => {
                let operator = OPERATORS.iter().find(|op| self.rest.starts_with(**op));
                let length = operator.map_or(first.len_utf8(), |op| op.len());
                Ok(Token::Symbol(self.take(length)))
            }
        }
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<Token<'a>, Unended>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(unended) = self.white() {
            return Some(Err(unended));
        }
        let first = self.rest.chars().next()?;
        Some(self.token(first))
    }
}
