//! SET.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Cursor, Piece};
use crate::error::{Result, SqlError};

/// Which value of a variable is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This session's.
    Session,
    /// That of sessions to come.
    Global,
}

/// What is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A system variable, in lower case.
    System(Scope, String),
    /// A user variable, in lower case.
    User(String),
    /// The character set and collation of the connection (SET NAMES, SET CHARACTER SET).
    Names {
        /// A collation was given.
        collation: Option<String>,
    },
    /// The isolation level (SET TRANSACTION).
    Isolation,
}

/// What it is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// DEFAULT.
    Default,
    /// A bare word or a string.
    Text(String),
    /// Any other expression.
    Expr(Box<Expr>),
}

/// One assignment of a SET.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Left side.
    pub target: Target,
    /// Right side.
    pub value: Value,
}

pub(super) fn parse(mut cursor: Cursor<'_>) -> Result<Vec<Assignment>> {
    let mut assignments = Vec::new();
    loop {
        assignments.push(assignment(&mut cursor)?);
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.end()?;
    Ok(assignments)
}

fn assignment(cursor: &mut Cursor<'_>) -> Result<Assignment> {
    if cursor.accept("NAMES")
        || cursor.accept("CHARSET")
        || cursor.accept_all(&["CHARACTER", "SET"])
    {
        let value = value(cursor)?;
        let collation = if cursor.accept("COLLATE") {
            Some(cursor.name()?)
        } else {
            None
        };
        return Ok(Assignment {
            target: Target::Names { collation },
            value,
        });
    }
    let mut scope = scope(cursor);
    if cursor.accept("TRANSACTION") {
        return isolation(cursor);
    }
    if cursor.peek_any(&["PASSWORD", "ROLE", "RESOURCE"]) {
        return Err(SqlError::not_supported(
            "SET PASSWORD, ROLE, RESOURCE GROUP",
        ));
    }
    let name = cursor.name()?.to_lowercase();
    let target = match name.strip_prefix("@@") {
        Some(mut system) => {
            let owned;
            if ["session", "local", "global", "persist", "persist_only"].contains(&system) {
                scope = Some(scope_named(system)?);
                cursor.expect(&Token::Period)?;
                owned = cursor.name()?.to_lowercase();
                system = &owned;
            }
            Target::System(scope.unwrap_or(Scope::Session), system.to_owned())
        }
        None => match name.strip_prefix('@') {
            Some(user) => Target::User(user.to_owned()),
            None => Target::System(scope.unwrap_or(Scope::Session), name),
        },
    };
    if !cursor.accept_token(&Token::Eq) {
        cursor.expect(&Token::Assignment)?;
    }
    Ok(Assignment {
        target,
        value: value(cursor)?,
    })
}

fn scope(cursor: &mut Cursor<'_>) -> Option<Scope> {
    if cursor.accept("SESSION") || cursor.accept("LOCAL") {
        return Some(Scope::Session);
    }
    cursor.accept("GLOBAL").then_some(Scope::Global)
}

fn scope_named(name: &str) -> Result<Scope> {
    match name {
        "session" | "local" => Ok(Scope::Session),
        "global" => Ok(Scope::Global),
        other => Err(SqlError::not_supported(format!("SET @@{other}"))),
    }
}

/// The levels are accepted: for now each statement is a transaction that reads a snapshot.
fn isolation(cursor: &mut Cursor<'_>) -> Result<Assignment> {
    let mut level = String::new();
    while !cursor.at_end() && !cursor.peek_is(&Token::Comma) {
        let word = cursor.word();
        if word.is_empty() {
            return Err(cursor.error());
        }
        if !level.is_empty() {
            level.push('-');
        }
        level.push_str(&word);
    }
    let level = level
        .strip_prefix("ISOLATION-LEVEL-")
        .unwrap_or(&level)
        .to_owned();
    let known = [
        "READ-UNCOMMITTED",
        "READ-COMMITTED",
        "REPEATABLE-READ",
        "SERIALIZABLE",
        "READ-ONLY",
        "READ-WRITE",
    ];
    if !known.contains(&level.as_str()) {
        return Err(cursor.error_at_last());
    }
    Ok(Assignment {
        target: Target::Isolation,
        value: Value::Text(level),
    })
}

fn value(cursor: &mut Cursor<'_>) -> Result<Value> {
    let start = cursor.position();
    let mut depth = 0;
    let mut count = 0;
    while let Some(token) = cursor.peek() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => break,
            Token::Word(word)
                if depth == 0
                    && count == 1
                    && word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case("COLLATE") =>
            {
                break;
            }
            _ => {}
        }
        cursor.next();
        count += 1;
    }
    let tokens = cursor.tokens(start..cursor.position());
    let mut meaningful = tokens
        .iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_)));
    match (meaningful.next().map(|t| &t.token), meaningful.next()) {
        (None, _) => return Err(cursor.error()),
        (Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)), None) => {
            return Ok(Value::Text(text.clone()));
        }
        (Some(Token::Word(word)), None) if !word.value.starts_with('@') => {
            let text = word.value.clone();
            return Ok(match text.to_ascii_uppercase().as_str() {
                "DEFAULT" if word.quote_style.is_none() => Value::Default,
                "NULL" if word.quote_style.is_none() => Value::Expr(Box::new(Expr::value(
                    datafusion::sql::sqlparser::ast::Value::Null,
                ))),
                _ => Value::Text(text),
            });
        }
        _ => {}
    }
    let piece = Piece {
        text: cursor.piece().text,
        tokens,
    };
    let mut parser = piece.parser(0);
    let expr = parser.parse_expr().map_err(|e| piece.error(&e))?;
    piece.expect_end(&mut parser)?;
    Ok(Value::Expr(Box::new(expr)))
}
