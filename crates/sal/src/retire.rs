//! Deleting slices in which there are no pages any more.
//!
//! What a restart finds is what the Page Stores say; nothing else is kept of a slice that was deleted. So
//! no log of its pages may be sent again, whoever opens the database: a slice goes when every other one
//! has everything up to where it ends. An opening sends again what is above the least of them, and so
//! nothing that the slice had; and a slice that is made later begins above.
//!
//! Until its Page Store has answered, the log stays that is above its end: should the frontend die and the
//! slice be there still, it is one that is behind. A slice that is needed meanwhile waits for the answer.

use std::collections::HashSet;
use std::sync::Arc;

use perigee_crash::{Point, reach};
use perigee_page_api::PageError;
use perigee_types::{Lsn, SliceId};

use crate::SalError;
use crate::maintain::slices;
use crate::retry::once;
use crate::sal::Shared;
use crate::slice::Slice;

/// Has Page Stores delete slices without pages. `recycled` is the recycle LSN that they know. A Page Store that fails is
/// asked for no more; the others are.
///
/// # Errors
/// The first of them.
pub(crate) async fn run(shared: &Shared, recycled: Lsn) -> Result<(), SalError> {
    // Nobody knows how far a damaged slice is, should it be mended.
    if !shared.damaged.is_empty() {
        return Ok(());
    }
    let quiet = shared.config.empty_slice_after;
    let mut failed = HashSet::new();
    let mut outcome = Ok(());
    for slice in slices(shared) {
        // The first one has the superblock.
        let may_leave = slice.key.slice != SliceId(0) && !failed.contains(&slice.store);
        if may_leave
            && slice.leave(quiet, recycled)
            && let Err(error) = delete(shared, &slice).await
        {
            failed.insert(slice.store);
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

async fn delete(shared: &Shared, slice: &Arc<Slice>) -> Result<(), SalError> {
    let end = slice.persistent();
    if slices(shared).iter().any(|other| other.persistent() < end) {
        // The next round may find them there.
        return Ok(());
    }
    reach(Point::SliceLeaving);
    let api = &shared.stores[slice.store].api;
    let call = api.delete_slice(slice.key, shared.epoch, end);
    let what = format!("deleting {}", slice.key);
    match once(&what, shared.config.call_timeout, call).await {
        Ok(true) => {
            reach(Point::SliceLeft);
            shared.slices.write().remove(&slice.key.slice);
            slice.gone();
            Ok(())
        }
        // Something of it is needed; or the store is of a version that keeps slices.
        Ok(false) | Err(PageError::Refused(_)) => {
            slice.stay();
            Ok(())
        }
        // Nobody knows whether it is deleted. The next round asks again.
        Err(error) => Err(error.into()),
    }
}
