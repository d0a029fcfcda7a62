//! Finding the visible version of records that storage could not decide on (SPEC's N8).

use bytes::Bytes;
use perigee_ndp::{Ambiguous, AmbiguousKind, NdpBatch};
use perigee_page::{RecordFlags, RecordHeader};
use perigee_value::{Datum, RecordView, key};

use super::scan::Shared;
use crate::EngineError;
use crate::catalog::{HIDDEN_ROW_ID, Index, Table};
use crate::engine::Engine;
use crate::txn::ReadView;

/// The visible version of each ambiguous record of a batch.
pub(super) async fn resolve(
    shared: &Shared,
    batch: &NdpBatch,
) -> Result<Vec<Option<Bytes>>, EngineError> {
    let mut resolved = Vec::with_capacity(batch.ambiguous.len());
    for ambiguous in &batch.ambiguous {
        resolved.push(resolve_one(shared, ambiguous).await?);
    }
    Ok(resolved)
}

async fn resolve_one(shared: &Shared, ambiguous: &Ambiguous) -> Result<Option<Bytes>, EngineError> {
    let record = &ambiguous.record;
    let request = &shared.request;
    let visible = match ambiguous.kind {
        AmbiguousKind::Failed => true,
        AmbiguousKind::Unresolved if request.index == 0 => is_visible(record, &request.view),
        AmbiguousKind::Unresolved => {
            let index = &request.table.indexes[request.index];
            entry_is_visible(&shared.engine, &request.table, index, record, &request.view).await?
        }
    };
    Ok(visible.then(|| record.clone()))
}

/// True if a view sees this version of a clustered record. The only changes there are so far are
/// inserts: a version that is not visible has no older one.
pub(super) fn is_visible(record: &[u8], view: &ReadView) -> bool {
    let header = RecordHeader::read(record);
    view.sees(header.trx) && !header.flags.is_deleted()
}

/// True if a view sees the row that an entry of a secondary index belongs to, in the version that
/// the entry describes.
async fn entry_is_visible(
    engine: &Engine,
    table: &Table,
    index: &Index,
    entry: &[u8],
    view: &ReadView,
) -> Result<bool, EngineError> {
    if RecordFlags(entry[0]).is_deleted() {
        return Ok(false);
    }
    let key = clustered_key(table, index, entry)?;
    let clustered = engine.tree(table.clustered());
    let Some(row) = clustered.get(&key).await? else {
        return Ok(false);
    };
    Ok(is_visible(&row, view) && entry_matches(table, index, entry, &row))
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
