//! SELECT: plan, run, deliver.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    SchemaProvider, TableProvider,
};
use datafusion::common::Result as DfResult;
use datafusion::execution::SessionState;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use perigee_engine::scan::CancelToken;

use super::Session;
use crate::access::{AccessContext, NdpMode, NdpSettings, TableAccess, physical_rules};
use crate::error::{Result, SqlError};
use crate::parse::Piece;
use crate::plan::rewrite::{
    ACCESS_SEPARATOR, Rewritten, Source, TableAccess as TableReference, rewrite,
};
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

/// Runs a SELECT.
pub(super) async fn run(
    session: &mut Session,
    query: Box<Query>,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let prepared = prepare(session, query, piece, cancel).await?;
    let columns = prepared.columns();
    let mut stream = session.frontend.start(&prepared);
    // The first rows are awaited before the columns are sent, so that an error that comes at once
    // is an error of the statement and not of a result set that has begun.
    let mut next = guarded(&mut stream, cancel).await?;
    out.columns(&columns).await?;
    while let Some(batch) = next {
        if batch.num_rows() > 0 {
            out.rows(&shown(&batch, &prepared.schema)?).await?;
        }
        next = guarded(&mut stream, cancel).await?;
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

/// Plans a SELECT.
pub(super) async fn prepare(
    session: &Session,
    query: Box<Query>,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<Prepared> {
    let source = Source {
        text: piece.text,
        tokens: piece.tokens,
    };
    let rewritten = rewrite(query, source, session)?;
    plan(session, rewritten, cancel).await
}

/// Plans a rewritten query.
pub(super) async fn plan(
    session: &Session,
    rewritten: Rewritten,
    cancel: &CancelToken,
) -> Result<Prepared> {
    let accesses = rewritten.accesses.clone();
    let engine = &session.frontend.engine;
    let context = AccessContext {
        engine: engine.clone(),
        view: engine.read_view(),
        cancel: cancel.clone(),
        settings: settings(session),
        alias: None,
    };
    let state = statement_state(session, &context, &accesses);
    let planned = select::plan(&state, rewritten).await?;
    let optimized = state.optimize(&planned.plan)?;
    let physical = state.create_physical_plan(&optimized).await?;
    let physical = stoppable(physical, cancel)?;
    let schema = shown_schema(planned.plan.schema().as_arrow());
    Ok(Prepared {
        state,
        plan: physical,
        schema,
        names: planned.names,
        accesses,
    })
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
        look_ahead: match variables.integer("ndp_max_pages_look_ahead") {
            0 => None,
            pages => usize::try_from(pages).ok(),
        },
    }
}

fn statement_state(
    session: &Session,
    context: &AccessContext,
    accesses: &[TableReference],
) -> SessionState {
    let catalog = MemoryCatalogProvider::new();
    let references = Arc::new(accesses.to_vec());
    let mut schemas: Vec<&str> = accesses.iter().map(|a| a.schema.as_str()).collect();
    schemas.sort_unstable();
    schemas.dedup();
    for schema in schemas {
        let tables = StatementTables {
            context: context.clone(),
            references: references.clone(),
        };
        // Registering into a catalog in memory cannot fail.
        let _ = catalog.register_schema(schema, Arc::new(tables));
    }
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(state::CATALOG.to_owned(), Arc::new(catalog));
    let memory = session.variables.integer("query_memory_limit") as usize;
    state::template(
        session.frontend.config.threads,
        session.frontend.runtime(memory),
        Arc::new(catalogs),
        physical_rules(PhysicalOptimizer::default().rules, context),
    )
}

/// The tables of one schema that a statement refers to, by the numbers of the references.
#[derive(Debug)]
struct StatementTables {
    context: AccessContext,
    references: Arc<Vec<TableReference>>,
}

#[async_trait]
impl SchemaProvider for StatementTables {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        let reference = name
            .rsplit_once(ACCESS_SEPARATOR)
            .and_then(|(_, number)| self.references.get(number.parse::<usize>().ok()?));
        let Some(reference) = reference else {
            return Ok(None);
        };
        let table = self
            .context
            .engine
            .table(&reference.schema, &reference.table);
        let table = table.map_err(|e| SqlError::from(e).into_df())?;
        let mut context = self.context.clone();
        context.alias = Some(reference.alias.clone());
        match reference.ndp_hint {
            Some(true) => {
                context.settings.mode = NdpMode::On;
                context.settings.min_pages = 0;
            }
            Some(false) => context.settings.mode = NdpMode::Off,
            None => {}
        }
        Ok(Some(Arc::new(TableAccess::new(context, table))))
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

/// A batch with the types that the result's columns have.
pub(super) fn shown(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(column.clone());
            }
            cast(column, field.data_type())
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
