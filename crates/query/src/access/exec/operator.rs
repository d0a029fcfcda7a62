//! [`PageScanExec`] as an operator of a plan: what other operators and rules ask of it.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, expressions};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream;
use futures::{StreamExt, TryStreamExt};

use super::PageScanExec;
use crate::access::stats::table_statistics;

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for PageScanExec {
    fn name(&self) -> &str {
        "PageScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new((*self).clone().rebuilt()))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        _: &datafusion::config::ConfigOptions,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        if self.is_small() || self.order.is_some() || self.path.fetch {
            return Ok(None);
        }
        Ok(Some(Arc::new(
            self.clone().with_partitions(target_partitions),
        )))
    }

    fn execute(
        &self,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let access = self.for_execution(partition)?;
        // Locking waits, so the scan begins when its first batch is asked for.
        let batches = stream::once(access.batches()).try_flatten();
        let schema = self.schema();
        match self.limit {
            Some(limit) if self.aggregate.is_none() => {
                let limited = limit_rows(batches, limit);
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, limited)))
            }
            _ => Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches))),
        }
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        if self.aggregate.is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema())));
        }
        let factor = self.filter_factor();
        let stats = table_statistics(&self.stats, &self.projection, factor);
        Ok(Arc::new(stats))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut limited = self.clone();
        limited.limit = limit;
        Some(Arc::new(limited.rebuilt()))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    /// A sort by the leading columns of the index's key is not needed: the scan delivers its order.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> DfResult<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let Some(reverse) = self.delivers(order) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let ordered = self.clone().in_order(reverse, order);
        Ok(SortOrderPushdownResult::Exact {
            inner: Arc::new(ordered),
        })
    }
}

impl PageScanExec {
    /// Whether the index's order, forwards or backwards, is the one asked for. Key columns that are
    /// compared for equality may be left out, since they are constant.
    pub(in crate::access) fn delivers(&self, order: &[PhysicalSortExpr]) -> Option<bool> {
        if self.aggregate.is_some() || order.is_empty() {
            return None;
        }
        let index = &self.table.indexes[self.path.index];
        let reverse = order[0].options.descending;
        let key = index.layout.key.iter();
        let mut key = key.map(|c| index.columns[usize::from(*c)]).enumerate();
        for sort in order {
            let column = sort.expr.downcast_ref::<expressions::Column>()?;
            let table_column = self.column(*self.projection.get(column.index())?);
            let def = self.table.def.columns.get(usize::from(table_column));
            // Encoded strings compare as the collation does, Arrow's bytewise: keep the sort.
            let is_string = def.is_some_and(|def| def.ty.is_string());
            // NULL is the least value in MySQL, as in keys.
            let nulls_ok = sort.options.nulls_first != reverse;
            if is_string || sort.options.descending != reverse || !nulls_ok {
                return None;
            }
            loop {
                let (place, column) = key.next()?;
                if column == table_column {
                    break;
                }
                if place >= self.path.equal_columns {
                    return None;
                }
            }
        }
        Some(reverse)
    }
}

/// The first `limit` rows of a stream.
fn limit_rows(
    batches: impl futures::Stream<Item = DfResult<RecordBatch>> + Send + 'static,
    limit: usize,
) -> impl futures::Stream<Item = DfResult<RecordBatch>> + Send {
    batches.boxed().scan(limit, |left, batch| {
        if *left == 0 {
            return futures::future::ready(None);
        }
        let batch = batch.map(|batch| {
            let rows = batch.num_rows().min(*left);
            *left -= rows;
            batch.slice(0, rows)
        });
        futures::future::ready(Some(batch))
    })
}
