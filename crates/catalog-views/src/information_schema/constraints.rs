//! TABLE_CONSTRAINTS, KEY_COLUMN_USAGE, REFERENTIAL_CONSTRAINTS and CHECK_CONSTRAINTS.

use std::sync::Arc;

use perigee_engine::catalog::{ForeignKey, Table, TableDef};
use perigee_value::Datum;

use super::SCHEMA;
use crate::Facts;
use crate::definition::{Definition, catalog, count, count_of, long, of, of_some, text};
use crate::describe::{self, KeyPart};

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
        text("ENFORCED", 3, |constraint| of(constraint.enforced())),
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
        count("POSITION_IN_UNIQUE_CONSTRAINT", |(constraint, number)| {
            let position = constraint.foreign().map(|_| *number as u64 + 1);
            count_of(position)
        }),
        text("REFERENCED_TABLE_SCHEMA", 64, |(constraint, _)| {
            of_some(constraint.foreign().map(|key| &key.schema))
        }),
        text("REFERENCED_TABLE_NAME", 64, |(constraint, _)| {
            of_some(constraint.foreign().map(|key| &key.table))
        }),
        text("REFERENCED_COLUMN_NAME", 64, |(constraint, number)| {
            of_some(constraint.foreign().map(|key| &key.referenced[*number]))
        }),
    ],
    rows: constrained_columns,
};

/// REFERENTIAL_CONSTRAINTS.
pub(super) static REFERENTIAL_CONSTRAINTS: Definition<Reference> = Definition {
    schema: SCHEMA,
    name: "REFERENTIAL_CONSTRAINTS",
    columns: &[
        text("CONSTRAINT_CATALOG", 64, catalog),
        text("CONSTRAINT_SCHEMA", 64, |one| of(&one.table.def.schema)),
        text("CONSTRAINT_NAME", 64, |one| of(&one.key().name)),
        text("UNIQUE_CONSTRAINT_CATALOG", 64, catalog),
        text("UNIQUE_CONSTRAINT_SCHEMA", 64, |one| of(&one.key().schema)),
        text("UNIQUE_CONSTRAINT_NAME", 64, |one| {
            of_some(one.unique.as_ref())
        }),
        text("MATCH_OPTION", 64, |_| of("NONE")),
        text("UPDATE_RULE", 64, |one| of(one.key().on_update.sql())),
        text("DELETE_RULE", 64, |one| of(one.key().on_delete.sql())),
        text("TABLE_NAME", 64, |one| of(&one.table.def.name)),
        text("REFERENCED_TABLE_NAME", 64, |one| of(&one.key().table)),
    ],
    rows: references,
};

/// CHECK_CONSTRAINTS.
pub(super) static CHECK_CONSTRAINTS: Definition<Constraint> = Definition {
    schema: SCHEMA,
    name: "CHECK_CONSTRAINTS",
    columns: &[
        text("CONSTRAINT_CATALOG", 64, catalog),
        text("CONSTRAINT_SCHEMA", 64, |one| of(&one.table.def.schema)),
        text("CONSTRAINT_NAME", 64, |one| of(&one.name)),
        long("CHECK_CLAUSE", |one| of_some(one.condition())),
    ],
    rows: checks,
};

/// What a constraint is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Primary,
    Unique,
    /// A foreign key, by its number.
    Foreign(usize),
    /// A CHECK constraint, by its number.
    Check(usize),
}

/// A constraint of a table.
#[derive(Clone)]
pub(super) struct Constraint {
    table: Arc<Table>,
    name: String,
    columns: Vec<u16>,
    kind: Kind,
}

impl Constraint {
    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Primary => "PRIMARY KEY",
            Kind::Unique => "UNIQUE",
            Kind::Foreign(_) => "FOREIGN KEY",
            Kind::Check(_) => "CHECK",
        }
    }

    fn enforced(&self) -> &'static str {
        match self.kind {
            Kind::Check(number) if !self.table.def.checks[number].enforced => "NO",
            _ => "YES",
        }
    }

    /// Name of a column of the key.
    fn column(&self, number: usize) -> &str {
        KeyPart::of(&self.table.def, self.columns[number])
            .name()
            .unwrap_or_default()
    }

    fn foreign(&self) -> Option<&ForeignKey> {
        match self.kind {
            Kind::Foreign(number) => self.table.def.foreign_keys.get(number),
            _ => None,
        }
    }

    fn condition(&self) -> Option<&str> {
        match self.kind {
            Kind::Check(number) => Some(&self.table.def.checks[number].condition),
            _ => None,
        }
    }
}

/// A foreign key, and the name of the unique key that it refers to.
pub(super) struct Reference {
    table: Arc<Table>,
    number: usize,
    unique: Option<String>,
}

impl Reference {
    fn key(&self) -> &ForeignKey {
        &self.table.def.foreign_keys[self.number]
    }
}

fn constraints_of(table: &Arc<Table>) -> Vec<Constraint> {
    let def = &table.def;
    let one = |name: &str, columns: &[u16], kind| Constraint {
        table: table.clone(),
        name: name.to_owned(),
        columns: columns.to_vec(),
        kind,
    };
    let keys = describe::keys(def).filter(|key| key.unique).map(|key| {
        let kind = match key.name {
            "PRIMARY" => Kind::Primary,
            _ => Kind::Unique,
        };
        one(key.name, key.columns, kind)
    });
    let foreign = def.foreign_keys.iter().enumerate();
    let foreign = foreign.map(|(number, key)| one(&key.name, &key.columns, Kind::Foreign(number)));
    let checks = def.checks.iter().enumerate();
    let checks = checks.map(|(number, check)| one(&check.name, &[], Kind::Check(number)));
    keys.chain(foreign).chain(checks).collect()
}

fn constraints(facts: &Facts) -> Vec<Constraint> {
    let tables = facts.tables.iter();
    tables
        .flat_map(|facts| constraints_of(&facts.table))
        .collect()
}

fn checks(facts: &Facts) -> Vec<Constraint> {
    let is_check = |constraint: &Constraint| matches!(constraint.kind, Kind::Check(_));
    constraints(facts).into_iter().filter(is_check).collect()
}

fn references(facts: &Facts) -> Vec<Reference> {
    let mut references = Vec::new();
    for table in facts.tables.iter().map(|facts| &facts.table) {
        for (number, key) in table.def.foreign_keys.iter().enumerate() {
            let parent = facts.tables.iter().map(|facts| &facts.table.def);
            let parent = parent
                .into_iter()
                .find(|def| key.refers_to(&def.schema, &def.name));
            references.push(Reference {
                table: table.clone(),
                number,
                unique: parent.and_then(|parent| unique_key(parent, key)),
            });
        }
    }
    references
}

/// Name of the unique key over the columns that a foreign key refers to.
fn unique_key(parent: &TableDef, key: &ForeignKey) -> Option<String> {
    let column = |name: &String| parent.column(name).map(|column| column as u16);
    let columns = key.referenced.iter().map(column);
    let columns: Vec<u16> = columns.collect::<Option<_>>()?;
    let mut keys = describe::keys(parent).filter(|key| key.unique);
    let found = keys.find(|key| *key.columns == columns)?;
    Some(found.name.to_owned())
}

fn constrained_columns(facts: &Facts) -> Vec<(Constraint, usize)> {
    let columns = |constraint: Constraint| {
        let is_column = |number: &usize| {
            let part = KeyPart::of(&constraint.table.def, constraint.columns[*number]);
            part.column.is_some()
        };
        let numbers = 0..constraint.columns.len();
        let numbers: Vec<usize> = numbers.filter(is_column).collect();
        numbers
            .into_iter()
            .map(move |number| (constraint.clone(), number))
    };
    constraints(facts).into_iter().flat_map(columns).collect()
}
