//! How large a tree is, from some of its pages, and how much of it a range covers, from those that are
//! in the pool.

use perigee_page::PageRef;

use super::descend::Stop;
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::Access;

/// Descents that tell of a tree's size.
const DESCENTS: u32 = 8;

/// About how large a tree is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Records in its leaves, those with a delete mark among them.
    pub records: u64,
    /// Leaf pages.
    pub leaf_pages: u64,
}

impl Tree {
    /// About how large the tree is: from how many records the pages of a level have on average, on
    /// some ways down to leaves all over the tree. Exact for a tree of one page.
    ///
    /// # Errors
    /// What storage says.
    pub async fn estimate_size(&self) -> Result<TreeSize, EngineError> {
        let mut widths: Vec<Vec<f64>> = Vec::new();
        for part in 0..DESCENTS {
            let way = self.run(|| self.way_down(part)).await?;
            // One from before the root got a page above it does not count.
            if widths.is_empty() || widths[0].len() == way.len() {
                widths.push(way);
            }
        }
        let levels = widths[0].len();
        let average = |level: usize| {
            let sum: f64 = widths.iter().map(|way| way[level]).sum();
            sum / widths.len() as f64
        };
        let leaf_pages: f64 = (0..levels - 1).map(average).product();
        Ok(TreeSize {
            records: (leaf_pages * average(levels - 1)).round() as u64,
            leaf_pages: leaf_pages.round() as u64,
        })
    }

    /// How many records the pages have on one of several ways down, the root first.
    fn way_down(&self, part: u32) -> Result<Vec<f64>, Stop> {
        let _tree = self.latch.read();
        let mut widths = Vec::new();
        let mut next = Some(self.spec.root);
        while let Some(id) = next {
            let frame = self.resident(id, Access::Scan)?;
            next = frame.read(|page| {
                let count = page.slot_count();
                widths.push(f64::from(count));
                let slot = u32::from(count) * (2 * part + 1) / (2 * DESCENTS);
                (page.level() > 0 && count > 0).then(|| page.child(slot as u16))
            });
        }
        Ok(widths)
    }

    /// Share of the tree's records with keys in `span`, 0 to 1: as exact as the inner pages that
    /// are in the pool allow, taking pages of one level to be equally large. A range within one
    /// page that is not in the pool comes out as 0.
    #[must_use]
    pub fn estimate_share(&self, span: &KeySpan) -> f64 {
        let _tree = self.latch.read();
        let (lower, upper) = self.places_of(span);
        (upper - lower).max(0.0)
    }

    /// Where a span begins and ends, 0 to 1 from the first record of the tree to the last. The caller holds the
    /// tree latch.
    pub(super) fn places_of(&self, span: &KeySpan) -> (f64, f64) {
        let upper = span.upper.as_ref();
        let upper = upper.map_or(1.0, |upper| self.position(upper));
        let lower = match span.lower.is_empty() {
            true => 0.0,
            false => self.position(&span.lower),
        };
        (lower, upper)
    }

    /// Share of the tree's records with keys below `key`. The caller holds the tree latch.
    fn position(&self, key: &[u8]) -> f64 {
        let (mut position, mut width) = (0.0, 1.0);
        let mut next = Some(self.spec.root);
        while let Some(frame) = next.and_then(|id| self.pool.get_resident(id, Access::Scan)) {
            next = frame.read(|page: PageRef<'_>| {
                let leaf = page.level() == 0;
                if page.slot_count() == 0 {
                    return None;
                }
                let slot = if leaf {
                    page.lower_bound(key)
                } else {
                    page.child_slot(key)
                };
                let share = width / f64::from(page.slot_count());
                position += share * f64::from(slot);
                width = if leaf { 0.0 } else { share };
                (!leaf).then(|| page.child(slot))
            });
            if next.is_none() {
                break;
            }
        }
        position + width / 2.0
    }
}
