//! [`Draft`]: a table's definition while a statement works on it.
//!
//! CREATE TABLE begins with an empty one, ALTER TABLE with the table as it is. New keys name their
//! columns and are resolved in the end, when all columns are known; keys that the table has follow
//! their columns wherever these go.

mod checks;
mod expression;
mod foreign;
mod generated;
mod parts;

use perigee_engine::Source;
use perigee_engine::catalog::{AutoIncrement, ColumnDef, IndexDef, TableDef};
use perigee_value::{Collation, Datum, Now};

use super::column::{Definition, Inline, checked_column_name, convert};
use checks::Drafted;
use foreign::Foreign;
pub(super) use generated::Computed;
use parts::Part;

use super::keys::{NewKey, NewPart, check};
use crate::error::{Result, SqlError};
use crate::parse::Position;
use crate::result::ResultColumn;
use crate::session::Session;
use crate::session::dml::implicit_default;

/// A definition under construction.
pub(super) struct Draft {
    pub schema: String,
    pub name: String,
    pub comment: String,
    /// Of texts that do not say theirs.
    pub collation: Collation,
    /// AUTO_INCREMENT=, if it is said.
    pub start: Option<u64>,
    columns: Vec<Column>,
    primary: Option<Vec<Part>>,
    keys: Vec<Key>,
    foreign: Vec<Foreign>,
    checks: Vec<Drafted>,
    /// The table as it was.
    before: Option<TableDef>,
}

/// What rows that are there get in a column that is added.
pub(super) struct Filling {
    /// CURRENT_TIMESTAMP.
    now: Now,
    /// 0000-00-00 is a date.
    zero_dates: bool,
}

impl Filling {
    pub(super) fn of(session: &Session) -> Self {
        Self {
            now: session.now(),
            zero_dates: session.zero_dates(),
        }
    }
}

struct Column {
    def: ColumnDef,
    /// Its place in the table as it was.
    old: Option<u16>,
    source: Source,
    counts: bool,
    null_said: bool,
    /// How its values are computed, of a generated column.
    computed: Option<Computed>,
}

struct Key {
    name: Option<String>,
    unique: bool,
    invisible: bool,
    parts: Vec<Part>,
}

/// Columns of a foreign key.
enum KeyColumns {
    /// Of a new one, by name.
    Named(Vec<String>),
    /// Of one that the table has, by their places in it.
    Old(Vec<u16>),
}

impl Draft {
    /// A table without columns.
    pub(super) fn new(schema: String, name: String, collation: Collation) -> Self {
        Self {
            schema,
            name,
            comment: String::new(),
            collation,
            start: None,
            columns: Vec::new(),
            primary: None,
            keys: Vec::new(),
            foreign: Vec::new(),
            checks: Vec::new(),
            before: None,
        }
    }

    /// A table as it is.
    ///
    /// # Errors
    /// If a condition in it cannot be read.
    pub(super) fn of(def: &TableDef) -> Result<Self> {
        let column = |(place, column): (usize, &ColumnDef)| {
            Ok(Column {
                def: column.clone(),
                old: Some(place as u16),
                source: Source::Column(place as u16),
                counts: def.is_auto_increment(place),
                null_said: false,
                computed: column.generated.as_ref().map(Computed::of).transpose()?,
            })
        };
        let key = |index: &IndexDef| {
            Ok(Key {
                name: Some(index.name.clone()),
                unique: index.unique,
                invisible: index.invisible,
                parts: Part::of_key(def, &index.columns, index.descending)?,
            })
        };
        let primary = Part::of_key(def, &def.primary_key, def.descending_primary_key)?;
        let checks = def.checks.iter().map(Drafted::of).collect::<Result<_>>()?;
        Ok(Self {
            schema: def.schema.clone(),
            name: def.name.clone(),
            comment: def.comment.clone(),
            collation: def.collation,
            start: None,
            columns: def
                .own_columns()
                .iter()
                .enumerate()
                .map(column)
                .collect::<Result<_>>()?,
            primary: (!primary.is_empty()).then_some(primary),
            keys: def.indexes.iter().map(key).collect::<Result<_>>()?,
            foreign: def.foreign_keys.iter().map(Foreign::of).collect(),
            checks,
            before: Some(def.clone()),
        })
    }

    /// CONVERT TO CHARACTER SET: gives the table and its columns of texts another collation.
    ///
    /// # Errors
    /// 1291.
    pub(super) fn convert(&mut self, collation: Collation) -> Result<()> {
        self.collation = collation;
        let mut columns = self.columns.iter_mut();
        columns.try_for_each(|column| convert(&mut column.def, collation))
    }

    fn place(&self, name: &str) -> Option<usize> {
        let same = |column: &Column| column.def.name.eq_ignore_ascii_case(name);
        self.columns.iter().position(same)
    }

    /// Where a column of the table is.
    ///
    /// # Errors
    /// 1054.
    fn known(&self, name: &str) -> Result<usize> {
        let unknown = || SqlError::unknown_column(name, &self.name);
        self.place(name).ok_or_else(unknown)
    }

    fn check_new_name(&self, name: &str, except: Option<usize>) -> Result<()> {
        match self.place(name) {
            Some(place) if Some(place) != except => Err(SqlError::duplicate_column(name)),
            _ => Ok(()),
        }
    }

    /// Puts a column where it belongs.
    fn insert(&mut self, column: Column, position: &Position, otherwise: usize) -> Result<()> {
        let place = match position {
            Position::Unsaid => otherwise,
            Position::First => 0,
            Position::After(name) => self.known(name)? + 1,
        };
        self.columns.insert(place, column);
        Ok(())
    }

    fn add_inline(&mut self, name: &str, key: Option<Inline>) -> Result<()> {
        let Some(key) = key else { return Ok(()) };
        self.add_key(NewKey {
            primary: key == Inline::Primary,
            unique: true,
            name: None,
            parts: vec![NewPart::column(name.to_owned())],
            invisible: false,
        })
    }

    /// Adds a column; rows that are there get its default.
    pub(super) fn add_column(
        &mut self,
        new: Definition,
        position: &Position,
        filling: &Filling,
    ) -> Result<()> {
        self.check_new_name(&new.column.name, None)?;
        let default = new.column.default_at(filling.now);
        let source = Source::Value(match (default, new.counts) {
            (Some(value), _) => value,
            (None, true) => Datum::Null,
            (None, false) if new.computed.is_some() => Datum::Null,
            (None, false) if new.column.nullable => Datum::Null,
            // Without 0000-00-00 there is no date that rows could get.
            (None, false) => implicit_default(new.column.ty)
                .filter(|value| filling.zero_dates || !value.is_zero_date())
                .unwrap_or(Datum::Null),
        });
        let (name, key) = (new.column.name.clone(), new.key);
        let column = Column {
            def: new.column,
            old: None,
            source,
            counts: new.counts,
            null_said: new.null_said,
            computed: new.computed,
        };
        self.insert(column, position, self.columns.len())?;
        self.add_inline(&name, key)
    }

    /// Puts a column of a query last, as it is defined if it is.
    pub(super) fn add_selected(&mut self, selected: &ResultColumn) -> Result<()> {
        if let Some(place) = self.place(&selected.name) {
            let column = self.columns.remove(place);
            self.columns.push(column);
            return Ok(());
        }
        let no_type = || SqlError::not_supported("a column of NULL in CREATE TABLE … SELECT");
        let column = ColumnDef {
            nullable: !selected.not_null,
            members: selected.members.clone(),
            ..ColumnDef::new(
                checked_column_name(&selected.name)?,
                selected.ty.ok_or_else(no_type)?,
            )
        };
        self.columns.push(Column {
            source: Source::Value(Datum::Null),
            def: column,
            old: None,
            counts: false,
            null_said: false,
            computed: None,
        });
        Ok(())
    }

    /// Gives a column another definition.
    pub(super) fn change_column(
        &mut self,
        old: &str,
        new: Definition,
        position: &Position,
    ) -> Result<()> {
        let place = self.known(old)?;
        self.check_new_name(&new.column.name, Some(place))?;
        if !new.column.name.eq_ignore_ascii_case(old) {
            self.leave_column(old, false)?;
        }
        let (name, key) = (new.column.name.clone(), new.key);
        let before = self.columns.remove(place);
        generated::check_change(before.computed.as_ref(), new.computed.as_ref())?;
        let column = Column {
            def: new.column,
            old: before.old,
            source: match new.computed {
                // What it was does not matter.
                Some(_) => Source::Value(Datum::Null),
                None => before.source,
            },
            counts: new.counts,
            null_said: new.null_said,
            computed: new.computed,
        };
        self.insert(column, position, place)?;
        self.add_inline(&name, key)
    }

    /// Gives a column another name.
    pub(super) fn rename_column(&mut self, old: &str, new: &str) -> Result<()> {
        let place = self.known(old)?;
        self.check_new_name(new, Some(place))?;
        if !new.eq_ignore_ascii_case(old) {
            self.leave_column(old, false)?;
        }
        self.columns[place].def.name = new.to_owned();
        Ok(())
    }

    /// The definition of a column, to change its default.
    pub(super) fn column_mut(&mut self, name: &str) -> Result<&mut ColumnDef> {
        let place = self.known(name)?;
        Ok(&mut self.columns[place].def)
    }

    /// Takes a column out, also of the keys; a key without columns goes.
    pub(super) fn drop_column(&mut self, name: &str) -> Result<()> {
        let place = self.place(name).ok_or_else(|| SqlError::cant_drop(name))?;
        self.leave_column(name, true)?;
        let column = self.columns.remove(place);
        let Some(old) = column.old else {
            return Ok(());
        };
        let without = |parts: &mut Vec<Part>| {
            parts.retain(|part| !part.is_of(old));
            !parts.is_empty()
        };
        self.keys.retain_mut(|key| without(&mut key.parts));
        if !self.primary.as_mut().is_none_or(without) {
            self.primary = None;
        }
        Ok(())
    }

    /// Adds a key.
    pub(super) fn add_key(&mut self, key: NewKey) -> Result<()> {
        let parts = key.parts.into_iter().map(Part::new).collect();
        if !key.primary {
            self.keys.push(Key {
                name: key.name,
                unique: key.unique,
                invisible: key.invisible,
                parts,
            });
            return Ok(());
        }
        if key.invisible {
            return Err(SqlError::invisible_primary_key());
        }
        match self.primary.replace(parts) {
            Some(_) => Err(SqlError::multiple_primary_keys()),
            None => Ok(()),
        }
    }

    /// Takes the primary key out.
    pub(super) fn drop_primary_key(&mut self) -> Result<()> {
        match self.primary.take() {
            Some(_) => Ok(()),
            None => Err(SqlError::cant_drop("PRIMARY")),
        }
    }

    fn key(&self, name: &str) -> Option<usize> {
        let same = |key: &Key| {
            let key = key.name.as_deref();
            key.is_some_and(|key| key.eq_ignore_ascii_case(name))
        };
        self.keys.iter().position(same)
    }

    /// Takes a key out.
    pub(super) fn drop_key(&mut self, name: &str) -> Result<()> {
        let key = self.key(name).ok_or_else(|| SqlError::cant_drop(name))?;
        self.keys.remove(key);
        Ok(())
    }

    /// Lets statements use a key, or not.
    pub(super) fn show_key(&mut self, name: &str, visible: bool) -> Result<()> {
        if name.eq_ignore_ascii_case("PRIMARY") && !visible {
            return Err(SqlError::invisible_primary_key());
        }
        let unknown = || SqlError::unknown_key(name, &self.name);
        let key = self.key(name).ok_or_else(unknown)?;
        self.keys[key].invisible = !visible;
        Ok(())
    }

    /// Gives a key another name.
    pub(super) fn rename_key(&mut self, old: &str, new: &str) -> Result<()> {
        let unknown = || SqlError::unknown_key(old, &self.name);
        let key = self.key(old).ok_or_else(unknown)?;
        self.keys[key].name = Some(new.to_owned());
        Ok(())
    }

    /// The definition, and where the values of its columns come from.
    pub(super) fn finish(mut self) -> Result<(TableDef, Vec<Source>)> {
        let primary_key = match &self.primary {
            Some(parts) => self.primary_key(parts)?,
            None => Vec::new(),
        };
        for place in &primary_key {
            let column = &mut self.columns[usize::from(*place)];
            if column.null_said && column.def.nullable {
                return Err(SqlError::primary_key_null());
            }
            column.def.nullable = false;
        }
        if self.columns.is_empty() {
            return Err(SqlError::cant_drop_all());
        }
        self.add_foreign_indexes()?;
        let mut counting = self.columns.iter().enumerate().filter(|(_, c)| c.counts);
        let counts = counting.next().map(|(place, _)| place as u16);
        if counting.next().is_some() {
            return Err(SqlError::wrong_auto_increment());
        }
        let start = self.start.unwrap_or(1).max(1);
        let columns = self
            .columns
            .iter()
            .map(|c| (c.def.clone(), c.source.clone()));
        let (columns, mut sources): (Vec<_>, Vec<_>) = columns.unzip();
        let primary = self.primary.iter().flatten();
        let mut def = TableDef {
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns,
            primary_key,
            descending_primary_key: primary.map(|part| part.descending).collect(),
            auto_increment: counts.map(|column| AutoIncrement { column, start }),
            comment: self.comment.clone(),
            collation: self.collation,
            ..TableDef::default()
        };
        self.define_generated(&mut def)?;
        sources.extend(self.define_indexes(&mut def)?);
        def.foreign_keys = self.foreign_keys(&def)?;
        generated::check_keys(&def)?;
        def.checks = self.check_constraints(&def)?;
        check(&def)?;
        Ok((def, sources))
    }

    /// Places of a key's columns.
    fn resolve(&self, columns: &KeyColumns) -> Result<Vec<u16>> {
        let place = |found: Option<usize>| found.map(|place| place as u16);
        match columns {
            KeyColumns::Named(names) => names
                .iter()
                .map(|name| {
                    let unknown = || SqlError::unknown_key_column(name);
                    place(self.place(name)).ok_or_else(unknown)
                })
                .collect(),
            KeyColumns::Old(places) => Ok(places
                .iter()
                .filter_map(|old| {
                    let is = |c: &Column| c.old == Some(*old);
                    place(self.columns.iter().position(is))
                })
                .collect()),
        }
    }
}
