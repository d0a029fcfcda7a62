//! SHOW and DESCRIBE.

use perigee_accounts::Privileges;
use perigee_catalog_views::describe::{self, Key, KeyPart};
use perigee_engine::catalog::{ColumnDef, ColumnDefault, Table, TableDef};
use perigee_value::{Charset, Collation, ColumnType, LikePattern, Zone};
use sqlparser::ast::ObjectName;
use std::fmt::Write;

use super::ddl::quoted;
use super::program::{create_procedure, create_trigger, procedures, triggers};
use super::rowset::{Cell, Rowset, text};
use super::stored_view::create_view;
use super::{Session, accounts, table_status};
use crate::error::{Result, SqlError};
use crate::parse::{Filter, Scope, Show};
use crate::result::{ResultColumn, ResultSink};

/// Runs a SHOW.
pub(super) async fn run(session: &mut Session, show: Show, out: &mut dyn ResultSink) -> Result<()> {
    let rowset = match show {
        Show::Schemas(filter) => schemas(session, filter.as_ref())?,
        Show::Tables {
            full,
            schema,
            filter,
        } => tables(session, full, schema, filter.as_ref())?,
        Show::Columns {
            full,
            table,
            schema,
            filter,
        } => columns(
            session,
            &definition_of(session, &table, schema)?,
            full,
            filter.as_ref(),
        )?,
        Show::Indexes {
            table,
            schema,
            filter,
        } => {
            let mut rows = indexes(session, &table, schema).await?;
            rows.filter(filter.as_ref())?;
            rows
        }
        Show::CreateView(name) => shown_view(session, &name)?,
        Show::CreateProcedure(name) => create_procedure(session, &name)?,
        Show::CreateTrigger(name) => create_trigger(session, &name)?,
        Show::Triggers {
            columns,
            schema,
            filter,
        } => {
            let schema = schema_or_current(session, schema)?;
            triggers(session, columns, &schema, filter.as_ref())?
        }
        Show::Procedures(columns, filter) => procedures(session, columns, filter.as_ref())?,
        Show::CreateTable(name) if is_view(session, &name)? => shown_view(session, &name)?,
        Show::CreateTable(name) => {
            session.check_whole(&name)?;
            let def = definition_of(session, &name, None)?;
            let next = match session.named_table(&name) {
                Ok(table) => next_number(session, &table).await?,
                // Nobody numbers the rows of a view.
                Err(_) => None,
            };
            let mut rows = Rowset::new(&["Table", "Create Table"]);
            rows.push(vec![
                text(&def.name),
                text(create_table(&def, next, session.zone())),
            ]);
            rows
        }
        Show::CreateSchema {
            name,
            if_not_exists,
        } => shown_schema(session, &name, if_not_exists)?,
        Show::Variables(scope, filter) => variables(session, scope, filter.as_ref())?,
        Show::Status(scope, filter) => {
            table_status::status(session, scope, filter.as_ref()).await?
        }
        Show::Warnings { errors, count } => warnings(session, errors, count),
        Show::Engines => table_status::engines(),
        Show::Collations(filter) => table_status::collations(filter.as_ref())?,
        Show::CharacterSets(filter) => table_status::character_sets(filter.as_ref())?,
        Show::TableStatus { schema, filter } => {
            let schema = schema_or_current(session, schema)?;
            let mut rows = statuses(session, &schema).await?;
            rows.filter(filter.as_ref())?;
            rows
        }
        Show::Processes { full } => table_status::processes(session, full),
        Show::Grants { account, using } => {
            accounts::show_grants(session, account.as_ref(), &using)?
        }
        Show::CreateUser(user) => accounts::create_user(session, &user)?,
        Show::Nothing(columns) => Rowset::new(columns),
    };
    let warnings = session.warning_count();
    rowset.send(warnings, out).await
}

/// Runs a DESCRIBE.
pub(super) async fn describe(
    session: &mut Session,
    table: &ObjectName,
    column: Option<&str>,
    out: &mut dyn ResultSink,
) -> Result<()> {
    let table = definition_of(session, table, None)?;
    let filter = column.map(|column| Filter::Like(column.to_owned()));
    columns(session, &table, false, filter.as_ref())?
        .send(0, out)
        .await
}

impl Session {
    /// Describes the columns of a table of the current schema whose names match a LIKE pattern
    /// (empty: all), for clients that complete names.
    ///
    /// # Errors
    /// 1044, 1046, 1142, 1146.
    pub fn field_list(&mut self, table: &str, pattern: &str) -> Result<Vec<ResultColumn>> {
        self.renew_rights()?;
        let schema = schema_or_current(self, None)?;
        self.check_visible(&schema, &table.to_lowercase())?;
        let def = self.definition(&schema, &table.to_lowercase())?;
        let pattern = if pattern.is_empty() { "%" } else { pattern };
        let pattern = LikePattern::new(&pattern.to_lowercase(), '\\');
        let columns = def.own_columns().iter().enumerate();
        let columns =
            columns.filter(|(_, column)| pattern.matches(column.name.to_lowercase().as_bytes()));
        let columns = columns.filter(|(_, column)| self.shown_privileges(&def, column).is_some());
        let described = columns.map(|(i, column)| {
            let key = describe::key(&def, i as u16);
            ResultColumn {
                name: column.name.clone(),
                org_name: column.name.clone(),
                table: def.name.clone(),
                schema: schema.clone(),
                ty: Some(column.ty),
                members: column.members.clone(),
                not_null: !column.nullable,
                primary_key: key == "PRI",
                unique_key: key == "UNI",
                multiple_key: key == "MUL",
            }
        });
        Ok(described.collect())
    }
}

fn known_schema(session: &Session, name: &str) -> Result<String> {
    let schema = name.to_lowercase();
    session.check_schema_visible(&schema)?;
    if session.has_schema(&schema) {
        return Ok(schema);
    }
    Err(SqlError::unknown_schema(name))
}

fn schema_or_current(session: &Session, name: Option<String>) -> Result<String> {
    match (name, session.schema()) {
        (Some(name), _) => known_schema(session, &name),
        (None, Some(schema)) => known_schema(session, schema),
        (None, None) => Err(SqlError::no_schema_selected()),
    }
}

/// What a table or a view of the server looks like.
fn definition_of(
    session: &Session,
    table: &ObjectName,
    schema: Option<String>,
) -> Result<TableDef> {
    let (own, name) = names_of(session, table, schema.as_deref())?;
    session.check_visible(&own, &name)?;
    session.definition(&own, &name)
}

fn table_of(
    session: &Session,
    table: &ObjectName,
    schema: Option<String>,
) -> Result<std::sync::Arc<Table>> {
    let (schema, name) = names_of(session, table, schema.as_deref())?;
    session.check_visible(&schema, &name)?;
    session.table(&schema, &name)
}

/// Schema and name of a table, in lower case; FROM says the schema of a name without one, or another one.
fn names_of(session: &Session, table: &ObjectName, from: Option<&str>) -> Result<(String, String)> {
    let Some(schema) = from else {
        return session.resolve(table);
    };
    let name = match table.0.len() {
        1 => table.0[0].to_string().trim_matches('`').to_lowercase(),
        _ => session.resolve(table)?.1,
    };
    Ok((schema.to_lowercase(), name))
}

/// The heading that a LIKE adds to the first column's name.
fn heading(name: &str, filter: Option<&Filter>) -> String {
    match filter {
        Some(Filter::Like(pattern)) => format!("{name} ({pattern})"),
        _ => name.to_owned(),
    }
}

fn schemas(session: &Session, filter: Option<&Filter>) -> Result<Rowset> {
    let mut rows = Rowset::new(&[&heading("Database", filter)]);
    let mut names = session.frontend.engine.schemas();
    names.extend(perigee_catalog_views::SCHEMAS.map(str::to_owned));
    names.sort();
    names.dedup();
    if !session.grants().global().has(Privileges::SHOW_DATABASES) {
        names.retain(|schema| session.sees_schema(schema));
    }
    for name in names {
        rows.push(vec![text(name)]);
    }
    rows.filter(filter)?;
    Ok(rows)
}

fn tables(
    session: &Session,
    full: bool,
    schema: Option<String>,
    filter: Option<&Filter>,
) -> Result<Rowset> {
    let schema = schema_or_current(session, schema)?;
    let first = heading(&format!("Tables_in_{schema}"), filter);
    let mut rows = match full {
        true => Rowset::new(&[&first, "Table_type"]),
        false => Rowset::new(&[&first]),
    };
    let tables = session.frontend.engine.tables(&schema);
    let tables = tables
        .iter()
        .map(|table| (table.def.name.clone(), "BASE TABLE"));
    // Tools that write dumps of all schemas take what is listed as tables of this one.
    let is_hidden = schema == "mysql" && !full;
    let views = perigee_catalog_views::all().filter(|view| view.schema() == schema && !is_hidden);
    let views = views.map(|view| (view.name().to_owned(), "SYSTEM VIEW"));
    let stored = session.frontend.engine.views(&schema).into_iter();
    let stored = stored.map(|view| (view.name.clone(), "VIEW"));
    let names = tables.chain(views).chain(stored);
    let mut names: Vec<_> = names
        .filter(|(name, _)| session.sees_table(&schema, name))
        .collect();
    names.sort();
    for (name, kind) in names {
        let mut row = vec![text(name)];
        if full {
            row.push(text(kind));
        }
        rows.push(row);
    }
    rows.filter(filter)?;
    Ok(rows)
}

fn columns(
    session: &Session,
    def: &TableDef,
    full: bool,
    filter: Option<&Filter>,
) -> Result<Rowset> {
    let names: &[&str] = match full {
        true => &[
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ],
        false => &["Field", "Type", "Null", "Key", "Default", "Extra"],
    };
    let mut rows = Rowset::new(names);
    for (i, column) in def.own_columns().iter().enumerate() {
        let Some(privileges) = session.shown_privileges(def, column) else {
            continue;
        };
        let nullable = text(if column.nullable { "YES" } else { "NO" });
        let key = text(describe::key(def, i as u16));
        let mut row = vec![text(&column.name), text(column.type_text())];
        if full {
            let collation = describe::collation(column);
            row.push(collation.map(|collation| collation.name().to_owned()));
        }
        let extra = describe::extra(def, i);
        row.extend([nullable, key, describe::default_text(column), text(extra)]);
        if full {
            row.extend([text(privileges), text(&column.comment)]);
        }
        rows.push(row);
    }
    rows.filter(filter)?;
    Ok(rows)
}

fn variables(session: &Session, scope: Scope, filter: Option<&Filter>) -> Result<Rowset> {
    let mut rows = Rowset::new(&["Variable_name", "Value"]);
    let globals;
    let variables = match scope {
        Scope::Session | Scope::NextTransaction => &session.variables,
        Scope::Global => {
            globals = session.frontend.globals.read().clone();
            &globals
        }
    };
    for (name, value) in variables.all() {
        rows.push(vec![text(name), text(value)]);
    }
    rows.filter(filter)?;
    Ok(rows)
}

fn warnings(session: &Session, errors: bool, count: bool) -> Rowset {
    let warnings = &session.warnings;
    if count {
        let (name, count) = match errors {
            true => ("#@@session.error_count", warnings.errors()),
            false => ("#@@session.warning_count", warnings.count()),
        };
        let mut rows = Rowset::new(&[name]);
        rows.push(vec![text(count.to_string())]);
        return rows;
    }
    let shown = warnings.kept().filter(|w| !errors || w.level == "Error");
    let mut rows = Rowset::new(&["Level", "#Code", "Message"]);
    for warning in shown {
        rows.push(vec![
            text(warning.level),
            text(warning.code.to_string()),
            text(&warning.message),
        ]);
    }
    rows
}

/// A name as statements that are shown have it.
fn named(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The statement that makes the table, as SHOW CREATE TABLE writes it.
fn create_table(def: &TableDef, next_number: Option<u64>, zone: Zone) -> String {
    let columns = def.own_columns().iter().enumerate();
    let mut lines: Vec<String> = columns
        .map(|(i, column)| column_line(column, def.is_auto_increment(i), def.collation, zone))
        .collect();
    lines.extend(describe::keys(def).map(|key| key_line(def, &key)));
    let keys = def.foreign_keys.iter();
    lines.extend(keys.map(|key| format!("  {}", key.sql(def))));
    for check in &def.checks {
        let enforced = if check.enforced {
            ""
        } else {
            " /*!80016 NOT ENFORCED */"
        };
        let (name, condition) = (named(&check.name), &check.condition);
        lines.push(format!("  CONSTRAINT {name} CHECK ({condition}){enforced}"));
    }
    let temporary = match def.is_temporary() {
        true => "TEMPORARY ",
        false => "",
    };
    let mut out = format!(
        "CREATE {temporary}TABLE {} (\n{}\n)",
        named(&def.name),
        lines.join(",\n")
    );
    out.push_str(" ENGINE=Perigee");
    if let Some(next) = next_number.filter(|next| *next > 1) {
        let _ = write!(out, " AUTO_INCREMENT={next}");
    }
    let (charset, collation) = (def.collation.charset().name(), def.collation.name());
    let _ = write!(out, " DEFAULT CHARSET={charset} COLLATE={collation}");
    if !def.comment.is_empty() {
        let _ = write!(out, " COMMENT={}", quoted(&def.comment));
    }
    out
}

/// SHOW CREATE DATABASE.
fn shown_schema(session: &Session, name: &str, if_not_exists: bool) -> Result<Rowset> {
    let schema = known_schema(session, name)?;
    let mut rows = Rowset::new(&["Database", "Create Database"]);
    let collation = session.frontend.engine.schema_collation(&schema);
    let if_not_exists = match if_not_exists {
        true => "/*!32312 IF NOT EXISTS*/ ",
        false => "",
    };
    let statement = format!(
        "CREATE DATABASE {if_not_exists}{} /*!40100 DEFAULT CHARACTER SET {} COLLATE {} */",
        named(&schema),
        collation.charset().name(),
        collation.name()
    );
    rows.push(vec![text(schema), text(statement)]);
    Ok(rows)
}

/// SHOW TABLE STATUS.
async fn statuses(session: &Session, schema: &str) -> Result<Rowset> {
    let engine = &session.frontend.engine;
    let (mut tables, mut views) = (Vec::new(), Vec::new());
    for table in engine.tables(schema) {
        if session.sees_table(schema, &table.def.name) {
            engine.look_at_size(&table).await?;
            let next = next_number(session, &table).await?;
            tables.push((table, next));
        }
    }
    for view in engine.views(schema) {
        if session.sees_table(schema, &view.name) {
            let seen = session.seen(&view);
            let comment = seen.map_or_else(|why| why.message, |_| "VIEW".to_owned());
            views.push((view, comment));
        }
    }
    Ok(table_status::tables(&tables, &views))
}

/// SHOW INDEX, which a view has none of.
async fn indexes(session: &Session, table: &ObjectName, schema: Option<String>) -> Result<Rowset> {
    let (own, name) = names_of(session, table, schema.as_deref())?;
    if session.named_view(&own, &name).is_some() {
        session.check_visible(&own, &name)?;
        return Ok(table_status::indexes(None));
    }
    let table = table_of(session, table, schema)?;
    session.frontend.engine.look_at_size(&table).await?;
    Ok(table_status::indexes(Some(&table)))
}

/// True for the name of a view.
fn is_view(session: &Session, name: &ObjectName) -> Result<bool> {
    let (schema, name) = session.resolve(name)?;
    Ok(session.named_view(&schema, &name).is_some())
}

/// SHOW CREATE VIEW.
fn shown_view(session: &mut Session, name: &ObjectName) -> Result<Rowset> {
    let (schema, name) = session.resolve(name)?;
    let needed = Privileges::SELECT.with(Privileges::SHOW_VIEW);
    session.check_table(needed, &schema, &name)?;
    let Some(view) = session.stored_view(&schema, &name) else {
        session.table(&schema, &name)?;
        return Err(SqlError::wrong_object(schema, name, "VIEW"));
    };
    let mut rows = Rowset::new(&[
        "View",
        "Create View",
        "character_set_client",
        "collation_connection",
    ]);
    let statement = create_view(&view, session.schema())?;
    rows.push(vec![
        text(&view.name),
        text(statement),
        text(Charset::Utf8mb4.name()),
        text(view.collation.name()),
    ]);
    if let Err(broken) = session.view_columns(&view) {
        session.warn("Warning", &broken);
    }
    Ok(rows)
}

/// What AUTO_INCREMENT hands out next.
pub(super) async fn next_number(session: &Session, table: &Table) -> Result<Option<u64>> {
    let numbers = session.frontend.engine.numbers(table).await?;
    Ok(numbers.map(|numbers| numbers.next()))
}

/// What a column gets without a value, as SHOW CREATE TABLE writes it in a time zone.
fn default_text(column: &ColumnDef, zone: Zone) -> Option<String> {
    match &column.default {
        Some(ColumnDefault::Value(value)) if column.ty.is_timestamp() => {
            let mut text = String::new();
            column.format(value.clone().local_in(zone).as_ref(), &mut text);
            Some(text)
        }
        _ => describe::default_text(column),
    }
}

/// True for a DEFAULT that is written without quotes: CURRENT_TIMESTAMP, and the bits of a BIT.
fn is_plain_default(column: &ColumnDef) -> bool {
    column.default == Some(ColumnDefault::Now) || matches!(column.ty, ColumnType::Bit { .. })
}

fn key_line(def: &TableDef, key: &Key<'_>) -> String {
    let parts = key.columns.iter().enumerate().map(|(number, column)| {
        let part = KeyPart::of(def, *column);
        let mut text = part.name().map_or_else(String::new, named);
        text.push_str(part.expression.unwrap_or_default());
        if let Some(length) = part.length {
            let _ = write!(text, "({length})");
        }
        if key.descending.has(number) {
            text.push_str(" DESC");
        }
        text
    });
    let parts = parts.collect::<Vec<_>>().join(",");
    let invisible = if key.invisible {
        " /*!80000 INVISIBLE */"
    } else {
        ""
    };
    match key.name {
        "PRIMARY" => format!("  PRIMARY KEY ({parts}){invisible}"),
        name => {
            let kind = if key.unique { "UNIQUE KEY" } else { "KEY" };
            format!("  {kind} {} ({parts}){invisible}", named(name))
        }
    }
}

fn column_line(column: &ColumnDef, counts: bool, table: Collation, zone: Zone) -> String {
    let mut line = format!("  {} {}", named(&column.name), column.type_text());
    let is_json = column.ty == ColumnType::Json;
    if let Some(collation) = describe::collation(column) {
        // Its character set is told where it is not the table's.
        if collation.charset() != table.charset() {
            let _ = write!(line, " CHARACTER SET {}", collation.charset().name());
        }
        let _ = write!(line, " COLLATE {}", collation.name());
    }
    if let Some(generated) = &column.generated {
        let kind = if generated.stored {
            "STORED"
        } else {
            "VIRTUAL"
        };
        let expression = &generated.expression;
        let _ = write!(line, " GENERATED ALWAYS AS ({expression}) {kind}");
    }
    if !column.nullable {
        line.push_str(" NOT NULL");
    } else if matches!(column.ty, ColumnType::Timestamp { .. }) {
        line.push_str(" NULL");
    }
    match default_text(column, zone) {
        Some(plain) if is_plain_default(column) => {
            let _ = write!(line, " DEFAULT {plain}");
        }
        Some(default) => {
            let _ = write!(line, " DEFAULT {}", quoted(&default));
        }
        None if column.generated.is_some() => {}
        None if column.nullable && (is_json || !column.ty.is_long()) => {
            line.push_str(" DEFAULT NULL")
        }
        None => {}
    }
    if column.on_update_now {
        let _ = write!(line, " ON UPDATE {}", describe::now_text(column));
    }
    if counts {
        line.push_str(" AUTO_INCREMENT");
    }
    if column.invisible {
        line.push_str(" /*!80023 INVISIBLE */");
    }
    if !column.comment.is_empty() {
        let _ = write!(line, " COMMENT {}", quoted(&column.comment));
    }
    line
}

/// A cell with a number.
pub(super) fn number(v: impl ToString) -> Cell {
    Some(v.to_string())
}
