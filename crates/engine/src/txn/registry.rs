//! Which transactions are running, and which reads are: the source of read views and of the
//! recycle LSN.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_types::{Lsn, TrxId};

use super::ReadView;

/// The running transactions and the LSNs that running reads need.
#[derive(Debug)]
pub struct Registry {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: TrxId,
    active: BTreeSet<TrxId>,
    pins: BTreeMap<Lsn, usize>,
}

impl Registry {
    /// A registry in which `next` is the id of the next transaction and `active` are still to be
    /// rolled back.
    #[must_use]
    pub fn new(next: TrxId, active: impl IntoIterator<Item = TrxId>) -> Arc<Self> {
        let state = State {
            next,
            active: active.into_iter().collect(),
            pins: BTreeMap::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Hands out the id of a new transaction, which is active from now on.
    pub fn begin(&self) -> TrxId {
        let mut state = self.state.lock();
        let id = state.next;
        state.next = TrxId(id.0 + 1);
        state.active.insert(id);
        id
    }

    /// The id the next transaction will get.
    #[must_use]
    pub fn next(&self) -> TrxId {
        self.state.lock().next
    }

    /// Ends a transaction: its changes, if any are left, are visible to views made from now on.
    pub fn end(&self, trx: TrxId) {
        assert!(self.state.lock().active.remove(&trx), "{trx} ends twice");
    }

    /// A view of what has committed, and of the changes of `own`.
    #[must_use]
    pub fn view(&self, own: Option<TrxId>) -> ReadView {
        let state = self.state.lock();
        ReadView::new(state.active.iter().copied().collect(), state.next, own)
    }

    /// Keeps page versions as of the LSN that `now` gives readable until the pin is dropped (SPEC's
    /// N6). `now` is called under the lock under which the recycle LSN is chosen.
    #[must_use]
    pub fn pin(self: &Arc<Self>, now: impl FnOnce() -> Lsn) -> LsnPin {
        let mut state = self.state.lock();
        let lsn = now();
        *state.pins.entry(lsn).or_default() += 1;
        LsnPin {
            registry: self.clone(),
            lsn,
        }
    }

    /// The least LSN that a running read needs; what `otherwise` gives if none runs.
    #[must_use]
    pub fn oldest_pin(&self, otherwise: impl FnOnce() -> Lsn) -> Lsn {
        let state = self.state.lock();
        let otherwise = otherwise();
        state
            .pins
            .keys()
            .next()
            .map_or(otherwise, |lsn| (*lsn).min(otherwise))
    }
}

/// Holds the recycle LSN at or below an LSN as long as it lives (invariant P8).
#[derive(Debug)]
pub struct LsnPin {
    registry: Arc<Registry>,
    lsn: Lsn,
}

impl LsnPin {
    /// The LSN.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for LsnPin {
    fn drop(&mut self) {
        let mut state = self.registry.state.lock();
        let count = state
            .pins
            .get_mut(&self.lsn)
            .expect("P8: a pin is counted once");
        *count -= 1;
        if *count == 0 {
            state.pins.remove(&self.lsn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_follow_begin_and_end() {
        let registry = Registry::new(TrxId(10), [TrxId(4)]);
        let (a, b) = (registry.begin(), registry.begin());
        registry.end(a);
        let view = registry.view(Some(b));
        assert!(view.sees(a) && view.sees(b) && !view.sees(TrxId(4)));
        assert!(!registry.view(None).sees(b));
        assert_eq!(view.watermark(), TrxId(4));
        registry.end(TrxId(4));
        assert_eq!(registry.view(None).watermark(), b);
    }

    #[test]
    fn the_oldest_pin_wins() {
        let registry = Registry::new(TrxId(1), []);
        assert_eq!(registry.oldest_pin(|| Lsn(50)), Lsn(50));
        let (a, b, c) = (
            registry.pin(|| Lsn(7)),
            registry.pin(|| Lsn(7)),
            registry.pin(|| Lsn(9)),
        );
        drop(a);
        assert_eq!(registry.oldest_pin(|| Lsn(50)), Lsn(7));
        drop(b);
        assert_eq!(registry.oldest_pin(|| Lsn(50)), Lsn(9));
        drop(c);
        assert_eq!(registry.oldest_pin(|| Lsn(50)), Lsn(50));
    }
}
