//! Going over a short run of records under latches: no page is copied or kept, and nothing is
//! allocated on the way.
//!
//! The structure stands still while the tree latch is held, so that leaves are followed by their
//! links. A walk that misses a page lets go of everything, has the page read, and starts again.

use std::ops::ControlFlow;
use std::sync::Arc;

use perigee_page::PageRef;

use super::descend::{Stop, Target};
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::{Access, Frame};

/// Most leaves that a walk goes over. Longer ranges are for scans.
const MOST_LEAVES: usize = 16;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// All records of the span were visited, or the visitor said that it has enough.
    Enough,
    /// There are more leaves than a walk goes over.
    TooLong,
}

/// What a walk meets.
pub enum Visit<'a> {
    /// The walk begins; if it has begun before, that was in vain.
    Begin,
    /// The record at a slot of a leaf.
    Record(PageRef<'a>, u16),
}

/// Says whether the walk goes on.
pub(crate) type Visitor<'v> = dyn FnMut(Visit<'_>) -> ControlFlow<()> + Send + 'v;

impl Tree {
    /// Visits the records of a span in key order, under the latch of their leaf, until the visitor
    /// breaks off.
    pub(crate) async fn walk(
        &self,
        span: &KeySpan,
        visit: &mut Visitor<'_>,
    ) -> Result<Walked, EngineError> {
        if let Some(walked) = self.walk_resident(span, visit)? {
            return Ok(walked);
        }
        self.prefetch(std::slice::from_ref(span)).await?;
        self.run(|| self.attempt(span, visit)).await
    }

    /// As [`Tree::walk`] if all pages are in the pool; `None` if one is not.
    pub(crate) fn walk_resident(
        &self,
        span: &KeySpan,
        visit: &mut Visitor<'_>,
    ) -> Result<Option<Walked>, EngineError> {
        match self.attempt(span, visit) {
            Ok(walked) => Ok(Some(walked)),
            Err(Stop::Missing(_) | Stop::Again) => Ok(None),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn attempt(&self, span: &KeySpan, visit: &mut Visitor<'_>) -> Result<Walked, Stop> {
        if visit(Visit::Begin).is_break() || span.is_empty() {
            return Ok(Walked::Enough);
        }
        let _tree = self.latch.read();
        let mut leaf = self.leaf_of(&span.lower)?;
        for _ in 0..MOST_LEAVES {
            let next = leaf.read(|page| {
                let (slots, count) = (span.slots(page), page.slot_count());
                let end = slots.end;
                for slot in slots {
                    if visit(Visit::Record(page, slot)).is_break() {
                        return None;
                    }
                }
                // A span that ends before the page does goes on nowhere.
                page.next().filter(|_| end == count)
            });
            let Some(next) = next else {
                return Ok(Walked::Enough);
            };
            leaf = self.resident(next, Access::Point)?;
            leaf.read(|page| self.check_page(page, Some(0)))?;
        }
        Ok(Walked::TooLong)
    }

    /// The leaf in which a key is or would be. The caller holds the tree latch.
    fn leaf_of(&self, key: &[u8]) -> Result<Arc<Frame>, Stop> {
        let mut frame = self.resident(self.spec.root, Access::Point)?;
        let mut expected = None;
        loop {
            let child = frame.read(|page| {
                self.check_page(page, expected)?;
                expected = page.level().checked_sub(1);
                match (page.level(), page.slot_count()) {
                    (0, _) => Ok(None),
                    (_, 0) => Err(self.corrupt(page.id(), "an inner page is empty")),
                    _ => Ok(Some(page.child(Target::At(key).slot(page)))),
                }
            })?;
            match child {
                Some(child) => frame = self.resident(child, Access::Point)?,
                None => return Ok(frame),
            }
        }
    }
}
