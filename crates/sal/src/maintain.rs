//! Housekeeping: the recycle LSN goes to the Page Stores, log that they all have is deleted, and
//! the backlog of stores that are behind is looked at.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perigee_crash::{Point, reach};
use perigee_log_api::PlogKey;
use perigee_types::Lsn;
use tokio::time::{Instant, sleep, timeout};

use crate::retry::once;
use crate::sal::Shared;
use crate::slice::Slice;
use crate::{SalError, capabilities, retire, room};

/// Log that is written between two rounds, as a share of the database's pages: what it replaces takes
/// space until the next one, in the Log Store and in the Page Stores.
const LOG_SHARE: u64 = 8;

/// Rounds are no closer to each other than this: each takes some syncs in every store.
const SHORTEST: Duration = Duration::from_millis(50);

/// While writers are throttled, the stores are asked for their backlog this often.
const BACKLOG_INTERVAL: Duration = Duration::from_millis(20);

/// Runs until the layer ends. What fails here is tried again in the next round.
pub(crate) async fn run(shared: Arc<Shared>) {
    tokio::join!(
        keep_house(&shared),
        room::run(&shared),
        capabilities::run(&shared)
    );
}

async fn keep_house(shared: &Shared) {
    let interval = shared.config.maintenance_interval;
    let (mut recycled, mut last) = (Lsn(0), Instant::now());
    loop {
        let pause = interval.saturating_sub(last.elapsed());
        let woken = timeout(pause, shared.maintenance_wake.notified()).await;
        let shortest = match shared.wrote_much() {
            true => SHORTEST.min(interval),
            false => interval,
        };
        if woken.is_ok() && last.elapsed() < shortest {
            look_at_backlog(shared).await;
            sleep(BACKLOG_INTERVAL).await;
            continue;
        }
        last = Instant::now();
        let log = shared.log_bytes.load(Ordering::Relaxed);
        shared.log_at_round.store(log, Ordering::Relaxed);
        look_at_backlog(shared).await;
        if let Err(error) = recycle(shared, &mut recycled).await {
            tracing::warn!("recycle LSN: {}", shared.seen(error));
        }
        if let Err(error) = truncate(shared).await {
            tracing::warn!("log truncation: {}", shared.seen(error));
        }
        if let Err(error) = retire::run(shared, recycled).await {
            tracing::warn!("deleting slices: {}", shared.seen(error));
        }
    }
}

impl Shared {
    /// True if housekeeping should not wait for its time.
    pub fn wrote_much(&self) -> bool {
        let round = self.log_at_round.load(Ordering::Relaxed);
        let written = self.log_bytes.load(Ordering::Relaxed).saturating_sub(round);
        written >= self.config.maintenance_log_bytes && written >= self.live_bytes() / LOG_SHARE
    }
}

async fn look_at_backlog(shared: &Shared) {
    let behind: Vec<_> = slices(shared)
        .into_iter()
        .filter(|s| s.backlog() > 0)
        .collect();
    for slice in behind {
        let ask = shared.stores[slice.store].api.slice_status(slice.key);
        if let Ok(status) = once("slice status", shared.config.call_timeout, ask).await {
            slice.set_status(&status);
        }
    }
}

/// Forwards the recycle LSN as far as no slice is below it: an idle slice that is asked for its own
/// persistent LSN must still answer. Under endless writes to one slice the idle ones are a round behind,
/// no more.
async fn recycle(shared: &Shared, done: &mut Lsn) -> Result<(), SalError> {
    let cv = shared.progress.borrow().persistent;
    let wanted = Lsn(shared.recycle.load(Ordering::Relaxed)).min(cv);
    if wanted <= *done {
        return Ok(());
    }
    let wanted = passed(shared, wanted, cv);
    if wanted <= *done {
        return Ok(());
    }
    for store in &shared.stores {
        let call = store.api.set_recycle_lsn(shared.config.db, wanted);
        once("setting the recycle LSN", shared.config.call_timeout, call).await?;
    }
    reach(Point::RecycleForwarded);
    *done = wanted;
    Ok(())
}

/// Forwards the recycle LSN while the log up to `last` is sent again: reads of earlier frontends are refused by now,
/// and this one reads nothing older than `last`. On a full disk the log may need the room. Goes on until it is dropped.
pub(crate) async fn recycle_while_opening(shared: &Shared, last: Lsn) -> Infallible {
    shared.recycle.fetch_max(last.0, Ordering::Relaxed);
    let mut recycled = Lsn(0);
    loop {
        if let Err(error) = recycle(shared, &mut recycled).await {
            tracing::warn!("recycle LSN: {}", shared.seen(error));
        }
        sleep(shared.config.maintenance_interval).await;
    }
}

/// Deletes PLogs of which every slice has everything (taurus-2020 section 4.3).
async fn truncate(shared: &Shared) -> Result<(), SalError> {
    // Nobody knows what log a damaged slice lacks, should it be mended.
    if !shared.damaged.is_empty() {
        return Ok(());
    }
    let cv = shared.progress.borrow().persistent;
    loop {
        if shared.plogs.lock().deletable(cv).is_none() {
            return Ok(());
        }
        let everywhere = passed(shared, cv, cv);
        let Some(plog) = shared.plogs.lock().deletable(everywhere) else {
            return Ok(());
        };
        let key = PlogKey {
            db: shared.config.db,
            plog,
        };
        let delete = shared.log.delete(key, shared.epoch);
        match once("deleting a PLog", shared.config.call_timeout, delete).await {
            // An earlier attempt whose answer was lost.
            Ok(()) | Err(perigee_log_api::LogError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        reach(Point::PlogDeleted);
        shared.plogs.lock().forget(plog);
    }
}

/// How far all slices are, at most `lsn`; those below it are told to go on to `cv`.
fn passed(shared: &Shared, lsn: Lsn, cv: Lsn) -> Lsn {
    let mut least = lsn;
    for slice in slices(shared) {
        if slice.persistent() < lsn {
            slice.pass(cv);
            least = least.min(slice.persistent());
        }
    }
    least
}

pub(crate) fn slices(shared: &Shared) -> Vec<Arc<Slice>> {
    shared.slices.read().values().cloned().collect()
}
