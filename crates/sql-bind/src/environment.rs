//! What the binder asks of the session and of what surrounds an expression.

use perigee_sql_type::SqlType;
use sqlparser::ast::{Expr, Ident};

use crate::Result;

/// A column of the row that an expression is bound to.
#[derive(Clone, Debug)]
pub struct ColumnOf {
    /// Its place in the row.
    pub place: usize,
    /// Its type.
    pub ty: SqlType,
}

/// What surrounds an expression.
pub trait Environment {
    /// The column of a name of one to three parts.
    ///
    /// # Errors
    /// If there is none, or several.
    fn column(&self, name: &[Ident]) -> Result<ColumnOf>;

    /// Value of a system variable as a literal; the scope is `global`, `session` or none.
    ///
    /// # Errors
    /// If there is none.
    fn variable(&self, scope: Option<&str>, name: &str) -> Result<Expr>;

    /// Value of a user variable as a literal.
    fn user_variable(&self, name: &str) -> Expr;

    /// Value of a function of the session such as `DATABASE()`, as a literal; `None` if the name is none.
    fn session_function(&self, name: &str) -> Option<Expr>;

    /// Microseconds since 1970 when the statement began.
    fn now(&self) -> i64;

    /// An error if the statement is to stop.
    ///
    /// # Errors
    /// [`crate::BindError::Stopped`].
    fn check(&self) -> Result<()>;
}
