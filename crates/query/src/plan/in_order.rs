//! [`IN_ORDER`]: rows that are in an order keep it while expressions are computed for them.
//!
//! A select list is computed for the first rows of an order (`lower/relation.rs`), and results are brought to their types behind
//! it. DataFusion takes rows of which no operator requires an order for unordered ones, and may deal out batches of them in
//! turns so that expressions are computed in several partitions. They come together in any order.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::rewrite::{Rewrite, Rewritten};

/// The rule. To be applied behind those that distribute rows.
pub const IN_ORDER: Rewrite = Rewrite::upwards("in_order", together);

fn together(node: Arc<dyn ExecutionPlan>) -> Rewritten {
    match dealt_out(&node) {
        Some(rows) if are_in_order(rows) => Ok(Transformed::yes(rows.clone())),
        _ => Ok(Transformed::no(node)),
    }
}

/// The rows that an operator deals out in turns.
fn dealt_out(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let dealt = node.downcast_ref::<RepartitionExec>()?;
    matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_)).then(|| dealt.input())
}

/// True if rows are in an order, perhaps of columns that were left out since.
fn are_in_order(rows: &Arc<dyn ExecutionPlan>) -> bool {
    if rows.output_partitioning().partition_count() != 1 {
        return false;
    }
    match rows.children()[..] {
        _ if rows.output_ordering().is_some() => true,
        [below] => rows.maintains_input_order() == [true] && are_in_order(below),
        _ => false,
    }
}
