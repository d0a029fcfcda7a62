//! The join of a scan: what its descriptor says of it, and the table that goes along with each batch read.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use perigee_ndp::{Join, JoinTable};
use perigee_sal::SentFilter;

/// A join with a table. The rows of the scan are joined ones, wherever its pages are worked on.
#[derive(Clone)]
pub struct ScanJoin {
    pub(super) join: Join,
    pub(super) table: Arc<JoinTable>,
    /// The table on its way to the Page Stores, as run-time filters go there.
    pub(super) sent: Arc<SentFilter>,
}

impl ScanJoin {
    /// A join with a table that has this wire form.
    #[must_use]
    pub fn new(join: Join, table: JoinTable, content: Bytes) -> Self {
        let join = Join {
            table: table.name(),
            ..join
        };
        Self {
            join,
            table: Arc::new(table),
            sent: Arc::new(SentFilter::new(content)),
        }
    }
}

impl fmt::Debug for ScanJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, rows) = (self.join.kind, self.table.len());
        write!(f, "{kind:?} join with {rows} rows")
    }
}
