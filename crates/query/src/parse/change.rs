//! UPDATE and DELETE, with one table or several.

use sqlparser::ast::{
    Assignment, Expr, Ident, ObjectName, ObjectNamePart, OptimizerHint, OptimizerHintStyle,
    OrderBy, TableWithJoins, Visit,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Whitespace};

use super::balance::balance;
use super::{Cursor, Grammar, Piece, names, syntax_error};
use crate::error::{Result, SqlError};

/// Which rows a statement changes.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The tables.
    pub from: Vec<TableWithJoins>,
    /// WHERE.
    pub selection: Option<Expr>,
    /// ORDER BY; for one table only.
    pub order_by: Option<OrderBy>,
    /// LIMIT; for one table only.
    pub limit: Option<Expr>,
    /// Optimizer hints.
    pub hints: Vec<OptimizerHint>,
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// IGNORE.
    pub ignore: bool,
    /// SET.
    pub assignments: Vec<Assignment>,
    /// Which rows.
    pub rows: Rows,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// IGNORE.
    pub ignore: bool,
    /// The tables whose rows go; none in the form with one table.
    pub targets: Vec<ObjectName>,
    /// Which rows.
    pub rows: Rows,
}

impl Rows {
    fn balance(&mut self, grammar: &Grammar) {
        balance(&mut self.from, grammar);
        balance(&mut self.selection, grammar);
        balance(&mut self.order_by, grammar);
    }

    /// True if rows come from one table by itself.
    #[must_use]
    pub fn is_one_table(&self) -> bool {
        matches!(&self.from[..], [table] if table.joins.is_empty())
    }
}

/// Parses what follows UPDATE.
pub(super) fn update(mut cursor: Cursor<'_>) -> Result<Update> {
    let hints = hints(&cursor);
    let ignore = modifiers(&mut cursor, &["LOW_PRIORITY"])?;
    let piece = cursor.piece();
    let mut parser = piece.parser(cursor.position());
    let parse = |parser: &mut Parser<'_>| {
        let from = parser.parse_comma_separated(Parser::parse_table_and_joins)?;
        parser.expect_keyword_is(Keyword::SET)?;
        let assignments = parser.parse_comma_separated(Parser::parse_assignment)?;
        let rows = tail(parser, from)?;
        Ok(Update {
            ignore,
            assignments,
            rows,
        })
    };
    let mut update = parse(&mut parser).map_err(|e| piece.error(&e))?;
    balance(&mut update.assignments, piece.grammar);
    update.rows.balance(piece.grammar);
    piece.expect_end(&mut parser)?;
    update.rows.hints = hints;
    check_names(piece, &update.assignments)?;
    check(piece, &update.rows, "UPDATE")?;
    Ok(update)
}

/// Parses what follows DELETE.
pub(super) fn delete(mut cursor: Cursor<'_>) -> Result<Delete> {
    let hints = hints(&cursor);
    let ignore = modifiers(&mut cursor, &["LOW_PRIORITY", "QUICK"])?;
    let piece = cursor.piece();
    let mut parser = piece.parser(cursor.position());
    let (targets, mut rows) = delete_tables(&mut parser).map_err(|e| piece.error(&e))?;
    rows.balance(piece.grammar);
    piece.expect_end(&mut parser)?;
    rows.hints = hints;
    if !targets.is_empty() && (rows.order_by.is_some() || rows.limit.is_some()) {
        return Err(SqlError::wrong_usage("DELETE", "ORDER BY"));
    }
    check(piece, &rows, "DELETE")?;
    Ok(Delete {
        ignore,
        targets,
        rows,
    })
}

/// The three forms: `FROM t …`, `t, u FROM …`, `FROM t, u USING …`.
fn delete_tables(parser: &mut Parser<'_>) -> Result<(Vec<ObjectName>, Rows), ParserError> {
    if !parser.parse_keyword(Keyword::FROM) {
        let targets = parser.parse_comma_separated(target)?;
        parser.expect_keyword_is(Keyword::FROM)?;
        let from = parser.parse_comma_separated(Parser::parse_table_and_joins)?;
        return Ok((targets, tail(parser, from)?));
    }
    let using = parser.maybe_parse(|parser| {
        let targets = parser.parse_comma_separated(target)?;
        parser.expect_keyword_is(Keyword::USING)?;
        Ok(targets)
    })?;
    match using {
        Some(targets) => {
            let from = parser.parse_comma_separated(Parser::parse_table_and_joins)?;
            Ok((targets, tail(parser, from)?))
        }
        None => {
            let relation = parser.parse_table_factor()?;
            let table = TableWithJoins {
                relation,
                joins: Vec::new(),
            };
            Ok((Vec::new(), tail(parser, vec![table])?))
        }
    }
}

/// `table`, `schema.table`, perhaps with `.*`.
fn target(parser: &mut Parser<'_>) -> Result<ObjectName, ParserError> {
    let mut parts = vec![ObjectNamePart::Identifier(parser.parse_identifier()?)];
    while parser.consume_token(&Token::Period) {
        if parser.consume_token(&Token::Mul) {
            break;
        }
        parts.push(ObjectNamePart::Identifier(parser.parse_identifier()?));
    }
    Ok(ObjectName(parts))
}

/// WHERE, ORDER BY and LIMIT.
fn tail(parser: &mut Parser<'_>, from: Vec<TableWithJoins>) -> Result<Rows, ParserError> {
    let selection = if parser.parse_keyword(Keyword::WHERE) {
        Some(parser.parse_expr()?)
    } else {
        None
    };
    let order_by = parser.parse_optional_order_by()?;
    let limit = if parser.parse_keyword(Keyword::LIMIT) {
        Some(parser.parse_expr()?)
    } else {
        None
    };
    Ok(Rows {
        from,
        selection,
        order_by,
        limit,
        hints: Vec::new(),
    })
}

/// Words that change nothing here, and IGNORE; true if that is among them.
fn modifiers(cursor: &mut Cursor<'_>, without_meaning: &[&str]) -> Result<bool> {
    for word in without_meaning {
        cursor.accept(word);
    }
    let ignore = cursor.accept("IGNORE");
    if cursor.at_end() {
        return Err(cursor.error());
    }
    Ok(ignore)
}

/// The hints right behind the statement's first word.
fn hints(cursor: &Cursor<'_>) -> Vec<OptimizerHint> {
    let tokens = cursor.tokens(0..cursor.position());
    let comments = tokens.iter().filter_map(|token| match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(text)) => text.strip_prefix('+'),
        _ => None,
    });
    comments
        .map(|text| OptimizerHint {
            prefix: String::new(),
            text: text.to_owned(),
            style: OptimizerHintStyle::MultiLine,
        })
        .collect()
}

/// Parses assignments up to the end of the statement.
pub(super) fn assignments(cursor: &Cursor<'_>) -> Result<Vec<Assignment>> {
    let piece = cursor.piece();
    let mut parser = piece.parser(cursor.position());
    let assignments = parser.parse_comma_separated(Parser::parse_assignment);
    let mut assignments = assignments.map_err(|e| piece.error(&e))?;
    balance(&mut assignments, piece.grammar);
    piece.expect_end(&mut parser)?;
    check_names(piece, &assignments)?;
    Ok(assignments)
}

fn check(piece: Piece<'_>, rows: &Rows, statement: &str) -> Result<()> {
    if !rows.is_one_table() {
        if rows.order_by.is_some() {
            return Err(SqlError::wrong_usage(statement, "ORDER BY"));
        }
        if rows.limit.is_some() {
            return Err(SqlError::wrong_usage(statement, "LIMIT"));
        }
    }
    check_names(piece, &rows.from)?;
    check_names(piece, &rows.selection)?;
    check_names(piece, &rows.order_by)
}

fn check_names(piece: Piece<'_>, part: &impl Visit) -> Result<()> {
    let wrong: Option<Ident> = names::misplaced_in(part);
    match wrong {
        Some(ident) => Err(syntax_error(piece.text, piece.place_of(&ident))),
        None => Ok(()),
    }
}
