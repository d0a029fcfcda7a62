//! What a scan did, for EXPLAIN ANALYZE and the status variables (SPEC's N16).

use std::sync::atomic::{AtomicU64, Ordering};

use perigee_page_api::{NdpDecline, NdpItem, NdpReply};

use crate::catalog::Sample;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// Counters of a scan, or of all scans of an engine.
        #[derive(Debug, Default)]
        pub struct ScanCounters {
            $($(#[$doc])* pub $field: AtomicU64,)*
        }

        impl ScanCounters {
            /// Name and value of each counter.
            #[must_use]
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field.load(Ordering::Relaxed))),*]
            }

            /// Adds everything another scan counted.
            pub fn absorb(&self, other: &Self) {
                $(add(&self.$field, other.$field.load(Ordering::Relaxed));)*
            }
        }
    };
}

counters! {
    /// Scans with near-data processing; of a scan, 1 if it is one.
    scans,
    /// Batch reads.
    batches,
    /// Leaf pages that storage reduced.
    pages_pushed,
    /// Pages of `pages_pushed` that compiled code reduced.
    pages_compiled,
    /// Leaf pages that storage declined because of the descriptor.
    pages_declined_descriptor,
    /// Leaf pages that storage declined for want of capacity.
    pages_declined_busy,
    /// Leaf pages that storage declined because they are of another kind or layout.
    pages_declined_page,
    /// Leaf pages that storage declined because it was told to.
    pages_declined_forced,
    /// Leaf pages found in the buffer pool.
    pages_from_pool,
    /// Leaf pages read whole because the scan was not pushed.
    pages_read,
    /// Records that storage returned whole.
    ambiguous_records,
    /// Rows that run-time filters left out, in storage and here.
    rows_filtered,
    /// Bytes of pages that storage went through.
    bytes_read_in_storage,
    /// Bytes of results and pages that came from storage.
    bytes_shipped,
    /// CPU time that storage spent, in nanoseconds.
    storage_cpu_nanos,
    /// CPU time that the frontend spent on reading, completing and delivering, in nanoseconds.
    frontend_cpu_nanos,
    /// Rows, or partial aggregate states, that the scan delivered.
    rows,
    /// Scans whose rest storage was not asked to reduce, by what their first pages cost.
    turned_to_frontend,
    /// Scans whose rest storage was asked to reduce, by what their first pages cost.
    turned_to_storage,
    /// Batch reads of which storage returned the rows of some keys.
    key_batches,
    /// Keys of these reads.
    keys_fetched,
    /// Samples that were taken for estimates.
    samples,
    /// Leaf pages of these samples.
    pages_sampled,
}

impl ScanCounters {
    /// Counts a page that storage did not reduce.
    pub(crate) fn declined(&self, reason: NdpDecline) {
        let counter = match reason {
            NdpDecline::Descriptor => &self.pages_declined_descriptor,
            NdpDecline::Busy => &self.pages_declined_busy,
            NdpDecline::Page => &self.pages_declined_page,
            NdpDecline::Forced => &self.pages_declined_forced,
        };
        add(counter, 1);
    }

    /// Counts a sample.
    pub fn count_sample(&self, sample: &Sample) {
        add(&self.samples, 1);
        add(&self.pages_sampled, sample.pages);
    }

    /// Counts what storage says its work for a reply took.
    pub(crate) fn used(&self, reply: &NdpReply) {
        let usage = &reply.usage;
        add(&self.bytes_read_in_storage, usage.bytes_read);
        add(&self.storage_cpu_nanos, usage.cpu_nanos);
        if usage.compiled {
            let items = reply.items.iter();
            let declined = items.filter(|item| matches!(item, NdpItem::Declined { .. }));
            let reduced = usage.pages.saturating_sub(declined.count() as u64);
            add(&self.pages_compiled, reduced);
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
