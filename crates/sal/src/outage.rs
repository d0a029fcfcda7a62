//! Outages: what the layer waits for, because a store is away or its disk is full or failed.
//!
//! A write that a store does not take is repeated until the store takes it, however long that lasts;
//! nobody but the store can say what became of it. Meanwhile reads are served, and writers are
//! throttled when too much log waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::SalError;

/// An outage that lasts is logged again after this time.
const REMIND: Duration = Duration::from_secs(10);

/// A store that does not take what it is sent.
#[derive(Clone, Debug)]
pub struct Outage {
    /// What waits for the store: the log, or a slice.
    pub of: String,
    /// Since when.
    pub since: Instant,
    /// What the store, or its absence, says.
    pub error: SalError,
}

/// Where writes of one kind note the outage they meet.
#[derive(Debug)]
pub(crate) struct OutageWatch {
    of: String,
    /// True if there is an outage, so that writes need no lock without one.
    on: AtomicBool,
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    reminded: Instant,
    error: SalError,
}

impl OutageWatch {
    pub fn new(of: impl Into<String>) -> Self {
        Self {
            of: of.into(),
            on: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// An attempt failed.
    pub fn failed(&self, what: &str, error: SalError) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let (since, reminded) = match &*state {
            Some(state) => (state.since, state.reminded),
            None => (now, now),
        };
        let due = now - reminded >= REMIND;
        if due {
            let waited = (now - since).as_secs();
            tracing::warn!("{what}: {error}; trying again, for {waited} s already");
        }
        *state = Some(State {
            since,
            reminded: if due { now } else { reminded },
            error,
        });
        self.on.store(true, Ordering::Relaxed);
    }

    /// An attempt succeeded, or failed for good.
    pub fn over(&self) {
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        if let Some(state) = self.state.lock().take() {
            let lasted = state.since.elapsed();
            if lasted >= REMIND {
                tracing::info!("{} goes on after {} s", self.of, lasted.as_secs());
            }
        }
        self.on.store(false, Ordering::Relaxed);
    }

    /// The outage, if there is one.
    pub fn outage(&self) -> Option<Outage> {
        if !self.on.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.state.lock();
        state.as_ref().map(|state| Outage {
            of: self.of.clone(),
            since: state.since,
            error: state.error.clone(),
        })
    }
}
