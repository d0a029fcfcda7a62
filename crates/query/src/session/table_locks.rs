//! LOCK TABLES, UNLOCK TABLES and FLUSH TABLES WITH READ LOCK.
//!
//! A session that has locked tables uses no others. What another session keeps to itself a statement waits for where
//! it looks up the table's name: nothing has been done yet, and it is run again from its beginning.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use perigee_accounts::Privileges;
use perigee_engine::catalog::Table;
use perigee_engine::scan::CancelToken;
use perigee_engine::{
    DefinitionsInUse, EngineError, LockedTables, LockedTablesId, TableLock, TableLocker, TableName,
};
use sqlparser::ast::ObjectName;

use super::{Session, bound};
use crate::error::{Result, SqlError};
use crate::parse::{Clause, Ddl, LockStatement, Script, Statement};

/// What a session has locked.
#[derive(Debug)]
pub(super) struct Locked {
    locks: LockedTables,
    scope: Scope,
}

#[derive(Debug)]
enum Scope {
    /// These tables; no others are used.
    Tables(HashMap<TableName, TableLock>),
    /// All tables, and all definitions, for reading.
    All,
}

impl Locked {
    /// What transactions name it by.
    pub(super) fn id(&self) -> LockedTablesId {
        self.locks.id()
    }

    /// Checks that a table may be used.
    ///
    /// # Errors
    /// 1099, 1100, 1223.
    fn check(&self, name: &TableName, writes: bool) -> Result<()> {
        let Scope::Tables(tables) = &self.scope else {
            return match writes {
                true => Err(SqlError::read_locked()),
                false => Ok(()),
            };
        };
        match tables.get(name) {
            None => Err(SqlError::table_not_locked(&name.name)),
            Some(TableLock::Read) if writes => Err(SqlError::table_locked_for_reading(&name.name)),
            Some(_) => Ok(()),
        }
    }
}

/// Runs a statement.
pub(super) async fn run(
    session: &mut Session,
    statement: LockStatement,
    cancel: &CancelToken,
) -> Result<()> {
    match statement {
        LockStatement::Tables(tables) => lock(session, &tables, cancel).await,
        LockStatement::Flushed(tables) => {
            session.check_server(Privileges::RELOAD)?;
            session.check_nothing_locked()?;
            let read = |table| (table, TableLock::Read);
            let tables: Vec<_> = tables.into_iter().map(read).collect();
            lock(session, &tables, cancel).await
        }
        LockStatement::All => lock_all(session, cancel).await,
        LockStatement::Unlock => session.unlock_tables().await,
    }
}

async fn lock(
    session: &mut Session,
    tables: &[(ObjectName, TableLock)],
    cancel: &CancelToken,
) -> Result<()> {
    let reads_all = matches!(&session.locked, Some(locked) if matches!(locked.scope, Scope::All));
    if reads_all && tables.iter().any(|(_, lock)| *lock == TableLock::Write) {
        return Err(SqlError::read_locked());
    }
    session.commit_open().await?;
    if !reads_all {
        session.locked = None;
    }
    let mut wanted = HashMap::new();
    for (table, lock) in tables {
        let (schema, name) = session.resolve(table)?;
        if session.has_temporary(&schema, &name) {
            // Nobody else uses it.
            continue;
        }
        session.check_table(Privileges::SELECT, &schema, &name)?;
        session.check_schema(Privileges::LOCK_TABLES, &schema)?;
        // What the server makes of what it knows nobody changes.
        if perigee_catalog_views::find(&schema, &name).is_some() {
            continue;
        }
        let names = match session.stored_view(&schema, &name) {
            Some(_) => tables_of_view(session, &schema, &name)?,
            None => {
                session.table(&schema, &name)?;
                vec![TableName { schema, name }]
            }
        };
        for name in names {
            let strongest = wanted.entry(name).or_insert(*lock);
            *strongest = (*strongest).max(*lock);
        }
    }
    if reads_all {
        return Ok(());
    }
    let (engine, timeout) = (&session.frontend.engine, session.definition_timeout());
    let each = wanted.iter().map(|(name, lock)| (name.clone(), *lock));
    let locks = engine.lock_tables(each.collect(), timeout, cancel).await?;
    let scope = Scope::Tables(wanted);
    session.locked = Some(Locked { locks, scope });
    Ok(())
}

/// The tables that a view reads, also through others.
fn tables_of_view(session: &Session, schema: &str, view: &str) -> Result<Vec<TableName>> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let text = format!("SELECT 1 FROM {}.{}", quoted(schema), quoted(view));
    let script = Script::new(&text)?;
    let piece = script.whole();
    let Statement::Query(query) = piece.parse()? else {
        return Err(SqlError::unknown("Q16: a SELECT that is none"));
    };
    let bound = bound::bound(session, &query, piece)?;
    let tables = bound.tables.iter().map(|table| TableName {
        schema: table.schema.to_string(),
        name: table.name.to_string(),
    });
    let is_stored = |table: &TableName| !perigee_catalog_views::is_schema(&table.schema);
    Ok(tables.filter(is_stored).collect())
}

async fn lock_all(session: &mut Session, cancel: &CancelToken) -> Result<()> {
    session.check_server(Privileges::RELOAD)?;
    match &session.locked {
        Some(Locked {
            scope: Scope::All, ..
        }) => return Ok(()),
        Some(_) => return Err(SqlError::active_locks()),
        None => {}
    }
    session.commit_open().await?;
    let (engine, timeout) = (&session.frontend.engine, session.definition_timeout());
    let locks = engine.lock_all_tables(timeout, cancel).await?;
    let scope = Scope::All;
    session.locked = Some(Locked { locks, scope });
    Ok(())
}

impl Session {
    /// Unlocks what is locked; the transaction is committed if tables were locked by name.
    pub(super) async fn unlock_tables(&mut self) -> Result<()> {
        if matches!(&self.locked, Some(locked) if matches!(locked.scope, Scope::Tables(_))) {
            self.commit_open().await?;
        }
        self.locked = None;
        Ok(())
    }

    /// Unlocks tables that were locked by name, for a transaction that begins.
    pub(super) fn unlock_named_tables(&mut self) {
        self.locked
            .take_if(|locked| matches!(locked.scope, Scope::Tables(_)));
    }

    fn check_nothing_locked(&self) -> Result<()> {
        match self.locked {
            Some(_) => Err(SqlError::active_locks()),
            None => Ok(()),
        }
    }

    /// How long locks of tables are waited for.
    fn definition_timeout(&self) -> Duration {
        Duration::from_secs(self.variables.integer("lock_wait_timeout"))
    }

    /// What one statement locks the tables with whose definitions it changes.
    pub(super) fn table_locker(&self, cancel: &CancelToken) -> TableLocker {
        let locked = self.locked.as_ref().map(|locked| &locked.locks);
        let (engine, timeout) = (&self.frontend.engine, self.definition_timeout());
        engine.table_locker_within(timeout, cancel, locked)
    }

    /// True if neither this session nor another one has locked the table: it is used without a look at locks.
    pub(super) fn is_unlocked(&self, table: &Table) -> bool {
        self.locked.is_none() && !self.frontend.engine.is_closed(table, None)
    }

    /// Checks that a statement may use a table now.
    ///
    /// # Errors
    /// 1099, 1100, 1223, 1442; another one if another session keeps the table to itself: then the statement is run again
    /// when that has ended.
    pub(super) fn check_locked(&self, table: &Arc<Table>, writes: bool) -> Result<()> {
        if table.def.is_temporary() {
            return Ok(());
        }
        if writes {
            self.check_not_in_use(table)?;
        }
        if let Some(locked) = &self.locked {
            return locked.check(&TableName::of(table), writes);
        }
        let is_closed = self.frontend.engine.is_closed(table, None);
        if is_closed && (writes || !self.has_snapshot()) {
            *self.closed.lock() = Some(table.clone());
            return Err(EngineError::LockTimeout.into());
        }
        Ok(())
    }

    /// For a statement that begins.
    pub(super) fn forget_closed(&mut self) {
        *self.closed.get_mut() = None;
    }

    /// Waits until the table is open that the statement that failed found closed; false if there was none.
    ///
    /// # Errors
    /// 1205, 1213, 1317.
    pub(super) async fn wait_until_open(&mut self, cancel: &CancelToken) -> Result<bool> {
        let Some(table) = self.closed.get_mut().take() else {
            return Ok(false);
        };
        let reader = self.open.as_ref().and_then(|open| open.transaction.id());
        let (engine, locker) = (&self.frontend.engine, self.table_locker(cancel));
        engine.wait_until_open(&table, reader, &locker).await?;
        Ok(true)
    }

    /// Checks that a statement that is not a plain one of rows may change definitions, and has others wait who want
    /// them to stay. Temporary tables are nobody else's concern.
    ///
    /// # Errors
    /// 1099, 1100, 1192, 1205, 1213, 1223, 1317.
    pub(super) async fn use_definitions(
        &self,
        statement: &Ddl,
        cancel: &CancelToken,
    ) -> Result<Option<DefinitionsInUse>> {
        if self.is_about_temporary(statement)? {
            return Ok(None);
        }
        if let Some(locked) = &self.locked {
            let drops = matches!(statement, Ddl::DropTables { .. });
            for name in changed_tables(statement, &locked.scope)? {
                let (schema, name) = self.resolve(name)?;
                if drops && self.has_temporary(&schema, &name) {
                    continue;
                }
                locked.check(&TableName { schema, name }, true)?;
            }
        }
        let locker = self.table_locker(cancel);
        Ok(Some(self.frontend.engine.use_definitions(&locker).await?))
    }

    /// As [`Session::use_definitions`], for a statement that changes the definition of a table and nothing else.
    ///
    /// # Errors
    /// 1099, 1100, 1205, 1213, 1223, 1317.
    pub(super) async fn use_definition_of(
        &self,
        table: &ObjectName,
        cancel: &CancelToken,
    ) -> Result<DefinitionsInUse> {
        if let Some(locked) = &self.locked {
            let (schema, name) = self.resolve(table)?;
            locked.check(&TableName { schema, name }, true)?;
        }
        let locker = self.table_locker(cancel);
        Ok(self.frontend.engine.use_definitions(&locker).await?)
    }

    /// Has locks follow tables to their new names.
    pub(super) fn rename_locked(&mut self, renames: &[(TableName, TableName)]) {
        let Some(Locked {
            scope: Scope::Tables(tables),
            ..
        }) = &mut self.locked
        else {
            return;
        };
        for (from, to) in renames {
            if let Some(lock) = tables.remove(from) {
                tables.insert(to.clone(), lock);
            }
        }
    }

    /// The new names that a statement gives tables.
    pub(super) fn renames(&self, statement: &Ddl) -> Result<Vec<(TableName, TableName)>> {
        let table = |name: &ObjectName| -> Result<TableName> {
            let (schema, name) = self.resolve(name)?;
            Ok(TableName { schema, name })
        };
        match statement {
            _ if self.locked.is_none() || self.is_about_temporary(statement)? => Ok(Vec::new()),
            Ddl::RenameTables(renames) => {
                let pair = |(from, to): &(ObjectName, ObjectName)| Ok((table(from)?, table(to)?));
                renames.iter().map(pair).collect()
            }
            Ddl::AlterTable { name, clauses } => {
                let renames = clauses.iter().filter_map(|clause| match clause {
                    Clause::RenameTable(to) => Some(to),
                    _ => None,
                });
                renames.map(|to| Ok((table(name)?, table(to)?))).collect()
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// The tables that must be locked for writing.
///
/// # Errors
/// 1192, 1223 for a statement about schemas.
fn changed_tables<'d>(statement: &'d Ddl, scope: &Scope) -> Result<Vec<&'d ObjectName>> {
    Ok(match statement {
        Ddl::CreateSchema { .. } | Ddl::AlterSchema { .. } | Ddl::DropSchema { .. } => {
            return Err(match scope {
                Scope::All => SqlError::read_locked(),
                Scope::Tables(_) => SqlError::active_locks(),
            });
        }
        Ddl::CreateTable(table) => vec![&table.name],
        Ddl::DropTables { names, .. } => names.iter().collect(),
        Ddl::AlterTable { name, .. } | Ddl::Truncate(name) => vec![name],
        Ddl::RenameTables(renames) => renames.iter().map(|(from, _)| from).collect(),
        Ddl::CreateView(view) => vec![&view.name],
        Ddl::DropViews { names, .. } => names.iter().collect(),
    })
}
