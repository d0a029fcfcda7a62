//! CREATE and DROP TRIGGER, and triggers as SHOW and `information_schema` write them.

use std::sync::Arc;

use perigee_accounts::{AccountName, Privileges};
use perigee_catalog_views::TriggerFacts;
use perigee_engine::catalog::{Table, TriggerDef};
use perigee_engine::scan::CancelToken;
use perigee_engine::{TableName, Triggers};
use perigee_sql_bind::query::quoted;
use perigee_value::{Charset, ColumnType, Datum, Zone};
use sqlparser::ast::ObjectName;

use super::{fire, text_of};
use crate::error::{Result, SqlError};
use crate::parse::{CreateTrigger, Filter, Order};
use crate::session::Session;
use crate::session::ddl::{Failed, definer, new_name};
use crate::session::rowset::{Cell, Rowset, text};

/// Makes a trigger.
pub(super) async fn create(
    session: &mut Session,
    statement: CreateTrigger,
    cancel: &CancelToken,
) -> Result<()> {
    let name = new_name(session, &statement.name)?;
    let table = base_table(session, &statement.table)?;
    if table.schema != name.schema {
        return Err(SqlError::trigger_in_wrong_schema());
    }
    let definer = definer(session, statement.definer.as_ref())?;
    let own = &session.info.account;
    let own = || (own.user().to_owned(), own.host().to_owned());
    let sql_mode = session.variables.get("sql_mode")?.unwrap_or_default();
    let def = TriggerDef {
        name: name.name.clone(),
        timing: statement.timing,
        event: statement.event,
        body: statement.body,
        definer: definer.unwrap_or_else(own),
        sql_mode: sql_mode.to_owned(),
        connection: session.variables.collation(),
        database: session.frontend.engine.schema_collation(&name.schema),
        created: session.now().utc,
    };
    let _in_use = session.use_definition_of(&statement.table, cancel).await?;
    let locked = session.lock_exclusively(&statement.table, cancel).await?;
    fire::columns(&statement.program, &locked.table().def)?;
    let engine = session.frontend.engine.clone();
    let exists = || engine.trigger(&name.schema, &name.name).is_some();
    let mut note = None;
    let make = |old: &Triggers| match (exists(), statement.if_not_exists) {
        (true, true) => {
            note = Some(SqlError::trigger_exists());
            Ok(None)
        }
        (true, false) => Err(Failed(SqlError::trigger_exists())),
        (false, _) => with(old, def, statement.order).map(Some).map_err(Failed),
    };
    let made = engine.change_triggers(locked, make).await;
    made.map_err(|Failed(error)| error)?;
    if let Some(note) = note {
        session.warn("Note", &note);
    }
    Ok(())
}

/// Triggers with one more.
///
/// # Errors
/// 3011.
fn with(old: &Triggers, def: TriggerDef, order: Option<Order>) -> Result<Triggers> {
    let mut triggers = old.clone();
    let place = match order {
        None => triggers.len(),
        Some(Order { follows, other }) => {
            let is_other = |known: &Arc<TriggerDef>| {
                known.name == other && (known.timing, known.event) == (def.timing, def.event)
            };
            let place = triggers.iter().position(is_other);
            let missing = || SqlError::no_referenced_trigger(&other);
            place.ok_or_else(missing)? + usize::from(follows)
        }
    };
    triggers.insert(place, Arc::new(def));
    Ok(triggers)
}

/// The table of a trigger, which the session may give triggers.
///
/// # Errors
/// 1044, 1142, 1146, 1347, 1361.
fn base_table(session: &Session, name: &ObjectName) -> Result<TableName> {
    let (schema, table) = session.resolve(name)?;
    session.check_own(&schema)?;
    session.check_table(Privileges::TRIGGER, &schema, &table)?;
    if session.stored_view(&schema, &table).is_some() {
        return Err(SqlError::wrong_object(schema, table, "BASE TABLE"));
    }
    if session.table(&schema, &table)?.def.is_temporary() {
        return Err(SqlError::trigger_on_temporary(table));
    }
    Ok(TableName {
        schema,
        name: table,
    })
}

/// Drops a trigger.
pub(super) async fn drop(
    session: &mut Session,
    name: &ObjectName,
    if_exists: bool,
    cancel: &CancelToken,
) -> Result<()> {
    let (schema, name) = session.resolve(name)?;
    session.check_own(&schema)?;
    let engine = session.frontend.engine.clone();
    let Some((table, _)) = engine.trigger(&schema, &name) else {
        let missing = SqlError::no_such_trigger();
        return match if_exists {
            true => {
                session.warn("Note", &missing);
                Ok(())
            }
            false => Err(missing),
        };
    };
    session.check_table(Privileges::TRIGGER, &schema, &table.def.name)?;
    let table = super::named(&TableName::of(&table));
    let _in_use = session.use_definition_of(&table, cancel).await?;
    let locked = session.lock_exclusively(&table, cancel).await?;
    let make = |old: &Triggers| {
        let mut triggers = old.clone();
        triggers.retain(|trigger| trigger.name != name);
        match triggers.len() < old.len() {
            true => Ok(Some(triggers)),
            false => Err(Failed(SqlError::no_such_trigger())),
        }
    };
    let dropped = engine.change_triggers(locked, make).await;
    dropped.map_err(|Failed(error)| error)
}

/// The statement that makes a trigger.
fn statement(table: &Table, trigger: &TriggerDef) -> String {
    let definer = AccountName::new(&trigger.definer.0, &trigger.definer.1).in_backticks();
    let (name, on) = (quoted(&trigger.name), quoted(&table.def.name));
    let (timing, event) = (trigger.timing.name(), trigger.event.name());
    let body = &trigger.body;
    format!("CREATE DEFINER={definer} TRIGGER {name} {timing} {event} ON {on} FOR EACH ROW {body}")
}

/// When a trigger was made, in hundredths of a second.
fn created(trigger: &TriggerDef, zone: Zone) -> Cell {
    let moment = Datum::DateTime(trigger.created - trigger.created.rem_euclid(10_000));
    text_of(&(moment.local_in(zone), ColumnType::DateTime { fsp: 2 }))
}

/// SHOW CREATE TRIGGER.
///
/// # Errors
/// 1360, also for a trigger that may not be seen.
pub(in crate::session) fn create_trigger(session: &Session, name: &ObjectName) -> Result<Rowset> {
    let (schema, name) = session.resolve(name)?;
    let trigger = session.frontend.engine.trigger(&schema, &name);
    let trigger = trigger.filter(|(table, _)| session.sees_triggers(table));
    let (table, trigger) = trigger.ok_or_else(SqlError::no_such_trigger)?;
    let mut rows = Rowset::new(&[
        "Trigger",
        "sql_mode",
        "SQL Original Statement",
        "character_set_client",
        "collation_connection",
        "Database Collation",
        "Created",
    ]);
    rows.push(vec![
        text(&trigger.name),
        text(&trigger.sql_mode),
        text(statement(&table, &trigger)),
        text(Charset::Utf8mb4.name()),
        text(trigger.connection.name()),
        text(trigger.database.name()),
        created(&trigger, session.zone()),
    ]);
    Ok(rows)
}

/// SHOW TRIGGERS.
pub(in crate::session) fn triggers(
    session: &Session,
    columns: &[&str],
    schema: &str,
    filter: Option<&Filter>,
) -> Result<Rowset> {
    let mut rows = Rowset::new(columns);
    for facts in trigger_facts(session) {
        let (table, trigger) = (&facts.table.def, &facts.def);
        if table.schema != schema {
            continue;
        }
        rows.push(vec![
            text(&trigger.name),
            text(trigger.event.name()),
            text(&table.name),
            text(&trigger.body),
            text(trigger.timing.name()),
            created(trigger, facts.zone),
            text(&trigger.sql_mode),
            text(format!("{}@{}", trigger.definer.0, trigger.definer.1)),
            text(Charset::Utf8mb4.name()),
            text(trigger.connection.name()),
            text(trigger.database.name()),
        ]);
    }
    rows.filter_by(2, filter)?;
    Ok(rows)
}

/// The triggers that the session may see, by schema, table, event and time, in the order in which they fire.
pub(in crate::session) fn trigger_facts(session: &Session) -> Vec<TriggerFacts> {
    let engine = &session.frontend.engine;
    let mut schemas = engine.schemas();
    schemas.sort();
    let mut facts: Vec<TriggerFacts> = Vec::new();
    for schema in schemas {
        let mut tables = engine.tables(&schema);
        tables.retain(|table| !table.def.triggers.is_empty() && session.sees_triggers(table));
        tables.sort_by(|a, b| a.def.name.cmp(&b.def.name));
        for table in tables {
            let mut triggers = table.def.triggers.clone();
            triggers.sort_by_key(|trigger| (trigger.event, trigger.timing));
            let mut place = 0;
            for (number, def) in triggers.iter().enumerate() {
                let before = number.checked_sub(1).map(|number| &triggers[number]);
                let goes_on = before
                    .is_some_and(|before| (before.event, before.timing) == (def.event, def.timing));
                place = if goes_on { place + 1 } else { 1 };
                facts.push(TriggerFacts {
                    table: table.clone(),
                    def: def.clone(),
                    place,
                    zone: session.zone(),
                });
            }
        }
    }
    facts
}

impl Session {
    /// True if the triggers of a table may be seen.
    fn sees_triggers(&self, table: &Table) -> bool {
        let (schema, name) = (&table.def.schema, &table.def.name);
        self.check_table(Privileges::TRIGGER, schema, name).is_ok()
    }
}
