//! Freeing the extents of trees that nobody needs any more, in the background.
//!
//! What is to be freed is written down nowhere but where it is anyway: extents whose index is not in
//! the catalog belong to nobody, those of temporary tables among them once their process has ended.
//! A start frees all of them, so that a crash at any moment leaves nothing behind: in the middle of a
//! change of definition, of a build, or of freeing itself. While the engine runs, a tree is freed when
//! nobody can come by its pages any more:
//!
//! - nobody can open it: each [`crate::catalog::Table`] that has the index, be it in the catalog, in use
//!   by a statement or under construction, has a [`TreeKeep`]; the last one that goes says so;
//! - nobody has it open: a [`crate::btree::Tree`] that was opened counts until it is dropped, and
//!   scans, cursors and builds have one.
//!
//! What is done asynchronously for a tree and outlives those, a flight of the buffer pool or a read
//! of a Page Store, has no effect on who uses the pages later (`buffer/pool.rs`).

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use perigee_types::IndexId;
use tokio::sync::Notify;

use super::map::ABANDONED;
use crate::EngineError;
use crate::btree::CATALOG_INDEX;
use crate::buffer::BufferPool;
use crate::engine::Engine;
use crate::mtr::Mtr;

/// Extents that are freed by one mini-transaction: at most 1,024 pages, some 20 KB of log.
const EXTENTS_AT_ONCE: usize = 16;

/// How often it is looked whether a tree is still open.
const LOOK: Duration = Duration::from_millis(20);

/// How long freeing rests after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// As long as there is one of these for an index, its tree stays.
#[derive(Debug)]
pub(crate) struct TreeKeep {
    index: IndexId,
    retired: Arc<Retired>,
}

impl TreeKeep {
    pub(crate) fn new(index: IndexId, retired: &Arc<Retired>) -> Arc<Self> {
        Arc::new(Self {
            index,
            retired: retired.clone(),
        })
    }
}

impl PartialEq for TreeKeep {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Eq for TreeKeep {}

impl Drop for TreeKeep {
    fn drop(&mut self) {
        self.retired.push(Job::Tree(self.index));
    }
}

/// What is to be freed.
#[derive(Debug)]
enum Job {
    /// A tree that nobody can open any more.
    Tree(IndexId),
    /// A tree that some may have open.
    Closing(IndexId, Arc<()>),
    /// Extents that nobody leads to any more, but those who had the tree open then.
    Extents(Vec<u64>, Arc<()>),
}

impl Job {
    /// True if nobody who may read the pages is left.
    fn is_due(&self) -> bool {
        match self {
            Self::Tree(_) => false,
            Self::Closing(_, users) | Self::Extents(_, users) => Arc::strong_count(users) == 1,
        }
    }
}

/// What waits for being freed.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    jobs: Mutex<Vec<Job>>,
    wake: Notify,
}

impl Retired {
    fn push(&self, job: Job) {
        self.jobs.lock().push(job);
        self.wake.notify_one();
    }

    /// Has extents that were given away freed once those who have the tree open now have closed it.
    pub(crate) fn abandon(&self, extents: Vec<u64>, users: Arc<()>) {
        if !extents.is_empty() {
            self.push(Job::Extents(extents, users));
        }
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.lock().is_empty()
    }
}

/// At a start: has everything freed that belongs to no index of the catalog.
pub(crate) fn free_orphans(engine: &Engine) {
    let known = known_indexes(engine);
    let allocator = engine.pool.allocator();
    for index in allocator.indexes() {
        if index == ABANDONED {
            let extents = allocator.extents_of(index, usize::MAX);
            allocator.retired().abandon(extents, Arc::default());
        } else if !known.contains(&index) {
            tracing::info!("{index} is in no table, its pages are freed");
            allocator.retired().push(Job::Tree(index));
        }
    }
}

/// All indexes whose trees must stay. Undo has index 0.
fn known_indexes(engine: &Engine) -> HashSet<IndexId> {
    let mut known = HashSet::from([IndexId(0), CATALOG_INDEX]);
    let schemas = engine.schemas();
    let tables = schemas.iter().flat_map(|schema| engine.tables(schema));
    for table in tables.chain(engine.catalog.temporary.all()) {
        known.extend(table.indexes.iter().map(|index| index.id));
    }
    known
}

/// Frees what is retired as long as the engine lives.
pub(crate) async fn reclaim_forever(engine: Weak<Engine>, retired: Arc<Retired>) {
    loop {
        retired.wake.notified().await;
        while !retired.jobs.lock().is_empty() {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            if let Err(error) = reclaim(&engine, &retired).await {
                if engine.sal.check().is_err() {
                    return;
                }
                tracing::warn!("pages of dropped trees cannot be freed yet: {error}");
                tokio::time::sleep(PAUSE).await;
            }
            drop(engine);
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Frees what is due. A job that fails stays.
async fn reclaim(engine: &Engine, retired: &Retired) -> Result<(), EngineError> {
    let known = known_indexes(engine);
    let mut due = Vec::new();
    {
        let mut jobs = retired.jobs.lock();
        for job in std::mem::take(&mut *jobs) {
            let job = match job {
                Job::Tree(index) if known.contains(&index) => {
                    // The table's successor has it, with a keep of its own.
                    tracing::error!("{index} is retired and in the catalog; it stays");
                    continue;
                }
                Job::Tree(index) => Job::Closing(index, engine.pool.renew_users(index)),
                other => other,
            };
            if job.is_due() { &mut due } else { &mut *jobs }.push(job);
        }
    }
    while let Some(job) = due.pop() {
        let freed = match &job {
            Job::Tree(_) => Ok(()),
            Job::Closing(index, _) => free_tree(&engine.pool, *index).await,
            Job::Extents(extents, _) => free_abandoned(&engine.pool, extents).await,
        };
        if freed.is_err() {
            retired.jobs.lock().push(job);
            retired.jobs.lock().append(&mut due);
            return freed;
        }
    }
    Ok(())
}

/// Frees all extents of an index.
async fn free_tree(pool: &BufferPool, index: IndexId) -> Result<(), EngineError> {
    loop {
        let extents = pool.allocator().extents_of(index, EXTENTS_AT_ONCE);
        if extents.is_empty() {
            break;
        }
        pool.admit().await?;
        let mut mtr = Mtr::new(pool);
        extents.into_iter().for_each(|e| mtr.free_extent(e));
        let _ = mtr.commit();
    }
    pool.forget_tree(index);
    Ok(())
}

/// Frees extents that were given away. Some may be free, if an earlier attempt failed halfway.
async fn free_abandoned(pool: &BufferPool, extents: &[u64]) -> Result<(), EngineError> {
    for extents in extents.chunks(EXTENTS_AT_ONCE) {
        pool.admit().await?;
        let mut mtr = Mtr::new(pool);
        let mut freed = false;
        for extent in extents {
            let owner = mtr.entry(*extent).owner;
            if owner.is_some_and(|(index, _)| index == ABANDONED) {
                mtr.free_extent(*extent);
                freed = true;
            }
        }
        if freed {
            let _ = mtr.commit();
        }
    }
    Ok(())
}

impl Engine {
    /// True if there are trees that nobody needs any more and whose pages are not freed yet.
    #[must_use]
    pub fn is_reclaiming(&self) -> bool {
        !self.pool.allocator().retired().is_empty()
    }
}
