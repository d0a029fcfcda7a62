//! [`Checks`]: what rows have to meet to be written, evaluated over them without a plan: the CHECK constraints of their
//! table, and WITH CHECK OPTION of a view through which they are written.

use std::sync::Arc;

use perigee_engine::Engine;
use perigee_engine::catalog::{Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Scalar};
use perigee_sql_bind::Binder;
use perigee_sql_bind::query::Source;
use perigee_value::{Datum, Zone};
use sqlparser::ast::Expr;

use super::dml::value_of;
use super::row_expr::{self, RowOf};
use crate::error::{Result, SqlError};
use crate::functions::library::Running;

/// Conditions over the rows of a table.
#[derive(Debug)]
pub(super) struct Checks {
    checks: Vec<(Rule, Scalar)>,
    /// For each column of the table, whether a condition needs its value.
    needed: Vec<bool>,
}

/// What asks for a condition.
#[derive(Debug)]
enum Rule {
    /// A CHECK constraint, which NULL does not violate.
    Constraint(String),
    /// A view, by schema and name, which does not show rows for which it is NULL.
    View(Arc<str>, Arc<str>),
}

impl Rule {
    /// The error of a row with this value of the condition; `None` if it is right.
    fn violation(&self, holds: Option<bool>) -> Option<SqlError> {
        match (self, holds) {
            (_, Some(true)) | (Self::Constraint(_), None) => None,
            (Self::Constraint(name), Some(false)) => Some(SqlError::check_violated(name)),
            (Self::View(schema, name), _) => Some(SqlError::check_failed(schema, name)),
        }
    }
}

/// True for a function that is a condition in MySQL, though its result is a number.
fn is_truth_function(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_truth_function(inner),
        Expr::Function(function) => {
            let name = function.name.to_string();
            name.trim_matches('`').eq_ignore_ascii_case("json_valid")
        }
        _ => false,
    }
}

impl Checks {
    /// The constraints of a definition that are enforced, for a session with a time zone; `None` if there are none.
    ///
    /// # Errors
    /// If a condition cannot be read.
    pub(super) fn of(def: &TableDef, zone: Zone) -> Result<Option<Self>> {
        Self::through(None, def, zone)
    }

    /// The same, with what a view asks through which the rows are written.
    ///
    /// # Errors
    /// If a condition cannot be read.
    pub(super) fn through(
        view: Option<&Source>,
        def: &TableDef,
        zone: Zone,
    ) -> Result<Option<Self>> {
        let mut checks = Vec::new();
        if let Some(source) = view {
            let schema = source.schema.clone().unwrap_or_default();
            let rule = || Rule::View(schema.clone(), source.alias.clone());
            let conditions = source.checks.iter().cloned();
            checks.extend(conditions.map(|condition| (rule(), condition)));
        }
        let columns = RowOf(def, zone);
        for check in def.checks.iter().filter(|check| check.enforced) {
            let condition = row_expr::parsed(&check.condition)?;
            let scalar = Binder::new(&columns).condition(&condition)?;
            checks.push((Rule::Constraint(check.name.clone()), scalar));
        }
        if checks.is_empty() {
            return Ok(None);
        }
        let mut needed = vec![false; def.columns.len()];
        for (_, scalar) in &checks {
            scalar
                .places()
                .into_iter()
                .for_each(|place| needed[place] = true);
        }
        Ok(Some(Self { checks, needed }))
    }

    /// True if an expression over a row of the table is a condition.
    ///
    /// # Errors
    /// If it means nothing.
    pub(super) fn is_condition(def: &TableDef, condition: &Expr) -> Result<bool> {
        let columns = RowOf(def, Zone::Utc);
        let scalar = Binder::new(&columns).expression(condition)?;
        Ok(scalar.ty.truth || is_truth_function(condition))
    }

    /// The error of a row of the table that does not meet one of the conditions.
    ///
    /// # Errors
    /// Those of evaluation.
    pub(super) fn violated(
        &self,
        def: &TableDef,
        row: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Option<SqlError>> {
        let values = row.iter().zip(&def.columns).zip(&self.needed);
        let values: Vec<Value<'_>> = values
            .map(|((datum, def), needed)| match needed {
                true => value_of(datum, def),
                false => Value::Null,
            })
            .collect();
        let running = Running::new(Some(cancel));
        let context = Context::new(&running);
        for (rule, scalar) in &self.checks {
            if let Some(violation) = rule.violation(scalar.is_true(&values, &context)?) {
                return Ok(Some(violation));
            }
        }
        Ok(None)
    }

    /// As [`Checks::violated`], of a row whose long values may have to be fetched.
    ///
    /// # Errors
    /// Those of evaluation, and what storage says.
    pub(super) async fn stored_violates(
        &self,
        engine: &Engine,
        table: &Table,
        row: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Option<SqlError>> {
        if !self.needs_fetch(row) {
            return self.violated(&table.def, row, cancel);
        }
        let of_use = |(datum, needed): (&Datum, &bool)| match needed {
            true => datum.clone(),
            false => Datum::Null,
        };
        let mut row: Vec<Datum> = row.iter().zip(&self.needed).map(of_use).collect();
        engine.fetch_long(&mut row).await?;
        self.violated(&table.def, &row, cancel)
    }

    /// True if a value that a condition needs lies outside of its row.
    pub(super) fn needs_fetch(&self, row: &[Datum]) -> bool {
        let mut values = row.iter().zip(&self.needed);
        values.any(|(datum, needed)| *needed && matches!(datum, Datum::Overflow(_)))
    }
}
