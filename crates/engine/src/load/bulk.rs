//! [`BulkLoad`]: many rows into a table as one transaction.
//!
//! An empty table's trees are built from sorted records, page after page through the log. Rows that
//! come in key order, as exported files have them, go straight into pages; the first
//! [`DECIDE_BYTES`] of them decide. Otherwise they are sorted first, in bounded memory. A table with
//! rows gets the new ones by ordinary inserts.
//!
//! Chunks are pushed in the order of the rows; they are encoded and sorted elsewhere, on as many
//! threads as one likes.

use std::io;
use std::sync::Arc;

use perigee_page::RecordShape;
use perigee_types::TrxId;
use perigee_value::RecordView;

use super::collect::Collector;
use super::encode::{Chunk, Encoder};
use super::runs::{Merge, Runs};
use crate::EngineError;
use crate::btree::{Builder, Built, KeySpan, Tree};
use crate::catalog::{Index, MAX_BUCKETS, Table, TableStats};
use crate::engine::Engine;
use crate::scan::CancelToken;
use crate::txn::{Transaction, TransactionOptions};

/// Pages of a built tree are filled to so many sixteenths, as InnoDB does: ascending inserts go to
/// new pages, others find a little room.
pub(crate) const FILL: usize = 15;

/// Bytes of clustered records that show whether rows come in key order.
const DECIDE_BYTES: usize = 16 << 20;

/// Rows of an ordinary insert at a time.
const INSERT_ROWS: usize = 1024;

/// A load under way. Dropping it undoes it in the background.
pub struct BulkLoad {
    engine: Arc<Engine>,
    table: Arc<Table>,
    trx: TrxId,
    transaction: Transaction,
    rows: u64,
    columns: Vec<Collector>,
    cancel: CancelToken,
    mode: Mode,
}

/// What happens to records.
enum Mode {
    /// The table has rows: records are inserted.
    Insert,
    /// The table is empty: records of each index are collected, or pages of the clustered one built.
    Build {
        clustered: Clustered,
        secondary: Vec<Runs>,
    },
}

/// How far the clustered index is.
enum Clustered {
    /// Records so far, and whether they came in key order; the greatest key.
    Undecided {
        runs: Runs,
        bytes: usize,
        in_order: bool,
        last: Vec<u8>,
    },
    /// They come in key order. Those that do not, after all, are inserted in the end.
    Streaming {
        builder: Box<Builder>,
        last: Vec<u8>,
        late: Runs,
    },
}

impl Engine {
    /// Begins to load rows into a table; if it is empty, nobody else uses it until the load ends.
    ///
    /// # Errors
    /// What storage says.
    pub async fn bulk_load(self: &Arc<Self>, table: &Arc<Table>) -> Result<BulkLoad, EngineError> {
        let transaction = self.begin(TransactionOptions::default());
        self.bulk_load_as(transaction, table, &CancelToken::new())
            .await
    }

    /// As [`Engine::bulk_load`], as a transaction that has done nothing yet; `cancel` stops it with
    /// [`EngineError::Cancelled`].
    ///
    /// # Errors
    /// As [`Transaction::lock_row`].
    pub async fn bulk_load_as(
        self: &Arc<Self>,
        mut transaction: Transaction,
        table: &Arc<Table>,
        cancel: &CancelToken,
    ) -> Result<BulkLoad, EngineError> {
        transaction.begin_statement(cancel);
        let clustered = self.tree(table.clustered());
        // Rows that refer to others are checked one by one.
        let is_checked = transaction.checks_foreign_keys() && !table.def.foreign_keys.is_empty();
        let mut is_empty = !is_checked && clustered.first_in(KeySpan::all()).await?.is_none();
        let trx = if is_empty {
            transaction.write_alone_to(table).await?
        } else {
            transaction.write_to(table).await?
        };
        if is_empty && clustered.first_in(KeySpan::all()).await?.is_some() {
            is_empty = false;
            transaction.share(table);
        }
        let runs = |index: &Index| Runs::new(index.layout.shape, self.config.sort_memory);
        let mode = if is_empty {
            transaction.log_load(table).await?;
            let clustered = Clustered::Undecided {
                runs: runs(table.clustered()),
                bytes: 0,
                in_order: true,
                last: Vec::new(),
            };
            let secondary = table.indexes[1..].iter().map(runs).collect();
            Mode::Build {
                clustered,
                secondary,
            }
        } else {
            Mode::Insert
        };
        Ok(BulkLoad {
            engine: self.clone(),
            table: table.clone(),
            trx,
            transaction,
            rows: 0,
            columns: Vec::new(),
            cancel: cancel.clone(),
            mode,
        })
    }
}

impl BulkLoad {
    /// What makes chunks of the load.
    #[must_use]
    pub fn encoder(&self) -> Encoder {
        Encoder::new(self.table.clone(), self.trx)
    }

    /// Adds a chunk that [`Encoder::finish`] was called on.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`], or what storage or the disk for temporary files says. The
    /// load has to be rolled back.
    pub async fn push(&mut self, mut chunk: Chunk) -> Result<(), EngineError> {
        self.engine.reserve_numbers(&self.table).await?;
        self.rows += chunk.rows;
        let mut chains = Vec::new();
        for value in chunk.take_outside() {
            check(&self.cancel)?;
            chains.push(self.transaction.make_chain(&self.table, &value).await?);
        }
        if !chains.is_empty() {
            chunk.lead_to(&self.table, &chains);
        }
        if self.columns.is_empty() {
            self.columns = chunk.columns;
        } else {
            let pairs = self.columns.iter_mut().zip(chunk.columns);
            pairs.for_each(|(all, new)| all.merge(new));
        }
        let mut records = chunk.records.into_iter();
        let clustered_records = records.next().expect("every table has a clustered index");
        match &mut self.mode {
            Mode::Insert => {
                let shape = self.table.clustered().layout.shape;
                let mut runs = Runs::new(shape, usize::MAX);
                runs.push(clustered_records).map_err(|e| spill(&e))?;
                insert_late(&mut self.transaction, &self.table, runs, &self.cancel).await
            }
            Mode::Build {
                clustered,
                secondary,
            } => {
                for (runs, records) in secondary.iter_mut().zip(records) {
                    runs.push(records).map_err(|e| spill(&e))?;
                }
                let tree = self.engine.tree(self.table.clustered());
                let to = Target {
                    table: &self.table,
                    index: self.table.clustered(),
                    cancel: &self.cancel,
                };
                clustered.push(to, &tree, self.trx, clustered_records).await
            }
        }
    }

    /// Completes the load and commits it; returns the number of rows.
    ///
    /// # Errors
    /// As [`BulkLoad::push`]; then everything is undone.
    pub async fn finish(mut self) -> Result<u64, EngineError> {
        match self.complete().await {
            Ok(()) => {
                self.transaction.commit().await?;
                Ok(self.rows)
            }
            Err(e) => {
                self.transaction.rollback().await?;
                Err(e)
            }
        }
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// If storage fails; then the next start undoes it.
    pub async fn rollback(self) -> Result<(), EngineError> {
        self.transaction.rollback().await
    }

    async fn complete(&mut self) -> Result<(), EngineError> {
        let Mode::Build {
            clustered,
            secondary,
        } = std::mem::replace(&mut self.mode, Mode::Insert)
        else {
            return Ok(());
        };
        let tree = self.engine.tree(self.table.clustered());
        let to = Target {
            table: &self.table,
            index: self.table.clustered(),
            cancel: &self.cancel,
        };
        let (builder, late) = clustered.into_builder(to, &tree, self.trx).await?;
        let mut builds = Vec::new();
        for (number, runs) in (1..).zip(secondary) {
            let (engine, table, trx) = (self.engine.clone(), self.table.clone(), self.trx);
            let cancel = self.cancel.clone();
            builds.push(tokio::spawn(build_secondary(
                engine, table, number, trx, runs, cancel,
            )));
        }
        // All are awaited before one's error counts: none may write while the load is undone.
        let mut outcomes = Vec::new();
        for build in builds {
            outcomes.push(build.await);
        }
        let mut built = Vec::new();
        for outcome in outcomes {
            built.push(outcome.map_err(|e| EngineError::Corrupt(e.to_string()))??);
        }
        let mut leaf_pages = vec![0];
        for builder in built {
            leaf_pages.push(builder.finish().await?.leaf_pages);
        }
        let Built {
            leaf_pages: clustered_pages,
            ..
        } = builder.finish().await?;
        leaf_pages[0] = clustered_pages;
        insert_late(&mut self.transaction, &self.table, late, &self.cancel).await?;
        let columns = std::mem::take(&mut self.columns);
        let columns = columns
            .into_iter()
            .map(|column| column.finish(MAX_BUCKETS))
            .collect();
        let stats = TableStats {
            rows: self.rows,
            columns,
            leaf_pages,
        };
        // The load has the table to itself, so it is the catalog's.
        self.engine
            .keep_stats(&self.table, stats, 0)
            .await
            .map(drop)
    }
}

impl Clustered {
    async fn push(
        &mut self,
        to: Target<'_>,
        tree: &Tree,
        trx: TrxId,
        records: Vec<u8>,
    ) -> Result<(), EngineError> {
        let shape = tree.spec().shape;
        let Some((first, greatest)) = key_range(&shape, &records) else {
            return Ok(());
        };
        match self {
            Self::Undecided {
                runs,
                bytes,
                in_order,
                last,
            } => {
                *in_order &= *bytes == 0 || *last < first;
                *bytes += records.len();
                *last = greatest;
                runs.push(records).map_err(|e| spill(&e))?;
                if *in_order && *bytes > DECIDE_BYTES {
                    let last = std::mem::take(last);
                    let merge = take(runs).merge().map_err(|e| spill(&e))?;
                    let mut builder = Box::new(tree.build(trx, FILL));
                    build_from(&mut builder, merge, to).await?;
                    *self = Self::Streaming {
                        builder,
                        last,
                        late: take(runs),
                    };
                }
                Ok(())
            }
            Self::Streaming {
                builder,
                last,
                late,
            } => {
                if *last >= first {
                    return late.push(records).map_err(|e| spill(&e));
                }
                *last = greatest;
                let mut runs = Runs::new(shape, usize::MAX);
                runs.push(records).map_err(|e| spill(&e))?;
                let merge = runs.merge().map_err(|e| spill(&e))?;
                build_from(builder, merge, to).await
            }
        }
    }

    /// The tree with all records in it but those that came late.
    async fn into_builder(
        self,
        to: Target<'_>,
        tree: &Tree,
        trx: TrxId,
    ) -> Result<(Box<Builder>, Runs), EngineError> {
        match self {
            Self::Streaming { builder, late, .. } => Ok((builder, late)),
            Self::Undecided { runs, .. } => {
                let mut builder = Box::new(tree.build(trx, FILL));
                let merge = runs.merge().map_err(|e| spill(&e))?;
                build_from(&mut builder, merge, to).await?;
                Ok((builder, Runs::new(tree.spec().shape, 0)))
            }
        }
    }
}

/// Takes all runs out.
fn take(runs: &mut Runs) -> Runs {
    let empty = runs.like();
    std::mem::replace(runs, empty)
}

async fn build_secondary(
    engine: Arc<Engine>,
    table: Arc<Table>,
    number: usize,
    trx: TrxId,
    runs: Runs,
    cancel: CancelToken,
) -> Result<Builder, EngineError> {
    let index = &table.indexes[number];
    let mut builder = engine.tree(index).build(trx, FILL);
    let merge = runs.merge().map_err(|e| spill(&e))?;
    let to = Target {
        table: &table,
        index,
        cancel: &cancel,
    };
    build_from(&mut builder, merge, to).await?;
    Ok(builder)
}

/// The index of a table that is built, and what stops that.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub table: &'a Table,
    pub index: &'a Index,
    pub cancel: &'a CancelToken,
}

/// Adds all records of a merge, refusing equal keys.
pub(crate) async fn build_from(
    builder: &mut Builder,
    mut merge: Merge,
    to: Target<'_>,
) -> Result<(), EngineError> {
    let index = to.index;
    let shape = index.layout.shape;
    let mut before: Vec<u8> = Vec::new();
    while let Some(record) = merge.next().map_err(|e| spill(&e))? {
        if !before.is_empty() && same_key(index, &shape, &before, record) {
            return Err(duplicate(to.table, index, record));
        }
        before.clear();
        before.extend_from_slice(record);
        if builder.add(record)? {
            check(to.cancel)?;
            builder.write_group().await?;
        }
    }
    Ok(())
}

/// True if two records that follow each other may not be in the index together.
fn same_key(index: &Index, shape: &RecordShape, a: &[u8], b: &[u8]) -> bool {
    if shape.key(a) == shape.key(b) {
        return true;
    }
    if !index.unique || shape.is_clustered() {
        return false;
    }
    let (a, b) = (
        RecordView::new(&index.layout, a),
        RecordView::new(&index.layout, b),
    );
    (0..index.key_columns).all(|c| !a.is_null(c) && a.value(c) == b.value(c))
}

fn duplicate(table: &Table, index: &Index, record: &[u8]) -> EngineError {
    let view = RecordView::new(&index.layout, record);
    let texts: Vec<_> = index.layout.key[..index.key_columns]
        .iter()
        .map(|column| {
            let mut text = String::new();
            let column = usize::from(*column);
            table.format(index.columns[column], view.value(column), &mut text);
            text
        })
        .collect();
    EngineError::DuplicateKey {
        index: index.name.clone(),
        value: texts.join("-"),
    }
}

fn check(cancel: &CancelToken) -> Result<(), EngineError> {
    if cancel.is_cancelled() {
        return Err(EngineError::Cancelled);
    }
    Ok(())
}

async fn insert_late(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    late: Runs,
    cancel: &CancelToken,
) -> Result<(), EngineError> {
    let mut merge = late.merge().map_err(|e| spill(&e))?;
    let mut records = Vec::new();
    while let Some(record) = merge.next().map_err(|e| spill(&e))? {
        records.push(record.to_vec());
        if records.len() == INSERT_ROWS {
            check(cancel)?;
            transaction
                .insert_records(table, std::mem::take(&mut records))
                .await?;
        }
    }
    transaction.insert_records(table, records).await
}

/// First and last key of sorted records.
fn key_range(shape: &RecordShape, records: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut at = 0;
    let mut range: Option<(Vec<u8>, &[u8])> = None;
    while at < records.len() {
        let len = shape
            .record_len(&records[at..])
            .expect("chunks hold whole records");
        let key = shape.key(&records[at..at + len]);
        range = Some((range.map_or_else(|| key.to_vec(), |(first, _)| first), key));
        at += len;
    }
    range.map(|(first, last)| (first, last.to_vec()))
}

fn spill(error: &io::Error) -> EngineError {
    EngineError::TemporaryFile {
        text: error.to_string(),
        full: error.kind() == io::ErrorKind::StorageFull,
    }
}
