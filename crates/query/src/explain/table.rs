//! The traditional form: a row a table.

use super::node::{Changed, Plan};
use crate::access::{AccessRow, TableReference};

/// A row; `None` is NULL.
pub type Row = [Option<String>; 12];

/// Names of the columns; those that begin with `#` are integers.
pub const COLUMNS: [&str; 12] = [
    "#id",
    "select_type",
    "table",
    "partitions",
    "type",
    "possible_keys",
    "key",
    "key_len",
    "ref",
    "#rows",
    "filtered",
    "Extra",
];

impl Plan {
    /// The rows, of a statement with these references to tables.
    #[must_use]
    pub fn table(&self, references: &[TableReference]) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Changed::Inserted(kind, name) = &self.changed {
            rows.push(row(1, kind, [Some(name), Some("ALL"), None, None, None]));
        }
        if self.root.is_none() {
            return rows;
        }
        let accesses = self.accesses();
        if accesses.is_empty() && self.changed == Changed::Nothing {
            rows.push(row(1, "SIMPLE", [None; 5]));
            rows[0][11] = Some("No tables used".to_owned());
        }
        let selects = references.iter().map(|a| a.select).max().unwrap_or(1);
        let of_access = |access: &&AccessRow| {
            let reference = references.iter().find(|r| r.alias == access.table);
            let select = reference.map_or(1, |r| r.select);
            let kind = match (&self.changed, selects, select) {
                (Changed::Read(kind, aliases), _, 1) if aliases.contains(&access.table) => kind,
                (_, 1, _) => "SIMPLE",
                (_, _, 1) => "PRIMARY",
                _ => "SUBQUERY",
            };
            of_access(access, select, kind)
        };
        rows.extend(accesses.iter().map(of_access));
        rows
    }
}

/// A row with table, type, possible keys, key and reference.
fn row(select: usize, kind: &str, cells: [Option<&str>; 5]) -> Row {
    let [table, access_type, possible_keys, key, reference] =
        cells.map(|cell| cell.map(str::to_owned));
    [
        Some(select.to_string()),
        Some(kind.to_owned()),
        table,
        None,
        access_type,
        possible_keys,
        key,
        None,
        reference,
        None,
        None,
        None,
    ]
}

fn of_access(access: &AccessRow, select: usize, kind: &str) -> Row {
    let joined = |texts: &[String]| (!texts.is_empty()).then(|| texts.join(","));
    let (possible, reference) = (joined(&access.possible_keys), joined(&access.reference));
    let cells = [
        Some(access.table.as_str()),
        Some(access.access_type),
        possible.as_deref(),
        access.key.as_deref(),
        reference.as_deref(),
    ];
    let mut row = row(select, kind, cells);
    row[9] = Some(access.rows.to_string());
    row[10] = Some(format!("{:.2}", access.filtered));
    row[11] = Some(access.extra());
    row
}
