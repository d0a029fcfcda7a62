//! UPDATE and DELETE.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, ObjectName, Query, visit_expressions,
};
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{Isolation, LockMode, LockWait, RowLock, Written};
use perigee_sql_bind::query::{self, Change, Origin};
use perigee_value::Datum;

use super::assign::{Assigned, Given, Unresolved, Values, assign, left_to_right};
use super::evaluated::{Evaluated, EvaluatedBatch};
use super::target::{Target, bound_targets, row_of, select_of, targets};
use super::{Budget, Converter, CurrentRows, point};
use crate::access::table_schema;
use crate::error::{Result, SqlError};
use crate::parse::{Delete, Piece, Rows, Update};
use crate::plan::rewrite::Rewritten;
use crate::result::OkResult;
use crate::session::environment::micros_now;
use crate::session::insert::{duplicate_error, engine_error};
use crate::session::select::{self, Prepared, Reading, Special};
use crate::session::transaction::Work;
use crate::session::{Session, bound, scalars, set};
use crate::values;

/// What happens to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Kind {
    Update,
    Delete,
}

/// The query that finds the rows of an UPDATE or DELETE: their keys and their new values.
#[derive(Clone, Debug)]
pub(in crate::session) struct ReadPhase {
    pub kind: Kind,
    what: What,
    /// The tables whose rows change.
    pub targets: Vec<Target>,
    /// The key of the only row that it can be.
    point: Option<Vec<u8>>,
    /// Rows are changed in the order in which they are found.
    in_order: bool,
    ignore: bool,
    /// When the statement began.
    now: i64,
}

/// The query, and how its output becomes the new values.
#[derive(Clone, Debug)]
enum What {
    /// As the binder understands it.
    Bound {
        query: Arc<query::Query>,
        assigned: Evaluated,
        /// Columns of the only target that are needed if its row is locked before the query runs.
        needed: HashSet<usize>,
    },
    /// As DataFusion understands it.
    Rewritten {
        rewritten: Box<Rewritten>,
        assigned: Vec<Assigned>,
        functions: Vec<Arc<ScalarUDF>>,
    },
}

/// A row to change.
struct Candidate {
    target: usize,
    key: Vec<u8>,
    /// New values of columns.
    values: Vec<(usize, Datum)>,
}

/// What a statement did.
#[derive(Debug, Default)]
struct Counts {
    matched: u64,
    changed: u64,
}

/// Runs an UPDATE.
pub(in crate::session) async fn update(
    session: &mut Session,
    update: Update,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let (counts, warnings) = match ReadPhase::bound_update(session, &update, piece)? {
        Some(phase) => match run(session, &phase, cancel).await {
            Err(error) if error.is_not_supported() => {
                let phase = ReadPhase::rewritten_update(session, update, piece)?;
                run(session, &phase, cancel).await?
            }
            outcome => outcome?,
        },
        None => {
            let phase = ReadPhase::rewritten_update(session, update, piece)?;
            run(session, &phase, cancel).await?
        }
    };
    let Counts { matched, changed } = counts;
    Ok(OkResult {
        affected_rows: if session.info.found_rows {
            matched
        } else {
            changed
        },
        info: format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"),
        ..OkResult::default()
    })
}

/// Runs a DELETE.
pub(in crate::session) async fn delete(
    session: &mut Session,
    delete: Delete,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let (counts, _) = match ReadPhase::bound_delete(session, &delete, piece)? {
        Some(phase) => match run(session, &phase, cancel).await {
            Err(error) if error.is_not_supported() => {
                let phase = ReadPhase::rewritten_delete(session, delete, piece)?;
                run(session, &phase, cancel).await?
            }
            outcome => outcome?,
        },
        None => {
            let phase = ReadPhase::rewritten_delete(session, delete, piece)?;
            run(session, &phase, cancel).await?
        }
    };
    Ok(OkResult {
        affected_rows: counts.changed,
        ..OkResult::default()
    })
}

/// Runs the statement in its transaction; returns also the number of warnings.
async fn run(
    session: &mut Session,
    phase: &ReadPhase,
    cancel: &CancelToken,
) -> Result<(Counts, usize)> {
    let mut work = session.begin_work(cancel);
    let outcome = loop {
        match attempt(session, &mut work, phase, cancel).await {
            Err(error) if work.may_restart(&error) => {
                if let Err(error) = work.restart().await {
                    break Err(error);
                }
            }
            outcome => break outcome,
        }
    };
    let (counts, converter) = session.end_work(work, outcome).await?;
    Ok((counts, converter.report(session)))
}

/// Finds the rows and changes them.
async fn attempt(
    session: &Session,
    work: &mut Work,
    phase: &ReadPhase,
    cancel: &CancelToken,
) -> Result<(Counts, Converter)> {
    work.check_writable()?;
    let mut converter = Converter::new(phase.ignore);
    let mut counts = Counts::default();
    let (candidates, check) = match &phase.point {
        Some(key) => {
            let target = &phase.targets[0];
            let Some(record) = locked_row(work, target, key, false).await? else {
                return Ok((counts, converter));
            };
            let mut row = row_of(&target.table, &record);
            if target.table.has_long() {
                phase.fetch_long(session, &mut row).await?;
            }
            let reading = phase.reading_of(session, work, &row, cancel).await?;
            (phase.find(session, reading, &mut converter).await?, false)
        }
        None => {
            let reading = phase.reading(work, cancel).await;
            // Ranges that are locked do not change.
            let check = work.isolation() != Isolation::Serializable;
            (phase.find(session, reading, &mut converter).await?, check)
        }
    };
    for (number, candidate) in candidates.iter().enumerate() {
        if cancel.is_cancelled() {
            return Err(SqlError::interrupted());
        }
        let target = &phase.targets[candidate.target];
        let record = locked_row(work, target, &candidate.key, check).await?;
        let record = record.ok_or_else(|| SqlError::record_changed(&target.table.def.name))?;
        counts.matched += 1;
        let number = number as u64;
        if write(work, phase, candidate, &record, number, &mut converter).await? {
            counts.changed += 1;
        }
    }
    Ok((counts, converter))
}

/// Locks a row and reads its record; none if there is none.
///
/// # Errors
/// 1020 if it is not the version that the statement has seen, which is to be checked.
async fn locked_row(
    work: &mut Work,
    target: &Target,
    key: &[u8],
    check: bool,
) -> Result<Option<Vec<u8>>> {
    let table = &target.table;
    let transaction = work.transaction();
    let lock = transaction.lock_row(table, key, LockMode::Exclusive, LockWait::Wait);
    match lock.await? {
        RowLock::Locked(Some(record)) => {
            if check && !transaction.change_view().sees_record(&record) {
                return Err(SqlError::record_changed(&table.def.name));
            }
            Ok(Some(record))
        }
        RowLock::Locked(None) | RowLock::Skipped => Ok(None),
    }
}

/// Writes one row that is locked; true if that changed it.
async fn write(
    work: &mut Work,
    phase: &ReadPhase,
    candidate: &Candidate,
    record: &[u8],
    number: u64,
    converter: &mut Converter,
) -> Result<bool> {
    let table = &phase.targets[candidate.target].table;
    let transaction = work.transaction();
    let written = match phase.kind {
        Kind::Delete => transaction.delete_row(table, &candidate.key).await,
        Kind::Update => {
            let before = row_of(table, record);
            let mut row = before.clone();
            assign(table, &mut row, &candidate.values, &before, phase.now);
            transaction.update_row(table, &candidate.key, &row).await
        }
    };
    match written.map_err(|e| engine_error(e, table, number))? {
        Written::Done => Ok(true),
        Written::Unchanged => Ok(false),
        Written::Missing => Err(SqlError::record_changed(&table.def.name)),
        Written::Duplicate(row) => {
            converter.duplicate(duplicate_error(table, &row))?;
            Ok(false)
        }
    }
}

impl ReadPhase {
    /// Of an UPDATE as the binder understands it; `None` if it does not know all of it.
    ///
    /// # Errors
    /// Unknown tables and columns, values that are not supported.
    pub(in crate::session) fn bound_update(
        session: &Session,
        update: &Update,
        piece: Piece<'_>,
    ) -> Result<Option<Self>> {
        let now = micros_now();
        let unresolved = Unresolved::new(update.assignments.clone())?;
        let given = &unresolved.expressions;
        let Some(mut change) = change_of(session, &update.rows, given, (piece, now))? else {
            return Ok(None);
        };
        let all = bound_targets(session, &change.query)?;
        first_of(Kind::Update, &all, &update.rows)?;
        let mut assigned = unresolved.resolve(&all, now)?;
        for assigned in &assigned {
            if let (Given::Item(item), Some(literal)) = (&assigned.value, &assigned.literal) {
                let literal = Expr::value(literal.clone());
                let Some(scalar) = scalars::bound(session, &literal, now, &|_| None) else {
                    return Ok(None);
                };
                change.values[*item].scalar = scalar;
            }
        }
        let targets = changed_targets(&mut assigned, &all);
        let (kind, rows) = (Kind::Update, &update.rows);
        let phase = Self::of_change(kind, change, (targets, &assigned), rows)?;
        Ok(Some(Self {
            ignore: update.ignore,
            now,
            ..phase
        }))
    }

    /// Of a DELETE as the binder understands it; `None` if it does not know all of it.
    ///
    /// # Errors
    /// Unknown tables and columns.
    pub(in crate::session) fn bound_delete(
        session: &Session,
        delete: &Delete,
        piece: Piece<'_>,
    ) -> Result<Option<Self>> {
        let Some(change) = change_of(session, &delete.rows, &[], (piece, micros_now()))? else {
            return Ok(None);
        };
        let all = bound_targets(session, &change.query)?;
        let targets = deleted_targets(&delete.targets, all)?;
        let (kind, rows) = (Kind::Delete, &delete.rows);
        let phase = Self::of_change(kind, change, (targets, &[]), rows)?;
        Ok(Some(Self {
            ignore: delete.ignore,
            ..phase
        }))
    }

    fn of_change(
        kind: Kind,
        mut change: Change,
        (mut targets, assigned): (Vec<Target>, &[Assigned]),
        rows: &Rows,
    ) -> Result<Self> {
        let point = point_of(kind, &targets, rows)?;
        let needed = match point {
            Some(_) => change.places(),
            None => HashSet::new(),
        };
        let keys: Vec<Vec<Origin>> = targets.iter().map(Target::key_columns).collect();
        change.narrow(&keys.concat());
        for (target, key) in targets.iter_mut().zip(keys) {
            let places = key.into_iter().map(|column| change.place_of(column));
            let places: Option<Vec<usize>> = places.collect();
            let missing = || SqlError::unknown("Q12: a row without its key");
            target.places = Some(places.ok_or_else(missing)?);
        }
        let assigned = Evaluated::new(&change, assigned, &targets)?;
        Ok(Self {
            kind,
            what: What::Bound {
                query: Arc::new(change.query),
                assigned,
                needed,
            },
            targets,
            point,
            in_order: rows.order_by.is_some(),
            ignore: false,
            now: 0,
        })
    }

    /// Of an UPDATE as DataFusion understands it.
    ///
    /// # Errors
    /// Unknown tables and columns, what is not supported.
    pub(in crate::session) fn rewritten_update(
        session: &Session,
        update: Update,
        piece: Piece<'_>,
    ) -> Result<Self> {
        let now = micros_now();
        let mut unresolved = Unresolved::new(update.assignments)?;
        let query = unresolved.query(update.rows.from.clone())?;
        let mut rewritten = rewritten(session, query, &update.rows, piece)?;
        let all = targets(session, &rewritten.accesses)?;
        let mut assigned = unresolved.resolve(&all, now)?;
        let select = select_of(&mut rewritten.query)?;
        let functions = left_to_right(select, &assigned, &all)?;
        let targets = changed_targets(&mut assigned, &all);
        Self::of_rewritten(Self {
            kind: Kind::Update,
            what: What::Rewritten {
                rewritten: Box::new(rewritten),
                assigned,
                functions,
            },
            point: point_of(Kind::Update, &targets, &update.rows)?,
            targets,
            in_order: update.rows.order_by.is_some(),
            ignore: update.ignore,
            now,
        })
    }

    /// Of a DELETE as DataFusion understands it.
    ///
    /// # Errors
    /// Unknown tables and columns, what is not supported.
    pub(in crate::session) fn rewritten_delete(
        session: &Session,
        delete: Delete,
        piece: Piece<'_>,
    ) -> Result<Self> {
        let mut query = set::query_of(Vec::new())?;
        select_of(&mut query)?.from = delete.rows.from.clone();
        let rewritten = rewritten(session, query, &delete.rows, piece)?;
        let all = targets(session, &rewritten.accesses)?;
        let targets = deleted_targets(&delete.targets, all)?;
        Self::of_rewritten(Self {
            kind: Kind::Delete,
            what: What::Rewritten {
                rewritten: Box::new(rewritten),
                assigned: Vec::new(),
                functions: Vec::new(),
            },
            point: point_of(Kind::Delete, &targets, &delete.rows)?,
            targets,
            in_order: delete.rows.order_by.is_some(),
            ignore: delete.ignore,
            now: 0,
        })
    }

    /// The same with the rows' keys as output.
    fn of_rewritten(mut self) -> Result<Self> {
        if let What::Rewritten { rewritten, .. } = &mut self.what {
            let select = select_of(&mut rewritten.query)?;
            for target in &self.targets {
                target.add_key(select);
            }
        }
        Ok(self)
    }

    /// The plan of the query, for EXPLAIN.
    ///
    /// # Errors
    /// 1235 for what has no plan.
    pub(in crate::session) async fn explained(
        &self,
        session: &Session,
        mut reading: Reading,
    ) -> Result<Prepared> {
        self.prepare(&mut reading);
        self.plan(session, reading).await
    }

    async fn plan(&self, session: &Session, reading: Reading) -> Result<Prepared> {
        match &self.what {
            What::Bound { query, .. } => select::plan_bound(session, query, reading).await,
            What::Rewritten { rewritten, .. } => {
                select::plan(session, (**rewritten).clone(), reading).await
            }
        }
    }

    /// References to tables.
    fn references(&self) -> usize {
        match &self.what {
            What::Bound { query, .. } => query.tables.len(),
            What::Rewritten { rewritten, .. } => rewritten.accesses.len(),
        }
    }

    /// The functions that the query calls.
    fn functions(&self) -> Vec<Arc<ScalarUDF>> {
        match &self.what {
            What::Bound { .. } => Vec::new(),
            What::Rewritten { functions, .. } => functions.clone(),
        }
    }

    /// What the query reads and locks.
    async fn reading(&self, work: &mut Work, cancel: &CancelToken) -> Reading {
        let mut reading = work.reading(cancel).await;
        self.prepare(&mut reading);
        if work.isolation() == Isolation::Serializable {
            for special in reading.special.values_mut() {
                special.locker = Some(work.locker(LockMode::Exclusive));
            }
        }
        reading
    }

    /// The functions that the query calls, and the keys that it needs.
    fn prepare(&self, reading: &mut Reading) {
        let special = |target: &Target| {
            let special = Special {
                row_id: true,
                ..Special::default()
            };
            (target.access, special)
        };
        reading.special = self.targets.iter().map(special).collect();
        reading.functions = self.functions();
    }

    /// Fetches the long values of a locked row that the query names. Others become empty.
    async fn fetch_long(&self, session: &Session, row: &mut [Datum]) -> Result<()> {
        let columns = &self.targets[0].table.def.columns;
        for (place, (value, column)) in row.iter_mut().zip(columns).enumerate() {
            let is_needed = match &self.what {
                What::Bound { needed, .. } => needed.contains(&place),
                What::Rewritten { rewritten, .. } => names(&rewritten.query, &column.name),
            };
            if matches!(value, Datum::Overflow(_)) && !is_needed {
                *value = Datum::String(Vec::new());
            }
        }
        Ok(session.frontend.engine.fetch_long(row).await?)
    }

    /// What the query reads if the row is locked already.
    async fn reading_of(
        &self,
        session: &Session,
        work: &mut Work,
        row: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Reading> {
        let target = &self.targets[0];
        let rows = CurrentRows::new(table_schema(&target.table.def));
        rows.set(row)?;
        // Nothing but subqueries reads tables.
        let mut reading = match self.references() {
            1 => Reading::snapshot(session.current_view(), cancel),
            _ => work.reading(cancel).await,
        };
        reading.functions = self.functions();
        let special = Special {
            rows: Some(rows),
            ..Special::default()
        };
        reading.special = HashMap::from([(target.access, special)]);
        Ok(reading)
    }

    fn values<'a>(
        &'a self,
        batch: &RecordBatch,
        prepared: &Prepared,
        cancel: &'a CancelToken,
    ) -> Result<NewValues<'a>> {
        let targets = &self.targets;
        Ok(match &self.what {
            What::Bound { assigned, .. } => {
                NewValues::Evaluated(assigned.over(targets, batch, cancel)?)
            }
            What::Rewritten { assigned, .. } => {
                NewValues::Planned(Values::new(targets, assigned, batch, &prepared.schema)?)
            }
        })
    }

    /// Runs the query.
    async fn find(
        &self,
        session: &Session,
        reading: Reading,
        converter: &mut Converter,
    ) -> Result<Vec<Candidate>> {
        let cancel = reading.cancel.clone();
        let prepared = self.plan(session, reading).await?;
        let mut stream = session.frontend.start(&prepared);
        let mut found = Found {
            budget: Budget::new(session)?,
            candidates: Vec::new(),
            // Only a join delivers a row twice.
            known: (self.references() > 1).then(HashSet::new),
        };
        while let Some(batch) = select::guarded(&mut stream, &cancel).await? {
            let values = self.values(&batch, &prepared, &cancel)?;
            let keys: Vec<_> = self
                .targets
                .iter()
                .map(|target| target.keys(&batch, &prepared.schema))
                .collect::<Result<_>>()?;
            for row in 0..batch.num_rows() {
                for (target, keys) in keys.iter().enumerate() {
                    let Some(key) = keys[row].clone().filter(|key| found.is_new(target, key))
                    else {
                        continue;
                    };
                    let number = found.candidates.len() as u64 + 1;
                    let values = values.row(target, row, number, converter)?;
                    found.add(Candidate {
                        target,
                        key,
                        values,
                    })?;
                }
            }
        }
        let mut candidates = found.candidates;
        if !self.in_order {
            // Unique keys are then moved as in MySQL, and statements wait for each other in one order.
            candidates.sort_unstable_by(|a, b| (a.target, &a.key).cmp(&(b.target, &b.key)));
        }
        Ok(candidates)
    }
}

/// The new values of a batch of rows.
enum NewValues<'a> {
    Evaluated(EvaluatedBatch<'a>),
    Planned(Values<'a>),
}

impl NewValues<'_> {
    fn row(
        &self,
        target: usize,
        row: usize,
        number: u64,
        converter: &mut Converter,
    ) -> Result<Vec<(usize, Datum)>> {
        match self {
            Self::Evaluated(values) => values.row(target, row, number, converter),
            Self::Planned(values) => values.row(target, row, number, converter),
        }
    }
}

/// The rows found so far.
struct Found {
    budget: Budget,
    candidates: Vec<Candidate>,
    known: Option<HashSet<(usize, Vec<u8>)>>,
}

impl Found {
    fn is_new(&mut self, target: usize, key: &[u8]) -> bool {
        match &mut self.known {
            Some(known) => known.insert((target, key.to_vec())),
            None => true,
        }
    }

    fn add(&mut self, candidate: Candidate) -> Result<()> {
        let values: usize = candidate.values.iter().map(|(_, v)| values::size(v)).sum();
        let copies = if self.known.is_some() { 2 } else { 1 };
        let bytes = size_of::<Candidate>() + values + copies * candidate.key.len();
        self.budget.take(bytes)?;
        self.candidates.push(candidate);
        Ok(())
    }
}

fn change_of(
    session: &Session,
    rows: &Rows,
    expressions: &[Expr],
    around: (Piece<'_>, i64),
) -> Result<Option<Change>> {
    match session.frontend.config.bound_queries {
        true => bound::change(session, rows, expressions, around),
        false => Ok(None),
    }
}

/// The tables that are assigned to; assignments name them by their places among these then.
fn changed_targets(assigned: &mut [Assigned], all: &[Target]) -> Vec<Target> {
    let mut changed: Vec<usize> = assigned.iter().map(|a| a.target).collect();
    changed.sort_unstable();
    changed.dedup();
    for assigned in assigned {
        let place = changed.binary_search(&assigned.target);
        assigned.target = place.expect("it is among them");
    }
    changed.iter().map(|target| all[*target].clone()).collect()
}

/// The tables that rows are deleted from: those that are named, or all.
fn deleted_targets(names: &[ObjectName], all: Vec<Target>) -> Result<Vec<Target>> {
    if names.is_empty() {
        return Ok(all);
    }
    let mut targets: Vec<Target> = Vec::new();
    for name in names {
        let target = all.iter().find(|target| target.is_named(name));
        let target = target.ok_or_else(|| SqlError::unknown_delete_table(name))?;
        if targets.iter().any(|known| known.access == target.access) {
            return Err(SqlError::duplicate_alias(&target.alias));
        }
        targets.push(target.clone());
    }
    Ok(targets)
}

/// The key of the only row that can change.
///
/// # Errors
/// 1288 if no table can be changed.
fn point_of(kind: Kind, targets: &[Target], rows: &Rows) -> Result<Option<Vec<u8>>> {
    point::key(rows, first_of(kind, targets, rows)?)
}

/// The first of the tables that may change.
///
/// # Errors
/// 1288 if there is none.
fn first_of<'t>(kind: Kind, targets: &'t [Target], rows: &Rows) -> Result<&'t Target> {
    let statement = match kind {
        Kind::Update => "UPDATE",
        Kind::Delete => "DELETE",
    };
    match (targets.first(), rows.from.first()) {
        (Some(first), _) => Ok(first),
        (None, Some(table)) => {
            let table = table.relation.to_string();
            Err(SqlError::not_updatable(table, statement))
        }
        (None, None) => Err(SqlError::no_tables_used()),
    }
}

/// True if a query may mention a column.
fn names(query: &Query, column: &str) -> bool {
    let is_it = |ident: &Ident| ident.value.eq_ignore_ascii_case(column);
    visit_expressions(query, |expr| {
        let found = match expr {
            Expr::Identifier(ident) => is_it(ident),
            Expr::CompoundIdentifier(idents) => idents.last().is_some_and(is_it),
            _ => false,
        };
        if found {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
    .is_break()
}

/// A query with the conditions, the order and the limit of a statement.
fn rewritten(
    session: &Session,
    mut query: Box<Query>,
    rows: &Rows,
    piece: Piece<'_>,
) -> Result<Rewritten> {
    query.order_by.clone_from(&rows.order_by);
    query.limit_clause = rows.limit.clone().map(limit);
    let select = select_of(&mut query)?;
    select.selection.clone_from(&rows.selection);
    select.optimizer_hints.clone_from(&rows.hints);
    select::rewritten(session, query, piece)
}

fn limit(limit: Expr) -> LimitClause {
    LimitClause::LimitOffset {
        limit: Some(limit),
        offset: None,
        limit_by: Vec::new(),
    }
}
