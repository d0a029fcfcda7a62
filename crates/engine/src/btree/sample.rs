//! Some leaves from all over a tree, and how many there are.

use perigee_types::{Lsn, PageId};

use super::descend::Stop;
use super::{BatchRequest, KeySpan, Tree};
use crate::EngineError;
use crate::buffer::{Access, Page, PageLoad};

/// Leaves at some places of a tree.
#[derive(Debug)]
pub(crate) struct SampledLeaves {
    /// The leaves.
    pub leaves: Vec<PageLoad>,
    /// For each, how many leaves the tree has if all its pages are as wide as those on the way to
    /// it: the average over places that are chosen at random is the number of leaves.
    pub widths: Vec<f64>,
}

/// Some leaves of a part of a tree.
#[derive(Debug)]
pub(crate) struct ChosenLeaves<P> {
    /// As of it, they hold what was there under the latch.
    pub lsn: Lsn,
    /// What pins it.
    pub _pin: P,
    /// The leaves in the order of their keys, with the pages of those that are in the pool.
    pub leaves: Vec<(PageId, Option<Page>)>,
}

impl Tree {
    /// At most so many leaves of a part of the tree, spread evenly over it. `pin` is as for
    /// [`Tree::leaf_batch`].
    ///
    /// # Errors
    /// What storage says.
    pub(crate) async fn leaves_of<P>(
        &self,
        span: &KeySpan,
        most: usize,
        mut pin: impl FnMut() -> (Lsn, P),
    ) -> Result<ChosenLeaves<P>, EngineError> {
        self.run(|| {
            let _tree = self.latch.read();
            let (from, to) = self.places_of(span);
            let mut pages = Vec::with_capacity(most);
            for part in 0..most {
                let place = (part as f64 + within_part(part)) / most as f64;
                pages.push(self.leaf_at(from + (to - from) * place)?.0);
            }
            pages.dedup();
            let (lsn, pin) = pin();
            let state = |page: PageId| {
                let frame = self.pool.get_resident(page, Access::Scan);
                (page, frame.map(|frame| frame.page()))
            };
            Ok(ChosenLeaves {
                lsn,
                _pin: pin,
                leaves: pages.into_iter().map(state).collect(),
            })
        })
        .await
    }

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

/// A place in a part of a tree, another one in each, so that nothing which repeats itself is always met at the same
/// point.
pub(crate) fn within_part(part: usize) -> f64 {
    (part as f64 * 0.618_033_988_749_895).fract()
}
