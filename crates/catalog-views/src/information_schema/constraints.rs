//! TABLE_CONSTRAINTS and KEY_COLUMN_USAGE: primary and unique keys.

use std::sync::Arc;

use perigee_engine::catalog::Table;
use perigee_value::Datum;

use super::SCHEMA;
use crate::Facts;
use crate::definition::{Definition, catalog, count, null, of, text};
use crate::describe;

/// TABLE_CONSTRAINTS.
pub(super) static TABLE_CONSTRAINTS: Definition<Constraint> = Definition {
    schema: SCHEMA,
    name: "TABLE_CONSTRAINTS",
    columns: &[
        text("CONSTRAINT_CATALOG", 64, catalog),
        text("CONSTRAINT_SCHEMA", 64, |constraint| {
            of(&constraint.table.def.schema)
        }),
        text("CONSTRAINT_NAME", 64, |constraint| of(&constraint.name)),
        text("TABLE_SCHEMA", 64, |constraint| {
            of(&constraint.table.def.schema)
        }),
        text("TABLE_NAME", 64, |constraint| {
            of(&constraint.table.def.name)
        }),
        text("CONSTRAINT_TYPE", 11, |constraint| of(constraint.kind())),
        text("ENFORCED", 3, |_| of("YES")),
    ],
    rows: constraints,
};

/// KEY_COLUMN_USAGE.
pub(super) static KEY_COLUMN_USAGE: Definition<(Constraint, usize)> = Definition {
    schema: SCHEMA,
    name: "KEY_COLUMN_USAGE",
    columns: &[
        text("CONSTRAINT_CATALOG", 64, catalog),
        text("CONSTRAINT_SCHEMA", 64, |(constraint, _)| {
            of(&constraint.table.def.schema)
        }),
        text(
            "CONSTRAINT_NAME",
            64,
            |(constraint, _)| of(&constraint.name),
        ),
        text("TABLE_CATALOG", 64, catalog),
        text("TABLE_SCHEMA", 64, |(constraint, _)| {
            of(&constraint.table.def.schema)
        }),
        text("TABLE_NAME", 64, |(constraint, _)| {
            of(&constraint.table.def.name)
        }),
        text("COLUMN_NAME", 64, |(constraint, number)| {
            of(constraint.column(*number))
        }),
        count("ORDINAL_POSITION", |(_, number)| {
            Datum::UInt(*number as u64 + 1)
        }),
        count("POSITION_IN_UNIQUE_CONSTRAINT", null),
        text("REFERENCED_TABLE_SCHEMA", 64, null),
        text("REFERENCED_TABLE_NAME", 64, null),
        text("REFERENCED_COLUMN_NAME", 64, null),
    ],
    rows: constrained_columns,
};

/// A primary or unique key.
#[derive(Clone)]
pub(super) struct Constraint {
    table: Arc<Table>,
    name: String,
    columns: Vec<u16>,
}

impl Constraint {
    fn kind(&self) -> &'static str {
        match self.name.as_str() {
            "PRIMARY" => "PRIMARY KEY",
            _ => "UNIQUE",
        }
    }

    /// Name of a column of the key.
    fn column(&self, number: usize) -> &str {
        &self.table.def.columns[usize::from(self.columns[number])].name
    }
}

fn constraints(facts: &Facts) -> Vec<Constraint> {
    let of_table = |table: &Arc<Table>| {
        let keys = describe::keys(&table.def).filter(|key| key.unique);
        let constraint = |key: describe::Key<'_>| Constraint {
            table: table.clone(),
            name: key.name.to_owned(),
            columns: key.columns.to_vec(),
        };
        keys.map(constraint).collect::<Vec<_>>()
    };
    facts
        .tables
        .iter()
        .flat_map(|facts| of_table(&facts.table))
        .collect()
}

fn constrained_columns(facts: &Facts) -> Vec<(Constraint, usize)> {
    let columns = |constraint: Constraint| {
        let numbers = 0..constraint.columns.len();
        numbers.map(move |number| (constraint.clone(), number))
    };
    constraints(facts).into_iter().flat_map(columns).collect()
}
