//! Keys of ORDER BY and of windows that compare something, as columns.
//!
//! DataFusion loses track of an order by such an expression and refuses its own plan: it derives the bounds of the
//! comparison from those of its operands, asks a function such as ours for the bounds of its results, and by default these
//! are of type NULL, which bounds of other types cannot be compared with.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort, Window};

use super::fractions::window_digits;

/// Name of a key's column, with its number behind it; a column cannot be named so.
const KEY: &str = "/key@";

/// A sort by columns.
///
/// # Errors
/// If the plan cannot be made, which is a fault in the planner.
pub(super) fn sorted(mut sort: Sort) -> DfResult<LogicalPlan> {
    let mut keys = Keys::default();
    for key in &mut sort.expr {
        keys.take(&mut key.expr)?;
    }
    if keys.exprs.is_empty() {
        return Ok(LogicalPlan::Sort(sort));
    }
    let shown = columns(sort.input.schema());
    sort.input = keys.over(sort.input)?;
    projected(shown, LogicalPlan::Sort(sort))
}

/// Windows over partitions and orders by columns, with [their digits](window_digits).
///
/// # Errors
/// If the plan cannot be made, which is a fault in the planner.
pub(super) fn windowed(window: Window) -> DfResult<LogicalPlan> {
    let mut keys = Keys::default();
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in &window.window_expr {
        let name = expr.schema_name().to_string();
        let mut expr = expr.clone().unalias();
        if let Expr::WindowFunction(function) = &mut expr {
            let params = &mut function.params;
            for part in &mut params.partition_by {
                keys.take(part)?;
            }
            for sort in &mut params.order_by {
                keys.take(&mut sort.expr)?;
            }
        }
        exprs.push(expr.alias(name));
    }
    if keys.exprs.is_empty() {
        return window_digits(window);
    }
    let shown = columns(&window.schema);
    let window = Window::try_new(exprs, keys.over(window.input)?)?;
    projected(shown, window_digits(window)?)
}

/// The keys that became columns.
#[derive(Default)]
struct Keys {
    exprs: Vec<Expr>,
}

impl Keys {
    /// Makes a key a column if it compares something.
    fn take(&mut self, key: &mut Expr) -> DfResult<()> {
        if !key.exists(|expr| Ok(matches!(expr, Expr::BinaryExpr(_))))? {
            return Ok(());
        }
        let known = self.exprs.iter().position(|expr| expr == key);
        let at = known.unwrap_or(self.exprs.len());
        let column = Expr::Column(Column::new_unqualified(format!("{KEY}{at}")));
        let expr = std::mem::replace(key, column);
        if known.is_none() {
            self.exprs.push(expr);
        }
        Ok(())
    }

    /// A plan with these columns beside its own.
    fn over(self, input: Arc<LogicalPlan>) -> DfResult<Arc<LogicalPlan>> {
        let mut exprs = columns(input.schema());
        let keys = self.exprs.into_iter().enumerate();
        exprs.extend(keys.map(|(at, key)| key.alias(format!("{KEY}{at}"))));
        let projection = Projection::try_new(exprs, input)?;
        Ok(Arc::new(LogicalPlan::Projection(projection)))
    }
}

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

fn projected(columns: Vec<Expr>, plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let projection = Projection::try_new(columns, Arc::new(plan))?;
    Ok(LogicalPlan::Projection(projection))
}
