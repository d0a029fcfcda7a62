//! What can go wrong with descriptors, pages and batches.

use perigee_expr::EvalError;
use perigee_types::PageId;

/// Why near-data processing did not give a result.
///
/// A Page Store declines on every one of these; a frontend turns them into its own errors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NdpError {
    /// The descriptor, filter or join table is of a version this program does not know: the store declines, the
    /// frontend does the work itself.
    #[error("NDP descriptor, filter or join table version {found} is unknown, {known} is known")]
    UnknownVersion {
        /// Version of it.
        found: u8,
        /// Greatest version this program takes.
        known: u8,
    },
    /// The descriptor is malformed or asks for something that storage does not do.
    #[error("NDP descriptor: {what}")]
    Descriptor {
        /// What is wrong with it.
        what: String,
    },
    /// The run-time filter is malformed, or over other columns than the records have: it is left out.
    #[error("NDP filter: {what}")]
    Filter {
        /// What is wrong with it.
        what: String,
    },
    /// The join table is malformed, is not the one that the descriptor names, or is not there: the pages are declined.
    #[error("NDP join table: {what}")]
    JoinTable {
        /// What is wrong with it.
        what: String,
    },
    /// The page is not a leaf of the index and layout that the descriptor describes, or broken.
    #[error("{page}: {what}")]
    Page {
        /// Id the page claims.
        page: PageId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The batch is malformed, or belongs to another descriptor.
    #[error("NDP batch: {what}")]
    Batch {
        /// What is wrong with it.
        what: String,
    },
    /// The batch of an execution has no room for more: take it first.
    #[error("NDP batch is full")]
    Full,
    /// Evaluating an expression over a visible record is an error. Only the frontend raises it.
    #[error(transparent)]
    Evaluation(#[from] EvalError),
}
