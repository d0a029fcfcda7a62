//! [`Writing`]: the rows that an UPDATE or DELETE has found are written one by one, with their triggers.

use perigee_engine::EngineError;
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::Written;
use perigee_value::{ColumnType, Datum};

use super::Converter;
use super::assign::assign;
use super::change::{Candidate, Kind, ReadPhase};
use super::target::row_of;
use crate::error::{Result, SqlError};
use crate::session::Session;
use crate::session::generated::GeneratedColumns;
use crate::session::insert::{duplicate_error, engine_error};
use crate::session::program::Triggers;
use crate::session::transaction::Work;

/// Writes the rows that were found.
pub(super) struct Writing<'a> {
    pub session: &'a mut Session,
    pub work: &'a mut Work,
    pub phase: &'a ReadPhase,
    /// For each target.
    pub triggers: &'a [Option<Triggers>],
    pub converter: Converter,
    pub cancel: &'a CancelToken,
}

impl Writing<'_> {
    /// Writes one row that is locked; true if that changed it.
    ///
    /// # Errors
    /// What forbids it; what its triggers raise.
    pub async fn row(&mut self, candidate: &Candidate, record: &[u8], number: u64) -> Result<bool> {
        match self.phase.kind {
            Kind::Delete => self.delete(candidate, record, number).await,
            Kind::Update => {
                let table = &self.phase.targets[candidate.target].table;
                self.update(candidate, &row_of(table, record), number).await
            }
        }
    }

    async fn delete(&mut self, candidate: &Candidate, record: &[u8], number: u64) -> Result<bool> {
        let table = &self.phase.targets[candidate.target].table;
        let triggers = self.triggers[candidate.target].as_ref();
        let old = match triggers {
            Some(_) => shown(self.session, triggers, &row_of(table, record)).await?,
            None => Vec::new(),
        };
        if let Some(triggers) = triggers {
            let rows = (&old[..], &mut [][..]);
            let fired = triggers.before(self.session, self.work, rows, self.cancel);
            fired.await?;
        }
        let transaction = self.work.transaction();
        let written = transaction.delete_row(table, &candidate.key).await;
        let changed = self.written(written, table, number)?;
        if let Some(triggers) = triggers.filter(|_| changed.is_some()) {
            let rows = (&old[..], &[][..]);
            let fired = triggers.after(self.session, self.work, rows, self.cancel);
            fired.await?;
        }
        Ok(changed.unwrap_or_default())
    }

    async fn update(
        &mut self,
        candidate: &Candidate,
        before: &[Datum],
        number: u64,
    ) -> Result<bool> {
        let (phase, target) = (self.phase, candidate.target);
        let table = &phase.targets[target].table;
        let mut row = before.to_vec();
        assign(table, &mut row, &candidate.values, before, phase.now);
        self.follow(target, (before, &mut row), number).await?;
        let triggers = self.triggers[target].as_ref();
        let old = shown(self.session, triggers, before).await?;
        if let Some(triggers) = triggers.filter(|triggers| triggers.has_before()) {
            let mut new = triggers
                .fetched(&self.session.frontend.engine, &row)
                .await?;
            let rows = (&old[..], &mut new[..]);
            let fired = triggers.before(self.session, self.work, rows, self.cancel);
            for place in fired.await? {
                row[place] = new[place].clone();
            }
        }
        if self.converter.settle(&table.def, &mut row)? {
            GeneratedColumns::forget(&table.def, (before, &mut row));
            self.follow(target, (before, &mut row), number).await?;
        }
        let checks = phase.checks[target].as_ref();
        if let Some(checks) = checks.filter(|_| row != before) {
            let engine = &self.session.frontend.engine;
            let violated = checks.stored_violates(engine, table, &row, self.cancel);
            if let Some(violation) = violated.await? {
                self.converter.refused(violation)?;
                return Ok(false);
            }
        }
        let transaction = self.work.transaction();
        let written = transaction.update_row(table, &candidate.key, &row).await;
        let changed = self.written(written, table, number)?;
        if let Some(triggers) = triggers.filter(|_| changed.is_some()) {
            let new = triggers
                .fetched(&self.session.frontend.engine, &row)
                .await?;
            let fired = triggers.after(self.session, self.work, (&old, &new), self.cancel);
            fired.await?;
        }
        Ok(changed.unwrap_or_default())
    }

    /// Computes the generated columns of a row that follow from columns that changed.
    async fn follow(
        &mut self,
        target: usize,
        rows: (&[Datum], &mut [Datum]),
        number: u64,
    ) -> Result<()> {
        let Some(generated) = &self.phase.generated[target] else {
            return Ok(());
        };
        let converter = &mut self.converter;
        let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
            converter.value(value, ty, column, number)
        };
        let table = &self.phase.targets[target].table;
        let place = (&*self.session.frontend.engine, &**table);
        generated
            .follow(place, rows, &mut convert, self.cancel)
            .await
    }

    /// What became of a row: whether it changed, or `None` if IGNORE left it out.
    fn written(
        &mut self,
        written: std::result::Result<Written, EngineError>,
        table: &Table,
        number: u64,
    ) -> Result<Option<bool>> {
        let allowed = self.converter.allowed(written);
        let Some(written) = allowed.map_err(|e| engine_error(e, table, number))? else {
            return Ok(None);
        };
        match written {
            Written::Done => Ok(Some(true)),
            Written::Unchanged => Ok(Some(false)),
            Written::Missing => Err(SqlError::record_changed(&table.def.name)),
            Written::Duplicate(row) => {
                self.converter.refused(duplicate_error(table, &row))?;
                Ok(None)
            }
        }
    }
}

/// What a row is to its triggers, if it has some.
async fn shown(
    session: &Session,
    triggers: Option<&Triggers>,
    row: &[Datum],
) -> Result<Vec<Datum>> {
    match triggers {
        Some(triggers) => triggers.fetched(&session.frontend.engine, row).await,
        None => Ok(Vec::new()),
    }
}
