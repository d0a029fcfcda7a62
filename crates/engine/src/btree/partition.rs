//! Cutting a range of keys into parts for the workers of a parallel scan, along separators of the
//! upper levels (SPEC's N15).

use super::descend::Stop;
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::Access;

/// Fewest leaves of a part: a batch read of fewer is not worth its round trip.
const LEAST_LEAVES: usize = 32;

/// Where a range can be cut, in key order; between two cuts lies a subtree.
struct Cuts {
    keys: Vec<Vec<u8>>,
    /// Whether the subtrees are leaves.
    leaves: bool,
}

impl Tree {
    /// Cuts a span into at most `most` parts, in key order, each with about as many pages: along
    /// the highest level of inner pages that has so many in the span, so that parts begin where
    /// batch reads do.
    pub async fn partition(
        &self,
        span: &KeySpan,
        most: usize,
    ) -> Result<Vec<KeySpan>, EngineError> {
        let cuts = self.run(|| self.cuts(span, most)).await?;
        let subtrees = cuts.keys.len() + 1;
        let worth = match cuts.leaves {
            true => subtrees.div_ceil(LEAST_LEAVES),
            false => subtrees,
        };
        let parts = most.min(worth).max(1);
        let cut = |part: usize| cuts.keys[subtrees * part / parts - 1].clone();
        Ok((0..parts)
            .map(|part| KeySpan {
                lower: match part {
                    0 => span.lower.clone(),
                    _ => cut(part),
                },
                upper: match part + 1 == parts {
                    true => span.upper.clone(),
                    false => Some(cut(part + 1)),
                },
            })
            .collect())
    }

    fn cuts(&self, span: &KeySpan, enough: usize) -> Result<Cuts, Stop> {
        let _tree = self.latch.read();
        let (mut pages, mut level) = (vec![self.spec.root], None);
        loop {
            let (mut keys, mut children) = (Vec::new(), Vec::new());
            for (place, page) in pages.iter().enumerate() {
                let frame = self.resident(*page, Access::Scan)?;
                level = frame.read(|page| {
                    self.check_page(page, level)?;
                    if page.level() > 0 {
                        let slots = span.child_slots(page);
                        children.extend(slots.clone().map(|slot| page.child(slot)));
                        // The span begins in the first subtree.
                        let starts = slots.skip(usize::from(place == 0));
                        keys.extend(starts.map(|slot| page.key(slot).to_vec()));
                    }
                    Ok::<_, EngineError>(Some(page.level()))
                })?;
            }
            match level {
                Some(2..) if keys.len() + 1 < enough => {
                    pages = children;
                    level = level.map(|level| level - 1);
                }
                _ => {
                    let leaves = level <= Some(1);
                    return Ok(Cuts { keys, leaves });
                }
            }
        }
    }
}
