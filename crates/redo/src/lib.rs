//! Redo: physiological operations on one page, grouped into mini-transactions.
//!
//! *Do = redo*: [`apply`] is the only function that changes a page. The frontend calls it to
//! perform a change and logs the same operation; the Page Store calls it to consolidate.
//! `docs/format/redo.md` describes the encoding.

mod apply;
mod codec;
mod group;
mod op;

pub use apply::{RedoError, apply, apply_change};
pub use group::{Change, Group};
pub use op::Op;
