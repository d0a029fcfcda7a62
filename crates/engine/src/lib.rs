//! The storage engine inside a frontend: buffer pool, mini-transactions, B+-trees; on top of them
//! transactions, catalog, loads and scans.
//!
//! Everything is in pages, and pages are changed through the log (*the log is the database*): a
//! frontend has no files.
//!
//! [`Engine`] is the façade; SQL needs it, the types it takes and gives, and nothing below.

mod analyze;
pub mod btree;
pub mod buffer;
pub mod catalog;
mod crash;
mod ddl;
mod engine;
mod errand;
mod error;
mod few_values;
mod load;
pub mod mtr;
mod overflow;
mod prices;
mod refusal;
mod sample;
pub mod scan;
pub mod space;
pub mod txn;

/// What of near-data processing the façade's types mention.
pub mod ndp {
    pub use perigee_ndp::{
        Aggregate, Best, FILTER_VERSION, Filter, GroupMethod, Grouping, Join, JoinKind, JoinTable,
        JoinTableBuilder, KeyRange, KeySet, MAX_AGGREGATES, MAX_BEST, MAX_JOIN_COLUMNS,
        MAX_JOIN_TABLE_MEMORY, TableRefused, TopKeys, column_data_type, joins_column,
        value_data_type,
    };
}

pub use analyze::Analysis;
pub use ddl::{
    Alteration, Complete, DefinitionsInUse, ExclusiveTable, Holds, LockedTables, LockedTablesId,
    NewTable, RelatedTables, RowCheck, RowFill, Source, TableLock, TableLocker, TableName,
    TemporaryTables, Triggers,
};
pub use engine::{Engine, EngineConfig};
pub use errand::{Errand, freeing_space};
pub use error::EngineError;
pub use few_values::{FewValues, FewValuesOf};
pub use load::{BulkLoad, Chunk, Encoder};
pub use prices::{Prices, ReducedPrices, StoragePrices, WholePrices};
pub use refusal::{KeyName, Refusal};
pub use sample::{SampleHow, SampleOf};
