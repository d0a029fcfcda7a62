//! SELECT: plan, run, deliver.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimestampMicrosecondType};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::Result as DfResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableSource;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use perigee_engine::ndp::GroupMethod;
use perigee_engine::scan::{CancelToken, KeyBatches, ScanCounters};
use perigee_engine::txn::{RangeLocker, ReadView};
use perigee_sql_bind::query::{self, Query as Bound};
use perigee_value::{ColumnType, Zone};
use sqlparser::ast::Query;

use super::dml::CurrentRows;
use super::measure::Sent;
use super::restart::{ATTEMPTS, is_changed};
use super::running_plans::Shown;
use super::variables::Variables;
use super::{Session, bound, locking, rowless, turn, views};
use crate::access::{
    AccessContext, IndexChoice, JoinPlace, NUMBER_SEPARATOR, NdpMode, NdpSettings, NdpStatus,
    TableAccess, TableReference, Thresholds, Used, physical_rules, reads_whole_tables, sample,
};
use crate::error::{Result, SqlError};
use crate::explain::{Changed, Measuring, measured};
use crate::functions::enumeration;
use crate::functions::types::is_bytes;
use crate::interrupt;
use crate::memory::Charge;
use crate::parse::Piece;
use crate::plan::lower::{self, Planned, Subqueries};
use crate::plan::state;
use crate::plan::stoppable::stoppable;
use crate::result::{ResultColumn, ResultSink, column_of, type_of};

/// A SELECT ready to run.
pub(super) struct Prepared {
    pub state: SessionState,
    pub plan: Arc<dyn ExecutionPlan>,
    /// Output fields as they are shown, with their names.
    pub schema: SchemaRef,
    pub names: Vec<String>,
    pub accesses: Vec<TableReference>,
    /// Where what its scans do is counted: with the session.
    pub scans: Arc<ScanCounters>,
    /// What its statement changes with its rows.
    pub changed: Changed,
    /// The connection that it is run for.
    pub connection: u64,
    /// What it means.
    pub bound: Arc<Bound>,
}

impl Prepared {
    /// The plan, for EXPLAIN.
    pub(super) fn shown(&self, changed: Changed) -> Shown {
        Shown {
            plan: self.plan.clone(),
            references: self.accesses.clone(),
            changed,
        }
    }

    /// The columns of the result.
    pub(super) fn columns(&self) -> Vec<ResultColumn> {
        let fields = self.schema.fields().iter().zip(&self.names);
        fields.map(|(field, name)| column_of(field, name)).collect()
    }
}

/// How often a statement that computes looks whether it was stopped.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// What the accesses of a statement read, and how.
#[derive(Clone)]
pub(super) struct Reading {
    /// Which versions are seen.
    pub view: Arc<ReadView>,
    /// Locks what is read, at SERIALIZABLE.
    pub locker: Option<RangeLocker>,
    /// Stops the statement.
    pub cancel: CancelToken,
    /// What is special about references to tables, by their numbers.
    pub special: HashMap<usize, Special>,
}

/// What is special about one reference to a table.
#[derive(Clone, Default)]
pub(super) struct Special {
    /// Locks what it reads.
    pub locker: Option<RangeLocker>,
    /// It has the hidden row id as a column.
    pub row_id: bool,
    /// It reads these rows instead of the table.
    pub rows: Option<Arc<CurrentRows>>,
    /// It reads what the server makes of what it knows.
    pub view: Option<Arc<dyn TableProvider>>,
}

impl Reading {
    /// Reads what a view sees.
    pub(super) fn snapshot(view: Arc<ReadView>, cancel: &CancelToken) -> Self {
        Self {
            view,
            locker: None,
            cancel: cancel.clone(),
            special: HashMap::new(),
        }
    }
}

/// Runs a SELECT.
pub(super) async fn run(
    session: &mut Session,
    query: Box<Query>,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let rowless = rowless::expressions(&query);
    let closings = session.frontend.engine.closings();
    let bound = bound::bound(session, &query, piece)?;
    drop(query);
    bound::warn(session, &bound);
    if !bound.locks.is_empty() && !bound.tables.is_empty() {
        return locking::run(session, bound, out, cancel).await;
    }
    let had_snapshot = session.has_snapshot();
    let mut work = session.begin_reading(!bound.tables.is_empty(), cancel);
    if let Some(exprs) = rowless {
        let outcome = match rowless::row(session, &exprs, cancel) {
            Ok(Some(row)) => {
                let columns = &bound.body.columns;
                Some(rowless::deliver(session, row, columns, out).await)
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        };
        if let Some(outcome) = outcome {
            return session.end_reading(work, outcome).await;
        }
    }
    let reading = session.reading(&mut work, cancel).await;
    if !had_snapshot && session.frontend.engine.closings() != closings {
        // The view may be of what a session has half done that keeps a table to itself.
        let changed = Err(SqlError::table_changed());
        return session.end_reading(work, changed).await;
    }
    let bound = Arc::new(bound);
    let outcome = deliver(session, &bound, reading, out).await;
    if outcome.is_err() {
        // They keep what was assigned before the error, which is the one that is reported.
        let _ = session.keep_variables(&bound);
    }
    session.end_reading(work, outcome).await
}

/// Plans and runs a query, and delivers its rows as they come.
async fn deliver(
    session: &Session,
    bound: &Arc<Bound>,
    reading: Reading,
    out: &mut dyn ResultSink,
) -> Result<()> {
    let cancel = reading.cancel.clone();
    let prepared = plan(session, bound, reading).await?;
    let columns = prepared.columns();
    let mut stream = session.frontend.start(&prepared);
    // The first rows are awaited before the columns are sent, so that an error that comes at once
    // is an error of the statement and not of a result set that has begun.
    let mut next = guarded(&mut stream, &cancel).await?;
    out.columns(&columns).await?;
    while let Some(batch) = next {
        if batch.num_rows() > 0 {
            out.rows(&shown(&batch, &prepared.schema, session.zone())?)
                .await?;
        }
        next = guarded(&mut stream, &cancel).await?;
    }
    session.keep_variables(bound)?;
    out.finish(session.warning_count()).await
}

/// The next batch, or 1317 soon after the statement was stopped.
pub(super) async fn guarded<S>(stream: &mut S, cancel: &CancelToken) -> Result<Option<RecordBatch>>
where
    S: futures::Stream<Item = DfResult<RecordBatch>> + Unpin,
{
    loop {
        if cancel.is_cancelled() {
            return Err(SqlError::interrupted());
        }
        match tokio::time::timeout(CANCEL_INTERVAL, stream.next()).await {
            Ok(Some(Ok(batch))) => return Ok(Some(batch)),
            Ok(Some(Err(error))) => return Err(error.into()),
            Ok(None) => return Ok(None),
            Err(_) => {}
        }
    }
}

/// Binds and plans a SELECT.
pub(super) async fn prepare(
    session: &Session,
    query: &Query,
    piece: Piece<'_>,
    reading: Reading,
) -> Result<Prepared> {
    let bound = Arc::new(bound::bound(session, query, piece)?);
    plan(session, &bound, reading).await
}

/// What the result of a SELECT looks like: its Arrow schema, and what clients are told of its
/// columns.
pub(super) async fn describe(
    session: &Session,
    query: &Query,
    piece: Piece<'_>,
) -> Result<(SchemaRef, Vec<ResultColumn>)> {
    for _ in 1..ATTEMPTS {
        let described = describe_once(session, query, piece).await;
        if !is_changed(&described) {
            return described;
        }
    }
    describe_once(session, query, piece).await
}

async fn describe_once(
    session: &Session,
    query: &Query,
    piece: Piece<'_>,
) -> Result<(SchemaRef, Vec<ResultColumn>)> {
    let bound = bound::bound(session, query, piece)?;
    let view = session.current_view();
    let reading = Reading::snapshot(view, &CancelToken::new());
    let bound = Arc::new(bound);
    let joined = Planning::new(session, bound.clone(), Subqueries::Joined, reading.clone());
    let planned = match joined.await?.logical() {
        Err(error) if error.is_not_supported() => {
            let applied = Planning::new(session, bound, Subqueries::Applied, reading);
            applied.await?.logical()?
        }
        joined => joined?,
    };
    let schema = shown_schema(&planned.schema);
    let columns = schema.fields().iter().zip(&planned.names);
    let columns = columns.map(|(field, name)| column_of(field, name));
    let columns = columns.collect();
    Ok((schema, columns))
}

/// Plans a query.
///
/// # Errors
/// 1235 for what has no plan.
pub(super) async fn plan(
    session: &Session,
    bound: &Arc<Bound>,
    reading: Reading,
) -> Result<Prepared> {
    bound.variables.iter().for_each(|one| one.reset());
    let joined = physical(session, bound, Subqueries::Joined, reading.clone()).await;
    match joined {
        Err(error) if error.is_not_supported() => {
            physical(session, bound, Subqueries::Applied, reading).await
        }
        outcome => outcome,
    }
}

async fn physical(
    session: &Session,
    bound: &Arc<Bound>,
    subqueries: Subqueries,
    reading: Reading,
) -> Result<Prepared> {
    let cancel = reading.cancel.clone();
    let planning = Planning::new(session, bound.clone(), subqueries, reading).await?;
    turn::apart(&cancel, Box::pin(planning.physical())).await
}

/// A query with all that its plan is made from: it is planned without the session.
struct Planning {
    bound: Arc<Bound>,
    subqueries: Subqueries,
    tables: Vec<Arc<dyn TableSource>>,
    state: SessionState,
    /// Most steps of a recursive common table expression.
    most_steps: u64,
    cancel: CancelToken,
    scans: Arc<ScanCounters>,
    connection: u64,
    sent: Arc<Sent>,
    /// For the memory that plans take.
    _charge: Option<Arc<Charge>>,
}

impl Planning {
    async fn new(
        session: &Session,
        bound: Arc<Bound>,
        subqueries: Subqueries,
        reading: Reading,
    ) -> Result<Self> {
        let references = bound::references(&bound);
        let engine = &session.frontend.engine;
        for reference in &references {
            // What is wrong with a name is said where it is resolved.
            if let Ok(table) = engine.table(&reference.schema, &reference.table) {
                engine.look_at_size(&table).await?;
            }
        }
        let mut special = reading.special;
        for table in bound.tables.iter().filter(|table| bound::has_row_id(table)) {
            special.entry(table.reference).or_default().row_id = true;
        }
        for (number, view) in views::of_statement(session, &references).await? {
            special.entry(number).or_default().view = Some(view);
        }
        let context = AccessContext {
            engine: engine.clone(),
            view: reading.view,
            locker: reading.locker,
            cancel: reading.cancel.clone(),
            settings: settings(session),
            workers: workers(session, &bound),
            alias: None,
            status: NdpStatus {
                session: session.ndp_counters.clone(),
                global: session.frontend.ndp_counters.clone(),
            },
            memory: session.frontend.memory.clone(),
        };
        let mut tables = Vec::with_capacity(references.len());
        for (number, reference) in references.iter().enumerate() {
            let special = special.remove(&number).unwrap_or_default();
            let table = &bound.tables[number];
            tables.push(source(&context, (table, reference), special)?);
        }
        let memory = session.variables.integer("query_memory_limit") as usize;
        let mut state = state::template(
            context.workers,
            session.frontend.runtime(memory),
            physical_rules(PhysicalOptimizer::default().rules, &context),
        );
        if session.probe.is_some() {
            state.config_mut().set_extension(Arc::new(Measuring));
        }
        Ok(Self {
            bound,
            subqueries,
            tables,
            state,
            most_steps: session.variables.integer("cte_max_recursion_depth"),
            cancel: reading.cancel,
            scans: session.scans.clone(),
            connection: session.info.connection_id,
            sent: session.sent.clone(),
            _charge: session.charge.upgrade(),
        })
    }

    /// The logical plan.
    fn logical(&self) -> Result<Planned> {
        let tables = &self.tables;
        Ok(lower::planned(
            &self.bound,
            tables,
            self.subqueries,
            self.most_steps,
        )?)
    }

    /// The plan that runs.
    async fn physical(self) -> Result<Prepared> {
        let (state, planned) = (&self.state, self.logical()?);
        let mut optimized = state.optimize(&planned.plan)?;
        interrupt::check()?;
        if sample(&optimized, &self.scans).await? {
            optimized = state.optimize(&planned.plan)?;
            interrupt::check()?;
        }
        let physical = state.create_physical_plan(&optimized).await?;
        interrupt::check()?;
        let mut physical = stoppable(physical, &self.cancel)?;
        if state.config().get_extension::<Measuring>().is_some() {
            physical = measured(physical)?;
        }
        if reads_whole_tables(&physical) {
            self.sent.note_no_index();
        }
        let schema = shown_schema(&planned.schema);
        check_types(&schema, &physical.schema())?;
        Ok(Prepared {
            state: self.state,
            plan: physical,
            schema,
            names: planned.names,
            accesses: bound::references(&self.bound),
            scans: self.scans,
            changed: Changed::Nothing,
            connection: self.connection,
            bound: self.bound,
        })
    }
}

/// Workers of a query: one, if its rows are to be computed in turn; otherwise what `parallel_default_dop` says, or as many as there are threads.
fn workers(session: &Session, bound: &Bound) -> usize {
    match session.variables.integer("parallel_default_dop") {
        _ if !bound.variables.is_empty() => 1,
        0 => session.frontend.config.threads,
        workers => workers as usize, // the variable's range is small
    }
}

/// Where a variable says that a way is used.
fn used(variables: &Variables, name: &str) -> Used {
    match variables.get(name) {
        Ok(Some("ALWAYS")) => Used::Always,
        Ok(Some("OFF")) => Used::Off,
        _ => Used::On,
    }
}

/// The variables that steer table accesses.
fn settings(session: &Session) -> NdpSettings {
    let variables = &session.variables;
    NdpSettings {
        mode: match variables.get("ndp_mode") {
            Ok(Some("ON")) => NdpMode::On,
            Ok(Some("REPLICA_ON")) => NdpMode::ReplicaOn,
            _ => NdpMode::Off,
        },
        thresholds: Thresholds {
            min_pages: variables.parsed("ndp_min_pages"),
            max_filter_factor: variables.parsed("ndp_max_filter_factor"),
            min_width_reduction: variables.parsed("ndp_min_width_reduction"),
            min_rows_per_group: variables.parsed("ndp_min_rows_per_group"),
        },
        group_method: match variables.get("ndp_group_method") {
            Ok(Some("HASH")) => Some(GroupMethod::Hash),
            Ok(Some("SORT")) => Some(GroupMethod::Sort),
            _ => None,
        },
        group_memory: variables.integer("ndp_group_memory"),
        hint: None,
        join_filters: variables.is_on("ndp_join_filters"),
        join_filter_hint: None,
        join_tables: variables.is_on("ndp_join_tables"),
        join_table_hint: None,
        join_table_memory: variables.integer("ndp_join_table_memory") as usize, // the variable's range is small
        top_filters: variables.is_on("ndp_top_filters"),
        index_conditions: used(variables, "ndp_index_conditions"),
        late_columns: used(variables, "optimizer_late_columns"),
        key_batches: match variables.get("ndp_key_batches") {
            Ok(Some("ALWAYS")) => KeyBatches::Always,
            Ok(Some("OFF")) => KeyBatches::Never,
            _ => KeyBatches::WhereItPays,
        },
        join_order: variables.is_on("optimizer_join_order"),
        sample_pages: variables.integer("optimizer_sample_pages") as usize, // the variable's range is small
        sample_time: Duration::from_millis(variables.integer("optimizer_sample_time")),
        indexes: IndexChoice::default(),
        place: JoinPlace::default(),
        look_ahead: match variables.integer("ndp_max_pages_look_ahead") {
            0 => None,
            pages => usize::try_from(pages).ok(),
        },
    }
}

/// What a reference reads.
fn source(
    context: &AccessContext,
    (bound, reference): (&query::Table, &TableReference),
    special: Special,
) -> Result<Arc<dyn TableSource>> {
    let name = format!("{}{NUMBER_SEPARATOR}{}", bound.name, bound.reference);
    if let Some(view) = special.view {
        return Ok(provider_as_source(view));
    }
    if let Some(rows) = special.rows {
        return Ok(provider_as_source(enumeration::view(
            rows.provider()?,
            &name,
        )?));
    }
    let table = context.engine.table(&reference.schema, &reference.table)?;
    bound::check_current(bound, &table.def)?;
    let mut context = context.clone();
    context.alias = Some(reference.alias.clone());
    if special.locker.is_some() {
        context.locker = special.locker;
    }
    if let Some(push) = reference.ndp_hint {
        context.settings = context.settings.hinted(push);
    }
    context.settings.join_filter_hint = reference.join_filter_hint;
    context.settings.join_table_hint = reference.join_table_hint;
    context.settings.join_order &= !reference.straight;
    context.settings.place = reference.place;
    context.settings.indexes = reference.indexes;
    let mut access = TableAccess::new(context, table);
    if special.row_id {
        access = access.with_row_id();
    }
    Ok(provider_as_source(enumeration::view(
        Arc::new(access),
        &name,
    )?))
}

/// Truth values are shown as integers.
fn shown_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Boolean => field.as_ref().clone().with_data_type(DataType::Int64),
            _ => field.as_ref().clone(),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// A value that has no place in the new type is an error.
const CHECKED: CastOptions<'_> = CastOptions {
    safe: false,
    format_options: FormatOptions::new(),
};

/// Asserts that a plan gives the types that its result was described with: DataFusion's coercion had nothing left
/// to decide, so that no value has to be converted behind it.
fn check_types(shown: &Schema, given: &Schema) -> Result<()> {
    let pairs = shown.fields().iter().zip(given.fields());
    for (shown, given) in pairs {
        if !is_shown_as(given.data_type(), shown.data_type()) {
            let (name, given, shown) = (shown.name(), given.data_type(), shown.data_type());
            return Err(SqlError::not_supported(format!(
                "the column {name}, which is {given} where {shown} was expected"
            )));
        }
    }
    Ok(())
}

/// True if values of one type are shown as another one and none is lost.
fn is_shown_as(given: &DataType, shown: &DataType) -> bool {
    use DataType::{Boolean, Int64, Null, Utf8, Utf8View};
    let is_text = |ty: &DataType| matches!(ty, Utf8 | Utf8View);
    given == shown
        || matches!((given, shown), (Boolean, Int64) | (Null, _))
        || is_number_of(given, shown)
        || (is_text(given) && is_text(shown))
        || (is_bytes(given) && is_bytes(shown))
}

/// True for numbers that a conversion does not round; one that has no place is an error then.
fn is_number_of(given: &DataType, shown: &DataType) -> bool {
    match (given, shown) {
        (DataType::Float32 | DataType::Float64, shown) => *shown == DataType::Float64,
        (
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale),
            DataType::Decimal128(_, wanted) | DataType::Decimal256(_, wanted),
        ) => scale <= wanted,
        (given, shown) => given.is_integer() && shown.is_numeric(),
    }
}

/// TIMESTAMPs as a time zone calls them; a column of NULLs as it is.
fn in_zone(column: &ArrayRef, zone: Zone) -> ArrayRef {
    match column.as_primitive_opt::<TimestampMicrosecondType>() {
        Some(stamps) => {
            let local = stamps.unary::<_, TimestampMicrosecondType>(|utc| zone.local(utc));
            Arc::new(local)
        }
        None => column.clone(),
    }
}

/// A batch with the types that the result's columns have, and TIMESTAMPs as a time zone calls them.
///
/// # Errors
/// If a value would be lost.
pub(super) fn shown(batch: &RecordBatch, schema: &SchemaRef, zone: Zone) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if !zone.is_utc() && type_of(field).is_some_and(ColumnType::is_timestamp) {
                return Ok(in_zone(column, zone));
            }
            if column.data_type() == field.data_type() {
                return Ok(column.clone());
            }
            cast_with_options(column, field.data_type(), &CHECKED)
        })
        .collect::<std::result::Result<_, _>>()
        .map_err(SqlError::unknown)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let types: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    RecordBatch::try_new_with_options(Arc::new(Schema::new(types)), columns, &options)
        .map_err(SqlError::unknown)
}
