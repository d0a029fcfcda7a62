//! [`Build`]: trees of a changed table from the records of the one before.
//!
//! What is read are the current clustered records. Nobody else uses the table meanwhile, but what a
//! crash left may still be rolled back: records of such a transaction are waited for, so all that are
//! read are committed. The records that are made belong to no transaction: views that are older than the
//! change may not read them ([`Table::check_view`]).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use perigee_page::RecordHeader;
use perigee_types::TrxId;
use perigee_value::RecordView;

use crate::EngineError;
use crate::btree::{Built, Cursor, KeySpan, LeafRun};
use crate::buffer::Access;
use crate::catalog::{Index, MAX_BUCKETS, Table, TableStats};
use crate::engine::Engine;
use crate::load::{Chunk, Collector, FILL, Runs, Target, build_from, push_entry, sorted};
use crate::scan::CancelToken;

/// Bytes of records that are sorted at a time.
const RUN_BYTES: usize = 4 << 20;

/// How often a wait for the end of a transaction looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The writer of what a change of definition makes: everybody sees it.
pub(super) const NOBODY: TrxId = TrxId(0);

/// The current rows of a table, leaf by leaf.
pub(super) struct Rows {
    engine: Arc<Engine>,
    cursor: Cursor,
    table: Arc<Table>,
    cancel: CancelToken,
}

impl Rows {
    pub(super) fn new(engine: &Arc<Engine>, table: &Arc<Table>, cancel: &CancelToken) -> Self {
        let tree = engine.tree(table.clustered());
        Self {
            engine: engine.clone(),
            cursor: tree.range(KeySpan::all(), false, Access::Scan),
            table: table.clone(),
            cancel: cancel.clone(),
        }
    }

    /// Calls `each` with the rows of the next leaf that has records; false at the end.
    pub(super) async fn next(
        &mut self,
        mut each: impl FnMut(&RecordView<'_>) -> Result<(), EngineError>,
    ) -> Result<bool, EngineError> {
        check(&self.cancel)?;
        let Some(run) = self.settled().await? else {
            return Ok(false);
        };
        let layout = &self.table.clustered().layout;
        let page = run.page.get();
        for slot in run.slots {
            let record = page.record(slot);
            if !RecordHeader::read(record).flags.is_deleted() {
                each(&RecordView::new(layout, record))?;
            }
        }
        Ok(true)
    }
}

impl Rows {
    /// The next leaf that has records, none of which is a running transaction's.
    async fn settled(&mut self) -> Result<Option<LeafRun>, EngineError> {
        loop {
            let before = self.cursor.rest().clone();
            // Whoever has ended before the leaf is read takes nothing in it back any more.
            let ended = self.engine.registry.view(None, 0);
            let Some(run) = self.cursor.next().await? else {
                return Ok(None);
            };
            let page = run.page.get();
            let writer = |slot| RecordHeader::read(page.record(slot)).trx;
            let running = |trx: &TrxId| !ended.sees(*trx);
            let Some(writer) = run.slots.clone().map(writer).find(running) else {
                return Ok(Some(run));
            };
            while self.engine.registry.is_active(writer) {
                check(&self.cancel)?;
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            self.cursor = self.cursor.tree().range(before, false, Access::Scan);
        }
    }
}

fn check(cancel: &CancelToken) -> Result<(), EngineError> {
    if cancel.is_cancelled() {
        return Err(EngineError::Cancelled);
    }
    Ok(())
}

/// Trees under construction.
pub(super) struct Build {
    engine: Arc<Engine>,
    table: Arc<Table>,
    /// Numbers of the indexes whose trees are built, and their records.
    runs: Vec<(usize, Runs)>,
    cancel: CancelToken,
}

impl Build {
    /// Begins to build the trees, which are empty, of some indexes of a table.
    pub(super) fn new(
        engine: &Arc<Engine>,
        table: &Arc<Table>,
        indexes: impl Iterator<Item = usize>,
        cancel: &CancelToken,
    ) -> Self {
        let memory = engine.config().sort_memory;
        let runs = indexes
            .map(|number| {
                let shape = table.indexes[number].layout.shape;
                (number, Runs::new(shape, memory))
            })
            .collect();
        Self {
            engine: engine.clone(),
            table: table.clone(),
            runs,
            cancel: cancel.clone(),
        }
    }

    /// Adds the rows of a chunk that its encoder has finished; all indexes are built.
    pub(super) fn push(&mut self, chunk: Chunk) -> Result<(), EngineError> {
        for ((_, runs), records) in self.runs.iter_mut().zip(chunk.into_records()) {
            runs.push(records).map_err(|e| spill(&e))?;
        }
        Ok(())
    }

    /// Adds entries for all rows of `old`, whose clustered records are those of the table. Returns
    /// what they are like, with the leaves of the clustered index only.
    pub(super) async fn push_entries(
        &mut self,
        old: &Arc<Table>,
    ) -> Result<TableStats, EngineError> {
        let table = self.table.clone();
        let indexes: Vec<&Index> = self.runs.iter().map(|(n, _)| &table.indexes[*n]).collect();
        let mut entries = vec![Vec::new(); indexes.len()];
        let mut rows = Rows::new(&self.engine, old, &self.cancel);
        let mut columns = vec![Collector::of_all(); table.def.columns.len()];
        let (mut number, mut leaves) = (0, 0);
        let mut more = true;
        while more {
            more = rows
                .next(|row| {
                    for (column, collector) in columns.iter_mut().enumerate() {
                        collector.add(row, column);
                    }
                    for (index, entries) in indexes.iter().zip(&mut entries) {
                        push_entry(index, row, entries)
                            .map_err(|error| EngineError::Row { number, error })?;
                    }
                    number += 1;
                    Ok(())
                })
                .await?;
            leaves += u64::from(more);
            for ((_, runs), entries) in self.runs.iter_mut().zip(&mut entries) {
                if !more || entries.len() > RUN_BYTES {
                    let run = sorted(runs.shape(), std::mem::take(entries));
                    runs.push(run).map_err(|e| spill(&e))?;
                }
            }
        }
        Ok(TableStats {
            rows: number,
            columns: columns
                .into_iter()
                .map(|column| column.finish(MAX_BUCKETS))
                .collect(),
            leaf_pages: vec![leaves],
        })
    }

    /// Builds the trees; returns what was built, by number of the index.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`], [`EngineError::Cancelled`], or what storage says.
    pub(super) async fn finish(self) -> Result<Vec<(usize, Built)>, EngineError> {
        let mut built = Vec::new();
        for (number, runs) in self.runs {
            let index = &self.table.indexes[number];
            let mut builder = self.engine.tree(index).build(NOBODY, FILL);
            let merge = runs.merge().map_err(|e| spill(&e))?;
            let to = Target {
                table: &self.table,
                index,
                cancel: &self.cancel,
            };
            build_from(&mut builder, merge, to).await?;
            built.push((number, builder.finish().await?));
        }
        Ok(built)
    }
}

/// True if a chunk is large enough to be sorted.
pub(super) fn is_full(chunk: &Chunk) -> bool {
    chunk.bytes() > RUN_BYTES
}

fn spill(error: &io::Error) -> EngineError {
    EngineError::TemporaryFile {
        text: error.to_string(),
        full: error.kind() == io::ErrorKind::StorageFull,
    }
}
