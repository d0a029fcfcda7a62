//! How much of a tree a range covers, as far as the pages in the pool tell; no I/O.

use perigee_page::PageRef;

use super::{KeySpan, Tree};
use crate::buffer::Access;

impl Tree {
    /// Share of the tree's records with keys in `span`, 0 to 1: as exact as the inner pages that
    /// are in the pool allow, taking pages of one level to be equally large. A range within one
    /// page that is not in the pool comes out as 0.
    #[must_use]
    pub fn estimate_share(&self, span: &KeySpan) -> f64 {
        let _tree = self.latch.read();
        let upper = span
            .upper
            .as_ref()
            .map_or(1.0, |upper| self.position(upper));
        let lower = if span.lower.is_empty() {
            0.0
        } else {
            self.position(&span.lower)
        };
        (upper - lower).max(0.0)
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
