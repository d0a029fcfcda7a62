//! SELECT: plan, run, deliver.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    SchemaProvider, TableProvider,
};
use datafusion::common::Result as DfResult;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use perigee_engine::ndp::GroupMethod;
use perigee_engine::scan::{CancelToken, ScanCounters};
use perigee_engine::txn::{RangeLocker, ReadView};
use perigee_sql_bind::query::TableDefinition;

use super::dml::CurrentRows;
use super::restart::{ATTEMPTS, is_changed};
use super::{Session, bound, locking, rowless, views};
use crate::access::{
    AccessContext, IndexChoice, NdpMode, NdpSettings, NdpStatus, TableAccess, physical_rules,
    sample,
};
use crate::error::{Result, SqlError};
use crate::functions::enumeration;
use crate::functions::types::is_bytes;
use crate::interrupt;
use crate::parse::Piece;
use crate::plan::lower::Subqueries;
use crate::plan::rewrite::{
    ACCESS_SEPARATOR, Rewritten, Source, TableAccess as TableReference, rewrite,
};
use crate::plan::select::Planned;
use crate::plan::stoppable::stoppable;
use crate::plan::{select, state};
use crate::result::{ResultColumn, ResultSink, column_of};

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
}

impl Prepared {
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
    /// Functions of this statement.
    pub functions: Vec<Arc<ScalarUDF>>,
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
            functions: Vec::new(),
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
    let rewritten = read(session, query, piece)?;
    if let Some(bound) = &rewritten.bound {
        for warning in &bound.warnings {
            let warning = SqlError::interrupted_by(warning.number, &warning.text);
            session.warn("Warning", &warning);
        }
    }
    if !rewritten.locks.is_empty() && !rewritten.accesses.is_empty() {
        return locking::run(session, rewritten, out, cancel).await;
    }
    let mut work = session.begin_reading(!rewritten.accesses.is_empty(), cancel);
    if let (Some(exprs), Some(names)) = (rowless, &rewritten.names.by_position) {
        let outcome = match rowless::row(session, &exprs, cancel) {
            Ok(Some(row)) => Some(rowless::deliver(session, row, names, out).await),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        };
        if let Some(outcome) = outcome {
            return session.end_reading(work, outcome).await;
        }
    }
    let reading = session.reading(&mut work, cancel).await;
    let outcome = deliver(session, rewritten, reading, out).await;
    session.end_reading(work, outcome).await
}

/// Plans and runs a query, and delivers its rows as they come.
async fn deliver(
    session: &Session,
    rewritten: Rewritten,
    reading: Reading,
    out: &mut dyn ResultSink,
) -> Result<()> {
    let cancel = reading.cancel.clone();
    let prepared = plan(session, rewritten, reading).await?;
    let columns = prepared.columns();
    let mut stream = session.frontend.start(&prepared);
    // The first rows are awaited before the columns are sent, so that an error that comes at once
    // is an error of the statement and not of a result set that has begun.
    let mut next = guarded(&mut stream, &cancel).await?;
    out.columns(&columns).await?;
    while let Some(batch) = next {
        if batch.num_rows() > 0 {
            out.rows(&shown(&batch, &prepared.schema)?).await?;
        }
        next = guarded(&mut stream, &cancel).await?;
    }
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

/// The meaning of a query that is only read.
///
/// # Errors
/// Those of names and types.
pub(super) fn read(session: &Session, query: Box<Query>, piece: Piece<'_>) -> Result<Rewritten> {
    let bound = match session.frontend.config.bound_queries {
        true => bound::bound(session, &query, piece)?.map(Arc::new),
        false => None,
    };
    let Some(bound) = bound else {
        return rewritten(session, query, piece);
    };
    match rewritten(session, query.clone(), piece) {
        Ok(rewritten) => Ok(Rewritten {
            bound: Some(bound),
            ..rewritten
        }),
        Err(error) => Ok(bound::only(query, bound, error)),
    }
}

/// Rewrites the query of a statement.
pub(super) fn rewritten(
    session: &Session,
    query: Box<Query>,
    piece: Piece<'_>,
) -> Result<Rewritten> {
    let source = Source {
        text: piece.text,
        tokens: piece.tokens,
        lists: piece.lists,
    };
    rewrite(query, source, session)
}

/// Plans a SELECT.
pub(super) async fn prepare(
    session: &Session,
    query: Box<Query>,
    piece: Piece<'_>,
    reading: Reading,
) -> Result<Prepared> {
    plan(session, read(session, query, piece)?, reading).await
}

/// What the result of a SELECT looks like: its Arrow schema, and what clients are told of its
/// columns.
pub(super) async fn describe(
    session: &Session,
    query: Box<Query>,
    piece: Piece<'_>,
) -> Result<(SchemaRef, Vec<ResultColumn>)> {
    for _ in 1..ATTEMPTS {
        let described = describe_once(session, query.clone(), piece).await;
        if !is_changed(&described) {
            return described;
        }
    }
    describe_once(session, query, piece).await
}

async fn describe_once(
    session: &Session,
    query: Box<Query>,
    piece: Piece<'_>,
) -> Result<(SchemaRef, Vec<ResultColumn>)> {
    let mut rewritten = read(session, query, piece)?;
    let view = session.current_view();
    let reading = Reading::snapshot(view, &CancelToken::new());
    let of_bound = match rewritten.bound.take() {
        Some(bound) => {
            let meaning = Meaning::Bound(&bound, Subqueries::Joined);
            let joined = logical(session, meaning, reading.clone()).await;
            let meaning = Meaning::Bound(&bound, Subqueries::Applied);
            match joined {
                Err(error) if error.is_not_supported() => {
                    Some(logical(session, meaning, reading.clone()).await)
                }
                joined => Some(joined),
            }
        }
        None => None,
    };
    let (_, planned) = match of_bound {
        Some(Err(error)) if !error.is_not_supported() => return Err(error),
        Some(Ok(planned)) => planned,
        _ => logical(session, Meaning::rewritten(rewritten)?, reading).await?,
    };
    let schema = shown_schema(&planned.schema);
    let columns = schema.fields().iter().zip(&planned.names);
    let columns = columns.map(|(field, name)| column_of(field, name));
    let columns = columns.collect();
    Ok((schema, columns))
}

/// What a query means.
enum Meaning<'q> {
    /// What the binder says.
    Bound(&'q perigee_sql_bind::query::Query, Subqueries),
    /// What DataFusion makes of a syntax tree.
    Rewritten(Box<Rewritten>),
}

impl Meaning<'_> {
    /// What DataFusion makes of a syntax tree.
    ///
    /// # Errors
    /// 1235 if there is no such tree.
    fn rewritten(mut rewritten: Rewritten) -> Result<Self> {
        match rewritten.refused.take() {
            Some(error) => Err(error),
            None => Ok(Self::Rewritten(Box::new(rewritten))),
        }
    }
}

/// Plans a query.
pub(super) async fn plan(
    session: &Session,
    mut rewritten: Rewritten,
    reading: Reading,
) -> Result<Prepared> {
    if let Some(bound) = rewritten.bound.take() {
        match plan_bound(session, &bound, reading.clone()).await {
            Err(error) if error.is_not_supported() => {}
            outcome => return outcome,
        }
    }
    let [_, of_rewritten] = &session.frontend.planned;
    of_rewritten.fetch_add(1, Ordering::Relaxed);
    physical(session, Meaning::rewritten(rewritten)?, reading).await
}

/// Plans a query that the binder understands.
///
/// # Errors
/// 1235 for what has no plan yet.
pub(super) async fn plan_bound(
    session: &Session,
    bound: &perigee_sql_bind::query::Query,
    reading: Reading,
) -> Result<Prepared> {
    let [of_bound, _] = &session.frontend.planned;
    let joined = Meaning::Bound(bound, Subqueries::Joined);
    let outcome = match physical(session, joined, reading.clone()).await {
        Err(error) if error.is_not_supported() => {
            let applied = Meaning::Bound(bound, Subqueries::Applied);
            physical(session, applied, reading).await?
        }
        outcome => outcome?,
    };
    of_bound.fetch_add(1, Ordering::Relaxed);
    Ok(outcome)
}

async fn physical(session: &Session, meaning: Meaning<'_>, reading: Reading) -> Result<Prepared> {
    let accesses = match &meaning {
        Meaning::Bound(bound, _) => bound::references(bound),
        Meaning::Rewritten(rewritten) => rewritten.accesses.clone(),
    };
    let cancel = reading.cancel.clone();
    let (state, planned) = logical(session, meaning, reading).await?;
    let mut optimized = state.optimize(&planned.plan)?;
    interrupt::check()?;
    if sample(&optimized, &session.scans).await? {
        optimized = state.optimize(&planned.plan)?;
        interrupt::check()?;
    }
    let physical = state.create_physical_plan(&optimized).await?;
    interrupt::check()?;
    let physical = stoppable(physical, &cancel)?;
    let schema = shown_schema(&planned.schema);
    check_types(&schema, &physical.schema())?;
    Ok(Prepared {
        state,
        plan: physical,
        schema,
        names: planned.names,
        accesses,
        scans: session.scans.clone(),
    })
}

/// The typed logical plan of a rewritten query, and the state to go on with.
async fn logical(
    session: &Session,
    meaning: Meaning<'_>,
    reading: Reading,
) -> Result<(SessionState, Planned)> {
    let accesses = match &meaning {
        Meaning::Bound(bound, _) => bound::references(bound),
        Meaning::Rewritten(rewritten) => rewritten.accesses.clone(),
    };
    let engine = &session.frontend.engine;
    for access in &accesses {
        // What is wrong with a name is said where it is resolved.
        if let Ok(table) = engine.table(&access.schema, &access.table) {
            engine.look_at_size(&table).await?;
        }
    }
    let mut special = reading.special;
    if let Meaning::Bound(bound, _) = &meaning {
        for table in bound.tables.iter().filter(|table| bound::has_row_id(table)) {
            special.entry(table.reference).or_default().row_id = true;
        }
    }
    for (number, view) in views::of_statement(session, &accesses).await? {
        special.entry(number).or_default().view = Some(view);
    }
    let context = AccessContext {
        engine: engine.clone(),
        view: reading.view,
        locker: reading.locker,
        cancel: reading.cancel,
        settings: settings(session),
        workers: workers(session),
        alias: None,
        status: NdpStatus {
            session: session.ndp_counters.clone(),
            global: session.frontend.ndp_counters.clone(),
        },
        memory: session.frontend.memory.clone(),
    };
    let definitions = match &meaning {
        Meaning::Bound(bound, _) => bound.tables.iter().map(|t| t.definition.clone()).collect(),
        Meaning::Rewritten(_) => Vec::new(),
    };
    let tables = StatementTables {
        context: context.clone(),
        references: Arc::new(accesses),
        definitions: Arc::new(definitions),
        special: Arc::new(special),
    };
    let mut state = statement_state(session, &context, &tables);
    let own = match &meaning {
        Meaning::Bound(..) => &[],
        Meaning::Rewritten(rewritten) => &rewritten.functions[..],
    };
    for function in reading.functions.iter().chain(own) {
        state.register_udf(function.clone())?;
    }
    let planned = match meaning {
        Meaning::Bound(bound, subqueries) => {
            let most_steps = session.variables.integer("cte_max_recursion_depth");
            bound::planned(&state, bound, subqueries, most_steps).await?
        }
        Meaning::Rewritten(rewritten) => select::plan(&state, *rewritten).await?,
    };
    Ok((state, planned))
}

/// Workers of a query: what `parallel_default_dop` says, or as many as there are threads.
fn workers(session: &Session) -> usize {
    match session.variables.integer("parallel_default_dop") {
        0 => session.frontend.config.threads,
        workers => workers as usize, // the variable's range is small
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
        min_pages: variables.integer("ndp_min_pages"),
        max_filter_factor: variables.number("ndp_max_filter_factor"),
        min_width_reduction: variables.number("ndp_min_width_reduction"),
        min_rows_per_group: variables.number("ndp_min_rows_per_group"),
        group_method: match variables.get("ndp_group_method") {
            Ok(Some("HASH")) => Some(GroupMethod::Hash),
            Ok(Some("SORT")) => Some(GroupMethod::Sort),
            _ => None,
        },
        group_memory: variables.integer("ndp_group_memory"),
        hint: None,
        join_filters: variables.is_on("ndp_join_filters"),
        join_filter_hint: None,
        top_filters: variables.is_on("ndp_top_filters"),
        join_order: variables.is_on("optimizer_join_order"),
        sample_pages: variables.integer("optimizer_sample_pages") as usize, // the variable's range is small
        sample_time: Duration::from_millis(variables.integer("optimizer_sample_time")),
        indexes: IndexChoice::default(),
        look_ahead: match variables.integer("ndp_max_pages_look_ahead") {
            0 => None,
            pages => usize::try_from(pages).ok(),
        },
    }
}

fn statement_state(
    session: &Session,
    context: &AccessContext,
    tables: &StatementTables,
) -> SessionState {
    let catalog = MemoryCatalogProvider::new();
    let references = tables.references.iter();
    let mut schemas: Vec<&str> = references.map(|a| a.schema.as_str()).collect();
    schemas.sort_unstable();
    schemas.dedup();
    for schema in schemas {
        // Registering into a catalog in memory cannot fail.
        let _ = catalog.register_schema(schema, Arc::new(tables.clone()));
    }
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(state::CATALOG.to_owned(), Arc::new(catalog));
    let memory = session.variables.integer("query_memory_limit") as usize;
    state::template(
        context.workers,
        session.frontend.runtime(memory),
        Arc::new(catalogs),
        physical_rules(PhysicalOptimizer::default().rules, context),
    )
}

/// The tables that a statement refers to, by the numbers of the references.
#[derive(Clone)]
struct StatementTables {
    context: AccessContext,
    references: Arc<Vec<TableReference>>,
    /// What the binder saw of them.
    definitions: Arc<Vec<Arc<TableDefinition>>>,
    special: Arc<HashMap<usize, Special>>,
}

impl fmt::Debug for StatementTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementTables")
            .field("references", &self.references)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for StatementTables {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        let number = name
            .rsplit_once(ACCESS_SEPARATOR)
            .and_then(|(_, number)| number.parse().ok());
        let reference = number.and_then(|number: usize| self.references.get(number));
        let (Some(number), Some(reference)) = (number, reference) else {
            return Ok(None);
        };
        let special = self.special.get(&number).cloned().unwrap_or_default();
        if let Some(rows) = special.rows {
            return enumeration::view(rows.provider()?, name).map(Some);
        }
        if special.view.is_some() {
            return Ok(special.view);
        }
        let table = self
            .context
            .engine
            .table(&reference.schema, &reference.table);
        let table = table.map_err(|e| SqlError::from(e).into_df())?;
        if let Some(bound) = self.definitions.get(number) {
            bound::check_is(bound, &table.def).map_err(SqlError::into_df)?;
        }
        let mut context = self.context.clone();
        context.alias = Some(reference.alias.clone());
        if special.locker.is_some() {
            context.locker = special.locker;
        }
        if let Some(push) = reference.ndp_hint {
            context.settings = context.settings.hinted(push);
        }
        context.settings.join_filter_hint = reference.join_filter_hint;
        context.settings.join_order &= !reference.straight;
        context.settings.indexes = reference.indexes;
        let mut access = TableAccess::new(context, table);
        if special.row_id {
            access = access.with_row_id();
        }
        enumeration::view(Arc::new(access), name).map(Some)
    }

    fn table_exist(&self, _: &str) -> bool {
        true
    }
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

/// A batch with the types that the result's columns have.
///
/// # Errors
/// If a value would be lost.
pub(super) fn shown(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
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
