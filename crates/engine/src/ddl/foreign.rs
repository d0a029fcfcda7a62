//! What constraints need of definitions: names that no other has, tables, columns and indexes to refer to, columns
//! that keep their types, and rows that refer to rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use perigee_page::RecordFlags;
use perigee_value::{ColumnType, Datum};

use super::alter::{Alteration, Source};
use super::build::Rows;
use super::lock::TableName;
use crate::EngineError;
use crate::btree::KeySpan;
use crate::buffer::Access;
use crate::catalog::{ColumnDef, ForeignKey, Table, TableDef};
use crate::engine::Engine;
use crate::refusal::{KeyName, Refusal};
use crate::scan::CancelToken;
use crate::txn::foreign::{columns_named, index_over, key_prefix, refused};
use crate::txn::{Lookup, clustered_key, entry_of_version, look_up};

/// How often a wait for the end of a transaction looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// True if values of a column can refer to values of another one.
fn are_comparable(from: &ColumnDef, to: &ColumnDef) -> bool {
    let is_text = |ty| matches!(ty, ColumnType::Char { .. } | ColumnType::Varchar { .. });
    match (from.ty, to.ty) {
        (one, other) if from.members.is_none() && is_text(one) && is_text(other) => {
            to.members.is_none() && one.collation() == other.collation()
        }
        (one, other) => one == other && from.members.is_some() == to.members.is_some(),
    }
}

/// True if a column with another definition may hold other values.
fn is_changed(from: &ColumnDef, to: &ColumnDef) -> bool {
    let longer = match (from.ty, to.ty) {
        (
            ColumnType::Varchar { chars, collation },
            ColumnType::Varchar {
                chars: more,
                collation: other,
            },
        ) => chars <= more && collation == other,
        _ => false,
    };
    let same = longer || (from.ty == to.ty && from.members == to.members);
    !same || (from.nullable && !to.nullable)
}

/// Checks that a foreign key finds what it refers to in the definition of its parent.
fn check_pair(child: &TableDef, key: &ForeignKey, parent: &TableDef) -> Result<(), EngineError> {
    let name = || KeyName::new(child, key);
    for (column, referenced) in key.columns.iter().zip(&key.referenced) {
        let Some(place) = parent.column(referenced) else {
            let (key, column) = (name(), referenced.clone());
            return Err(refused(Refusal::NoColumn { key, column }));
        };
        let column = &child.columns[usize::from(*column)];
        if !are_comparable(column, &parent.columns[place]) {
            return Err(refused(Refusal::Incompatible {
                key: name(),
                column: column.name.clone(),
                referenced: referenced.clone(),
            }));
        }
    }
    let columns = columns_named(parent, &key.referenced);
    match columns.and_then(|columns| index_over(parent, &columns)) {
        Some(_) => Ok(()),
        None => Err(refused(Refusal::NoIndex(name()))),
    }
}

/// Where a column of the table as it was is in an altered one.
fn new_place(alteration: &Alteration, column: usize) -> Option<usize> {
    let is_it = |source: &Source| *source == Source::Column(column as u16);
    alteration.sources.iter().position(is_it)
}

/// Name of the index that a foreign key used which it does not find any more.
fn index_name(def: &TableDef, columns: &[u16]) -> String {
    match index_over(def, columns) {
        None | Some(0) => "PRIMARY".to_owned(),
        Some(number) => def.indexes[number - 1].name.clone(),
    }
}

impl Engine {
    /// Checks the constraints of a new definition, or of another one of the table `old`. With `checks` the
    /// tables exist that its new foreign keys refer to.
    pub(super) fn check_constraints(
        &self,
        def: &TableDef,
        old: Option<&Arc<Table>>,
        checks: bool,
    ) -> Result<(), EngineError> {
        self.check_names(def, old, &BTreeMap::new())?;
        for key in &def.foreign_keys {
            let own = key.refers_to(&def.schema, &def.name);
            let parent = self.catalog.table(&key.schema, &key.table);
            match (own, parent) {
                (true, _) => check_pair(def, key, def)?,
                (false, Ok(parent)) => check_pair(def, key, &parent.def)?,
                (false, Err(_)) => {
                    let known = |old: &&Arc<Table>| {
                        let mut keys = old.def.foreign_keys.iter();
                        keys.any(|known| known.name == key.name)
                    };
                    if checks && old.as_ref().is_none_or(|old| !known(old)) {
                        return Err(refused(Refusal::NoTable(key.table.clone())));
                    }
                }
            }
        }
        // Of an existing table its children follow.
        if old.is_none() {
            for child in self.catalog.children(&def.schema, &def.name) {
                let keys = child.def.foreign_keys.iter();
                for key in keys.filter(|key| key.refers_to(&def.schema, &def.name)) {
                    check_pair(&child.def, key, def)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that the names of constraints are free in the schema. `old` is the table that the definition takes the
    /// place of; the tables in `moved` get other names.
    pub(super) fn check_names(
        &self,
        def: &TableDef,
        old: Option<&Arc<Table>>,
        moved: &BTreeMap<TableName, TableName>,
    ) -> Result<(), EngineError> {
        if def.foreign_keys.is_empty() && def.checks.is_empty() {
            return Ok(());
        }
        let is_other = |table: &Arc<Table>| {
            let is_old = old.is_some_and(|old| old.id == table.id);
            !is_old && !moved.contains_key(&TableName::of(table))
        };
        let tables = self.catalog.tables(&def.schema);
        let others: Vec<&TableDef> = tables
            .iter()
            .filter(|table| is_other(table))
            .map(|table| &table.def)
            .collect();
        let same = |one: &str, other: &str| one.to_lowercase() == other.to_lowercase();
        for (number, key) in def.foreign_keys.iter().enumerate() {
            let others = others.iter().flat_map(|other| &other.foreign_keys);
            let mut others = others.chain(&def.foreign_keys[..number]);
            if others.any(|other| same(&other.name, &key.name)) {
                return Err(refused(Refusal::KeyExists(key.name.clone())));
            }
        }
        for (number, check) in def.checks.iter().enumerate() {
            let others = others.iter().flat_map(|other| &other.checks);
            let mut others = others.chain(&def.checks[..number]);
            if others.any(|other| same(&other.name, &check.name)) {
                return Err(refused(Refusal::CheckExists(check.name.clone())));
            }
        }
        Ok(())
    }

    /// Checks that no foreign keys refer to some tables but their own.
    pub(super) fn check_not_referenced(
        &self,
        tables: &[Arc<Table>],
        refusal: impl Fn(KeyName) -> Refusal,
    ) -> Result<(), EngineError> {
        for table in tables {
            let (schema, name) = (&table.def.schema, &table.def.name);
            for child in self.catalog.children(schema, name) {
                if tables.iter().any(|table| table.id == child.id) {
                    continue;
                }
                let mut keys = child.def.foreign_keys.iter();
                if let Some(key) = keys.find(|key| key.refers_to(schema, name)) {
                    return Err(refused(refusal(KeyName::new(&child.def, key))));
                }
            }
        }
        Ok(())
    }

    /// Checks that an alteration leaves the foreign keys what they need: those of the table and those that refer to
    /// it. With `checks` columns that they use keep their types, too.
    pub(super) fn check_alteration(
        &self,
        old: &Table,
        alteration: &Alteration,
    ) -> Result<(), EngineError> {
        let new = &alteration.def;
        for key in &old.def.foreign_keys {
            if !new.foreign_keys.iter().any(|kept| kept.name == key.name) {
                continue;
            }
            for column in &key.columns {
                let from = &old.def.columns[usize::from(*column)];
                let to = new_place(alteration, usize::from(*column));
                let to = to.map(|place| &new.columns[place]);
                if alteration.checks && to.is_some_and(|to| is_changed(from, to)) {
                    let (key, column) = (KeyName::new(&old.def, key), from.name.clone());
                    return Err(refused(Refusal::ChangedColumn { key, column }));
                }
            }
        }
        for child in self.catalog.children(&old.def.schema, &old.def.name) {
            for key in &child.def.foreign_keys {
                let own = child.id == old.id;
                let kept = |key: &ForeignKey| new.foreign_keys.iter().any(|k| k.name == key.name);
                if key.refers_to(&old.def.schema, &old.def.name) && (!own || kept(key)) {
                    check_parent(&child.def, key, old, alteration)?;
                }
            }
        }
        Ok(())
    }

    /// The definitions of the tables that refer to an altered one under its new name and those of its columns, where
    /// they are others.
    pub(super) fn following(
        &self,
        old: &Table,
        alteration: &Alteration,
    ) -> Vec<(Arc<Table>, TableDef)> {
        let children = self.catalog.children(&old.def.schema, &old.def.name);
        let others = children.into_iter().filter(|child| child.id != old.id);
        let follow = |child: Arc<Table>| {
            let mut def = child.def.clone();
            follow(&mut def, old, alteration);
            (def != child.def).then_some((child, def))
        };
        others.filter_map(follow).collect()
    }

    /// Checks that all rows of a table refer to rows that are there, by these foreign keys. Nobody else uses the
    /// tables.
    pub(super) async fn check_references(
        self: &Arc<Self>,
        table: &Arc<Table>,
        keys: &[&ForeignKey],
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        for key in keys {
            let own = key.refers_to(&table.def.schema, &table.def.name);
            let parent = match own {
                true => table.clone(),
                false => self.catalog.table(&key.schema, &key.table)?,
            };
            let columns = columns_named(&parent.def, &key.referenced);
            let index = columns.and_then(|columns| index_over(&parent.def, &columns));
            let missing = || refused(Refusal::NoParent(KeyName::new(&table.def, key)));
            let index = index.ok_or_else(missing)?;
            let mut rows = Rows::new(self, table, cancel);
            let mut more = true;
            while more {
                let mut leaf = Vec::new();
                more = rows
                    .next(|row| {
                        let value = |column: &u16| row.value(usize::from(*column)).to_datum();
                        let values: Vec<Datum> = key.columns.iter().map(value).collect();
                        leaf.extend(key_prefix(&parent.indexes[index], &values)?);
                        Ok(())
                    })
                    .await?;
                leaf.dedup();
                for prefix in leaf {
                    if !self.has_row(&parent, index, &prefix, cancel).await? {
                        return Err(missing());
                    }
                }
            }
        }
        Ok(())
    }

    /// True if a table has a row whose key in an index begins so. Nobody else uses it, but what a crash left
    /// may still be rolled back.
    async fn has_row(
        &self,
        table: &Arc<Table>,
        number: usize,
        prefix: &[u8],
        cancel: &CancelToken,
    ) -> Result<bool, EngineError> {
        let index = &table.indexes[number];
        let tree = self.tree(index);
        let mut cursor = tree.range(KeySpan::prefix(prefix), false, Access::Point);
        while let Some(run) = cursor.next().await? {
            for slot in run.slots.clone() {
                let entry = run.page.get().record(slot).to_vec();
                let key = match number {
                    0 => index.layout.shape.key(&entry).to_vec(),
                    _ => clustered_key(table, index, &entry)?,
                };
                let row = loop {
                    match look_up(self, table, &key).await? {
                        Lookup::Settled(row) => break row,
                        Lookup::Written => tokio::time::sleep(LOOK_INTERVAL).await,
                    }
                    if cancel.is_cancelled() {
                        return Err(EngineError::Cancelled);
                    }
                };
                let Some(row) = row.filter(|row| !RecordFlags(row[0]).is_deleted()) else {
                    continue;
                };
                if number == 0 || entry_of_version(table, index, &entry, &row)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Checks that a table that is altered leaves a foreign key what it refers to.
fn check_parent(
    child: &TableDef,
    key: &ForeignKey,
    old: &Table,
    alteration: &Alteration,
) -> Result<(), EngineError> {
    let new = &alteration.def;
    let mut columns = Vec::new();
    for referenced in &key.referenced {
        // A key that does not find its column refers to nothing.
        let Some(column) = old.def.column(referenced) else {
            return Ok(());
        };
        let name = || (KeyName::new(child, key), referenced.clone());
        let Some(place) = new_place(alteration, column) else {
            let (key, column) = name();
            return Err(refused(Refusal::DroppedParent { key, column }));
        };
        if alteration.checks && is_changed(&old.def.columns[column], &new.columns[place]) {
            let (key, column) = name();
            return Err(refused(Refusal::ChangedParent { key, column }));
        }
        columns.push((column as u16, place as u16));
    }
    let (before, after): (Vec<u16>, Vec<u16>) = columns.into_iter().unzip();
    if index_over(new, &after).is_none() {
        let index = index_name(&old.def, &before);
        return Err(refused(Refusal::IndexNeeded(index)));
    }
    Ok(())
}

/// Has foreign keys follow a table that they refer to, and its columns.
pub(super) fn follow(def: &mut TableDef, old: &Table, alteration: &Alteration) {
    for key in &mut def.foreign_keys {
        if !key.refers_to(&old.def.schema, &old.def.name) {
            continue;
        }
        key.schema.clone_from(&alteration.def.schema);
        key.table.clone_from(&alteration.def.name);
        for referenced in &mut key.referenced {
            let column = old.def.column(referenced);
            if let Some(place) = column.and_then(|column| new_place(alteration, column)) {
                referenced.clone_from(&alteration.def.columns[place].name);
            }
        }
    }
}

/// True if a foreign key of an altered table says what one says that the table had before.
pub(super) fn is_same(before: &ForeignKey, after: &ForeignKey, alteration: &Alteration) -> bool {
    let place = |column: &u16| new_place(alteration, usize::from(*column));
    let columns: Vec<_> = before.columns.iter().map(place).collect();
    let kept = |column: &u16| Some(usize::from(*column));
    let after_columns: Vec<_> = after.columns.iter().map(kept).collect();
    before.name == after.name
        && after.refers_to(&before.schema, &before.table)
        && before.referenced == after.referenced
        && (before.on_delete, before.on_update) == (after.on_delete, after.on_update)
        && columns == after_columns
}
