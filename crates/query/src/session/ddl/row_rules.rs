//! [`RowRules`]: what an ALTER TABLE does with each row, and what was wrong with the first that does not fit.

use std::sync::Arc;

use parking_lot::Mutex;
use perigee_engine::catalog::{Check, ColumnDef, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_engine::{RowCheck, RowFill};
use perigee_value::{ColumnType, Datum, Zone};

use crate::error::{Result, SqlError};
use crate::session::checks::Checks;
use crate::session::generated::GeneratedColumns;
use crate::session::insert::value_error;

/// The CHECK constraints that the rows of an altered table must keep, and its generated columns.
#[derive(Default)]
pub(super) struct RowRules {
    pub check: Option<RowCheck>,
    pub fill: Option<RowFill>,
    found: Arc<Mutex<Option<SqlError>>>,
}

impl RowRules {
    /// Those of a table with the definition `new`.
    ///
    /// # Errors
    /// If an expression of it cannot be read.
    pub(super) fn new(
        (old, new): (&TableDef, &TableDef),
        zone: Zone,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let mut rules = Self::default();
        if let Some(checks) = Checks::of(new, zone)? {
            rules.check = Some(rules.check(checks, (old, new), cancel));
        }
        if let Some(generated) = GeneratedColumns::of(new, zone)? {
            rules.fill = Some(rules.fill(generated, new, zone, cancel));
        }
        Ok(rules)
    }

    fn check(
        &self,
        checks: Checks,
        (old, new): (&TableDef, &TableDef),
        cancel: &CancelToken,
    ) -> RowCheck {
        let known = |check: &Check| old.checks.iter().any(|old| old == check);
        let always = new
            .checks
            .iter()
            .any(|check| check.enforced && !known(check));
        let (found, def, cancel) = (self.found.clone(), new.clone(), cancel.clone());
        let holds = move |row: &[Datum]| {
            let error = match checks.violated(&def, row, &cancel) {
                Ok(None) => return true,
                Ok(Some(error)) | Err(error) => error,
            };
            *found.lock() = Some(error);
            false
        };
        RowCheck {
            holds: Arc::new(holds),
            always,
        }
    }

    fn fill(
        &self,
        generated: GeneratedColumns,
        new: &TableDef,
        zone: Zone,
        cancel: &CancelToken,
    ) -> RowFill {
        let (found, def, cancel) = (self.found.clone(), new.clone(), cancel.clone());
        RowFill(Arc::new(move |row: &mut [Datum]| {
            let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
                let value = column.coerce(value, ty, zone);
                value.map_err(|error| value_error(&error, &column.name, 1))
            };
            match generated.fill(&def, row, &mut convert, &cancel) {
                Ok(()) => true,
                Err(error) => {
                    *found.lock() = Some(error);
                    false
                }
            }
        }))
    }

    /// What was wrong with a row.
    pub(super) fn error(&self) -> Option<SqlError> {
        self.found.lock().take()
    }
}
