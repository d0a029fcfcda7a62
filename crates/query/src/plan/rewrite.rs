//! [`Rewrite`]: an optimizer rule that looks at each operator of a plan by itself.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// An operator, perhaps another one than before.
pub type Rewritten = DfResult<Transformed<Arc<dyn ExecutionPlan>>>;

/// The rule. It keeps the columns of each operator.
#[derive(Debug)]
pub struct Rewrite {
    name: &'static str,
    /// From the leaves upwards; otherwise from the root downwards.
    upwards: bool,
    operator: fn(Arc<dyn ExecutionPlan>) -> Rewritten,
}

impl Rewrite {
    /// One whose operators are looked at when those below them are final.
    #[must_use]
    pub const fn upwards(
        name: &'static str,
        operator: fn(Arc<dyn ExecutionPlan>) -> Rewritten,
    ) -> Self {
        Self {
            name,
            upwards: true,
            operator,
        }
    }

    /// One whose operators are looked at before those below them.
    #[must_use]
    pub const fn downwards(
        name: &'static str,
        operator: fn(Arc<dyn ExecutionPlan>) -> Rewritten,
    ) -> Self {
        Self {
            name,
            upwards: false,
            operator,
        }
    }
}

impl PhysicalOptimizerRule for Rewrite {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let rewritten = match self.upwards {
            true => plan.transform_up(self.operator),
            false => plan.transform_down(self.operator),
        };
        Ok(rewritten?.data)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
