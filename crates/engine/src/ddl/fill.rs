//! [`Fill`]: a new table's trees, filled with rows; and tables that are made with rows in them.

use std::sync::Arc;

use perigee_types::TableId;
use perigee_value::Datum;

use super::build::{Build, NOBODY, is_full};
use super::change::Change;
use super::lock::TableName;
use super::schema::NO_ROOT;
use crate::EngineError;
use crate::catalog::{IndexRoot, MAX_BUCKETS, Table, TableDef, TableStats};
use crate::engine::Engine;
use crate::load::{Chunk, Collector, Encoder};
use crate::overflow::ChainWriter;
use crate::scan::CancelToken;

/// Rows on their way into the empty trees of a table that nobody knows yet.
pub(super) struct Fill {
    engine: Arc<Engine>,
    table: Arc<Table>,
    encoder: Encoder,
    chunk: Chunk,
    build: Build,
    statistics: Option<Vec<Collector>>,
    rows: u64,
}

impl Fill {
    pub(super) fn new(engine: &Arc<Engine>, table: &Arc<Table>, cancel: &CancelToken) -> Self {
        let encoder = Encoder::new(table.clone(), NOBODY);
        Self {
            engine: engine.clone(),
            table: table.clone(),
            chunk: encoder.chunk(0),
            encoder,
            build: Build::new(engine, table, 0..table.indexes.len(), cancel),
            statistics: None,
            rows: 0,
        }
    }

    /// Rows so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row given as values of the table's columns. What is added is kept in memory until
    /// [`Fill::settle`].
    pub(super) fn push(&mut self, row: &[Datum]) -> Result<(), EngineError> {
        let row_id = self.engine.row_ids(&self.table, 1);
        self.chunk.number_next(row_id);
        let pushed = self.encoder.push(&mut self.chunk, row);
        pushed.map_err(|error| EngineError::Row {
            number: self.rows,
            error,
        })?;
        self.rows += 1;
        Ok(())
    }

    /// Keeps the rows in memory few.
    pub(super) async fn settle(&mut self) -> Result<(), EngineError> {
        if is_full(&self.chunk) {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), EngineError> {
        let mut chunk = std::mem::replace(&mut self.chunk, self.encoder.chunk(0));
        let mut chains = Vec::new();
        for value in chunk.take_outside() {
            // Nobody knows the table: the chains go with its extents if this does not end well.
            let writer = ChainWriter::new(&self.engine, self.table.clustered().id, &value);
            chains.push(writer.finish(&self.engine).await?);
        }
        if !chains.is_empty() {
            chunk.lead_to(&self.table, &chains);
        }
        self.encoder.finish(&mut chunk);
        let columns = chunk.take_columns();
        match &mut self.statistics {
            None => self.statistics = Some(columns),
            Some(all) => {
                let pairs = all.iter_mut().zip(columns);
                pairs.for_each(|(all, new)| all.merge(new));
            }
        }
        self.build.push(chunk)
    }

    /// Builds the trees.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`], [`EngineError::Cancelled`], or what storage says.
    pub(super) async fn finish(mut self) -> Result<TableStats, EngineError> {
        self.flush().await?;
        let mut leaf_pages = vec![0; self.table.indexes.len()];
        for (number, built) in self.build.finish().await? {
            leaf_pages[number] = built.leaf_pages;
        }
        let columns = self.statistics.into_iter().flatten();
        Ok(TableStats {
            rows: self.rows,
            columns: columns.map(|column| column.finish(MAX_BUCKETS)).collect(),
            leaf_pages,
        })
    }
}

/// A table under construction that nobody knows before it has all its rows. Dropping it frees its pages.
pub struct NewTable {
    engine: Arc<Engine>,
    table: Arc<Table>,
    roots: Vec<IndexRoot>,
    fill: Fill,
}

impl Engine {
    /// Begins to make a table with rows.
    ///
    /// # Errors
    /// As [`Engine::create_table`].
    pub async fn begin_table(
        self: &Arc<Self>,
        def: TableDef,
        cancel: &CancelToken,
    ) -> Result<NewTable, EngineError> {
        let roots = vec![NO_ROOT; def.indexes.len() + 1];
        let trial = Table::new(TableId(0), def.clone(), &roots, TableStats::default())?;
        self.check_free(&TableName::of(&trial))?;
        let indexes: Vec<_> = trial.indexes.iter().collect();
        let (id, roots) = self.make_trees(&indexes).await?;
        let table = Arc::new(Table::new(id, def, &roots, TableStats::default())?);
        Ok(NewTable {
            engine: self.clone(),
            fill: Fill::new(self, &table, cancel),
            table,
            roots,
        })
    }
}

impl NewTable {
    /// The table, still without rows.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Adds a row given as values of the table's columns.
    ///
    /// # Errors
    /// [`EngineError::Row`] if it cannot be stored.
    pub async fn push(&mut self, row: &[Datum]) -> Result<(), EngineError> {
        self.fill.push(row)?;
        self.fill.settle().await
    }

    /// Makes the table; returns how many rows it has.
    ///
    /// # Errors
    /// [`EngineError::TableExists`], [`EngineError::NoSuchSchema`], [`EngineError::DuplicateKey`],
    /// [`EngineError::Cancelled`].
    pub async fn finish(self) -> Result<u64, EngineError> {
        let stats = self.fill.finish().await?;
        let rows = stats.rows;
        let table = &self.table;
        let table = table.successor(table.id, table.def.clone(), &self.roots, stats)?;
        if table.def.is_temporary() {
            return self.engine.publish_temporary(table).map(|_| rows);
        }
        let turn = self.engine.turn().await?;
        self.engine.check_free(&TableName::of(&table))?;
        let mut change = Change::default();
        change.put(table);
        change.moves_trees();
        self.engine.make_change(turn, Vec::new(), change).await?;
        Ok(rows)
    }
}
