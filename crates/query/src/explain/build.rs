//! From operators to the description of a plan.
//!
//! Operators that only move rows (exchanges, projections, filters' watchers, the first half of an aggregation) are their
//! input.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::JoinType;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use perigee_engine::Prices;

use super::actual::Actual;
use super::expression;
use super::node::{Changed, Definition, Join, Matching, Node, Operation, Plan};
use crate::access::{CostModel, IndexJoinExec, JoinTableExec, Residual, as_page_scan};
use crate::plan::apply::ApplyExec;
use crate::plan::common::{definitions, gives_step, shared_table};
use crate::plan::wide_union::WideUnionExec;

/// Most rows of a plan's statistics that are asked for: beyond, they take longer than they are worth.
const MOST_NODES: usize = 2000;

/// The description of a plan that changes nothing.
pub fn plan(plan: &Arc<dyn ExecutionPlan>, prices: &Prices) -> Plan {
    let builder = Builder {
        prices,
        statistics: StatisticsContext::new(),
        nodes: RefCell::new(0),
    };
    let mut common: Vec<Definition> = Vec::new();
    for part in definitions(plan) {
        let node = builder.node(&part.plan, &Residual::default());
        match common.iter_mut().find(|one| one.number == part.number) {
            Some(recursive) => recursive.parts.push(node),
            None => common.push(Definition {
                number: part.number,
                name: part.name,
                parts: vec![node],
            }),
        }
    }
    Plan {
        definitions: common,
        root: Some(builder.node(plan, &Residual::default())),
        changed: Changed::Nothing,
        change: None,
    }
}

struct Builder<'p> {
    prices: &'p Prices,
    statistics: StatisticsContext,
    nodes: RefCell<usize>,
}

type Operator = Arc<dyn ExecutionPlan>;

impl Builder<'_> {
    /// What an operator does, under conditions that may be those of an access below it.
    fn node(&self, plan: &Operator, above: &Residual) -> Node {
        let residual = match plan.downcast_ref::<FilterExec>() {
            Some(filter) => above.and(filter.predicate()),
            // Above a join names may be those of several tables.
            None if plan.children().len() > 1 => Residual::default(),
            None => above.clone(),
        };
        let inputs = || -> Vec<Node> {
            let children = plan.children().into_iter();
            children.map(|child| self.node(child, &residual)).collect()
        };
        if let Some(node) = self
            .access(plan, &residual)
            .or_else(|| self.own_join(plan, &residual))
        {
            return self.finished(node, plan);
        }
        if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
            let mut node = self.node(subqueries.input(), &residual);
            let plans = subqueries.subqueries().iter();
            let plans = plans.map(|link| self.node(&link.plan, &Residual::default()));
            node.subqueries.extend(plans);
            return node;
        }
        let operation = joined(plan).or_else(|| of_rows(plan));
        let operation = operation.or_else(|| aggregated(plan));
        match operation {
            Some(operation) => self.finished(Node::new(operation, inputs()), plan),
            None => self.passed(plan, inputs()),
        }
    }

    /// What only passes rows on is its input.
    fn passed(&self, plan: &Operator, mut inputs: Vec<Node>) -> Node {
        match (inputs.len(), inputs.pop()) {
            (1, Some(input)) => input,
            (0, _) => self.finished(Node::new(Operation::Other(leaf(plan)), Vec::new()), plan),
            (_, last) => {
                inputs.extend(last);
                self.finished(Node::new(Operation::Other("Several inputs"), inputs), plan)
            }
        }
    }

    /// A table access.
    fn access(&self, plan: &Operator, residual: &Residual) -> Option<Node> {
        let scan = as_page_scan(plan)?;
        let access = scan.described(residual);
        let cost = access.cost.unwrap_or_default();
        let rows = access
            .near
            .aggregate
            .is_none()
            .then(|| scan.estimated_rows());
        Some(Node {
            cost,
            rows,
            ..Node::new(Operation::Access(Box::new(access)), Vec::new())
        })
    }

    /// Joins that are not DataFusion's.
    fn own_join(&self, plan: &Operator, residual: &Residual) -> Option<Node> {
        if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
            return Some(self.index_join(join, plan));
        }
        let join = plan.downcast_ref::<JoinTableExec>()?;
        let table = self.node(join.table(), &Residual::default());
        if let Some((otherwise, why)) = join.otherwise() {
            let mut otherwise = self.node(otherwise, &Residual::default());
            otherwise.each_access(&mut |access| access.not_joined = Some(why));
            let inputs = vec![table, otherwise];
            let what = Operation::Other("Join that was not done in storage");
            return Some(Node::new(what, inputs));
        }
        let access = join.scan()?.described(residual);
        let kind = access.near.join.clone().unwrap_or_default();
        let kind = ["semi", "anti", "left", "inner"]
            .into_iter()
            .find(|known| kind.starts_with(known));
        let cost = access.cost.unwrap_or_default();
        let scan = Node {
            cost,
            ..Node::new(Operation::Access(Box::new(access)), Vec::new())
        };
        let join = Join {
            by: Matching::Storage,
            kind: match kind {
                Some("semi") => "semijoin",
                Some("anti") => "antijoin",
                Some("left") => "left join",
                _ => "inner join",
            },
            on: Vec::new(),
        };
        Some(Node::new(Operation::Join(join), vec![table, scan]))
    }

    fn index_join(&self, join: &IndexJoinExec, plan: &Operator) -> Node {
        let outer = self.node(plan.children()[0], &Residual::default());
        let mut access = join.described();
        access.reference = join.key_values().map(expression::text).collect();
        let cost = join.cost_of(outer.rows.unwrap_or(1.0));
        let inner = Node {
            cost,
            rows: Some(access.rows as f64),
            actual: None,
            ..Node::new(Operation::Access(Box::new(access)), Vec::new())
        };
        let conditions = join.conditions().into_iter();
        let operation = Operation::Join(Join {
            by: Matching::Lookup,
            kind: join.how(),
            on: conditions.map(expression::text).collect(),
        });
        Node::new(operation, vec![outer, inner])
    }

    /// The node with its rows, its cost and what it did.
    fn finished(&self, mut node: Node, plan: &Operator) -> Node {
        node.actual = Actual::of(plan);
        if node.rows.is_none() {
            node.rows = self.rows(plan);
        }
        let (rows, input) = (node.rows.unwrap_or_default(), node.input_rows());
        node.cost += match &node.operation {
            Operation::Sort { limit, .. } => {
                CostModel::sort(input, limit.map_or(input, |limit| limit as f64))
            }
            Operation::Join(join) => match join.by {
                Matching::Lookup | Matching::Storage => 0.0,
                Matching::Loop => {
                    let each = node.inputs.iter().map(|input| input.rows.unwrap_or(1.0));
                    each.product::<f64>() * self.prices.whole.node + rows * self.prices.whole.row
                }
                Matching::Hash | Matching::Merge => (input + rows) * self.prices.whole.row,
            },
            Operation::Group { .. } | Operation::Deduplicate(_) | Operation::Window(_) => {
                input * self.prices.whole.row
            }
            _ => 0.0,
        };
        node
    }

    /// Rows that an operator is expected to deliver.
    fn rows(&self, plan: &Operator) -> Option<f64> {
        let mut nodes = self.nodes.borrow_mut();
        *nodes += 1;
        if *nodes > MOST_NODES {
            return None;
        }
        let known = self
            .statistics
            .compute(plan.as_ref(), &StatisticsArgs::new());
        let rows = known.ok()?.num_rows.get_value().copied()?;
        Some(rows as f64)
    }
}

/// What DataFusion's joins do.
fn joined(plan: &Operator) -> Option<Operation> {
    let (by, join_type, on, filter) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        (Matching::Hash, *join.join_type(), join.on(), join.filter())
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let filter = join.filter().as_ref();
        (Matching::Merge, join.join_type(), join.on(), filter)
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        (Matching::Loop, *join.join_type(), &[][..], join.filter())
    } else if plan.is::<CrossJoinExec>() {
        (Matching::Loop, JoinType::Inner, &[][..], None)
    } else {
        return None;
    };
    let equal = on.iter().map(|(left, right)| {
        let (left, right) = (expression::text(left), expression::text(right));
        format!("({left} = {right})")
    });
    let filter = filter.map(JoinFilter::expression);
    Some(Operation::Join(Join {
        by,
        kind: kind_of(join_type),
        on: equal.chain(filter.map(expression::text)).collect(),
    }))
}

/// What becomes of rows in a join whose second input is shown first.
fn kind_of(join_type: JoinType) -> &'static str {
    match join_type {
        JoinType::Inner => "inner join",
        JoinType::Left => "right join",
        JoinType::Right => "left join",
        JoinType::Full => "full join",
        JoinType::LeftSemi | JoinType::RightSemi | JoinType::LeftMark | JoinType::RightMark => {
            "semijoin"
        }
        JoinType::LeftAnti | JoinType::RightAnti => "antijoin",
    }
}

/// What operators do that leave out, order and append rows.
fn of_rows(plan: &Operator) -> Option<Operation> {
    let limited = |count| Operation::Limit {
        count: Some(count),
        offset: 0,
    };
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        Some(Operation::Filter(expression::text(filter.predicate())))
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        Some(Operation::Sort {
            by: sort.expr().iter().map(expression::sort).collect(),
            limit: sort.fetch(),
        })
    } else if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        Some(Operation::Limit {
            count: limit.fetch(),
            offset: limit.skip(),
        })
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        merge.fetch().map(limited)
    } else if let Some(gather) = plan.downcast_ref::<CoalescePartitionsExec>() {
        gather.fetch().map(limited)
    } else if plan.is::<UnionExec>() || plan.is::<InterleaveExec>() || plan.is::<WideUnionExec>() {
        Some(Operation::Append)
    } else if let Some((number, name)) = shared_table(plan) {
        Some(Operation::Common(number, name.to_owned()))
    } else if let Some(apply) = plan.downcast_ref::<ApplyExec>() {
        let tables = apply.tables();
        let tables = tables.iter().map(|name| expression::name(name)).collect();
        Some(Operation::Apply(apply.asks(), tables))
    } else {
        None
    }
}

/// What operators do that compute something of several rows.
fn aggregated(plan: &Operator) -> Option<Operation> {
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Some(windows(window.window_expr()));
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return Some(windows(window.window_expr()));
    }
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    // The first half of one is its input.
    if !matches!(
        aggregate.mode(),
        AggregateMode::Final
            | AggregateMode::FinalPartitioned
            | AggregateMode::Single
            | AggregateMode::SinglePartitioned
    ) {
        return None;
    }
    let keys = aggregate.group_expr().expr().iter();
    let by: Vec<_> = keys.map(|(key, _)| expression::text(key)).collect();
    let of = aggregate.aggr_expr().iter().map(|function| {
        let of: Vec<_> = function
            .expressions()
            .iter()
            .map(expression::text)
            .collect();
        let distinct = if function.is_distinct() {
            "distinct "
        } else {
            ""
        };
        let name = expression::name(function.fun().name());
        format!("{name}({distinct}{})", of.join(", "))
    });
    let of: Vec<_> = of.collect();
    Some(match of.is_empty() && !by.is_empty() {
        true => Operation::Deduplicate(by),
        false => Operation::Group { by, of },
    })
}

fn windows(functions: &[Arc<dyn WindowExpr>]) -> Operation {
    Operation::Window(functions.iter().map(|one| window(one.as_ref())).collect())
}

/// A function and its window.
fn window(function: &dyn WindowExpr) -> String {
    let name = function.name();
    let ends = [
        " PARTITION BY ",
        " ORDER BY ",
        " ROWS ",
        " RANGE ",
        " GROUPS ",
    ];
    let end = ends.iter().filter_map(|end| name.find(end)).min();
    let name = expression::name(&name[..end.unwrap_or(name.len())]);
    let list = |what: &str, parts: Vec<String>| match parts.is_empty() {
        true => None,
        false => Some(format!("{what} {}", parts.join(", "))),
    };
    let by = function.partition_by().iter();
    let order = function.order_by().iter();
    let parts = [
        list(
            "PARTITION BY",
            by.map(|by: &Arc<dyn PhysicalExpr>| expression::text(by))
                .collect(),
        ),
        list(
            "ORDER BY",
            order
                .map(|by: &PhysicalSortExpr| expression::sort(by))
                .collect(),
        ),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("{name} OVER ({})", parts.join(" "))
}

/// An operator that has no input and reads no table of users.
fn leaf(plan: &Operator) -> &'static str {
    let schema: Arc<Schema> = plan.schema();
    if plan.is::<EmptyExec>() {
        "Zero rows"
    } else if plan.is::<PlaceholderRowExec>() {
        "Rows fetched before execution"
    } else if gives_step(plan) {
        "Scan new records"
    } else if schema.fields().is_empty() {
        "Rows without columns"
    } else {
        "Table scan on <temporary>"
    }
}
