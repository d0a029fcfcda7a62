//! Expressions of definitions: what they are made of, and the text that the catalog keeps.

use std::ops::ControlFlow;

use perigee_engine::catalog::TableDef;
use sqlparser::ast::{Expr, Ident, Query, Value, Visit, VisitMut, Visitor, VisitorMut};

use crate::error::{Result, SqlError};

/// Functions that do not have the same value each time, or tell of the session.
const FORBIDDEN: &[&str] = &[
    "benchmark",
    "connection_id",
    "curdate",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "curtime",
    "database",
    "found_rows",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "load_file",
    "localtime",
    "localtimestamp",
    "now",
    "rand",
    "random_bytes",
    "release_all_locks",
    "release_lock",
    "row_count",
    "schema",
    "session_user",
    "sleep",
    "sysdate",
    "system_user",
    "unix_timestamp",
    "user",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "uuid",
    "uuid_short",
    "values",
    "version",
];

/// A part of an expression that a definition may not have, or only if it keeps some rules.
pub(super) enum Part<'e> {
    /// A column.
    Column(&'e str),
    /// A variable.
    Variable,
    /// A function that does not have the same value each time, or tells of the session.
    Function(String),
    /// A query.
    Query,
}

/// Looks at the parts of an expression.
///
/// # Errors
/// The first that `judge` gives.
pub(super) fn judged(expr: &Expr, judge: impl Fn(Part<'_>) -> Result<()>) -> Result<()> {
    match expr.visit(&mut Parts(judge)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Parts<J>(J);

impl<J: Fn(Part<'_>) -> Result<()>> Parts<J> {
    fn found(&self, part: Part<'_>) -> ControlFlow<SqlError> {
        match (self.0)(part) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn name(&self, parts: &[Ident]) -> ControlFlow<SqlError> {
        match parts {
            [first, ..] if first.value.starts_with('@') => self.found(Part::Variable),
            [.., column] => self.found(Part::Column(&column.value)),
            [] => ControlFlow::Continue(()),
        }
    }
}

impl<J: Fn(Part<'_>) -> Result<()>> Visitor for Parts<J> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.found(Part::Query)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Identifier(ident) => self.name(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.name(parts),
            Expr::Function(function) => {
                let function = function.name.to_string().to_lowercase();
                match FORBIDDEN.contains(&function.as_str()) {
                    true => self.found(Part::Function(function)),
                    false => ControlFlow::Continue(()),
                }
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                self.found(Part::Query)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The columns that an expression names.
pub(super) fn columns_of(expr: &Expr) -> Vec<String> {
    struct Columns(Vec<String>);
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(ident) => self.0.push(ident.value.clone()),
                Expr::CompoundIdentifier(parts) => {
                    self.0.extend(parts.last().map(|part| part.value.clone()));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(Vec::new());
    let _ = expr.visit(&mut columns);
    columns.0
}

/// An expression as the catalog keeps it: columns in backquotes as the table spells them, and operations in
/// parentheses.
pub(super) fn text_of(def: &TableDef, expr: &Expr) -> String {
    struct Normal<'a>(&'a TableDef);
    impl VisitorMut for Normal<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr
                && let Some(column) = parts.pop()
            {
                *expr = Expr::Identifier(column);
            }
            match expr {
                Expr::Identifier(ident) => {
                    if let Some(place) = self.0.column(&ident.value) {
                        let name = self.0.columns[place].name.replace('`', "``");
                        *ident = Ident::with_quote('`', name);
                    }
                }
                Expr::Value(value) => {
                    if let Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) =
                        &value.value
                    {
                        let text = text.replace('\\', "\\\\").replace('\'', "\\'");
                        value.value = Value::SingleQuotedString(text);
                    }
                }
                // Whoever needs them has them now.
                Expr::Nested(inner) if matches!(**inner, Expr::Nested(_)) => {
                    *expr = (**inner).clone();
                }
                Expr::BinaryOp { .. }
                | Expr::Between { .. }
                | Expr::InList { .. }
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::Like { .. }
                | Expr::RLike { .. } => {
                    let inner = Box::new(expr.clone());
                    *expr = Expr::Nested(inner);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut normal = expr.clone();
    let _ = VisitMut::visit(&mut normal, &mut Normal(def));
    match normal {
        Expr::Nested(_) => normal.to_string(),
        other => format!("({other})"),
    }
}
