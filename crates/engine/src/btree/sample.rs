//! Some leaves from all over a tree, and how many there are.

use perigee_types::PageId;

use super::descend::Stop;
use super::{BatchRequest, KeySpan, Tree};
use crate::EngineError;
use crate::buffer::{Access, PageLoad};

/// Leaves at some places of a tree.
#[derive(Debug)]
pub(crate) struct SampledLeaves {
    /// The leaves.
    pub leaves: Vec<PageLoad>,
    /// For each, how many leaves the tree has if all its pages are as wide as those on the way to
    /// it: the average over places that are chosen at random is the number of leaves.
    pub widths: Vec<f64>,
}

impl Tree {
    /// The leaves at some places, each 0 to 1 from the first leaf to the last.
    ///
    /// # Errors
    /// What storage says.
    pub(crate) async fn leaves_at(&self, places: &[f64]) -> Result<SampledLeaves, EngineError> {
        self.run(|| {
            let _tree = self.latch.read();
            let ways = places.iter().map(|place| self.leaf_at(*place));
            let ways = ways.collect::<Result<Vec<_>, Stop>>()?;
            let (pages, widths): (Vec<PageId>, Vec<f64>) = ways.into_iter().unzip();
            // Under the tree latch: afterwards the ids may be those of other pages.
            let leaves = self.pool.load(&pages, Access::Scan);
            Ok(SampledLeaves { leaves, widths })
        })
        .await
    }

    /// The leaf at a place. The caller holds the tree latch.
    fn leaf_at(&self, mut place: f64) -> Result<(PageId, f64), Stop> {
        let (mut next, mut width) = (self.spec.root, 1.0);
        loop {
            let frame = self.resident(next, Access::Scan)?;
            let child = frame.read(|page| {
                self.check_page(page, None)?;
                let count = page.slot_count();
                match page.level() {
                    0 => return Ok(None),
                    _ if count == 0 => {
                        return Err(self.corrupt(page.id(), "an inner page is empty"));
                    }
                    _ => {}
                }
                let at = place * f64::from(count);
                let slot = (at as u16).min(count - 1);
                place = (at - f64::from(slot)).clamp(0.0, 1.0);
                width *= f64::from(count);
                Ok(Some((page.child(slot), page.level())))
            })?;
            match child {
                None => return Ok((next, width)),
                Some((leaf, 1)) => return Ok((leaf, width)),
                Some((inner, _)) => next = inner,
            }
        }
    }

    /// How many leaves the tree has, from the pages above them.
    ///
    /// # Errors
    /// What storage says.
    pub(crate) async fn count_leaves(&self) -> Result<u64, EngineError> {
        let mut rest = Some(KeySpan::all());
        let mut count = 0;
        while let Some(span) = rest {
            let request = BatchRequest {
                range: &span,
                span: &span,
                reverse: false,
                max_pages: usize::from(u16::MAX),
                load: false,
            };
            // The leaves are not read, so no version of them is needed.
            let no_pin = || (self.pool.sal().last_lsn(), ());
            let batch = self.leaf_batch(request, no_pin).await?;
            count += batch.leaves.len() as u64;
            rest = batch.rest;
        }
        Ok(count)
    }
}
