//! INSERT of many rows: all but the first are cut out of its text before it is split into tokens. They are
//! parsed some at a time while the statement runs, so that the memory for tokens and trees, a hundred
//! times the text of short values, does not grow with the number of rows.
//!
//! One pass over the bytes decides. A text that is not plain is parsed as a whole: with comments, names or
//! parameters among the values, or prefixes of strings.

use perigee_sql_bind::Modes;
use sqlparser::ast::Expr;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token};

use super::balance::balance;
use super::scan::Scan;
use super::{Footprint, Grammar, LongLists, MAX_DEPTH, Piece, Source, location, names, near};
use crate::error::{Result, SqlError};

/// Texts that are not longer are parsed as a whole, in bytes.
const LONG: usize = 64 << 10;

/// Longest text in front of the rows, in bytes.
const LONGEST_HEAD: usize = 64 << 10;

/// Text of rows that are parsed at a time, in bytes.
const BLOCK: usize = 32 << 10;

/// Rows of VALUES that are not among the tokens of their statement.
#[derive(Clone, Copy, Debug)]
pub struct MoreRows<'a> {
    /// The text that they are part of.
    text: &'a str,
    /// The next of them begins at or behind this byte.
    at: usize,
    /// The last of them ends before this byte.
    end: usize,
    grammar: &'static Grammar,
}

impl Default for MoreRows<'_> {
    fn default() -> Self {
        Self {
            text: "",
            at: 0,
            end: 0,
            grammar: Grammar::of(Modes::NONE),
        }
    }
}

/// Some rows.
#[derive(Debug)]
pub struct Block<'a> {
    text: &'a str,
    grammar: &'static Grammar,
    /// Their values.
    pub rows: Vec<Vec<Expr>>,
}

impl<'a> Block<'a> {
    /// What their expressions are part of.
    #[must_use]
    pub fn piece(&self) -> Piece<'a> {
        Piece {
            text: self.text,
            tokens: &[],
            more_rows: MoreRows::default(),
            lists: LongLists::default(),
            grammar: self.grammar,
        }
    }
}

/// Cuts the rows behind the first out of a text that begins with a long INSERT or REPLACE. What remains has as many
/// lines.
pub(super) fn cut<'t>(text: &'t str, grammar: &'static Grammar) -> Option<(String, MoreRows<'t>)> {
    if text.len() <= LONG {
        return None;
    }
    let mut scan = Scan {
        text,
        at: 0,
        escapes: grammar.has_backslash_escapes(),
    };
    scan.head()?;
    scan.row()?;
    let first = scan.at;
    let mut end = first;
    while scan.comma() {
        scan.row()?;
        end = scan.at;
    }
    scan.white();
    let word = scan.word();
    let goes_on = ["", "AS", "ON"]
        .iter()
        .any(|w| word.eq_ignore_ascii_case(w));
    if end == first || !goes_on {
        return None;
    }
    let lines = text[first..end].bytes().filter(|b| *b == b'\n').count();
    let rest = &text[end..];
    let mut remaining = String::with_capacity(first + lines + rest.len());
    remaining.push_str(&text[..first]);
    remaining.extend(std::iter::repeat_n('\n', lines));
    remaining.push_str(rest);
    Some((
        remaining,
        MoreRows {
            text,
            at: first,
            end,
            grammar,
        },
    ))
}

impl<'a> MoreRows<'a> {
    /// Parses the next rows, if `admit` lets them take what they need; `None` behind the last one.
    ///
    /// # Errors
    /// 1064 and 1436 as for a whole statement, and those of `admit`.
    pub fn next_block(
        &mut self,
        admit: impl FnOnce(Footprint) -> Result<()>,
    ) -> Option<Result<Block<'a>>> {
        let mut scan = Scan {
            text: &self.text[..self.end],
            at: self.at,
            escapes: self.grammar.has_backslash_escapes(),
        };
        if !scan.comma() {
            return None;
        }
        scan.white();
        let start = scan.at;
        let mut end = start;
        while end - start < BLOCK {
            // All of them were passed over before.
            if (end > start && !scan.comma()) || scan.row().is_none() {
                break;
            }
            end = scan.at;
        }
        self.at = end;
        let text = &self.text[start..end];
        if let Err(error) = admit(Footprint::of(text)) {
            return Some(Err(error));
        }
        let parsed = values(text, self.grammar).map_err(|at| match at {
            Wrong::At(at) => self.syntax_error(start + Source::of(text).offset(at)),
            Wrong::AtEnd => self.syntax_error(end),
            Wrong::Nested => SqlError::too_nested(MAX_DEPTH),
        });
        let grammar = self.grammar;
        Some(parsed.map(|rows| Block {
            text,
            grammar,
            rows,
        }))
    }

    /// The error of the first rows that cannot be parsed.
    ///
    /// # Errors
    /// As [`MoreRows::next_block`].
    pub fn check(mut self) -> Result<()> {
        // One block is parsed at a time, as the one was that failed.
        while let Some(block) = self.next_block(|_| Ok(())) {
            block?;
        }
        Ok(())
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    fn syntax_error(&self, at: usize) -> SqlError {
        let lines = self.text[..at].bytes().filter(|byte| *byte == b'\n');
        SqlError::syntax(near(&self.text[at..]), lines.count() as u64 + 1)
    }
}

/// Why rows cannot be parsed.
enum Wrong {
    At(Location),
    AtEnd,
    Nested,
}

/// The values of some rows.
fn values(text: &str, grammar: &'static Grammar) -> std::result::Result<Vec<Vec<Expr>>, Wrong> {
    let tokens = grammar.tokens(text);
    let tokens = tokens.map_err(|error| Wrong::At(error.location))?;
    let mut parser = Parser::new(grammar)
        .with_recursion_limit(MAX_DEPTH)
        .with_tokens_with_locations(tokens);
    let mut values = parser
        .parse_values(true, false)
        .map_err(|error| match error {
            ParserError::RecursionLimitExceeded => Wrong::Nested,
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
                location(&text).map_or(Wrong::AtEnd, Wrong::At)
            }
        })?;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(Wrong::At(next.span.start));
    }
    if let Some(ident) = names::misplaced_in(&values) {
        return Err(Wrong::At(ident.span.start));
    }
    balance(&mut values, grammar);
    Ok(values.rows.into_iter().map(|row| row.content).collect())
}

impl Scan<'_> {
    /// Passes over what is in front of the rows: verb, table and columns.
    fn head(&mut self) -> Option<()> {
        self.white();
        let verb = self.word();
        if !["INSERT", "REPLACE"]
            .iter()
            .any(|w| verb.eq_ignore_ascii_case(w))
        {
            return None;
        }
        while self.at < LONGEST_HEAD {
            match self.peek()? {
                b' ' | b'\t' | b'\n' | b'\r' | b'(' | b')' | b',' | b'.' => self.at += 1,
                b'`' => {
                    self.at += 1;
                    self.skip(|byte| byte != b'`');
                    self.at += 1;
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    let word = self.word();
                    let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w));
                    if is(&["VALUES", "VALUE"]) {
                        return Some(());
                    }
                    if is(&["SELECT", "SET", "WITH", "TABLE"]) {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        None
    }

    /// Passes over a row: parentheses with plain tokens between them.
    fn row(&mut self) -> Option<()> {
        self.white();
        if self.peek() != Some(b'(') {
            return None;
        }
        let mut depth = 0;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => return Some(()),
                b')' => depth -= 1,
                b'\'' | b'"' => self.string(byte)?,
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => {
                    self.word();
                    if matches!(self.peek(), Some(b'\'' | b'"')) {
                        return None;
                    }
                }
                b'-' if self.peek() == Some(b'-') => return None,
                b'/' if self.peek() == Some(b'*') => return None,
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b'.' | b'+' | b'-' | b'*' | b'/' | b'%'
                | b'=' | b'<' | b'>' | b'!' | b'&' | b'|' | b'^' | b'~' => {}
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::super::{Script, Statement};
    use super::*;

    /// A long INSERT: its values as sqlparser shows them, of the first rows and of the others.
    fn parsed(text: &str) -> (Vec<Vec<String>>, usize) {
        let script = Script::streamed(text, Modes::NONE, |_| Ok(())).unwrap();
        let piece = script.pieces().next().unwrap();
        let Statement::Insert(insert) = piece.parse().unwrap() else {
            panic!("no INSERT");
        };
        let shown =
            |row: Vec<Expr>| -> Vec<String> { row.iter().map(ToString::to_string).collect() };
        let body = *insert.source.unwrap().body;
        let sqlparser::ast::SetExpr::Values(values) = body else {
            panic!("no VALUES");
        };
        let first = values.rows.len();
        let mut rows: Vec<_> = values
            .rows
            .into_iter()
            .map(|row| shown(row.content))
            .collect();
        let mut more = piece.more_rows;
        while let Some(block) = more.next_block(|_| Ok(())) {
            rows.extend(block.unwrap().rows.into_iter().map(shown));
        }
        (rows, first)
    }

    fn long(row: &str, end: &str) -> String {
        format!(
            "INSERT INTO t (a, `b`) VALUES {}{end}",
            vec![row; 15_000].join(" ,\n")
        )
    }

    #[test]
    fn rows_are_the_same_whether_cut_or_not() {
        for row in [
            "(1, 'a')",
            "(-1.5e3, 'it''s \\' (,) \\\\')",
            "( 0x41, \"a \"\" ' b\" )",
            "((1 + 2) * 3, NULL)",
            "(DEFAULT, CONCAT('a', 'b;'))",
            "('é ü', TRUE)",
            "()",
        ] {
            for end in [
                "",
                ";",
                "\nON DUPLICATE KEY UPDATE a = 1",
                " AS n(a, b) ON DUPLICATE KEY UPDATE a = n.b",
            ] {
                let text = long(row, end);
                let (rows, first) = parsed(&text);
                assert_eq!((rows.len(), first), (15_000, 1), "{row}{end}");
                assert!(rows.iter().all(|other| *other == rows[0]), "{row}");
                let remaining = cut(&text, Grammar::of(Modes::NONE)).unwrap().0;
                let lines = |text: &str| text.matches('\n').count();
                assert_eq!(lines(&remaining), lines(&text));
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_parsed_as_a_whole() {
        for row in [
            "(1, x'41')",
            "(1, -- one\n 2)",
            "(1, /* one */ 2)",
            "(?, 2)",
            "(`a`, 2)",
            "(@a, 2)",
            "(1, N'a')",
            "ROW(1, 2)",
        ] {
            assert!(
                cut(&long(row, ""), Grammar::of(Modes::NONE)).is_none(),
                "{row}"
            );
        }
        let select = format!(
            "INSERT INTO t SELECT {} FROM t",
            vec!["1"; 90_000].join(",")
        );
        assert!(cut(&select, Grammar::of(Modes::NONE)).is_none());
        assert!(
            cut(
                &long("(1, 2)", " UNION SELECT 1, 2"),
                Grammar::of(Modes::NONE)
            )
            .is_none()
        );
        assert!(cut(&long("(1, 2)", " , (1, 'open)"), Grammar::of(Modes::NONE)).is_none());
        assert!(
            cut("INSERT INTO t VALUES (1), (2)", Grammar::of(Modes::NONE)).is_none(),
            "it is short"
        );
    }

    #[test]
    fn errors_have_their_place_in_the_whole_text() {
        let text = long("(1, 2)", " ,\n(3 4), (5, 6)");
        let script = Script::streamed(&text, Modes::NONE, |_| Ok(())).unwrap();
        let more = script.pieces().next().unwrap().more_rows;
        let error = more.check().unwrap_err();
        assert_eq!(error.errno, 1064);
        assert!(
            error.message.contains("'4), (5, 6)' at line 15001"),
            "{error}"
        );
        let deep = long(&format!("({}1{}, 2)", "(".repeat(200), ")".repeat(200)), "");
        let (_, more) = cut(&deep, Grammar::of(Modes::NONE)).unwrap();
        assert_eq!(more.check().unwrap_err().errno, 1436);
    }
}
