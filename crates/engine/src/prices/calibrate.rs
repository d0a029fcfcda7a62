//! Measures the way to the Page Stores when the engine is opened, before a plan needs to know (nKV's parameters of a
//! device, taken from the running system). Work is measured by the first scans.

use std::sync::Weak;
use std::time::Duration;

use crate::EngineError;
use crate::btree::KeySpan;
use crate::catalog::Table;
use crate::engine::Engine;

/// It takes no longer.
const TIME: Duration = Duration::from_millis(800);

/// Tables whose pages are read: the largest ones, which lie on all stores.
const TABLES: usize = 4;

/// Pages of each of them that are read at once,
const MANY: usize = 128;

/// and how often one is read by itself.
const TIMES: usize = 4;

/// Reads some pages of the largest tables, past the buffer pool. Storage that does not answer is measured later, by
/// what is read then.
pub(crate) async fn calibrate(engine: Weak<Engine>) {
    let Some(engine) = engine.upgrade() else {
        return;
    };
    let tables = engine.schemas();
    let tables = tables.iter().flat_map(|schema| engine.tables(schema));
    let size = |table: &std::sync::Arc<Table>| table.stats().leaf_pages.first().copied();
    let mut tables: Vec<_> = tables.filter(|table| size(table) > Some(0)).collect();
    tables.sort_by_key(|table| std::cmp::Reverse(size(table)));
    let read = async {
        for table in tables.iter().take(TABLES) {
            engine.read_some(table).await?;
        }
        Ok::<_, EngineError>(())
    };
    match tokio::time::timeout(TIME, read).await {
        Ok(Ok(())) => {
            let cost = engine.sal().link_cost();
            tracing::debug!(?cost, "reads from storage are measured");
        }
        Ok(Err(error)) => tracing::debug!("reads from storage are not measured: {error}"),
        Err(_) => tracing::debug!("reads from storage are slow"),
    }
}

impl Engine {
    async fn read_some(&self, table: &Table) -> Result<(), EngineError> {
        let tree = self.tree(table.clustered());
        let pin = || {
            let pin = self.registry.pin(|| self.sal.last_lsn());
            (pin.lsn(), pin)
        };
        let chosen = tree.leaves_of(&KeySpan::all(), MANY, pin).await?;
        let pages: Vec<_> = chosen.leaves.iter().map(|(page, _)| *page).collect();
        self.sal.read_pages(&pages, chosen.lsn).await?;
        for _ in 0..TIMES {
            self.sal.read_pages(&pages[..1], chosen.lsn).await?;
        }
        Ok(())
    }
}
