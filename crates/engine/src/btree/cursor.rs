//! Going over the records of a range, forwards or backwards, leaf by leaf. Between two leaves
//! nothing is latched or remembered but the key to go on from, so splits and merges in between do no
//! harm.

use std::ops::Range;

use super::descend::Target;
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::{Access, Page};

/// Records of a leaf that lie in the range.
#[derive(Clone, Debug)]
pub struct LeafRun {
    /// The leaf as it was when the cursor came by.
    pub page: Page,
    /// The slots; a backward cursor means them from the last to the first.
    pub slots: Range<u16>,
}

/// A position in a range.
#[derive(Debug)]
pub struct Cursor {
    tree: Tree,
    rest: KeySpan,
    reverse: bool,
    access: Access,
}

impl Tree {
    /// A cursor over the records with keys in `span`.
    #[must_use]
    pub fn range(&self, span: KeySpan, reverse: bool, access: Access) -> Cursor {
        Cursor {
            tree: self.clone(),
            rest: span,
            reverse,
            access,
        }
    }

    /// The first record with a key in `span`: tells whether a key or a prefix exists.
    pub async fn first_in(&self, span: KeySpan) -> Result<Option<Vec<u8>>, EngineError> {
        let mut cursor = self.range(span, false, Access::Point);
        let run = cursor.next().await?;
        Ok(run.map(|run| run.page.get().record(run.slots.start).to_vec()))
    }
}

impl Cursor {
    /// The next leaf with records in the range, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<LeafRun>, EngineError> {
        while !self.rest.is_empty() {
            let target = match (self.reverse, &self.rest.upper) {
                (false, _) => Target::At(&self.rest.lower),
                (true, Some(upper)) => Target::Before(upper),
                (true, None) => Target::Last,
            };
            let leaf = self.tree.leaf(target, self.access).await?;
            let slots = self.rest.slots(leaf.page.get());
            let edge = if self.reverse { leaf.low } else { leaf.high };
            match edge {
                Some(low) if self.reverse => self.rest.upper = Some(low),
                Some(high) => self.rest.lower = high,
                None => self.rest.upper = Some(Vec::new()),
            }
            if !slots.is_empty() {
                return Ok(Some(LeafRun {
                    page: leaf.page,
                    slots,
                }));
            }
        }
        Ok(None)
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The range that is left.
    #[must_use]
    pub fn rest(&self) -> &KeySpan {
        &self.rest
    }
}
