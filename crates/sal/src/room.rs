//! Room on the stores' disks. A store keeps some in reserve and says when it has begun to use it.
//! From then on writes that add data are refused, with an error that says why; those that free space
//! may use the reserve. They are let go on as soon as the store has its reserve again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use perigee_log_api::LogError;
use perigee_page_api::PageError;
use tokio::time::sleep;

use crate::SalError;
use crate::retry::once;
use crate::sal::Shared;

/// How often stores are asked. A reserve must be enough for the log of a few of these.
const LOOK: Duration = Duration::from_millis(250);

/// A store that does not answer in this time is left as it was.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether there is room for more data.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// So that writers need no lock where there is room.
    scarce: AtomicBool,
    why: Mutex<Option<SalError>>,
}

impl Room {
    /// An error that names the store if one of them has no room for more data.
    pub fn check(&self) -> Result<(), SalError> {
        if !self.scarce.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.why.lock().clone().map_or(Ok(()), Err)
    }

    fn set(&self, why: Option<SalError>) {
        let scarce = why.is_some();
        *self.why.lock() = why.clone();
        if self.scarce.swap(scarce, Ordering::Relaxed) != scarce {
            match why {
                Some(why) => tracing::warn!("{why}"),
                None => tracing::info!("the stores have room again"),
            }
        }
    }
}

/// Asks the stores from time to time, until the layer ends.
pub(crate) async fn run(shared: &Shared) {
    // Of the Log Store, then of each Page Store.
    let mut has_room = vec![true; 1 + shared.stores.len()];
    loop {
        let log = once("room of the log store", PATIENCE, shared.log.has_room());
        let stores = shared.stores.iter();
        let pages = stores.map(|s| once("room of a page store", PATIENCE, s.api.has_room()));
        let (log, pages) = tokio::join!(log, join_all(pages));
        if let Ok(answer) = log {
            has_room[0] = answer;
        }
        for (known, answer) in has_room[1..].iter_mut().zip(pages) {
            *known = answer.unwrap_or(*known);
        }
        shared.room.set(shortage(&has_room));
        sleep(LOOK).await;
    }
}

fn shortage(has_room: &[bool]) -> Option<SalError> {
    let number = has_room.iter().position(|has_room| !has_room)?;
    let what = "its disk has no room beyond its reserve; only statements that free space go on";
    Some(match number {
        0 => LogError::Full(what.to_owned()).into(),
        n => PageError::Full(format!("number {}: {what}", n - 1)).into(),
    })
}
