//! What every [`PageStore`] must do, as tests that run against any implementation: the store
//! itself, its client over a socket, and the reference model.
//!
//! This crate knows no page format, so whoever runs the suite says what the pages are: [`Format`].
//! Each case uses a database id of its own, so that they can share a store. They panic with the
//! name of what is wrong.

mod cases;
mod model;

use bytes::Bytes;
use perigee_types::{DbId, Lsn, PageId};

pub use model::{MemoryPageStore, ToyFormat};

use crate::PageStore;

/// One change of a page in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The page.
    pub page: PageId,
    /// True for the first change of the page, which makes it.
    pub first: bool,
}

/// What the suite must know of the engine whose pages a store holds.
pub trait Format: Send + Sync {
    /// Encoded log groups of a database, one for each item, with that LSN and those changes. What
    /// a change does may depend on LSN and page only.
    fn groups(&self, db: DbId, groups: &[(Lsn, Vec<Touch>)]) -> Bytes;

    /// The page after the changes with these LSNs, the first of which makes it.
    fn page(&self, db: DbId, page: PageId, changes: &[Lsn]) -> Bytes;
}

/// Runs every case against `store`, which must not know the databases `first_db..first_db + 32`.
///
/// # Panics
/// If the store does not behave as [`PageStore`] says.
pub async fn run(store: &dyn PageStore, format: &dyn Format, first_db: u32) {
    cases::run(store, format, first_db).await;
}
