//! Rows and their entries in secondary indexes.

use perigee_page::RecordHeader;
use perigee_value::{Datum, RecordView, RowError, ValueRef, encode_with, key};

use crate::EngineError;
use crate::catalog::{HIDDEN_ROW_ID, Index, Table};

/// The entry of a secondary index for a clustered record.
pub(crate) fn entry_of(
    table: &Table,
    index: &Index,
    record: &[u8],
) -> Result<Vec<u8>, EngineError> {
    let row = RecordView::new(&table.clustered().layout, record);
    let mut entry = Vec::new();
    encode_with(
        &index.layout,
        RecordHeader::default(),
        &mut entry,
        |column| Ok(row.value(row_column(table, index.columns[column]))),
    )
    .map_err(|e| row_error(&e))?;
    Ok(entry)
}

/// The entries of a row, with the numbers of their indexes.
pub(super) fn entries_of(
    table: &Table,
    record: &[u8],
) -> Result<Vec<(usize, Vec<u8>)>, EngineError> {
    let indexes = table.indexes.iter().enumerate().skip(1);
    indexes
        .map(|(number, index)| Ok((number, entry_of(table, index, record)?)))
        .collect()
}

/// True if two versions of a row have the same values, to the byte, in the columns of an index.
pub(super) fn has_same_columns(table: &Table, index: &Index, a: &[u8], b: &[u8]) -> bool {
    let layout = &table.clustered().layout;
    let (a, b) = (RecordView::new(layout, a), RecordView::new(layout, b));
    let mut columns = index
        .columns
        .iter()
        .map(|column| row_column(table, *column));
    columns.all(|column| match (a.value(column), b.value(column)) {
        // Zero has two forms.
        (ValueRef::Double(a), ValueRef::Double(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    })
}

/// The clustered key that an entry of a secondary index leads to.
pub(crate) fn clustered_key(
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

/// True if two entries of an index are the same one: they have one key. Strings that differ in
/// trailing spaces only are equal as keys, so the same entry may have other contents later.
pub(super) fn is_same_entry(index: &Index, a: &[u8], b: &[u8]) -> bool {
    let shape = &index.layout.shape;
    shape.key(a) == shape.key(b)
}

/// The entry of a version of a row, if it is this one.
pub(crate) fn entry_of_version(
    table: &Table,
    index: &Index,
    entry: &[u8],
    row: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    let of_row = entry_of(table, index, row)?;
    Ok(is_same_entry(index, entry, &of_row).then_some(of_row))
}

/// What no second entry of a unique index may begin with; `None` if a key column is NULL.
pub(super) fn unique_prefix(
    table: &Table,
    index: &Index,
    record: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    let row = RecordView::new(&table.clustered().layout, record);
    let mut values = Vec::new();
    for column in &index.columns[..index.key_columns] {
        match row.value(row_column(table, *column)).to_datum() {
            Datum::Null => return Ok(None),
            value => values.push(value),
        }
    }
    let mut prefix = Vec::new();
    key::encode_key(&index.layout, &values, &mut prefix).map_err(|e| row_error(&e))?;
    Ok(Some(prefix))
}

/// The key columns of a row as an error shows them.
pub(super) fn key_text(table: &Table, index: &Index, record: &[u8]) -> String {
    let row = RecordView::new(&table.clustered().layout, record);
    let layout = &table.clustered().layout;
    let columns = if index.id == table.clustered().id {
        &layout.key
    } else {
        &index.columns[..index.key_columns]
    };
    let texts: Vec<_> = columns
        .iter()
        .map(|column| {
            let mut text = String::new();
            let value = row.value(row_column(table, *column));
            table.format(*column, value, &mut text);
            text
        })
        .collect();
    texts.join("-")
}

/// Position in a clustered record of a table column or the hidden row id.
fn row_column(table: &Table, column: u16) -> usize {
    if column == HIDDEN_ROW_ID {
        table.def.columns.len()
    } else {
        usize::from(column)
    }
}

fn row_error(error: &RowError) -> EngineError {
    match error {
        RowError::RowTooLong(bytes) => EngineError::RowTooLong {
            bytes: *bytes,
            limit: crate::btree::MAX_RECORD_LEN,
        },
        RowError::KeyTooLong(bytes) => EngineError::KeyTooLong {
            bytes: *bytes,
            limit: crate::btree::MAX_KEY_LEN,
        },
        other => EngineError::Corrupt(other.to_string()),
    }
}
