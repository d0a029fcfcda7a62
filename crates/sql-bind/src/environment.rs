//! What the binder asks of the session and of what surrounds an expression.

use std::sync::Arc;

use perigee_expr::Comparison;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Node, Scalar, Target, Variable};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, Now};
use sqlparser::ast::{Expr, Function, Ident, Query};

use crate::error::unsupported;
use crate::query::Quantifier;
use crate::{ListItems, Modes, Result};

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

    /// What a name of one to three parts means, if that may be something else than a column of the row.
    ///
    /// # Errors
    /// Those of [`Self::column`].
    fn name(&self, name: &[Ident]) -> Result<Scalar> {
        let column = self.column(name)?;
        Ok(Scalar::new(Node::Column(column.place), column.ty))
    }

    /// An aggregate or window function; `None` for any other function.
    ///
    /// # Errors
    /// If it may not stand here.
    fn aggregate(&self, _function: &Function) -> Result<Option<Scalar>> {
        Ok(None)
    }

    /// The columns of the only row of a subquery.
    ///
    /// # Errors
    /// If there are no subqueries here, and those of binding it.
    fn subquery(&self, _query: &Query) -> Result<Vec<Scalar>> {
        unsupported("a subquery")
    }

    /// Whether a subquery has rows.
    ///
    /// # Errors
    /// If there are no subqueries here, and those of binding it.
    fn exists(&self, _query: &Query) -> Result<Scalar> {
        unsupported("a subquery")
    }

    /// Whether a comparison is true for any row of a subquery, or for all of them.
    ///
    /// # Errors
    /// If there are no subqueries here, and those of binding it.
    fn quantified(
        &self,
        _left: Vec<Scalar>,
        _comparison: Comparison,
        _quantifier: Quantifier,
        _query: &Query,
    ) -> Result<Scalar> {
        unsupported("a subquery")
    }

    /// Value of a system variable as a literal; the scope is `global`, `session` or none.
    ///
    /// # Errors
    /// If there is none.
    fn variable(&self, scope: Option<&str>, name: &str) -> Result<Expr>;

    /// Value of a user variable with its type; NULL where there are none.
    fn user_variable(&self, _name: &str) -> (Value<'static>, SqlType) {
        (Value::Null, SqlType::NULL)
    }

    /// A user variable that the statement assigns to, as values of what type it is read, and the collation of its texts;
    /// `None` for those with the value of [`Self::user_variable`].
    fn assigned_variable(&self, _name: &str) -> Option<(Arc<Variable>, Target, Collation)> {
        None
    }

    /// The user variable to which a value of a type is assigned.
    ///
    /// # Errors
    /// If nothing may be assigned here.
    fn assign_variable(&self, _name: &str, _ty: &SqlType) -> Result<Arc<Variable>> {
        unsupported("an assignment to a user variable in this place")
    }

    /// Value of a function of the session such as `DATABASE()`, as a literal; `None` if the name is none.
    fn session_function(&self, name: &str) -> Option<Expr>;

    /// The collation of the connection: that of literals and of what numbers become as texts.
    fn collation(&self) -> Collation {
        Collation::UTF8MB4_BIN
    }

    /// The values of a long IN list that stands in the syntax tree as a name; `None` for any other name.
    fn long_list(&self, _name: &str) -> Option<ListItems<'_>> {
        None
    }

    /// The modes of `sql_mode`.
    fn modes(&self) -> Modes {
        Modes::NONE
    }

    /// When the statement began, and the time zone of the session.
    fn now(&self) -> Now;

    /// An error if the statement is to stop.
    ///
    /// # Errors
    /// [`crate::BindError::Stopped`].
    fn check(&self) -> Result<()>;
}
