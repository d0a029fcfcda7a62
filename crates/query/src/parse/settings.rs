//! SET.

use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

use super::balance::balance;
use super::{Cursor, Piece};
use crate::error::{Result, SqlError};

/// Which value of a variable is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This session's.
    Session,
    /// That of sessions to come.
    Global,
    /// That of the session's next transaction; for its characteristics only.
    NextTransaction,
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
    if let Some(scope) = transaction_scope(&mut cursor) {
        loop {
            assignments.push(characteristic(&mut cursor, scope)?);
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
        cursor.end()?;
        return Ok(assignments);
    }
    loop {
        assignments.push(assignment(&mut cursor)?);
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.end()?;
    Ok(assignments)
}

/// The scope of a SET TRANSACTION, if it is one.
fn transaction_scope(cursor: &mut Cursor<'_>) -> Option<Scope> {
    let mut ahead = cursor.clone();
    let scope = scope(&mut ahead).unwrap_or(Scope::NextTransaction);
    if !ahead.accept("TRANSACTION") {
        return None;
    }
    *cursor = ahead;
    Some(scope)
}

fn assignment(cursor: &mut Cursor<'_>) -> Result<Assignment> {
    if cursor.accept("NAMES")
        || cursor.accept("CHARSET")
        || cursor.accept_all(&["CHARACTER", "SET"])
    {
        let value = value(cursor, true)?;
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
    if cursor.peek_any(&["ROLE", "RESOURCE"]) {
        return Err(SqlError::not_supported("SET ROLE, RESOURCE GROUP"));
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
            // As in MySQL, `@@` without a scope is not the same as no `@@` for these.
            let own = match CHARACTERISTICS.contains(&system) {
                true => Scope::NextTransaction,
                false => Scope::Session,
            };
            Target::System(scope.unwrap_or(own), system.to_owned())
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
        value: value(cursor, false)?,
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

/// Variables that are characteristics of a transaction.
const CHARACTERISTICS: [&str; 4] = [
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
];

/// One characteristic of SET TRANSACTION.
fn characteristic(cursor: &mut Cursor<'_>, scope: Scope) -> Result<Assignment> {
    let (variable, value) = if cursor.accept("ISOLATION") {
        cursor.expect_word("LEVEL")?;
        ("transaction_isolation", isolation_level(cursor)?)
    } else {
        cursor.expect_word("READ")?;
        let read_only = cursor.accept("ONLY");
        if !read_only {
            cursor.expect_word("WRITE")?;
        }
        let value = if read_only { "ON" } else { "OFF" };
        ("transaction_read_only", value)
    };
    Ok(Assignment {
        target: Target::System(scope, variable.to_owned()),
        value: Value::Text(value.to_owned()),
    })
}

fn isolation_level(cursor: &mut Cursor<'_>) -> Result<&'static str> {
    if cursor.accept("SERIALIZABLE") {
        return Ok("SERIALIZABLE");
    }
    if cursor.accept("REPEATABLE") {
        cursor.expect_word("READ")?;
        return Ok("REPEATABLE-READ");
    }
    cursor.expect_word("READ")?;
    if cursor.accept("UNCOMMITTED") {
        return Ok("READ-UNCOMMITTED");
    }
    cursor.expect_word("COMMITTED")?;
    Ok("READ-COMMITTED")
}

/// A value; that of SET NAMES ends before COLLATE, which is a part of any other.
fn value(cursor: &mut Cursor<'_>, of_names: bool) -> Result<Value> {
    let start = cursor.position();
    let mut depth = 0;
    let mut count = 0;
    while let Some(token) = cursor.peek() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => break,
            Token::Word(word)
                if of_names
                    && depth == 0
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
                "NULL" if word.quote_style.is_none() => {
                    Value::Expr(Box::new(Expr::value(sqlparser::ast::Value::Null)))
                }
                _ => Value::Text(text),
            });
        }
        _ => {}
    }
    let piece = Piece {
        tokens,
        ..cursor.piece()
    };
    let mut parser = piece.parser(0);
    let mut expr = parser.parse_expr().map_err(|e| piece.error(&e))?;
    balance(&mut expr, piece.grammar);
    piece.expect_end(&mut parser)?;
    Ok(Value::Expr(Box::new(expr)))
}
