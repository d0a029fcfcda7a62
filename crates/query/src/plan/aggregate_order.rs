//! The order in which an aggregate takes its values, without what stands there twice.
//!
//! MIN and MAX of strings that compare by weights order by the weights and then by the bytes. When the optimizer finds that
//! both are the same constant, DataFusion's plan of the aggregate keeps one of them, and its accumulator expects two.

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug)]
pub struct AggregateOrder;

impl OptimizerRule for AggregateOrder {
    fn name(&self) -> &str {
        "aggregate_order"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(_) => plan.map_expressions(|expr| {
                let schema_name = expr.schema_name().to_string();
                let shorter = expr.transform(|expr| Ok(shortened(expr)))?;
                // Whoever stands above knows the column by its name.
                Ok(match shorter.transformed {
                    true => Transformed::yes(shorter.data.alias(schema_name)),
                    false => shorter,
                })
            }),
            plan => Ok(Transformed::no(plan)),
        }
    }
}

fn shortened(expr: Expr) -> Transformed<Expr> {
    let Expr::AggregateFunction(mut aggregate) = expr else {
        return Transformed::no(expr);
    };
    let order = &mut aggregate.params.order_by;
    let all = order.len();
    let mut kept: Vec<Sort> = Vec::with_capacity(all);
    for sort in order.drain(..) {
        if kept.iter().all(|earlier| earlier.expr != sort.expr) {
            kept.push(sort);
        }
    }
    let is_shorter = kept.len() < all;
    *order = kept;
    let expr = Expr::AggregateFunction(aggregate);
    match is_shorter {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    }
}
