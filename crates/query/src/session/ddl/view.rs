//! CREATE, ALTER and DROP VIEW.

use perigee_accounts::Privileges;
use perigee_engine::catalog::ViewDef;
use perigee_engine::{EngineError, TableName};
use perigee_sql_bind::query::Column;
use sqlparser::ast::ObjectName;

use super::{MAX_NAME, new_name};
use crate::error::{Result, SqlError};
use crate::parse::{CreateView, Script, UserName};
use crate::session::stored_view::{self, resolved};
use crate::session::{Session, bound};

/// Bytes of a query that is read as one of a view; what is kept has to fit into a record of the catalog.
const MAX_TEXT: usize = 64 << 10;

/// An error of a change, which may also be the engine's.
pub(in crate::session) struct Failed(pub SqlError);

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Self {
        Self(super::name_error(error))
    }
}

impl From<SqlError> for Failed {
    fn from(error: SqlError) -> Self {
        Self(error)
    }
}

/// Makes a view, or changes it.
pub(super) async fn create(session: &mut Session, statement: CreateView) -> Result<()> {
    let name = new_name(session, &statement.name)?;
    if !session.has_schema(&name.schema) {
        return Err(SqlError::unknown_schema(&name.schema));
    }
    let definer = definer(session, statement.definer.as_ref())?;
    let view = view(session, &name, &statement)?;
    if (statement.replace || statement.alter)
        && session.base_table(&name.schema, &name.name).is_ok()
    {
        return Err(SqlError::wrong_object(&name.schema, &name.name, "VIEW"));
    }
    let make = |old: Option<&ViewDef>| match (old, statement.alter) {
        (Some(_), false) if !statement.replace => Err(SqlError::table_exists(&name.name).into()),
        (None, true) => Err(SqlError::no_such_table(&name.schema, &name.name).into()),
        (old, alter) => {
            // ALTER VIEW keeps what it does not say.
            let old = old.filter(|_| alter);
            let own = &session.info.account;
            let own = || (own.user().to_owned(), own.host().to_owned());
            let kept = || old.map(|old| old.definer.clone());
            Ok(ViewDef {
                algorithm: statement
                    .algorithm
                    .or(old.map(|old| old.algorithm))
                    .unwrap_or_default(),
                invoker: statement
                    .invoker
                    .or(old.map(|old| old.invoker))
                    .unwrap_or_default(),
                definer: definer.or_else(kept).unwrap_or_else(own),
                ..view
            })
        }
    };
    let made: std::result::Result<(), Failed> = session.frontend.engine.put_view(&name, make).await;
    made.map_err(|Failed(error)| error)
}

/// User and host of DEFINER.
///
/// # Errors
/// 1227 if it is not the session's account, and that may not act for others.
pub(in crate::session) fn definer(
    session: &mut Session,
    name: Option<&UserName>,
) -> Result<Option<(String, String)>> {
    let name = match name {
        None => return Ok(None),
        Some(UserName::Current) => session.info.account.clone(),
        Some(UserName::Named(name)) => name.clone(),
    };
    if name != session.info.account {
        session.check_server(Privileges::SUPER)?;
    }
    let (_, accounts) = session.frontend.accounts_now()?;
    if accounts.get(&name).is_none() {
        let note = SqlError::no_such_definer(name.user(), name.host());
        session.warn("Note", &note);
    }
    Ok(Some((name.user().to_owned(), name.host().to_owned())))
}

/// The view with what its query means.
fn view(session: &Session, name: &TableName, statement: &CreateView) -> Result<ViewDef> {
    if statement.query.len() > MAX_TEXT {
        let text = format!("a view whose text has more than {MAX_TEXT} bytes");
        return Err(SqlError::not_supported(text));
    }
    let script = Script::new(&statement.query)?;
    let piece = script.pieces().next().ok_or_else(SqlError::empty_query)?;
    stored_view::check_constant(piece)?;
    let query = stored_view::parsed(&statement.query)?;
    let (bound, noted) = bound::view(session, &query, piece, name)?;
    let columns = match statement.columns.is_empty() {
        true => {
            let columns = bound.body.columns.iter();
            columns.map(|column| column.name.to_string()).collect()
        }
        false => statement.columns.clone(),
    };
    check_columns(&columns, bound.body.columns.len())?;
    let view = ViewDef {
        schema: name.schema.clone(),
        name: name.name.clone(),
        columns,
        named: !statement.columns.is_empty(),
        query: resolved(piece, &noted)?,
        collation: session.variables.collation(),
        algorithm: Default::default(),
        definer: Default::default(),
        invoker: true,
        check: statement.check,
    };
    // What is kept has to mean the same wherever it is read.
    let types =
        |columns: &[Column]| -> Vec<_> { columns.iter().map(|column| column.ty.column).collect() };
    let again = match bound::view_rows(session, &view) {
        Ok(again) if types(&again.sources[0].columns) == types(&bound.body.columns) => again,
        _ => return Err(SqlError::not_supported("this query as a view")),
    };
    if view.check != Default::default() && again.sources[0].references.is_empty() {
        return Err(SqlError::check_not_updatable(&view.schema, &view.name));
    }
    Ok(view)
}

fn check_columns(columns: &[String], count: usize) -> Result<()> {
    if columns.len() != count {
        return Err(SqlError::column_list());
    }
    let mut seen = std::collections::HashSet::new();
    for column in columns {
        if column.is_empty() || column.ends_with(' ') || column.chars().count() > MAX_NAME {
            return Err(SqlError::wrong_column_name(column));
        }
        if !seen.insert(column.to_lowercase()) {
            return Err(SqlError::duplicate_column(column));
        }
    }
    Ok(())
}

/// Drops views, all or none.
pub(super) async fn drop(
    session: &mut Session,
    if_exists: bool,
    names: &[ObjectName],
) -> Result<()> {
    let mut views: Vec<TableName> = Vec::new();
    for name in names {
        let (schema, name) = session.resolve(name)?;
        session.check_own(&schema)?;
        let name = TableName { schema, name };
        if views.contains(&name) {
            return Err(SqlError::duplicate_alias(&name.name));
        }
        views.push(name);
    }
    for name in &views {
        if session.base_table(&name.schema, &name.name).is_ok() {
            return Err(SqlError::wrong_object(&name.schema, &name.name, "VIEW"));
        }
    }
    let mut note = None;
    let check = |missing: &[&TableName]| {
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let error = SqlError::unknown_table(missing.join(","));
        match if_exists {
            true => note = Some(error),
            false => return Err(Failed(error)),
        }
        Ok(())
    };
    let engine = session.frontend.engine.clone();
    let dropped = engine.drop_views(&views, check).await;
    dropped.map_err(|Failed(error)| error)?;
    if let Some(note) = note {
        session.warn("Note", &note);
    }
    Ok(())
}
