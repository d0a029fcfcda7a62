//! Expressions of definitions over the row of a table: CHECK constraints and generated columns. They are kept as
//! text in a normal form that does not depend on `sql_mode`.

use perigee_engine::catalog::{ColumnDef, Hidden, TableDef};
use perigee_sql_bind::query::KeyExpression;
use perigee_sql_bind::{BindError, Binder, ColumnOf, Environment, Modes};
use perigee_sql_type::SqlType;
use perigee_value::{Now, Zone};
use sqlparser::ast::{Expr, Ident};
use sqlparser::parser::Parser;

use crate::error::{Result, SqlError};
use crate::interrupt;
use crate::parse::Grammar;

/// An expression of a definition.
///
/// # Errors
/// If its text cannot be read.
pub(super) fn parsed(text: &str) -> Result<Expr> {
    let parser = Parser::new(Grammar::of(Modes::NONE)).try_with_sql(text);
    let expr = parser.and_then(|mut parser| parser.parse_expr());
    expr.map_err(|_| SqlError::not_supported(format!("the expression {text} of a definition")))
}

/// The expression of a hidden column, if it is the part of a key that is one.
pub(super) fn key_expression(def: &TableDef, column: &ColumnDef) -> Option<KeyExpression> {
    let generated = column.generated.as_ref()?;
    if column.hidden != Some(Hidden::Expression) {
        return None;
    }
    // One that cannot be read is found nowhere.
    let expr = parsed(&generated.expression).ok()?;
    let scalar = Binder::new(&RowOf(def, Zone::Utc)).expression(&expr).ok()?;
    Some(KeyExpression {
        text: generated.expression.clone(),
        scalar,
    })
}

/// A row of a table, which together with the time zone of a session is all that such an expression knows.
pub(super) struct RowOf<'d>(pub &'d TableDef, pub Zone);

impl Environment for RowOf<'_> {
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

    fn session_function(&self, _: &str) -> Option<Expr> {
        None
    }

    fn now(&self) -> Now {
        Now {
            utc: 0,
            zone: self.1,
        }
    }

    fn check(&self) -> perigee_sql_bind::Result<()> {
        interrupt::check().map_err(|_| BindError::Stopped)
    }
}
