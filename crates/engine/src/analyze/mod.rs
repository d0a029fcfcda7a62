//! Statistics of tables, gathered from what is in their trees: by ANALYZE TABLE, and in the
//! background when many rows have changed.
//!
//! A table of up to [`WHOLE_PAGES`] leaf pages is read as a whole. Of a larger one
//! [`SAMPLE_PAGES`] leaves are read, one from each of as many equal parts of the tree: that is
//! the same work however large the table is. What is counted are the newest versions, committed or
//! not, as InnoDB does; nobody is kept from changing the table meanwhile.
//!
//! Invariant: statistics are stored only if the table is still the catalog's.

mod distinct;
mod gather;
mod keeper;

use std::sync::Arc;

use crate::EngineError;
use crate::catalog::{Table, TableStats};
use crate::engine::Engine;
use crate::scan::CancelToken;

use gather::{Gather, Pace};
pub(crate) use keeper::{Keeper, keep_fresh};

/// Leaf pages of a table that is read as a whole: 64 MiB, some tenths of a second.
const WHOLE_PAGES: u64 = 4096;

/// Leaf pages that are read of a larger table. If all rows of a page were alike, the share of
/// the rows below a value would still be known to 1.1 % (one standard deviation, at most:
/// 1 / (2 √n)), which is less than a bucket of a histogram.
const SAMPLE_PAGES: usize = 2048;

/// What ANALYZE TABLE does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Analysis {
    /// Gathers everything.
    All,
    /// Gathers statistics of some columns, with histograms of so many buckets.
    Histograms {
        /// Numbers of the columns.
        columns: Vec<u16>,
        /// Most buckets.
        buckets: usize,
    },
    /// Forgets the histograms of some columns.
    NoHistograms(Vec<u16>),
}

impl Engine {
    /// Gathers statistics of a table and stores them.
    ///
    /// # Errors
    /// [`EngineError::TableChanged`] if its definition was changed meanwhile,
    /// [`EngineError::Cancelled`], or what storage says.
    pub async fn analyze_table(
        self: &Arc<Self>,
        table: &Arc<Table>,
        what: &Analysis,
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        let changed = table.changed_rows();
        let (stats, changed) = match what {
            Analysis::All => (self.gather(table, None, cancel).await?, changed),
            Analysis::Histograms { columns, buckets } => {
                let new = self.gather(table, Some(*buckets), cancel).await?;
                (with_columns(&table.stats(), new, columns), 0)
            }
            Analysis::NoHistograms(columns) => {
                let mut stats = (*table.stats()).clone();
                for column in columns {
                    if let Some(column) = stats.columns.get_mut(usize::from(*column)) {
                        column.histogram = None;
                    }
                }
                (stats, 0)
            }
        };
        if !self.keep_stats(table, stats, changed).await? {
            return Err(EngineError::TableChanged(table.def.name.clone()));
        }
        self.keeper.count_statement();
        Ok(())
    }

    async fn gather(
        &self,
        table: &Arc<Table>,
        buckets: Option<usize>,
        cancel: &CancelToken,
    ) -> Result<TableStats, EngineError> {
        let gather = Gather::new(self, table, Pace::Full, cancel);
        self.keeper.in_turn(gather.run(buckets)).await
    }

    /// Stores statistics of a table, if it is still the catalog's; they are durable when this
    /// returns, unless the table is a temporary one. They were gathered when so many rows had
    /// changed since the last time.
    ///
    /// # Errors
    /// What storage says.
    pub(crate) async fn keep_stats(
        self: &Arc<Self>,
        table: &Arc<Table>,
        stats: TableStats,
        changed: u64,
    ) -> Result<bool, EngineError> {
        if table.def.is_temporary() {
            let is_current = self.catalog.is_current(table);
            if is_current {
                table.renew_stats(stats, changed);
            }
            return Ok(is_current);
        }
        let (engine, table) = (self.clone(), table.clone());
        // A change of the catalog is completed even if the caller goes away.
        let keeping = self.runtime.spawn(async move {
            let _turn = engine.catalog.ddl.clone().lock_owned().await;
            if !engine.catalog.is_current(&table) {
                return Ok(false);
            }
            let lsn = engine.catalog.store_stats(&table, &stats).await?;
            engine.sal.wait_durable(lsn).await?;
            table.renew_stats(stats, changed);
            Ok(true)
        });
        self.outcome_in_time(keeping, "the change of statistics")
            .await
    }

    /// Switches whether statistics are gathered anew, in the background, when many rows have
    /// changed.
    pub fn keep_statistics_fresh(&self, on: bool) {
        self.keeper.switch(on);
    }

    /// How often statistics of a table were gathered since the engine was opened: by statements,
    /// and in the background.
    #[must_use]
    pub fn analyses(&self) -> (u64, u64) {
        self.keeper.counts()
    }
}

/// The statistics with some columns' from another time.
fn with_columns(old: &TableStats, new: TableStats, columns: &[u16]) -> TableStats {
    if old.columns.len() != new.columns.len() {
        return new;
    }
    let mut stats = old.clone();
    for column in columns.iter().map(|column| usize::from(*column)) {
        if let Some(known) = stats.columns.get_mut(column) {
            known.clone_from(&new.columns[column]);
        }
    }
    stats
}
