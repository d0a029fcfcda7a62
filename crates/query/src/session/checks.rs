//! [`Checks`]: the CHECK constraints of a table, evaluated over rows without a plan.

use std::sync::Arc;

use parking_lot::Mutex;
use perigee_engine::catalog::{Check, Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_engine::{Engine, RowCheck};
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Scalar};
use perigee_sql_bind::{BindError, Binder, ColumnOf, Environment, Modes};
use perigee_sql_type::SqlType;
use perigee_value::Datum;
use sqlparser::ast::{Expr, Ident};
use sqlparser::parser::Parser;

use super::dml::value_of;
use crate::error::{Result, SqlError};
use crate::functions::library::Running;
use crate::interrupt;
use crate::parse::Grammar;

/// The constraints of a table that are enforced.
#[derive(Debug)]
pub(super) struct Checks {
    checks: Vec<(String, Scalar)>,
    /// For each column of the table, whether a condition needs its value.
    needed: Vec<bool>,
}

/// A condition of a definition.
///
/// # Errors
/// If its text cannot be read.
pub(super) fn parsed(text: &str) -> Result<Expr> {
    let parser = Parser::new(Grammar::of(Modes::NONE)).try_with_sql(text);
    let condition = parser.and_then(|mut parser| parser.parse_expr());
    condition.map_err(|_| SqlError::not_supported(format!("CHECK {text}")))
}

/// The columns of a table, which are all that a condition knows.
struct Columns<'d>(&'d TableDef);

impl Environment for Columns<'_> {
    fn column(&self, name: &[Ident]) -> perigee_sql_bind::Result<ColumnOf> {
        let column = name.last().map_or("", |name| name.value.as_str());
        let unknown = || BindError::UnknownColumn(column.to_owned());
        let place = self.0.column(column).ok_or_else(unknown)?;
        let def = &self.0.columns[place];
        let ty = match &def.members {
            Some(members) => SqlType::of_members(members.clone()),
            None => SqlType::of(def.ty),
        };
        Ok(ColumnOf {
            place,
            ty: ty.nullable(def.nullable),
        })
    }

    fn variable(&self, _: Option<&str>, name: &str) -> perigee_sql_bind::Result<Expr> {
        Err(BindError::UnknownVariable(name.to_owned()))
    }

    fn user_variable(&self, _: &str) -> Expr {
        Expr::value(sqlparser::ast::Value::Null)
    }

    fn session_function(&self, _: &str) -> Option<Expr> {
        None
    }

    fn now(&self) -> i64 {
        0
    }

    fn check(&self) -> perigee_sql_bind::Result<()> {
        interrupt::check().map_err(|_| BindError::Stopped)
    }
}

impl Checks {
    /// Those of a definition; `None` if there are none.
    ///
    /// # Errors
    /// If a condition cannot be read.
    pub(super) fn of(def: &TableDef) -> Result<Option<Self>> {
        let enforced = def.checks.iter().filter(|check| check.enforced);
        let columns = Columns(def);
        let mut checks = Vec::new();
        for check in enforced {
            let condition = parsed(&check.condition)?;
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
        let columns = Columns(def);
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

/// The constraints that the rows of an altered table must keep, and what is wrong with the first that does not.
pub(super) struct RowChecks {
    check: RowCheck,
    found: Arc<Mutex<Option<SqlError>>>,
}

impl RowChecks {
    /// Those of a table with the definition `new`; `None` if there are none.
    ///
    /// # Errors
    /// If a condition cannot be read.
    pub(super) fn new(
        old: &TableDef,
        new: &TableDef,
        cancel: &CancelToken,
    ) -> Result<Option<Self>> {
        let Some(checks) = Checks::of(new)? else {
            return Ok(None);
        };
        let known = |check: &Check| old.checks.iter().any(|old| old == check);
        let always = new
            .checks
            .iter()
            .any(|check| check.enforced && !known(check));
        let found: Arc<Mutex<Option<SqlError>>> = Arc::default();
        let (slot, def, cancel) = (found.clone(), new.clone(), cancel.clone());
        let holds = move |row: &[Datum]| {
            let error = match checks.violated(&def, row, &cancel) {
                Ok(None) => return true,
                Ok(Some(name)) => SqlError::check_violated(name),
                Err(error) => error,
            };
            *slot.lock() = Some(error);
            false
        };
        let holds = Arc::new(holds);
        let check = RowCheck { holds, always };
        Ok(Some(Self { check, found }))
    }

    /// What the engine asks of each row.
    pub(super) fn row_check(&self) -> RowCheck {
        self.check.clone()
    }

    /// What was wrong with a row.
    pub(super) fn error(&self) -> Option<SqlError> {
        self.found.lock().take()
    }
}
