//! UPDATE and DELETE.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use perigee_engine::TableName;
use perigee_engine::catalog::RowEvent;
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{Isolation, LockMode, LockWait, RowLock};
use perigee_sql_bind::query::{self, Change, Origin, Source};
use perigee_value::{Datum, Now, Zone};
use sqlparser::ast::Expr;

use super::assign::{Assigned, Given, Unresolved};
use super::changed::{changed_targets, deleted_targets, first_of, point_of};
use super::evaluated::Evaluated;
use super::target::{Target, row_of, targets};
use super::writing::Writing;
use super::{Budget, Converter, CurrentRows, Strictness};
use crate::access::table_schema;
use crate::error::{Result, SqlError};
use crate::explain::Changed;
use crate::parse::{Delete, Piece, Rows, Update};
use crate::result::OkResult;
use crate::session::checks::Checks;
use crate::session::generated::GeneratedColumns;
use crate::session::program::Triggers;
use crate::session::read_columns;
use crate::session::select::{self, Prepared, Reading, Special};
use crate::session::transaction::Work;
use crate::session::{Session, bound, scalars};
use crate::values;

/// What happens to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Kind {
    Update,
    Delete,
}

/// The query that finds the rows of an UPDATE or DELETE: their keys and their new values.
#[derive(Debug)]
pub(in crate::session) struct ReadPhase {
    pub kind: Kind,
    query: Arc<query::Query>,
    /// How the rows of the query become the new values.
    assigned: Evaluated,
    /// Columns of the only target that are needed if its row is locked before the query runs.
    needed: HashSet<usize>,
    /// The tables whose rows change.
    pub targets: Vec<Target>,
    /// For each of them, what its rows have to meet to be written.
    pub(super) checks: Vec<Option<Checks>>,
    /// The generated columns of each target.
    pub(super) generated: Vec<Option<GeneratedColumns>>,
    /// The key of the only row that it can be.
    point: Option<Vec<u8>>,
    /// Rows are changed in the order in which they are found.
    in_order: bool,
    ignore: bool,
    /// When the statement began.
    pub(super) now: Now,
}

/// A row to change.
pub(super) struct Candidate {
    pub target: usize,
    pub key: Vec<u8>,
    /// New values of columns.
    pub values: Vec<(usize, Datum)>,
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
    let phase = ReadPhase::of_update(session, update, piece)?;
    let (counts, warnings) = run(session, &phase, cancel).await?;
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
    let phase = ReadPhase::of_delete(session, &delete, piece)?;
    let (counts, _) = run(session, &phase, cancel).await?;
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
    bound::warn(session, &phase.query);
    let triggers = phase.triggers(session)?;
    let mut work = session.begin_work(cancel);
    let outcome = loop {
        match attempt(session, &mut work, (phase, &triggers), cancel).await {
            Err(error) if work.may_restart(&error) => {
                if let Err(error) = work.restart().await {
                    break Err(error);
                }
            }
            outcome => break outcome,
        }
    };
    let outcome = keep(session, &phase.query, outcome);
    let (counts, converter) = session.end_work(work, outcome).await?;
    let warnings = phase.query.warnings.len() + converter.report(session);
    Ok((counts, warnings))
}

/// The outcome of a statement, whose variables keep what it has assigned to them.
pub(in crate::session) fn keep<T>(
    session: &Session,
    query: &query::Query,
    outcome: Result<T>,
) -> Result<T> {
    let kept = session.keep_variables(query);
    outcome.and_then(|outcome| kept.map(|()| outcome))
}

/// Finds the rows and changes them.
async fn attempt(
    session: &mut Session,
    work: &mut Work,
    (phase, triggers): (&ReadPhase, &[Option<Triggers>]),
    cancel: &CancelToken,
) -> Result<(Counts, Converter)> {
    let mut tables = phase.targets.iter().map(|target| &target.table);
    tables.try_for_each(|table| work.check_writable(table))?;
    let mut converter = Converter::new(Strictness::new(session, phase.ignore));
    // What is wrong with a row comes behind what triggers say of the rows before it.
    converter.let_nulls_wait(triggers.iter().any(Option::is_some));
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
    let mut writing = Writing {
        session,
        work,
        phase,
        triggers,
        converter,
        cancel,
    };
    for (number, candidate) in candidates.iter().enumerate() {
        if cancel.is_cancelled() {
            return Err(SqlError::interrupted());
        }
        let target = &phase.targets[candidate.target];
        let record = locked_row(writing.work, target, &candidate.key, check).await?;
        let Some(record) = record else {
            let (table, key) = (&target.table, &candidate.key);
            // It may have followed a row that was deleted before it.
            if writing.work.transaction().has_deleted(table, key).await? {
                continue;
            }
            return Err(SqlError::record_changed(&table.def.name));
        };
        counts.matched += 1;
        if writing.row(candidate, &record, number as u64).await? {
            counts.changed += 1;
        }
    }
    Ok((counts, writing.converter))
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

/// A column that an UPDATE assigns to, as the statement sees it.
pub(in crate::session) struct UpdatedColumn {
    pub schema: String,
    /// The table, or the view that is named in its place.
    pub table: String,
    pub column: String,
}

/// The columns that are assigned to.
fn updated_columns(
    change: &Change,
    targets: &[Target],
    assigned: &[Assigned],
) -> Vec<UpdatedColumn> {
    let column = |assigned: &Assigned| {
        let target = &targets[assigned.target];
        let (reference, column) = (target.access, assigned.column);
        let def = &target.table.def;
        let view = change.query.tables[reference].views.first();
        let Some(view) = view else {
            return UpdatedColumn {
                schema: def.shown_schema().to_owned(),
                table: def.name.clone(),
                column: def.columns[column].name.clone(),
            };
        };
        let is_it = |origin: Origin| origin.reference == reference && origin.column == column;
        let mut sources = change.sources.iter();
        let source = sources.find(|source| source.references.contains(&reference));
        let mut columns = source.into_iter().flat_map(|source| &source.columns);
        let named = columns.find(|column| column.origin.is_some_and(is_it));
        UpdatedColumn {
            schema: view.schema.to_string(),
            table: view.name.to_string(),
            column: named.map_or_else(String::new, |column| column.name.to_string()),
        }
    };
    assigned.iter().map(column).collect()
}

impl ReadPhase {
    /// Of an UPDATE.
    ///
    /// # Errors
    /// Unknown tables and columns, what is not supported.
    pub(in crate::session) fn of_update(
        session: &Session,
        update: Update,
        piece: Piece<'_>,
    ) -> Result<Self> {
        let now = session.now();
        let read = read_columns::of_change(&update.rows, &update.assignments);
        let unresolved = Unresolved::new(update.assignments)?;
        let assigned = unresolved.assigned(&unresolved.expressions);
        let mut change = bound::change(session, &update.rows, &assigned, (piece, now))?;
        let all = targets(session, &change)?;
        first_of(Kind::Update, &all, &update.rows)?;
        let mut assigned = unresolved.resolve(&all, &change.columns, now)?;
        for assigned in &assigned {
            if let (Given::Item(item), Some(literal)) = (&assigned.value, &assigned.literal) {
                let literal = Expr::value(literal.clone());
                let scalar = scalars::bound(session, &literal, now, &|_| None);
                let unknown = || SqlError::unknown("Q12: a literal without a value");
                change.values[*item] = scalar.ok_or_else(unknown)?;
            }
        }
        let updated = updated_columns(&change, &all, &assigned);
        let targets = changed_targets(&mut assigned, &all);
        let (kind, rows) = (Kind::Update, &update.rows);
        let phase = Self::of_change(kind, change, (targets, &assigned), rows, session.zone())?;
        session.check_change(&phase, &updated, read.as_deref())?;
        Ok(Self {
            ignore: update.ignore,
            now,
            ..phase
        })
    }

    /// Of a DELETE.
    ///
    /// # Errors
    /// Unknown tables and columns, what is not supported.
    pub(in crate::session) fn of_delete(
        session: &Session,
        delete: &Delete,
        piece: Piece<'_>,
    ) -> Result<Self> {
        let change = bound::change(session, &delete.rows, &[], (piece, session.now()))?;
        let all = targets(session, &change)?;
        let targets = deleted_targets(&delete.targets, all, &change.sources)?;
        let (kind, rows) = (Kind::Delete, &delete.rows);
        let phase = Self::of_change(kind, change, (targets, &[]), rows, session.zone())?;
        let read = read_columns::of_change(rows, &rows.limit);
        session.check_change(&phase, &[], read.as_deref())?;
        Ok(Self {
            ignore: delete.ignore,
            ..phase
        })
    }

    /// A reference to a table.
    pub(in crate::session) fn table(&self, reference: usize) -> &query::Table {
        &self.query.tables[reference]
    }

    /// The references to tables in it.
    pub(in crate::session) fn tables(&self) -> impl Iterator<Item = &query::Table> {
        self.query.tables.iter().map(AsRef::as_ref)
    }

    fn of_change(
        kind: Kind,
        mut change: Change,
        (mut targets, assigned): (Vec<Target>, &[Assigned]),
        rows: &Rows,
        zone: Zone,
    ) -> Result<Self> {
        let point = match change.sources.iter().any(|source| source.is_view) {
            // Names are those of the view.
            true => None,
            false => point_of(kind, &targets, rows)?,
        };
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
            target.places = places.ok_or_else(missing)?;
        }
        let assigned = Evaluated::new(&change, assigned, &targets);
        let checks = targets.iter().map(|target| {
            let is_its = |source: &&Source| source.references.contains(&target.access);
            Checks::through(change.sources.iter().find(is_its), &target.table.def, zone)
        });
        let generated = targets.iter();
        let generated = generated.map(|target| GeneratedColumns::of(&target.table.def, zone));
        Ok(Self {
            checks: checks.collect::<Result<_>>()?,
            generated: generated.collect::<Result<_>>()?,
            kind,
            query: Arc::new(change.query),
            assigned,
            needed,
            targets,
            point,
            in_order: rows.order_by.is_some(),
            ignore: false,
            now: Now::default(),
        })
    }

    /// The triggers of each target.
    fn triggers(&self, session: &Session) -> Result<Vec<Option<Triggers>>> {
        let event = match self.kind {
            Kind::Update => RowEvent::Update,
            Kind::Delete => RowEvent::Delete,
        };
        let names = self.tables().map(|table| TableName {
            schema: table.schema.to_string(),
            name: table.name.to_string(),
        });
        let in_use: Arc<[TableName]> = names.collect();
        let targets = self.targets.iter();
        let own = targets.map(|target| Triggers::of(session, &target.table, event, &in_use));
        own.collect()
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
        select::plan(session, &self.query, reading).await
    }

    /// What it changes, for EXPLAIN.
    pub(in crate::session) fn changed(&self) -> Changed {
        let kind = match self.kind {
            Kind::Update => "UPDATE",
            Kind::Delete => "DELETE",
        };
        let aliases = self.targets.iter().map(|target| target.alias.clone());
        Changed::Read(kind, aliases.collect())
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

    /// The keys that the query delivers.
    fn prepare(&self, reading: &mut Reading) {
        let special = |target: &Target| {
            let special = Special {
                row_id: true,
                ..Special::default()
            };
            (target.access, special)
        };
        reading.special = self.targets.iter().map(special).collect();
    }

    /// Fetches the long values of a locked row that the query names. Others become empty.
    async fn fetch_long(&self, session: &Session, row: &mut [Datum]) -> Result<()> {
        for (place, value) in row.iter_mut().enumerate() {
            if matches!(value, Datum::Overflow(_)) && !self.needed.contains(&place) {
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
        let mut reading = match self.query.tables.len() {
            1 => Reading::snapshot(session.current_view(), cancel),
            _ => work.reading(cancel).await,
        };
        let special = Special {
            rows: Some(rows),
            ..Special::default()
        };
        reading.special = HashMap::from([(target.access, special)]);
        Ok(reading)
    }

    /// Runs the query.
    async fn find(
        &self,
        session: &Session,
        reading: Reading,
        converter: &mut Converter,
    ) -> Result<Vec<Candidate>> {
        let cancel = reading.cancel.clone();
        let mut prepared = select::plan(session, &self.query, reading).await?;
        prepared.changed = self.changed();
        session.observe(&prepared);
        let mut stream = session.frontend.start(&prepared);
        let mut found = Found {
            budget: Budget::new(session)?,
            candidates: Vec::new(),
            // Only a join delivers a row twice.
            known: (self.query.tables.len() > 1).then(HashSet::new),
        };
        while let Some(batch) = select::guarded(&mut stream, &cancel).await? {
            let values = self.assigned.over(&self.targets, &batch, &cancel)?;
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
