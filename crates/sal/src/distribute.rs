//! Cuts database log buffers by slice.
//!
//! A slice is made on its Page Store, and told that there is nothing for it before the buffer that
//! brings it, before anything of that buffer, or of a later one, is sent anywhere. So a restart that finds
//! slices, all of them beyond some LSN, knows that no other slice has log at or below it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use perigee_crash::{Point, reach};
use perigee_page_api::{Fragment, SliceKey};
use perigee_redo::Group;
use perigee_types::{Lsn, SliceId, Writer};
use tokio::sync::mpsc;

use crate::log_buffer::Buffer;
use crate::retry::persist;
use crate::sal::Shared;
use crate::slice::{Chunk, Slice};
use crate::{Geometry, SalError};

/// Distributes durable buffers until the layer ends.
pub(crate) async fn run(shared: Arc<Shared>, mut buffers: mpsc::Receiver<Buffer>) {
    while let Some(buffer) = buffers.recv().await {
        if let Err(error) = distribute(&shared, &buffer).await {
            shared.fail(error);
            return;
        }
    }
}

/// Queues the parts of a buffer at their slices, without what a slice had before the database was
/// opened.
pub(crate) async fn distribute(shared: &Arc<Shared>, buffer: &Buffer) -> Result<(), SalError> {
    let groups = decode(buffer)?;
    let mut slices: BTreeMap<SliceId, Arc<Slice>> = BTreeMap::new();
    for change in groups.iter().flat_map(|g| &g.changes) {
        let id = shared.geometry.slice_of(change.page);
        if let Entry::Vacant(unknown) = slices.entry(id) {
            unknown.insert(slice(shared, id, &groups).await?);
        }
    }
    let mut parts: BTreeMap<SliceId, (Lsn, Writer)> = BTreeMap::new();
    for group in groups {
        for id in slices_of(&shared.geometry, &group) {
            if group.lsn <= slices[&id].base {
                continue;
            }
            let (_, part) = parts
                .entry(id)
                .or_insert_with(|| (group.lsn, Writer::new()));
            group
                .restrict(|page| shared.geometry.slice_of(page) == id)
                .expect("the group touches the slice")
                .encode(part);
        }
    }
    let number = shared
        .cv
        .lock()
        .add(buffer.last, buffer.groups.len(), parts.len());
    if parts.is_empty() {
        shared.advance_cv();
    }
    for (id, (first, part)) in parts {
        let groups = part.into_bytes().into();
        slices[&id].push(Chunk {
            buffer: Some(number),
            first,
            last: buffer.last,
            groups,
        });
    }
    slices.values().for_each(|slice| slice.release());
    Ok(())
}

/// The slice with this id, reserved; made for these groups if there is none.
async fn slice(
    shared: &Arc<Shared>,
    id: SliceId,
    groups: &[Group],
) -> Result<Arc<Slice>, SalError> {
    loop {
        let found = shared.slices.read().get(&id).cloned();
        let slice = match found {
            Some(slice) => slice,
            None => make(shared, id, groups).await?,
        };
        if slice.reserve().await {
            return Ok(slice);
        }
    }
}

async fn make(shared: &Arc<Shared>, id: SliceId, groups: &[Group]) -> Result<Arc<Slice>, SalError> {
    check_beginning(shared, id, groups)?;
    let key = SliceKey {
        db: shared.config.db,
        slice: id,
    };
    let store = &shared.stores[shared.geometry.store_of(id)];
    let create = || store.api.create_slice(key, shared.epoch);
    let limit = shared.config.call_timeout;
    persist(&format!("creating {key}"), limit, &store.outage, create).await?;
    reach(Point::SliceMade);
    let what = format!("status of {key}");
    let status = || store.api.slice_status(key);
    // An earlier writer may have made it at last, and sent it some of the log.
    let mut status = persist(&what, limit, &store.outage, status).await?;
    let base = Lsn(groups[0].lsn.0 - 1);
    if status.sequence == 0 && base > Lsn(0) {
        let nothing = || {
            store.api.write_logs(Fragment {
                slice: key,
                epoch: shared.epoch,
                sequence: 1,
                prev_lsn: Lsn(0),
                first_lsn: Lsn(1),
                last_lsn: base,
                groups: Bytes::new(),
            })
        };
        let what = format!("beginning {key}");
        status = persist(&what, limit, &store.outage, nothing).await?;
        reach(Point::SliceBegun);
    }
    Ok(shared.add_slice(id, status))
}

/// The log of a slice begins with the making of its pages. Otherwise there was one, which was lost.
fn check_beginning(shared: &Shared, id: SliceId, groups: &[Group]) -> Result<(), SalError> {
    let mut made = HashSet::new();
    for change in groups.iter().flat_map(|group| &group.changes) {
        let page = change.page;
        if shared.geometry.slice_of(page) != id || made.contains(&page) {
            continue;
        }
        // A page may be freed that was handed out and never made.
        if !change.formats() && !change.frees() {
            let db = shared.config.db;
            return Err(SalError::Inconsistent(format!(
                "{id} of {db} was lost: the log goes on with changes of {page} (P6)"
            )));
        }
        made.insert(page);
    }
    Ok(())
}

/// The groups of a buffer, which must be all of `first..=last`.
pub(crate) fn decode(buffer: &Buffer) -> Result<Vec<Group>, SalError> {
    let Buffer {
        first,
        last,
        groups,
    } = buffer;
    let damaged = |what: String| {
        SalError::Inconsistent(format!("log buffer with groups {first} to {last}: {what}"))
    };
    let groups = Group::decode_all(groups).map_err(|e| damaged(e.to_string()))?;
    let expected = first.0..=last.0;
    if !groups.iter().map(|g| g.lsn.0).eq(expected) {
        return Err(damaged("holds other groups (L1)".to_owned()));
    }
    Ok(groups)
}

fn slices_of(geometry: &Geometry, group: &Group) -> Vec<SliceId> {
    let mut ids: Vec<_> = group
        .changes
        .iter()
        .map(|c| geometry.slice_of(c.page))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
