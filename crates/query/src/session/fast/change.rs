//! UPDATE and DELETE of one row by its primary key.

use std::sync::Arc;

use perigee_engine::catalog::Table;
use perigee_engine::freeing_space;
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{Isolation, LockMode, LockWait, Written};
use perigee_value::{Datum, Now, RecordView, ValueRef, Zone};
use sqlparser::ast::{AssignmentTarget, BinaryOperator, Expr};

use super::super::Session;
use super::super::checks::Checks;
use super::super::dml::touch;
use super::super::environment::micros_now;
use super::super::insert::engine_error;
use super::super::transaction::Work;
use super::concat::Concat;
use super::key::KeyTemplate;
use super::names::{Names, only_table};
use super::operand::{Operand, Parameters};
use super::{Recognised, values};
use crate::error::Result;
use crate::parse::{Delete, Rows, Update};
use crate::result::OkResult;

/// An UPDATE of one row.
#[derive(Debug)]
pub(super) struct FastUpdate {
    key: KeyTemplate,
    assignments: Vec<Assignment>,
    /// There are columns that tell when the row changed.
    touches: bool,
    checks: Option<Checks>,
}

/// A DELETE of one row.
#[derive(Debug)]
pub(super) struct FastDelete {
    key: KeyTemplate,
}

#[derive(Debug)]
struct Assignment {
    column: usize,
    value: Assigned,
}

#[derive(Debug)]
enum Assigned {
    Operand(Operand),
    /// The column's own value and an operand.
    Change {
        by: Operand,
        subtract: bool,
    },
    Concat(Concat),
}

/// What became of a row.
enum Outcome {
    /// It was found, and perhaps changed.
    Found {
        changed: bool,
    },
    Missing,
    /// The statement is to be run the ordinary way; nothing is changed.
    Ordinary,
}

/// The table of a statement about one row by its primary key, its key, and whether the table's
/// schema is the session's.
fn row_of(
    session: &Session,
    rows: &Rows,
    parameters: &Parameters,
) -> Option<(Arc<Table>, String, KeyTemplate, bool)> {
    let plain = rows.order_by.is_none() && rows.limit.is_none() && rows.hints.is_empty();
    let (table, alias, by_schema) = only_table(session, &rows.from).filter(|_| plain)?;
    if !table.def.triggers.is_empty() {
        return None;
    }
    let names = Names::new(&table, alias.clone());
    let key = KeyTemplate::new(&table, &names, rows.selection.as_ref()?, parameters)?;
    (key.is_row && key.index == 0).then_some((table, alias, key, by_schema))
}

/// The UPDATE, if it is one that the fast path runs.
pub(super) fn update(session: &Session, update: &Update) -> Option<Recognised<FastUpdate>> {
    let parameters = Parameters::of(&update.assignments).and_of(&update.rows.selection);
    let (table, alias, key, by_schema) = row_of(session, &update.rows, &parameters)?;
    let names = Names::new(&table, alias);
    let mut assignments: Vec<Assignment> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return None;
        };
        let [part] = &name.0[..] else {
            return None;
        };
        let column = names.named(part.as_ident()?)?;
        let value = assigned(&assignment.value, column, &names, &parameters)?;
        let column = usize::from(column);
        let is_assigned = |column| assignments.iter().any(|known| known.column == column);
        // Later assignments see what earlier ones assign.
        let sees_new = match &value {
            Assigned::Concat(concat) => concat.columns().any(is_assigned),
            Assigned::Operand(_) | Assigned::Change { .. } => false,
        };
        if sees_new || is_assigned(column) {
            return None;
        }
        assignments.push(Assignment { column, value });
    }
    if table.def.has_generated() {
        return None;
    }
    let checks = Checks::of(&table.def, Zone::Utc).ok()?;
    let plain = !update.ignore && !assignments.is_empty();
    plain.then(|| Recognised {
        statement: FastUpdate {
            key,
            assignments,
            touches: table.def.columns.iter().any(|def| def.on_update_now),
            checks,
        },
        parameters: parameters.len(),
        by_schema,
        table: table.clone(),
    })
}

fn assigned(
    value: &Expr,
    column: u16,
    names: &Names<'_>,
    parameters: &Parameters,
) -> Option<Assigned> {
    match value {
        Expr::Nested(inner) => assigned(inner, column, names, parameters),
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::Plus | BinaryOperator::Minus),
            right,
        } if names.column(left) == Some(column) => Some(Assigned::Change {
            by: parameters.operand(right)?,
            subtract: *op == BinaryOperator::Minus,
        }),
        Expr::Function(_) => Concat::new(value, names, parameters).map(Assigned::Concat),
        value => parameters.operand(value).map(Assigned::Operand),
    }
}

/// The DELETE, if it is one that the fast path runs.
pub(super) fn delete(session: &Session, delete: &Delete) -> Option<Recognised<FastDelete>> {
    let parameters = Parameters::of(&delete.rows.selection);
    let (table, _, key, by_schema) = row_of(session, &delete.rows, &parameters)?;
    let plain = !delete.ignore && delete.targets.is_empty();
    plain.then(|| Recognised {
        statement: FastDelete { key },
        parameters: parameters.len(),
        by_schema,
        table,
    })
}

impl FastUpdate {
    /// Runs it; `None` if it is to be run the ordinary way.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        table: &Arc<Table>,
        parameters: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Option<OkResult>> {
        // The clock is looked at where the row is.
        let is_plain = session.variables.fixed_time().is_none() && session.zone().is_utc();
        if self.touches && !is_plain {
            return Ok(None);
        }
        let Some(key) = self.key.bytes(parameters) else {
            return Ok(None);
        };
        let mut work = session.begin_work(cancel);
        let outcome = self.change(&mut work, table, (&key, parameters), cancel);
        let outcome = outcome.await;
        let outcome = session.end_work(work, outcome).await?;
        let (matched, changed) = match outcome {
            Outcome::Ordinary => return Ok(None),
            Outcome::Missing => (0, 0),
            Outcome::Found { changed } => (1, u64::from(changed)),
        };
        Ok(Some(OkResult {
            affected_rows: if session.info.found_rows {
                matched
            } else {
                changed
            },
            info: format!("Rows matched: {matched}  Changed: {changed}  Warnings: 0"),
            ..OkResult::default()
        }))
    }

    async fn change(
        &self,
        work: &mut Work,
        table: &Arc<Table>,
        (key, parameters): (&[u8], &[Datum]),
        cancel: &CancelToken,
    ) -> Result<Outcome> {
        work.check_writable(table)?;
        lock_absence(work, table, key).await?;
        let change = |record: &[u8]| {
            let row = self.row(table, record, parameters)?;
            self.holds(table, &row, cancel).then_some(row)
        };
        let written = work.transaction().change_row(table, key, change).await;
        Ok(
            match written.map_err(|error| engine_error(error, table, 0))? {
                Some(Written::Done) => Outcome::Found { changed: true },
                Some(Written::Unchanged) => Outcome::Found { changed: false },
                Some(Written::Missing) => Outcome::Missing,
                Some(Written::Duplicate(_)) | None => Outcome::Ordinary,
            },
        )
    }

    /// True if a row is known to keep the CHECK constraints.
    fn holds(&self, table: &Table, row: &[Datum], cancel: &CancelToken) -> bool {
        self.checks.as_ref().is_none_or(|checks| {
            let holds = || checks.violated(&table.def, row, cancel);
            !checks.needs_fetch(row) && holds().is_ok_and(|violated| violated.is_none())
        })
    }

    /// The row with its new values.
    fn row(&self, table: &Table, record: &[u8], parameters: &[Datum]) -> Option<Vec<Datum>> {
        let record = RecordView::new(&table.clustered().layout, record);
        let columns = 0..table.def.columns.len();
        let mut row: Vec<Datum> = columns
            .map(|column| record.value(column).to_datum())
            .collect();
        let before = self.touches.then(|| row.clone());
        for Assignment { column, value } in &self.assignments {
            let def = &table.def.columns[*column];
            row[*column] = match value {
                Assigned::Operand(operand) => values::stored(operand.value(parameters)?, def)?,
                Assigned::Change { by, subtract } => {
                    let by = by.value(parameters)?;
                    values::changed(record.value(*column), by, *subtract, def)?
                }
                Assigned::Concat(concat) => {
                    let text = concat.text(&record, parameters)?;
                    let value = text.as_deref().map_or(ValueRef::Null, ValueRef::String);
                    values::stored(value, def)?
                }
            };
        }
        if let Some(before) = before {
            let assigned: Vec<usize> = self.assignments.iter().map(|a| a.column).collect();
            let now = Now {
                utc: micros_now(),
                zone: Zone::Utc,
            };
            touch(table, &mut row, &assigned, &before, now);
        }
        Some(row)
    }
}

impl FastDelete {
    /// Runs it; `None` if it is to be run the ordinary way.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        table: &Arc<Table>,
        parameters: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Option<OkResult>> {
        let Some(key) = self.key.bytes(parameters) else {
            return Ok(None);
        };
        let mut work = session.begin_work(cancel);
        let deleted = freeing_space(delete_row(&mut work, table, &key)).await;
        let deleted = session.end_work(work, deleted).await?;
        Ok(Some(OkResult {
            affected_rows: u64::from(deleted),
            ..OkResult::default()
        }))
    }
}

async fn delete_row(work: &mut Work, table: &Arc<Table>, key: &[u8]) -> Result<bool> {
    work.check_writable(table)?;
    lock_absence(work, table, key).await?;
    let written = work.transaction().delete_row(table, key).await;
    let written = written.map_err(|error| engine_error(error, table, 0))?;
    Ok(written == Written::Done)
}

/// Under SERIALIZABLE, that there is no row is locked, too.
async fn lock_absence(work: &mut Work, table: &Arc<Table>, key: &[u8]) -> Result<()> {
    if work.isolation() == Isolation::Serializable {
        let transaction = work.transaction();
        let lock = transaction.lock_row(table, key, LockMode::Exclusive, LockWait::Wait);
        lock.await?;
    }
    Ok(())
}
