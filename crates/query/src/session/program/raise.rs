//! SIGNAL, RESIGNAL and GET DIAGNOSTICS.

use perigee_value::{ColumnType, Datum};

use super::frame::Row1;
use super::run::Run;
use super::text_of;
use crate::error::{Result, SqlError};
use crate::parse::{Diagnostic, Information, Items, Signal, Signalled};

/// Longest MESSAGE_TEXT, in characters.
const MAX_MESSAGE: usize = 128;

/// Raises a condition: an error, or a warning.
///
/// # Errors
/// What is raised; 1645, 1231, 1648.
pub(super) async fn signal(run: &mut Run<'_>, signal: &Signal) -> Result<()> {
    let handled = run.handling.last().cloned();
    if signal.again && handled.is_none() {
        return Err(SqlError::resignal_without_handler());
    }
    let (mut raised, is_error) = match (&signal.signalled, handled) {
        (Signalled::State(state), _) => (
            SqlError::signalled(*state),
            !state.as_str().starts_with("01"),
        ),
        (Signalled::Same, Some(handled)) => handled,
        (Signalled::Same, None) => return Err(SqlError::resignal_without_handler()),
    };
    for (item, code) in &signal.items {
        let text = text_of(&run.value(code).await?);
        match item {
            Diagnostic::Message => {
                let text =
                    text.ok_or_else(|| SqlError::wrong_value_for_variable("MESSAGE_TEXT", "NULL"))?;
                if text.chars().count() > MAX_MESSAGE {
                    return Err(SqlError::signal_item_too_long("MESSAGE_TEXT"));
                }
                raised.message = text;
            }
            Diagnostic::Number => {
                let text = text.unwrap_or_else(|| "NULL".to_owned());
                let number = text.parse().ok().filter(|number| *number > 0);
                let number = number
                    .ok_or_else(|| SqlError::wrong_value_for_variable("MYSQL_ERRNO", &text))?;
                raised.errno = number;
            }
            Diagnostic::State | Diagnostic::Empty => {}
        }
    }
    match is_error {
        true => Err(raised),
        false => {
            run.session.warn("Warning", &raised);
            Ok(())
        }
    }
}

fn number(number: i64) -> Row1 {
    let ty = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    (Datum::Int(number), ty)
}

fn text(text: &str) -> Row1 {
    let ty = ColumnType::Varchar {
        chars: u16::MAX,
        collation: perigee_value::Collation::UTF8MB4_BIN,
    };
    (Datum::String(text.as_bytes().to_vec()), ty)
}

/// Gives variables what is known of what was raised.
///
/// # Errors
/// 1887; 1758 for a condition that there is not.
pub(super) async fn diagnostics(run: &mut Run<'_>, information: &Information) -> Result<()> {
    let conditions: Vec<SqlError> = match information.stacked {
        true => {
            let handled = run.handling.last().map(|(error, _)| error.clone());
            vec![handled.ok_or_else(SqlError::no_handler)?]
        }
        false => run.session.warnings.kept().map(|w| w.raised()).collect(),
    };
    match &information.items {
        Items::Statement(items) => {
            for (target, counts) in items {
                let value = match counts {
                    true => conditions.len() as i64,
                    false => run.session.row_count.last(),
                };
                run.give(target, number(value))?;
            }
        }
        Items::Condition(code, items) => {
            let which = text_of(&run.value(code).await?);
            let which = which.and_then(|text| text.parse::<usize>().ok());
            let condition = which.and_then(|which| conditions.get(which.checked_sub(1)?));
            let condition = condition.ok_or_else(SqlError::no_such_condition)?;
            for (target, item) in items {
                let value = match item {
                    Diagnostic::Message => text(&condition.message),
                    Diagnostic::Number => number(condition.errno.into()),
                    Diagnostic::State => text(condition.sqlstate.as_str()),
                    Diagnostic::Empty => text(""),
                };
                run.give(target, value)?;
            }
        }
    }
    Ok(())
}
