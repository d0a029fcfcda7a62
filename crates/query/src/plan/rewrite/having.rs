//! HAVING of a SELECT without groups and aggregates: a condition on the rows of its select list. It becomes a condition of
//! WHERE, over the expressions that the names of the list stand for.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Query, Select, SelectItem, VisitMut, VisitorMut,
};
use perigee_expr::functions;

use super::expression::{binary, nested};
use super::function::is_aggregate_name;
use crate::error::{Result, SqlError};
use crate::plan::level::any_expr;

/// How often a HAVING may name expressions of the select list: each time the expression is computed again.
const MAX_NAMES: usize = 100;

/// Makes the HAVING of a SELECT without groups a part of its WHERE, before the SELECT is rewritten. In a subquery, names
/// that the select list does not have may be those of an outer query.
///
/// # Errors
/// 1054 for names that the select list does not have, 1235 for windows and for expressions that are not the same when they
/// are computed again.
pub(super) fn as_filter(select: &mut Select, is_subquery: bool) -> Result<()> {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let aggregates = |item: &SelectItem| any_expr(item, is_aggregate);
    if is_grouped || select.projection.iter().any(aggregates) {
        return Ok(());
    }
    let Some(mut having) = select
        .having
        .take_if(|having| !any_expr(having, is_aggregate))
    else {
        return Ok(());
    };
    let mut names = Names::of(&select.projection, is_subquery);
    let _ = having.visit(&mut names);
    if let Some(error) = names.error {
        return Err(error);
    }
    if any_expr(&having, is_window) {
        return Err(SqlError::not_supported("HAVING over a window"));
    }
    let having = nested(having);
    select.selection = Some(match select.selection.take() {
        Some(selection) => binary(nested(selection), BinaryOperator::And, having),
        None => having,
    });
    Ok(())
}

fn is_window(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_some())
}

fn is_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function)
        if function.over.is_none() && is_aggregate_name(&function_name(expr).unwrap_or_default()))
}

/// True for a function that has another value each time.
fn changes(expr: &Expr) -> bool {
    let function = function_name(expr).and_then(|name| functions::named(&name));
    function.is_some_and(|function| !function.deterministic)
}

/// The name of a function, in lower case.
fn function_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Function(function) => {
            let name = function.name.to_string().to_ascii_lowercase();
            Some(name.trim_matches('`').to_owned())
        }
        _ => None,
    }
}

/// Replaces the names of a select list by the expressions that they stand for.
struct Names {
    /// Expressions by their alias.
    aliases: HashMap<String, Expr>,
    /// Columns that the list names.
    columns: Vec<String>,
    /// True if there may be other columns.
    is_open: bool,
    /// Names that were replaced.
    replaced: usize,
    /// Subqueries around the current expression.
    depth: usize,
    error: Option<SqlError>,
}

impl Names {
    fn of(items: &[SelectItem], is_open: bool) -> Self {
        let mut names = Self {
            aliases: HashMap::new(),
            columns: Vec::new(),
            is_open,
            replaced: 0,
            depth: 0,
            error: None,
        };
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => names.columns.extend(column(expr)),
                SelectItem::ExprWithAlias { expr, alias } => {
                    names.columns.extend(column(expr));
                    let alias = alias.value.to_lowercase();
                    names.aliases.entry(alias).or_insert_with(|| expr.clone());
                }
                _ => names.is_open = true,
            }
        }
        names
    }

    /// The expression that a name stands for; `None` if that is a column.
    fn named(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        let Some(name) = column(expr) else {
            return Ok(None);
        };
        let alias = match expr {
            Expr::Identifier(_) => self.aliases.get(&name),
            _ => None,
        };
        let Some(alias) = alias else {
            return match self.depth > 0 || self.is_open || self.columns.contains(&name) {
                true => Ok(None),
                false => Err(SqlError::unknown_column(name, "having clause")),
            };
        };
        if self.depth > 0 {
            // It may be a column of the subquery, or the alias.
            return Err(SqlError::not_supported("an alias in a subquery of HAVING"));
        }
        if any_expr(alias, changes) {
            return Err(SqlError::not_supported("HAVING over a random value"));
        }
        self.replaced += 1;
        match self.replaced > MAX_NAMES {
            true => Err(SqlError::not_supported(format!(
                "HAVING with more than {MAX_NAMES} names"
            ))),
            false => Ok(Some(nested(alias.clone()))),
        }
    }
}

/// The name of a column or an alias, in lower case.
fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) if !ident.value.starts_with('@') => {
            Some(ident.value.to_lowercase())
        }
        Expr::CompoundIdentifier(idents) => {
            let last = idents.last().map(|ident| ident.value.to_lowercase());
            last.filter(|_| !idents.iter().any(|ident| ident.value.starts_with('@')))
        }
        _ => None,
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match self.named(expr) {
            Ok(Some(named)) => *expr = named,
            Ok(None) => {}
            Err(error) => {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}
