//! Points at which a test lets the process die, named in one list.
//!
//! A point stands between two steps that the disk sees: before a rename, between a write and its sync,
//! between the end of one PLog and the making of the next. A test starts a process with
//! [`AT`] in its environment, and the process is gone when it reaches that point, as if it had been
//! killed there: no destructor runs, nothing that was buffered is written. With [`TRACE`] it notes in a
//! file which points it reached.
//!
//! Only tests have this: without the feature `points` a point is an empty inline function.

/// Environment variable: the name of the point at which the process ends. `Name:3` ends it when it
/// reaches the point for the third time.
pub const AT: &str = "PERIGEE_CRASH_AT";

/// Environment variable: a file to which the name of each point is appended when it is first reached.
pub const TRACE: &str = "PERIGEE_CRASH_TRACE";

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A point at which a process may be made to end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Point {
            $($(#[$doc])* $name,)*
        }

        impl Point {
            /// Every point.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

points! {
    // The Log Store.
    /// The directory of a database is made and not synced.
    LogDirectoryMade,
    /// A file that replaces another (`EPOCH`, a new PLog) is written beside it.
    LogFileWritten,
    /// It is renamed, and the directory is not synced.
    LogFileRenamed,
    /// A new epoch is durable, and nobody knows it.
    EpochBegun,
    /// A PLog is made, and nobody knows it.
    PlogCreated,
    /// Part of an append is written.
    AppendTorn,
    /// An append is written and not synced.
    AppendWritten,
    /// An append is durable and not acknowledged.
    AppendSynced,
    /// A seal is written and not synced.
    SealWritten,
    /// A PLog is sealed and not cut to its length.
    SealSynced,
    /// A PLog's file is removed, and the directory is not synced.
    PlogRemoved,
    /// Opening has cut off a torn append, and has not synced that.
    TornAppendCut,

    // The Page Store.
    /// The directory of a database is made and not synced.
    TenantDirectoryMade,
    /// The directory of a slice is made, without its label.
    SliceDirectoryMade,
    /// A label or the recycle LSN is written beside the file it replaces.
    LabelWritten,
    /// It is renamed, and the directory is not synced.
    LabelRenamed,
    /// A slice is made, and nobody knows it.
    SliceCreated,
    /// A slice refuses earlier writers, and nobody knows it.
    SliceFenced,
    /// The header of a segment is written and not synced.
    SegmentWritten,
    /// A segment is made, and nothing is in it.
    SegmentCreated,
    /// Part of what is appended to a segment is written.
    SegmentTorn,
    /// Fragments are written and not synced.
    FragmentWritten,
    /// Fragments are durable and not acknowledged.
    FragmentSynced,
    /// A log segment is sealed, and there is no next one.
    LogSegmentSealed,
    /// Page versions are written and not synced.
    VersionsWritten,
    /// Page versions are durable and not in the log directory.
    VersionsSynced,
    /// A page segment is sealed, and its slice's label does not say so.
    PageSegmentSealed,
    /// A segment that nobody needs is about to be deleted.
    SegmentDead,
    /// A segment was deleted.
    SegmentDeleted,
    /// Page versions of a segment were written anew elsewhere; the segment is still there.
    VersionsMoved,
    /// Earlier writers make no slices any more, and a slice without pages is about to be deleted.
    SliceDoomed,
    /// Its directory is renamed, and that of the database is not synced.
    SliceRenamed,
    /// A file of it is removed.
    SlicePartRemoved,
    /// It is deleted, and nobody knows it.
    SliceDeleted,
    /// The recycle LSN is durable and not in force.
    RecycleWritten,
    /// Opening a slice has read its page segments and not its log.
    PagesOpened,
    /// Opening a segment has cut off its torn end, and has not synced that.
    TornSegmentCut,

    // The storage abstraction layer.
    /// Opening has an epoch; earlier PLogs are open.
    EpochKnown,
    /// Opening has sealed the PLogs of earlier writers.
    PlogsSealed,
    /// Opening has told all slices its epoch.
    SlicesFenced,
    /// Opening has sent Page Stores what they lacked.
    LogResent,
    /// A new database has a superblock and no system pages.
    SuperblockMade,
    /// A PLog is full and sealed, and there is no next one.
    PlogChange,
    /// A PLog is made, and nothing is in it.
    PlogMade,
    /// A log buffer is durable, and no commit of it is acknowledged.
    BufferDurable,
    /// A slice is made, and no fragment is sent to it.
    SliceMade,
    /// A slice has been told up to where there is nothing for it, and got nothing else.
    SliceBegun,
    /// A slice without pages takes no log any more, and its Page Store does not know.
    SliceLeaving,
    /// It is deleted and still listed.
    SliceLeft,
    /// A fragment is on a Page Store, and the CV-LSN does not say so.
    FragmentSent,
    /// Page Stores know a new recycle LSN.
    RecycleForwarded,
    /// A PLog is deleted and still listed.
    PlogDeleted,
    /// Everything is on the Page Stores; the layer is about to end.
    AllPersistent,

    // The engine.
    /// A new database has its system pages in the log.
    SystemPagesMade,
    /// Opening has read the catalog, and nothing is rolled back.
    CatalogRead,
    /// Opening is over, and what runs in the background has begun.
    EngineOpened,
    /// Part of a transaction that a crash left is rolled back.
    PartUndone,
    /// A transaction that a crash left is rolled back and has its slot.
    Undone,
    /// A transaction is purged, and its undo pages are there.
    Purged,
    /// Shutting down has kept the numbers that are next.
    NumbersKept,
}

/// Where a write from `start` to `end` of a file may be cut short: at the border of a sector, for disks
/// write those whole or not at all.
#[must_use]
pub fn tear(start: u64, end: u64) -> u64 {
    (start.midpoint(end) / 512 * 512).max(start)
}

#[cfg(feature = "points")]
mod armed;
#[cfg(feature = "points")]
pub use armed::{is_armed, reach};

/// Ends the process if it is to end here.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn reach(_: Point) {}

/// True if the process is to end when it next gets here: so that a write can be cut short.
#[cfg(not(feature = "points"))]
#[inline(always)]
#[must_use]
pub fn is_armed(_: Point) -> bool {
    false
}
