//! The tables that foreign keys connect with one whose definition changes: locking them, and having their
//! definitions follow.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Turn;
use super::lock::{ExclusiveTable, TableLocker, TableName};
use crate::EngineError;
use crate::catalog::{Table, TableDef};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::txn::foreign::refused;

/// What a generated name of a constraint has behind the table's.
const GENERATED: &[&str] = &["_ibfk_", "_chk_"];

/// The tables that the foreign keys of a definition refer to, but for itself.
pub(super) fn parents_of(def: &TableDef) -> BTreeSet<TableName> {
    let parents = def.foreign_keys.iter();
    let parents = parents.filter(|key| !key.refers_to(&def.schema, &def.name));
    parents
        .map(|key| TableName {
            schema: key.schema.clone(),
            name: key.table.clone(),
        })
        .collect()
}

/// Has a definition follow tables that get other names: itself, its generated names, and what it refers to.
pub(super) fn follow_renames(def: &mut TableDef, moved: &BTreeMap<TableName, TableName>) {
    for key in &mut def.foreign_keys {
        let parent = TableName {
            schema: key.schema.clone(),
            name: key.table.clone(),
        };
        if let Some(name) = moved.get(&parent) {
            key.schema.clone_from(&name.schema);
            key.table.clone_from(&name.name);
        }
    }
    let own = TableName {
        schema: def.schema.clone(),
        name: def.name.clone(),
    };
    if let Some(name) = moved.get(&own) {
        let old = own.name.clone();
        rename_generated(def, &old, &name.name);
        def.schema.clone_from(&name.schema);
        def.name.clone_from(&name.name);
    }
}

/// Gives constraints whose names were generated those of a table with another name.
pub(super) fn rename_generated(def: &mut TableDef, old: &str, name: &str) {
    let keys = def.foreign_keys.iter_mut().map(|key| &mut key.name);
    let checks = def.checks.iter_mut().map(|check| &mut check.name);
    for constraint in keys.chain(checks) {
        let rest = constraint.strip_prefix(old);
        if let Some(rest) = rest.filter(|rest| is_generated(rest)) {
            *constraint = format!("{name}{rest}");
        }
    }
    def.foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Checks that a table that gets another name may have it.
///
/// # Errors
/// [`Refusal::TriggersMove`].
pub(super) fn check_moved(from: &TableDef, to: &TableDef) -> Result<(), EngineError> {
    match from.schema == to.schema || from.triggers.is_empty() {
        true => Ok(()),
        false => Err(refused(Refusal::TriggersMove)),
    }
}

/// True if what follows the table's name in that of a constraint was generated.
fn is_generated(rest: &str) -> bool {
    let number = GENERATED.iter().find_map(|kind| rest.strip_prefix(kind));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

impl Engine {
    /// Locks the tables that a new definition refers to and that exist, and takes the turn.
    pub(super) async fn lock_parents(
        &self,
        def: &TableDef,
        locker: &TableLocker,
    ) -> Result<(Vec<ExclusiveTable>, Turn), EngineError> {
        let parents = parents_of(def);
        loop {
            let locked = self.lock_existing(&parents, locker).await?;
            let turn = self.turn().await?;
            let exist = |name: &&TableName| self.catalog.table(&name.schema, &name.name).is_ok();
            // Others may have come while the locks were waited for.
            if parents.iter().filter(exist).count() == locked.len() {
                return Ok((locked, turn));
            }
        }
    }

    /// Locks tables, as far as they exist, and all that foreign keys connect with them; those with names
    /// in `more`, too. Takes the turn.
    pub(super) async fn lock_related(
        &self,
        names: &[TableName],
        more: &[TableName],
        locker: &TableLocker,
    ) -> Result<(Vec<ExclusiveTable>, Turn), EngineError> {
        loop {
            let wanted = self.related(names, more);
            let locked = self.lock_existing(&wanted, locker).await?;
            let turn = self.turn().await?;
            let is_locked = |name: &TableName| {
                let mut locked = locked.iter();
                let exists = self.catalog.table(&name.schema, &name.name).is_ok();
                !exists || locked.any(|locked| TableName::of(locked.table()) == *name)
            };
            if self.related(names, more).iter().all(is_locked) {
                return Ok((locked, turn));
            }
        }
    }

    async fn lock_existing(
        &self,
        names: &BTreeSet<TableName>,
        locker: &TableLocker,
    ) -> Result<Vec<ExclusiveTable>, EngineError> {
        let mut locked = Vec::new();
        for name in names {
            match self.lock_exclusively(name, locker).await {
                Ok(table) => locked.push(table),
                Err(EngineError::NoSuchTable(_) | EngineError::NoSuchSchema(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(locked)
    }

    /// Names of tables, with those of all that foreign keys connect with them.
    fn related(&self, names: &[TableName], more: &[TableName]) -> BTreeSet<TableName> {
        let mut related: BTreeSet<TableName> = names.iter().chain(more).cloned().collect();
        for name in names {
            let children = self.catalog.children(&name.schema, &name.name);
            related.extend(children.iter().map(|child| TableName::of(child)));
            if let Ok(table) = self.catalog.table(&name.schema, &name.name) {
                related.extend(parents_of(&table.def));
            }
        }
        related
    }

    /// Locks a table and all that foreign keys connect with it or with one of `more`.
    ///
    /// # Errors
    /// As [`Engine::lock_exclusively`].
    pub async fn lock_with_related(
        &self,
        name: &TableName,
        more: &[TableName],
        locker: &TableLocker,
    ) -> Result<RelatedTables, EngineError> {
        // So that a table that does not exist is an error.
        self.catalog.table(&name.schema, &name.name)?;
        let names = std::slice::from_ref(name);
        let (mut locked, _turn) = self.lock_related(names, more, locker).await?;
        let is_it = |locked: &ExclusiveTable| TableName::of(locked.table()) == *name;
        let Some(place) = locked.iter().position(is_it) else {
            return Err(EngineError::NoSuchTable(name.to_string()));
        };
        Ok(RelatedTables {
            table: locked.swap_remove(place),
            others: locked,
        })
    }
}

/// A table whose definition is to change, and those that foreign keys connect with it, locked.
#[derive(Debug)]
pub struct RelatedTables {
    pub(super) table: ExclusiveTable,
    pub(super) others: Vec<ExclusiveTable>,
}

impl RelatedTables {
    /// The table.
    #[must_use]
    pub fn table(&self) -> &std::sync::Arc<Table> {
        self.table.table()
    }

    /// All locks.
    pub(super) fn into_locks(self) -> Vec<ExclusiveTable> {
        let mut locks = self.others;
        locks.push(self.table);
        locks
    }
}
