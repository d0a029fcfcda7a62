//! STATISTICS: the columns of keys.

use std::sync::Arc;

use perigee_engine::catalog::Table;
use perigee_value::Datum;

use super::SCHEMA;
use crate::Facts;
use crate::definition::{Definition, catalog, count, empty, long, null, number, of, of_some, text};
use crate::describe::{self, KeyPart};

/// STATISTICS.
pub(super) static STATISTICS: Definition<Part> = Definition {
    schema: SCHEMA,
    name: "STATISTICS",
    columns: &[
        text("TABLE_CATALOG", 64, catalog),
        text("TABLE_SCHEMA", 64, |part| of(&part.table.def.schema)),
        text("TABLE_NAME", 64, |part| of(&part.table.def.name)),
        number("NON_UNIQUE", |part| Datum::Int((!part.unique).into())),
        text("INDEX_SCHEMA", 64, |part| of(&part.table.def.schema)),
        text("INDEX_NAME", 64, |part| of(&part.key)),
        count("SEQ_IN_INDEX", |part| Datum::UInt(part.number as u64 + 1)),
        text("COLUMN_NAME", 64, |part| of_some(part.part().name())),
        text("COLLATION", 1, |part| of(part.direction)),
        number("CARDINALITY", |part| Datum::Int(part.cardinality as i64)),
        number("SUB_PART", |part| {
            part.part()
                .length
                .map_or(Datum::Null, |length| Datum::Int(length.into()))
        }),
        text("PACKED", 10, null),
        text("NULLABLE", 3, |part| {
            of(if part.part().nullable { "YES" } else { "" })
        }),
        text("INDEX_TYPE", 11, |_| of("BTREE")),
        text("COMMENT", 8, empty),
        text("INDEX_COMMENT", 2048, empty),
        text("IS_VISIBLE", 3, |part| {
            of(if part.invisible { "NO" } else { "YES" })
        }),
        long("EXPRESSION", |part| of_some(part.part().expression)),
    ],
    rows: parts,
};

/// A column of a key.
pub(super) struct Part {
    table: Arc<Table>,
    key: String,
    unique: bool,
    /// Its place in the key.
    number: usize,
    /// Its place in the table.
    column: u16,
    /// A or D.
    direction: &'static str,
    invisible: bool,
    cardinality: u64,
}

impl Part {
    fn part(&self) -> KeyPart<'_> {
        KeyPart::of(&self.table.def, self.column)
    }
}

fn parts(facts: &Facts) -> Vec<Part> {
    let mut parts = Vec::new();
    for table in facts.tables.iter().map(|facts| &facts.table) {
        for key in describe::keys(&table.def) {
            let columns = key.columns.iter().enumerate();
            parts.extend(columns.map(|(number, column)| Part {
                table: table.clone(),
                key: key.name.to_owned(),
                unique: key.unique,
                number,
                column: *column,
                direction: describe::direction(&key, number),
                invisible: key.invisible,
                cardinality: describe::cardinality(table, &key.columns[..=number]),
            }));
        }
    }
    parts
}
