//! What can be set from outside.

use std::time::Duration;

use perigee_log_api::PLOG_SIZE;
use perigee_types::DbId;

/// Settings of a [`Sal`](crate::Sal).
#[derive(Clone, Debug)]
pub struct SalConfig {
    /// The database.
    pub db: DbId,
    /// Pages of a slice, for a new database; an existing one keeps its geometry. A multiple of
    /// [`Geometry::EXTENT_PAGES`](crate::Geometry::EXTENT_PAGES).
    pub slice_pages: u64,
    /// Number of slices that neighbouring extents are spread over, for a new database; 0 means as
    /// many as there are Page Stores.
    pub width: u32,
    /// A database log buffer is written when it has this many bytes.
    pub log_buffer_bytes: usize,
    /// A database log buffer for which nobody waits is written after this time.
    pub log_flush_interval: Duration,
    /// A slice's buffer is sent when it has this many bytes.
    pub slice_buffer_bytes: usize,
    /// A slice's buffer is sent after this time.
    pub slice_flush_interval: Duration,
    /// Fragments on their way to Page Stores at a time.
    pub max_fragments_in_flight: usize,
    /// Writers wait while more bytes of log than this are on no Page Store.
    pub max_unpersisted_bytes: usize,
    /// Writers wait while Page Stores have more bytes than this to consolidate.
    pub max_backlog_bytes: u64,
    /// Writers give up after waiting this long.
    pub throttle_timeout: Duration,
    /// A PLog is sealed when the next buffer would make it longer than this; that of a small database
    /// sooner.
    pub plog_bytes: u64,
    /// One call of a store takes at most this long.
    pub call_timeout: Duration,
    /// A read from a Page Store that stays unreachable this long fails.
    pub read_timeout: Duration,
    /// Opening waits this long for stores that cannot be reached.
    pub open_timeout: Duration,
    /// Opening takes at least so long from the beginning of its epoch on: [`TAKE_OVER`](crate::TAKE_OVER) where an earlier
    /// frontend may be running still.
    pub least_opening: Duration,
    /// A slice without pages that got no log for this long is deleted.
    pub empty_slice_after: Duration,
    /// How often the recycle LSN is forwarded and the log truncated, at the least: sooner when much was
    /// written. Page versions that were made since the last time take space.
    pub maintenance_interval: Duration,
    /// Log that may be written between two such rounds, at the least, before one comes sooner.
    pub maintenance_log_bytes: u64,
}

impl SalConfig {
    /// Defaults for a database.
    #[must_use]
    pub fn new(db: DbId) -> Self {
        Self {
            db,
            slice_pages: 10 * (1 << 30) / perigee_types::PAGE_SIZE as u64,
            width: 0,
            log_buffer_bytes: 4 << 20,
            log_flush_interval: Duration::from_millis(10),
            slice_buffer_bytes: 1 << 20,
            slice_flush_interval: Duration::from_millis(10),
            max_fragments_in_flight: 8,
            max_unpersisted_bytes: 64 << 20,
            max_backlog_bytes: 512 << 20,
            throttle_timeout: Duration::from_secs(60),
            plog_bytes: PLOG_SIZE,
            call_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(30),
            open_timeout: Duration::from_secs(30),
            least_opening: Duration::ZERO,
            empty_slice_after: Duration::from_secs(5),
            maintenance_interval: Duration::from_millis(500),
            maintenance_log_bytes: 1 << 20,
        }
    }
}
