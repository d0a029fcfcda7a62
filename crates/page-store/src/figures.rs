//! What a Page Store counts, and [`Figures`], what it tells of itself to operators.
//!
//! Counting must cost nothing: counters are relaxed atomics that are added to once for a request, a
//! reply, a batch; never for a page or a record. They are exact one by one, not in their relation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perigee_page_api::{NdpDecline, NdpItem, NdpReply, SliceKey, SliceStatus};
use perigee_types::Lsn;

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a Page Store did since it was opened, and where it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Every slice.
    pub slices: Vec<SliceFigures>,
    /// The pool of page versions.
    pub pool: PoolFigures,
    /// Log and page versions.
    pub log: LogFigures,
    /// Near-data processing.
    pub ndp: NdpFigures,
    /// The cache of descriptors.
    pub descriptors: DescriptorFigures,
    /// The cache of run-time filters.
    pub filters: FilterFigures,
}

/// A slice.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceFigures {
    /// Its name.
    pub key: SliceKey,
    /// Where its log stands.
    pub status: SliceStatus,
    /// Versions that no read at or above this LSN needs are dropped.
    pub recycle_lsn: Lsn,
    /// Pages with a version on disk.
    pub pages: u64,
    /// Versions on disk.
    pub versions: u64,
    /// Bytes of the newest version of every page.
    pub live_bytes: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// True if it is not served because its files are damaged.
    pub damaged: bool,
}

/// The pool of page versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// Page versions that were in it when they were wanted.
    pub hits: u64,
    /// Page versions that were not.
    pub misses: u64,
    /// Bytes of page versions in it.
    pub bytes: u64,
    /// The most it may hold.
    pub capacity_bytes: u64,
}

/// Log, page versions made of it, and plain reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// Fragments of log that were written and synced.
    pub fragments: u64,
    /// Bytes of their log groups.
    pub bytes: u64,
    /// Fragments whose log is in page versions.
    pub consolidated_fragments: u64,
    /// Page versions written by consolidation.
    pub versions_written: u64,
    /// Bytes of log that wait for consolidation.
    pub backlog_bytes: u64,
    /// Pages read by plain reads, those of pages that near-data processing declined among them.
    pub pages_read: u64,
}

/// Near-data processing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NdpFigures {
    /// Batch reads received.
    pub requests: u64,
    /// Pages reduced.
    pub pages_reduced: u64,
    /// Pages declined, in the order of [`DECLINE_REASONS`].
    pub pages_declined: [u64; 4],
    /// CPU time of its threads.
    pub cpu: Duration,
    /// Bytes of pages gone through.
    pub bytes_read: u64,
    /// Bytes of results and declined pages handed over.
    pub bytes_shipped: u64,
    /// Chunks of pages that wait for a thread.
    pub queued_chunks: usize,
    /// Chunks that may wait.
    pub queue_limit: usize,
    /// Batch reads under way.
    pub jobs: usize,
    /// Threads at work.
    pub threads_at_work: usize,
    /// Threads there are.
    pub threads: usize,
    /// Memory that groups of aggregations take.
    pub group_bytes: usize,
}

/// The cache of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DescriptorFigures {
    /// Requests whose descriptor was known.
    pub hits: u64,
    /// Descriptors that were not: they were decoded, checked and compiled.
    pub misses: u64,
    /// Those of them that were found wanting.
    pub refused: u64,
    /// Time it took to look up descriptors that were known.
    pub hit_time: Duration,
    /// Time it took to decode, check and compile those that were not.
    pub miss_time: Duration,
    /// Descriptors that made room for others.
    pub evictions: u64,
    /// Descriptors that are known.
    pub entries: usize,
    /// Memory they take, about.
    pub bytes: usize,
}

/// The filter cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterFigures {
    /// Filters of requests that were known.
    pub hits: u64,
    /// Filters that came with their content and were decoded.
    pub misses: u64,
    /// Filters that requests named, and that were not there.
    pub missing: u64,
    /// Filters that were found wanting.
    pub refused: u64,
    /// Filters that made room for others.
    pub evictions: u64,
    /// Filters that are known.
    pub entries: usize,
    /// Memory they take, about.
    pub bytes: usize,
}

/// Why pages are declined, in words for operators.
pub const DECLINE_REASONS: [&str; 4] = ["descriptor", "busy", "page", "forced"];

/// Index into [`DECLINE_REASONS`].
fn index_of(reason: NdpDecline) -> usize {
    match reason {
        NdpDecline::Descriptor => 0,
        NdpDecline::Busy => 1,
        NdpDecline::Page => 2,
        NdpDecline::Forced => 3,
    }
}

/// Counters of log and reads.
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub fragments: Counter,
    pub bytes: Counter,
    pub consolidated_fragments: Counter,
    pub versions_written: Counter,
    pub pages_read: Counter,
}

/// Counters of near-data processing.
#[derive(Debug, Default)]
pub(crate) struct NdpCounters {
    pub requests: Counter,
    pages_reduced: Counter,
    pages_declined: [Counter; 4],
    cpu_nanos: Counter,
    bytes_read: Counter,
    bytes_shipped: Counter,
}

impl NdpCounters {
    /// Counts a reply that is handed over. Every page of a request is in one reply, and the usage of a
    /// reply is that of its pages.
    pub(crate) fn count(&self, reply: &NdpReply) {
        let (mut declined, mut bytes) = (0, 0);
        for item in &reply.items {
            match item {
                NdpItem::Reduced(batch) => bytes += batch.len() as u64,
                NdpItem::Declined { reason, page, .. } => {
                    declined += 1;
                    bytes += page.len() as u64;
                    self.pages_declined[index_of(*reason)].add(1);
                }
            }
        }
        let usage = &reply.usage;
        self.pages_reduced.add(usage.pages.saturating_sub(declined));
        self.cpu_nanos.add(usage.cpu_nanos);
        self.bytes_read.add(usage.bytes_read);
        self.bytes_shipped.add(bytes);
    }

    /// The counters; the rest of the figures is the queue's.
    pub(crate) fn figures(&self) -> NdpFigures {
        NdpFigures {
            requests: self.requests.get(),
            pages_reduced: self.pages_reduced.get(),
            pages_declined: self.pages_declined.each_ref().map(Counter::get),
            cpu: Duration::from_nanos(self.cpu_nanos.get()),
            bytes_read: self.bytes_read.get(),
            bytes_shipped: self.bytes_shipped.get(),
            ..NdpFigures::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use perigee_page_api::NdpUsage;

    use super::*;

    #[test]
    fn a_reply_is_counted_once_for_each_page() {
        let counters = NdpCounters::default();
        let declined = |index, reason| NdpItem::Declined {
            index,
            reason,
            page: Bytes::from_static(&[0; 100]),
        };
        counters.count(&NdpReply {
            items: vec![
                NdpItem::Reduced(Bytes::from_static(&[0; 7])),
                declined(3, NdpDecline::Forced),
                declined(4, NdpDecline::Page),
                declined(5, NdpDecline::Forced),
            ],
            usage: NdpUsage {
                pages: 10,
                bytes_read: 1000,
                cpu_nanos: 5,
                compiled: true,
            },
            filters: None,
        });
        let figures = counters.figures();
        assert_eq!(figures.pages_reduced, 7);
        assert_eq!(figures.pages_declined, [0, 0, 1, 2]);
        assert_eq!((figures.bytes_read, figures.bytes_shipped), (1000, 307));
        assert_eq!(figures.cpu, Duration::from_nanos(5));
        for reason in [
            NdpDecline::Descriptor,
            NdpDecline::Busy,
            NdpDecline::Page,
            NdpDecline::Forced,
        ] {
            let word = format!("{reason:?}").to_lowercase();
            assert_eq!(DECLINE_REASONS[index_of(reason)], word);
        }
    }
}
