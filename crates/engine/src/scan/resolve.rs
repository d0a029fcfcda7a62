//! Finding the visible version of records that storage could not decide on (SPEC's N8).

use bytes::Bytes;
use perigee_ndp::{Ambiguous, AmbiguousKind, NdpBatch};
use perigee_page::RecordFlags;

use super::scan::Shared;
use crate::EngineError;
use crate::btree::KeySpan;
use crate::catalog::{Index, Table};
use crate::engine::Engine;
use crate::txn::{ReadView, clustered_key, entry_matches, visible_version};

/// Entries of a secondary index whose rows are brought in together.
const ENTRIES_PER_BATCH: usize = 512;

/// The visible version of each ambiguous record of a batch.
pub(super) async fn resolve(
    shared: &Shared,
    batch: &NdpBatch,
) -> Result<Vec<Option<Bytes>>, EngineError> {
    let mut resolved = Vec::with_capacity(batch.ambiguous.len());
    for ambiguous in batch.ambiguous.chunks(ENTRIES_PER_BATCH) {
        if shared.request.index == 0 {
            for ambiguous in ambiguous {
                resolved.push(row_version(shared, ambiguous).await?);
            }
            continue;
        }
        let visible = visible_entries(shared, ambiguous).await?;
        for (ambiguous, visible) in ambiguous.iter().zip(visible) {
            let keep = visible || ambiguous.kind == AmbiguousKind::Failed;
            resolved.push(keep.then(|| unmarked(&ambiguous.record)));
        }
    }
    Ok(resolved)
}

/// A visible entry without the delete mark that somebody whom the view does not see gave it.
fn unmarked(entry: &Bytes) -> Bytes {
    if !is_deleted(entry) {
        return entry.clone();
    }
    let mut entry = entry.to_vec();
    entry[0] &= !RecordFlags::DELETED;
    entry.into()
}

/// The version of a row that the scan sees, given the one that was found.
async fn row_version(shared: &Shared, ambiguous: &Ambiguous) -> Result<Option<Bytes>, EngineError> {
    let (record, view) = (&ambiguous.record, &shared.request.view);
    // Storage saw that this one is visible.
    if ambiguous.kind == AmbiguousKind::Failed {
        return Ok(Some(record.clone()));
    }
    if view.sees(perigee_page::RecordHeader::read(record).trx) {
        return Ok((!is_deleted(record)).then(|| record.clone()));
    }
    let version = visible_version(&shared.engine, record, view).await?;
    Ok(version.map(Bytes::from))
}

/// Which entries of the scanned index are visible, as far as that is in question.
async fn visible_entries(shared: &Shared, entries: &[Ambiguous]) -> Result<Vec<bool>, EngineError> {
    let request = &shared.request;
    let (table, index) = (&request.table, &request.table.indexes[request.index]);
    let in_question = |entry: &&Ambiguous| entry.kind == AmbiguousKind::Unresolved;
    let keys = entries
        .iter()
        .filter(in_question)
        .map(|entry| clustered_key(table, index, &entry.record))
        .collect::<Result<Vec<_>, _>>()?;
    let clustered = shared.engine.tree(table.clustered());
    let spans: Vec<_> = keys.iter().map(|key| KeySpan::prefix(key)).collect();
    clustered.prefetch(&spans).await?;
    let (mut finder, mut keys) = (clustered.finder(), keys.iter());
    let mut visible = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = if in_question(&entry) {
            keys.next()
        } else {
            None
        };
        let row = match key {
            Some(key) => finder.get(key).await?,
            None => None,
        };
        let row = match row {
            Some(row) => visible_version(&shared.engine, &row, &request.view).await?,
            None => None,
        };
        visible.push(row.is_some_and(|row| entry_matches(table, index, &entry.record, &row)));
    }
    Ok(visible)
}

/// The row that an entry of a secondary index belongs to, as a view sees it, given any version of it
/// that is not older: if the view sees the version that the entry describes.
pub(super) async fn row_of_entry(
    engine: &Engine,
    (table, index): (&Table, &Index),
    entry: &[u8],
    row: &[u8],
    view: &ReadView,
) -> Result<Option<Vec<u8>>, EngineError> {
    let row = visible_version(engine, row, view).await?;
    Ok(row.filter(|row| entry_matches(table, index, entry, row)))
}

/// True if a record or an entry is delete-marked.
pub(super) fn is_deleted(record: &[u8]) -> bool {
    RecordFlags(record[0]).is_deleted()
}
