//! STATISTICS: the columns of keys.

use std::sync::Arc;

use perigee_engine::catalog::{ColumnDef, Table};
use perigee_value::Datum;

use super::SCHEMA;
use crate::Facts;
use crate::definition::{Definition, catalog, count, empty, long, null, number, of, text};
use crate::describe;

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
        text("COLUMN_NAME", 64, |part| of(&part.column().name)),
        text("COLLATION", 1, |_| of("A")),
        number("CARDINALITY", |part| Datum::Int(part.cardinality as i64)),
        number("SUB_PART", null),
        text("PACKED", 10, null),
        text("NULLABLE", 3, |part| {
            of(if part.column().nullable { "YES" } else { "" })
        }),
        text("INDEX_TYPE", 11, |_| of("BTREE")),
        text("COMMENT", 8, empty),
        text("INDEX_COMMENT", 2048, empty),
        text("IS_VISIBLE", 3, |_| of("YES")),
        long("EXPRESSION", null),
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
    cardinality: u64,
}

impl Part {
    fn column(&self) -> &ColumnDef {
        &self.table.def.columns[usize::from(self.column)]
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
                cardinality: describe::cardinality(table, &key.columns[..=number]),
            }));
        }
    }
    parts
}
