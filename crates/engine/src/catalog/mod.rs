//! The catalog: schemas, tables, views, procedures and the records of accounts, kept in pages like everything else, so that a frontend started
//! on an empty machine finds them; and temporary tables, which nobody finds after the process that made them.

mod constraint;
mod def;
mod histogram;
mod journal;
mod key;
mod numbers;
mod pieces;
mod references;
mod routine;
mod samples;
mod stats;
mod store;
mod table;
mod temporary;
mod trigger;
mod view;

pub use constraint::{Action, Check, ForeignKey};
pub use def::{AutoIncrement, ColumnDef, ColumnDefault, Generated, TableDef};
pub use histogram::{Bucket, Histogram, MAX_BUCKETS, STRING_BYTES};
pub(crate) use histogram::{compare, cut, kept};
pub(crate) use journal::Changes;
pub use key::{Descending, Hidden, IndexDef};
pub use numbers::{Numbers, Step, positive};
pub(crate) use references::References;
pub use routine::{RoutineDef, SqlAccess};
pub(crate) use samples::Answers;
pub use samples::Sample;
pub use stats::{ColumnStats, TableStats};
pub use store::AccountRecords;
pub(crate) use store::{
    CATALOG_ROOT, Catalog, Schemas, account_key, catalog_shape, decode_catalog, no_stats,
    number_key, routine_key, schema_key, stats_records, table_key, view_key,
};
pub use table::{HIDDEN_ROW_ID, Index, IndexRoot, MAX_INDEXES, Table};
pub(crate) use temporary::temporary_schema;
pub use temporary::{is_temporary_schema, shown_schema};
pub use trigger::{RowEvent, Timing, TriggerDef};
pub use view::{CheckOption, ViewAlgorithm, ViewDef};
