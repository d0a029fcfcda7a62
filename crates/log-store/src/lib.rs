//! The Log Store on disk: PLogs as files, appended and synced before they are acknowledged
//! (taurus-2020 section 3.3). [`LogStoreService`] implements
//! [`perigee_log_api::LogStore`]; a process of its own offers it with [`perigee_log_api::serve`].
//!
//! ```text
//! <dir>/STORE                    what this directory is
//! <dir>/LOCK                     held by the process that uses it
//! <dir>/db-<id>/EPOCH            the greatest writer epoch seen
//! <dir>/db-<id>/plog-<id>.log    one PLog
//! ```
//!
//! The bytes are described in `docs/format/plog.md`. Payloads are opaque: this crate knows neither
//! pages nor redo.
//!
//! Invariants:
//! - L2: an append is accepted only with the current or a greater epoch, to an open PLog, at its end.
//! - L3: what is acknowledged was synced, and so was the directory entry it hangs on.
//! - A sync that failed is never tried again: the kernel may have dropped the pages. The store stops,
//!   and only a new start, which reads back what is really there, makes it serve again.
//! - Damage is never repaired by guessing. A write that a crash cut short is removed; anything else
//!   that fails its checks is reported with file and offset, and that PLog is refused.

mod cache;
mod config;
mod database;
mod disk;
mod dump;
mod epoch;
mod frame;
mod gate;
mod identity;
mod latency;
mod plog;
mod scan;
mod service;
mod source;
mod space;

pub use config::Config;
pub use dump::dump_plog;
pub use latency::{LATENCY_BOUNDS, Latencies};
pub use service::{DatabaseFigures, Figures, LogStoreService, Stats};
