//! The order of joins: the tables of a query are joined in the order that is expected to cost least, whatever
//! the order of FROM is (`docs/access-paths.md`).
//!
//! The rule takes the largest trees of joins in a plan, made of *relations* (anything that is not a join
//! itself: tables, derived tables), of *conditions* between them ([`graph`]), and of relations that [`follower`] is
//! about: those on the right of outer, semi and anti joins. It estimates how many rows each
//! relation has and which share of pairs each condition lets through ([`estimate`], [`classes`]), and searches the orders
//! ([`search`]): all of them, bushy ones too, for up to a dozen relations that conditions connect, the best next
//! pair beyond. Rows are joined without a condition only where nothing else is left.
//!
//! Hints (JOIN_ORDER, JOIN_PREFIX, JOIN_SUFFIX) restrict the search ([`hinted`]).
//!
//! What a follower is made of, and full joins, are ordered by themselves.

mod classes;
mod estimate;
mod follower;
mod graph;
mod hinted;
mod search;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

pub(super) use estimate::{base_column, rows};
use graph::Graph;

/// An order has to be cheaper by a fifth to be taken instead of the one that is written: estimates are not so exact,
/// and who wrote the query may have known more.
const BETTER: f64 = 0.8;

/// The rule.
#[derive(Debug)]
pub struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "join_order"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        ordered(plan)
    }
}

/// The plan with its trees of joins in a better order.
fn ordered(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        let Some(mut graph) = Graph::of(&node)? else {
            return Ok(Transformed::no(node));
        };
        let mut changed = false;
        for relation in graph.relations_mut() {
            let plan = ordered(std::mem::take(relation))?;
            changed |= plan.transformed;
            *relation = plan.data;
        }
        let better = search::better(&graph)?;
        Ok(match (better, changed) {
            (Some(tree), _) => Transformed::new(graph.build(&tree)?, true, TreeNodeRecursion::Jump),
            (None, true) => {
                let written = graph.written().clone();
                Transformed::new(graph.build(&written)?, true, TreeNodeRecursion::Jump)
            }
            (None, false) => Transformed::new(node, false, TreeNodeRecursion::Jump),
        })
    })
}
