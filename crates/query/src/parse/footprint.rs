//! What a text takes until its statement has run: tokens, syntax trees and plans, estimated from its bytes
//! before any of them is made.
//!
//! The figures per token are measured (`crates/query/tests/footprint.rs` keeps them honest). They are rounded
//! up: what is charged is what a statement may take, and few statements are long.

/// Bytes for a token and what becomes of it in trees and plans.
const TOKEN: usize = 2000;

/// Bytes for a token of white space, of which nothing becomes.
const WHITE: usize = 280;

/// Bytes for a query block, which has plans of its own, each with its schema, in several versions while it is optimized.
const QUERY: usize = 64_000;

/// How often a text is held at the same time: in a token and its copy for the parser, in trees, in plans and the
/// names of their columns. Buffers that grow by doubling count twice.
const COPIES: usize = 24;

/// The same where values are not planned.
const COPIES_OF_VALUES: usize = 12;

/// Bytes for a token that is kept, with its part of the syntax tree.
const KEPT_TOKEN: usize = 600;

/// How often a text is kept.
const KEPT_COPIES: usize = 4;

/// What most query blocks begin with.
const SELECT: &[u8] = b"SELECT";

/// What combines query blocks.
const SET_OPERATORS: [&[u8]; 3] = [b"UNION", b"INTERSECT", b"EXCEPT"];

/// What a text is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    bytes: usize,
    tokens: usize,
    /// Tokens that are white space.
    white: usize,
    selects: usize,
    /// UNION, INTERSECT and EXCEPT: what they combine may be TABLE and VALUES, too.
    combined: usize,
    /// It is INSERT or REPLACE, and no query.
    only_values: bool,
}

impl Footprint {
    /// Of a text. Words, numbers and strings are taken for one token each, and every other character.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut bytes = text.bytes().peekable();
        let first = text.split_ascii_whitespace().next().unwrap_or_default();
        let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
        let mut this = Self {
            bytes: text.len(),
            only_values: is(first, "INSERT") || is(first, "REPLACE"),
            ..Self::default()
        };
        while let Some(byte) = bytes.next() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    this.white += 1;
                    continue;
                }
                b'\'' | b'"' | b'`' => {
                    while let Some(next) = bytes.next() {
                        match next {
                            b'\\' if byte != b'`' => drop(bytes.next()),
                            next if next == byte => break,
                            _ => {}
                        }
                    }
                }
                _ if is_word(byte) => {
                    let start = text.len() - bytes.len() - 1;
                    while bytes.next_if(|byte| is_word(*byte)).is_some() {}
                    let word = &text.as_bytes()[start..text.len() - bytes.len()];
                    let is = |known: &&[u8]| word.eq_ignore_ascii_case(known);
                    this.selects += usize::from(is(&SELECT));
                    this.combined += usize::from(SET_OPERATORS.iter().any(is));
                }
                _ => {}
            }
            this.tokens += 1;
        }
        this.only_values &= this.selects == 0;
        this
    }

    /// The same with so many more bytes of values.
    #[must_use]
    pub fn with(self, bytes: usize) -> Self {
        Self {
            bytes: self.bytes + bytes,
            ..self
        }
    }

    /// Query blocks.
    fn queries(self) -> usize {
        let combined = if self.combined > 0 {
            self.combined + 1
        } else {
            0
        };
        self.selects.max(combined)
    }

    /// Bytes for parsing and planning.
    #[must_use]
    pub fn parsed(self) -> usize {
        let tokens = self.tokens.saturating_mul(TOKEN);
        let white = self.white.saturating_mul(WHITE);
        let queries = self.queries().saturating_mul(QUERY);
        let text = self.bytes.saturating_mul(match self.only_values {
            true => COPIES_OF_VALUES,
            false => COPIES,
        });
        let parts = [white, queries, text].into_iter();
        parts.fold(tokens, usize::saturating_add)
    }

    /// Bytes for tokens and tree of a statement that is kept.
    #[must_use]
    pub fn kept(self) -> usize {
        let tokens = (self.tokens + self.white).saturating_mul(KEPT_TOKEN);
        tokens.saturating_add(self.bytes.saturating_mul(KEPT_COPIES))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'@' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_only_stored_take_less() {
        let least = |text: &str| Footprint::of(text).with(1 << 20).parsed() < 13 << 20;
        assert!(least("insert into t values ('select')"));
        assert!(least("\nREPLACE t SET a = 1"));
        for text in [
            "INSERT INTO t SELECT 'x'",
            "SELECT 'insert'",
            "UPDATE t SET a = 1",
        ] {
            assert!(!least(text), "{text}");
        }
    }

    #[test]
    fn tokens_are_counted_as_the_parser_splits_them() {
        for (text, tokens, white, queries) in [
            ("", 0, 0, 0),
            ("SELECT a, 'it\\'s', 12 FROM `t x`", 8, 5, 1),
            ("SELECT 1+1+1", 6, 1, 1),
            ("'open", 1, 0, 0),
            ("'a''b'", 2, 0, 0),
            ("é=@a", 3, 0, 0),
            ("(select 1)union select'select'", 7, 2, 2),
            ("table t union table t except table t", 8, 7, 3),
        ] {
            let found = Footprint::of(text);
            let found = (found.tokens, found.white, found.queries());
            assert_eq!(found, (tokens, white, queries), "{text}");
        }
    }
}
