//! In which clause of a query a column is named: error messages say so, and DataFusion does not.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Visit, Visitor,
};

use super::level::any_expr;
use super::union;
use crate::error::SqlError;

/// An error about a column with the clause that names it; other errors as they are.
#[must_use]
pub fn located(error: SqlError, query: &Query) -> SqlError {
    let is_about_column = matches!(error.errno, 1052 | 1054 | 1055);
    let Some(column) = error.message.split('\'').nth(1).filter(|_| is_about_column) else {
        return error;
    };
    if error.errno == 1055 {
        return if has_groups(query) {
            error
        } else {
            SqlError::mixed_groups(column)
        };
    }
    let Some(clause) = clause_of(query, column) else {
        return error;
    };
    match error.errno {
        1052 => SqlError::ambiguous_column(column, clause),
        _ => SqlError::unknown_column(column, clause),
    }
}

/// True if a GROUP BY is somewhere in a query.
fn has_groups(query: &Query) -> bool {
    struct Groups;
    impl Visitor for Groups {
        type Break = ();
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            match &select.group_by {
                GroupByExpr::Expressions(exprs, _) if exprs.is_empty() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        }
    }
    query.visit(&mut Groups).is_break()
}

/// The clause of the innermost query that names a column; within a query in MySQL's order.
fn clause_of(query: &Query, column: &str) -> Option<&'static str> {
    let mut finder = Queries {
        column,
        clause: None,
    };
    let _ = query.visit(&mut finder);
    finder.clause
}

struct Queries<'a> {
    column: &'a str,
    clause: Option<&'static str>,
}

impl Visitor for Queries<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.clause = clause_of_level(query, self.column);
        match self.clause {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The clause of this query, its subqueries left out.
fn clause_of_level(query: &Query, column: &str) -> Option<&'static str> {
    let order_by = query.order_by.as_ref().map(|order_by| &order_by.kind);
    clause_of_body(&query.body, column).or_else(|| match order_by {
        Some(OrderByKind::Expressions(exprs)) if names(exprs, column) => Some("order clause"),
        _ => None,
    })
}

fn clause_of_body(body: &SetExpr, column: &str) -> Option<&'static str> {
    match body {
        SetExpr::Select(select) => match union::found(select) {
            Some(union) => clause_of_body(&union.body, column),
            None => clause_of_select(select, column),
        },
        SetExpr::SetOperation { left, right, .. } => {
            clause_of_body(left, column).or_else(|| clause_of_body(right, column))
        }
        _ => None,
    }
}

fn clause_of_select(select: &Select, column: &str) -> Option<&'static str> {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => exprs.as_slice(),
        GroupByExpr::All(_) => &[],
    };
    let items = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            names(expr, column)
        }
        _ => false,
    });
    [
        (items, "field list"),
        (names(&select.from, column), "on clause"),
        (names(&select.selection, column), "where clause"),
        (groups.iter().any(|g| names(g, column)), "group statement"),
        (names(&select.having, column), "having clause"),
    ]
    .into_iter()
    .find_map(|(found, clause)| found.then_some(clause))
}

/// True if a part of a query names a column, outside of subqueries.
fn names<T: Visit + ?Sized>(part: &T, column: &str) -> bool {
    any_expr(part, |expr| match expr {
        Expr::Identifier(ident) => ident.value == column,
        Expr::CompoundIdentifier(idents) => {
            let parts: Vec<_> = idents.iter().map(|i| i.value.as_str()).collect();
            parts.join(".") == column
        }
        _ => false,
    })
}
