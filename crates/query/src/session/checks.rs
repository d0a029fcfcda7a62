//! [`Checks`]: the CHECK constraints of a table, evaluated over rows without a plan.

use perigee_engine::Engine;
use perigee_engine::catalog::{Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Scalar};
use perigee_sql_bind::Binder;
use perigee_value::Datum;
use sqlparser::ast::Expr;

use super::dml::value_of;
use super::row_expr::{self, RowOf};
use crate::error::Result;
use crate::functions::library::Running;

/// The constraints of a table that are enforced.
#[derive(Debug)]
pub(super) struct Checks {
    checks: Vec<(String, Scalar)>,
    /// For each column of the table, whether a condition needs its value.
    needed: Vec<bool>,
}

impl Checks {
    /// Those of a definition; `None` if there are none.
    ///
    /// # Errors
    /// If a condition cannot be read.
    pub(super) fn of(def: &TableDef) -> Result<Option<Self>> {
        let enforced = def.checks.iter().filter(|check| check.enforced);
        let columns = RowOf(def);
        let mut checks = Vec::new();
        for check in enforced {
            let condition = row_expr::parsed(&check.condition)?;
            let scalar = Binder::new(&columns).condition(&condition)?;
            checks.push((check.name.clone(), scalar));
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
        let columns = RowOf(def);
        let scalar = Binder::new(&columns).expression(condition)?;
        Ok(scalar.ty.truth)
    }

    /// Name of a constraint that a row of the table violates.
    ///
    /// # Errors
    /// Those of evaluation.
    pub(super) fn violated(
        &self,
        def: &TableDef,
        row: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Option<&str>> {
        let values = row.iter().zip(&def.columns).zip(&self.needed);
        let values: Vec<Value<'_>> = values
            .map(|((datum, def), needed)| match needed {
                true => value_of(datum, def),
                false => Value::Null,
            })
            .collect();
        let running = Running::new(Some(cancel));
        let context = Context::new(&running);
        for (name, scalar) in &self.checks {
            if scalar.is_true(&values, &context)? == Some(false) {
                return Ok(Some(name));
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
    ) -> Result<Option<&str>> {
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
