//! [`IndexJoinExec`]: an index nested-loop join. For each batch of outer rows their keys are looked
//! up in an index of the inner table with one request, and what is found is combined with them.
//!
//! Invariants: the output of a partition is in the order of its outer rows; whatever the size of the
//! tables, a partition holds one slice of outer rows, the inner rows with its keys, and one chunk of
//! output. It does not decide when it is used: `join_rule` does.

mod inner;
mod probe;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    ColumnStatistics, JoinSide, JoinType, Result as DfResult, Statistics, internal_datafusion_err,
};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::{ProjectionMapping, join_equivalence_properties};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::execution_plan::Boundedness;
use datafusion::physical_plan::joins::JoinOn;
use datafusion::physical_plan::joins::utils::{
    JoinFilter, adjust_right_output_partitioning, build_join_schema,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::{
    EmbeddedProjection, ProjectionExec, try_embed_projection,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};
use futures::StreamExt;
use futures::stream::{self, Fuse};

pub(super) use inner::{InnerSide, KeyPart, Step};
use probe::{Combine, Kind, Probe};

use super::exec::PageScanExec;
use super::join_rule::key_column;

/// Most outer rows whose keys are looked up with one request.
pub(super) const MAX_SLICE: usize = 8192;

/// Inner rows that a request should find; slices of outer rows are made as small as that needs.
const ROWS_PER_REQUEST: usize = 32_768;

/// Bytes of long values that a request should find.
const LONG_BYTES_PER_REQUEST: f64 = (64 << 20) as f64;

/// Bytes of a long value about which nothing is known.
const LONG_BYTES: f32 = 65_536.0;

/// A join as the plan has it, for [`IndexJoinExec::try_new`].
pub(super) struct JoinParts {
    pub join_type: JoinType,
    /// Which side the outer rows are.
    pub outer: JoinSide,
    /// All comparisons for equality, as (left, right).
    pub on: JoinOn,
    /// Those that are not part of the key, as (outer, inner).
    pub equal: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    pub filter: Option<JoinFilter>,
    /// Columns of the join to deliver.
    pub projection: Option<Vec<usize>>,
    pub fetch: Option<usize>,
}

/// An index nested-loop join.
#[derive(Clone, Debug)]
pub struct IndexJoinExec {
    input: Arc<dyn ExecutionPlan>,
    inner: Arc<InnerSide>,
    join_type: JoinType,
    on: JoinOn,
    projection: Option<Vec<usize>>,
    fetch: Option<usize>,
    /// Statistics of the inner side's columns.
    inner_statistics: Arc<Statistics>,
    combine: Arc<Combine>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

/// What becomes of outer rows in a join of this type.
fn kind_of(join_type: JoinType, outer: JoinSide) -> Option<Kind> {
    Some(match (join_type, outer) {
        (JoinType::Inner, JoinSide::Left | JoinSide::Right) => Kind::Inner,
        (JoinType::Left, JoinSide::Left) | (JoinType::Right, JoinSide::Right) => Kind::Outer,
        (JoinType::LeftSemi, JoinSide::Left) | (JoinType::RightSemi, JoinSide::Right) => Kind::Semi,
        (JoinType::LeftAnti, JoinSide::Left) | (JoinType::RightAnti, JoinSide::Right) => Kind::Anti,
        _ => return None,
    })
}

impl IndexJoinExec {
    /// True if a join of this type can take its outer rows from this side.
    pub(super) fn supports(join_type: JoinType, outer: JoinSide) -> bool {
        kind_of(join_type, outer).is_some()
    }

    /// A join of the rows of `input` with the inner side.
    ///
    /// # Errors
    /// If the parts do not fit together.
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        inner: Arc<InnerSide>,
        parts: JoinParts,
        inner_statistics: Arc<Statistics>,
    ) -> DfResult<Self> {
        let JoinParts {
            join_type,
            outer,
            on,
            equal,
            filter,
            projection,
            fetch,
        } = parts;
        let kind = kind_of(join_type, outer)
            .ok_or_else(|| internal_datafusion_err!("Q10: {join_type} from the {outer} side"))?;
        let (left, right) = sides(outer, input.schema(), inner.schema.clone());
        let (schema, mut columns) = build_join_schema(&left, &right, &join_type);
        let full = Arc::new(schema);
        let mut schema = full.clone();
        if let Some(projection) = &projection {
            columns = projection.iter().map(|c| columns[*c].clone()).collect();
            schema = Arc::new(full.project(projection)?);
        }
        let properties = properties(&input, &inner, (join_type, outer), &on, full, &projection)?;
        let combine = Combine {
            kind,
            outer,
            equal,
            filter,
            columns,
            schema,
        };
        Ok(Self {
            input,
            inner,
            join_type,
            on,
            projection,
            fetch,
            inner_statistics,
            combine: Arc::new(combine),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        })
    }

    /// The same join with another input or another projection, not yet run.
    fn rebuilt(
        &self,
        input: Arc<dyn ExecutionPlan>,
        projection: Option<Vec<usize>>,
    ) -> DfResult<Self> {
        let parts = JoinParts {
            join_type: self.join_type,
            outer: self.combine.outer,
            on: self.on.clone(),
            equal: self.combine.equal.clone(),
            filter: self.combine.filter.clone(),
            projection,
            fetch: self.fetch,
        };
        Self::try_new(
            input,
            self.inner.clone(),
            parts,
            self.inner_statistics.clone(),
        )
    }

    /// The column of the outer rows that a column of the result is, if it is one.
    pub(super) fn column_of_outer(&self, output: usize) -> Option<usize> {
        self.column_of(self.combine.outer, output)
    }

    /// The column of the inner rows that a column of the result is, if it is one.
    pub(super) fn column_of_inner(&self, output: usize) -> Option<usize> {
        self.column_of(self.combine.outer.negate(), output)
    }

    fn column_of(&self, side: JoinSide, output: usize) -> Option<usize> {
        let outer = self.combine.outer;
        let (left, right) = sides(outer, self.input.schema(), self.inner.schema.clone());
        let (_, columns) = build_join_schema(&left, &right, &self.join_type);
        let at = match &self.projection {
            Some(projection) => *projection.get(output)?,
            None => output,
        };
        let column = columns.get(at).filter(|column| column.side == side)?;
        Some(column.index)
    }

    /// The column of the inner table that an expression over the inner rows is, as joins compare it.
    pub(super) fn column_of_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<u16> {
        key_column(&self.inner.scan, &self.inner.steps, expr)
    }

    /// The columns of the inner table that are looked up, and their values over the outer rows.
    pub(super) fn looked_up(&self) -> Vec<(u16, &Arc<dyn PhysicalExpr>)> {
        let InnerSide { scan, key, .. } = &*self.inner;
        let index = &scan.table.indexes[scan.path.index];
        let columns = index.layout.key.iter();
        let columns = columns.map(|place| index.columns[usize::from(*place)]);
        columns.zip(key.iter().map(|part| &part.value)).collect()
    }

    /// The outer rows.
    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// True if all that is delivered are pairs that meet.
    pub(super) fn is_inner(&self) -> bool {
        self.combine.kind == Kind::Inner
    }

    /// The inner table, with the index as its path.
    #[must_use]
    pub fn inner(&self) -> &PageScanExec {
        &self.inner.scan
    }

    /// True if at most one inner row has the key of an outer row.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        let index = &self.inner.scan.table.indexes[self.inner.scan.path.index];
        index.unique && self.inner.key.len() == index.key_columns
    }

    /// True if storage picks inner rows out of pages that are not in the buffer pool.
    pub(super) fn uses_key_batches(&self) -> bool {
        self.inner.uses_key_batches()
    }

    /// Inner rows that are expected to have the key of one outer row.
    pub(super) fn matches(&self) -> f64 {
        self.inner.matches
    }

    /// What becomes of rows, in MySQL's words.
    #[must_use]
    pub fn how(&self) -> &'static str {
        match self.combine.kind {
            Kind::Inner => "inner join",
            Kind::Outer => "left join",
            Kind::Semi => "semijoin",
            Kind::Anti => "antijoin",
        }
    }

    /// The values of the key columns that are looked up, over the outer rows.
    pub fn key_values(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.inner.key.iter().map(|part| &part.value)
    }

    /// What else matches meet.
    #[must_use]
    pub fn conditions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let filter = self.combine.filter.iter();
        filter.map(JoinFilter::expression).collect()
    }

    /// Cost of the lookups for so many outer rows.
    #[must_use]
    pub fn cost_of(&self, outer: f64) -> f64 {
        let scan = &self.inner.scan;
        let (path, matches) = (&scan.path, self.inner.matches);
        scan.cost_model()
            .lookups(path.index, path.fetch, outer, matches)
    }

    /// What the join did, if it ran: requests, keys looked up, inner rows found, rows delivered.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let metrics = self.metrics.clone_inner();
        if metrics.output_rows().is_none() {
            return Vec::new();
        }
        let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |v| v.as_usize() as u64);
        let mut counters: Vec<_> = COUNTERS.iter().map(|name| (*name, sum(name))).collect();
        counters.push(("rows", metrics.output_rows().unwrap_or_default() as u64));
        counters
    }

    /// True if the first columns are all those of the outer rows, in their order.
    fn begins_with_outer(&self) -> bool {
        let Combine { columns, outer, .. } = &*self.combine;
        let count = self.input.schema().fields().len();
        let first = columns.iter().take(count).enumerate();
        count <= columns.len()
            && first
                .into_iter()
                .all(|(at, column)| column.side == *outer && column.index == at)
    }

    /// Rows expected for so many outer rows.
    pub(super) fn estimate(&self, outer: usize) -> usize {
        let outer = outer as f64;
        let found = self.inner.matches * self.inner.scan.filter_factor();
        let share = found.min(1.0);
        let rows = match self.combine.kind {
            Kind::Inner => outer * found,
            Kind::Outer => outer * found.max(1.0),
            Kind::Semi => outer * share,
            Kind::Anti => outer * (1.0 - share),
        };
        (rows.ceil() as usize).max(1)
    }
}

/// Names of the counters of a run, besides the rows it delivers.
const COUNTERS: [&str; 3] = ["lookup_requests", "lookups", "lookup_rows"];

/// Left and right, of outer and inner.
fn sides<T>(outer_side: JoinSide, outer: T, inner: T) -> (T, T) {
    if outer_side == JoinSide::Left {
        (outer, inner)
    } else {
        (inner, outer)
    }
}

/// The join goes through each partition of the outer rows in order.
fn properties(
    input: &Arc<dyn ExecutionPlan>,
    inner: &InnerSide,
    (join_type, outer): (JoinType, JoinSide),
    on: &JoinOn,
    schema: SchemaRef,
    projection: &Option<Vec<usize>>,
) -> DfResult<PlanProperties> {
    let of_inner = EquivalenceProperties::new(inner.schema.clone());
    let (left, right) = sides(outer, input.equivalence_properties().clone(), of_inner);
    let outer_is_left = outer == JoinSide::Left;
    let left_columns = left.schema().fields().len();
    let mut equivalence = join_equivalence_properties(
        left,
        right,
        &join_type,
        schema.clone(),
        &[outer_is_left, !outer_is_left],
        Some(outer),
        on,
    )?;
    let mut partitioning = match join_type {
        JoinType::Inner | JoinType::Right if !outer_is_left => {
            adjust_right_output_partitioning(input.output_partitioning(), left_columns)?
        }
        _ => input.output_partitioning().clone(),
    };
    if let Some(projection) = projection {
        let mapping = ProjectionMapping::from_indices(projection, &schema)?;
        partitioning = partitioning.project(&mapping, &equivalence);
        equivalence = equivalence.project(&mapping, Arc::new(schema.project(projection)?));
    }
    let emission = input.pipeline_behavior();
    Ok(PlanProperties::new(
        equivalence,
        partitioning,
        emission,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for IndexJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = &self.inner.scan;
        let index = &scan.table.indexes[scan.path.index];
        let on: Vec<_> = self.on.iter().map(|(l, r)| format!("({l}, {r})")).collect();
        write!(
            f,
            "IndexJoinExec: join_type={}, table={}, index={}, on=[{}]",
            self.join_type,
            scan.table.def.name,
            index.name,
            on.join(", ")
        )?;
        if let Some(filter) = &self.combine.filter {
            write!(f, ", filter={}", filter.expression())?;
        }
        if !scan.filters.is_empty() {
            let texts: Vec<_> = scan.filters.iter().map(ToString::to_string).collect();
            write!(f, ", predicate={}", texts.join(" AND "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        Ok(())
    }
}

impl EmbeddedProjection for IndexJoinExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> DfResult<Self> {
        let projection = match (&self.projection, projection) {
            (Some(before), Some(wanted)) => Some(wanted.iter().map(|c| before[*c]).collect()),
            (before, None) => before.clone(),
            (None, wanted) => wanted,
        };
        self.rebuilt(self.input.clone(), projection)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for IndexJoinExec {
    fn name(&self) -> &str {
        "IndexJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // A sort is moved below by the numbers of its columns.
        vec![self.begins_with_outer()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        let on = self
            .on
            .iter()
            .flat_map(|(left, right)| [left.clone(), right.clone()]);
        let filter = self
            .combine
            .filter
            .iter()
            .map(|filter| filter.expression().clone());
        apply_expression_roots(on.chain(filter), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return Err(internal_datafusion_err!("Q11: an index join has one child"));
        };
        Ok(Arc::new(self.rebuilt(input, self.projection.clone())?))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(
            self.rebuilt(self.input.clone(), self.projection.clone())?,
        ))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        // A projection that is embedded already is not embedded again: it may repeat columns.
        match self.projection {
            None => try_embed_projection(projection, self),
            Some(_) => Ok(None),
        }
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self {
            fetch,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        let outer = inputs[0].as_ref().clone().to_inexact();
        let Some(rows) = outer.num_rows.get_value().copied() else {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema())));
        };
        let column_statistics = self
            .combine
            .columns
            .iter()
            .map(|column| {
                let of_outer = column.side == self.combine.outer;
                let side = if of_outer {
                    &outer
                } else {
                    &*self.inner_statistics
                };
                let known = side.column_statistics.get(column.index).cloned();
                ColumnStatistics {
                    // Counts and sums are of other rows now; values stay what they are.
                    null_count: Precision::Absent,
                    sum_value: Precision::Absent,
                    byte_size: Precision::Absent,
                    ..known.unwrap_or_default().to_inexact()
                }
            })
            .collect();
        let mut rows = self.estimate(rows);
        if let Some(fetch) = self.fetch {
            rows = rows.min(fetch);
        }
        Ok(Arc::new(Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Absent,
            column_statistics,
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let count = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let expected = self.inner.rows_per_request() as f64 / self.inner.matches.max(1.0);
        let expected = expected as usize;
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let run = Run {
            input: self.input.execute(partition, context.clone())?.fuse(),
            inner: self.inner.clone(),
            combine: self.combine.clone(),
            chunk: context.session_config().batch_size().max(1),
            slice: expected.clamp(1, MAX_SLICE),
            outer: nothing.clone(),
            nothing,
            probe: None,
            left: self.fetch,
            memory: MemoryConsumer::new("IndexJoinExec").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            counts: COUNTERS.map(count),
        };
        let rows = stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// One partition of a join that runs.
struct Run {
    input: Fuse<SendableRecordBatchStream>,
    inner: Arc<InnerSide>,
    combine: Arc<Combine>,
    /// Rows of an output batch.
    chunk: usize,
    /// Outer rows of the next request.
    slice: usize,
    /// Outer rows whose keys were not looked up yet.
    outer: RecordBatch,
    /// No rows.
    nothing: RecordBatch,
    probe: Option<Probe>,
    /// Rows that are still wanted, if that is limited.
    left: Option<usize>,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
    counts: [Count; COUNTERS.len()],
}

impl Run {
    /// The next batch of the output that is not empty.
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        while self.left != Some(0) {
            let Some(probe) = &mut self.probe else {
                if !self.look_up().await? {
                    break;
                }
                continue;
            };
            let timer = self.metrics.elapsed_compute().timer();
            let chunk = probe.next(&self.combine, self.chunk)?;
            drop(timer);
            let Some(mut chunk) = chunk else {
                self.probe = None;
                self.memory.free();
                continue;
            };
            if let Some(left) = &mut self.left {
                chunk = chunk.slice(0, chunk.num_rows().min(*left));
                *left -= chunk.num_rows();
            }
            if chunk.num_rows() > 0 {
                return Ok(Some(chunk.record_output(&self.metrics)));
            }
        }
        self.metrics.done();
        Ok(None)
    }

    /// Has outer rows for a request at hand; false at the end. Batches are put together, because
    /// two requests may read the same pages one after the other, unless few rows are wanted.
    async fn has_outer_rows(&mut self) -> DfResult<bool> {
        let wanted = if self.left.is_some() { 1 } else { self.slice };
        if self.outer.num_rows() >= wanted {
            return Ok(true);
        }
        let mut rows = self.outer.num_rows();
        let mut batches = vec![std::mem::replace(&mut self.outer, self.nothing.clone())];
        while rows < wanted
            && let Some(batch) = self.input.next().await
        {
            let batch = batch?;
            rows += batch.num_rows();
            batches.push(batch);
        }
        batches.retain(|batch| batch.num_rows() > 0);
        if let Some(first) = batches.first() {
            self.outer = concat_batches(&first.schema(), &batches)?;
        }
        Ok(rows > 0)
    }

    /// Looks up the keys of the next outer rows; false at the end.
    async fn look_up(&mut self) -> DfResult<bool> {
        if !self.has_outer_rows().await? {
            return Ok(false);
        }
        let rows = self.outer.num_rows().min(self.slice);
        let outer = self.outer.slice(0, rows);
        self.outer = self.outer.slice(rows, self.outer.num_rows() - rows);
        let timer = self.metrics.elapsed_compute().timer();
        let keys = self.inner.keys(&outer)?;
        drop(timer);
        let looked_up = keys.keys.len();
        let matches = self.inner.look_up(keys.keys).await?;
        let found = matches.rows.num_rows();
        let [requests, lookups, lookup_rows] = &self.counts;
        requests.add(usize::from(looked_up > 0));
        lookups.add(looked_up);
        lookup_rows.add(found);
        self.adapt(rows, found);
        let probe = Probe::new(&self.combine, outer, keys.of_row, matches)?;
        self.memory.try_resize(probe.size())?;
        self.probe = Some(probe);
        Ok(true)
    }

    /// Sizes the next slice by what the last one found.
    fn adapt(&mut self, rows: usize, found: usize) {
        let fitting = rows.saturating_mul(self.inner.rows_per_request()) / found.max(1);
        self.slice = fitting
            .clamp(1, self.slice.saturating_mul(2))
            .min(MAX_SLICE);
    }
}
