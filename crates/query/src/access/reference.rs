//! What a statement says of a table that it reads.

use super::{IndexChoice, JoinPlace};

/// Separates the name of a table or of something that is computed and a number in names that DataFusion sees. The name of
/// a table cannot contain it.
pub const NUMBER_SEPARATOR: &str = "/@";

/// A reference to a table in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReference {
    /// Number of the SELECT it stands in, from 1, in order of the text.
    pub select: usize,
    /// The schema that the table lies in, of a temporary one that of its session.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Its name in the statement.
    pub alias: String,
    /// What a hint says about near-data processing.
    pub ndp_hint: Option<bool>,
    /// What a hint says about filters of joins.
    pub join_filter_hint: Option<bool>,
    /// What a hint says about joining it in storage.
    pub join_table_hint: Option<bool>,
    /// STRAIGHT_JOIN: it is joined in the order of FROM.
    pub straight: bool,
    /// Where hints want it in the order of joins.
    pub place: JoinPlace,
    /// What USE, FORCE and IGNORE INDEX leave of its indexes.
    pub indexes: IndexChoice,
}
