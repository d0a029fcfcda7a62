//! The [`PageStore`] trait and its messages.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use perigee_types::{DbId, Lsn, PageId, SliceId};

use crate::{Capabilities, NdpFilter, NdpFilterUse, PageError};

/// Greatest length in bytes of the groups of a [`Fragment`]. Senders stay far below (some MiB); the
/// bound protects the store's memory.
pub const MAX_FRAGMENT: usize = 64 << 20;

/// Greatest number of pages of one read: 1 GiB of answers.
pub const MAX_PAGES: usize = 65_536;

/// Names a slice among all databases of a Page Store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceKey {
    /// The only database whose pages the slice holds.
    pub db: DbId,
    /// The slice within that database.
    pub slice: SliceId,
}

impl std::fmt::Display for SliceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.db, self.slice)
    }
}

/// A piece of one slice's log: the parts of log groups `first_lsn..=last_lsn` that touch pages of
/// the slice, in LSN order.
///
/// Fragments of a slice form a chain: `prev_lsn` is the `last_lsn` of the fragment before, or
/// `Lsn(0)` for the first. A store never accepts a fragment across a hole (invariant P1), and
/// answers a repeat of what it has with success (invariant P5).
#[derive(Clone, Debug)]
pub struct Fragment {
    /// The slice.
    pub slice: SliceKey,
    /// Writer epoch; an old one is refused.
    pub epoch: u64,
    /// Position in the slice's chain: 1 for the first fragment, +1 each.
    pub sequence: u64,
    /// `last_lsn` of the fragment before this one.
    pub prev_lsn: Lsn,
    /// First LSN with a record in this fragment.
    pub first_lsn: Lsn,
    /// The slice has everything up to here once it has this fragment.
    pub last_lsn: Lsn,
    /// Encoded log groups (`redo::Group`), restricted to the slice's pages.
    pub groups: Bytes,
}

/// Where a slice stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceStatus {
    /// Sequence number of the last persistent fragment.
    pub sequence: u64,
    /// Everything up to this LSN is on disk (the slice persistent LSN).
    pub persistent_lsn: Lsn,
    /// Everything up to this LSN is consolidated into page versions.
    pub consolidated_lsn: Lsn,
    /// Bytes of log received and not yet consolidated; the SAL throttles on it.
    pub backlog_bytes: u64,
    /// Pages that are consolidated and not freed.
    pub pages: u64,
}

/// As the epoch of a read: whoever is the writer now. For tools, which serve nobody.
pub const ANY_EPOCH: u64 = u64::MAX;

/// A read of whole pages of one slice.
#[derive(Clone, Debug)]
pub struct ReadPages {
    /// The slice all pages belong to.
    pub slice: SliceKey,
    /// Epoch of the writer that reads; an old one is refused, for it would serve what is no longer
    /// current (invariant S7).
    pub epoch: u64,
    /// Page versions as of this LSN are wanted: for each page, all log up to it and none above.
    pub lsn: Lsn,
    /// The pages, answered in this order.
    pub pages: Vec<PageId>,
}

/// An NDP batch read: one sub-batch for one slice (taurus-ndp section IV.C.4).
#[derive(Clone, Debug)]
pub struct NdpRead {
    /// The slice all pages belong to.
    pub slice: SliceKey,
    /// As in [`ReadPages`].
    pub epoch: u64,
    /// As in [`ReadPages`].
    pub lsn: Lsn,
    /// The pages, in the key order of the scan; replies refer to them by their index here.
    pub pages: Vec<PageId>,
    /// The NDP descriptor, interpreted by the store's plugin only.
    pub descriptor: Bytes,
    /// Run-time filters, interpreted by the plugin, too. A store may go without any of them.
    pub filters: Vec<NdpFilter>,
    /// So many rows are enough for the caller (pushdowndb section VII's LIMIT): of the pages behind those that gave as
    /// many, none is needed. A store may answer them as if nothing on them passed.
    pub enough: Option<u64>,
}

/// Why a store returned a page without having reduced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NdpDecline {
    /// The descriptor is of a version or has a program this store does not take.
    Descriptor,
    /// No capacity (threads, queue or memory) at the moment.
    Busy,
    /// The page is not of the kind or layout that the descriptor describes.
    Page,
    /// A test or an operator asked the store to decline.
    Forced,
}

/// One part of an NDP reply.
#[derive(Clone, Debug)]
pub enum NdpItem {
    /// An NDP batch (`ndp::NdpBatch`, encoded); it says itself which of the request's pages it
    /// covers.
    Reduced(Bytes),
    /// The page at `index` of the request, unchanged, with the reason.
    Declined {
        /// Index into [`NdpRead::pages`].
        index: u32,
        /// Why.
        reason: NdpDecline,
        /// The page as [`PageStore::read_pages`] would return it.
        page: Bytes,
    },
}

/// A part of the answer to an NDP read. Every page of the request is covered by exactly one item
/// over all replies; items come in any order.
#[derive(Clone, Debug, Default)]
pub struct NdpReply {
    /// Results.
    pub items: Vec<NdpItem>,
    /// What these results cost the store.
    pub usage: NdpUsage,
    /// What became of the filters; `None` from a store that does not know filters.
    pub filters: Option<NdpFilterUse>,
}

impl NdpReply {
    /// Bytes of its results and pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let items = self.items.iter().map(|item| match item {
            NdpItem::Reduced(bytes) => bytes.len(),
            NdpItem::Declined { page, .. } => page.len(),
        });
        items.sum()
    }
}

/// Work done in a Page Store for an NDP read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpUsage {
    /// Pages read in storage.
    pub pages: u64,
    /// Bytes of pages processed in storage.
    pub bytes_read: u64,
    /// Thread CPU time spent, in nanoseconds.
    pub cpu_nanos: u64,
    /// True if a compiled (not interpreted) program ran.
    pub compiled: bool,
}

/// The replies to one NDP read. Dropping it cancels the work in the store.
pub type NdpStream = BoxStream<'static, Result<NdpReply, PageError>>;

/// What a Page Store says of itself, for operators and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Every slice it holds. One that is damaged has a status of zeros; calls to it say what is
    /// wrong.
    pub slices: Vec<(SliceKey, SliceStatus)>,
    /// Bytes of the newest version of every page.
    pub live_bytes: u64,
    /// Bytes its files take on disk.
    pub disk_bytes: u64,
}

/// A Page Store. Implemented by the store itself (embedded mode) and by its gRPC client.
///
/// Every method is safe to cancel and may be repeated. Calls with an epoch below the greatest one that
/// the slice has seen end with [`PageError::Fenced`].
#[async_trait]
pub trait PageStore: Send + Sync + 'static {
    /// Makes an empty slice; succeeds if it exists. When this returns, nothing of an earlier epoch is
    /// on its way into the slice any more.
    async fn create_slice(&self, slice: SliceKey, epoch: u64) -> Result<(), PageError>;

    /// Deletes a slice of which nothing is needed: it has no pages, no log that waits, and no version
    /// that a read at or above the recycle LSN could want. `end` is its persistent LSN. False if it is
    /// needed, got nothing yet, or ends elsewhere; succeeds if there is no such slice. From then on
    /// the store makes slices of the database for writers of this epoch and later ones only.
    async fn delete_slice(&self, slice: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError>;

    /// `WriteLogs`: when this returns, the fragment is on disk.
    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError>;

    /// `ReadPage` for several pages: each answer is one page of [`perigee_types::PAGE_SIZE`]
    /// bytes with a valid checksum. A page that does not exist at that LSN is an error.
    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError>;

    /// The same for whole batches with near-data processing.
    async fn ndp_read(&self, read: NdpRead) -> Result<NdpStream, PageError>;

    /// `SetRecycleLSN`: versions that no read at or above `lsn` needs may be dropped. Never moves
    /// backwards (invariant P8).
    async fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError>;

    /// `GetPersistentLSN` and more.
    async fn slice_status(&self, slice: SliceKey) -> Result<SliceStatus, PageError>;

    /// Everything the store holds.
    async fn status(&self) -> Result<StoreStatus, PageError>;

    /// False while the disk has less room than the store keeps in reserve: then only what frees
    /// space should be written.
    async fn has_room(&self) -> Result<bool, PageError> {
        Ok(true)
    }
    /// What near-data processing it knows.
    async fn capabilities(&self) -> Result<Capabilities, PageError> {
        Ok(Capabilities::OLDEST)
    }
}
