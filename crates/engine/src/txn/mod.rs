//! Transactions: read views, undo, and the durable record of who is unfinished.

mod log;
mod registry;
mod slots;
pub(crate) mod system;
mod transaction;
pub(crate) mod undo;
mod view;

pub use registry::{LsnPin, Registry};
pub(crate) use slots::Slots;
pub use transaction::Transaction;
pub(crate) use transaction::roll_back_unfinished;
pub use view::ReadView;
