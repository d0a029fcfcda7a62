//! The tables that the server makes of what it knows, such as `information_schema.tables`: the facts that a statement's
//! views are made of, and the views as DataFusion sees them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use perigee_accounts::{Accounts, Privileges};
use perigee_catalog_views::{
    Connection, Facts, NamedValue, RoleFacts, TableFacts, View, ViewFacts,
};
use perigee_value::Datum;

use super::variables::Variables;
use super::{Session, program, show, table_status};
use crate::access::{TableReference, table_schema};
use crate::error::{Result, SqlError};
use crate::parse::Scope;
use crate::{interrupt, values};

/// Those that tell of the views of users, each of which has to be bound for that.
const OF_VIEWS: [&str; 3] = ["COLUMNS", "TABLES", "VIEWS"];

/// Those that tell of digests, of which there may be many.
const OF_DIGESTS: [&str; 1] = ["events_statements_summary_by_digest"];

/// Those that tell of procedures, whose texts have to be read for that.
const OF_ROUTINES: [&str; 2] = ["PARAMETERS", "ROUTINES"];

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
    let tell_of = |names: &[&str]| views.iter().any(|(_, view)| names.contains(&view.name()));
    let mut facts = facts(session, tell_of(&OF_VIEWS), tell_of(&OF_ROUTINES)).await?;
    // Statements of others are shown to those who see their connections.
    if tell_of(&OF_DIGESTS) && session.grants().global().has(Privileges::PROCESS) {
        facts.digests = session.frontend.digests.facts();
    }
    let table = |(number, view)| Ok((number, table(view, &facts)?));
    views.into_iter().map(table).collect()
}

/// What the server knows now, of views of users and of procedures if they are wanted.
async fn facts(session: &Session, with_views: bool, with_routines: bool) -> Result<Facts> {
    let engine = &session.frontend.engine;
    let mut schemas = engine.schemas();
    if !session.grants().global().has(Privileges::SHOW_DATABASES) {
        schemas.retain(|schema| session.sees_schema(schema));
    }
    schemas.sort();
    let mut view_schemas = perigee_catalog_views::SCHEMAS.to_vec();
    view_schemas.retain(|schema| session.sees_schema(schema));
    let mut tables = Vec::new();
    for schema in &schemas {
        let mut found = engine.tables(schema);
        found.sort_by(|a, b| a.def.name.cmp(&b.def.name));
        found.retain(|table| session.sees_table(schema, &table.def.name));
        for table in found {
            interrupt::check()?;
            engine.look_at_size(&table).await?;
            let next_number = show::next_number(session, &table).await?;
            tables.push(TableFacts { table, next_number });
        }
    }
    let views = match with_views {
        true => stored_views(session, &schemas)?,
        false => Vec::new(),
    };
    let global_variables = named(&session.frontend.globals.read());
    let connections = session
        .info
        .connections
        .list()
        .into_iter()
        .filter(|process| session.sees_connections_of(&process.user))
        .map(|process| Connection {
            id: process.id,
            user: process.user,
            host: process.host,
            schema: process.schema,
            command: process.command,
            seconds: process.seconds,
            statement: process.statement,
        });
    let schemas = schemas.into_iter().map(|schema| {
        let collation = engine.schema_collation(&schema);
        (schema, collation)
    });
    let schemas = schemas.collect();
    Ok(Facts {
        view_schemas,
        accounts: accounts(session)?,
        grants: match session.grants() {
            grants if grants.has_all_tables() => None,
            grants => Some(grants.clone()),
        },
        roles: RoleFacts {
            accounts: session.frontend.accounts()?,
            account: Some(session.info.account.clone()),
            active: session.active_roles().to_vec(),
            mandatory: session.frontend.mandatory_roles(),
        },
        schemas,
        tables,
        views,
        routines: match with_routines {
            true => program::facts(session)?,
            false => Vec::new(),
        },
        triggers: program::trigger_facts(session),
        connections: connections.collect(),
        session_variables: named(&session.variables),
        global_variables,
        digests: Vec::new(),
        session_status: counters(session, Scope::Session).await,
        global_status: counters(session, Scope::Global).await,
    })
}

/// The views of users that the session may see.
fn stored_views(session: &Session, schemas: &[String]) -> Result<Vec<ViewFacts>> {
    let mut facts = Vec::new();
    for schema in schemas {
        for def in session.frontend.engine.views(schema) {
            if !session.sees_table(schema, &def.name) {
                continue;
            }
            interrupt::check()?;
            let rights = Privileges::SELECT.with(Privileges::SHOW_VIEW);
            let seen = session.seen(&def);
            facts.push(ViewFacts {
                is_updatable: seen.as_ref().is_ok_and(|(_, updatable)| *updatable),
                columns: seen.map(|(columns, _)| columns).map_err(|why| why.message),
                is_shown: session.check_table(rights, schema, &def.name).is_ok(),
                def,
            });
        }
    }
    Ok(facts)
}

/// The accounts that the session may see: its own, or all.
fn accounts(session: &Session) -> Result<Accounts> {
    let all = session.frontend.accounts()?;
    Ok(match session.sees_accounts() {
        true => all.as_ref().clone(),
        false => all.only(&session.info.account),
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
    let values = table_status::values(session, scope).await.into_iter();
    values
        .map(|(name, value)| NamedValue { name, value })
        .collect()
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
