//! Without ONLY_FULL_GROUP_BY a column that the groups do not decide has the value of any row of its group: it
//! becomes the argument of an aggregate function that takes one.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, Query, Select, SelectItem, Value, VisitMut, VisitorMut,
};

use super::expression::call;
use crate::plan::level::any_expr;

/// The aggregate function.
pub const ANY_VALUE: &str = "first_value";

/// Aggregate functions of plans, whose arguments are all rows.
const AGGREGATES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "stddev_pop",
    "stddev",
    "var_pop",
    "var",
    "bit_and",
    "bit_or",
    "bit_xor",
];

/// Gives the columns of a rewritten SELECT, and of what it is ordered by, any value of their group.
pub fn any_values(select: &mut Select, order_by: &mut [OrderByExpr]) {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(groups, _) => groups.clone(),
        GroupByExpr::All(_) => return,
    };
    let mut items = select.projection.iter();
    let is_plain = groups.is_empty()
        && !items.any(|item| any_expr(item, is_aggregate))
        && !select
            .having
            .as_ref()
            .is_some_and(|having| any_expr(having, is_aggregate));
    if is_plain {
        return;
    }
    let mut wrap = Wrap {
        aliases: Vec::new(),
        groups: &groups,
        kept: 0,
        depth: 0,
    };
    let (mut named, mut wrapped) = (Vec::new(), Vec::new());
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            _ => continue,
        };
        let is_group = |group: &Expr| match (group, &alias) {
            (Expr::Identifier(ident), Some(alias)) => ident.value == alias.value,
            (Expr::Value(value), _) => {
                matches!(&value.value, Value::Number(number, _) if *number == (at + 1).to_string())
            }
            _ => false,
        };
        if !groups.iter().any(is_group) {
            let name = last_part(expr);
            let _ = expr.visit(&mut wrap);
            if let (Some(name), Expr::Function(_)) = (name, &expr) {
                let expr = expr.clone();
                let own = alias.clone().unwrap_or(Ident::with_quote('"', name));
                wrapped.push(own.value.clone());
                *item = SelectItem::ExprWithAlias { expr, alias: own };
            }
        }
        named.extend(alias.map(|alias| alias.value));
    }
    wrap.aliases = named;
    if let Some(having) = &mut select.having {
        let _ = having.visit(&mut wrap);
    }
    wrap.aliases.append(&mut wrapped);
    for part in order_by {
        let _ = part.expr.visit(&mut wrap);
    }
}

/// The name of a column.
fn last_part(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::CompoundIdentifier(idents) => idents.last().map(|ident| ident.value.clone()),
        _ => None,
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else {
        return false;
    };
    let name = function.name.to_string();
    function.over.is_none() && AGGREGATES.contains(&name.trim_matches('"'))
}

/// Wraps columns that stand outside of aggregate functions and of expressions that are grouped by.
struct Wrap<'a> {
    /// Names of the select list, which stand for what is wrapped already.
    aliases: Vec<String>,
    groups: &'a [Expr],
    /// Expressions around the one at hand in which nothing is wrapped.
    kept: usize,
    /// Subqueries around it.
    depth: usize,
}

impl Wrap<'_> {
    fn is_kept(&self, expr: &Expr) -> bool {
        let is_group = |group: &Expr| {
            group == expr
                || matches!((last_part(group), last_part(expr)), (Some(a), Some(b)) if a == b
                    && (matches!(group, Expr::Identifier(_)) || matches!(expr, Expr::Identifier(_))))
        };
        let is_alias =
            matches!(expr, Expr::Identifier(ident) if self.aliases.contains(&ident.value));
        is_alias || is_aggregate(expr) || self.groups.iter().any(is_group)
    }
}

impl VisitorMut for Wrap<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.kept += usize::from(self.is_kept(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.is_kept(expr) {
            self.kept -= 1;
        } else if self.kept == 0 && self.depth == 0 && last_part(expr).is_some() {
            let name = last_part(expr).filter(|name| self.aliases.contains(name));
            let column = std::mem::replace(expr, super::null());
            *expr = match name {
                Some(name) => Expr::Identifier(Ident::with_quote('"', name)),
                None => call(ANY_VALUE, vec![column]),
            };
        }
        ControlFlow::Continue(())
    }
}
