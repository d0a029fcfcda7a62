//! What SHOW WARNINGS lists: the notes, warnings and errors of the last statement, of which the session keeps the first
//! `max_error_count`.

use super::Session;
use crate::error::{SqlError, SqlState};

/// A note, warning or error that SHOW WARNINGS lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// `Note`, `Warning` or `Error`.
    pub level: &'static str,
    /// MySQL's number.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: SqlState,
    /// Text.
    pub message: String,
}

impl Warning {
    /// What it is as an error.
    pub(super) fn raised(&self) -> SqlError {
        SqlError {
            errno: self.code,
            sqlstate: self.sqlstate,
            message: self.message.clone(),
        }
    }
}

/// Those of a statement.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    kept: Vec<Warning>,
    /// How many there were.
    count: u64,
    /// How many of them were errors.
    errors: u64,
}

impl Warnings {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Those that are kept.
    pub(super) fn kept(&self) -> impl DoubleEndedIterator<Item = &Warning> {
        self.kept.iter()
    }

    /// How many there were: `@@warning_count`.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// How many errors there were: `@@error_count`.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }
}

impl Session {
    /// Number of warnings of the last statement.
    #[must_use]
    pub fn warning_count(&self) -> u16 {
        let count = self.warnings.count + self.divisions();
        u16::try_from(count).unwrap_or(u16::MAX)
    }

    pub(super) fn note_error(&mut self, error: &SqlError) {
        self.warn("Error", error);
        self.row_count.end(false);
    }

    pub(super) fn warn(&mut self, level: &'static str, error: &SqlError) {
        let most = self.variables.integer("max_error_count");
        let is_error = level == "Error";
        self.warnings.count += 1;
        self.warnings.errors += u64::from(is_error);
        if (self.warnings.kept.len() as u64) < most {
            self.warnings.kept.push(Warning {
                level,
                code: error.errno,
                sqlstate: error.sqlstate,
                message: error.message.clone(),
            });
        }
    }

    /// Counts warnings that are not kept.
    pub(super) fn warn_more(&mut self, count: usize) {
        self.warnings.count += count as u64;
    }

    /// Divisions by zero of the statement that runs.
    fn divisions(&self) -> u64 {
        self.diagnostics.divisions()
    }

    /// Lists the divisions by zero of a statement that ended.
    pub(super) fn report_divisions(&mut self) {
        let count = std::mem::take(&mut self.diagnostics).divisions();
        let most = self.variables.integer("max_error_count");
        let error = SqlError::division_by_zero();
        for _ in 0..count.min(most) {
            self.warn("Warning", &error);
        }
        self.warn_more((count - count.min(most)) as usize);
    }
}
