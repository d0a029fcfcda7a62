//! Expressions without tables: bound and evaluated here. No plan is made for them.

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Failure};
use perigee_sql_bind::{BindError, Binder, ColumnOf};
use perigee_sql_type::SqlType;

use super::Session;
use crate::error::{Result, SqlError};
use crate::functions::library::Running;
use crate::interrupt;
use crate::plan::rewrite::Environment;

/// What surrounds an expression of a statement that began at a point in time.
struct Around<'s> {
    session: &'s Session,
    now: i64,
}

impl perigee_sql_bind::Environment for Around<'_> {
    fn column(&self, name: &[Ident]) -> perigee_sql_bind::Result<ColumnOf> {
        let parts: Vec<_> = name.iter().map(|part| part.value.as_str()).collect();
        Err(BindError::UnknownColumn(parts.join(".")))
    }

    fn variable(&self, scope: Option<&str>, name: &str) -> perigee_sql_bind::Result<Expr> {
        let value = Environment::variable(self.session, scope, name);
        value.map_err(|_| BindError::NotSupported(name.to_owned()))
    }

    fn user_variable(&self, name: &str) -> Expr {
        Environment::user_variable(self.session, name)
    }

    fn session_function(&self, name: &str) -> Option<Expr> {
        Environment::session_function(self.session, name)
    }

    fn now(&self) -> i64 {
        self.now
    }

    fn check(&self) -> perigee_sql_bind::Result<()> {
        interrupt::check().map_err(|_| BindError::Stopped)
    }
}

/// The value of an expression of constants; `None` if it needs a plan, which then says what is wrong with it, too.
///
/// # Errors
/// Those of evaluation.
pub(super) fn value_of(
    session: &Session,
    expr: &Expr,
    now: i64,
    cancel: &CancelToken,
) -> Result<Option<(Value<'static>, SqlType)>> {
    let around = Around { session, now };
    let Ok(scalar) = Binder::new(&around).expression(expr) else {
        return Ok(None);
    };
    let running = Running::new(Some(cancel));
    let context = Context {
        environment: &running,
    };
    let value = scalar.evaluate(&[], &context)?.into_owned();
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
