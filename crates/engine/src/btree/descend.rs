//! Going down from the root.

use std::sync::Arc;

use perigee_page::{PageKind, PageRef};
use perigee_types::PageId;

use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::{Access, Frame, Page};

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'k> {
    /// To the first leaf.
    First,
    /// To the last leaf.
    Last,
    /// To the leaf in which this key is or would be.
    At(&'k [u8]),
    /// To the leaf in which the greatest key below this one is or would be.
    Before(&'k [u8]),
}

/// A leaf as it is, and which keys can be in it.
#[derive(Clone, Debug)]
pub struct LeafView {
    /// The leaf.
    pub page: Page,
    /// Its keys are at or above this; `None` for the first leaf.
    pub low: Option<Vec<u8>>,
    /// Its keys are below this; `None` for the last leaf.
    pub high: Option<Vec<u8>>,
}

impl LeafView {
    /// True if a key is in the leaf if it is anywhere.
    #[must_use]
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.low.as_deref().is_none_or(|low| low <= key)
            && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// Why an attempt at an operation ends without a result.
#[derive(Debug)]
pub(super) enum Stop {
    /// It needs this page, which is not in the pool.
    Missing(PageId),
    /// What it saw has changed; it has to look again.
    Again,
    /// It fails.
    Failed(EngineError),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

/// The pages from the root down.
#[derive(Debug)]
pub(super) struct Path {
    /// Frames, the root first.
    pub frames: Vec<Arc<Frame>>,
    /// The slot taken on each of them but the last.
    pub slots: Vec<u16>,
    /// Bounds of the keys below the last page.
    pub low: Option<Vec<u8>>,
    pub high: Option<Vec<u8>>,
}

impl Path {
    /// The page that was gone to.
    pub fn last(&self) -> &Arc<Frame> {
        self.frames.last().expect("a path has a root")
    }

    /// The keys that can be below a slot of the last page.
    pub fn keys_at(&self, page: PageRef<'_>, slot: u16) -> KeySpan {
        let separator = |slot| page.key(slot).to_vec();
        KeySpan {
            lower: match slot {
                0 => self.low.clone().unwrap_or_default(),
                _ => separator(slot),
            },
            upper: match slot + 1 < page.slot_count() {
                true => Some(separator(slot + 1)),
                false => self.high.clone(),
            },
        }
    }
}

impl Target<'_> {
    pub(super) fn slot(self, page: PageRef<'_>) -> u16 {
        match self {
            Self::First => 0,
            Self::Last => page.slot_count() - 1,
            Self::At(key) => page.child_slot(key),
            Self::Before(key) => page.lower_bound(key).saturating_sub(1),
        }
    }
}

impl Tree {
    /// Goes down to the page at `level`, or to the root if that is lower. The caller holds the tree
    /// latch.
    pub(super) fn descend(&self, target: Target<'_>, level: u8) -> Result<Path, Stop> {
        let root = self.resident(self.spec.root, Access::Point)?;
        let mut path = Path {
            frames: vec![root],
            slots: Vec::new(),
            low: None,
            high: None,
        };
        let mut expected = None;
        loop {
            let frame = path.last().clone();
            let next = frame.read(|page| {
                self.check_page(page, expected)?;
                expected = page.level().checked_sub(1);
                if page.level() <= level {
                    return Ok(None);
                }
                if page.slot_count() == 0 {
                    return Err(self.corrupt(page.id(), "an inner page is empty"));
                }
                let slot = target.slot(page);
                path.slots.push(slot);
                if slot > 0 {
                    path.low = Some(page.key(slot).to_vec());
                }
                if slot + 1 < page.slot_count() {
                    path.high = Some(page.key(slot + 1).to_vec());
                }
                Ok(Some(page.child(slot)))
            })?;
            let Some(child) = next else { return Ok(path) };
            let access = if expected == Some(0) {
                Access::Scan
            } else {
                Access::Point
            };
            path.frames.push(self.resident(child, access)?);
        }
    }

    /// The leaf that `target` names. `access` says whether the leaf is likely to be used again.
    pub async fn leaf(&self, target: Target<'_>, access: Access) -> Result<LeafView, EngineError> {
        self.run(|| {
            let _tree = self.latch.read();
            let path = self.descend(target, 0)?;
            if access == Access::Point {
                path.last().reference();
            }
            Ok(LeafView {
                page: path.last().page(),
                low: path.low,
                high: path.high,
            })
        })
        .await
    }

    pub(super) fn resident(&self, page: PageId, access: Access) -> Result<Arc<Frame>, Stop> {
        self.pool
            .get_resident(page, access)
            .ok_or(Stop::Missing(page))
    }

    /// A page reached through the tree must be one of the tree's.
    pub(super) fn check_page(
        &self,
        page: PageRef<'_>,
        level: Option<u8>,
    ) -> Result<(), EngineError> {
        let kind = if page.level() == 0 {
            self.spec.kind
        } else {
            PageKind::Inner
        };
        if page.index() != self.spec.index || page.kind() != kind {
            let what = "a page of another index or kind is linked into the tree";
            return Err(self.corrupt(page.id(), what));
        }
        if level.is_some_and(|level| page.level() != level) {
            return Err(self.corrupt(page.id(), "a page is linked into the tree at another level"));
        }
        Ok(())
    }

    pub(super) fn corrupt(&self, page: PageId, what: &str) -> EngineError {
        EngineError::Corrupt(format!("{} {page}: {what}", self.spec.index))
    }
}
