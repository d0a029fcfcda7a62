//! [`Engine`]: the façade of everything below SQL.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use perigee_crash::{Point, reach};
use perigee_ndp::FILTER_VERSION;
use perigee_page::{PageKind, PageRef, RecordShape};
use perigee_redo::Op;
use perigee_sal::Sal;
use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, TrxId};
use perigee_value::Collation;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::EngineError;
use crate::analyze::{Keeper, keep_fresh};
use crate::btree::{Tree, TreeSpec, TreeStats};
use crate::buffer::{Access, BufferPool, Frame};
use crate::catalog::{CATALOG_ROOT, Catalog, Index, Table, catalog_shape};
use crate::crash::vital;
use crate::errand::freeing_space;
use crate::mtr::Mtr;
use crate::prices::{Learned, Prices, Rents, calibrate};
use crate::scan::{KeyBatches, ScanCounters, ScanHandle, ScanRequest};
use crate::space::{free_orphans, reclaim_forever};
use crate::txn::system::{self, Counter, SYSTEM_PAGE, Slot};
use crate::txn::{
    DefinitionLock, Leftover, ReadView, Registry, Segments, TransactionFigures, find_history,
    purge_forever, roll_back_in_time, roll_back_unfinished, separate_loads, visible_version,
};

/// Index id that pages outside of trees carry.
const NO_INDEX: IndexId = IndexId(0);

/// How often Page Stores are told which page versions nobody needs.
const RECYCLE_INTERVAL: Duration = Duration::from_millis(50);

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Buffer pool, in bytes.
    pub buffer_pool: usize,
    /// Leaf pages of a batch read, if the scan does not say.
    pub look_ahead: usize,
    /// Memory of a load for sorting, in bytes; more is spilled to temporary files.
    pub sort_memory: usize,
    /// Directory of temporary files; the system's if `None`.
    pub temp_dir: Option<PathBuf>,
    /// A history of this many transactions that a view keeps from being purged is worth a warning.
    pub long_history: usize,
    /// How long changes of a table may go on before its statistics are gathered anew, so that a
    /// burst of them is waited for; no table's are more often than that.
    pub statistics_interval: Duration,
    /// How long a commit waits for its log to be durable. It goes on without the client then.
    pub commit_timeout: Duration,
    /// Say what accesses cost as it is measured on this system. Otherwise it is what they cost by reference, and plans
    /// are the same ones on every system.
    pub measure_costs: bool,
    /// Interpret expressions instead of compiling them.
    pub interpret: bool,
    /// Send watermark 0 with every scan, so that storage decides on no record; for tests.
    pub all_ambiguous: bool,
    /// Have storage reduce pages that are in the buffer pool, too; for tests.
    pub past_pool: bool,
    /// Split a leaf of each batch read of an NDP scan after its pages and its LSN were chosen and
    /// before it is sent; for tests.
    pub split_behind_scans: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            buffer_pool: 256 << 20,
            look_ahead: 1000,
            sort_memory: 256 << 20,
            temp_dir: None,
            long_history: 100_000,
            statistics_interval: Duration::from_secs(10),
            commit_timeout: Duration::from_secs(30),
            measure_costs: false,
            interpret: false,
            all_ambiguous: false,
            past_pool: false,
            split_behind_scans: false,
        }
    }
}

/// The engine of a frontend.
pub struct Engine {
    pub(crate) sal: Arc<Sal>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) segments: Segments,
    pub(crate) catalog: Catalog,
    pub(crate) config: EngineConfig,
    pub(crate) counters: ScanCounters,
    /// What scans taught about costs.
    pub(crate) learned: Learned,
    /// What scans paid for indexes that are not in the buffer pool.
    rents: Rents,
    pub(crate) keeper: Arc<Keeper>,
    /// The system page stays in the pool.
    pub(crate) system: Arc<Frame>,
    next_row: AtomicU64,
    /// Held by who keeps all definitions as they are, and shared by those who change some.
    pub(crate) definitions: Arc<DefinitionLock>,
    /// How often tables were closed to readers.
    pub(crate) closings: AtomicU64,
    /// Runs what goes on when nobody waits for it any more.
    pub(crate) runtime: Handle,
    /// What runs beside the statements and ends with the engine.
    background: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.background.lock().iter().for_each(JoinHandle::abort);
    }
}

/// Rows of a table of fewer leaves are not picked out of them: all of it is soon in the buffer pool.
const LEAST_PICKED: u64 = 100;

fn leaf_pages_of_rows(table: &Table) -> u64 {
    table.stats().leaf_pages.first().copied().unwrap_or(0)
}

impl Engine {
    /// Opens the database that `sal` has opened: makes its system pages if it is new, otherwise
    /// reads the catalog and rolls back what a crash left unfinished.
    ///
    /// # Errors
    /// If storage fails, or what it has is damaged or of another version.
    pub async fn open(sal: Arc<Sal>, config: EngineConfig) -> Result<Arc<Self>, EngineError> {
        let pool = BufferPool::open(sal.clone(), config.buffer_pool).await?;
        // The first log groups make the superblock, the space map and the system pages.
        if !pool.allocator().has_made(SYSTEM_PAGE) {
            let lsn = make_system_pages(&pool);
            sal.wait_durable(lsn).await?;
            reach(Point::SystemPagesMade);
        }
        let system = pool.fetch(SYSTEM_PAGE, Access::Point).await?;
        let (next, next_row, unfinished) = system.read(|page| {
            let unfinished: Vec<_> = (0..system::SLOTS)
                .map(|slot| (slot, system::slot(page, slot)))
                .filter(|(_, slot)| slot.trx != TrxId(0))
                .collect();
            let next = TrxId(system::counter(page, Counter::Trx).max(1));
            (next, system::counter(page, Counter::Row), unfinished)
        });
        let registry = Registry::new(next, unfinished.iter().map(|(_, slot)| slot.trx));
        let recycler = tokio::spawn(vital("recycle", recycle(sal.clone(), registry.clone())));
        let catalog = Catalog::open(&pool).await?;
        reach(Point::CatalogRead);
        let engine = Arc::new(Self {
            segments: Segments::new(unfinished.iter().map(|(slot, _)| *slot)),
            sal,
            pool,
            registry,
            catalog,
            config,
            counters: ScanCounters::default(),
            learned: Learned::default(),
            rents: Rents::default(),
            keeper: Arc::default(),
            system,
            next_row: AtomicU64::new(next_row),
            definitions: Arc::default(),
            closings: AtomicU64::new(0),
            runtime: Handle::current(),
            background: Mutex::new(vec![recycler]),
        });
        free_orphans(&engine);
        let leftovers = find_history(&engine).await?;
        let (loads, others) = separate_loads(&engine, unfinished).await?;
        // Undoing a load empties the table's trees: nobody may write to them meanwhile.
        roll_back_unfinished(&Arc::downgrade(&engine), &loads).await?;
        engine.start_background(others, leftovers);
        reach(Point::EngineOpened);
        Ok(engine)
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> DbId {
        self.sal.db()
    }

    /// The storage layer.
    #[must_use]
    pub fn sal(&self) -> &Arc<Sal> {
        &self.sal
    }

    /// The buffer pool.
    #[must_use]
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// What all scans did since the engine was opened.
    #[must_use]
    pub fn scan_counters(&self) -> &ScanCounters {
        &self.counters
    }

    /// Settings.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// A view of what has committed.
    #[must_use]
    pub fn read_view(&self) -> Arc<ReadView> {
        self.view_for(0)
    }

    /// As [`Engine::read_view`], for a connection.
    #[must_use]
    pub fn view_for(&self, connection: u64) -> Arc<ReadView> {
        Arc::new(self.registry.view(None, connection))
    }

    /// Number of ended transactions whose undo is not purged: because it is needed by a view, or
    /// because purge has not come to it.
    #[must_use]
    pub fn history_length(&self) -> usize {
        self.registry.history().0
    }

    /// What became of transactions since the engine was opened, and which there are.
    #[must_use]
    pub fn transaction_figures(&self) -> TransactionFigures {
        self.registry.figures()
    }

    /// The row with a clustered key as a view sees it: its clustered record.
    ///
    /// # Errors
    /// What storage says.
    pub async fn row(
        &self,
        table: &Table,
        key: &[u8],
        view: &ReadView,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        table.check_view(view)?;
        match self.tree(table.clustered()).get(key).await? {
            Some(record) => visible_version(self, &record, view).await,
            None => Ok(None),
        }
    }

    /// Checks every tree of a table that nobody writes to meanwhile, and tells what is in them.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] naming the first page that is wrong.
    pub async fn verify_table(&self, table: &Table) -> Result<Vec<TreeStats>, EngineError> {
        let mut trees = Vec::new();
        for index in &table.indexes {
            trees.push(self.tree(index).verify().await?);
        }
        Ok(trees)
    }

    /// A scan, to be run in any number of partitions.
    ///
    /// # Errors
    /// If the request is not one that can be run.
    pub fn scan(self: &Arc<Self>, request: ScanRequest) -> Result<ScanHandle, EngineError> {
        ScanHandle::new(self.clone(), request)
    }

    /// True unless a Page Store has said that it does not know run-time filters as they are made here.
    #[must_use]
    pub fn storage_knows_filters(&self) -> bool {
        let known = self.sal.capabilities();
        known.is_none_or(|known| known.filter >= FILTER_VERSION.into())
    }

    /// True unless a Page Store has said that it does not know sorted groups and sums of doubles.
    #[must_use]
    pub fn storage_knows_sorting(&self) -> bool {
        let known = self.sal.capabilities();
        known.is_none_or(|known| known.descriptor >= 2)
    }

    /// True if all Page Stores have said that they know joins with tables: one that does not would leave all the work
    /// to the frontend.
    #[must_use]
    pub fn storage_knows_joins(&self) -> bool {
        let known = self.sal.capabilities();
        known.is_none_or(|known| known.descriptor >= 3 && known.filter > 0)
    }

    /// Leaf pages of a batch read, unless a scan asks for another number.
    #[must_use]
    pub fn look_ahead(&self) -> usize {
        self.config.look_ahead
    }

    /// What accesses cost, as far as it is known now.
    #[must_use]
    pub fn prices(&self) -> Prices {
        match self.config.measure_costs {
            true => self.learned.prices(self.sal.link_cost()),
            false => Prices::REFERENCE,
        }
    }

    /// True if storage is to be asked for rows of a table that are looked up by key, instead of for their pages.
    #[must_use]
    pub fn picks_rows(&self, table: &Table, when: KeyBatches) -> bool {
        let pages = leaf_pages_of_rows(table);
        match when {
            KeyBatches::Never => false,
            KeyBatches::WhereItPays if self.may_keep(pages) => {
                pages >= LEAST_PICKED && self.rent_paid(table.clustered()) < self.cost_of(pages)
            }
            KeyBatches::WhereItPays | KeyBatches::Always => true,
        }
    }

    /// Storage goes through so many leaves for rows of a table: what bringing them into the buffer pool would have cost.
    pub(crate) fn pay_for_rows(&self, table: &Table, leaves: u64) {
        if self.may_keep(leaf_pages_of_rows(table)) {
            self.pay_rent(table.clustered(), Some(self.cost_of(leaves)));
        }
    }

    /// True if the buffer pool has room for so many pages.
    fn may_keep(&self, pages: u64) -> bool {
        pages <= self.pool.capacity() as u64
    }

    /// What bringing in so many pages costs, in microseconds.
    fn cost_of(&self, pages: u64) -> f64 {
        let Prices { whole, byte, .. } = self.prices();
        pages as f64 * (whole.page + PAGE_SIZE as f64 * byte)
    }

    /// What scans that storage reduced paid in the last minutes, in microseconds, because an index was not in the
    /// buffer pool.
    #[must_use]
    pub fn rent_paid(&self, index: &Index) -> f64 {
        self.rents.paid(index.id)
    }

    /// A scan of an index begins that pays a rent; `None` if it brings the index into the buffer pool.
    pub fn pay_rent(&self, index: &Index, rent: Option<f64>) {
        match rent {
            Some(rent) => self.rents.pay(index.id, rent),
            None => self.rents.settle(index.id),
        }
    }

    /// Scans that costs were learned from.
    #[must_use]
    pub fn scans_learned_from(&self) -> u64 {
        self.learned.scans()
    }

    /// Pages of an index that are in the buffer pool.
    #[must_use]
    pub fn resident_pages(&self, index: &Index) -> u64 {
        self.pool.resident(index.id) as u64
    }

    /// Names of all schemas.
    #[must_use]
    pub fn schemas(&self) -> Vec<String> {
        self.catalog.schemas()
    }

    /// The collation of a schema's tables to come.
    #[must_use]
    pub fn schema_collation(&self, schema: &str) -> Collation {
        self.catalog.collation(schema)
    }

    /// All tables of a schema, by name.
    #[must_use]
    pub fn tables(&self, schema: &str) -> Vec<Arc<Table>> {
        self.catalog.tables(schema)
    }

    /// A table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`] and [`EngineError::NoSuchTable`].
    pub fn table(&self, schema: &str, name: &str) -> Result<Arc<Table>, EngineError> {
        self.catalog.table(schema, name)
    }

    /// Writes everything and ends; nothing can be done afterwards.
    ///
    /// # Errors
    /// If storage fails; what was acknowledged is safe nevertheless.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        self.keeper.stop().await;
        self.keep_numbers().await?;
        reach(Point::NumbersKept);
        Ok(self.sal.shutdown().await?)
    }

    /// The first of `count` hidden row ids for rows of a table; 0 if it needs none.
    #[must_use]
    pub fn row_ids(&self, table: &Table, count: u64) -> u64 {
        if !table.has_hidden_row_id() {
            return 0;
        }
        let first = self.next_row.fetch_add(count, Ordering::Relaxed);
        self.reserve(Counter::Row, first + count);
        first
    }

    /// The number of a chain of overflow pages: of the row ids, which no two things have.
    pub(crate) fn chain_number(&self) -> u64 {
        let number = self.next_row.fetch_add(1, Ordering::Relaxed);
        self.reserve(Counter::Row, number + 1);
        number
    }

    /// Rolls back what a crash left, purges, and keeps statistics fresh.
    fn start_background(
        self: &Arc<Self>,
        unfinished: Vec<(usize, Slot)>,
        leftovers: Vec<Leftover>,
    ) {
        let purge = purge_forever(Arc::downgrade(self), self.registry.clone(), leftovers);
        let roll_back = roll_back_in_time(Arc::downgrade(self), unfinished);
        let mut background = self.background.lock();
        background.push(tokio::spawn(vital("purge", purge)));
        let retired = self.pool.allocator().retired().clone();
        let reclaim = freeing_space(reclaim_forever(Arc::downgrade(self), retired));
        background.push(tokio::spawn(vital("reclaim", reclaim)));
        background.push(tokio::spawn(vital("rollback", roll_back)));
        let keeper = self.keeper.clone();
        let interval = self.config.statistics_interval;
        let keep = keep_fresh(Arc::downgrade(self), keeper, interval);
        background.push(tokio::spawn(keep));
        if self.config.measure_costs {
            background.push(tokio::spawn(calibrate(Arc::downgrade(self))));
        }
    }

    /// The tree of an index.
    pub(crate) fn tree(&self, index: &Index) -> Tree {
        Tree::open(&self.pool, tree_spec(index))
    }
}

/// The tree of an index in the tree's own terms.
pub(crate) fn tree_spec(index: &Index) -> TreeSpec {
    let shape = index.layout.shape;
    let kind = if shape.is_clustered() {
        PageKind::Clustered
    } else {
        PageKind::Secondary
    };
    TreeSpec {
        index: index.id,
        root: index.root,
        kind,
        shape,
    }
}

fn make_system_pages(pool: &BufferPool) -> Lsn {
    let db = pool.sal().db();
    let none = PageId(0);
    let format = |kind, index, shape| Op::Format {
        kind,
        level: 0,
        db,
        index,
        shape,
        prev: none,
        next: none,
    };
    let mut mtr = Mtr::new(pool);
    let system = mtr.create(SYSTEM_PAGE, NO_INDEX);
    mtr.apply(
        system,
        format(PageKind::Meta, NO_INDEX, RecordShape::default()),
    );
    for counter in [Counter::Trx, Counter::Row, Counter::Table] {
        mtr.apply(system, system::set_counter(counter, 1));
    }
    mtr.apply(
        system,
        system::set_counter(Counter::Index, u64::from(CATALOG_ROOT.index.0) + 1),
    );
    mtr.note_used(&[SYSTEM_PAGE, CATALOG_ROOT.root]);
    let catalog = mtr.create(CATALOG_ROOT.root, CATALOG_ROOT.index);
    mtr.apply(
        catalog,
        format(PageKind::Secondary, CATALOG_ROOT.index, catalog_shape()),
    );
    mtr.commit()
}

/// Tells Page Stores from time to time which page versions nobody needs any more.
async fn recycle(sal: Arc<Sal>, registry: Arc<Registry>) {
    loop {
        tokio::time::sleep(RECYCLE_INTERVAL).await;
        sal.set_recycle_lsn(registry.oldest_pin(|| sal.cv_lsn()));
    }
}

/// Reads a number from the system page.
pub(crate) fn system_counter(page: PageRef<'_>, counter: Counter) -> u64 {
    system::counter(page, counter)
}
