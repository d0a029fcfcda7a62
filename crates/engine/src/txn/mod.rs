//! Transactions: read views, undo, locks, row writes, rollback and purge.

mod current;
mod definition;
mod ending;
mod entries;
mod figures;
pub(crate) mod foreign;
mod locks;
mod long;
mod purge;
mod reach;
mod registry;
mod rollback;
mod segment;
pub(crate) mod system;
mod transaction;
mod undo;
mod version;
mod view;
mod write;

pub use figures::TransactionFigures;
pub use locks::{LockMode, LockWait, RangeLocker, RowLock};
pub use registry::{LsnPin, Registry};
pub use transaction::{Isolation, Savepoint, Suspended, Transaction, TransactionOptions};
pub use view::ReadView;
pub use write::{DuplicateRow, Written};

pub(crate) use current::{Lookup, look_up};
pub(crate) use definition::{DefinitionHold, DefinitionLock, TableUse};
pub(crate) use ending::Pauses;
pub(crate) use entries::{clustered_key, entry_of_version};
pub(crate) use locks::TableLocks;
pub(crate) use purge::{Leftover, find_history, purge_forever};
pub(crate) use reach::{chain_references, chains_in_undo, next_undo_page, undo_heads};
pub(crate) use registry::Party;
pub(crate) use rollback::{roll_back_in_time, roll_back_unfinished, separate_loads};
pub(crate) use segment::Segments;
pub(crate) use system::SYSTEM_PAGE;
pub(crate) use version::visible_version;
