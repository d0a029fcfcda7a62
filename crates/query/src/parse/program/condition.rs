//! Conditions: what handlers are for, and what SIGNAL, RESIGNAL and GET DIAGNOSTICS say.

use sqlparser::tokenizer::Token;

use super::scope::Scopes;
use super::{Code, Target, expression};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Cursor;

/// What a handler is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// An error number.
    Number(u16),
    /// SQLSTATE.
    State(SqlState),
    /// SQLWARNING: states that begin with 01.
    Warning,
    /// NOT FOUND: those that begin with 02.
    NotFound,
    /// SQLEXCEPTION: all others.
    Exception,
}

impl Condition {
    /// How exactly it describes an error or a warning; `None` if it is not for it.
    #[must_use]
    pub fn fits(&self, errno: u16, state: SqlState, is_error: bool) -> Option<u8> {
        let class = &state.as_str()[..2];
        let (fits, exact) = match self {
            Self::Number(number) => (*number == errno, 2),
            Self::State(own) => (*own == state, 1),
            Self::Warning => (class == "01" || !is_error, 0),
            Self::NotFound => (class == "02", 0),
            Self::Exception => (is_error && !["00", "01", "02"].contains(&class), 0),
        };
        fits.then_some(exact)
    }
}

/// What is raised.
#[derive(Clone, Debug)]
pub enum Signalled {
    /// A state.
    State(SqlState),
    /// The condition that the handler is for, by RESIGNAL.
    Same,
}

/// SIGNAL and RESIGNAL.
#[derive(Clone, Debug)]
pub struct Signal {
    /// What is raised.
    pub signalled: Signalled,
    /// RESIGNAL.
    pub again: bool,
    /// What is said of it.
    pub items: Vec<(Diagnostic, Code)>,
}

/// What is known of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic {
    /// MESSAGE_TEXT.
    Message,
    /// MYSQL_ERRNO.
    Number,
    /// RETURNED_SQLSTATE.
    State,
    /// Anything else, which is empty.
    Empty,
}

/// What GET DIAGNOSTICS asks for.
#[derive(Clone, Debug)]
pub enum Items {
    /// Of the statement: the number of conditions (`true`), or of rows changed.
    Statement(Vec<(Target, bool)>),
    /// Of the condition with a number.
    Condition(Code, Vec<(Target, Diagnostic)>),
}

/// GET DIAGNOSTICS.
#[derive(Clone, Debug)]
pub struct Information {
    /// STACKED: of what the handler is for.
    pub stacked: bool,
    /// What is asked for.
    pub items: Items,
}

/// `SQLSTATE [VALUE] 'xxxxx'`, behind its first word.
///
/// # Errors
/// 1407 for what is no state of an error or warning.
pub(super) fn state(cursor: &mut Cursor<'_>) -> Result<SqlState> {
    cursor.accept("VALUE");
    let text = cursor.string()?;
    match SqlState::new(&text) {
        Some(state) if !text.starts_with("00") => Ok(state),
        _ => Err(SqlError::bad_state(text)),
    }
}

/// A number or SQLSTATE, for which DECLARE … CONDITION gives a name.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Result<Condition> {
    if cursor.accept("SQLSTATE") {
        return state(cursor).map(Condition::State);
    }
    let before = cursor.clone();
    match u16::try_from(cursor.number()?) {
        Ok(number) if number > 0 => Ok(Condition::Number(number)),
        _ => Err(before.error()),
    }
}

/// One of the conditions of a handler.
pub(super) fn handled(cursor: &mut Cursor<'_>, scopes: &Scopes) -> Result<Condition> {
    if cursor.accept("SQLWARNING") {
        return Ok(Condition::Warning);
    }
    if cursor.accept("SQLEXCEPTION") {
        return Ok(Condition::Exception);
    }
    if cursor.accept_all(&["NOT", "FOUND"]) {
        return Ok(Condition::NotFound);
    }
    if cursor.peek_any(&["SQLSTATE"]) || matches!(cursor.peek(), Some(Token::Number(..))) {
        return value(cursor);
    }
    scopes.condition(&cursor.identifier()?)
}

/// The name of something that is known of a condition.
fn diagnostic(cursor: &mut Cursor<'_>) -> Result<Diagnostic> {
    match cursor.word().as_str() {
        "MESSAGE_TEXT" => Ok(Diagnostic::Message),
        "MYSQL_ERRNO" => Ok(Diagnostic::Number),
        "RETURNED_SQLSTATE" => Ok(Diagnostic::State),
        "CLASS_ORIGIN" | "SUBCLASS_ORIGIN" | "CONSTRAINT_CATALOG" | "CONSTRAINT_SCHEMA"
        | "CONSTRAINT_NAME" | "CATALOG_NAME" | "SCHEMA_NAME" | "TABLE_NAME" | "COLUMN_NAME"
        | "CURSOR_NAME" => Ok(Diagnostic::Empty),
        _ => Err(cursor.error_at_last()),
    }
}

/// SIGNAL and RESIGNAL, behind the first word.
///
/// # Errors
/// 1646 for a condition that has no SQLSTATE.
pub(super) fn signal(cursor: &mut Cursor<'_>, scopes: &Scopes, again: bool) -> Result<Signal> {
    let signalled = if cursor.accept("SQLSTATE") {
        Signalled::State(state(cursor)?)
    } else if again && (cursor.at_end() || cursor.peek_any(&["SET"])) {
        Signalled::Same
    } else {
        match scopes.condition(&cursor.identifier()?)? {
            Condition::State(state) => Signalled::State(state),
            _ => return Err(SqlError::signal_without_state()),
        }
    };
    let mut items = Vec::new();
    if cursor.accept("SET") {
        loop {
            let item = diagnostic(cursor)?;
            // It was said before.
            if item == Diagnostic::State {
                return Err(cursor.error_at_last());
            }
            cursor.expect(&Token::Eq)?;
            items.push((item, expression::until(cursor, scopes, &[])?));
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    cursor.end()?;
    Ok(Signal {
        signalled,
        again,
        items,
    })
}

/// GET DIAGNOSTICS, behind its first word.
pub(super) fn get(cursor: &mut Cursor<'_>, scopes: &Scopes) -> Result<Information> {
    let stacked = cursor.accept("STACKED");
    if !stacked {
        cursor.accept("CURRENT");
    }
    cursor.expect_word("DIAGNOSTICS")?;
    let items = match cursor.accept("CONDITION") {
        true => {
            let number = expression::operand(cursor, scopes)?;
            Items::Condition(number, given(cursor, scopes, diagnostic)?)
        }
        false => Items::Statement(given(cursor, scopes, |cursor| {
            match cursor.word().as_str() {
                "NUMBER" => Ok(true),
                "ROW_COUNT" => Ok(false),
                _ => Err(cursor.error_at_last()),
            }
        })?),
    };
    cursor.end()?;
    Ok(Information { stacked, items })
}

/// `variable = item, …`.
fn given<T>(
    cursor: &mut Cursor<'_>,
    scopes: &Scopes,
    item: impl Fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<(Target, T)>> {
    let mut given = Vec::new();
    loop {
        let target = expression::target(cursor, scopes)?;
        scopes.assign(&target)?;
        cursor.expect(&Token::Eq)?;
        given.push((target, item(cursor)?));
        if !cursor.accept_token(&Token::Comma) {
            return Ok(given);
        }
    }
}
