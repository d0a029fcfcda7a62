//! What accesses cost, as far as statistics tell (SPEC's F5); `docs/access-paths.md` explains the
//! formulae.
//!
//! The unit is a microsecond of a query's time. What pages, records, rows and bytes cost is measured
//! ([`Prices`]); what only lookups and sorts do has fixed costs, those of a small machine.

use perigee_engine::catalog::{Index, Table, TableStats};
use perigee_engine::scan::KeyBatches;
use perigee_engine::{Engine, Prices};
use perigee_types::PAGE_SIZE;

use super::NdpSettings;
use super::index_join::MAX_SLICE;
use super::paths::AccessPath;

/// A key looked up: encoded, sorted, found in its leaf.
const LOOKUP: f64 = 1.5;

/// A part of an index that a scan begins: a descent, and a leaf that is cut.
const PART: f64 = 6.0;

/// A record found by a lookup: copied and evaluated by itself.
const FOUND: f64 = 0.7;

/// Nodes of a condition of which nothing is known.
const NODES: f64 = 3.0;

/// Keys whose pages are read together.
const KEYS_PER_READ: f64 = 512.0;

/// Comparing a row with another one to sort it.
const COMPARE: f64 = 0.03;

/// What the cost of accesses to one table depends on.
pub struct CostModel<'a> {
    engine: &'a Engine,
    table: &'a Table,
    stats: &'a TableStats,
    settings: &'a NdpSettings,
    prices: Prices,
}

/// A number of pages that are read: from the buffer pool, from storage.
pub(super) struct Reads {
    pub pool: f64,
    pub storage: f64,
}

impl<'a> CostModel<'a> {
    /// The model for a table as it is now.
    #[must_use]
    pub fn new(
        engine: &'a Engine,
        table: &'a Table,
        stats: &'a TableStats,
        settings: &'a NdpSettings,
    ) -> Self {
        Self {
            engine,
            table,
            stats,
            settings,
            prices: engine.prices(),
        }
    }

    /// What work costs.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Cost of an access by a path that delivers `delivered` rows.
    #[must_use]
    pub fn path(&self, path: &AccessPath, delivered: f64) -> f64 {
        let entries = self.rows() * path.share;
        self.part(path, entries) + delivered * self.prices.whole.row
    }

    /// Cost of an access by a path in its order until it has delivered `wanted` of `delivered`
    /// rows.
    #[must_use]
    pub fn path_until(&self, path: &AccessPath, wanted: f64, delivered: f64) -> f64 {
        let done = (wanted / delivered.max(1.0)).min(1.0);
        let entries = (self.rows() * path.share * done).max(1.0);
        self.part(path, entries) + wanted.min(delivered) * self.prices.whole.row
    }

    /// Cost of a byte of a row that storage returns.
    #[must_use]
    pub fn returned_byte(&self) -> f64 {
        let Prices {
            storage,
            reduced,
            byte,
            ..
        } = &self.prices;
        storage.byte + reduced.byte + byte
    }

    /// Cost of sorting rows, of which `wanted` are kept.
    #[must_use]
    pub fn sort(rows: f64, wanted: f64) -> f64 {
        rows.max(1.0) * COMPARE * (1.0 + wanted.min(rows).max(1.0).log2())
    }

    /// Cost of looking up `keys` keys in an index, each with `matches` rows.
    #[must_use]
    pub fn lookups(&self, index: usize, fetch: bool, keys: f64, matches: f64) -> f64 {
        let found = keys * matches;
        // Records of one key lie together, those of another one anywhere.
        let pages_per_key = (matches / self.records_per_page(index)).max(1.0);
        let reads = self.scattered(index, keys * pages_per_key);
        let read = match index == 0 && self.picks_rows() {
            true => self.picking(&reads, keys, found),
            false => self.reading(&reads, keys),
        };
        keys * LOOKUP + found * FOUND + read + if fetch { self.fetches(found) } else { 0.0 }
    }

    /// Cost of looking at so many pages to tell what a condition lets through: storage is asked twice.
    #[must_use]
    pub fn sample(&self, pages: f64) -> f64 {
        2.0 * (self.prices.wait + pages * self.reduced_page())
    }

    /// Cost of joining with rows delivered by a scan instead, beyond that scan: they are hashed.
    #[must_use]
    pub fn hashed(&self, rows: f64) -> f64 {
        rows * self.prices.whole.row
    }

    /// Leaf pages that an access by a path visits.
    #[must_use]
    pub fn pages(&self, path: &AccessPath) -> f64 {
        self.visited(path, self.rows() * path.share)
    }

    /// Leaf pages of so many entries of a path: each of its parts has one at least.
    fn visited(&self, path: &AccessPath, entries: f64) -> f64 {
        let dense = entries / self.records_per_page(path.index);
        let parts = path.spans.len() as f64;
        dense.max(touched(self.leaf_pages(path.index), parts))
    }

    /// Leaf pages of an index.
    #[must_use]
    pub fn leaf_pages(&self, index: usize) -> f64 {
        leaf_pages(self.stats, index)
    }

    /// Cost of going over so many entries from where a path begins.
    fn part(&self, path: &AccessPath, entries: f64) -> f64 {
        let parts = path.spans.len() as f64;
        let pages = match path.is_part() {
            true => self.visited(path, entries).max(1.0),
            false => (entries / self.records_per_page(path.index)).max(1.0),
        };
        let reads = self.reads(path.index, pages);
        let begun = (parts - 1.0).max(0.0) * PART;
        let whole = &self.prices.whole;
        let record = whole.record + NODES * whole.node;
        if path.fetch {
            return begun + self.reading(&reads, entries) + entries * FOUND + self.fetches(entries);
        }
        let in_frontend = begun + self.reading(&reads, parts) + entries * record;
        if self.settings.forbidden().is_some() {
            return in_frontend;
        }
        let share = entries * reads.storage / (reads.storage + reads.pool);
        let storage = &self.prices.storage;
        let in_storage = self.prices.wait
            + begun
            + reads.storage * self.reduced_page()
            + share * (storage.record + NODES * storage.node)
            + reads.pool * whole.pool_page
            + (entries - share) * record;
        if self.settings.decide_by_cost(self.engine) {
            return in_frontend.min(in_storage);
        }
        let least = self.settings.thresholds.min_pages() as f64;
        match reads.storage - at_ends(path) >= least.max(1.0) {
            true => in_storage,
            false => in_frontend,
        }
    }

    /// Cost of a page that storage reads to reduce it; what it looks at comes on top.
    fn reduced_page(&self) -> f64 {
        self.prices.storage.page + self.prices.reduced.page
    }

    /// Cost of reading pages for so many keys, a batch of keys at a time.
    fn reading(&self, reads: &Reads, keys: f64) -> f64 {
        let Prices {
            wait, byte, whole, ..
        } = &self.prices;
        let waits = (keys / KEYS_PER_READ).ceil().min(reads.storage);
        let stored = whole.page + PAGE_SIZE as f64 * byte;
        reads.pool * whole.pool_page + reads.storage * stored + waits * wait
    }

    /// Cost of fetching rows from the clustered index by their keys, which are in no order.
    fn fetches(&self, rows: f64) -> f64 {
        let reads = self.scattered(0, rows);
        let read = match self.picks_rows() {
            true => self.picking(&reads, rows, rows),
            false => self.reading(&reads, rows),
        };
        rows * (LOOKUP + FOUND) + read
    }

    /// True if storage picks rows out of pages of the clustered index that are not in the buffer pool, now and later: whether it
    /// does so for the next few only changes no plan.
    fn picks_rows(&self) -> bool {
        let pool = self.engine.pool().capacity() as f64;
        match self.settings.key_batches() {
            KeyBatches::Never => false,
            KeyBatches::WhereItPays => self.leaf_pages(0) > pool,
            KeyBatches::Always => true,
        }
    }

    /// Cost of having storage pick rows out of pages, a batch of keys at a time.
    fn picking(&self, reads: &Reads, keys: f64, rows: f64) -> f64 {
        let Prices {
            wait,
            storage,
            reduced,
            whole,
            ..
        } = &self.prices;
        let waits = (keys / KEYS_PER_READ).ceil().min(reads.storage);
        let records = self.records_per_page(0) * (storage.record + storage.node);
        let picked = rows * reads.storage / (reads.storage + reads.pool).max(1.0);
        reads.pool * whole.pool_page
            + reads.storage * (self.reduced_page() + records)
            + picked * reduced.row
            + waits * wait
    }

    /// The pages that so many reads at random places of an index need. Those of one request are
    /// sorted and need no page twice; whether the next one finds them again depends on whether the
    /// buffer pool can keep all of the index.
    fn scattered(&self, index: usize, reads: f64) -> Reads {
        let pages = self.leaf_pages(index);
        let kept = pages <= self.engine.pool().capacity() as f64;
        let together = if kept {
            reads
        } else {
            reads.min(MAX_SLICE as f64)
        };
        let needed = touched(pages, together) * (reads / together).max(1.0);
        self.reads(index, needed)
    }

    /// Where so many pages of an index come from.
    pub(super) fn reads(&self, index: usize, pages: f64) -> Reads {
        let resident = self.engine.resident_pages(&self.table.indexes[index]) as f64;
        let share = (resident / self.leaf_pages(index)).min(1.0);
        Reads {
            pool: pages * share,
            storage: pages * (1.0 - share),
        }
    }

    fn rows(&self) -> f64 {
        (self.stats.rows as f64).max(1.0)
    }

    fn records_per_page(&self, index: usize) -> f64 {
        (self.rows() / self.leaf_pages(index)).max(1.0)
    }
}

/// Pages at the ends of the parts of a path, but for two: storage gives these out whole, since they have
/// keys beside the parts.
#[must_use]
pub fn at_ends(path: &AccessPath) -> f64 {
    2.0 * (path.spans.len() as f64 - 1.0).max(0.0)
}

/// Leaf pages of an index.
#[must_use]
pub fn leaf_pages(stats: &TableStats, index: usize) -> f64 {
    let known = stats.leaf_pages.get(index).copied().unwrap_or_default();
    if known > 0 {
        return known as f64;
    }
    // Without a count: a page holds some hundred rows, and more entries.
    let records = if index == 0 { 100.0 } else { 400.0 };
    (stats.rows as f64 / records).max(1.0)
}

/// Rows that are expected to have one value of the first `columns` key columns of an index.
#[must_use]
pub fn rows_per_key(stats: &TableStats, index: &Index, columns: usize) -> f64 {
    if index.unique && columns >= index.key_columns {
        return 1.0;
    }
    let rows = (stats.rows as f64).max(1.0);
    let distinct = index.layout.key[..columns].iter().map(|position| {
        let column = usize::from(index.columns[usize::from(*position)]);
        // Without statistics: ten rows a value.
        let known = stats.columns.get(column).map(|c| c.distinct as f64);
        known.unwrap_or(rows / 10.0).max(1.0)
    });
    rows / distinct.product::<f64>().min(rows)
}

/// How many of so many pages are touched by reads at random places.
fn touched(pages: f64, reads: f64) -> f64 {
    let pages = pages.max(1.0);
    pages * (1.0 - (-reads / pages).exp())
}
