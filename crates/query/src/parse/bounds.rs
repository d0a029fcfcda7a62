//! How deep and how long a statement may be, found from its tokens: before anything that recurses has seen it.
//!
//! The parser bounds what nests by parentheses ([`super::MAX_DEPTH`]). Chains of operators it reads in a loop,
//! and makes a tree of them that is as deep as the chain is long. Chains of AND, of OR and of UNION are made
//! shallow by [`super::balance`], and may be long. Other operators are not associative (`+` may
//! overflow), so their number is bounded here, for each path through the tree.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError};

/// Operators, one inside the other, that an expression may have. The types of an expression are found by walking
/// all of it, and that at each of its levels: time grows with the square of this (but see
/// [`crate::functions::chain`]).
pub const MAX_OPERATORS: usize = 1000;

/// ANDs and ORs of one condition, and branches of one UNION.
pub const MAX_TERMS: usize = 20_000;

/// Checks the tokens of a statement.
///
/// # Errors
/// 1436.
pub fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Level::default()];
    let mut after_period = false;
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::Whitespace(_) => continue,
            // What follows a period is a name.
            Token::Word(_) if after_period => {}
            Token::LParen | Token::LBracket | Token::LBrace => levels.push(Level::default()),
            Token::RParen | Token::RBracket | Token::RBrace => {
                while close(&mut levels).is_some_and(|closed| closed.is_case) {}
            }
            Token::Word(word) => match word.keyword {
                Keyword::CASE => levels.push(Level {
                    is_case: true,
                    ..Level::default()
                }),
                Keyword::END if levels.last().is_some_and(|level| level.is_case) => {
                    close(&mut levels);
                }
                keyword => top(&mut levels).keyword(keyword)?,
            },
            Token::Comma | Token::SemiColon => top(&mut levels).restart(),
            Token::StringConcat | Token::Overlap => top(&mut levels).term()?,
            Token::Period
            | Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::EOF => {}
            _ => top(&mut levels).operator(),
        }
        top(&mut levels).check()?;
        after_period = *token == Token::Period;
    }
    Ok(())
}

fn top(levels: &mut Vec<Level>) -> &mut Level {
    if levels.is_empty() {
        levels.push(Level::default());
    }
    let last = levels.len() - 1;
    &mut levels[last]
}

/// Ends the innermost level; the one around it is as much deeper.
fn close(levels: &mut Vec<Level>) -> Option<Level> {
    let closed = levels.pop()?;
    let around = top(levels);
    around.inner = around.inner.max(closed.depth() + 1);
    Some(closed)
}

/// What stands between two parentheses, or between CASE and END.
#[derive(Debug, Default)]
struct Level {
    is_case: bool,
    /// Operators since the last AND or OR.
    operators: usize,
    /// BETWEENs whose AND has not come yet.
    betweens: usize,
    /// Depth of what is in parentheses, of this expression.
    inner: usize,
    /// The greatest depth of an operand of AND or OR, or of an item of a list, so far.
    deepest: usize,
    /// ANDs and ORs.
    terms: usize,
    /// UNIONs.
    unions: usize,
}

impl Level {
    fn operator(&mut self) {
        self.operators += 1;
    }

    fn depth(&self) -> usize {
        self.deepest.max(self.operators + self.inner)
    }

    /// Another expression begins.
    fn restart(&mut self) {
        self.deepest = self.depth();
        (self.operators, self.betweens, self.inner, self.terms) = (0, 0, 0, 0);
    }

    /// An AND or OR.
    fn term(&mut self) -> Result<()> {
        self.deepest = self.depth();
        (self.operators, self.betweens, self.inner) = (0, 0, 0);
        self.terms += 1;
        Self::bounded(self.terms)
    }

    fn bounded(terms: usize) -> Result<()> {
        match terms > MAX_TERMS {
            true => Err(SqlError::too_long(MAX_TERMS)),
            false => Ok(()),
        }
    }

    fn keyword(&mut self, keyword: Keyword) -> Result<()> {
        match keyword {
            Keyword::AND if self.betweens > 0 => self.betweens -= 1,
            Keyword::AND | Keyword::OR => return self.term(),
            Keyword::BETWEEN => {
                self.betweens += 1;
                self.operator();
            }
            Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::DIV
            | Keyword::MOD
            | Keyword::COLLATE
            | Keyword::MEMBER => self.operator(),
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                self.unions += 1;
                self.restart();
                return Self::bounded(self.unions);
            }
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::JOIN
            | Keyword::ON
            | Keyword::WHERE
            | Keyword::BY
            | Keyword::HAVING
            | Keyword::LIMIT
            | Keyword::SET
            | Keyword::VALUES
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE => self.restart(),
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match self.operators + self.inner > MAX_OPERATORS {
            true => Err(SqlError::too_deep(MAX_OPERATORS)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crate::parse::Script;

    fn errno(text: &str) -> Option<u16> {
        let script = Script::new(text).unwrap();
        let piece = script.pieces().next().unwrap();
        super::check(piece.tokens).err().map(|error| error.errno)
    }

    #[test]
    fn a_chain_of_operators_is_bounded_however_it_is_written() {
        for (first, link, last) in [
            ("SELECT 1", "+1", ""),
            ("SELECT 1", " DIV a.b", ""),
            ("SELECT 1 FROM t WHERE a=1 AND b", "=1", ""),
            ("SELECT a", " BETWEEN 1 AND 2", ""),
            ("SELECT a", " XOR b", " AND c"),
            ("SELECT a", " IS NULL", ""),
            ("SELECT a", " IN (1,2)", ""),
            ("SELECT a", " COLLATE utf8mb4_bin", ""),
            ("SELECT ", "NOT ", "a"),
            ("SELECT ", "- ", "a"),
            ("SELECT 1", "+CASE WHEN a THEN b ELSE c END", ""),
            ("SELECT 1", "+t.end+t.from", ""),
            ("UPDATE t SET a=1", "|1", ""),
        ] {
            let text = |links: usize| format!("{first}{}{last}", link.repeat(links));
            assert_eq!(errno(&text(100)), None, "{link}");
            assert_eq!(errno(&text(super::MAX_OPERATORS + 1)), Some(1436), "{link}");
            assert_eq!(errno(&text(200_000)), Some(1436), "{link}");
        }
        let nested = format!("SELECT {}1{}", "(1+1+1+".repeat(400), "+1+1+1)".repeat(400));
        assert_eq!(errno(&nested), Some(1436));
    }

    #[test]
    fn long_lists_and_conditions_are_no_chains() {
        for (first, link) in [
            ("SELECT 1", ",a+1"),
            ("SELECT 1 FROM t WHERE a=1", " OR a=2 AND b<3"),
            ("SELECT 1 FROM t WHERE a=1", " OR a BETWEEN 2 AND 3"),
            ("SELECT CASE", " WHEN a=1 THEN b+1"),
            ("INSERT INTO t VALUES (-1)", ",(-1,1+1)"),
            ("SELECT 1", " UNION ALL SELECT 1+1"),
            ("SELECT 1", ",(a=1 AND b=2 OR (c IN (1,2)))"),
        ] {
            assert_eq!(
                errno(&format!("{first}{}", link.repeat(5000))),
                None,
                "{link}"
            );
        }
        for (first, link) in [("SELECT 1", " OR a"), ("SELECT 1", " UNION SELECT 1")] {
            let text = format!("{first}{}", link.repeat(super::MAX_TERMS + 1));
            assert_eq!(errno(&text), Some(1436), "{link}");
        }
    }
}
