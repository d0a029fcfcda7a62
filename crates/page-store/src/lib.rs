//! The Page Store: keeps slices of databases as log and page versions, serves pages at any LSN that
//! may still be asked for, and reduces them near the data (taurus-2020 sections 3.4 and 7;
//! taurus-ndp section IV.D).
//!
//! ```text
//! <dir>/STORE                          what this directory is
//! <dir>/LOCK                           held by the process that uses it
//! <dir>/db-<id>/RECYCLE                the database's recycle LSN
//! <dir>/db-<id>/slice-<id>/SLICE       the slice's identity and epoch
//! <dir>/db-<id>/slice-<id>/log-*.seg   fragments, in arrival order
//! <dir>/db-<id>/slice-<id>/pages-*.seg page versions
//! ```
//!
//! Names: a *slice* is a set of pages of one database; its log comes in *fragments*; the *log
//! directory* knows for each page where its versions and log records are; *consolidation* makes
//! versions from records. Nothing is ever written in place: fragments and versions are appended to
//! *segments*, which are deleted as a whole.
//!
//! The way of a fragment: decoded and checked; appended and synced (*durable, acknowledged from
//! here on*); indexed in the log directory; consolidated; its segment deleted when page versions
//! have taken the place of all its records.

mod append;
mod collect;
mod config;
mod consolidate;
mod delete;
mod descriptors;
mod directory;
mod dump;
mod failstop;
mod figures;
mod files;
mod filters;
mod fragment;
mod frame;
mod group_memory;
mod identity;
mod materialize;
mod ndp;
mod ndp_read;
mod ndp_run;
mod offline;
mod open;
mod plugin;
mod pool;
mod priority;
mod read;
mod recover;
mod segment;
mod service;
mod shelf;
mod slice;
mod worker;

pub use config::Config;
pub use dump::{SliceDump, dump_slice, read_page};
pub use figures::{
    DECLINE_REASONS, DescriptorFigures, Figures, FilterFigures, LogFigures, NdpFigures,
    PoolFigures, SliceFigures,
};
pub use offline::{OfflinePage, OfflineSlice, OfflineStore};
pub use plugin::{
    NdpPlugin, NdpProgram, NdpRun, PageOutcome, PerigeePlugin, PreparedFilter, RunResources,
};
pub use priority::{NdpRuntime, answer_at_once};
pub use service::PageStoreService;
