//! Which transactions are running, who waits for whom, which views are open and which reads are
//! under way: the source of read views, of the purge limit and of the recycle LSN.
//!
//! Transactions that end are numbered in that order. A view knows how many had ended when it was
//! made; what ended before *every* open view was made is visible to all of them, and its undo can
//! be purged (invariant U1).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use perigee_types::{Lsn, TrxId};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use super::ReadView;
use super::figures::{Counters, TransactionFigures};
use super::segment::Position;
use crate::EngineError;
use crate::scan::CancelToken;

/// How often a wait for a lock looks whether its statement was stopped.
const CANCEL_LOOK: Duration = Duration::from_millis(20);

/// Who holds locks and waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// A transaction.
    Transaction(TrxId),
    /// A statement that changes definitions.
    Change(u64),
}

/// Who wants a lock, and for whom: a transaction of a session that has locked tables waits as both of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeker {
    pub party: Party,
    /// What the session has locked tables with.
    pub ally: Option<Party>,
}

impl Seeker {
    /// True if what a party holds does not stand in the way.
    pub fn is(self, party: Party) -> bool {
        self.party == party || self.ally == Some(party)
    }

    fn parties(self) -> impl Iterator<Item = Party> {
        std::iter::once(self.party).chain(self.ally)
    }
}

impl From<Party> for Seeker {
    fn from(party: Party) -> Self {
        Self { party, ally: None }
    }
}

impl From<TrxId> for Seeker {
    fn from(trx: TrxId) -> Self {
        Party::from(trx).into()
    }
}

impl From<TrxId> for Party {
    fn from(trx: TrxId) -> Self {
        Self::Transaction(trx)
    }
}

/// The running transactions, open views, and the LSNs that running reads need.
#[derive(Debug)]
pub struct Registry {
    state: Mutex<State>,
    /// No transaction below this id is running; may lag behind.
    oldest_active: AtomicU64,
    /// Told when history can be purged.
    pub(super) purge: Notify,
    pub(super) counters: Counters,
}

#[derive(Debug)]
struct State {
    next: TrxId,
    active: BTreeSet<TrxId>,
    /// How many transactions have ended.
    ended: u64,
    /// Open views: how many transactions had ended, a serial number; what is known of their owners.
    views: BTreeMap<(u64, u64), (ViewOwner, ReadView)>,
    next_view: u64,
    /// What ended transactions left to be purged, in the order in which they ended.
    history: VecDeque<History>,
    /// The running changes of definitions.
    changes: HashSet<u64>,
    next_change: u64,
    /// For each one who waits, whom it waits for; several if it does several things at once.
    waits: HashMap<Party, Vec<Party>>,
    /// Who is to be told when somebody ends.
    waiters: HashMap<Party, Vec<oneshot::Sender<()>>>,
    pins: BTreeMap<Lsn, usize>,
}

/// Who opened a view.
#[derive(Clone, Copy, Debug)]
pub struct ViewOwner {
    /// The connection, 0 if none.
    pub connection: u64,
    /// When.
    pub since: Instant,
}

/// The undo that an ended transaction left.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    /// Its number in the order of ends.
    pub number: u64,
    /// The segment.
    pub slot: usize,
    /// Where its undo ends; it begins where what the segment had before ends.
    pub end: Position,
    /// False if nothing in it needs purging: the undo is only passed over.
    pub work: bool,
}

/// An open view; purge keeps what it needs as long as it lives.
#[derive(Debug)]
pub struct OpenView {
    registry: Arc<Registry>,
    key: (u64, u64),
}

impl Registry {
    /// A registry in which `next` is the id of the next transaction and `active` are still to be
    /// rolled back.
    #[must_use]
    pub fn new(next: TrxId, active: impl IntoIterator<Item = TrxId>) -> Arc<Self> {
        let active: BTreeSet<_> = active.into_iter().collect();
        let oldest = active.first().copied().unwrap_or(next);
        let state = State {
            next,
            active,
            ended: 1,
            views: BTreeMap::new(),
            next_view: 0,
            history: VecDeque::new(),
            changes: HashSet::new(),
            next_change: 0,
            waits: HashMap::new(),
            waiters: HashMap::new(),
            pins: BTreeMap::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            oldest_active: AtomicU64::new(oldest.0),
            purge: Notify::new(),
            counters: Counters::default(),
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

    /// Ends a transaction: its changes, if any are left, are visible to views made from now on, and
    /// who waits for it goes on.
    pub fn end(&self, trx: TrxId) {
        self.end_with(trx, None);
    }

    /// As [`Registry::end`], for a transaction that leaves undo: segment, end, and whether there is
    /// anything to purge.
    pub(super) fn end_with(&self, trx: TrxId, undo: Option<(usize, Position, bool)>) {
        let mut state = self.state.lock();
        assert!(state.active.remove(&trx), "{trx} ends twice");
        let number = state.ended;
        state.ended += 1;
        if let Some((slot, end, work)) = undo {
            state.history.push_back(History {
                number,
                slot,
                end,
                work,
            });
        }
        let oldest = state.active.first().copied().unwrap_or(state.next);
        self.oldest_active.store(oldest.0, Ordering::Release);
        let waiters = state.waiters.remove(&trx.into());
        drop(state);
        tell(waiters);
        if undo.is_some() {
            self.purge.notify_one();
        }
    }

    /// Begins a change of definitions; returns its number.
    pub(crate) fn begin_change(&self) -> u64 {
        let mut state = self.state.lock();
        let number = state.next_change;
        state.next_change += 1;
        state.changes.insert(number);
        number
    }

    /// Ends a change of definitions: who waits for it goes on.
    pub(crate) fn end_change(&self, number: u64) {
        let ended = self.state.lock().changes.remove(&number);
        assert!(ended, "a change of definitions ends twice");
        self.wake(Party::Change(number));
    }

    /// Has those who wait for somebody look again.
    pub(crate) fn wake(&self, party: Party) {
        let waiters = self.state.lock().waiters.remove(&party);
        tell(waiters);
    }

    /// True if a transaction is running, or unfinished since a crash.
    #[must_use]
    pub fn is_active(&self, trx: TrxId) -> bool {
        // What is below was never below and active again.
        trx.0 >= self.oldest_active.load(Ordering::Acquire)
            && self.state.lock().active.contains(&trx)
    }

    /// False if neither this transaction nor an older one is running. Cheaper than
    /// [`Registry::is_active`].
    #[must_use]
    pub fn may_be_active(&self, trx: TrxId) -> bool {
        trx.0 >= self.oldest_active.load(Ordering::Acquire)
    }

    /// A view of what has committed, and of the changes of `own`.
    #[must_use]
    pub fn view(self: &Arc<Self>, own: Option<TrxId>, connection: u64) -> ReadView {
        let mut state = self.state.lock();
        let view = ReadView::new(state.active.iter().copied().collect(), state.next, own);
        let key = (state.ended, state.next_view);
        state.next_view += 1;
        let since = Instant::now();
        let owner = ViewOwner { connection, since };
        state.views.insert(key, (owner, view.clone()));
        drop(state);
        view.registered(OpenView {
            registry: self.clone(),
            key,
        })
    }

    /// Undo that everybody has no more use for, the oldest first; at most `most` transactions'.
    pub(super) fn purgeable(&self, most: usize) -> Vec<History> {
        let mut state = self.state.lock();
        let limit = state
            .views
            .keys()
            .next()
            .map_or(state.ended, |(ended, _)| *ended);
        let mut taken = Vec::new();
        while taken.len() < most
            && state.history.front().is_some_and(|h| h.number < limit)
            && let Some(history) = state.history.pop_front()
        {
            taken.push(history);
        }
        taken
    }

    /// How many ended transactions wait to be purged, and who keeps the oldest view.
    #[must_use]
    pub fn history(&self) -> (usize, Option<ViewOwner>) {
        let state = self.state.lock();
        let oldest = state.views.values().next();
        (state.history.len(), oldest.map(|(owner, _)| *owner))
    }

    /// What became of transactions, and which there are.
    #[must_use]
    pub fn figures(&self) -> TransactionFigures {
        let state = self.state.lock();
        let oldest = state.views.values().next();
        TransactionFigures {
            active: state.active.len(),
            views: state.views.len(),
            oldest_view: oldest.map_or(Duration::ZERO, |(owner, _)| owner.since.elapsed()),
            history: state.history.len(),
            ..self.counters.figures()
        }
    }

    /// The view of which purge takes the undo: what it sees, every open view sees, and every one
    /// that will be opened. It is not registered itself.
    pub(super) fn purge_view(&self) -> ReadView {
        let state = self.state.lock();
        match state.views.values().next() {
            Some((_, view)) => view.without_own(),
            None => ReadView::new(state.active.iter().copied().collect(), state.next, None),
        }
    }

    /// Waits until `holder` has ended, or until those who wait for it are to look again.
    ///
    /// # Errors
    /// [`EngineError::Deadlock`] if `holder` waits for `waiter`, directly or through others;
    /// [`EngineError::LockTimeout`] after the deadline; [`EngineError::Cancelled`].
    pub(crate) async fn wait_for(
        &self,
        waiter: impl Into<Seeker>,
        holder: impl Into<Party>,
        deadline: Instant,
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        let (waiter, holder) = (waiter.into(), holder.into());
        let started = self.start_waiting(waiter, holder);
        let started = started.inspect_err(|_| self.counters.deadlock());
        let Some(mut ended) = started? else {
            return Ok(());
        };
        self.counters.waits();
        let _waiting = Waiting {
            registry: self,
            waiter,
            holder,
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match timeout(left.min(CANCEL_LOOK), &mut ended).await {
                Ok(_) => return Ok(()),
                Err(_) if cancel.is_cancelled() => return Err(EngineError::Cancelled),
                Err(_) if left.is_zero() => {
                    self.counters.timeout();
                    return Err(EngineError::LockTimeout);
                }
                Err(_) => {}
            }
        }
    }

    /// What tells of the end of `holder`; `None` if it has ended.
    fn start_waiting(
        &self,
        waiter: Seeker,
        holder: Party,
    ) -> Result<Option<oneshot::Receiver<()>>, EngineError> {
        let mut state = self.state.lock();
        let runs = match holder {
            Party::Transaction(trx) => state.active.contains(&trx),
            Party::Change(number) => state.changes.contains(&number),
        };
        if !runs {
            return Ok(None);
        }
        if waiter.parties().any(|own| state.waits_for(holder, own)) {
            return Err(EngineError::Deadlock);
        }
        let (tell, ended) = oneshot::channel();
        state.waiters.entry(holder).or_default().push(tell);
        for own in waiter.parties() {
            state.waits.entry(own).or_default().push(holder);
        }
        Ok(Some(ended))
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

impl State {
    /// True if `from` is `to`, or waits for it, directly or through others.
    fn waits_for(&self, from: Party, to: Party) -> bool {
        // There is no circle yet, so this ends.
        let mut next = vec![from];
        while let Some(party) = next.pop() {
            if party == to {
                return true;
            }
            next.extend(self.waits.get(&party).into_iter().flatten());
        }
        false
    }
}

/// Tells those who wait; some may have gone.
fn tell(waiters: Option<Vec<oneshot::Sender<()>>>) {
    for waiter in waiters.into_iter().flatten() {
        let _ = waiter.send(());
    }
}

/// A wait under way; also one that is dropped in the middle is over.
struct Waiting<'r> {
    registry: &'r Registry,
    waiter: Seeker,
    holder: Party,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.registry.state.lock();
        for own in self.waiter.parties() {
            let waits = state.waits.get_mut(&own);
            let waits = waits.expect("noted when the wait began");
            let at = waits.iter().position(|holder| *holder == self.holder);
            waits.swap_remove(at.expect("noted when the wait began"));
            if waits.is_empty() {
                state.waits.remove(&own);
            }
        }
    }
}

impl Drop for OpenView {
    fn drop(&mut self) {
        let mut state = self.registry.state.lock();
        let oldest = state.views.first_key_value().map(|(key, _)| *key);
        state.views.remove(&self.key);
        if oldest == Some(self.key) && !state.history.is_empty() {
            self.registry.purge.notify_one();
        }
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
    use perigee_types::PageId;

    use super::*;

    const AT: Position = Position {
        page: PageId(9),
        offset: 100,
    };

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn views_follow_begin_and_end() {
        let registry = Registry::new(TrxId(10), [TrxId(4)]);
        let (a, b) = (registry.begin(), registry.begin());
        registry.end(a);
        let view = registry.view(Some(b), 0);
        assert!(view.sees(a) && view.sees(b) && !view.sees(TrxId(4)));
        assert!(!registry.view(None, 0).sees(b));
        assert_eq!(view.watermark(), TrxId(4));
        registry.end(TrxId(4));
        assert_eq!(registry.view(None, 0).watermark(), b);
        assert!(registry.is_active(b) && !registry.is_active(a) && !registry.is_active(TrxId(4)));
    }

    #[test]
    fn history_waits_for_views_that_do_not_see_it() {
        let registry = Registry::new(TrxId(1), []);
        let (a, b) = (registry.begin(), registry.begin());
        registry.end_with(a, Some((0, AT, true)));
        let view = registry.view(None, 7);
        // Another transaction runs on, the view is what counts.
        registry.end_with(b, Some((1, AT, true)));
        let slots = |h: Vec<History>| h.iter().map(|h| h.slot).collect::<Vec<_>>();
        assert_eq!(slots(registry.purgeable(9)), [0]);
        assert!(registry.purgeable(9).is_empty());
        let owner = registry.history().1.expect("a view is open");
        assert_eq!((registry.history().0, owner.connection), (1, 7));
        let figures = registry.figures();
        assert_eq!((figures.history, figures.views, figures.active), (1, 1, 0));
        let copy = view.of(TrxId(9));
        drop(view);
        assert!(registry.purgeable(9).is_empty());
        drop(copy);
        assert_eq!(slots(registry.purgeable(9)), [1]);
    }

    #[tokio::test]
    async fn waits_end_with_the_holder_or_the_deadline() {
        let registry = Registry::new(TrxId(1), []);
        let (a, b) = (registry.begin(), registry.begin());
        let cancel = CancelToken::new();
        let late = registry.wait_for(a, b, soon(), &cancel).await;
        assert!(matches!(late, Err(EngineError::LockTimeout)));
        let (waited, ()) = tokio::join!(
            registry.wait_for(a, b, soon() + Duration::from_secs(9), &cancel),
            async { registry.end(b) }
        );
        waited.expect("b has ended");
        registry
            .wait_for(a, b, soon(), &cancel)
            .await
            .expect("b had ended");
        let figures = registry.figures();
        assert_eq!((figures.lock_waits, figures.lock_timeouts), (2, 1));
        assert_eq!(figures.deadlocks, 0);
    }

    #[tokio::test]
    async fn a_circle_of_waits_is_a_deadlock() {
        let registry = Registry::new(TrxId(1), []);
        let (a, b, c) = (registry.begin(), registry.begin(), registry.begin());
        let cancel = CancelToken::new();
        let far = soon() + Duration::from_secs(9);
        let (first, second, third) = tokio::join!(
            registry.wait_for(a, b, far, &cancel),
            registry.wait_for(b, c, far, &cancel),
            async {
                let circle = registry.wait_for(c, a, far, &cancel).await;
                registry.end(c);
                registry.end(b);
                circle
            }
        );
        assert!(first.is_ok() && second.is_ok());
        assert!(matches!(third, Err(EngineError::Deadlock)));
        let figures = registry.figures();
        assert_eq!((figures.lock_waits, figures.deadlocks), (2, 1));
        assert_eq!((figures.lock_timeouts, figures.active), (0, 1));
    }

    #[tokio::test]
    async fn circles_go_through_changes_of_definitions_and_several_waits_of_one() {
        let registry = Registry::new(TrxId(1), []);
        let (a, b, c) = (registry.begin(), registry.begin(), registry.begin());
        let change = registry.begin_change();
        let cancel = CancelToken::new();
        let far = soon() + Duration::from_secs(9);
        let (first, second, third, fourth) = tokio::join!(
            registry.wait_for(a, c, far, &cancel),
            registry.wait_for(a, Party::Change(change), far, &cancel),
            registry.wait_for(Party::Change(change), b, far, &cancel),
            async {
                let circle = registry.wait_for(b, a, far, &cancel).await;
                registry.end(b);
                registry.end_change(change);
                registry.wake(Party::Transaction(c));
                circle
            }
        );
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert!(matches!(fourth, Err(EngineError::Deadlock)));
        let late = registry.wait_for(a, Party::Change(change), soon(), &cancel);
        late.await.expect("it has ended");
        assert!(registry.state.lock().waits.is_empty());
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
