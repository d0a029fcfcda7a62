//! USER_PRIVILEGES, SCHEMA_PRIVILEGES, TABLE_PRIVILEGES and COLUMN_PRIVILEGES: a row for each privilege that is granted at a level.

use perigee_accounts::{AccountName, Level, Privileges};

use super::SCHEMA;
use crate::Facts;
use crate::definition::{Definition, catalog, of, text};

/// A privilege of an account.
pub(super) struct Granted {
    name: AccountName,
    schema: String,
    table: String,
    column: String,
    privilege: &'static str,
    is_grantable: bool,
}

impl Granted {
    fn grantable(&self) -> &'static str {
        if self.is_grantable { "YES" } else { "NO" }
    }
}

/// USER_PRIVILEGES.
pub(super) static USER_PRIVILEGES: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "USER_PRIVILEGES",
    columns: &[
        text("GRANTEE", 292, |one| of(one.name.to_string())),
        text("TABLE_CATALOG", 512, catalog),
        text("PRIVILEGE_TYPE", 64, |one| of(one.privilege)),
        text("IS_GRANTABLE", 3, |one| of(one.grantable())),
    ],
    rows: |facts| {
        let accounts = facts.accounts.iter();
        let rows =
            accounts.flat_map(|(name, account)| rows(name, ("", "", ""), account.privileges));
        rows.collect()
    },
};

/// SCHEMA_PRIVILEGES.
pub(super) static SCHEMA_PRIVILEGES: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "SCHEMA_PRIVILEGES",
    columns: &[
        text("GRANTEE", 292, |one| of(one.name.to_string())),
        text("TABLE_CATALOG", 512, catalog),
        text("TABLE_SCHEMA", 64, |one| of(&one.schema)),
        text("PRIVILEGE_TYPE", 64, |one| of(one.privilege)),
        text("IS_GRANTABLE", 3, |one| of(one.grantable())),
    ],
    rows: |facts| {
        granted(facts, |level| match level {
            Level::Schema(schema) => Some((schema, "", "")),
            _ => None,
        })
    },
};

/// TABLE_PRIVILEGES.
pub(super) static TABLE_PRIVILEGES: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "TABLE_PRIVILEGES",
    columns: &[
        text("GRANTEE", 292, |one| of(one.name.to_string())),
        text("TABLE_CATALOG", 512, catalog),
        text("TABLE_SCHEMA", 64, |one| of(&one.schema)),
        text("TABLE_NAME", 64, |one| of(&one.table)),
        text("PRIVILEGE_TYPE", 64, |one| of(one.privilege)),
        text("IS_GRANTABLE", 3, |one| of(one.grantable())),
    ],
    rows: |facts| {
        granted(facts, |level| match level {
            Level::Table(schema, table) => Some((schema, table, "")),
            _ => None,
        })
    },
};

/// COLUMN_PRIVILEGES.
pub(super) static COLUMN_PRIVILEGES: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "COLUMN_PRIVILEGES",
    columns: &[
        text("GRANTEE", 292, |one| of(one.name.to_string())),
        text("TABLE_CATALOG", 512, catalog),
        text("TABLE_SCHEMA", 64, |one| of(&one.schema)),
        text("TABLE_NAME", 64, |one| of(&one.table)),
        text("COLUMN_NAME", 64, |one| of(&one.column)),
        text("PRIVILEGE_TYPE", 64, |one| of(one.privilege)),
        text("IS_GRANTABLE", 3, |one| of(one.grantable())),
    ],
    rows: |facts| {
        let mut rows = granted(facts, |level| match level {
            Level::Column(schema, table, column) => Some((schema, table, column)),
            _ => None,
        });
        // GRANT OPTION is the table's.
        for row in &mut rows {
            let level = Level::Table(row.schema.clone(), row.table.clone());
            let mut levels = facts.accounts.levels(&row.name);
            let table = levels.find(|(own, _)| **own == level);
            row.is_grantable = table.is_some_and(|(_, own)| own.has(Privileges::GRANT_OPTION));
        }
        rows
    },
};

/// Schema, table and column.
type Place<'l> = (&'l str, &'l str, &'l str);

/// What is granted at the levels whose places are given.
fn granted(facts: &Facts, place: fn(&Level) -> Option<Place<'_>>) -> Vec<Granted> {
    let mut all = Vec::new();
    for (name, _) in facts.accounts.iter() {
        for (level, privileges) in facts.accounts.levels(name) {
            if let Some(place) = place(level) {
                all.extend(rows(name, place, privileges));
            }
        }
    }
    all
}

/// A row for each privilege; who has none has USAGE.
fn rows(
    name: &AccountName,
    (schema, table, column): Place<'_>,
    privileges: Privileges,
) -> Vec<Granted> {
    let mut names: Vec<_> = privileges.names().collect();
    if names.is_empty() {
        names.push("USAGE");
    }
    let row = |privilege| Granted {
        name: name.clone(),
        schema: schema.to_owned(),
        table: table.to_owned(),
        column: column.to_owned(),
        privilege,
        is_grantable: privileges.has(Privileges::GRANT_OPTION),
    };
    names.into_iter().map(row).collect()
}
