//! Transactions: read views, undo, and the durable record of who is unfinished.

mod registry;
pub(crate) mod system;
pub(crate) mod undo;
mod view;

pub use registry::{LsnPin, Registry};
pub use view::ReadView;
