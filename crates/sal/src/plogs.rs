//! The PLogs of the database: appending to the open one, going on to the next, forgetting those
//! that no Page Store needs.

use std::sync::Arc;

use perigee_log_api::{Append, LogError, LogStore, PlogInfo, PlogKey};
use perigee_types::{DbId, Lsn, PlogId};

use crate::SalConfig;
use crate::log_buffer::Buffer;
use crate::retry::{Patience, retry};
use crate::sal::Shared;

/// A PLog that may be deleted one day.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: PlogId,
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

    /// The oldest PLog, if the log goes on in a later one and no Page Store misses anything of it.
    pub fn deletable(&self, persistent: Lsn) -> Option<PlogId> {
        match &self.0[..] {
            [oldest, _, ..] if oldest.sealed && oldest.last <= persistent => Some(oldest.id),
            _ => None,
        }
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
    patience: Patience,
    /// The open PLog and its length.
    open: Option<(PlogKey, u64)>,
    next: PlogId,
}

impl PlogWriter {
    /// A writer of a new epoch. Its first PLog, made when there is something to write, has the
    /// epoch's number, which is why epochs increase.
    pub fn new(log: Arc<dyn LogStore>, config: &SalConfig, epoch: u64) -> Self {
        let patience = Patience {
            call: config.call_timeout,
            total: Some(config.log_timeout),
        };
        let (db, limit) = (config.db, config.plog_bytes);
        Self {
            log,
            db,
            epoch,
            limit,
            patience,
            open: None,
            next: PlogId(epoch),
        }
    }

    /// Appends a buffer; when this returns it is durable (invariant L3).
    pub async fn append(&mut self, shared: &Shared, buffer: &Buffer) -> Result<(), LogError> {
        let len = buffer.groups.len() as u64;
        if let Some((plog, length)) = self.open
            && length + len > self.limit
        {
            let seal = || self.log.seal(plog, self.epoch);
            retry(&format!("sealing {plog}"), self.patience, seal).await?;
            shared
                .plogs
                .lock()
                .note(plog.plog, Lsn(buffer.first.0 - 1), true);
            self.open = None;
        }
        let (plog, offset) = match self.open {
            Some(open) => open,
            None => (self.create().await?, 0),
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
        let end = retry(&format!("appending to {plog}"), self.patience, call).await?;
        if end != offset + len {
            return Err(LogError::Refused(format!(
                "{plog} ends at {end} after an append"
            )));
        }
        self.open = Some((plog, end));
        shared.plogs.lock().note(plog.plog, buffer.last, false);
        Ok(())
    }

    async fn create(&mut self) -> Result<PlogKey, LogError> {
        let plog = PlogKey {
            db: self.db,
            plog: self.next,
        };
        let create = || self.log.create_plog(plog, self.epoch);
        retry(&format!("creating {plog}"), self.patience, create).await?;
        self.next = PlogId(self.next.0 + 1);
        self.open = Some((plog, 0));
        Ok(plog)
    }
}
