//! SET_VAR: variables that hints set for their statement.

use sqlparser::ast::{OptimizerHint, Query, SetExpr};

use perigee_sql_bind::query;

use super::Session;
use super::variables::Variables;
use crate::error::{Result, SqlError};
use crate::parse::{Scope, Statement};

/// The variables that hints may set beside those of [`PREFIXES`].
const HINTABLE: [&str; 16] = [
    "auto_increment_increment",
    "auto_increment_offset",
    "cte_max_recursion_depth",
    "div_precision_increment",
    "foreign_key_checks",
    "group_concat_max_len",
    "max_error_count",
    "max_execution_time",
    "parallel_default_dop",
    "query_memory_limit",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_mode",
    "time_zone",
    "timestamp",
    "unique_checks",
];

/// What the names of further variables begin with that only steer how statements are run.
const PREFIXES: [&str; 3] = ["ndp_", "optimizer_", "price_"];

/// MySQL's warning of a hint that says what another one has said already.
const DUPLICATED: u16 = 3126;

/// MySQL's warning of a hint for a variable that does not exist.
const UNRESOLVED: u16 = 3128;

/// MySQL's warning of a hint for a variable that hints may not set.
const NOT_HINTABLE: u16 = 3637;

/// MySQL's warning of a hint that is not understood.
const SYNTAX: u16 = 1064;

/// The hints of a statement as a whole: those of its first SELECT, or its own.
fn hints(statement: &Statement) -> &[OptimizerHint] {
    match statement {
        Statement::Query(query) | Statement::Into(query, _) | Statement::Do(query) => {
            of_query(query)
        }
        Statement::Update(update) => &update.rows.hints,
        Statement::Delete(delete) => &delete.rows.hints,
        Statement::Insert(insert) => &insert.optimizer_hints,
        Statement::Explain(_, explained) => hints(explained),
        _ => &[],
    }
}

fn of_query(query: &Query) -> &[OptimizerHint] {
    let mut body = &query.body;
    loop {
        match body.as_ref() {
            SetExpr::Select(select) => return &select.optimizer_hints,
            SetExpr::Query(inner) => body = &inner.body,
            SetExpr::SetOperation { left, .. } => body = left,
            _ => return &[],
        }
    }
}

impl Session {
    /// Sets the variables of a statement's hints. Gives those that are to come back behind the statement; none if no hint
    /// sets any. Hints that cannot be followed are warnings.
    pub(super) fn set_hinted(&mut self, statement: &Statement) -> Option<Variables> {
        let hints = hints(statement);
        if hints.is_empty() {
            return None;
        }
        if matches!(statement, Statement::Insert(_)) {
            for other in query::other_hints(hints) {
                let text = format!("Optimizer hint syntax error near '{other}'");
                self.warn("Warning", &SqlError::interrupted_by(SYNTAX, &text));
            }
        }
        let (mut before, mut set) = (None, Vec::new());
        for (name, value) in query::set_variables(hints) {
            if set.contains(&name) {
                let text =
                    format!("Hint SET_VAR({name}={value}) is ignored as conflicting/duplicated");
                self.warn("Warning", &SqlError::interrupted_by(DUPLICATED, &text));
                continue;
            }
            match hinted_value(&name, &value) {
                Ok(value) => {
                    before.get_or_insert_with(|| self.variables.clone());
                    self.variables.set(&name, value);
                    set.push(name);
                }
                Err(error) => self.warn("Warning", &error),
            }
        }
        before
    }

    /// Brings back the variables from before a statement.
    pub(super) fn unset_hinted(&mut self, before: Option<Variables>) {
        if let Some(before) = before {
            self.variables = before;
        }
    }
}

/// The value that a hint gives a variable.
fn hinted_value(name: &str, value: &str) -> Result<Option<String>> {
    let warning = |number, text: String| SqlError::interrupted_by(number, &text);
    Variables::default_of(name).map_err(|_| {
        let text = format!("Unresolved name '{name}' for SET_VAR hint");
        warning(UNRESOLVED, text)
    })?;
    let is_steering = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if !is_steering && !HINTABLE.contains(&name) {
        let text = format!("Variable '{name}' cannot be set using SET_VAR hint.");
        return Err(warning(NOT_HINTABLE, text));
    }
    let unquoted = value.trim_matches(['\'', '"']);
    let value = match multiple(unquoted) {
        Some(number) if unquoted.len() == value.len() => number.to_string(),
        _ => unquoted.to_owned(),
    };
    Variables::check(Scope::Session, name, Some(&value))
}

/// A number with K, M, G or T behind it.
fn multiple(text: &str) -> Option<u64> {
    let unit = text.bytes().last()?.to_ascii_uppercase();
    let shift = 10 * (1 + b"KMGT".iter().position(|one| *one == unit)?);
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn hints_set_variables_that_they_may_set() {
        let value = |name, value| hinted_value(name, value);
        assert_eq!(value("max_error_count", "3").unwrap().unwrap(), "3");
        assert_eq!(
            value("query_memory_limit", "2M").unwrap().unwrap(),
            "2097152"
        );
        assert_eq!(value("sql_mode", "''").unwrap().unwrap(), "");
        assert_eq!(value("ndp_mode", "OFF").unwrap().unwrap(), "OFF");
        assert_eq!(value("nope", "1").unwrap_err().errno, UNRESOLVED);
        assert_eq!(value("autocommit", "0").unwrap_err().errno, NOT_HINTABLE);
        assert_eq!(value("ndp_mode", "perhaps").unwrap_err().errno, 1231);
    }

    #[test]
    fn hintable_variables_exist() {
        for name in HINTABLE {
            assert!(Variables::default_of(name).is_ok(), "{name}");
        }
    }
}
