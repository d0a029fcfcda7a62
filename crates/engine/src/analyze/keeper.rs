//! [`Keeper`]: who gathers statistics takes turns; and the task that gathers those of tables many
//! of whose rows have changed.
//!
//! The task fails nobody's statement: an error is logged, and the table is looked at again later. It
//! holds the engine only while it chooses a table and while it stores what it found.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use super::gather::{Gather, Pace};
use crate::EngineError;
use crate::catalog::Table;
use crate::engine::Engine;
use crate::scan::CancelToken;

/// How often tables are looked at without anybody having said that one is stale: those that could
/// not be read the last time.
const LOOK: Duration = Duration::from_secs(60);

/// Who gathers statistics.
pub(crate) struct Keeper {
    stale: Notify,
    on: AtomicBool,
    stopping: CancelToken,
    /// Held while statistics are gathered: of one table at a time.
    turn: Mutex<()>,
    by_statements: AtomicU64,
    in_background: AtomicU64,
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            stale: Notify::new(),
            on: AtomicBool::new(true),
            stopping: CancelToken::new(),
            turn: Mutex::default(),
            by_statements: AtomicU64::new(0),
            in_background: AtomicU64::new(0),
        }
    }
}

impl Keeper {
    /// Says that a table's statistics became stale.
    pub(crate) fn wake(&self) {
        self.stale.notify_one();
    }

    /// Ends what is being gathered; nothing is from now on.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.wake();
        drop(self.turn.lock().await);
    }

    pub(super) fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        if on {
            self.wake();
        }
    }

    pub(super) fn stopping(&self) -> &CancelToken {
        &self.stopping
    }

    /// Gathers when nobody else does.
    pub(super) async fn in_turn<T>(&self, gathering: impl Future<Output = T>) -> T {
        let _turn = self.turn.lock().await;
        gathering.await
    }

    pub(super) fn count_statement(&self) {
        self.by_statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.by_statements), read(&self.in_background))
    }

    fn may_work(&self) -> bool {
        self.on.load(Ordering::Relaxed) && !self.stopping.is_cancelled()
    }
}

/// Gathers statistics of stale tables as long as the engine lives.
pub(crate) async fn keep_fresh(engine: Weak<Engine>, keeper: Arc<Keeper>, interval: Duration) {
    while !keeper.stopping.is_cancelled() {
        // Without a notice in time, tables are looked at nevertheless.
        let _ = tokio::time::timeout(LOOK, keeper.stale.notified()).await;
        tokio::time::sleep(interval).await;
        let stale = match engine.upgrade() {
            Some(engine) if keeper.may_work() => stale_tables(&engine),
            Some(_) => continue,
            None => return,
        };
        for table in stale {
            if let Err(error) = renew(&engine, &keeper, &table).await
                && !matches!(error, EngineError::Cancelled)
            {
                let table = &table.def.name;
                tracing::warn!("statistics of {table} are not gathered, later they are: {error}");
            }
        }
    }
}

fn stale_tables(engine: &Engine) -> Vec<Arc<Table>> {
    let schemas = engine.schemas();
    let tables = schemas.iter().flat_map(|schema| engine.tables(schema));
    let tables = tables.chain(engine.catalog.temporary.all());
    tables.filter(|table| table.is_stale()).collect()
}

/// Gathers the statistics of a table that is still there.
async fn renew(
    engine: &Weak<Engine>,
    keeper: &Keeper,
    table: &Arc<Table>,
) -> Result<(), EngineError> {
    let gather = match engine.upgrade() {
        Some(engine) if keeper.may_work() && engine.catalog.is_current(table) => {
            Gather::new(&engine, table, Pace::Background, &keeper.stopping)
        }
        _ => return Ok(()),
    };
    let changed = table.changed_rows();
    let stats = keeper.in_turn(gather.run(None)).await?;
    let Some(engine) = engine.upgrade() else {
        return Ok(());
    };
    if keeper.may_work() && engine.keep_stats(table, stats, changed).await? {
        keeper.in_background.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
