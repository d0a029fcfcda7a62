//! Settings of a Page Store.

use std::time::Duration;

/// Settings of a Page Store. The defaults suit a machine with some GiB of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Memory for page versions: the second-level cache.
    pub pool_bytes: usize,
    /// Memory for log fragments: the log cache.
    pub log_cache_bytes: usize,
    /// Consolidation starts when this much log of all slices waits for it. More lets a page that
    /// changes often be written less often, less gives shorter log to apply in reads.
    pub consolidate_above: u64,
    /// Consolidation starts when a fragment has waited this long,
    pub consolidate_after: Duration,
    /// or when its slice got no fragment for this long.
    pub consolidate_idle: Duration,
    /// Threads that consolidate and collect garbage.
    pub consolidators: usize,
    /// Log that may wait for consolidation; beyond it `write_logs` answers `Unavailable`. The SAL
    /// throttles long before.
    pub max_backlog_bytes: u64,
    /// How long a fragment waits for the one before it, which may be on its way through another
    /// thread, before it is refused.
    pub hole_wait: Duration,
    /// Log segments are closed at this length.
    pub log_segment_bytes: u64,
    /// Page segments are closed at this length, those of small slices sooner.
    pub page_segment_bytes: u64,
    /// Files of segments that are open at a time, besides those that are written to.
    pub open_segments: usize,
    /// Bytes that are kept in reserve on the disk, less on a small one: half of it for the log of
    /// what frees space, half for moving together what is needed.
    pub reserve_bytes: u64,
    /// Threads for near-data processing.
    pub ndp_threads: usize,
    /// Chunks of pages of one database that may wait for an NDP thread; beyond it pages are
    /// declined. All databases together may have twice as many waiting, and each leaves room for
    /// others.
    pub ndp_queue: usize,
    /// How long near-data processing waits for a client that does not take its results, before it
    /// gives up the rest of the request.
    pub ndp_patience: Duration,
    /// Memory for the groups of one NDP read's aggregation; its threads share it in equal parts.
    pub ndp_group_bytes: usize,
    /// Memory for the groups of all NDP reads of a database together.
    pub ndp_group_bytes_tenant: usize,
    /// Descriptors that are kept ready to run,
    pub descriptor_cache: usize,
    /// and memory that they may take.
    pub descriptor_cache_bytes: usize,
    /// Run-time filters that are kept ready to run,
    pub filter_cache: usize,
    /// and memory that they may take: four of the largest, and many of the usual ones.
    pub filter_cache_bytes: usize,
    /// For tests: every so many pages of an NDP read one is declined.
    pub decline_every: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            pool_bytes: 256 << 20,
            log_cache_bytes: 256 << 20,
            consolidate_above: 32 << 20,
            consolidate_after: Duration::from_secs(2),
            consolidate_idle: Duration::from_millis(100),
            consolidators: cores.min(4),
            max_backlog_bytes: 4 << 30,
            hole_wait: Duration::from_millis(200),
            log_segment_bytes: 32 << 20,
            page_segment_bytes: 256 << 20,
            // Half of what a process may have open if nobody raises the limit.
            open_segments: 512,
            reserve_bytes: 256 << 20,
            ndp_threads: cores,
            ndp_queue: 4096,
            ndp_patience: Duration::from_secs(60),
            // As much as the pages of a batch read by default: their groups are no larger.
            ndp_group_bytes: 16 << 20,
            ndp_group_bytes_tenant: 64 << 20,
            descriptor_cache: 256,
            descriptor_cache_bytes: 128 << 20,
            filter_cache: 1024,
            filter_cache_bytes: 128 << 20,
            decline_every: None,
        }
    }
}
