//! The log group: what a mini-transaction writes, applied and made visible as a whole.

use perigee_types::{Lsn, PageId};

use crate::Op;

/// The operations of one group on one page, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The page.
    pub page: PageId,
    /// Applied in this order; then the page's LSN becomes the group's.
    pub ops: Vec<Op>,
}

impl Change {
    /// True if what the page was before does not matter.
    #[must_use]
    pub fn formats(&self) -> bool {
        matches!(self.ops.first(), Some(Op::Format { .. }))
    }

    /// True if the page has no content after it.
    #[must_use]
    pub fn frees(&self) -> bool {
        matches!(self.ops.last(), Some(Op::Free))
    }
}

/// A mini-transaction's log: the atomic unit of page changes, for example a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its LSN, which every page it changes carries afterwards.
    pub lsn: Lsn,
    /// Changes; each page occurs at most once.
    pub changes: Vec<Change>,
}

impl Group {
    /// The part of the group that touches pages for which `keep` holds, or `None` if there is
    /// none: what one slice receives.
    #[must_use]
    pub fn restrict(&self, keep: impl Fn(PageId) -> bool) -> Option<Self> {
        let changes: Vec<_> = self
            .changes
            .iter()
            .filter(|c| keep(c.page))
            .cloned()
            .collect();
        (!changes.is_empty()).then_some(Self {
            lsn: self.lsn,
            changes,
        })
    }

    /// The group as text, one line an operation.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut out = format!("{}\n", self.lsn);
        for change in &self.changes {
            for op in &change.ops {
                out.push_str(&format!("  {}: {}\n", change.page, op.dump()));
            }
        }
        out
    }
}
