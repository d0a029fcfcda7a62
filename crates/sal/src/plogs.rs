//! The PLogs of the database: appending to the open one, going on to the next, forgetting those
//! that no Page Store needs.

use std::sync::Arc;
use std::time::Duration;

use perigee_crash::{Point, reach};
use perigee_log_api::{Append, LogError, LogStore, PlogInfo, PlogKey};
use perigee_types::{DbId, Lsn, PlogId};

use crate::SalConfig;
use crate::log_buffer::Buffer;
use crate::retry::persist;
use crate::sal::Shared;

/// A PLog is sealed at this share of the database's pages, so that a small database does not keep much
/// log: only a sealed one can be deleted.
const LIVE_SHARE: u64 = 8;

/// No PLog is sealed below this length for that: making one takes some syncs.
const LEAST: u64 = 512 << 10;

/// Where room is scarce PLogs are sealed at this share of their usual length.
const SCARCE_SHARE: u64 = 16;

/// A PLog that may be deleted one day.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: PlogId,
    /// LSN of the last group in it; 0 if it is empty.
    last: Lsn,
    sealed: bool,
}

/// The database's PLogs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PlogList(Vec<Known>);

impl PlogList {
    pub fn new(infos: &[PlogInfo]) -> Self {
        let known = |i: &PlogInfo| Known {
            id: i.plog.plog,
            last: i.last_lsn,
            sealed: i.sealed,
        };
        Self(infos.iter().map(known).collect())
    }

    fn note(&mut self, id: PlogId, last: Lsn, sealed: bool) {
        match self.0.last_mut() {
            Some(known) if known.id == id => *known = Known { id, last, sealed },
            _ => self.0.push(Known { id, last, sealed }),
        }
    }

    /// A sealed PLog of which no Page Store misses anything, the oldest first. Never the youngest one
    /// with log in it: it says where the log ends, whatever empty PLogs come after it (invariant L1).
    pub fn deletable(&self, persistent: Lsn) -> Option<PlogId> {
        let end = self.0.iter().rfind(|known| known.last > Lsn(0))?.id;
        let old = |known: &&Known| known.sealed && known.id != end && known.last <= persistent;
        self.0.iter().find(old).map(|known| known.id)
    }

    pub fn forget(&mut self, id: PlogId) {
        self.0.retain(|known| known.id != id);
    }
}

/// Appends to PLogs.
pub(crate) struct PlogWriter {
    log: Arc<dyn LogStore>,
    db: DbId,
    epoch: u64,
    limit: u64,
    call_timeout: Duration,
    /// The open PLog and its length.
    open: Option<(PlogKey, u64)>,
    next: PlogId,
}

impl PlogWriter {
    /// A writer of a new epoch. Its first PLog, made when there is something to write, has the
    /// epoch's number, and the next ones those after it: the next epoch is above them all.
    pub fn new(log: Arc<dyn LogStore>, config: &SalConfig, epoch: u64) -> Self {
        let (db, limit) = (config.db, config.plog_bytes);
        Self {
            log,
            db,
            epoch,
            limit,
            call_timeout: config.call_timeout,
            open: None,
            next: PlogId(epoch),
        }
    }

    /// Appends a buffer; when this returns it is durable (invariant L3). Waits for a Log Store that
    /// is away as long as it takes: a failure is one that no wait can mend.
    pub async fn append(&mut self, shared: &Shared, buffer: &Buffer) -> Result<(), LogError> {
        let len = buffer.groups.len() as u64;
        if let Some((plog, length)) = self.open
            && length + len > self.limit_now(shared)
        {
            let seal = || self.log.seal(plog, self.epoch);
            let what = format!("sealing {plog}");
            persist(&what, self.call_timeout, &shared.log_outage, seal).await?;
            shared
                .plogs
                .lock()
                .note(plog.plog, Lsn(buffer.first.0 - 1), true);
            self.open = None;
            reach(Point::PlogChange);
        }
        let (plog, offset) = match self.open {
            Some(open) => open,
            None => (self.create(shared).await?, 0),
        };
        let append = Append {
            plog,
            epoch: self.epoch,
            offset,
            first_lsn: buffer.first,
            last_lsn: buffer.last,
            payload: buffer.groups.clone(),
        };
        let call = || self.log.append(append.clone());
        let what = format!("appending to {plog}");
        let end = persist(&what, self.call_timeout, &shared.log_outage, call).await?;
        if end != offset + len {
            return Err(LogError::Refused(format!(
                "{plog} ends at {end} after an append"
            )));
        }
        self.open = Some((plog, end));
        shared.plogs.lock().note(plog.plog, buffer.last, false);
        Ok(())
    }

    /// A PLog is sealed sooner where the database is small or room is scarce.
    fn limit_now(&self, shared: &Shared) -> u64 {
        let share = (shared.live_bytes() / LIVE_SHARE).clamp(LEAST.min(self.limit), self.limit);
        match shared.room.check() {
            Ok(()) => share,
            Err(_) => share.min(self.limit / SCARCE_SHARE),
        }
    }

    async fn create(&mut self, shared: &Shared) -> Result<PlogKey, LogError> {
        let plog = PlogKey {
            db: self.db,
            plog: self.next,
        };
        let create = || self.log.create_plog(plog, self.epoch);
        let what = format!("creating {plog}");
        persist(&what, self.call_timeout, &shared.log_outage, create).await?;
        self.next = PlogId(self.next.0 + 1);
        self.open = Some((plog, 0));
        reach(Point::PlogMade);
        Ok(plog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, last LSN, and whether it is sealed.
    type Plog = (u64, u64, bool);

    fn list(plogs: &[Plog]) -> PlogList {
        let known = |&(id, last, sealed): &Plog| Known {
            id: PlogId(id),
            last: Lsn(last),
            sealed,
        };
        PlogList(plogs.iter().map(known).collect())
    }

    #[test]
    fn the_end_of_the_log_stays() {
        // What is deleted once everything up to LSN 20 is persistent, in this order.
        let cases: [(&[Plog], &[u64]); 7] = [
            (&[(1, 20, true)], &[]),
            (&[(1, 10, true), (2, 20, false)], &[1]),
            (&[(1, 10, true), (2, 20, true), (3, 0, true)], &[1, 3]),
            (&[(1, 20, true), (3, 0, true), (4, 0, false)], &[3]),
            (&[(1, 0, true), (2, 20, true), (3, 30, true)], &[1, 2]),
            (&[(1, 30, true), (2, 0, true), (3, 40, true)], &[2]),
            (&[(4, 0, true), (5, 0, true)], &[]),
        ];
        for (plogs, expected) in cases {
            let mut left = list(plogs);
            let mut deleted = Vec::new();
            while let Some(id) = left.deletable(Lsn(20)) {
                left.forget(id);
                deleted.push(id.0);
            }
            assert_eq!(deleted, expected, "{plogs:?}");
        }
    }
}
