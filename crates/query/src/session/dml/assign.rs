//! Assignments: `SET a = …, b = …`, evaluated from left to right as in MySQL, so that an expression
//! sees what was assigned before it.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, ObjectName, Query, Select, SelectItem, TableWithJoins,
    Value, VisitMut, VisitorMut,
};
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_value::{Collation, Datum};

use super::Converter;
use super::target::{HIDDEN, Target, ident, select_of};
use crate::access::table_schema;
use crate::error::{Result, SqlError};
use crate::functions::stored::{PREFIX, Stored};
use crate::plan::rewrite::call;
use crate::session::insert::number_for;
use crate::session::set;
use crate::values::Column;
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
    /// A column of the query's output.
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

    /// The query whose output are the values.
    pub(super) fn query(&mut self, from: Vec<TableWithJoins>) -> Result<Box<Query>> {
        let mut query = set::query_of(Vec::new())?;
        let select = select_of(&mut query)?;
        let expressions = std::mem::take(&mut self.expressions).into_iter();
        let item = |(number, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: ident(format!("{HIDDEN}value{number}")),
        };
        select.projection = expressions.enumerate().map(item).collect();
        select.from = from;
        Ok(query)
    }

    /// Finds the columns, in a statement that began at `now`.
    ///
    /// # Errors
    /// Unknown columns; 1364 for DEFAULT of a column that has none.
    pub(super) fn resolve(&self, targets: &[Target], now: i64) -> Result<Vec<Assigned>> {
        let mut items = 0..;
        let resolve = |(name, is_default): &(ObjectName, bool)| {
            let (target, column) = resolve(name, targets)?;
            let item = if *is_default { None } else { items.next() };
            let def = &targets[target].table.def.columns[column];
            let value = match item {
                Some(item) => Given::Item(item),
                None => Given::Default(default(def, now)?),
            };
            let bytes = item.and_then(|item| self.binary[item].as_deref());
            let literal = bytes.map(|bytes| binary_value(bytes, def)).transpose()?;
            Ok(Assigned {
                target,
                column,
                value,
                literal,
            })
        };
        self.columns.iter().map(resolve).collect()
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

fn resolve(name: &ObjectName, targets: &[Target]) -> Result<(usize, usize)> {
    let Some((column, qualifier)) = name.0.split_last() else {
        return Err(SqlError::unknown_column("", "field list"));
    };
    let column = column.as_ident().map_or("", |ident| &ident.value);
    let qualifier = ObjectName(qualifier.to_vec());
    let mut found = None;
    for (number, target) in targets.iter().enumerate() {
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

/// Has each expression see what was assigned before it. Returns the functions that this needs.
pub(super) fn left_to_right(
    select: &mut Select,
    assigned: &[Assigned],
    targets: &[Target],
) -> Result<Vec<Arc<ScalarUDF>>> {
    let mut before = Before {
        targets,
        columns: Vec::new(),
        depth: 0,
    };
    let mut functions = Vec::new();
    for (number, assigned) in assigned.iter().enumerate() {
        let table = &targets[assigned.target].table;
        let def = &table.def.columns[assigned.column];
        let value = match &assigned.value {
            Given::Default(value) => default_of(value, def),
            Given::Item(item) => {
                let SelectItem::ExprWithAlias { expr, .. } = &mut select.projection[*item] else {
                    return Err(SqlError::unknown("Q12: a value without a name"));
                };
                if let Some(literal) = &assigned.literal {
                    *expr = Expr::value(literal.clone());
                }
                let _ = expr.visit(&mut before);
                expr.clone()
            }
        };
        let name = format!("{PREFIX}{number}");
        let field = table_schema(&table.def).field(assigned.column).clone();
        let function = Stored::new(name.clone(), &field, def.clone());
        functions.push(Arc::new(ScalarUDF::from(function)));
        let place = (assigned.target, assigned.column);
        before.columns.retain(|(known, _)| *known != place);
        before.columns.push((place, call(&name, vec![value])));
    }
    Ok(functions)
}

/// The value that DEFAULT stands for.
///
/// # Errors
/// 1364 if the column has none.
fn default(def: &ColumnDef, now: i64) -> Result<Datum> {
    match def.default_at(now) {
        Some(value) => Ok(value),
        None if def.nullable => Ok(Datum::Null),
        None => Err(SqlError::no_default(&def.name)),
    }
}

fn default_of(value: &Datum, column: &ColumnDef) -> Expr {
    if value.is_null() {
        return Expr::value(Value::Null);
    }
    let mut text = String::new();
    column.format(value.as_ref(), &mut text);
    Expr::value(Value::SingleQuotedString(text))
}

/// Puts assigned values in the place of columns; outside of subqueries.
struct Before<'a> {
    targets: &'a [Target],
    /// Target and column, and what it holds.
    columns: Vec<((usize, usize), Expr)>,
    depth: usize,
}

impl Before<'_> {
    fn value(&self, table: Option<&str>, column: &str) -> Option<&Expr> {
        let found = self.columns.iter().find(|((target, number), _)| {
            let target = &self.targets[*target];
            let name = &target.table.def.columns[*number].name;
            table.is_none_or(|table| table == target.alias) && name.eq_ignore_ascii_case(column)
        });
        found.map(|(_, expr)| expr)
    }
}

impl VisitorMut for Before<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            let value = match &*expr {
                Expr::Identifier(ident) => self.value(None, &ident.value),
                Expr::CompoundIdentifier(idents) => match &idents[..] {
                    [.., table, column] => self.value(Some(&table.value), &column.value),
                    _ => None,
                },
                _ => None,
            };
            if let Some(value) = value.cloned() {
                *expr = value;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The values of the assignments in a batch of the query's output.
pub(super) struct Values<'a> {
    targets: &'a [Target],
    assigned: &'a [Assigned],
    columns: Vec<Option<Column>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        targets: &'a [Target],
        assigned: &'a [Assigned],
        batch: &RecordBatch,
        schema: &Schema,
    ) -> Result<Self> {
        let column = |assigned: &Assigned| match assigned.value {
            Given::Item(item) => Column::new(batch.column(item), schema.field(item)).map(Some),
            Given::Default(_) => Ok(None),
        };
        Ok(Self {
            targets,
            assigned,
            columns: assigned.iter().map(column).collect::<Result<_>>()?,
        })
    }

    /// What a row of the batch assigns to columns of a target; `number` is its number in the
    /// statement, from 1.
    ///
    /// # Errors
    /// If a value does not fit its column.
    pub(super) fn row(
        &self,
        target: usize,
        row: usize,
        number: u64,
        converter: &mut Converter,
    ) -> Result<Vec<(usize, Datum)>> {
        let table = &self.targets[target].table;
        let mut values = Vec::new();
        for (assigned, column) in self.assigned.iter().zip(&self.columns) {
            if assigned.target != target {
                continue;
            }
            let value = match (column, &assigned.value) {
                (_, Given::Default(value)) => value.clone(),
                (None, Given::Item(_)) => {
                    return Err(SqlError::unknown("Q12: a value without a column"));
                }
                (Some(column), Given::Item(_)) => {
                    let def = &table.def.columns[assigned.column];
                    converter.value(column.datum(row), column.ty(), def, number)?
                }
            };
            values.push((assigned.column, value));
        }
        Ok(values)
    }
}

/// Puts new values into a row that was `before`, and the time where it tells when the row changed.
pub(in crate::session) fn assign(
    table: &Table,
    row: &mut [Datum],
    values: &[(usize, Datum)],
    before: &[Datum],
    now: i64,
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
    now: i64,
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
