//! How the rows of a common table expression come about.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result as DfResult, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use super::held::Held;
use super::seen::Seen;
use super::{CommonTable, Planned, Step};
use crate::error::SqlError;
use crate::interrupt;

impl CommonTable {
    /// Its rows: computed by who asks first.
    ///
    /// # Errors
    /// 3636 if a recursive query makes more steps than it may; those of its plans.
    pub(super) async fn rows(&self, context: &Arc<TaskContext>) -> DfResult<Arc<Held>> {
        let rows = self.rows.get_or_try_init(|| async {
            let mut running = Running::new(self, context)?;
            running.run().await?;
            Ok(Arc::new(running.held))
        });
        rows.await.cloned()
    }
}

/// A table while it is computed.
struct Running<'t> {
    planned: &'t Planned,
    step: Option<&'t Step>,
    held: Held,
    /// The rows so far, if each comes once.
    seen: Option<Seen>,
    context: &'t Arc<TaskContext>,
}

impl<'t> Running<'t> {
    fn new(table: &'t CommonTable, context: &'t Arc<TaskContext>) -> DfResult<Self> {
        let planned = table.planned.get();
        let planned = planned
            .ok_or_else(|| internal_datafusion_err!("Q1: a common table expression is planned"))?;
        let step = table.step.as_ref();
        let distinct = step.and_then(|step| step.distinct.as_ref());
        Ok(Self {
            planned,
            step,
            held: Held::new(Arc::clone(&table.schema), context),
            seen: distinct.map(|columns| Seen::new(columns, context)),
            context,
        })
    }

    async fn run(&mut self) -> DfResult<()> {
        let base = Arc::clone(&self.planned.base);
        // An execution that was given up has left state in its operators.
        let base = match self.planned.begun.swap(true, Ordering::Relaxed) {
            true => reset_plan_states(base)?,
            false => base,
        };
        let mut rows = self.added(base).await?;
        if let (Some(step), Some(plan)) = (self.step, &self.planned.step) {
            let mut steps = 0;
            while !rows.is_empty() {
                steps += 1;
                if steps > step.most {
                    return Err(SqlError::recursion_depth(steps).into_df());
                }
                self.planned.work.put(rows);
                // Operators have state of their run.
                let next = reset_plan_states(Arc::clone(plan))?;
                rows = self.added(next).await?;
                // A step of few rows waits for nothing.
                tokio::task::consume_budget().await;
            }
            self.planned.work.put(Vec::new());
        }
        self.held.finish()
    }

    /// Runs a plan and keeps its rows. Gives those that were not there before.
    async fn added(&mut self, plan: Arc<dyn ExecutionPlan>) -> DfResult<Vec<RecordBatch>> {
        interrupt::check_df()?;
        let mut batches = execute_stream(plan, Arc::clone(self.context))?;
        let mut added = Vec::new();
        while let Some(batch) = batches.next().await {
            let mut batch = batch?;
            interrupt::check_df()?;
            if let Some(seen) = &mut self.seen {
                batch = seen.new_of(&batch)?;
            }
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = self.held.converted(&batch)?;
            if self.step.is_some() {
                added.push(batch.clone());
            }
            self.held.push(batch)?;
        }
        Ok(added)
    }
}
