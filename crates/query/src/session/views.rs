//! The tables that the server makes of what it knows, such as `information_schema.tables`: the facts that a statement's
//! views are made of, and the views as DataFusion sees them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use perigee_catalog_views::{Connection, Facts, NamedValue, TableFacts, View};
use perigee_value::Datum;

use super::variables::Variables;
use super::{Session, show, table_status};
use crate::access::{TableReference, table_schema};
use crate::error::{Result, SqlError};
use crate::parse::Scope;
use crate::{interrupt, values};

/// The views among the references of a statement, by the numbers of the references. All of them show the same moment.
pub(super) async fn of_statement(
    session: &Session,
    references: &[TableReference],
) -> Result<HashMap<usize, Arc<dyn TableProvider>>> {
    let view = |one: &TableReference| perigee_catalog_views::find(&one.schema, &one.table);
    let views: Vec<_> = references
        .iter()
        .enumerate()
        .filter_map(|(number, one)| Some((number, view(one)?)))
        .collect();
    if views.is_empty() {
        return Ok(HashMap::new());
    }
    let facts = facts(session).await?;
    let table = |(number, view)| Ok((number, table(view, &facts)?));
    views.into_iter().map(table).collect()
}

/// What the server knows now.
async fn facts(session: &Session) -> Result<Facts> {
    let engine = &session.frontend.engine;
    let mut schemas = engine.schemas();
    schemas.sort();
    let mut tables = Vec::new();
    for schema in &schemas {
        let mut found = engine.tables(schema);
        found.sort_by(|a, b| a.def.name.cmp(&b.def.name));
        for table in found {
            interrupt::check()?;
            engine.look_at_size(&table).await?;
            let next_number = show::next_number(session, &table).await?;
            tables.push(TableFacts { table, next_number });
        }
    }
    let global_variables = named(&session.frontend.globals.read());
    let connections = session
        .info
        .connections
        .list()
        .into_iter()
        .map(|process| Connection {
            id: process.id,
            user: process.user,
            host: process.host,
            schema: process.schema,
            command: process.command,
            seconds: process.seconds,
            statement: process.statement,
        });
    Ok(Facts {
        schemas,
        tables,
        connections: connections.collect(),
        session_variables: named(&session.variables),
        global_variables,
        session_status: counters(session, Scope::Session).await,
        global_status: counters(session, Scope::Global).await,
    })
}

fn named(variables: &Variables) -> Vec<NamedValue> {
    let named = |(name, value): (&str, &str)| NamedValue {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    variables.all().map(named).collect()
}

async fn counters(session: &Session, scope: Scope) -> Vec<NamedValue> {
    let counters = table_status::counters(session, scope).await.into_iter();
    let named = |(name, value): (String, u64)| NamedValue {
        name,
        value: value.to_string(),
    };
    counters.map(named).collect()
}

/// A view with its rows.
fn table(view: &dyn View, facts: &Facts) -> Result<Arc<dyn TableProvider>> {
    let schema = table_schema(&view.definition());
    let rows = view.rows(facts);
    let batch = batch(&schema, &rows)?;
    let table = MemTable::try_new(schema, vec![vec![batch]]);
    Ok(Arc::new(table.map_err(SqlError::unknown)?))
}

fn batch(schema: &SchemaRef, rows: &[Vec<Datum>]) -> Result<RecordBatch> {
    let columns = schema.fields().iter().enumerate().map(|(number, field)| {
        let column: Vec<Datum> = rows.iter().map(|row| row[number].clone()).collect();
        values::array(field.data_type(), &column)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    RecordBatch::try_new(schema.clone(), columns).map_err(SqlError::unknown)
}
