//! What every [`LogStore`] must do, as tests that run against any implementation: the store itself,
//! its client over a socket, and the reference model.
//!
//! Each case uses a database id of its own, so that they can share a store. They panic with the
//! name of what is wrong.

mod cases;
mod model;

pub use model::MemoryLogStore;

use crate::LogStore;

/// Runs every case against `store`, which must not know the databases `first_db..first_db + 32`.
///
/// # Panics
/// If the store does not behave as [`LogStore`] says.
pub async fn run(store: &dyn LogStore, first_db: u32) {
    cases::run(store, first_db).await;
}
