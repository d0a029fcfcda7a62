//! Deleting a slice of which nothing is needed.
//!
//! The decision is one rename: the directory of the slice gets a name that is no slice's. What is left
//! of it after a crash the next start removes. Before that the epoch of who deletes becomes durable
//! for the whole database, because the label goes, which refused earlier writers: one that wakes up late
//! must not make the slice again with what it had to send.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use perigee_crash::{Point, reach};
use perigee_page_api::{PageError, SliceKey};
use perigee_types::{Lsn, SliceId};

use crate::failstop::disk;
use crate::identity;
use crate::service::numbered;
use crate::slice::{Slice, Tenant};

/// What the names of directories begin with whose slices are deleted.
const GONE: &str = "gone-";

fn gone_name(slice: SliceId) -> String {
    format!("{GONE}{}", slice.0)
}

/// Refuses to make a slice for a writer that is older than a deletion.
pub(crate) fn check_epoch(tenant: &Tenant, slice: SliceKey, epoch: u64) -> Result<(), PageError> {
    let current = tenant.epoch();
    if epoch < current {
        let text = format!("epoch {epoch} of {} is over, {current} has begun", slice.db);
        return Err(PageError::Fenced(text));
    }
    Ok(())
}

/// Removes what an interrupted deletion left in the directory of a database.
pub(crate) fn finish(db_dir: &Path) -> Result<(), PageError> {
    for (_, dir) in numbered(db_dir, GONE)? {
        remove(&dir)?;
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<(), PageError> {
    for entry in fs::read_dir(dir).map_err(|e| disk("listing of", dir, &e))? {
        let path = entry.map_err(|e| disk("listing of", dir, &e))?.path();
        fs::remove_file(&path).map_err(|e| disk("deletion of", &path, &e))?;
        reach(Point::SlicePartRemoved);
    }
    fs::remove_dir(dir).map_err(|e| disk("deletion of", dir, &e))
}

impl Slice {
    /// Deletes the slice if it ends at `end` and nothing of it is needed; true if it did.
    pub(crate) fn delete(&self, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        self.check_epoch(epoch)?;
        // From here on nobody works in it, and it takes nothing.
        let mut worker = self.worker.lock();
        let recycle = self.tenant.recycle_lsn();
        if !self.appender.lock().close(end) {
            return Ok(false);
        }
        let gone = match self.directory.is_needless(recycle) {
            true => self.rename_away(epoch).map(Some),
            false => Ok(None),
        };
        let Ok(Some(gone)) = gone else {
            self.appender.lock().reopen();
            return gone.map(|_| false);
        };
        worker.deleted = true;
        tracing::info!("{} has no pages and is deleted", self.key);
        if let Err(error) = remove(&gone) {
            // The next start tries again.
            tracing::warn!("{}: {error}", gone.display());
        }
        reach(Point::SliceDeleted);
        Ok(true)
    }

    /// The decision; returns the new name.
    fn rename_away(&self, epoch: u64) -> Result<PathBuf, PageError> {
        let (tenant, stop) = (&self.tenant, &self.shared.stop);
        if epoch > tenant.epoch() {
            identity::write_epoch(&tenant.dir, self.key.db, epoch, stop)?;
            tenant.set_epoch(epoch);
        }
        reach(Point::SliceDoomed);
        let gone = tenant.dir.join(gone_name(self.key.slice));
        if gone.is_dir() {
            remove(&gone)?;
        }
        // Opened first: a rename that cannot be synced must not be made.
        let parent = File::open(&tenant.dir).map_err(|e| disk("opening of", &tenant.dir, &e))?;
        fs::rename(&self.dir, &gone).map_err(|e| disk("renaming of", &self.dir, &e))?;
        reach(Point::SliceRenamed);
        let synced = parent.sync_all();
        synced.map_err(|e| stop.sync_failed(&tenant.dir, &e))?;
        Ok(gone)
    }
}
