//! EXPLAIN and DESCRIBE.

use sqlparser::tokenizer::Token;

use super::{Cursor, Piece, Statement, change};
use crate::error::{Result, SqlError};

/// How EXPLAIN shows a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    /// A row a table.
    Traditional,
    /// A tree of what is done.
    Tree,
    /// JSON.
    Json,
    /// The operators that run, by the names that they have in this program.
    Engine,
}

/// What an EXPLAIN asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explain {
    /// The statement is run, and measured.
    pub analyze: bool,
    /// What is shown, if the statement says that.
    pub format: Option<ExplainFormat>,
    /// The token that the statement begins with.
    from: usize,
}

impl Explain {
    /// The statement that is explained, of the whole one.
    #[must_use]
    pub fn statement_of<'a>(&self, piece: Piece<'a>) -> Piece<'a> {
        Piece {
            tokens: &piece.tokens[self.from..],
            ..piece
        }
    }
}

/// First words of statements that are explained.
const EXPLAINED: [&str; 8] = [
    "SELECT", "WITH", "TABLE", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE",
];

/// Parses what follows EXPLAIN, DESCRIBE or DESC.
pub(super) fn parse(piece: Piece<'_>, mut cursor: Cursor<'_>) -> Result<Statement> {
    let analyze = cursor.accept("ANALYZE");
    let format = format(&mut cursor)?;
    let mut explain = Explain {
        analyze,
        format,
        from: cursor.position(),
    };
    let mut ahead = cursor.clone();
    if !analyze && ahead.accept_all(&["FOR", "CONNECTION"]) {
        let id = ahead.number()?;
        ahead.end()?;
        return Ok(Statement::ExplainConnection(explain, id));
    }
    let is_statement = cursor.peek_any(&EXPLAINED) || cursor.peek_is(&Token::LParen);
    if !(analyze || format.is_some() || is_statement) {
        let table = cursor.object_name()?;
        let column = match cursor.at_end() {
            true => None,
            false => Some(cursor.name()?),
        };
        cursor.end()?;
        return Ok(Statement::Describe(table, column));
    }
    explain.from = cursor.position();
    let statement = match cursor.clone().word().as_str() {
        "UPDATE" => {
            cursor.word();
            Statement::Update(Box::new(change::update(cursor)?))
        }
        "DELETE" => {
            cursor.word();
            Statement::Delete(Box::new(change::delete(cursor)?))
        }
        _ => piece.with_sqlparser(explain.from)?,
    };
    match statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_) => Ok(Statement::Explain(explain, Box::new(statement))),
        _ => Err(SqlError::not_supported(
            "EXPLAIN of a statement that neither reads nor changes rows",
        )),
    }
}

/// `FORMAT = name`, if that comes.
fn format(cursor: &mut Cursor<'_>) -> Result<Option<ExplainFormat>> {
    let mut ahead = cursor.clone();
    // There may be a table with this name.
    if !(ahead.accept("FORMAT") && ahead.accept_token(&Token::Eq)) {
        return Ok(None);
    }
    let name = ahead.name()?;
    *cursor = ahead;
    match name.to_ascii_uppercase().as_str() {
        "TRADITIONAL" => Ok(Some(ExplainFormat::Traditional)),
        "TREE" => Ok(Some(ExplainFormat::Tree)),
        "JSON" => Ok(Some(ExplainFormat::Json)),
        "ENGINE" => Ok(Some(ExplainFormat::Engine)),
        _ => Err(SqlError::unknown_explain_format(name)),
    }
}
