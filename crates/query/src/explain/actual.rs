//! What the operations of a plan did: EXPLAIN ANALYZE runs it with a [`MeasuredExec`] in the place of each operator, which
//! is that operator for whoever looks for one, and counts and times its rows.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::Stream;

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Actual {
    /// Milliseconds until its first row, about, each time.
    pub first: f64,
    /// Milliseconds until its last row.
    pub last: f64,
    /// Rows each time.
    pub rows: f64,
    /// How often it was done.
    pub loops: u64,
}

/// Says in the configuration of a statement that its plans are measured.
#[derive(Debug)]
pub struct Measuring;

/// What the streams of an operator did, in nanoseconds and rows.
#[derive(Debug, Default)]
struct Figures {
    streams: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    rows: AtomicU64,
}

/// The plan with each of its operators measured.
///
/// # Errors
/// If an operator does not take its inputs back.
pub fn measured(plan: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    let measured = plan.transform_up(|node| {
        let figures = Arc::default();
        let measured = MeasuredExec {
            inner: node,
            figures,
        };
        Ok(Transformed::yes(
            Arc::new(measured) as Arc<dyn ExecutionPlan>
        ))
    })?;
    Ok(measured.data)
}

impl Actual {
    /// What an operator did, if it was measured; with 0 loops if it was never executed.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        // The operator itself says that it is another one.
        let any: &dyn Any = plan.as_ref();
        let Figures {
            streams,
            first,
            last,
            rows,
        } = any.downcast_ref::<MeasuredExec>()?.figures.as_ref();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let partitions = plan.output_partitioning().partition_count().max(1) as f64;
        let loops = (of(streams) / partitions).ceil();
        let each = of(streams).max(1.0) * 1e6;
        Some(Self {
            first: of(first) / each,
            last: of(last) / each,
            rows: of(rows) / loops.max(1.0),
            loops: loops as u64,
        })
    }
}

/// An operator that is measured.
#[derive(Debug)]
struct MeasuredExec {
    inner: Arc<dyn ExecutionPlan>,
    figures: Arc<Figures>,
}

impl MeasuredExec {
    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let figures = self.figures.clone();
        Arc::new(Self { inner, figures })
    }
}

impl DisplayAs for MeasuredExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(form, f)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for MeasuredExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.inner.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let inner = self.inner.clone().replace_children(children, options)?;
        Ok(self.over(inner))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let inner = self.inner.clone().reset_state()?;
        Ok(self.over(inner))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        Ok(Box::pin(Rows {
            inner: self.inner.execute(partition, context)?,
            figures: self.figures.clone(),
            began: None,
            last: 0,
            has_rows: false,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }
}

/// The rows of a partition, timed from when the first one is asked for. What they tell is known at once: whoever has the
/// rows that it needs does not read to the end.
struct Rows {
    inner: SendableRecordBatchStream,
    figures: Arc<Figures>,
    began: Option<Instant>,
    /// Nanoseconds that were added.
    last: u64,
    has_rows: bool,
}

impl Stream for Rows {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let add = |counter: &AtomicU64, value| counter.fetch_add(value, Ordering::Relaxed);
        let began = *this.began.get_or_insert_with(|| {
            add(&this.figures.streams, 1);
            Instant::now()
        });
        let next = ready!(this.inner.as_mut().poll_next(cx));
        let now = began.elapsed().as_nanos() as u64;
        add(&this.figures.last, now - this.last);
        this.last = now;
        let rows = match &next {
            Some(Ok(batch)) => batch.num_rows() as u64,
            _ => 0,
        };
        add(&this.figures.rows, rows);
        // A stream without rows has its first one when it ends.
        if !this.has_rows && (rows > 0 || next.is_none()) {
            add(&this.figures.first, now);
            this.has_rows = true;
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}
