//! [`Definition`]: a view as a list of columns, each with what a fact says in it.

use perigee_accounts::Privileges;
use perigee_engine::catalog::{ColumnDef, TableDef};
use perigee_value::{Collation, ColumnType, Datum};

use crate::{Facts, View};

/// A column of a view over facts of type `T`.
pub(crate) struct Column<T> {
    pub name: &'static str,
    pub ty: ColumnType,
    pub nullable: bool,
    /// Its value.
    pub value: fn(&T) -> Datum,
}

/// A view over facts of type `T`.
pub(crate) struct Definition<T: 'static> {
    pub schema: &'static str,
    pub name: &'static str,
    pub columns: &'static [Column<T>],
    /// What there is a row for.
    pub rows: fn(&Facts) -> Vec<T>,
}

impl<T> View for Definition<T> {
    fn schema(&self) -> &'static str {
        self.schema
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn definition(&self) -> TableDef {
        let columns = self.columns.iter().map(|column| ColumnDef {
            nullable: column.nullable,
            ..ColumnDef::new(column.name, column.ty)
        });
        TableDef {
            schema: self.schema.to_owned(),
            name: self.name.to_owned(),
            columns: columns.collect(),
            collation: Collation::UTF8MB4_GENERAL_CI,
            ..TableDef::default()
        }
    }

    fn rows(&self, facts: &Facts) -> Vec<Vec<Datum>> {
        let row = |fact: T| self.columns.iter().map(|c| (c.value)(&fact)).collect();
        (self.rows)(facts).into_iter().map(row).collect()
    }
}

/// A text of at most so many characters. Names compare without case.
pub(crate) const fn text<T>(name: &'static str, chars: u16, value: fn(&T) -> Datum) -> Column<T> {
    let collation = Collation::UTF8MB4_GENERAL_CI;
    let ty = ColumnType::Varchar { chars, collation };
    Column {
        name,
        ty,
        nullable: true,
        value,
    }
}

/// A text of any length.
pub(crate) const fn long<T>(name: &'static str, value: fn(&T) -> Datum) -> Column<T> {
    let collation = Collation::UTF8MB4_GENERAL_CI;
    let ty = ColumnType::Long {
        prefix: 4,
        collation,
    };
    Column {
        name,
        ty,
        nullable: true,
        value,
    }
}

/// BIGINT UNSIGNED.
pub(crate) const fn count<T>(name: &'static str, value: fn(&T) -> Datum) -> Column<T> {
    let ty = ColumnType::Int {
        bytes: 8,
        unsigned: true,
    };
    Column {
        name,
        ty,
        nullable: true,
        value,
    }
}

/// BIGINT.
pub(crate) const fn number<T>(name: &'static str, value: fn(&T) -> Datum) -> Column<T> {
    let ty = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    Column {
        name,
        ty,
        nullable: true,
        value,
    }
}

/// DATETIME.
pub(crate) const fn moment<T>(name: &'static str, value: fn(&T) -> Datum) -> Column<T> {
    let ty = ColumnType::DateTime { fsp: 0 };
    Column {
        name,
        ty,
        nullable: true,
        value,
    }
}

/// DATETIME(6).
pub(crate) const fn instant<T>(name: &'static str, value: fn(&T) -> Datum) -> Column<T> {
    let ty = ColumnType::DateTime { fsp: 6 };
    Column {
        name,
        ty,
        nullable: true,
        value,
    }
}

/// A text as a value.
pub(crate) fn of(text: impl AsRef<str>) -> Datum {
    Datum::String(text.as_ref().as_bytes().to_vec())
}

/// A text, or NULL.
pub(crate) fn of_some(text: Option<impl AsRef<str>>) -> Datum {
    text.map_or(Datum::Null, of)
}

/// A count, or NULL.
pub(crate) fn count_of(count: Option<u64>) -> Datum {
    count.map_or(Datum::Null, Datum::UInt)
}

/// NULL, whatever the fact.
pub(crate) fn null<T>(_: &T) -> Datum {
    Datum::Null
}

/// An empty text.
pub(crate) fn empty<T>(_: &T) -> Datum {
    of("")
}

/// Privileges as the values of a SET: `Select,Show view`.
pub(crate) fn set_of(privileges: Privileges) -> String {
    let mut words: Vec<String> = Vec::new();
    let before_grant = Privileges::from_bits(Privileges::GRANT_OPTION.bits() - 1);
    words.extend(privileges.and(before_grant).names().map(in_words));
    if privileges.has(Privileges::GRANT_OPTION) {
        words.push("Grant".to_owned());
    }
    words.extend(privileges.without(before_grant).names().map(in_words));
    words.join(",")
}

/// A privilege with capital letters at the beginnings of its words, of which one has none in MySQL.
fn in_words(name: &str) -> String {
    if name == "SHOW VIEW" {
        return "Show view".to_owned();
    }
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        format!("{first}{}", rest.to_lowercase())
    };
    let words: Vec<_> = name.split(' ').map(capital).collect();
    words.join(" ")
}

/// The name of the only catalog.
pub(crate) fn catalog<T>(_: &T) -> Datum {
    of("def")
}

/// There is none.
pub(crate) fn none(_: &Facts) -> Vec<()> {
    Vec::new()
}
