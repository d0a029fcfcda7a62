//! What of a condition is not pushed, and why: the residual predicate of an access (SPEC's N16).

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::{CastExpr, Column, LikeExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use perigee_value::decimal;

use super::convert::{Binding, convert};
use super::exec::PageScanExec;
use crate::functions::collation::{Collated, PAD};
use crate::functions::{enumeration, like};

/// Why a LIKE is not done by storage.
const LIKE: &str = "storage has LIKE with constant patterns only";

/// Why storage cannot evaluate an expression; `None` if it can.
#[must_use]
pub fn obstacle(expr: &Arc<dyn PhysicalExpr>, binding: &Binding<'_>) -> Option<String> {
    if convert(expr, binding).is_some() {
        return None;
    }
    // Comparisons see to trailing spaces and weights themselves.
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>()
        && (function.name() == PAD || Collated::is(function.fun()))
    {
        return obstacle(&function.args()[0], binding);
    }
    // What is within it tells more.
    let within = expr.children().into_iter();
    let mut within = within.filter_map(|part| obstacle(part, binding));
    within.next().or_else(|| Some(name(expr, binding)))
}

/// What storage lacks for an expression whose parts it can evaluate.
fn name(expr: &Arc<dyn PhysicalExpr>, binding: &Binding<'_>) -> String {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let place = binding.positions.get(column.index()).copied().flatten();
        let ty = place.map(|at| binding.layout.columns[usize::from(at)].ty);
        return match ty {
            Some(ty) if ty.is_long() => "long values may lie outside of their rows".to_owned(),
            Some(ty) if ty.is_wide() => {
                let most = decimal::MAX_PRECISION;
                format!("storage computes with decimals of up to {most} digits")
            }
            Some(_) => format!("storage has no values like those of {}", column.name()),
            None => format!("{} is not in the index", column.name()),
        };
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let name = function.name();
        if name == like::LIKE {
            return LIKE.to_owned();
        }
        if name == enumeration::TEXT {
            return "storage has numbers of ENUM and SET values, not their texts".to_owned();
        }
        let name = name.strip_prefix("mysql_").unwrap_or(name);
        return format!("storage has no function {}", name.to_uppercase());
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return format!("storage has no conversion to {}", cast.cast_type());
    }
    if expr.downcast_ref::<LikeExpr>().is_some() {
        return LIKE.to_owned();
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return format!(
            "storage has no constants of {}",
            literal.value().data_type()
        );
    }
    format!("storage cannot evaluate {expr}")
}

/// Conditions of a plan above an access.
#[derive(Clone, Default)]
pub struct Residual {
    conjuncts: Vec<Arc<dyn PhysicalExpr>>,
}

impl Residual {
    /// With another predicate, over columns that have the names of the table's.
    #[must_use]
    pub fn and(&self, predicate: &Arc<dyn PhysicalExpr>) -> Self {
        let mut conjuncts = self.conjuncts.clone();
        conjuncts.extend(split_conjunction(predicate).into_iter().cloned());
        Self { conjuncts }
    }

    /// For each reason, the columns in conditions over the access that are not pushed because of
    /// it.
    #[must_use]
    pub fn of(&self, scan: &PageScanExec) -> Vec<(String, Vec<String>)> {
        // Columns by their numbers, so that they come in the table's order.
        let mut found: Vec<(String, BTreeSet<usize>)> = Vec::new();
        let layout = &scan.table.clustered().layout;
        let positions: Vec<_> = (0..layout.columns.len() as u16).map(Some).collect();
        let binding = Binding {
            layout,
            positions: &positions,
        };
        for conjunct in &self.conjuncts {
            let Some(over_table) = over_table(conjunct, scan) else {
                continue;
            };
            let Some(reason) = obstacle(&over_table, &binding) else {
                continue;
            };
            let at = found.iter().position(|(known, _)| *known == reason);
            let at = at.unwrap_or_else(|| {
                found.push((reason, BTreeSet::new()));
                found.len() - 1
            });
            let columns = collect_columns(&over_table);
            found[at].1.extend(columns.iter().map(Column::index));
        }
        let name = |column: &usize| scan.table.def.columns[*column].name.clone();
        let found = found.into_iter();
        let named = found.map(|(reason, columns)| (reason, columns.iter().map(name).collect()));
        named.collect()
    }
}

/// A condition with its columns by their numbers in the table; `None` if it has others, or none.
fn over_table(
    conjunct: &Arc<dyn PhysicalExpr>,
    scan: &PageScanExec,
) -> Option<Arc<dyn PhysicalExpr>> {
    let columns = &scan.table.def.columns;
    let number = |name: &str| {
        columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    };
    let used = collect_columns(conjunct);
    if used.is_empty() || used.iter().any(|column| number(column.name()).is_none()) {
        return None;
    }
    let bound = conjunct.clone().transform(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        let at = number(column.name()).unwrap_or_default();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), at));
        Ok(Transformed::yes(column))
    });
    bound.ok().map(|bound| bound.data)
}
