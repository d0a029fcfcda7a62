//! Throttling: how much log may wait, and who is refused when too much does. Memory for log is bounded
//! by it, whatever the stores do (SPEC's S4).

use std::sync::atomic::Ordering;
use std::time::Duration;

use perigee_log_api::LogError;
use perigee_page_api::PageError;
use perigee_types::Lsn;
use tokio::time::{Instant, timeout_at};

use crate::SalError;
use crate::outage::Outage;
use crate::sal::{Sal, Shared};

/// How often a throttled writer looks whether the Page Stores have caught up.
const BACKLOG_LOOK: Duration = Duration::from_millis(20);

/// What a writer's log does to the disks of the stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// It adds data. Refused as long as a store has less room than it keeps in reserve.
    #[default]
    Grow,
    /// It frees space, or ends what was begun: deletes, drops, rollback, purge. It may use the
    /// reserve.
    Free,
}

impl Shared {
    fn overloaded(&self) -> bool {
        self.unpersisted.load(Ordering::Relaxed) > self.config.max_unpersisted_bytes
            || self.backlog() > self.config.max_backlog_bytes
    }

    /// What the layer waits for, the log first.
    pub fn outages(&self) -> Vec<Outage> {
        let mut outages: Vec<_> = self.log_outage.outage().into_iter().collect();
        outages.extend(self.stores.iter().filter_map(|store| store.outage.outage()));
        let slices = self.slices.read();
        outages.extend(slices.values().filter_map(|slice| slice.outage.outage()));
        outages
    }

    /// True if writers need not wait for a store: because it has been waited for so long already, or
    /// because what they write is what its disk has no room for.
    fn is_away(&self, purpose: Purpose) -> bool {
        let limit = self.config.throttle_timeout;
        let is_away = |outage: &Outage| {
            let full = purpose == Purpose::Grow && outage.error.is_disk_full();
            full || outage.since.elapsed() > limit
        };
        self.outages().iter().any(is_away)
    }

    /// Why nothing may be written now.
    fn overload(&self) -> SalError {
        let unpersisted = self.unpersisted.load(Ordering::Relaxed);
        let waits = format!("{unpersisted} bytes of log are on no page store");
        let Some(outage) = self.outages().into_iter().next() else {
            let backlog = self.backlog();
            let text = format!("{waits}, {backlog} wait for consolidation");
            return PageError::Unavailable(text).into();
        };
        let since = outage.since.elapsed().as_secs();
        let told = |text| format!("{waits}; {} has waited for {since} s: {text}", outage.of);
        match outage.error {
            SalError::Log(LogError::Full(text)) => LogError::Full(told(text)).into(),
            SalError::Page(PageError::Full(text)) => PageError::Full(told(text)).into(),
            error @ SalError::Log(_) => LogError::Unavailable(told(error.to_string())).into(),
            error => PageError::Unavailable(told(error.to_string())).into(),
        }
    }
}

impl Sal {
    /// What the layer waits for now: stores that do not take what they are sent.
    #[must_use]
    pub fn outages(&self) -> Vec<Outage> {
        self.shared.outages()
    }

    /// False while a store has no room for more data than its reserve.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.room.check().is_ok()
    }

    /// Waits while too much log is on no Page Store, because they are behind (SPEC's S4) or because
    /// a store is away; so the memory for log is bounded. Called before each mini-transaction or
    /// each few of them, without latches.
    ///
    /// # Errors
    /// What the store that is waited for says, after [`SalConfig::throttle_timeout`], or at once if
    /// it has been waited for that long.
    pub async fn throttle(&self, purpose: Purpose) -> Result<(), SalError> {
        let shared = &self.shared;
        shared.check()?;
        if purpose == Purpose::Grow {
            shared.room.check()?;
        }
        if !shared.overloaded() {
            return Ok(());
        }
        let give_up = Instant::now() + shared.config.throttle_timeout;
        let mut progress = shared.progress.subscribe();
        while shared.overloaded() {
            shared.check()?;
            let now = Instant::now();
            if now > give_up || shared.is_away(purpose) {
                return Err(shared.overload());
            }
            shared.maintenance_wake.notify_one();
            let _ = timeout_at(now + BACKLOG_LOOK, progress.changed()).await;
        }
        Ok(())
    }

    /// As [`Sal::wait_page_persistent`], for log that adds data, and for as long as writers are willing
    /// to be throttled.
    ///
    /// # Errors
    /// As [`Sal::throttle`].
    pub async fn wait_page_persistent_in_time(&self, lsn: Lsn) -> Result<(), SalError> {
        let shared = &self.shared;
        let mut wait = std::pin::pin!(self.wait_page_persistent(lsn));
        loop {
            let look = Instant::now() + BACKLOG_LOOK;
            if let Ok(done) = timeout_at(look, &mut wait).await {
                return done;
            }
            if shared.is_away(Purpose::Grow) {
                return Err(shared.overload());
            }
        }
    }
}
