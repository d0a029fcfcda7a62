//! Settings of a Log Store.

/// Settings of a Log Store; none of them changes what is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Memory for recent appends, which are read without touching the disk, in bytes.
    pub cache_bytes: usize,
    /// Calls that change something and run at once; each occupies a thread while it waits for the
    /// disk.
    pub writers: usize,
    /// Reads that run at once.
    pub readers: usize,
    /// Calls of each of the two sorts that may wait for their turn; more are turned away.
    pub waiting: usize,
    /// Bytes that are kept in reserve on the disk, less on a small one: enough for the log of what
    /// frees space, and of what is written before its writers know that they should not.
    pub reserve_bytes: u64,
    /// Appends are written and synced on the thread that calls, not on one of their own: for a
    /// database in the same process, which writes one append at a time and has a thread to spare.
    /// Waking threads takes longer than many a sync.
    pub append_in_place: bool,
}

impl Default for Config {
    fn default() -> Self {
        // Recent log is wanted by read replicas a few milliseconds after it was written; 64 MiB is
        // one PLog.
        Self {
            cache_bytes: 64 << 20,
            writers: 64,
            readers: 16,
            waiting: 1024,
            reserve_bytes: 128 << 20,
            append_in_place: false,
        }
    }
}
