//! DataFusion's session state as we use it: its optimizer and ours, and settings. Plans name no functions and no tables:
//! they have them.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::tree_node::Transformed;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use super::aggregate_order::AggregateOrder;
use super::apply;
use super::in_order::IN_ORDER;
use super::lists::Simplify;
use super::null_safe::NullSafe;
use super::wide_union::WideUnions;
use crate::access::{EarlyGroups, JoinOrder};
use crate::interrupt;

/// Rows of a batch.
pub const BATCH_ROWS: usize = 8192;

/// Most bytes that each partition of a sort keeps back for merging what it spilled.
const MERGE_BYTES: usize = 10 << 20;

/// Rules for operators, in their order.
type PhysicalRules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// The settings, for a statement that may use so many bytes of memory.
fn config(partitions: usize, memory: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    // It finds the columns of an aggregation by their names, of which two may be the same.
    options.optimizer.top_down_join_key_reordering = false;
    // The metadata of a UNION's columns differ between the logical and the physical plan.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Two partitions that spill into one exchange at a time begin a file each, and the reader waits for rows in the
    // first one that is open, however many are in the second one: for ever, where those who write wait for the
    // reader. No file is open behind its first batch.
    options.execution.max_spill_file_size_bytes =
        ConfigNonZeroUsize::try_new(1).expect("it is not zero");
    // What is kept back may not use up a small limit.
    options.execution.sort_spill_reservation_bytes =
        MERGE_BYTES.min(memory / (8 * partitions.max(1)));
    config
}

/// DataFusion's rule behind which joins are ordered, and rows that are joined grouped before.
const PUSH_DOWN_FILTER: &str = "push_down_filter";

/// DataFusion's rules, with its simplification as we need it, and the order of joins.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let simplify: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(Simplify::default());
    let rules = Optimizer::new().rules.into_iter();
    let ours = rules.map(|rule| match rule.name() == simplify.name() {
        true => Arc::clone(&simplify),
        false => rule,
    });
    let ours = ours.chain([Arc::new(AggregateOrder) as _]);
    ours.flat_map(|rule| {
        // Filters have to be at their tables by then, and no columns left out between joins yet.
        let ours: [Arc<dyn OptimizerRule + Send + Sync>; 2] =
            [Arc::new(EarlyGroups), Arc::new(JoinOrder)];
        let is_before = rule.name() == PUSH_DOWN_FILTER;
        [Arc::new(Interruptible) as _, rule]
            .into_iter()
            .chain(ours.into_iter().filter(move |_| is_before))
    })
    .collect()
}

/// Stands between two rules, and looks whether the statement was stopped.
#[derive(Debug)]
struct Interruptible;

impl OptimizerRule for Interruptible {
    fn name(&self) -> &str {
        "interruptible"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        interrupt::check_df()?;
        Ok(Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for Interruptible {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        interrupt::check_df()?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "interruptible"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rules for operators.
fn physical_rules(rules: PhysicalRules) -> PhysicalRules {
    let first: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(WideUnions);
    let last = Arc::new(IN_ORDER) as _;
    let rules = std::iter::once(first).chain(rules).chain([last]);
    let interruptible = rules.flat_map(|rule| [Arc::new(Interruptible) as _, rule]);
    interruptible.collect()
}

/// The state that sessions copy for each statement.
#[must_use]
pub fn template(partitions: usize, runtime: Arc<RuntimeEnv>, rules: PhysicalRules) -> SessionState {
    let memory = match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        _ => usize::MAX,
    };
    SessionStateBuilder::new()
        .with_config(config(partitions, memory))
        .with_runtime_env(runtime)
        .with_query_planner(Arc::new(apply::Planner))
        .with_analyzer_rule(Arc::new(NullSafe))
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_rules(rules))
        .build()
}
