//! Columns of the query of INSERT … SELECT that ON DUPLICATE KEY UPDATE names: the query delivers them behind the values
//! of the row.

use std::ops::ControlFlow;

use perigee_engine::catalog::{ColumnDef, TableDef};
use perigee_sql_bind::query;
use sqlparser::ast::{
    Assignment, Distinct, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, VisitMut,
    VisitorMut,
};

use crate::error::{Result, SqlError};
use crate::session::dml::NEW;
use crate::session::stored_view::table_column;

/// Begins the names of the columns that a query delivers for ON DUPLICATE KEY UPDATE; their number follows.
const QUERY: &str = "/@query.";

/// Has a query deliver the columns that assignments name and the table does not have, and the assignments name them as
/// columns of the row to insert. Gives their number.
///
/// # Errors
/// 1235 for columns of a query with DISTINCT, whose rows they would tell apart.
pub(super) fn bring_along(
    query: &mut Query,
    assignments: &mut [Assignment],
    table: &TableDef,
) -> Result<usize> {
    // What groups and sets of rows have besides their values is not known.
    let SetExpr::Select(select) = &mut *query.body else {
        return Ok(0);
    };
    if is_grouped(select) {
        return Ok(0);
    }
    let mut names = Names {
        table,
        found: Vec::new(),
        within: 0,
    };
    for assignment in assignments {
        let _ = assignment.value.visit(&mut names);
    }
    let is_distinct = !matches!(select.distinct, None | Some(Distinct::All));
    if is_distinct && !names.found.is_empty() {
        let what = "columns of a query with DISTINCT in ON DUPLICATE KEY UPDATE";
        return Err(SqlError::not_supported(what));
    }
    let count = names.found.len();
    let items = names.found.into_iter().enumerate();
    select
        .projection
        .extend(items.map(|(number, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('`', name(number)),
        }));
    Ok(count)
}

/// What the last `count` columns of a query are in the row to insert.
pub(super) fn brought(query: &query::Query, count: usize) -> Vec<ColumnDef> {
    let columns = &query.body.columns;
    let last = columns[columns.len().saturating_sub(count)..].iter();
    let defs = last.enumerate().map(|(number, column)| ColumnDef {
        name: name(number),
        nullable: true,
        ..table_column(column)
    });
    defs.collect()
}

fn name(number: usize) -> String {
    format!("{QUERY}{number}")
}

fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    }
}

/// Finds names that are none of the table's columns, and gives them their names in the row to insert.
struct Names<'a> {
    table: &'a TableDef,
    found: Vec<Expr>,
    /// How many subqueries and VALUES(…) are around, whose names mean other things.
    within: usize,
}

impl Names<'_> {
    fn is_of_query(&self, expr: &Expr) -> bool {
        let is = |part: &Ident, name: &str| part.value.eq_ignore_ascii_case(name);
        match expr {
            Expr::Identifier(column) => {
                let is_word = column.quote_style.is_none();
                let is_other = is_word && (column.value.starts_with('@') || is(column, "default"));
                !is_other && self.table.column(&column.value).is_none()
            }
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [table, _] => !is(table, &self.table.name),
                [schema, table, _] => {
                    !is(schema, self.table.shown_schema()) || !is(table, &self.table.name)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

fn is_values(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function)
        if function.name.to_string().eq_ignore_ascii_case("values"))
}

impl VisitorMut for Names<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.within -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.within += usize::from(is_values(expr));
        if self.within == 0 && self.is_of_query(expr) {
            let known = self.found.iter().position(|known| known == expr);
            let number = known.unwrap_or_else(|| {
                self.found.push(expr.clone());
                self.found.len() - 1
            });
            *expr = Expr::Identifier(Ident::with_quote('`', format!("{NEW}{}", name(number))));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.within -= usize::from(is_values(expr));
        ControlFlow::Continue(())
    }
}
