//! ALTER TABLE, CREATE INDEX and DROP INDEX.

use perigee_engine::catalog::{Table, TableDef, is_temporary_schema};
use perigee_engine::scan::CancelToken;
use perigee_engine::{Alteration, EngineError, RelatedTables, Source, TableName};
use perigee_sql_bind::Modes;
use perigee_value::{ColumnType, RowError, ValueErrorKind};
use sqlparser::ast::{ObjectName, TableConstraint};

use super::column::set_default;
use super::constraints;
use super::draft::{Draft, Filling};
use super::keys::{self, NewKey};
use super::modal::{check_default, modal_definition};
use super::options::{check_engine, texts};
use super::row_rules::RowRules;
use super::{check_temporary, name_error, new_name};
use crate::error::{Result, SqlError};
use crate::parse::Clause;
use crate::result::OkResult;
use crate::session::Session;
use crate::session::insert::{engine_error, value_error};

/// Runs the clauses of an ALTER TABLE as one change.
pub(super) async fn run(
    session: &mut Session,
    name: &ObjectName,
    clauses: Vec<Clause>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let (schema, table) = session.resolve(name)?;
    if clauses.is_empty() {
        // ENABLE KEYS and its like.
        session.table(&schema, &table)?;
        return Ok(OkResult::default());
    }
    let parents = new_parents(session, &schema, &clauses)?;
    let name = session.stored_name(schema, table);
    let engine = session.frontend.engine.clone();
    let locker = session.table_locker(cancel);
    let locked = engine.lock_with_related(&name, &parents, &locker).await;
    let locked = locked.map_err(|e| match e {
        EngineError::NoSuchTable(_) => session.no_table(&name.schema, &name.name),
        other => other.into(),
    })?;
    let old = locked.table().clone();
    let mut draft = Draft::of(&old.def)?;
    let mut force = false;
    for clause in clauses {
        force |= matches!(clause, Clause::Force);
        apply(session, &mut draft, clause)?;
    }
    keep_start(session, &old, &mut draft).await?;
    let (def, sources) = draft.finish()?;
    check_temporary(&def)?;
    let def = TableDef {
        triggers: old.def.triggers.clone(),
        ..def
    };
    let rules = RowRules::new((&old.def, &def), session.zone(), cancel)?;
    let alteration = Alteration {
        sources,
        zero_is_a_value: session.modes().has(Modes::NO_AUTO_VALUE_ON_ZERO),
        zero_dates: session.zero_dates(),
        zone: session.zone(),
        force,
        checks: session.checks_foreign_keys(),
        row_fill: rules.fill.clone(),
        row_check: rules.check.clone(),
        def,
    };
    let altered = match old.def.is_temporary() {
        true => temporary(session, locked, &alteration, cancel).await?,
        false => engine.alter_table(locked, alteration.clone(), cancel).await,
    };
    let rows = altered.map_err(|e| match rules.error() {
        Some(error) => error,
        None => error(e, &old, &alteration),
    })?;
    Ok(OkResult {
        affected_rows: rows,
        info: format!("Records: {rows}  Duplicates: 0  Warnings: 0"),
        ..OkResult::default()
    })
}

/// Gives a temporary table another definition, for which the session is charged from then on.
///
/// # Errors
/// 1038; the outcome is the engine's.
async fn temporary(
    session: &mut Session,
    locked: RelatedTables,
    alteration: &Alteration,
    cancel: &CancelToken,
) -> Result<std::result::Result<u64, EngineError>> {
    let old = locked.table().def.clone();
    session.temporaries.admit(&alteration.def)?;
    let engine = session.frontend.engine.clone();
    let altered = engine.alter_table(locked, alteration.clone(), cancel).await;
    let gone = if altered.is_ok() {
        &old
    } else {
        &alteration.def
    };
    session.temporaries.release(gone);
    Ok(altered)
}

fn apply(session: &mut Session, draft: &mut Draft, clause: Clause) -> Result<()> {
    match clause {
        Clause::AddColumn(column, position) => {
            let definition = modal_definition(&column, draft.collation, session)?;
            draft.add_column(definition, &position, &Filling::of(session))?;
            constraints::of_column(draft, &column)
        }
        Clause::DropColumn(name) => draft.drop_column(&name),
        Clause::ChangeColumn(old, column, position) => {
            let definition = modal_definition(&column, draft.collation, session)?;
            draft.change_column(&old, definition, &position)?;
            constraints::of_column(draft, &column)
        }
        Clause::RenameColumn(old, new) => draft.rename_column(&old, &new),
        Clause::ColumnDefault(name, value) => {
            let column = draft.column_mut(&name)?;
            if column.generated.is_some() {
                return Err(SqlError::wrong_usage("DEFAULT", "generated column"));
            }
            match value {
                Some(value) => {
                    set_default(column, &value, session.zone())?;
                    check_default(column, session.modes())
                }
                None => {
                    column.default = None;
                    Ok(())
                }
            }
        }
        Clause::AddKey(constraint) => constraints::add(session, draft, &constraint),
        Clause::CreateIndex {
            name,
            unique,
            columns,
            invisible,
        } => draft.add_key(NewKey {
            primary: false,
            unique,
            name: Some(name),
            parts: keys::key_parts(&columns)?,
            invisible,
        }),
        Clause::AlterKey(name, visible) => draft.show_key(&name, visible),
        Clause::AlterColumn(name, visible) => {
            draft.column_mut(&name)?.invisible = !visible;
            Ok(())
        }
        Clause::DropKey(name) => draft.drop_key(&name),
        Clause::DropPrimaryKey => draft.drop_primary_key(),
        Clause::DropForeignKey(name) => match draft.drop_foreign_key(&name) {
            true => Ok(()),
            false => Err(SqlError::cant_drop(name)),
        },
        Clause::DropCheck(name) => match draft.drop_check(&name) {
            true => Ok(()),
            false => Err(SqlError::check_not_found(name)),
        },
        Clause::DropConstraint(name) => draft.drop_constraint(&name),
        Clause::AlterCheck(name, enforced) => match draft.enforce_check(&name, enforced) {
            true => Ok(()),
            false => Err(SqlError::check_not_found(name)),
        },
        Clause::RenameKey(old, new) => draft.rename_key(&old, &new),
        Clause::RenameTable(name) => {
            let name = new_name(session, &name)?;
            draft.schema = match is_temporary_schema(&draft.schema) {
                true => session.temporaries.schema(&name.schema),
                false => name.schema,
            };
            draft.name = name.name;
            Ok(())
        }
        Clause::AutoIncrement(start) => {
            draft.start = Some(start);
            Ok(())
        }
        Clause::Comment(text) => {
            draft.comment = text;
            Ok(())
        }
        Clause::Engine(name) => check_engine(session, &name, &draft.name),
        Clause::Collating(collating) => {
            if let Some(collation) = collating.said()? {
                draft.collation = texts(collation)?;
            }
            Ok(())
        }
        Clause::ConvertTo(collating) => match collating.said()? {
            Some(collation) => draft.convert(texts(collation)?),
            None => Ok(()),
        },
        Clause::Force => Ok(()),
    }
}

/// The tables that new foreign keys refer to.
fn new_parents(session: &Session, schema: &str, clauses: &[Clause]) -> Result<Vec<TableName>> {
    let mut parents = Vec::new();
    for clause in clauses {
        if let Clause::AddKey(constraint) = clause
            && let TableConstraint::ForeignKey(key) = &**constraint
        {
            let (schema, name) = constraints::parent(session, schema, &key.foreign_table)?;
            parents.push(TableName { schema, name });
        }
    }
    Ok(parents)
}

/// Unless the statement says where AUTO_INCREMENT goes on, it goes on where it was.
async fn keep_start(session: &Session, old: &Table, draft: &mut Draft) -> Result<()> {
    if draft.start.is_none() {
        let numbers = session.frontend.engine.numbers(old).await?;
        draft.start = numbers.map(|numbers| numbers.next());
    }
    Ok(())
}

/// An error in the terms of the definition that the table was to get.
fn error(error: EngineError, old: &Table, alteration: &Alteration) -> SqlError {
    let EngineError::Row {
        number,
        error: RowError::Column { column, error },
    } = error
    else {
        return match error {
            EngineError::TableExists(_) | EngineError::NoSuchSchema(_) => name_error(error),
            other => engine_error(other, old, 0),
        };
    };
    let place = usize::from(column);
    let (name, row) = (&alteration.def.columns[place].name, number + 1);
    let new_column = matches!(alteration.sources[place], Source::Value(_));
    match (error.kind, error.ty) {
        // There is no date that rows could get in a new column.
        (ValueErrorKind::NullNotAllowed, ColumnType::Date) if new_column => {
            SqlError::incorrect_temporal_for_column("date", "0000-00-00", name, row)
        }
        (
            ValueErrorKind::NullNotAllowed,
            ColumnType::DateTime { .. } | ColumnType::Timestamp { .. },
        ) if new_column => {
            SqlError::incorrect_temporal_for_column("datetime", "0000-00-00 00:00:00", name, row)
        }
        (ValueErrorKind::NullNotAllowed, _) => SqlError::invalid_null(),
        _ => value_error(&error, name, row),
    }
}
