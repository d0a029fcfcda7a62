//! Changes of definitions. Each is atomic: new trees are built beside the old ones, and one change
//! of the catalog puts them in their place. What a crash or an error before it leaves, and
//! the old ones, is freed ([`crate::space`]).
//!
//! Who changes a table holds its lock exclusively, from before its definition is looked at until the
//! change is made. Statements that resolved the table before find out when they take the lock
//! ([`crate::EngineError::TableChanged`]). Reads go on with what they have: trees that are replaced
//! stay as they are until the last of them has ended.

mod account;
mod alter;
mod build;
mod change;
mod fill;
mod foreign;
mod lock;
mod locked;
mod related;
mod routine;
mod schema;
mod temporary;
mod trigger;
mod view;

pub use alter::{Alteration, Complete, Holds, RowCheck, RowFill, Source};
pub use fill::NewTable;
pub use lock::{ExclusiveTable, TableLocker, TableName};
pub use locked::{DefinitionsInUse, LockedTables, LockedTablesId, TableLock};
pub use related::RelatedTables;
pub use temporary::TemporaryTables;
pub use trigger::Triggers;
