//! Expressions over at most one row, bound and evaluated here: no plan is made for them.

use std::sync::Arc;

use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Failure, Scalar, Target, Variable};
use perigee_sql_bind::{BindError, Binder, ColumnOf, ListItems, Modes};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, Now};
use sqlparser::ast::{Expr, Ident};

use super::Session;
use super::assigned::UserAssignments;
use crate::error::{Result, SqlError};
use crate::functions::library::Running;
use crate::interrupt;
use crate::parse::LongLists;

/// The column of a row that a name means.
pub(super) type Columns<'c> = &'c dyn Fn(&[Ident]) -> Option<ColumnOf>;

/// What surrounds an expression of a statement that began at a point in time.
pub(super) struct Around<'s> {
    pub session: &'s Session,
    pub now: Now,
    /// Lists that were cut out of the text.
    pub lists: LongLists<'s>,
    pub columns: Columns<'s>,
    /// The user variables that a statement with a plan may assign to.
    pub assigned: Option<&'s UserAssignments>,
}

impl perigee_sql_bind::Environment for Around<'_> {
    fn column(&self, name: &[Ident]) -> perigee_sql_bind::Result<ColumnOf> {
        let parts = || name.iter().map(|part| part.value.as_str());
        let unknown = || BindError::UnknownColumn(parts().collect::<Vec<_>>().join("."));
        (self.columns)(name).ok_or_else(unknown)
    }

    fn variable(&self, scope: Option<&str>, name: &str) -> perigee_sql_bind::Result<Expr> {
        let value = self.session.variable(scope, name);
        value.map_err(|_| BindError::UnknownVariable(name.to_owned()))
    }

    fn user_variable(&self, name: &str) -> (Value<'static>, SqlType) {
        self.session.user_variables.get(name).typed()
    }

    fn assigned_variable(&self, name: &str) -> Option<(Arc<Variable>, Target, Collation)> {
        self.assigned?
            .read(name, self.session.variables.collation())
    }

    fn assign_variable(&self, name: &str, ty: &SqlType) -> perigee_sql_bind::Result<Arc<Variable>> {
        match self.assigned {
            Some(assigned) => Ok(assigned.assign(name, ty, self)),
            None => Err(BindError::NotSupported(
                "an assignment to a user variable in this place".to_owned(),
            )),
        }
    }

    fn session_function(&self, name: &str) -> Option<Expr> {
        self.session.session_function(name)
    }

    fn collation(&self) -> Collation {
        self.session.variables.collation()
    }

    fn long_list(&self, name: &str) -> Option<ListItems<'_>> {
        self.lists.named(name)
    }

    fn modes(&self) -> Modes {
        self.session.modes()
    }

    fn now(&self) -> Now {
        self.now
    }

    fn check(&self) -> perigee_sql_bind::Result<()> {
        interrupt::check().map_err(|_| BindError::Stopped)
    }
}

/// The meaning of an expression over a row; `None` if it needs a plan, which then says what is wrong with it, too.
pub(super) fn bound(
    session: &Session,
    expr: &Expr,
    now: Now,
    columns: Columns<'_>,
) -> Option<Scalar> {
    let around = Around {
        session,
        now,
        lists: LongLists::default(),
        columns,
        assigned: None,
    };
    Binder::new(&around).stored(expr).ok()
}

/// The value of an expression for a row.
///
/// # Errors
/// Those of evaluation.
pub(super) fn evaluated(
    scalar: &Scalar,
    row: &[Value<'_>],
    cancel: &CancelToken,
) -> Result<Value<'static>> {
    let running = Running::new(Some(cancel));
    let context = Context::new(&running);
    Ok(scalar.evaluate(row, &context)?.into_owned())
}

/// The value of an expression of constants, and its type; `None` if it needs a plan.
///
/// # Errors
/// Those of evaluation.
pub(super) fn value_of(
    session: &Session,
    expr: &Expr,
    now: Now,
    cancel: &CancelToken,
) -> Result<Option<(Value<'static>, SqlType)>> {
    let Some(scalar) = bound(session, expr, now, &|_| None) else {
        return Ok(None);
    };
    let value = evaluated(&scalar, &[], cancel)?;
    Ok(Some((value, scalar.ty)))
}

impl From<Failure> for SqlError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::OutOfRange { kind, expression } => Self::numeric_range(kind, expression),
            Failure::Function(error) => error.into(),
        }
    }
}
