//! What MySQL's tables and SHOW say of a column or an index, in its words.

use perigee_accounts::Privileges;
use perigee_engine::catalog::{ColumnDef, ColumnDefault, Descending, Hidden, Table, TableDef};
use perigee_types::PAGE_SIZE;
use perigee_value::{Collation, ColumnType, Datum};

/// The product's name as that of a storage engine.
pub const ENGINE: &str = "Perigee";

/// What the engine is.
pub const ENGINE_COMMENT: &str = "Pages built from the log, reduced inside the Page Stores";

/// What a user may do with a column.
pub const PRIVILEGES: &str = "select,insert,update,references";

/// What of it an account may do with a column; `None` if nothing.
#[must_use]
pub fn privileges(granted: Privileges) -> Option<String> {
    let names = granted.and(Privileges::OF_COLUMNS).names();
    let names: Vec<_> = names.map(str::to_lowercase).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// CURRENT_TIMESTAMP with a column's digits.
#[must_use]
pub fn now_text(column: &ColumnDef) -> String {
    match column.ty.fsp() {
        None | Some(0) => "CURRENT_TIMESTAMP".to_owned(),
        Some(digits) => format!("CURRENT_TIMESTAMP({digits})"),
    }
}

/// A column's DEFAULT as text; `None` if it has none, or NULL.
#[must_use]
pub fn default_text(column: &ColumnDef) -> Option<String> {
    Some(match column.default.as_ref()? {
        ColumnDefault::Value(Datum::UInt(bits)) if matches!(column.ty, ColumnType::Bit { .. }) => {
            format!("b'{bits:b}'")
        }
        ColumnDefault::Value(value) => {
            let mut text = String::new();
            column.format(value.as_ref(), &mut text);
            text
        }
        ColumnDefault::Now => now_text(column),
    })
}

/// `auto_increment`, that the column is generated, or what a column does with the time at which its row is made or changed; that it is invisible.
#[must_use]
pub fn extra(def: &TableDef, number: usize) -> String {
    let extra = extra_but_invisible(def, number);
    match (def.columns[number].invisible, extra.is_empty()) {
        (false, _) => extra,
        (true, true) => "INVISIBLE".to_owned(),
        (true, false) => format!("{extra} INVISIBLE"),
    }
}

fn extra_but_invisible(def: &TableDef, number: usize) -> String {
    let column = &def.columns[number];
    if let Some(generated) = &column.generated {
        let kind = if generated.stored {
            "STORED"
        } else {
            "VIRTUAL"
        };
        return format!("{kind} GENERATED");
    }
    if def.is_auto_increment(number) {
        return "auto_increment".to_owned();
    }
    let default = match column.default {
        Some(ColumnDefault::Now) => "DEFAULT_GENERATED",
        _ => "",
    };
    match column.on_update_now {
        true => format!("{default} on update {}", now_text(column))
            .trim_start()
            .to_owned(),
        false => default.to_owned(),
    }
}

/// The collation of a column of texts. JSON and bytes have none.
#[must_use]
pub fn collation(column: &ColumnDef) -> Option<Collation> {
    let is_json = column.ty == ColumnType::Json;
    column
        .collation()
        .filter(|collation| collation.is_text() && !is_json)
}

/// PRI, UNI, MUL or nothing: a column's role in keys.
#[must_use]
pub fn key(def: &TableDef, column: u16) -> &'static str {
    if def.primary_key.contains(&column) {
        return "PRI";
    }
    let is_unique = |columns: &[u16]| columns == [column];
    let mut unique = def.indexes.iter().filter(|index| index.unique);
    if unique.any(|index| is_unique(&index.columns)) {
        // The first unique index over a NOT NULL column stands in for a missing primary key.
        let single = def
            .indexes
            .iter()
            .find(|index| index.unique && is_unique(&index.columns));
        let is_first = single.is_some_and(|index| index.columns[0] == column);
        let not_null = !def.columns[usize::from(column)].nullable;
        return if def.primary_key.is_empty() && not_null && is_first {
            "PRI"
        } else {
            "UNI"
        };
    }
    let leads = |columns: &[u16]| {
        let first = columns
            .first()
            .map(|first| &def.columns[usize::from(*first)]);
        let is_prefix = first.is_some_and(
            |first| matches!(first.hidden, Some(Hidden::Prefix { of, .. }) if of == column),
        );
        is_prefix || columns.first() == Some(&column)
    };
    match def.indexes.iter().any(|index| leads(&index.columns)) {
        true => "MUL",
        false => "",
    }
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key<'t> {
    /// Name; that of the primary key is PRIMARY.
    pub name: &'t str,
    /// Columns in key order, hidden ones among them.
    pub columns: &'t [u16],
    /// Which of these are defined with DESC.
    pub descending: Descending,
    /// No two rows agree in all of them.
    pub unique: bool,
    /// INVISIBLE.
    pub invisible: bool,
}

/// A part of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyPart<'t> {
    /// The column, if it is one or the beginning of one.
    pub column: Option<&'t ColumnDef>,
    /// Characters, if it is the beginning of one.
    pub length: Option<u16>,
    /// The expression, if it is one.
    pub expression: Option<&'t str>,
    /// It may be NULL.
    pub nullable: bool,
}

impl<'t> KeyPart<'t> {
    /// The part that a column of a key stands for.
    #[must_use]
    pub fn of(def: &'t TableDef, column: u16) -> Self {
        let own = &def.columns[usize::from(column)];
        let (column, length) = match own.hidden {
            None => (Some(own), None),
            Some(Hidden::Prefix { of, length }) => (def.columns.get(usize::from(of)), Some(length)),
            Some(Hidden::Expression) => (None, None),
        };
        let generated = own.generated.as_ref().filter(|_| column.is_none());
        Self {
            column,
            length,
            expression: generated.map(|generated| &*generated.expression),
            nullable: own.nullable,
        }
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&'t str> {
        self.column.map(|column| &*column.name)
    }
}

/// A or D: in which order a part of a key is defined.
#[must_use]
pub fn direction(key: &Key<'_>, number: usize) -> &'static str {
    match key.descending.has(number) {
        true => "D",
        false => "A",
    }
}

/// The keys of a table, the primary one first.
pub fn keys(def: &TableDef) -> impl Iterator<Item = Key<'_>> {
    let primary = (!def.primary_key.is_empty()).then_some(Key {
        name: "PRIMARY",
        columns: &def.primary_key,
        descending: def.descending_primary_key,
        unique: true,
        invisible: false,
    });
    let others = def.indexes.iter().map(|index| Key {
        name: &index.name,
        columns: &index.columns,
        descending: index.descending,
        unique: index.unique,
        invisible: index.invisible,
    });
    primary.into_iter().chain(others)
}

/// About how many different values the first columns of a key have together.
#[must_use]
pub fn cardinality(table: &Table, columns: &[u16]) -> u64 {
    let stats = table.stats();
    columns.iter().fold(1, |product: u64, column| {
        let column = stats.columns.get(usize::from(*column));
        let distinct = column.map_or(1, |column| column.distinct.max(1));
        stats.rows.min(product.saturating_mul(distinct))
    })
}

/// How much a table has, about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub rows: u64,
    /// Bytes of the rows.
    pub data: u64,
    /// Bytes of secondary indexes.
    pub index: u64,
}

impl Size {
    /// What statistics say.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let stats = table.stats();
        let bytes = |pages: u64| pages * PAGE_SIZE as u64;
        Self {
            rows: stats.rows,
            data: bytes(stats.leaf_pages.first().copied().unwrap_or(0)),
            index: bytes(stats.leaf_pages.iter().skip(1).sum()),
        }
    }

    /// Bytes of a row.
    #[must_use]
    pub fn row(self) -> u64 {
        self.data.checked_div(self.rows).unwrap_or(0)
    }
}

/// PAD SPACE or NO PAD.
#[must_use]
pub fn pad_attribute(collation: Collation) -> &'static str {
    match collation.pads() {
        true => "PAD SPACE",
        false => "NO PAD",
    }
}

/// True for the collation of texts for which only its character set is said.
#[must_use]
pub fn is_default(collation: Collation) -> bool {
    collation.charset().default_collation() == collation
}
