//! Assignments: `SET a = …, b = …`, evaluated from left to right as in MySQL, so that an expression
//! sees what was assigned before it.

use perigee_engine::catalog::{ColumnDef, Table};
use perigee_sql_bind::query::{self as bound, Origin};
use perigee_value::{Collation, Datum, Now};
use sqlparser::ast::{Assignment, AssignmentTarget, Expr, ObjectName, Value};

use super::target::Target;
use crate::error::{Result, SqlError};
use crate::session::generated;
use crate::session::insert::number_for;
use perigee_sql_bind::binary::binary_literal;

/// Bytes of a wrong string that an error shows.
const SHOWN: usize = 6;

/// One assignment.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    /// Index of the table among the targets.
    pub target: usize,
    /// Column of that table.
    pub column: usize,
    /// The value.
    pub value: Given,
    /// What a binary literal is for this column.
    pub literal: Option<Value>,
}

/// What is assigned.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// An expression, by its number.
    Item(usize),
    /// DEFAULT, which stands for this.
    Default(Datum),
}

/// Assignments before their columns are known: the names, and their expressions if they have one.
pub(super) struct Unresolved {
    columns: Vec<(ObjectName, bool)>,
    pub expressions: Vec<Expr>,
    /// The bytes of those that are binary literals, for which there is NULL meanwhile.
    binary: Vec<Option<Vec<u8>>>,
}

impl Unresolved {
    pub(super) fn new(assignments: Vec<Assignment>) -> Result<Self> {
        let mut unresolved = Self {
            columns: Vec::new(),
            expressions: Vec::new(),
            binary: Vec::new(),
        };
        for Assignment { target, value } in assignments {
            let AssignmentTarget::ColumnName(name) = target else {
                return Err(SqlError::not_supported("an assignment to several columns"));
            };
            let is_default = matches!(&value, Expr::Identifier(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"));
            unresolved.columns.push((name, is_default));
            if !is_default {
                let bytes = binary_literal(&value);
                let known = || Expr::value(Value::Null);
                let value = bytes.as_ref().map_or(value, |_| known());
                unresolved.binary.push(bytes);
                unresolved.expressions.push(value);
            }
        }
        Ok(unresolved)
    }

    /// The assignments, with these in the place of the expressions.
    pub(super) fn assigned<'a>(&'a self, expressions: &'a [Expr]) -> Vec<bound::Assigned<'a>> {
        let mut items = expressions.iter().zip(&self.binary);
        let assigned = self.columns.iter().map(|(column, is_default)| {
            let item = if *is_default { None } else { items.next() };
            bound::Assigned {
                column,
                value: item.map(|(expr, _)| expr),
                is_told: item.is_some_and(|(_, binary)| binary.is_none()),
            }
        });
        assigned.collect()
    }

    /// Finds the columns, in a statement that began at `now`.
    ///
    /// # Errors
    /// Unknown columns; 1364 for DEFAULT of a column that has none.
    pub(super) fn resolve(
        &self,
        targets: &[Target],
        columns: &[Option<Origin>],
        now: Now,
    ) -> Result<Vec<Assigned>> {
        let mut items = 0..;
        let resolve = |(number, (name, is_default)): (usize, &(ObjectName, bool))| {
            let known = columns.get(number).copied().flatten();
            let known = known.and_then(|origin| bound_column(origin, targets));
            let (target, column) = match known {
                Some(known) => known,
                None => resolve(name, targets)?,
            };
            let item = if *is_default { None } else { items.next() };
            let def = &targets[target].table.def.columns[column];
            if def.generated.is_some() {
                // DEFAULT is what it gets anyway.
                return match item {
                    Some(_) => Err(generated::given(&targets[target].table, def)),
                    None => Ok(None),
                };
            }
            let value = match item {
                Some(item) => Given::Item(item),
                None => Given::Default(default(def, now)?),
            };
            let bytes = item.and_then(|item| self.binary[item].as_deref());
            let literal = bytes.map(|bytes| binary_value(bytes, def)).transpose()?;
            Ok(Some(Assigned {
                target,
                column,
                value,
                literal,
            }))
        };
        let resolved = self.columns.iter().enumerate().map(resolve);
        resolved.filter_map(Result::transpose).collect()
    }
}

/// What a binary literal is for a column.
fn binary_value(bytes: &[u8], column: &ColumnDef) -> Result<Value> {
    if let Some(number) = number_for(column, bytes) {
        return Ok(Value::Number(number, false));
    }
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Ok(Value::SingleQuotedString(text)),
        Err(_) if column.ty.collation() == Some(Collation::BINARY) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            Ok(Value::HexStringLiteral(digits))
        }
        Err(error) => {
            let wrong = &bytes[error.utf8_error().valid_up_to()..];
            let shown: String = wrong
                .iter()
                .take(SHOWN)
                .map(|byte| format!("\\x{byte:02X}"))
                .collect();
            let more = if wrong.len() > SHOWN { "..." } else { "" };
            let shown = shown + more;
            Err(SqlError::incorrect_value("string", shown, &column.name, 1))
        }
    }
}

/// The target and its column that the binder found.
fn bound_column(origin: Origin, targets: &[Target]) -> Option<(usize, usize)> {
    let target = targets
        .iter()
        .position(|target| target.access == origin.reference)?;
    let is_shown = origin.column < targets[target].table.def.columns.len();
    is_shown.then_some((target, origin.column))
}

fn resolve(name: &ObjectName, targets: &[Target]) -> Result<(usize, usize)> {
    let Some((column, qualifier)) = name.0.split_last() else {
        return Err(SqlError::unknown_column("", "field list"));
    };
    let column = column.as_ident().map_or("", |ident| &ident.value);
    let qualifier = ObjectName(qualifier.to_vec());
    let mut found = None;
    let tables = targets.iter().enumerate();
    for (number, target) in tables.filter(|(_, target)| !target.in_view) {
        if !qualifier.0.is_empty() && !target.is_named(&qualifier) {
            continue;
        }
        if let Some(column) = target.table.def.column(column)
            && found.replace((number, column)).is_some()
        {
            return Err(SqlError::ambiguous_column(name, "field list"));
        }
    }
    found.ok_or_else(|| {
        let name = name.to_string().replace('`', "");
        SqlError::unknown_column(name, "field list")
    })
}

/// The value that DEFAULT stands for.
///
/// # Errors
/// 1364 if the column has none.
fn default(def: &ColumnDef, now: Now) -> Result<Datum> {
    match def.default_at(now) {
        Some(value) => Ok(value),
        None if def.nullable => Ok(Datum::Null),
        None => Err(SqlError::no_default(&def.name)),
    }
}

/// Puts new values into a row that was `before`, and the time where it tells when the row changed.
pub(in crate::session) fn assign(
    table: &Table,
    row: &mut [Datum],
    values: &[(usize, Datum)],
    before: &[Datum],
    now: Now,
) {
    for (column, value) in values {
        row[*column] = value.clone();
    }
    let assigned: Vec<usize> = values.iter().map(|(column, _)| *column).collect();
    touch(table, row, &assigned, before, now);
}

/// If a row is not what it was `before`, puts the time into its columns ON UPDATE CURRENT_TIMESTAMP,
/// but not into those that are assigned themselves.
pub(in crate::session) fn touch(
    table: &Table,
    row: &mut [Datum],
    assigned: &[usize],
    before: &[Datum],
    now: Now,
) {
    if assigned
        .iter()
        .all(|column| row[*column] == before[*column])
    {
        return;
    }
    for (column, def) in table.def.columns.iter().enumerate() {
        if def.on_update_now && !assigned.contains(&column) {
            row[column] = def.time(now);
        }
    }
}
