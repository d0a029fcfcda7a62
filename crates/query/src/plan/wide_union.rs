//! [`WideUnionExec`]: a UNION of many branches, read a few at a time.
//!
//! DataFusion's UNION has the partitions of all its branches. What reads it starts a task for each, holds
//! the buffers of all of them, and polls them in turns: thousands of branches keep the threads that
//! plans run on busy with nothing. [`WideUnions`] gives such a UNION as many partitions as other plans have. Each
//! reads its share of the branches one after another, and begins with a branch when the one before has ended.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::interrupt;

/// Partitions, for each that other plans have, up to which a UNION is left as it is: its rules know more of it.
const WIDE: usize = 8;

/// The rule. To be applied first: what stands around a UNION is built for its partitions.
#[derive(Debug)]
pub struct WideUnions;

impl PhysicalOptimizerRule for WideUnions {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let partitions = config.execution.target_partitions.max(1);
        let changed = plan.transform_up(|node| {
            interrupt::check_df()?;
            let Some(union) = node.downcast_ref::<UnionExec>() else {
                return Ok(Transformed::no(node));
            };
            let own = union.properties().output_partitioning().partition_count();
            if own <= WIDE * partitions {
                return Ok(Transformed::no(node));
            }
            let wide = WideUnionExec::new(union.schema(), union.inputs().clone(), partitions);
            Ok(Transformed::yes(Arc::new(wide) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "wide_unions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator.
#[derive(Debug)]
pub struct WideUnionExec {
    branches: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl WideUnionExec {
    fn new(schema: SchemaRef, branches: Vec<Arc<dyn ExecutionPlan>>, partitions: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            branches,
            properties: Arc::new(properties),
        }
    }

    fn partitions(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    /// The partitions of branches that a partition reads: every so many of them.
    fn share(&self, partition: usize) -> Vec<(Arc<dyn ExecutionPlan>, usize)> {
        let parts = |branch: &Arc<dyn ExecutionPlan>| {
            let branch = branch.clone();
            let parts = branch.output_partitioning().partition_count();
            (0..parts).map(move |part| (branch.clone(), part))
        };
        let all = self.branches.iter().flat_map(parts);
        all.skip(partition).step_by(self.partitions()).collect()
    }
}

impl DisplayAs for WideUnionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WideUnionExec: branches={}", self.branches.len())
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for WideUnionExec {
    fn name(&self) -> &str {
        "WideUnionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.branches.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.branches.len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = self.schema();
        Ok(Arc::new(Self::new(schema, children, self.partitions())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let share = stream::iter(self.share(partition));
        let rows = share
            .map(move |(branch, part)| branch.execute(part, context.clone()))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
