//! SCHEMATA and TABLES.

use perigee_value::{Collation, Datum};

use super::SCHEMA;
use crate::definition::{
    Definition, catalog, count, count_of, empty, long, moment, null, of, of_some, text,
};
use crate::describe::{ENGINE, Size};
use crate::{Facts, TableFacts, ViewFacts};

/// SCHEMATA.
pub(super) static SCHEMATA: Definition<(String, Collation)> = Definition {
    schema: SCHEMA,
    name: "SCHEMATA",
    columns: &[
        text("CATALOG_NAME", 64, catalog),
        text("SCHEMA_NAME", 64, |(schema, _)| of(schema)),
        text("DEFAULT_CHARACTER_SET_NAME", 64, |(_, collation)| {
            of(collation.charset().name())
        }),
        text("DEFAULT_COLLATION_NAME", 64, |(_, collation)| {
            of(collation.name())
        }),
        text("SQL_PATH", 512, null),
        text("DEFAULT_ENCRYPTION", 3, |_| of("NO")),
    ],
    rows: schemas,
};

/// The schemas of users and those of views, sorted, with the collations of their tables to come.
fn schemas(facts: &Facts) -> Vec<(String, Collation)> {
    let views = facts.view_schemas.iter();
    let views = views.map(|schema| ((*schema).to_owned(), Collation::UTF8MB4_GENERAL_CI));
    let mut all: Vec<_> = views.chain(facts.schemas.iter().cloned()).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all.dedup_by(|(a, _), (b, _)| a == b);
    all
}

/// TABLES.
pub(super) static TABLES: Definition<Listed> = Definition {
    schema: SCHEMA,
    name: "TABLES",
    columns: &[
        text("TABLE_CATALOG", 64, catalog),
        text("TABLE_SCHEMA", 64, |table| of(table.schema())),
        text("TABLE_NAME", 64, |table| of(table.name())),
        text("TABLE_TYPE", 64, |table| of(table.kind())),
        text("ENGINE", 64, |table| of_some(table.base().map(|_| ENGINE))),
        count("VERSION", |table| sized(table, |_| 10)),
        text("ROW_FORMAT", 10, |table| {
            of_some(table.base().map(|_| "Dynamic"))
        }),
        count("TABLE_ROWS", |table| sized(table, |size| size.rows)),
        count("AVG_ROW_LENGTH", |table| sized(table, Size::row)),
        count("DATA_LENGTH", |table| sized(table, |size| size.data)),
        count("MAX_DATA_LENGTH", |table| sized(table, |_| 0)),
        count("INDEX_LENGTH", |table| sized(table, |size| size.index)),
        count("DATA_FREE", |table| sized(table, |_| 0)),
        count("AUTO_INCREMENT", |table| {
            count_of(table.base().and_then(|t| t.next_number))
        }),
        moment("CREATE_TIME", null),
        moment("UPDATE_TIME", null),
        moment("CHECK_TIME", null),
        text("TABLE_COLLATION", 64, |table| of_some(table.collation())),
        count("CHECKSUM", null),
        text("CREATE_OPTIONS", 256, empty),
        long("TABLE_COMMENT", |table| of(table.comment())),
    ],
    rows: tables,
};

/// A table or a view of a user, or a view of the server.
pub(super) enum Listed {
    Base(Box<(TableFacts, Size)>),
    View(&'static str, &'static str),
    Stored(Box<ViewFacts>),
}

impl Listed {
    fn base(&self) -> Option<&TableFacts> {
        match self {
            Self::Base(base) => Some(&base.0),
            Self::View(..) | Self::Stored(_) => None,
        }
    }

    fn schema(&self) -> &str {
        match self {
            Self::Base(base) => &base.0.table.def.schema,
            Self::View(schema, _) => schema,
            Self::Stored(view) => &view.def.schema,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Base(base) => &base.0.table.def.name,
            Self::View(_, name) => name,
            Self::Stored(view) => &view.def.name,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Base(_) => "BASE TABLE",
            Self::View(..) => "SYSTEM VIEW",
            Self::Stored(_) => "VIEW",
        }
    }

    fn collation(&self) -> Option<&'static str> {
        Some(self.base()?.table.def.collation.name())
    }

    fn comment(&self) -> &str {
        match self {
            Self::Base(base) => &base.0.table.def.comment,
            Self::View(..) => "",
            Self::Stored(view) => view
                .columns
                .as_ref()
                .map_or_else(String::as_str, |_| "VIEW"),
        }
    }
}

fn sized(table: &Listed, value: impl Fn(Size) -> u64) -> Datum {
    match table {
        Listed::Base(base) => Datum::UInt(value(base.1)),
        Listed::View(..) | Listed::Stored(_) => Datum::Null,
    }
}

fn tables(facts: &Facts) -> Vec<Listed> {
    let views = facts.own_views();
    let views = views.map(|view| Listed::View(view.schema(), view.name()));
    let base = |facts: &TableFacts| Listed::Base(Box::new((facts.clone(), Size::of(&facts.table))));
    let stored = facts.views.iter().cloned();
    let stored = stored.map(|view| Listed::Stored(Box::new(view)));
    let base = facts.tables.iter().map(base);
    views.chain(base).chain(stored).collect()
}
