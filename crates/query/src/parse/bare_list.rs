//! Queries that are nothing but a select list.

use sqlparser::ast::{GroupByExpr, Query, SelectItem, SetExpr};

/// The select list of a query that has nothing else: no table, no clause.
#[must_use]
pub fn bare_list(query: &Query) -> Option<&[SelectItem]> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let has_more = query.with.is_some()
        || query.order_by.is_some()
        || query.limit_clause.is_some()
        || !query.locks.is_empty()
        || select.distinct.is_some()
        || select.selection.is_some()
        || select.having.is_some()
        || is_grouped
        || !select.from.is_empty();
    (!has_more).then_some(&select.projection)
}
