//! [`PageScanExec`]: the leaf of a plan that reads a table through an index.
//!
//! The node is complete without near-data processing: it delivers rows that pass its predicate, or
//! partial aggregate states. `ndp_rule` decides which of its parts run in storage.

mod operator;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, SchemaRef};
use datafusion::common::{Result as DfResult, internal_datafusion_err};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use perigee_engine::catalog::{HIDDEN_ROW_ID, Table, TableStats};
use perigee_engine::ndp::{Aggregate, Grouping, Join, JoinKind, JoinTable};
use perigee_engine::scan::{
    LookupRequest, Lookups, ScanCounters, ScanHandle, ScanJoin, ScanRequest,
};
use perigee_engine::txn::ReadView;
use perigee_expr::Program;
use tokio::sync::OnceCell;

use super::charged_values::charged;
use super::convert::{Binding, convert_all};
use super::cost::{CostModel, at_ends};
use super::engine_error;
use super::estimate::conjunction_factor;
use super::filters::{FilterOrigin, RunTimeFilter};
use super::join_key::ScanColumn;
use super::known_keys::{KeyWish, KnownKeys};
use super::paths::{AccessPath, Wanted};
use super::placement::{GroupWork, Placement, Work};
use super::sampling::{SampledShare, Wish};
use super::{AccessContext, Reason};

/// An access of fewer leaf pages is not shared among workers.
const PAGES_TO_SHARE: f64 = 16.0;

/// What of an access runs in storage, decided after planning (SPEC's N1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NdpChoice {
    /// The predicate.
    pub filter: bool,
    /// The projection.
    pub columns: bool,
    /// The aggregation.
    pub aggregate: bool,
    /// Filters of joins.
    pub join_filters: bool,
    /// Thresholds of sorts.
    pub top_filters: bool,
    /// The join with a table.
    pub join: bool,
    /// What both sides cost, if that decided.
    pub placement: Option<Placement>,
    /// What it costs, in microseconds, that the pages are not in the buffer pool.
    pub rent: f64,
    /// Why nothing is pushed, or why a part is not.
    pub reasons: Vec<Reason>,
}

impl NdpChoice {
    /// Nothing, for a reason.
    #[must_use]
    pub fn not(reason: Reason) -> Self {
        Self {
            reasons: vec![reason],
            ..Self::default()
        }
    }

    /// True if the access is an NDP scan.
    #[must_use]
    pub fn any(&self) -> bool {
        self.filter
            || self.columns
            || self.aggregate
            || self.join_filters
            || self.top_filters
            || self.join
    }
}

/// A join of the scan's rows with a table, which is there once the plan runs.
#[derive(Clone, Debug)]
pub(super) struct PlannedJoin {
    /// What becomes of rows; the name of the table is not known yet.
    pub join: Join,
    /// Names of the scan's columns that are compared,
    pub on: Vec<String>,
    /// and of the table's.
    pub columns: Vec<String>,
    /// The table.
    pub table: Option<ScanJoin>,
}

impl fmt::Display for PlannedJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.join.kind {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
        };
        write!(f, "{kind} join on ({})", self.on.join(", "))?;
        match self.columns.is_empty() {
            true => Ok(()),
            false => write!(f, " with ({})", self.columns.join(", ")),
        }
    }
}

/// Partial aggregation by the scan.
#[derive(Clone, Debug)]
pub struct ScanAggregate {
    /// Programs over the index's layout.
    pub aggregate: Aggregate,
    /// How storage finds the groups.
    pub grouping: Grouping,
    /// What that leaves to send.
    pub(super) work: GroupWork,
    /// Columns that a partial aggregation of DataFusion would deliver.
    pub schema: SchemaRef,
}

/// A table access.
#[derive(Debug, Clone)]
pub struct PageScanExec {
    pub(super) context: AccessContext,
    pub(super) table: Arc<Table>,
    pub(super) stats: Arc<TableStats>,
    pub(super) table_schema: SchemaRef,
    pub(super) path: AccessPath,
    /// Table columns to deliver, in this order.
    pub(super) projection: Vec<usize>,
    /// A conjunction over table columns; all of it is evaluated by the scan.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Conditions that are evaluated above, and select parts of an index.
    hints: Vec<Arc<dyn PhysicalExpr>>,
    /// What a sample says of the filters.
    pub(super) sampled: Option<SampledShare>,
    /// Keys that its rows have, if they are few.
    pub(super) known_keys: Option<KnownKeys>,
    pub(super) limit: Option<usize>,
    /// Rows in key order, perhaps backwards.
    pub(super) order: Option<ScanOrder>,
    /// What rows are joined with before they are aggregated.
    pub(super) join: Option<PlannedJoin>,
    pub(super) aggregate: Option<ScanAggregate>,
    pub(super) ndp: NdpChoice,
    pub(super) run_time_filters: Vec<RunTimeFilter>,
    properties: Arc<PlanProperties>,
    run: Arc<Run>,
}

/// A run of an access. All its partitions share one scan, whichever takes a part of the range first has it.
#[derive(Debug, Default)]
struct Run {
    scan: OnceCell<ScanHandle>,
    /// Partitions that were executed.
    executed: Mutex<HashSet<usize>>,
}

/// The order in which an ordered scan delivers rows.
#[derive(Clone, Debug)]
pub struct ScanOrder {
    /// From the greatest key to the least.
    pub reverse: bool,
    /// The order in terms of the scan's output.
    pub by: Vec<PhysicalSortExpr>,
}

impl PageScanExec {
    /// Plans an access: chooses the path for the filters and columns. Hints are conditions that the access does not
    /// evaluate, but somebody does.
    ///
    /// # Errors
    /// If a filter is not one that `TableProvider::supports_filters_pushdown` accepted.
    pub fn plan(
        context: AccessContext,
        table: Arc<Table>,
        table_schema: SchemaRef,
        projection: Vec<usize>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        hints: Vec<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
    ) -> DfResult<Self> {
        let stats = table.stats();
        let filters: Vec<_> = filters
            .iter()
            .flat_map(|f| {
                datafusion::physical_expr::split_conjunction(f)
                    .into_iter()
                    .cloned()
            })
            .collect();
        let mut exec = Self {
            properties: Arc::new(properties(
                &table_schema.project(&projection)?.into(),
                None,
                1,
            )),
            context,
            table,
            stats,
            table_schema,
            path: AccessPath::all_of(0, false),
            projection,
            filters,
            hints,
            sampled: None,
            known_keys: None,
            limit,
            order: None,
            join: None,
            aggregate: None,
            ndp: NdpChoice::default(),
            run_time_filters: Vec::new(),
            run: Arc::default(),
        };
        exec.path = exec.cheapest_path();
        exec.sampled = Wish::of(&exec).and_then(|wish| wish.known());
        exec.known_keys = KeyWish::of(&exec).and_then(|wish| wish.known());
        if exec.sampled.is_some() || exec.known_keys.is_some() {
            exec.path = exec.cheapest_path();
        }
        Ok(exec.rebuilt())
    }

    fn cheapest_path(&self) -> AccessPath {
        self.wanted(&self.needed()).cheapest(&self.cost_model())
    }

    /// True if run-time filters may leave out rows: where storage may do a part of the work, or a hint demands it,
    /// and no rows are counted or locked.
    pub(super) fn takes_filters(&self, hint: Option<bool>) -> bool {
        (self.may_be_pushed() || hint == Some(true))
            && self.limit.is_none()
            && !self.path.fetch
            && self.context.locker.is_none()
    }

    /// True if storage may do a part of the work.
    fn may_be_pushed(&self) -> bool {
        self.ndp.any() || self.ndp.reasons.iter().all(Reason::is_for_a_part)
    }

    /// The access with a run-time filter, which storage runs, too, if it may do anything.
    pub(super) fn with_filter(&self, filter: RunTimeFilter) -> Self {
        let mut scan = self.clone();
        let pushed = scan.may_be_pushed();
        let by_cost = |reason: &Reason| matches!(reason, Reason::Cost { .. });
        if pushed && scan.ndp.reasons.iter().any(by_cost) {
            // It was too dear without the filter. With it, all is done in storage.
            scan.ndp.reasons.retain(|reason| !by_cost(reason));
            scan.ndp.filter = !scan.filters.is_empty();
            scan.ndp.columns = true;
            scan.ndp.aggregate = scan.aggregate.is_some();
        }
        match filter.origin {
            FilterOrigin::Join => scan.ndp.join_filters |= pushed,
            FilterOrigin::Sort => scan.ndp.top_filters |= pushed,
        }
        scan.run_time_filters.push(filter);
        scan.rebuilt()
    }

    /// The access joined with a table.
    pub(super) fn joined_with(&self, table: JoinTable, content: Bytes) -> Self {
        let mut scan = self.clone();
        if let Some(planned) = &mut scan.join {
            planned.table = Some(ScanJoin::new(planned.join.clone(), table, content));
        }
        scan.rebuilt()
    }

    /// Names of columns.
    pub(super) fn names(&self, columns: &[ScanColumn]) -> Vec<String> {
        let names = columns.iter().map(|column| self.column_name(column.number));
        names.collect()
    }

    /// True if a column may be NULL.
    pub(super) fn is_nullable(&self, column: &ScanColumn) -> bool {
        let def = self.table.def.columns.get(usize::from(column.number));
        def.is_none_or(|def| def.nullable)
    }

    /// The access, saying once why storage does not do something.
    pub(super) fn with_reason(&self, reason: Reason) -> Self {
        let mut scan = self.clone();
        if !scan.ndp.reasons.contains(&reason) {
            scan.ndp.reasons.push(reason);
        }
        scan
    }

    /// Name of a table's column.
    pub(super) fn column_name(&self, column: u16) -> String {
        let def = self.table.def.columns.get(usize::from(column));
        def.map_or_else(|| "row_id".to_owned(), |def| def.name.clone())
    }

    /// Table columns that filters and output need.
    pub(super) fn needed(&self) -> Vec<u16> {
        let mut needed: Vec<u16> = self.projection.iter().map(|c| self.column(*c)).collect();
        for filter in &self.filters {
            let columns = collect_columns(filter);
            needed.extend(columns.iter().map(|c| self.column(c.index())));
        }
        needed
    }

    /// The table column behind a field of the table's schema: the one behind the last column is the
    /// hidden row id, if it is there.
    pub(super) fn column(&self, field: usize) -> u16 {
        if field == self.table.def.columns.len() {
            HIDDEN_ROW_ID
        } else {
            field as u16 // a table has fewer columns
        }
    }

    /// What paths are chosen for; `needed` are [`PageScanExec::needed`].
    pub(super) fn wanted<'a>(&'a self, needed: &'a [u16]) -> Wanted<'a> {
        Wanted {
            table: &self.table,
            stats: &self.stats,
            filters: &self.filters,
            hints: &self.hints,
            needed,
            factor: self.filter_factor(),
            indexes: self.context.settings.indexes,
        }
    }

    /// What accesses to the table cost.
    pub(super) fn cost_model(&self) -> CostModel<'_> {
        let AccessContext {
            engine, settings, ..
        } = &self.context;
        CostModel::new(engine, &self.table, &self.stats, settings)
    }

    /// Cost of the access.
    pub(super) fn cost(&self) -> f64 {
        self.cost_model().path(&self.path, self.estimated_rows())
    }

    /// The node with its properties computed anew after a change, not yet run.
    pub(super) fn rebuilt(mut self) -> Self {
        let schema = self.output_schema();
        let partitions = self.properties.output_partitioning().partition_count();
        self.properties = Arc::new(properties(&schema, self.order.as_ref(), partitions));
        self.run = Arc::default();
        self
    }

    /// The access with the same conditions that delivers other columns, by the path that is best for these.
    pub(super) fn delivering(&self, projection: Vec<usize>) -> Self {
        let mut scan = Self {
            projection,
            ..self.clone()
        };
        scan.path = scan.cheapest_path();
        scan.rebuilt()
    }

    /// The node with so many partitions; an ordered scan and a lookup have one.
    pub(super) fn with_partitions(mut self, partitions: usize) -> Self {
        let partitions = if self.order.is_some() || self.path.fetch {
            1
        } else {
            partitions
        };
        let schema = self.output_schema();
        self.properties = Arc::new(properties(&schema, self.order.as_ref(), partitions.max(1)));
        self.run = Arc::default();
        self
    }

    /// The node with rows in an order that its path delivers.
    pub(super) fn in_order(mut self, reverse: bool, by: &[PhysicalSortExpr]) -> Self {
        let by = by.to_vec();
        self.order = Some(ScanOrder { reverse, by });
        self.with_partitions(1)
    }

    fn output_schema(&self) -> SchemaRef {
        match &self.aggregate {
            Some(aggregate) => aggregate.schema.clone(),
            None => Arc::new(
                self.table_schema
                    .project(&self.projection)
                    .expect("columns of the table"),
            ),
        }
    }

    /// Position in the path's index layout of each table column.
    pub(super) fn positions(&self) -> Vec<Option<u16>> {
        let index = &self.table.indexes[self.record_index()];
        let fields = 0..self.table_schema.fields().len();
        fields
            .map(|field| index.position(self.column(field)))
            .collect()
    }

    /// The index whose records are evaluated: the clustered one if rows are fetched from it.
    fn record_index(&self) -> usize {
        if self.path.fetch { 0 } else { self.path.index }
    }

    /// The conjunction of the filters as a program over the path's records.
    pub(super) fn predicate(&self) -> DfResult<Option<Program>> {
        if self.filters.is_empty() {
            return Ok(None);
        }
        let positions = self.positions();
        let layout = &self.table.indexes[self.record_index()].layout;
        convert_all(
            &self.filters,
            &Binding {
                layout,
                positions: &positions,
            },
        )
        .map(Some)
        .ok_or_else(|| internal_datafusion_err!("Q2: a filter was accepted and cannot be run"))
    }

    /// A conjunction of some of the filters as a program over the clustered index.
    pub(super) fn program_of(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Option<Program> {
        let index = self.table.clustered();
        let fields = 0..self.table_schema.fields().len();
        let positions: Vec<_> = fields
            .map(|field| index.position(self.column(field)))
            .collect();
        let binding = Binding {
            layout: &index.layout,
            positions: &positions,
        };
        convert_all(filters, &binding)
    }

    /// Share of the table's rows that is expected to pass the filters.
    pub(super) fn filter_factor(&self) -> f64 {
        match (&self.known_keys, &self.sampled) {
            (Some(known), _) => (known.count as f64 / (self.stats.rows as f64).max(1.0)).min(1.0),
            (None, Some(sampled)) => sampled.share,
            (None, None) => conjunction_factor(&self.filters, &self.stats),
        }
    }

    /// Rows the access is expected to deliver.
    #[must_use]
    pub fn estimated_rows(&self) -> f64 {
        let factor = match self.hints.is_empty() {
            true => self.filter_factor(),
            false => self.filter_factor().min(self.path.share),
        };
        self.stats.rows as f64 * factor
    }

    /// What there is to do.
    pub(super) fn work(&self) -> Work {
        let model = self.cost_model();
        let pages = (model.pages(&self.path) - at_ends(&self.path)).max(0.0);
        let reads = model.reads(self.path.index, pages);
        let rows = self.estimated_rows();
        let done = match self.limit.filter(|_| self.aggregate.is_none()) {
            Some(limit) => (limit as f64 / rows.max(1.0)).min(1.0),
            None => 1.0,
        };
        let program = self.predicate().ok().flatten();
        Work {
            stored: reads.storage * done,
            pooled: reads.pool * done,
            records: self.stats.rows as f64 * self.path.share * done,
            nodes: program.map_or(0.0, |program| program.nodes.len() as f64),
            rows: rows * done,
            width: self.width(),
            record_width: self.record_width(),
            groups: self.aggregate.as_ref().map(|aggregate| aggregate.work),
        }
    }

    /// Bytes of the columns that are delivered of a row, about.
    pub(super) fn width(&self) -> f64 {
        self.projection
            .iter()
            .map(|column| self.column_width(*column))
            .sum()
    }

    /// As [`Self::width`], with the columns that only the conditions need: what the access delivers if it does not
    /// evaluate them itself.
    pub(super) fn width_with_conditions(&self) -> f64 {
        let columns = self.filters.iter().flat_map(collect_columns);
        let columns: HashSet<usize> = columns.map(|column| column.index()).collect();
        let others = columns
            .iter()
            .filter(|column| !self.projection.contains(column));
        self.width() + others.map(|column| self.column_width(*column)).sum::<f64>()
    }

    /// Bytes of all columns of a record of the path's index, about.
    pub(super) fn record_width(&self) -> f64 {
        let columns = &self.table.indexes[self.path.index].columns;
        columns
            .iter()
            .map(|column| self.column_width(usize::from(*column)))
            .sum()
    }

    fn column_width(&self, column: usize) -> f64 {
        let is_hidden = column >= self.table.def.columns.len();
        let stats = self.stats.columns.get(column).filter(|_| !is_hidden);
        stats.map_or(8.0, |stats| f64::from(stats.average_width).max(1.0))
    }

    /// Leaf pages the access is expected to visit.
    pub(super) fn estimated_pages(&self) -> f64 {
        self.cost_model().pages(&self.path)
    }

    /// Rows that one batch read is expected to deliver.
    pub(super) fn rows_of_a_read(&self) -> f64 {
        let (settings, engine) = (&self.context.settings, &self.context.engine);
        let pages = settings.look_ahead.unwrap_or(engine.look_ahead()).max(1);
        let of_a_page = self.estimated_rows() / self.estimated_pages().max(1.0);
        pages as f64 * of_a_page
    }

    /// True if several workers are not worth their start.
    fn is_small(&self) -> bool {
        self.estimated_pages() < PAGES_TO_SHARE
    }

    /// Workers that scan at the same time (SPEC's N15): one for each partition, and as many for the
    /// only partition of an ordered scan.
    pub(super) fn workers(&self) -> usize {
        match self.order.is_some() && !self.is_small() {
            true => self.context.workers,
            false => self.properties.output_partitioning().partition_count(),
        }
    }

    /// What the access did, if it ran.
    #[must_use]
    pub fn counters(&self) -> Option<Arc<ScanCounters>> {
        self.run.scan.get().map(ScanHandle::counters)
    }

    /// True if the access ran compiled code in this process.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.run.scan.get().is_some_and(ScanHandle::is_compiled)
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn request(&self, view: Arc<ReadView>) -> DfResult<ScanRequest> {
        let index = &self.table.indexes[self.path.index];
        let projection = if self.aggregate.is_some() {
            Vec::new()
        } else if self.ndp.any() && !self.ndp.columns {
            (0..index.columns.len() as u16).collect()
        } else {
            self.projected_positions()?
        };
        let join = self.join.as_ref().map(|planned| {
            let table = planned.table.clone();
            table.ok_or_else(|| internal_datafusion_err!("Q15: a join without its table"))
        });
        Ok(ScanRequest {
            join: join.transpose()?,
            table: self.table.clone(),
            index: self.path.index,
            spans: self.path.spans.clone(),
            reverse: self.is_reverse(),
            ordered: self.order.is_some(),
            projection,
            predicate: self.predicate()?,
            aggregate: self.aggregate.as_ref().map(|a| a.aggregate.clone()),
            grouping: self
                .aggregate
                .as_ref()
                .map_or_else(Grouping::default, |a| a.grouping),
            filters: self
                .run_time_filters
                .iter()
                .map(|f| f.filter.clone())
                .collect(),
            ndp: self.ndp.any(),
            adapts: self.context.settings.decide_by_cost(&self.context.engine)
                && self.may_be_pushed(),
            view,
            workers: self.workers(),
            limit: self.limit.map(|limit| limit as u64),
            look_ahead: self.context.settings.look_ahead,
            cancel: self.context.cancel.clone(),
        })
    }

    /// The view to read the access's parts of the index with.
    async fn view(&self) -> DfResult<Arc<ReadView>> {
        let AccessPath { index, spans, .. } = &self.path;
        let view = self.context.view_of(&self.table, *index, spans).await;
        view.map_err(engine_error)
    }

    /// The scan that all partitions share; begun by the first one.
    async fn handle(&self) -> DfResult<ScanHandle> {
        let begin = || async {
            let request = self.request(self.view().await?)?;
            self.context.status.count(&self.ndp);
            self.pay_rent();
            self.context.engine.scan(request).map_err(engine_error)
        };
        self.run.scan.get_or_try_init(begin).await.cloned()
    }

    /// Remembers what a pushed scan costs because its pages are not in the buffer pool.
    fn pay_rent(&self) {
        let index = &self.table.indexes[self.path.index];
        let is_warming = |reason: &Reason| matches!(reason, Reason::Warming(_));
        if self.ndp.rent > 0.0 {
            self.context.engine.pay_rent(index, Some(self.ndp.rent));
        } else if self.ndp.reasons.iter().any(is_warming) {
            self.context.engine.pay_rent(index, None);
        }
    }

    /// The access to run for a partition. The only partition can be executed any number of times, each time with
    /// all rows of the same view. Of several partitions none can be: which rows it had depends on the others.
    fn for_execution(&self, partition: usize) -> DfResult<Self> {
        if self.run.executed.lock().insert(partition) {
            return Ok(self.clone());
        }
        match self.properties.output_partitioning().partition_count() {
            1 => Ok(self.clone().rebuilt()),
            _ => Err(internal_datafusion_err!(
                "Q15: partition {partition} of a scan of {} is executed twice",
                self.table.def.name
            )),
        }
    }

    /// The rows of a partition.
    async fn batches(self) -> DfResult<BoxStream<'static, DfResult<RecordBatch>>> {
        let schema = self.schema();
        let batches = if self.path.fetch {
            let lookups = self.lookups(self.view().await?, 0)?;
            self.context.status.count(&self.ndp);
            lookups.spans(&self.path.spans, self.is_reverse())
        } else {
            self.handle().await?.partition()
        };
        let batches = batches
            .map_err(engine_error)
            .map(move |batch| batch.and_then(|batch| self.shape(&batch, &schema)));
        Ok(batches.boxed())
    }

    /// Brings a batch of the scan into the columns that the plan expects.
    pub(super) fn shape(&self, batch: &RecordBatch, schema: &SchemaRef) -> DfResult<RecordBatch> {
        let columns: Vec<ArrayRef> =
            if self.aggregate.is_none() && self.ndp.any() && !self.ndp.columns {
                let positions = self.positions();
                let at = |c: &usize| usize::from(positions[*c].unwrap_or_default());
                self.projection
                    .iter()
                    .map(|c| batch.column(at(c)).clone())
                    .collect()
            } else {
                batch.columns().to_vec()
            };
        let columns = columns
            .into_iter()
            .zip(schema.fields())
            .enumerate()
            .map(|(at, (column, field))| {
                let column = with_type(column, field.data_type())?;
                match self.is_long(at) {
                    true => charged(&column, &self.context.memory),
                    false => Ok(column),
                }
            })
            .collect::<DfResult<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            schema.clone(),
            columns,
            &options,
        )?)
    }

    /// True if a column that is delivered has long values.
    fn is_long(&self, at: usize) -> bool {
        let column = self.projection.get(at).copied();
        let column = column.and_then(|column| self.table.def.columns.get(column));
        self.aggregate.is_none() && column.is_some_and(|column| column.ty.is_long())
    }

    /// True if storage picks rows that are looked up out of pages that are not in the buffer pool.
    pub(super) fn uses_key_batches(&self) -> bool {
        let when = self.context.settings.key_batches();
        self.context.engine.picks_rows(&self.table, when)
    }

    /// Lookups in the path's index, by so many of its key columns or by its parts, that deliver the access's columns.
    pub(super) fn lookups(&self, view: Arc<ReadView>, key_columns: usize) -> DfResult<Lookups> {
        let request = LookupRequest {
            table: self.table.clone(),
            index: self.path.index,
            fetch: self.path.fetch,
            key_columns,
            key_batches: self.context.settings.key_batches(),
            projection: self.projected_positions()?,
            predicate: self.predicate()?,
            view,
            cancel: self.context.cancel.clone(),
        };
        let lookups = self.context.engine.lookups(request);
        lookups.map_err(engine_error)
    }

    /// Position in the path's records of each column to deliver.
    fn projected_positions(&self) -> DfResult<Vec<u16>> {
        let positions = self.positions();
        let position =
            |c: &usize| positions[*c].ok_or_else(|| internal_datafusion_err!("Q3: column {c}"));
        self.projection.iter().map(position).collect()
    }

    fn is_reverse(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.reverse)
    }
}

/// A column of the scan as one of the plan: the same values, perhaps with another decimal precision.
pub(super) fn with_type(column: ArrayRef, ty: &DataType) -> DfResult<ArrayRef> {
    match (column.data_type(), ty) {
        (have, want) if have == want => Ok(column),
        (DataType::Decimal128(_, a), DataType::Decimal128(precision, b)) if a == b => {
            let relabelled = column.as_primitive::<Decimal128Type>().clone();
            Ok(Arc::new(
                relabelled.with_precision_and_scale(*precision, *b)?,
            ))
        }
        _ => Ok(cast(&column, ty)?),
    }
}

fn properties(schema: &SchemaRef, order: Option<&ScanOrder>, partitions: usize) -> PlanProperties {
    let mut equivalence = EquivalenceProperties::new(schema.clone());
    if let Some(ordering) = order.and_then(|order| LexOrdering::new(order.by.clone())) {
        equivalence.add_ordering(ordering);
    }
    PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
    .with_scheduling_type(SchedulingType::Cooperative)
}

impl DisplayAs for PageScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = &self.table.indexes[self.path.index];
        write!(
            f,
            "PageScanExec: table={}, index={}",
            self.table.def.name, index.name
        )?;
        if !self.filters.is_empty() {
            let texts: Vec<_> = self.filters.iter().map(ToString::to_string).collect();
            write!(f, ", predicate={}", texts.join(" AND "))?;
        }
        if self.ndp.any() {
            let NdpChoice {
                filter,
                columns,
                aggregate,
                ..
            } = &self.ndp;
            write!(
                f,
                ", ndp=[filter={filter}, columns={columns}, aggregate={aggregate}]"
            )?;
        }
        if let Some(join) = &self.join {
            write!(f, ", {join}")?;
        }
        for filter in &self.run_time_filters {
            write!(f, ", {filter}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", fetch={limit}")?;
        }
        Ok(())
    }
}

/// The node, if a plan node is one.
#[must_use]
pub fn as_page_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&PageScanExec> {
    plan.downcast_ref::<PageScanExec>()
}
