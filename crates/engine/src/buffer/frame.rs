//! A frame: one page of the pool with its latch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{ArcRwLockWriteGuard, RawRwLock, RwLock};
use perigee_page::PageRef;
use perigee_types::{IndexId, Lsn, PAGE_SIZE, PageId};

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_SIZE];

/// A version of a page, kept alive and unchanged as long as somebody has it.
#[derive(Clone, Debug)]
pub struct Page(Arc<PageBytes>);

impl Page {
    /// Wraps bytes whose length, format version and kind were checked by [`PageRef::new`].
    #[must_use]
    pub fn new(bytes: Arc<PageBytes>) -> Self {
        assert!(
            PageRef::new(&bytes[..]).is_ok(),
            "a page of the pool has a known format"
        );
        Self(bytes)
    }

    /// A copy of a page, made with one pass over its bytes.
    #[must_use]
    pub fn copy_of(page: PageRef<'_>) -> Self {
        let copy: Arc<[u8]> = Arc::from(&page.bytes()[..]);
        Self(copy.try_into().expect("a page has PAGE_SIZE bytes"))
    }

    /// The page to read.
    #[must_use]
    pub fn get(&self) -> PageRef<'_> {
        PageRef::new(&self.0[..]).expect("checked when the page was made")
    }

    /// The page's bytes; the checksum in them may be stale.
    #[must_use]
    pub fn bytes(&self) -> &Arc<PageBytes> {
        &self.0
    }
}

/// The exclusive latch of a frame.
pub(crate) type WriteLatch = ArcRwLockWriteGuard<RawRwLock, Arc<PageBytes>>;

/// A page in the pool. Whoever holds an `Arc` of it pins it: a pinned page is not evicted.
#[derive(Debug)]
pub struct Frame {
    id: PageId,
    index: IndexId,
    latch: Arc<RwLock<Arc<PageBytes>>>,
    newest: AtomicU64,
    referenced: AtomicBool,
    last_insert: AtomicU32,
}

/// No insert yet.
const NO_SLOT: u32 = u32::MAX;

impl Frame {
    pub(crate) fn new(id: PageId, index: IndexId, newest: Lsn, bytes: Arc<PageBytes>) -> Arc<Self> {
        Arc::new(Self {
            id,
            index,
            latch: Arc::new(RwLock::new(bytes)),
            newest: AtomicU64::new(newest.0),
            referenced: AtomicBool::new(false),
            last_insert: AtomicU32::new(NO_SLOT),
        })
    }

    /// The page's id.
    #[must_use]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// The index the page belongs to.
    #[must_use]
    pub fn index(&self) -> IndexId {
        self.index
    }

    /// The page as it is now. Waits for a mini-transaction that changes it.
    #[must_use]
    pub fn page(&self) -> Page {
        Page(self.latch.read().clone())
    }

    /// Calls `f` with the page under the shared latch.
    pub fn read<T>(&self, f: impl FnOnce(PageRef<'_>) -> T) -> T {
        let bytes = self.latch.read();
        f(PageRef::new(&bytes[..]).expect("pages of the pool have a known format"))
    }

    pub(crate) fn write(&self) -> WriteLatch {
        self.latch.write_arc()
    }

    /// LSN of the newest change.
    pub(crate) fn newest(&self) -> Lsn {
        Lsn(self.newest.load(Ordering::Acquire))
    }

    pub(crate) fn set_newest(&self, lsn: Lsn) {
        self.newest.store(lsn.0, Ordering::Release);
    }

    pub(crate) fn reference(&self) {
        // Most references find it set; a load keeps the cache line shared.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn take_reference(&self) -> bool {
        self.referenced.swap(false, Ordering::Relaxed)
    }

    /// Notes an insert at `slot`; true if the one before was at the slot before, which looks like
    /// an ascending load. Only a hint; lost with the frame.
    pub(crate) fn note_insert(&self, slot: u16) -> bool {
        let before = self.last_insert.swap(u32::from(slot), Ordering::Relaxed);
        before != NO_SLOT && before + 1 == u32::from(slot)
    }
}
