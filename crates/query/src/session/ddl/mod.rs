//! DDL: statements that change definitions. Each ends the transaction before it, as in MySQL, and
//! takes place wholly or not at all.

mod alter;
mod column;
mod constraints;
mod create_select;
mod draft;
mod keys;
mod modal;
mod options;
mod row_rules;
mod view;

use perigee_accounts::Privileges;
use perigee_engine::catalog::{AutoIncrement, Check, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_engine::{EngineError, TableName, freeing_space};
use perigee_value::{Collation, Zone};
use sqlparser::ast::{ColumnDef, CreateTable, CreateTableLikeKind, ObjectName};

use super::Session;
use crate::error::{Result, SqlError};
use crate::parse::{Collating, Ddl, Piece, Position};
use crate::result::OkResult;
use draft::{Draft, Filling};
use modal::modal_definition;

pub(super) use column::quoted;
pub(super) use view::{Failed, definer};

/// Longest name, as in MySQL.
const MAX_NAME: usize = 64;

/// Runs a statement.
pub(super) async fn run(
    session: &mut Session,
    statement: Ddl,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let affected_rows = match statement {
        Ddl::CreateSchema {
            name,
            if_not_exists,
            collating,
        } => create_schema(session, &name, if_not_exists, collating).await?,
        Ddl::AlterSchema { name, collating } => {
            alter_schema(session, name.as_deref(), collating).await?
        }
        Ddl::DropSchema { name, if_exists } => {
            freeing_space(Box::pin(drop_schema(session, &name, if_exists, cancel))).await?
        }
        Ddl::CreateTable(table) => return create_table(session, *table, piece, cancel).await,
        Ddl::DropTables {
            temporary,
            if_exists,
            names,
        } => {
            let how = (temporary, if_exists);
            freeing_space(Box::pin(drop_tables(session, how, &names, cancel))).await?
        }
        Ddl::CreateView(statement) => {
            view::create(session, *statement).await?;
            0
        }
        Ddl::DropViews { if_exists, names } => {
            view::drop(session, if_exists, &names).await?;
            0
        }
        Ddl::AlterTable { name, clauses } => {
            return alter::run(session, &name, clauses, cancel).await;
        }
        Ddl::RenameTables(renames) => rename_tables(session, &renames, cancel).await?,
        Ddl::Truncate(name) => {
            let table = session.lock_exclusively(&name, cancel).await?;
            let (engine, checks) = (&session.frontend.engine, session.checks_foreign_keys());
            freeing_space(Box::pin(engine.truncate_table(table, checks))).await?;
            0
        }
    };
    Ok(OkResult {
        affected_rows,
        ..OkResult::default()
    })
}

async fn create_schema(
    session: &mut Session,
    name: &str,
    if_not_exists: bool,
    collating: Collating,
) -> Result<u64> {
    let schema = checked_name(name)?;
    let collation = match collating.said()? {
        Some(collation) => options::texts(collation)?,
        None => session.variables.collation_of("collation_server"),
    };
    let created = match perigee_catalog_views::is_schema(&schema) {
        true => Err(EngineError::SchemaExists(schema.clone())),
        false => {
            let engine = &session.frontend.engine;
            engine.create_schema_of(&schema, collation).await
        }
    };
    match created {
        Err(EngineError::SchemaExists(_)) if if_not_exists => {
            session.warn("Note", &SqlError::schema_exists(schema));
            Ok(1)
        }
        outcome => outcome.map(|()| 1).map_err(SqlError::from),
    }
}

/// Gives tables that a schema is to get another collation.
async fn alter_schema(
    session: &mut Session,
    name: Option<&str>,
    collating: Collating,
) -> Result<u64> {
    let schema = match name {
        Some(name) => name.to_lowercase(),
        None => session
            .schema
            .clone()
            .ok_or_else(SqlError::no_schema_selected)?,
    };
    session.check_own(&schema)?;
    if let Some(collation) = collating.said()? {
        let collation = options::texts(collation)?;
        let altered = session.frontend.engine.alter_schema(&schema, collation);
        altered.await.map_err(|error| match error {
            EngineError::NoSuchSchema(_) => SqlError::unknown_schema(&schema),
            other => other.into(),
        })?;
    }
    Ok(1)
}

/// Returns the number of tables that were dropped.
async fn drop_schema(
    session: &mut Session,
    name: &str,
    if_exists: bool,
    cancel: &CancelToken,
) -> Result<u64> {
    let schema = name.to_lowercase();
    session.check_own(&schema)?;
    match session
        .frontend
        .engine
        .drop_schema(
            &schema,
            session.checks_foreign_keys(),
            &session.table_locker(cancel),
        )
        .await
    {
        Ok(tables) => {
            if session.schema.as_deref() == Some(&schema) {
                session.schema = None;
            }
            Ok(tables as u64)
        }
        Err(EngineError::NoSuchSchema(_)) => {
            let error = SqlError::drop_unknown_schema(name);
            if !if_exists {
                return Err(error);
            }
            session.warn("Note", &error);
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

async fn drop_tables(
    session: &mut Session,
    (only_temporary, if_exists): (bool, bool),
    names: &[ObjectName],
    cancel: &CancelToken,
) -> Result<u64> {
    let mut tables = Vec::new();
    for name in names {
        let (schema, name) = session.resolve(name)?;
        session.check_own(&schema)?;
        tables.push(TableName { schema, name });
    }
    let given = tables.clone();
    let mut temporary = Vec::new();
    // Everybody locks tables in this order.
    tables.sort();
    for pair in tables.windows(2) {
        if pair[0] == pair[1] {
            return Err(SqlError::duplicate_alias(&pair[0].name));
        }
    }
    let engine = session.frontend.engine.clone();
    let locker = session.table_locker(cancel);
    let (mut locked, mut missing) = (Vec::new(), Vec::new());
    for name in tables {
        if let Some(table) = session.temporary(&name.schema, &name.name) {
            temporary.push(table);
            continue;
        }
        if only_temporary {
            missing.push(name);
            continue;
        }
        match engine.lock_exclusively(&name, &locker).await {
            Ok(table) => locked.push(table),
            Err(EngineError::NoSuchTable(_) | EngineError::NoSuchSchema(_)) => missing.push(name),
            Err(error) => return Err(error.into()),
        }
    }
    if !missing.is_empty() {
        // As in MySQL 8, nothing is dropped if one of the tables is missing.
        let missing = given.iter().filter(|name| missing.contains(name));
        let missing: Vec<_> = missing.map(ToString::to_string).collect();
        let error = SqlError::unknown_table(missing.join(","));
        if !if_exists {
            return Err(error);
        }
        session.warn("Note", &error);
    }
    if !locked.is_empty() {
        let checks = session.checks_foreign_keys();
        engine.drop_tables(locked, checks).await?;
    }
    for table in temporary {
        session.temporaries.remove(&table);
    }
    Ok(0)
}

async fn rename_tables(
    session: &Session,
    renames: &[(ObjectName, ObjectName)],
    cancel: &CancelToken,
) -> Result<u64> {
    let mut resolved = Vec::new();
    for (from, to) in renames {
        let (schema, name) = session.resolve(from)?;
        let to = new_name(session, to)?;
        if to.schema != schema && session.stored_view(&schema, &name).is_some() {
            return Err(SqlError::view_schema_change(schema, to.schema));
        }
        resolved.push((TableName { schema, name }, to));
    }
    let engine = &session.frontend.engine;
    let locker = session.table_locker(cancel);
    let renamed = engine.rename_tables(&resolved, &locker).await;
    renamed.map_err(name_error)?;
    Ok(0)
}

/// A name that a table may be given.
pub(super) fn new_name(session: &Session, name: &ObjectName) -> Result<TableName> {
    let (schema, name) = session.resolve(name)?;
    session.check_own(&schema)?;
    let name = checked_name(&name)?;
    Ok(TableName { schema, name })
}

/// What a variable of a program is, as a column.
pub(super) fn variable_definition(
    column: &ColumnDef,
    otherwise: Collation,
    zone: Zone,
) -> Result<perigee_engine::catalog::ColumnDef> {
    column::column_definition(column, otherwise, zone).map(|definition| definition.column)
}

/// An error about a table's name.
pub(super) fn name_error(error: EngineError) -> SqlError {
    match error {
        EngineError::TableExists(name) => {
            let table = name.rsplit('.').next().unwrap_or(&name).to_owned();
            SqlError::table_exists(table)
        }
        other => other.into(),
    }
}

fn checked_name(name: &str) -> Result<String> {
    if name.is_empty() || name.ends_with(' ') || name.chars().count() > MAX_NAME {
        return Err(SqlError::not_supported(format!("the name '{name}'")));
    }
    if name.contains(crate::access::NUMBER_SEPARATOR) || name.contains('\0') {
        return Err(SqlError::not_supported(format!("the name '{name}'")));
    }
    Ok(name.to_lowercase())
}

async fn create_table(
    session: &mut Session,
    table: CreateTable,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let (schema, name) = session.resolve(&table.name)?;
    if table.if_not_exists && perigee_catalog_views::find(&schema, &name).is_some() {
        session.warn("Note", &SqlError::table_exists(&name));
        return Ok(OkResult::default());
    }
    let TableName { schema, name } = new_name(session, &table.name)?;
    if perigee_catalog_views::is_schema(&schema) {
        return Err(session.schema_denied(&schema));
    }
    if !session.has_schema(&schema) {
        return Err(SqlError::unknown_schema(schema));
    }
    let if_not_exists = table.if_not_exists;
    let is_there = match table.temporary {
        true => session.has_temporary(&schema, &name),
        false => {
            session.base_table(&schema, &name).is_ok()
                || session.stored_view(&schema, &name).is_some()
        }
    };
    let outcome = match is_there {
        true => Err(SqlError::table_exists(&name)),
        false => create_new(session, TableName { schema, name }, table, piece, cancel).await,
    };
    match outcome {
        Err(error) if if_not_exists && error.errno == SqlError::table_exists("").errno => {
            session.warn("Note", &error);
            Ok(OkResult::default())
        }
        outcome => outcome,
    }
}

async fn create_new(
    session: &mut Session,
    name: TableName,
    mut table: CreateTable,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    check_kind(&table)?;
    let query = table.query.take();
    let home = table
        .temporary
        .then(|| session.temporaries.schema(&name.schema));
    let def = match &table.like {
        Some(CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) => {
            definition_like(session, name, &like.name)?
        }
        None => {
            let draft = draft(session, name, &table)?;
            if let Some(query) = query {
                refuse(
                    draft.has_foreign_keys(),
                    "FOREIGN KEY in CREATE TABLE … SELECT",
                )?;
                let draft = (draft, home);
                return create_select::run(session, draft, query, piece, cancel).await;
            }
            if table.columns.is_empty() {
                return Err(SqlError::no_columns());
            }
            draft.finish()?.0
        }
    };
    if let Some(schema) = home {
        let def = TableDef { schema, ..def };
        check_temporary(&def)?;
        session.temporaries.create(def).await?;
        return Ok(OkResult::default());
    }
    let (checks, locker) = (session.checks_foreign_keys(), session.table_locker(cancel));
    let engine = &session.frontend.engine;
    let created = engine.create_related_table(def, checks, &locker).await;
    created.map_err(name_error)?;
    Ok(OkResult::default())
}

/// Checks what a temporary table may not have.
///
/// # Errors
/// 1215.
fn check_temporary(def: &TableDef) -> Result<()> {
    match def.is_temporary() && !def.foreign_keys.is_empty() {
        true => Err(SqlError::cannot_add_foreign_key()),
        false => Ok(()),
    }
}

fn unsupported<T>(feature: impl std::fmt::Display) -> Result<T> {
    Err(SqlError::not_supported(feature))
}

fn refuse(present: bool, feature: &str) -> Result<()> {
    if present {
        unsupported(feature)
    } else {
        Ok(())
    }
}

fn check_kind(table: &CreateTable) -> Result<()> {
    refuse(table.or_replace, "CREATE OR REPLACE TABLE")?;
    refuse(table.clone.is_some(), "CREATE TABLE … CLONE")?;
    refuse(table.partition_by.is_some(), "PARTITION BY")?;
    refuse(
        table.external || table.transient || table.volatile || table.global.is_some(),
        "this kind of table",
    )?;
    refuse(
        table.inherits.is_some() || table.on_commit.is_some(),
        "this kind of table",
    )
}

/// What a statement says itself of a table.
fn draft(session: &mut Session, name: TableName, table: &CreateTable) -> Result<Draft> {
    let collation = session.frontend.engine.schema_collation(&name.schema);
    let mut draft = Draft::new(name.schema, name.name, collation);
    options::table_options(session, table, &mut draft)?;
    for column in &table.columns {
        let definition = modal_definition(column, draft.collation, session)?;
        draft.add_column(definition, &Position::Unsaid, &Filling::of(session))?;
        constraints::of_column(&mut draft, column)?;
    }
    for constraint in &table.constraints {
        constraints::add(session, &mut draft, constraint)?;
    }
    Ok(draft)
}

/// The definition of another table under another name.
fn definition_like(session: &Session, name: TableName, like: &ObjectName) -> Result<TableDef> {
    session.check_named(Privileges::SELECT, like)?;
    let names = session.resolve(like)?;
    let like = session.table(&names.0, &names.1)?;
    if names == (name.schema.clone(), name.name.clone()) {
        return Err(SqlError::duplicate_alias(&name.name));
    }
    let auto = like.def.auto_increment;
    // Their names are unique in the schema.
    let checks = (1..).zip(&like.def.checks).map(|(number, check)| Check {
        name: format!("{}_chk_{number}", name.name),
        ..check.clone()
    });
    Ok(TableDef {
        auto_increment: auto.map(|auto| AutoIncrement { start: 1, ..auto }),
        checks: checks.collect(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        schema: name.schema,
        name: name.name,
        ..like.def.clone()
    })
}

impl Session {
    /// True if foreign keys are checked.
    pub(super) fn checks_foreign_keys(&self) -> bool {
        self.variables.is_on("foreign_key_checks")
    }

    /// The table of a name, locked exclusively.
    pub(super) async fn lock_exclusively(
        &self,
        name: &ObjectName,
        cancel: &CancelToken,
    ) -> Result<perigee_engine::ExclusiveTable> {
        let (schema, name) = self.resolve(name)?;
        let table = self.stored_name(schema, name);
        let locker = self.table_locker(cancel);
        let locked = self.frontend.engine.lock_exclusively(&table, &locker);
        let locked = locked.await;
        locked.map_err(|e| match e {
            EngineError::NoSuchTable(_) => self.no_table(&table.schema, &table.name),
            other => other.into(),
        })
    }
}
