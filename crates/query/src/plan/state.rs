//! DataFusion's session state as we use it: our functions only, our operators, MySQL's settings.

use std::sync::Arc;

use datafusion::catalog::CatalogProviderList;
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::functions_aggregate::planner::AggregateFunctionPlanner;
use datafusion::functions_aggregate::{bit_and_or_xor, count, first_last, stddev, sum, variance};
use datafusion::functions_window::{cume_dist, lead_lag, nth_value, ntile, rank, row_number};
use datafusion::logical_expr::{AggregateUDF, LogicalPlan};
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use super::aggregate_order::AggregateOrder;
use super::apply;
use super::lists::Simplify;
use super::null_safe::NullSafe;
use super::operators::MysqlOperators;
use super::union::Unions;
use super::wide_union::WideUnions;
use crate::access::JoinOrder;
use crate::functions::{self, choice::Extreme};
use crate::interrupt;

/// Name of the only catalog; its schemas are the databases.
pub const CATALOG: &str = "def";

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
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, "");
    let options = config.options_mut();
    // 0.06 is a decimal, identifiers come in their final form, NULL is the least value.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.default_null_ordering = "nulls_min".to_owned();
    // It finds the columns of an aggregation by their names, of which two may be the same.
    options.optimizer.top_down_join_key_reordering = false;
    // The metadata of a UNION's columns differ between the logical and the physical plan.
    options.execution.skip_physical_aggregate_schema_check = true;
    // What is kept back may not use up a small limit.
    options.execution.sort_spill_reservation_bytes =
        MERGE_BYTES.min(memory / (8 * partitions.max(1)));
    config
}

/// DataFusion's rule behind which joins are ordered.
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
        let order = (rule.name() == PUSH_DOWN_FILTER).then(|| Arc::new(JoinOrder) as _);
        [Arc::new(Interruptible) as _, rule]
            .into_iter()
            .chain(order)
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
    let ours: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(WideUnions);
    let rules = std::iter::once(ours).chain(rules);
    let interruptible = rules.flat_map(|rule| [Arc::new(Interruptible) as _, rule]);
    interruptible.collect()
}

/// The state that sessions copy for each statement.
#[must_use]
pub fn template(
    partitions: usize,
    runtime: Arc<RuntimeEnv>,
    catalogs: Arc<dyn CatalogProviderList>,
    rules: PhysicalRules,
) -> SessionState {
    let memory = match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        _ => usize::MAX,
    };
    let mut aggregates = vec![count::count_udaf(), sum::sum_udaf()];
    let extremes = Extreme::all().map(AggregateUDF::from).map(Arc::new);
    aggregates.extend(extremes);
    // Any value of a group, without ONLY_FULL_GROUP_BY.
    aggregates.push(first_last::first_value_udaf());
    aggregates.extend([
        stddev::stddev_udaf(),
        stddev::stddev_pop_udaf(),
        variance::var_samp_udaf(),
        variance::var_pop_udaf(),
        bit_and_or_xor::bit_and_udaf(),
        bit_and_or_xor::bit_or_udaf(),
        bit_and_or_xor::bit_xor_udaf(),
    ]);
    SessionStateBuilder::new()
        .with_config(config(partitions, memory))
        .with_runtime_env(runtime)
        .with_catalog_list(catalogs)
        .with_query_planner(Arc::new(apply::Planner))
        .with_expr_planners(vec![
            Arc::new(MysqlOperators),
            // COUNT(*) becomes a count of ones.
            Arc::new(AggregateFunctionPlanner),
        ])
        .with_relation_planners(vec![Arc::new(Unions)])
        .with_scalar_functions(functions::all())
        .with_aggregate_functions(aggregates)
        .with_window_functions(vec![
            row_number::row_number_udwf(),
            rank::rank_udwf(),
            rank::dense_rank_udwf(),
            rank::percent_rank_udwf(),
            cume_dist::cume_dist_udwf(),
            ntile::ntile_udwf(),
            lead_lag::lag_udwf(),
            lead_lag::lead_udwf(),
            nth_value::first_value_udwf(),
            nth_value::last_value_udwf(),
            nth_value::nth_value_udwf(),
        ])
        .with_analyzer_rule(Arc::new(NullSafe))
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_rules(rules))
        .build()
}
