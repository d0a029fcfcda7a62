//! A shard of the pool: the frames whose page ids hash to it, and which of them goes next.
//!
//! Frames wait in two queues. A new page joins *old*. At the end of *old*, a page that was used
//! again (by other than a scan) moves to *young*; one that was not is evicted. *Young* gives its
//! front to *old* when *old* gets short. So a scan, whose pages are used once, passes through *old*
//! and leaves *young* alone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use perigee_sal::Sal;
use perigee_types::{IndexId, PageId};
use rustc_hash::FxHashMap;

use super::Frame;

/// *Old* is kept at 3/8 of the frames, as in InnoDB.
const OLD_SHARE: (usize, usize) = (3, 8);

/// Frames looked at for one eviction. If all of them are pinned or dirty, the pool exceeds its
/// capacity for a while, and writers wait.
const TRIES: usize = 64;

/// A shard.
#[derive(Default)]
pub(super) struct Shard {
    pub frames: FxHashMap<PageId, Arc<Frame>>,
    pub capacity: usize,
    old: VecDeque<PageId>,
    young: VecDeque<PageId>,
    per_index: HashMap<IndexId, usize>,
}

impl Shard {
    /// An empty shard for `capacity` frames.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    /// Adds a frame, evicting others if the shard is full but for what is `lent`. Returns how many it
    /// evicted.
    pub fn insert(&mut self, frame: Arc<Frame>, lent: usize, sal: &Sal) -> usize {
        let evicted = self.shrink(self.capacity.saturating_sub(1 + lent), sal);
        let (id, index) = (frame.id(), frame.index());
        let before = self.frames.insert(id, frame);
        assert!(before.is_none(), "{id} is in the pool twice");
        self.old.push_back(id);
        *self.per_index.entry(index).or_default() += 1;
        evicted
    }

    /// Evicts frames until `target` are left, if it can. Returns how many.
    pub fn shrink(&mut self, target: usize, sal: &Sal) -> usize {
        let mut evicted = 0;
        while self.frames.len() > target && self.evict(sal) {
            evicted += 1;
        }
        evicted
    }

    /// Pages of an index.
    pub fn resident(&self, index: IndexId) -> usize {
        self.per_index.get(&index).copied().unwrap_or(0)
    }

    fn evict(&mut self, sal: &Sal) -> bool {
        let (part, of) = OLD_SHARE;
        for _ in 0..TRIES {
            if self.old.len() * of < self.frames.len() * part
                && let Some(id) = self.young.pop_front()
            {
                let used = self.frames[&id].take_reference();
                if used { &mut self.young } else { &mut self.old }.push_back(id);
                continue;
            }
            let Some(id) = self.old.pop_front() else {
                continue;
            };
            let frame = &self.frames[&id];
            if frame.take_reference() {
                self.young.push_back(id);
            } else if Arc::strong_count(frame) > 1 || frame.newest() > sal.persistent_lsn_of(id) {
                self.old.push_back(id);
            } else {
                self.remove(id);
                return true;
            }
        }
        false
    }

    /// Takes a page out that need not stay, whoever has it; false if it is not there.
    pub fn take_out(&mut self, id: PageId) -> bool {
        if !self.frames.contains_key(&id) {
            return false;
        }
        // Few pages are taken out, most of them soon after they came.
        for queue in [&mut self.old, &mut self.young] {
            if let Some(at) = queue.iter().rposition(|queued| *queued == id) {
                queue.remove(at);
                break;
            }
        }
        self.remove(id);
        true
    }

    fn remove(&mut self, id: PageId) {
        let frame = self
            .frames
            .remove(&id)
            .expect("queues name frames of the shard");
        let pages = self
            .per_index
            .get_mut(&frame.index())
            .expect("counted when inserted");
        *pages -= 1;
        if *pages == 0 {
            self.per_index.remove(&frame.index());
        }
    }
}
