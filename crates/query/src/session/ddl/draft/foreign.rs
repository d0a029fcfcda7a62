//! Foreign keys of a [`Draft`]: their names, their columns, and the indexes that they need.

use perigee_engine::catalog::{Action, ForeignKey, TableDef};
use sqlparser::ast::{ForeignKeyConstraint, Ident, ReferentialAction};

use super::parts::Part;
use super::{Draft, Key, KeyColumns};
use crate::error::{Result, SqlError};
use crate::session::ddl::keys::NewPart;
use crate::session::ddl::{MAX_NAME, refuse};

/// Between the table's name and the number in the name of a foreign key that is not named.
const GENERATED: &str = "_ibfk_";

/// A foreign key under construction.
pub(super) struct Foreign {
    name: Option<String>,
    /// Name of an index that is made for it.
    index: Option<String>,
    columns: KeyColumns,
    schema: String,
    table: String,
    referenced: Vec<String>,
    on_delete: Action,
    on_update: Action,
}

impl Foreign {
    /// One that the table has.
    pub(super) fn of(key: &ForeignKey) -> Self {
        Self {
            name: Some(key.name.clone()),
            index: None,
            columns: KeyColumns::Old(key.columns.clone()),
            schema: key.schema.clone(),
            table: key.table.clone(),
            referenced: key.referenced.clone(),
            on_delete: key.on_delete,
            on_update: key.on_update,
        }
    }

    fn is_named(&self, name: &str) -> bool {
        let own = self.name.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Its name, or what an error says instead of it.
    fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or("foreign key without name")
    }
}

/// The action of a clause.
///
/// # Errors
/// 1215 for SET DEFAULT, which InnoDB does not have.
fn action(action: Option<ReferentialAction>) -> Result<Action> {
    Ok(match action {
        None | Some(ReferentialAction::NoAction) => Action::NoAction,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => return Err(SqlError::cannot_add_foreign_key()),
    })
}

/// A name that a constraint may have.
pub(super) fn checked(name: &Ident) -> Result<String> {
    match name.value.chars().count() > MAX_NAME {
        true => Err(SqlError::name_too_long(&name.value)),
        false => Ok(name.value.clone()),
    }
}

/// A part of an index that is made for a foreign key.
fn index_part(column: String) -> Part {
    Part::new(NewPart::column(column))
}

/// The greatest number of a generated name among some names; 0 if there is none.
pub(super) fn greatest<'n>(
    names: impl Iterator<Item = &'n str>,
    table: &str,
    generated: &str,
) -> u64 {
    let number = |name: &str| {
        let rest = name.strip_prefix(table)?.strip_prefix(generated)?;
        rest.parse::<u64>().ok()
    };
    names.filter_map(number).max().unwrap_or(0)
}

impl Draft {
    /// Adds a foreign key to a table of `parent`, its schema and name.
    pub(in crate::session::ddl) fn add_foreign_key(
        &mut self,
        key: &ForeignKeyConstraint,
        (schema, table): (String, String),
    ) -> Result<()> {
        refuse(key.characteristics.is_some(), "DEFERRABLE")?;
        refuse(key.match_kind.is_some(), "MATCH")?;
        let name = key.name.as_ref().map(checked).transpose()?;
        let index = key.index_name.as_ref().map(checked).transpose()?;
        let names = |columns: &[Ident]| -> Vec<String> {
            columns.iter().map(|column| column.value.clone()).collect()
        };
        let foreign = Foreign {
            name,
            index,
            columns: KeyColumns::Named(names(&key.columns)),
            schema,
            table,
            referenced: names(&key.referred_columns),
            on_delete: action(key.on_delete)?,
            on_update: action(key.on_update)?,
        };
        if key.columns.len() != key.referred_columns.len() {
            return Err(SqlError::wrong_foreign_key(foreign.shown()));
        }
        for columns in [&key.columns, &key.referred_columns] {
            for (place, column) in columns.iter().enumerate() {
                let same = |other: &Ident| other.value.eq_ignore_ascii_case(&column.value);
                if columns[..place].iter().any(same) {
                    return Err(SqlError::duplicate_column(&column.value));
                }
            }
        }
        self.foreign.push(foreign);
        Ok(())
    }

    /// Takes a foreign key out; false if there is none of the name.
    pub(in crate::session::ddl) fn drop_foreign_key(&mut self, name: &str) -> bool {
        let before = self.foreign.len();
        self.foreign.retain(|key| !key.is_named(name));
        self.foreign.len() < before
    }

    /// Takes the constraint of a name out, of whatever kind it is.
    ///
    /// # Errors
    /// 3940 if there is none, 3939 if there are several.
    pub(in crate::session::ddl) fn drop_constraint(&mut self, name: &str) -> Result<()> {
        let is_primary = name.eq_ignore_ascii_case("PRIMARY") && self.primary.is_some();
        let key = self.key(name).filter(|key| self.keys[*key].unique);
        let (foreign, check) = (self.has_foreign_key(name), self.has_check(name));
        let found = [is_primary, key.is_some(), foreign, check];
        match found.iter().filter(|found| **found).count() {
            0 => return Err(SqlError::constraint_not_found(name)),
            1 => {}
            _ => return Err(SqlError::several_constraints(name)),
        }
        if is_primary {
            return self.drop_primary_key();
        }
        if let Some(key) = key {
            self.keys.remove(key);
        }
        self.drop_foreign_key(name);
        self.drop_check(name);
        Ok(())
    }

    fn has_foreign_key(&self, name: &str) -> bool {
        self.foreign.iter().any(|key| key.is_named(name))
    }

    /// True if there is a foreign key, old or new.
    pub(in crate::session::ddl) fn has_foreign_keys(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// Adds indexes for the new foreign keys that no other index serves.
    ///
    /// # Errors
    /// 1072 for a column that does not exist.
    pub(super) fn add_foreign_indexes(&mut self) -> Result<()> {
        let mut served: Vec<Vec<u16>> = Vec::new();
        served.extend(
            self.primary
                .iter()
                .map(|key| self.leading_columns(key))
                .collect::<Result<Vec<_>>>()?,
        );
        for key in &self.keys {
            served.push(self.leading_columns(&key.parts)?);
        }
        let mut wanted: Vec<(Vec<u16>, Key)> = Vec::new();
        for key in &self.foreign {
            let KeyColumns::Named(names) = &key.columns else {
                continue;
            };
            let columns = self.resolve(&key.columns)?;
            let serves = |other: &Vec<u16>| other.starts_with(&columns);
            if served.iter().any(serves) || wanted.iter().any(|(other, _)| serves(other)) {
                continue;
            }
            // One index serves all keys whose columns it begins with.
            wanted.retain(|(other, _)| !columns.starts_with(other));
            let index = Key {
                name: key.name.clone().or_else(|| key.index.clone()),
                unique: false,
                invisible: false,
                parts: names.iter().cloned().map(index_part).collect(),
            };
            wanted.push((columns, index));
        }
        self.keys.extend(wanted.into_iter().map(|(_, key)| key));
        Ok(())
    }

    /// The foreign keys of a definition that is complete but for its constraints.
    ///
    /// # Errors
    /// 1553 for an old one without index, 1828 for one without a column, 1830.
    pub(super) fn foreign_keys(&self, def: &TableDef) -> Result<Vec<ForeignKey>> {
        let names = || self.foreign.iter().filter_map(|key| key.name.as_deref());
        let mut number = greatest(names(), &self.name, GENERATED);
        let mut keys: Vec<ForeignKey> = Vec::new();
        for key in &self.foreign {
            let name = key.name.clone().unwrap_or_else(|| {
                number += 1;
                format!("{}{GENERATED}{number}", self.name)
            });
            let columns = self.resolve(&key.columns)?;
            if let KeyColumns::Old(old) = &key.columns {
                self.check_kept(&name, old, &columns, def)?;
            }
            let sets_null = [key.on_delete, key.on_update].contains(&Action::SetNull);
            let mut defs = columns.iter().map(|c| &def.columns[usize::from(*c)]);
            if let Some(column) = defs.find(|column| sets_null && !column.nullable) {
                return Err(SqlError::foreign_key_not_null(&column.name, name));
            }
            keys.push(ForeignKey {
                name,
                columns,
                schema: key.schema.clone(),
                table: key.table.clone(),
                referenced: key.referenced.clone(),
                on_delete: key.on_delete,
                on_update: key.on_update,
            });
        }
        keys.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(keys)
    }

    /// Checks that a key that the table has keeps its columns and an index.
    fn check_kept(&self, name: &str, old: &[u16], new: &[u16], def: &TableDef) -> Result<()> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        if new.len() < old.len() {
            let is_gone = |place: &&u16| {
                let kept = self.resolve(&KeyColumns::Old(vec![**place]));
                kept.is_ok_and(|kept| kept.is_empty())
            };
            let column = old.iter().find(is_gone).copied().unwrap_or_default();
            let column = &before.columns[usize::from(column)].name;
            return Err(SqlError::foreign_key_column_needed(column, name));
        }
        let serves = |columns: &Vec<u16>| columns.starts_with(new);
        if serves(&def.primary_key) || def.indexes.iter().any(|index| serves(&index.columns)) {
            return Ok(());
        }
        let served = |columns: &[u16]| columns.starts_with(old);
        let index = before.indexes.iter().find(|index| served(&index.columns));
        let index = index.map_or("PRIMARY", |index| index.name.as_str());
        Err(SqlError::index_needed(index))
    }
}
