//! The catalog: schemas and tables, kept in pages like everything else, so that a frontend started
//! on an empty machine finds them.

mod def;
mod stats;
mod store;
mod table;

pub use def::{ColumnDef, IndexDef, TableDef};
pub use stats::{ColumnStats, TableStats};
pub(crate) use store::{CATALOG_ROOT, Catalog, catalog_shape};
pub use table::{HIDDEN_ROW_ID, Index, IndexRoot, MAX_INDEXES, Table};
