//! Finding the visible version of records that storage could not decide on (SPEC's N8).

use bytes::Bytes;
use perigee_ndp::{Ambiguous, AmbiguousKind, NdpBatch};
use perigee_page::{RecordFlags, RecordHeader};
use perigee_value::{Datum, RecordView, key};

use super::scan::Shared;
use crate::EngineError;
use crate::btree::KeySpan;
use crate::catalog::{HIDDEN_ROW_ID, Index, Table};
use crate::txn::ReadView;

/// Entries of a secondary index whose rows are brought in together.
const ENTRIES_PER_BATCH: usize = 512;

/// The visible version of each ambiguous record of a batch.
pub(super) async fn resolve(
    shared: &Shared,
    batch: &NdpBatch,
) -> Result<Vec<Option<Bytes>>, EngineError> {
    let mut resolved = Vec::with_capacity(batch.ambiguous.len());
    for ambiguous in batch.ambiguous.chunks(ENTRIES_PER_BATCH) {
        let visible = if shared.request.index == 0 {
            let sees = |record: &Bytes| is_visible(record, &shared.request.view);
            ambiguous.iter().map(|a| sees(&a.record)).collect()
        } else {
            visible_entries(shared, ambiguous).await?
        };
        for (ambiguous, visible) in ambiguous.iter().zip(visible) {
            let keep = visible || ambiguous.kind == AmbiguousKind::Failed;
            resolved.push(keep.then(|| ambiguous.record.clone()));
        }
    }
    Ok(resolved)
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
        let sees = |row: &[u8]| entry_is_visible(table, index, &entry.record, row, &request.view);
        visible.push(row.is_some_and(|row| sees(&row)));
    }
    Ok(visible)
}

/// True if a view sees this version of a clustered record. The only changes there are so far are
/// inserts: a version that is not visible has no older one.
pub(super) fn is_visible(record: &[u8], view: &ReadView) -> bool {
    let header = RecordHeader::read(record);
    view.sees(header.trx) && !header.flags.is_deleted()
}

/// True if a view sees an entry of a secondary index, given the row it belongs to: if the view sees
/// the row, in the version that the entry describes.
pub(super) fn entry_is_visible(
    table: &Table,
    index: &Index,
    entry: &[u8],
    row: &[u8],
    view: &ReadView,
) -> bool {
    !is_deleted(entry) && is_visible(row, view) && entry_matches(table, index, entry, row)
}

/// True if a record or an entry is delete-marked.
pub(super) fn is_deleted(record: &[u8]) -> bool {
    RecordFlags(record[0]).is_deleted()
}

/// The clustered key that an entry of a secondary index leads to.
pub(super) fn clustered_key(
    table: &Table,
    index: &Index,
    entry: &[u8],
) -> Result<Vec<u8>, EngineError> {
    let view = RecordView::new(&index.layout, entry);
    let layout = &table.clustered().layout;
    let values: Vec<Datum> = layout
        .key
        .iter()
        .map(|column| {
            let table_column = table.clustered().columns[usize::from(*column)];
            let position = index
                .position(table_column)
                .expect("entries have the primary key");
            view.value(usize::from(position)).to_datum()
        })
        .collect();
    let mut out = Vec::new();
    key::encode_key(layout, &values, &mut out)
        .map_err(|e| EngineError::Corrupt(format!("entry of index {}: {e}", index.name)))?;
    Ok(out)
}

fn entry_matches(table: &Table, index: &Index, entry: &[u8], row: &[u8]) -> bool {
    let entry = RecordView::new(&index.layout, entry);
    let row = RecordView::new(&table.clustered().layout, row);
    index.columns.iter().enumerate().all(|(position, column)| {
        let in_row = match *column {
            HIDDEN_ROW_ID => table.def.columns.len(),
            column => usize::from(column),
        };
        entry.value(position) == row.value(in_row)
    })
}
