//! Who waits for which LSN to be durable. Each commit waits for its own; it is told when it is there,
//! and not of every other one before.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use perigee_types::Lsn;
use tokio::sync::oneshot;

/// Waits for LSNs, in their order.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By LSN and a number that tells waits for the same one apart.
    waits: BTreeMap<(Lsn, u64), oneshot::Sender<()>>,
    next: u64,
}

impl Waiters {
    /// A wait for `lsn`. It ends with an error if there is nothing to wait for any more.
    pub fn wait_for(&self, lsn: Lsn) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut state = self.0.lock();
        let key = (lsn, state.next);
        state.next += 1;
        state.waits.insert(key, tell);
        told
    }

    /// Everything up to `lsn` is there.
    pub fn reached(&self, lsn: Lsn) {
        let mut state = self.0.lock();
        let later = state.waits.split_off(&(lsn.next(), 0));
        let told = std::mem::replace(&mut state.waits, later);
        drop(state);
        // One that is no longer awaited is no matter.
        for tell in told.into_values() {
            let _ = tell.send(());
        }
    }

    /// Nothing more will come.
    pub fn give_up(&self) {
        self.0.lock().waits.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_in_the_order_of_lsns() {
        let waiters = Waiters::default();
        let mut waits: Vec<_> = [5, 3, 5, 9].map(|n| waiters.wait_for(Lsn(n))).into();
        let mut ended = || {
            waits
                .iter_mut()
                .map(|w| w.try_recv().is_ok())
                .collect::<Vec<_>>()
        };
        waiters.reached(Lsn(2));
        assert_eq!(ended(), [false; 4]);
        waiters.reached(Lsn(5));
        assert_eq!(ended(), [true, true, true, false]);
        waiters.give_up();
        assert_eq!(
            waits[3].try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        );
    }
}
