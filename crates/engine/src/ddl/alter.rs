//! ALTER TABLE: what has to be done for another definition, and doing it.

use std::fmt;
use std::sync::Arc;

use perigee_types::TableId;
use perigee_value::{ColumnType, Datum, Members, RowError, ValueError, Zone};

use super::build::{Build, Rows};
use super::change::Change;
use super::fill::Fill;
use super::foreign;
use super::lock::TableName;
use super::related::{self, RelatedTables};
use super::schema::NO_ROOT;
use crate::EngineError;
use crate::catalog::{
    ColumnDef, ForeignKey, Hidden, IndexRoot, Numbers, Step, Table, TableDef, TableStats, positive,
};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::scan::CancelToken;
use crate::txn::foreign::refused;

/// Where the values of a column come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// From a column of the table as it is, converted if the type is another one.
    Column(u16),
    /// All rows get this one.
    Value(Datum),
}

/// What a table is to become.
#[derive(Clone, Debug)]
pub struct Alteration {
    /// Its definition.
    pub def: TableDef,
    /// For each of its columns where the values come from.
    pub sources: Vec<Source>,
    /// 0 in the AUTO_INCREMENT column is a value, not a request for a number.
    pub zero_is_a_value: bool,
    /// Values of columns that get another type may become 0000-00-00.
    pub zero_dates: bool,
    /// The session's time zone, in which values of TIMESTAMP columns become others.
    pub zone: Zone,
    /// Write all rows anew even if nothing asks for it.
    pub force: bool,
    /// Rows must refer to rows by new foreign keys, and columns of foreign keys keep their types.
    pub checks: bool,
    /// Computes what columns of rows that are written anew follow from others.
    pub row_fill: Option<RowFill>,
    /// What must hold for each row.
    pub row_check: Option<RowCheck>,
}

/// Completes a row, given as values of the table's columns; false if that cannot be done.
pub type Complete = dyn Fn(&mut [Datum]) -> bool + Send + Sync;

/// What completes the rows of a table that are written anew.
#[derive(Clone)]
pub struct RowFill(pub Arc<Complete>);

impl fmt::Debug for RowFill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowFill")
    }
}

/// Whether a row, given as values of the table's columns, keeps a condition.
pub type Holds = dyn Fn(&[Datum]) -> bool + Send + Sync;

/// A condition that the rows of a table must keep.
#[derive(Clone)]
pub struct RowCheck {
    /// The condition.
    pub holds: Arc<Holds>,
    /// Rows that stay as they are may not keep it.
    pub always: bool,
}

impl fmt::Debug for RowCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCheck")
            .field("always", &self.always)
            .finish_non_exhaustive()
    }
}

impl Alteration {
    /// True if the clustered records stay as they are.
    fn keeps_records(&self, old: &TableDef) -> bool {
        let same_place = |(place, source): (usize, &Source)| {
            *source == Source::Column(place as u16) && {
                let (from, to) = (&old.columns[place], &self.def.columns[place]);
                from.nullable == to.nullable
                    && computed_alike(from, to)
                    && stored_alike(from.ty, to.ty)
                    && numbered_alike(from, to)
            }
        };
        let new_numbers = |auto: &crate::catalog::AutoIncrement| {
            // Rows that had no number get one.
            old.auto_increment.map(|auto| auto.column) != Some(auto.column)
        };
        !self.force
            && old.columns.len() == self.def.columns.len()
            && old.primary_key == self.def.primary_key
            && self.sources.iter().enumerate().all(same_place)
            && !self.def.auto_increment.as_ref().is_some_and(new_numbers)
    }

    /// For each index of the definition the one of `old` that has the same entries.
    fn kept_indexes(&self, old: &TableDef) -> Vec<Option<usize>> {
        let mut free: Vec<bool> = vec![true; old.indexes.len()];
        let mut kept = Vec::new();
        for index in &self.def.indexes {
            let same = |other: &crate::catalog::IndexDef| {
                other.columns == index.columns && other.unique == index.unique
            };
            let by_name = |i: &usize| old.indexes[*i].name == index.name;
            let candidates =
                || (0..old.indexes.len()).filter(|i| free[*i] && same(&old.indexes[*i]));
            let found = candidates().find(by_name).or_else(|| candidates().next());
            if let Some(found) = found {
                free[found] = false;
            }
            kept.push(found);
        }
        kept
    }
}

/// True if a column's values are computed alike before and after.
fn computed_alike(from: &ColumnDef, to: &ColumnDef) -> bool {
    // The beginning of a column is the same, whatever the column is called.
    let is_prefix = matches!(from.hidden, Some(Hidden::Prefix { .. }));
    from.hidden == to.hidden && (is_prefix || from.generated == to.generated)
}

/// True if numbers of an ENUM or a SET stand for the same values before and after; of other columns, true.
fn numbered_alike(from: &ColumnDef, to: &ColumnDef) -> bool {
    match (&from.members, &to.members) {
        (None, None) => true,
        (Some(from), Some(to)) => {
            from.kind() == to.kind()
                && from.collation() == to.collation()
                && to.texts().starts_with(from.texts())
        }
        _ => false,
    }
}

/// A value of a column as it was, as one of the column as it will be.
fn converted(
    value: Datum,
    from: &ColumnDef,
    to: &ColumnDef,
    zone: Zone,
) -> Result<Datum, ValueError> {
    let alike = from.ty == to.ty && numbered_alike(from, to);
    match (&from.members, &value) {
        _ if alike => Ok(value),
        // What an ENUM or a SET becomes depends on its texts, but for numbers.
        (Some(members), Datum::UInt(number)) => {
            let is_alike = |to: &Arc<Members>| to.kind() == members.kind();
            if *number == 0 && to.members.as_ref().is_some_and(is_alike) {
                return Ok(value);
            }
            let is_text = to.members.is_some() || to.ty.is_string();
            match members.text(*number).filter(|_| is_text) {
                Some(text) => to.parse(text.as_bytes(), zone),
                None => to.coerce(value, from.ty, zone),
            }
        }
        _ => to.coerce(value, from.ty, zone),
    }
}

/// True if every value of the one type is stored as the same value of the other.
fn stored_alike(from: ColumnType, to: ColumnType) -> bool {
    match (from, to) {
        (
            ColumnType::Varchar { chars, collation },
            ColumnType::Varchar {
                chars: more,
                collation: other,
            },
        ) => chars <= more && collation == other,
        (
            ColumnType::Long { prefix, collation },
            ColumnType::Long {
                prefix: more,
                collation: other,
            },
        ) => prefix <= more && collation == other,
        (ColumnType::Bit { bits }, ColumnType::Bit { bits: more }) => {
            bits <= more && from.stored_width() == to.stored_width()
        }
        _ => from == to,
    }
}

impl Engine {
    /// Gives a table another definition: only the definition if the rows stay as they are, with
    /// trees of new indexes, or with all rows written anew. Returns how many rows were.
    ///
    /// # Errors
    /// [`EngineError::BadDefinition`], [`EngineError::TableExists`] and
    /// [`EngineError::NoSuchSchema`] for the new name, [`EngineError::DuplicateKey`],
    /// [`EngineError::Row`] for a row that does not fit, [`EngineError::Refused`],
    /// [`EngineError::Cancelled`]. Then the table is what it was.
    pub async fn alter_table(
        self: &Arc<Self>,
        locked: RelatedTables,
        mut alteration: Alteration,
        cancel: &CancelToken,
    ) -> Result<u64, EngineError> {
        let old = locked.table().clone();
        self.check_alteration(&old, &alteration)?;
        let mut def = alteration.def.clone();
        foreign::follow(&mut def, &old, &alteration);
        let mut before = old.def.clone();
        foreign::follow(&mut before, &old, &alteration);
        for def in [&mut def, &mut before] {
            related::rename_generated(def, &old.def.name, &alteration.def.name);
        }
        alteration.def = def;
        self.check_constraints(&alteration.def, Some(&old), alteration.checks)?;
        let trial = vec![NO_ROOT; alteration.def.indexes.len() + 1];
        let trial = Table::new(
            TableId(0),
            alteration.def.clone(),
            &trial,
            TableStats::default(),
        )?;
        let name = TableName::of(&trial);
        let renamed = name != TableName::of(&old);
        if renamed {
            related::check_moved(&old.def, &trial.def)?;
            self.check_free(&name)?;
        }
        let (table, rows) = if alteration.keeps_records(&old.def) {
            let kept = alteration.kept_indexes(&old.def);
            (self.with_indexes(&old, trial, &kept, cancel).await?, None)
        } else {
            let (table, rows) = self.copied(&old, trial, &alteration, cancel).await?;
            (table, Some(rows))
        };
        let table = self.with_references(&before, table, &alteration, cancel);
        let table = table.await?;
        let row_check = alteration.row_check.as_ref();
        let row_check = row_check.filter(|check| check.always || rows.is_some());
        let table = match row_check {
            Some(check) => self.with_checked_rows(table, check, cancel).await?,
            None => table,
        };
        let turn = self.turn().await?;
        if renamed {
            self.check_free(&name)?;
        }
        self.check_constraints(&alteration.def, Some(&old), alteration.checks)?;
        let mut change = Change::default();
        if old.roots() != table.roots() {
            change.moves_trees();
        }
        change.remove(&old);
        change.put(table);
        for (child, def) in self.following(&old, &alteration) {
            let stats = (*child.stats()).clone();
            change.remove(&child);
            change.put(child.successor(child.id, def, &child.roots(), stats)?);
        }
        self.make_change(turn, locked.into_locks(), change).await?;
        Ok(rows.unwrap_or(0))
    }

    /// The table, once its rows are found to keep a condition.
    async fn with_checked_rows(
        self: &Arc<Self>,
        table: Table,
        check: &RowCheck,
        cancel: &CancelToken,
    ) -> Result<Table, EngineError> {
        let table = Arc::new(table);
        let columns = table.def.columns.len();
        let mut rows = Rows::new(self, &table, cancel);
        let mut more = true;
        while more {
            let mut leaf = Vec::new();
            more = rows
                .next(|row| {
                    let value = |column: usize| row.value(column).to_datum();
                    leaf.push((0..columns).map(value).collect::<Vec<_>>());
                    Ok(())
                })
                .await?;
            for mut row in leaf {
                if table.has_long() {
                    self.fetch_long(&mut row).await?;
                }
                if !(check.holds)(&row) {
                    return Err(refused(Refusal::Unchecked));
                }
            }
        }
        drop(rows);
        Ok(Arc::into_inner(table).expect("nobody else knows it yet"))
    }

    /// The table, once its rows are found to refer to rows by the foreign keys that it did not have `before`, where that is to
    /// be checked.
    async fn with_references(
        self: &Arc<Self>,
        before: &TableDef,
        table: Table,
        alteration: &Alteration,
        cancel: &CancelToken,
    ) -> Result<Table, EngineError> {
        let known = |key: &ForeignKey| {
            let mut before = before.foreign_keys.iter();
            before.any(|before| foreign::is_same(before, key, alteration))
        };
        let keys = table.def.foreign_keys.clone();
        let keys: Vec<_> = keys.iter().filter(|key| !known(key)).collect();
        if !alteration.checks || keys.is_empty() {
            return Ok(table);
        }
        let table = Arc::new(table);
        self.check_references(&table, &keys, cancel).await?;
        Ok(Arc::into_inner(table).expect("nobody else knows it yet"))
    }

    /// The table with the definition of `trial` over the same clustered records; the trees of
    /// indexes that are not kept are built.
    async fn with_indexes(
        self: &Arc<Self>,
        old: &Arc<Table>,
        trial: Table,
        kept: &[Option<usize>],
        cancel: &CancelToken,
    ) -> Result<Table, EngineError> {
        let numbered = || (1..).zip(kept);
        let new: Vec<usize> = numbered()
            .filter_map(|(number, kept)| kept.is_none().then_some(number))
            .collect();
        let mut made = Vec::new().into_iter();
        if !new.is_empty() {
            let indexes: Vec<_> = new.iter().map(|number| &trial.indexes[*number]).collect();
            made = self.make_trees(&indexes).await?.1.into_iter();
        }
        let old_roots = old.roots();
        let mut roots = vec![old_roots[0].clone()];
        for kept in kept {
            let root: Option<IndexRoot> = match kept {
                Some(kept) => Some(old_roots[kept + 1].clone()),
                None => made.next(),
            };
            roots.push(root.expect("a tree was made for each index that is not kept"));
        }
        let before = old.stats();
        let pages_of = |kept: &Option<usize>| {
            let pages = kept.map(|kept| before.leaf_pages.get(kept + 1));
            pages.flatten().copied().unwrap_or(0)
        };
        let mut stats = (*before).clone();
        stats.leaf_pages.truncate(1);
        if !stats.leaf_pages.is_empty() {
            stats.leaf_pages.extend(kept.iter().map(pages_of));
        }
        let def = trial.def.clone();
        let table = old.successor(old.id, def.clone(), &roots, stats)?;
        if new.is_empty() {
            return Ok(table);
        }
        let table = Arc::new(table);
        let mut build = Build::new(self, &table, new.into_iter(), cancel);
        let mut stats = build.push_entries(old).await?;
        stats.leaf_pages.extend(kept.iter().map(pages_of));
        for (number, built) in build.finish().await? {
            stats.leaf_pages[number] = built.leaf_pages;
        }
        old.successor(old.id, def, &roots, stats)
    }

    /// The table with the definition of `trial` and all rows of `old`, and how many there are.
    async fn copied(
        self: &Arc<Self>,
        old: &Arc<Table>,
        trial: Table,
        alteration: &Alteration,
        cancel: &CancelToken,
    ) -> Result<(Table, u64), EngineError> {
        let indexes: Vec<_> = trial.indexes.iter().collect();
        let (id, roots) = self.make_trees(&indexes).await?;
        let def = trial.def.clone();
        let table = old.successor(id, def.clone(), &roots, TableStats::default())?;
        let table = Arc::new(table);
        let mut fill = Fill::new(self, &table, cancel);
        let converter = Converter::new(old, &table, alteration);
        let mut rows = Rows::new(self, old, cancel);
        if old.has_long() {
            self.copy_long(&mut rows, &converter, &mut fill).await?;
        } else {
            while rows
                .next(|row| {
                    let value = |column: usize| row.value(column).to_datum();
                    let number = fill.rows();
                    fill.push(&converter.convert(value, number)?)
                })
                .await?
            {
                fill.settle().await?;
            }
        }
        let stats = fill.finish().await?;
        let count = stats.rows;
        Ok((old.successor(id, def, &roots, stats)?, count))
    }
}

impl Engine {
    /// Copies rows with long values, which the new table has chains of its own for.
    async fn copy_long(
        &self,
        rows: &mut Rows,
        converter: &Converter<'_>,
        fill: &mut Fill,
    ) -> Result<(), EngineError> {
        let mut more = true;
        while more {
            let mut leaf = Vec::new();
            more = rows
                .next(|row| {
                    let columns = 0..converter.old.def.columns.len();
                    let value = |column: usize| match converter.needs(column) {
                        true => row.value(column).to_datum(),
                        false => Datum::Null,
                    };
                    leaf.push(columns.map(value).collect::<Vec<_>>());
                    Ok(())
                })
                .await?;
            for mut row in leaf {
                self.fetch_long(&mut row).await?;
                let number = fill.rows();
                fill.push(&converter.convert(|column| row[column].clone(), number)?)?;
                fill.settle().await?;
            }
        }
        Ok(())
    }
}

/// Makes rows of the table as it will be.
struct Converter<'a> {
    old: &'a Table,
    new: &'a Table,
    alteration: &'a Alteration,
    /// What AUTO_INCREMENT hands out to rows without number.
    numbers: Option<Numbers>,
}

impl<'a> Converter<'a> {
    fn new(old: &'a Table, new: &'a Table, alteration: &'a Alteration) -> Self {
        let auto = new.def.auto_increment;
        Self {
            old,
            new,
            alteration,
            numbers: auto.map(|auto| Numbers::new(&new.def, auto)),
        }
    }

    /// True if a column of the old table goes into the new one.
    fn needs(&self, column: usize) -> bool {
        let is_it = |source: &Source| matches!(source, Source::Column(from) if usize::from(*from) == column);
        self.alteration.sources.iter().any(is_it)
    }

    /// The row with this number, from 0, whose values `old` gives.
    fn convert(
        &self,
        old: impl Fn(usize) -> Datum,
        number: u64,
    ) -> Result<Vec<Datum>, EngineError> {
        let mut values = Vec::with_capacity(self.new.def.columns.len());
        let columns = self.alteration.sources.iter().zip(&self.new.def.columns);
        for (place, (source, column)) in columns.enumerate() {
            let value = match source {
                Source::Value(value) => value.clone(),
                Source::Column(from) => {
                    let value = old(usize::from(*from));
                    let before = &self.old.def.columns[usize::from(*from)];
                    self.converted(value, before, column).map_err(|error| {
                        let column = place as u16;
                        let error = RowError::Column { column, error };
                        EngineError::Row { number, error }
                    })?
                }
            };
            values.push(value);
        }
        self.fill(&mut values)?;
        match &self.alteration.row_fill {
            Some(fill) if !(fill.0)(&mut values) => Err(refused(Refusal::Unchecked)),
            _ => Ok(values),
        }
    }

    fn converted(
        &self,
        value: Datum,
        from: &ColumnDef,
        to: &ColumnDef,
    ) -> Result<Datum, ValueError> {
        let value = converted(value, from, to, self.alteration.zone)?;
        match from.ty != to.ty && value.is_zero_date() && !self.alteration.zero_dates {
            true => Err(ValueError::zero_date(to.ty)),
            false => Ok(value),
        }
    }

    /// Gives the row a number if it asks for one.
    fn fill(&self, values: &mut [Datum]) -> Result<(), EngineError> {
        let (Some(auto), Some(numbers)) = (self.new.def.auto_increment, &self.numbers) else {
            return Ok(());
        };
        let place = usize::from(auto.column);
        let value = &mut values[place];
        let asks = match value {
            Datum::Null => true,
            Datum::Int(0) | Datum::UInt(0) => !self.alteration.zero_is_a_value,
            _ => false,
        };
        if !asks {
            if let Some(number) = positive(value.as_ref()) {
                numbers.raise(number);
            }
            return Ok(());
        }
        let number = numbers.take(Step::default());
        let number = number.ok_or(EngineError::NumbersExhausted)?;
        *value = match self.new.def.columns[place].ty {
            ColumnType::Int { unsigned: true, .. } => Datum::UInt(number),
            _ => Datum::Int(number as i64), // at most the greatest of the column's type
        };
        Ok(())
    }
}
