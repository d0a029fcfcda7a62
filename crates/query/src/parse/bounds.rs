//! How deep and how long a statement may be, found from its tokens: before anything that recurses has seen it.
//!
//! What nests by parentheses or CASE is bounded here, too: the parser's own bound ([`super::MAX_DEPTH`]) is for
//! what it reads in other ways, and where a word may be a name it takes the bound for an error of syntax.
//!
//! Chains of operators it reads in a loop, and makes a tree of them that is as deep as the chain is long. Chains
//! of AND, of OR and of UNION are made shallow by [`super::balance`], and may be long. Other operators are not
//! associative (`+` may overflow), so their number is bounded here, for each path through the tree.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Grammar;
use crate::error::{Result, SqlError};
use crate::functions::chain::LONG;

/// Operators, one inside the other, that an expression may have.
pub const MAX_OPERATORS: usize = 2000;

/// Levels that an expression may have when long chains of arithmetic have become one level
/// ([`crate::functions::chain`]). DataFusion names an expression after all that is in it, at each of its levels and
/// in each of its passes: time grows with the third power of this.
pub const MAX_LEVELS: usize = 250;

/// Parentheses and CASEs, one inside the other. The parser counts a few levels more: the statement, its query.
pub const MAX_NESTED: usize = super::MAX_DEPTH - 10;

/// ANDs and ORs of one condition, and branches of one UNION.
pub const MAX_TERMS: usize = 20_000;

/// Checks the tokens of a statement.
///
/// # Errors
/// 1436.
pub fn check(tokens: &[TokenWithSpan], grammar: &Grammar) -> Result<()> {
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
            // A chain is one call.
            Token::StringConcat if grammar.has_pipes_as_concat() => top(&mut levels).operand()?,
            Token::StringConcat | Token::Overlap => top(&mut levels).term()?,
            Token::Period
            | Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::EOF => {}
            Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod => {
                top(&mut levels).arithmetic();
            }
            _ => top(&mut levels).operator(),
        }
        if levels.len() > MAX_NESTED {
            return Err(SqlError::too_nested(MAX_NESTED));
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
    around.inner = around.inner.max(closed.depth().plus(ONE));
    Some(closed)
}

/// How deep something is.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    /// As the parser reads it.
    operators: usize,
    /// When chains of arithmetic are one level.
    levels: usize,
}

impl Depth {
    fn max(self, other: Self) -> Self {
        Self {
            operators: self.operators.max(other.operators),
            levels: self.levels.max(other.levels),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            operators: self.operators + other.operators,
            levels: self.levels + other.levels,
        }
    }
}

const ONE: Depth = Depth {
    operators: 1,
    levels: 1,
};

/// What stands between two parentheses, or between CASE and END.
#[derive(Debug, Default)]
struct Level {
    is_case: bool,
    /// Operators since the last AND or OR.
    own: Depth,
    /// Operators of arithmetic, one after the other.
    run: usize,
    /// BETWEENs whose AND has not come yet.
    betweens: usize,
    /// Depth of what is in parentheses, of this expression.
    inner: Depth,
    /// The greatest depth of an operand of AND or OR, or of an item of a list, so far.
    deepest: Depth,
    /// ANDs and ORs.
    terms: usize,
    /// UNIONs.
    unions: usize,
}

impl Level {
    fn operator(&mut self) {
        self.own = self.own.plus(ONE);
        self.run = 0;
    }

    fn arithmetic(&mut self) {
        self.run += 1;
        self.own.operators += 1;
        // A longer one is one function.
        self.own.levels += usize::from(self.run < LONG);
    }

    fn depth(&self) -> Depth {
        self.deepest.max(self.own.plus(self.inner))
    }

    fn forget(&mut self) {
        self.deepest = self.depth();
        (self.own, self.inner) = Default::default();
        (self.run, self.betweens) = (0, 0);
    }

    /// Another expression begins.
    fn restart(&mut self) {
        self.forget();
        self.terms = 0;
    }

    /// An AND or OR.
    fn term(&mut self) -> Result<()> {
        self.forget();
        self.terms += 1;
        Self::bounded(self.terms)
    }

    /// Another operand of a call.
    fn operand(&mut self) -> Result<()> {
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
            Keyword::DIV | Keyword::MOD => self.arithmetic(),
            Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::REGEXP
            | Keyword::RLIKE
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
        let Depth { operators, levels } = self.own.plus(self.inner);
        if operators > MAX_OPERATORS {
            return Err(SqlError::too_deep(MAX_OPERATORS));
        }
        match levels > MAX_LEVELS {
            true => Err(SqlError::too_deep(MAX_LEVELS)),
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
        super::check(piece.tokens, piece.grammar)
            .err()
            .map(|error| error.errno)
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
            assert_eq!(errno(&text(50)), None, "{link}");
            assert_eq!(errno(&text(super::MAX_OPERATORS + 1)), Some(1436), "{link}");
            assert_eq!(errno(&text(200_000)), Some(1436), "{link}");
        }
        assert_eq!(errno(&format!("SELECT 1{}", "*a+1".repeat(900))), None);
        assert_eq!(errno(&format!("SELECT 1{}", "=a".repeat(251))), Some(1436));
        let nested = format!("SELECT {}1{}", "(1+1+1+".repeat(400), "+1+1+1)".repeat(400));
        assert_eq!(errno(&nested), Some(1436));
    }

    #[test]
    fn nesting_is_bounded_before_the_parser_misreads_it() {
        for (open, inner, close) in [
            ("(", "1", ")"),
            ("CASE WHEN a THEN 1 ELSE ", "2", " END"),
            ("CASE ", "a", " WHEN 1 THEN 2 END"),
            ("CAST(", "1", " AS SIGNED)"),
            ("IF(1, 2, ", "3", ")"),
        ] {
            let text = |levels: usize| {
                format!(
                    "SELECT {}{inner}{}",
                    open.repeat(levels),
                    close.repeat(levels)
                )
            };
            for (levels, expected) in [
                (80, None),
                (91, Some(1436)),
                (98, Some(1436)),
                (5000, Some(1436)),
            ] {
                let text = text(levels);
                let script = Script::new(&text).unwrap();
                let piece = script.pieces().next().unwrap();
                let found = piece.parse().err().map(|error| error.errno);
                assert_eq!(found, expected, "{levels} levels of {open}");
            }
        }
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
