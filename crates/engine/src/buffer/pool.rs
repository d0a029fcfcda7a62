//! [`BufferPool`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use parking_lot::{Mutex, RwLock};
use perigee_page::PageRef;
use perigee_page_api::PageError;
use perigee_sal::{LATEST, SUPERBLOCK, Sal, SalError};
use perigee_types::{IndexId, Lsn, PAGE_SIZE, PageId};
use tokio::time::{Instant, timeout_at};

use super::flight::{Flight, FlightSeat};
use super::lent::Lent;
use super::shard::Shard;
use super::{Frame, Page, PageLoad};
use crate::mtr::Allocator;
use crate::{EngineError, errand};

/// Pages of one read request of the pool: an extent, so that it goes to one slice, and short enough
/// for others to wait for one of its pages.
const FLIGHT_PAGES: usize = 64;

/// Shards: more than there are cores, so that two threads rarely meet.
const MAX_SHARDS: usize = 16;

/// A shard has at least this many frames, so that chance does not fill one and leave another empty.
const MIN_SHARD_FRAMES: usize = 256;

/// How long a full pool is waited for.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a full pool is looked at.
const ROOM_LOOK: Duration = Duration::from_millis(20);

/// What a page is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A look-up, or an inner page: likely to be used again.
    Point,
    /// A scan: likely to be used once.
    Scan,
}

/// What the pool did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Pages found in the pool.
    pub hits: u64,
    /// Pages read from Page Stores.
    pub misses: u64,
    /// Pages in the pool now.
    pub resident: usize,
    /// Bytes lent to scans now.
    pub lent: usize,
}

/// The tree latch of an index, around the number of structure changes that were begun under it.
pub(crate) type TreeLatch = RwLock<u64>;

/// The buffer pool of a frontend.
pub struct BufferPool {
    sal: Arc<Sal>,
    shards: Box<[Mutex<Shard>]>,
    /// The flight of each page that is on its way, with its number. Locked before a shard, and by who
    /// holds page latches: nobody waits for one under it.
    flights: Mutex<HashMap<PageId, (u64, Flight)>>,
    next_flight: AtomicU64,
    capacity: usize,
    resident: AtomicUsize,
    lent: Lent,
    hits: AtomicU64,
    misses: AtomicU64,
    superblock: OnceLock<Arc<Frame>>,
    allocator: Allocator,
    trees: Mutex<HashMap<IndexId, OpenTree>>,
    this: Weak<Self>,
}

/// What all who have a tree open share.
#[derive(Clone, Default)]
struct OpenTree {
    latch: Arc<TreeLatch>,
    /// Each of them has one of these.
    users: Arc<()>,
}

impl BufferPool {
    /// A pool of `bytes` bytes of pages over the database that `sal` opened.
    ///
    /// # Errors
    /// If the superblock cannot be read.
    pub async fn open(sal: Arc<Sal>, bytes: usize) -> Result<Arc<Self>, EngineError> {
        let capacity = (bytes / PAGE_SIZE).max(8);
        let shards = (capacity / MIN_SHARD_FRAMES).clamp(1, MAX_SHARDS);
        let shard = || Shard::new(capacity.div_ceil(shards));
        let pool = Arc::new_cyclic(|this| Self {
            sal,
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            flights: Mutex::default(),
            next_flight: AtomicU64::new(0),
            capacity,
            resident: AtomicUsize::new(0),
            lent: Lent::of(capacity),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            superblock: OnceLock::new(),
            allocator: Allocator::default(),
            trees: Mutex::default(),
            this: this.clone(),
        });
        let superblock = pool.fetch(SUPERBLOCK, Access::Point).await?;
        pool.superblock.set(superblock).expect("set once");
        Allocator::open(&pool).await?;
        Ok(pool)
    }

    /// The storage layer below.
    #[must_use]
    pub fn sal(&self) -> &Arc<Sal> {
        &self.sal
    }

    /// The page if it is in the pool.
    #[must_use]
    pub fn get_resident(&self, page: PageId, access: Access) -> Option<Arc<Frame>> {
        let frame = self.shard(page).lock().frames.get(&page).cloned()?;
        self.note_hit(&frame, access);
        Some(frame)
    }

    /// The page, pinned; reads it if it is not in the pool.
    pub async fn fetch(&self, page: PageId, access: Access) -> Result<Arc<Frame>, EngineError> {
        loop {
            let load = self.load(&[page], access).pop();
            load.expect("one page was asked for").land().await?;
            // Where pages come and go, it may have gone again.
            if let Some(frame) = self.frame(page) {
                return Ok(frame);
            }
        }
    }

    /// The pages in this order, pinned; reads those that are not in the pool, all at once.
    pub async fn fetch_many(
        &self,
        pages: &[PageId],
        access: Access,
    ) -> Result<Vec<Arc<Frame>>, EngineError> {
        let mut frames = Vec::with_capacity(pages.len());
        for (page, load) in pages.iter().zip(self.load(pages, access)) {
            load.land().await?;
            frames.push(match self.frame(*page) {
                Some(frame) => frame,
                None => self.fetch(*page, access).await?,
            });
        }
        Ok(frames)
    }

    /// Brings pages into the pool, all that are missing at once; whether they stay is up to the
    /// pool. Those that were freed meanwhile are left out.
    pub async fn warm(&self, pages: &[PageId]) -> Result<(), EngineError> {
        for (page, load) in pages.iter().zip(self.load(pages, Access::Point)) {
            match load.land().await {
                Err(error) if error.is_freed_page() => continue,
                landed => drop(landed?),
            }
            if let Some(frame) = self.frame(*page) {
                frame.reference();
            }
        }
        Ok(())
    }

    /// What [`BufferPool::fetch`] awaits, for many pages: each as it is now, or a seat in the flight that
    /// brings it. Does not wait for reads, only for latches; so it may be called under a latch of a
    /// page above.
    ///
    /// From now on nobody can change a page that is on its way without having landed it: what
    /// comes is the page as it is at this moment. Must be called on the runtime.
    #[must_use]
    pub fn load(&self, pages: &[PageId], access: Access) -> Vec<PageLoad> {
        let mut frames: Vec<_> = pages
            .iter()
            .map(|page| self.get_resident(*page, access))
            .collect();
        let mut seats = HashMap::new();
        if frames.iter().any(Option::is_none) {
            let mut flights = self.flights.lock();
            let mut missing = Vec::new();
            let absent = pages.iter().zip(&mut frames);
            for (page, frame) in absent.filter(|(_, frame)| frame.is_none()) {
                // It may have landed since we looked.
                *frame = self.get_resident(*page, access);
                if frame.is_none() && !flights.contains_key(page) {
                    missing.push(*page);
                }
            }
            missing.sort_unstable();
            missing.dedup();
            for chunk in missing.chunks(FLIGHT_PAGES) {
                let number = self.next_flight.fetch_add(1, Ordering::Relaxed);
                let flight = self.flight(number, chunk.to_vec());
                flights.extend(chunk.iter().map(|page| (*page, (number, flight.clone()))));
            }
            let absent = pages.iter().zip(&frames);
            for (page, _) in absent.filter(|(_, frame)| frame.is_none()) {
                seats.insert(*page, flights[page].1.clone());
            }
        }
        // Versions are taken without the lock: a writer of the page may want it.
        let loads = frames.into_iter().zip(pages);
        loads
            .map(|(frame, page)| match frame {
                Some(frame) => PageLoad::Resident(frame.page()),
                None => PageLoad::Loading(FlightSeat {
                    page: *page,
                    flight: seats[page].clone(),
                }),
            })
            .collect()
    }

    /// A read of `ids`, sorted and none of them in the pool or on its way. It is a task of its own
    /// and goes on when nobody waits for it any more: an answer that is not read to its end would
    /// keep back others on the same connection.
    fn flight(&self, number: u64, ids: Vec<PageId>) -> Flight {
        let pool = self.this.clone();
        let flight = tokio::spawn(async move {
            let pool = pool.upgrade().ok_or(EngineError::ShuttingDown)?;
            pool.fly(number, &ids).await
        });
        let landed = flight.map(|landed| match landed {
            Ok(pages) => pages,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(EngineError::ShuttingDown),
        });
        landed.boxed().shared()
    }

    async fn fly(&self, number: u64, ids: &[PageId]) -> Result<Arc<[Page]>, EngineError> {
        let read = self.read(ids).await;
        let mut flights = self.flights.lock();
        // Pages that were made anew meanwhile are not what was read.
        let mut wanted = Vec::with_capacity(ids.len());
        for id in ids {
            if flights.get(id).is_some_and(|(n, _)| *n == number) {
                flights.remove(id);
                wanted.push(*id);
            }
        }
        if let Ok(pages) = &read {
            self.misses.fetch_add(pages.len() as u64, Ordering::Relaxed);
            for page in pages.iter() {
                let (id, index, lsn) = (page.get().id(), page.get().index(), page.get().lsn());
                if wanted.binary_search(&id).is_ok() {
                    self.insert(Frame::new(id, index, lsn, page.bytes().clone()));
                }
            }
        }
        read
    }

    /// Those of the pages that are there; of a single one that is not, the error.
    async fn read(&self, ids: &[PageId]) -> Result<Arc<[Page]>, EngineError> {
        self.wait_for_room().await?;
        let checked = |(id, bytes): (&PageId, Bytes)| verified(&self.sal, *id, &bytes);
        match self
            .sal
            .read_pages(ids, LATEST)
            .await
            .map_err(EngineError::from)
        {
            Ok(answers) => ids.iter().zip(answers).map(checked).collect(),
            Err(error) if error.is_freed_page() && ids.len() > 1 => {
                let mut pages = Vec::with_capacity(ids.len());
                for id in ids {
                    match self
                        .sal
                        .read_pages(&[*id], LATEST)
                        .await
                        .map_err(EngineError::from)
                    {
                        Ok(answer) => pages.push(verified(&self.sal, *id, &answer[0])?),
                        Err(error) if error.is_freed_page() => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(pages.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the frame of a page that no one has seen yet, or that was freed and that no one sees as it was
    /// before. The page has no content before its first operation, which formats it.
    pub(crate) fn create(&self, page: PageId, index: IndexId) -> Arc<Frame> {
        let frame = Frame::new(page, index, Lsn(0), Arc::new([0; PAGE_SIZE]));
        let mut flights = self.flights.lock();
        flights.remove(&page);
        self.discard_frame(page);
        self.insert(frame.clone());
        frame
    }

    /// Forgets what there is of pages that were made past the pool, and are on their Page Stores now.
    pub(crate) fn discard(&self, pages: impl Iterator<Item = PageId>) {
        for page in pages {
            let mut flights = self.flights.lock();
            flights.remove(&page);
            self.discard_frame(page);
        }
    }

    /// Takes a frame out that may be there; who has it goes on with what the page was.
    fn discard_frame(&self, page: PageId) {
        if self.shard(page).lock().take_out(page) {
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn insert(&self, frame: Arc<Frame>) {
        self.resident.fetch_add(1, Ordering::Relaxed);
        let lent = self.lent_by_each();
        let evicted = self.shard(frame.id()).lock().insert(frame, lent, &self.sal);
        self.resident.fetch_sub(evicted, Ordering::Relaxed);
    }

    /// Waits until writing may go on: until Page Stores have caught up and the pool has room.
    /// Called before each mini-transaction, without latches.
    pub async fn admit(&self) -> Result<(), EngineError> {
        errand::wait(self.sal.throttle(errand::purpose())).await?;
        errand::wait(self.wait_for_room()).await
    }

    /// Waits while the pool is well beyond its capacity, because its pages are pinned or their log
    /// is on no Page Store (invariant P9).
    async fn wait_for_room(&self) -> Result<(), EngineError> {
        let most = self.capacity + self.capacity / 8 + FLIGHT_PAGES;
        if self.resident.load(Ordering::Relaxed) <= most {
            return Ok(());
        }
        let give_up = Instant::now() + ROOM_TIMEOUT;
        let mut progress = self.sal.watch();
        while self.resident.load(Ordering::Relaxed) > most {
            self.shrink();
            self.sal.check()?;
            let now = Instant::now();
            if now > give_up {
                return Err(full().into());
            }
            if self.resident.load(Ordering::Relaxed) > most {
                let _ = timeout_at(now + ROOM_LOOK, progress.changed()).await;
            }
        }
        Ok(())
    }

    fn shrink(&self) {
        let lent = self.lent_by_each();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let target = shard.capacity.saturating_sub(lent);
            let evicted = shard.shrink(target, &self.sal);
            drop(shard);
            self.resident.fetch_sub(evicted, Ordering::Relaxed);
        }
    }

    /// Lends memory to a scan, for pages and results that only it sees. The pool does with fewer pages
    /// until it is given back.
    pub(crate) fn lend(&self, bytes: usize) {
        self.lent.lend(bytes);
        let frames = self.resident.load(Ordering::Relaxed) + self.lent.frames();
        if frames > self.capacity {
            self.shrink();
        }
    }

    /// Takes back what was lent.
    pub(crate) fn take_back(&self, bytes: usize) {
        self.lent.give_back(bytes);
    }

    /// Half of the pool is lent. Who has something should use it up before it asks for more.
    pub(crate) fn is_lent_out(&self) -> bool {
        self.lent.is_exhausted()
    }

    /// Frames that each shard must do without.
    fn lent_by_each(&self) -> usize {
        self.lent.frames().div_ceil(self.shards.len())
    }

    /// The superblock, which never leaves the pool.
    pub(crate) fn superblock(&self) -> &Arc<Frame> {
        self.superblock.get().expect("set when the pool was opened")
    }

    pub(crate) fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The tree latch of an index, the same for all who ask, and what shows that the tree is open.
    pub(crate) fn open_tree(&self, index: IndexId) -> (Arc<TreeLatch>, Arc<()>) {
        let OpenTree { latch, users } = self.trees.lock().entry(index).or_default().clone();
        (latch, users)
    }

    /// Separates those who have a tree open now from those who open it later: as long as one of the former
    /// is left, what this returns is shared.
    pub(crate) fn renew_users(&self, index: IndexId) -> Arc<()> {
        let mut trees = self.trees.lock();
        std::mem::take(&mut trees.entry(index).or_default().users)
    }

    /// Forgets the latch of a tree that nobody opens any more.
    pub(crate) fn forget_tree(&self, index: IndexId) {
        self.trees.lock().remove(&index);
    }

    /// Pages of an index that are in the pool (SPEC's N2).
    #[must_use]
    pub fn resident(&self, index: IndexId) -> usize {
        self.shards.iter().map(|s| s.lock().resident(index)).sum()
    }

    /// Capacity in pages.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// What the pool did.
    #[must_use]
    pub fn counters(&self) -> PoolCounters {
        PoolCounters {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            resident: self.resident.load(Ordering::Relaxed),
            lent: self.lent.bytes(),
        }
    }

    /// The page's frame if it is in the pool, not counted as a use.
    fn frame(&self, page: PageId) -> Option<Arc<Frame>> {
        self.shard(page).lock().frames.get(&page).cloned()
    }

    fn shard(&self, page: PageId) -> &Mutex<Shard> {
        // Neighbours go to different shards.
        &self.shards[(page.0 % self.shards.len() as u64) as usize]
    }

    fn note_hit(&self, frame: &Frame, access: Access) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        if access == Access::Point {
            frame.reference();
        }
    }
}

/// Checks that bytes from a Page Store are the page that was asked for.
pub(crate) fn verified(sal: &Sal, id: PageId, bytes: &[u8]) -> Result<Page, EngineError> {
    let corrupt = |what: String| EngineError::Corrupt(format!("{id} from its page store: {what}"));
    let page = PageRef::new(bytes).map_err(|e| corrupt(e.to_string()))?;
    page.verify_checksum().map_err(|e| corrupt(e.to_string()))?;
    if (page.id(), page.db()) != (id, sal.db()) {
        return Err(corrupt(format!("it is {} of {}", page.id(), page.db())));
    }
    if cfg!(debug_assertions) {
        page.verify().map_err(|e| corrupt(e.to_string()))?;
    }
    Ok(Page::copy_of(page))
}

fn full() -> SalError {
    let text = "the buffer pool is full of pages that are pinned or on no page store yet";
    SalError::Page(PageError::Unavailable(text.to_owned()))
}
