//! [`Descriptor`]: what a scan sends so that a Page Store can reduce pages (taurus-ndp section
//! IV.C.1). To everyone but this crate it is an untyped byte string.

use std::ops::Bound;

use perigee_expr::{AggregateFunction, Program};
use perigee_types::{DbId, IndexId, TrxId};
use perigee_value::RowLayout;

/// Aggregation of everything that passes the predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Grouping expressions; none for a scalar aggregate.
    pub group_by: Vec<Program>,
    /// Functions with their argument; `CountAll` has none.
    pub functions: Vec<(AggregateFunction, Option<Program>)>,
}

/// A range of encoded keys. The bounds are prefixes: an included upper bound takes in every key
/// that starts with it, an excluded lower bound leaves out every key that starts with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

/// What is to be done with the pages of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// Database of the pages.
    pub db: DbId,
    /// Index whose leaves are scanned.
    pub index: IndexId,
    /// Layout of the leaf records.
    pub layout: RowLayout,
    /// Keys outside are left out: the leaves at either end of a range scan have such keys.
    pub range: KeyRange,
    /// Records of a page are delivered in descending key order.
    pub reverse: bool,
    /// Columns of `layout` to deliver, in this order; meaningless with an aggregate.
    pub projection: Vec<u16>,
    /// A Bool program; records for which it is not true are left out.
    pub predicate: Option<Program>,
    /// Deliver partial aggregate states instead of rows.
    pub aggregate: Option<Aggregate>,
    /// Low watermark of the read view: transactions below it are visible, whatever they did.
    pub watermark: TrxId,
}

/// How programs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Compiled to machine code; what cannot be compiled is interpreted.
    Jit,
    /// Interpreted.
    Interpreter,
}

impl KeyRange {
    /// Every key.
    pub const ALL: Self = Self {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };
}

impl Descriptor {
    /// A scan of whole pages that delivers nothing but row counts; set the public fields for more.
    #[must_use]
    pub fn new(db: DbId, index: IndexId, layout: RowLayout, watermark: TrxId) -> Self {
        Self {
            db,
            index,
            layout,
            range: KeyRange::ALL,
            reverse: false,
            projection: Vec::new(),
            predicate: None,
            aggregate: None,
            watermark,
        }
    }
}
