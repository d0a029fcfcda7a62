//! Rows to records of every index of a table: the part of a load that runs on several threads.

use std::sync::Arc;

use perigee_page::{RecordFlags, RecordHeader};
use perigee_types::{RollPtr, TrxId};
use perigee_value::{
    Datum, OverflowRef, RecordView, RowError, ValueError, ValueRef, encode_with, parse_text_ref,
    patch_refs, values_to_move_out,
};

use super::collect::Collector;
use super::runs::sorted;
use crate::catalog::{HIDDEN_ROW_ID, Index, MAX_INDEXES, Table};

/// Makes records for rows of one table, all written by one transaction.
#[derive(Clone, Debug)]
pub struct Encoder {
    table: Arc<Table>,
    trx: TrxId,
}

/// Encoded rows: for each index of the table its records, and statistics of the columns.
#[derive(Debug)]
pub struct Chunk {
    pub(super) rows: u64,
    pub(super) records: Vec<Vec<u8>>,
    pub(super) columns: Vec<Collector>,
    /// Hidden row id of the next row.
    next_row_id: u64,
    /// Long values that do not fit into their rows: the references there are pending.
    outside: Vec<Vec<u8>>,
}

impl Chunk {
    /// Number of rows in it.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of its clustered records and what lies outside of them.
    pub(crate) fn bytes(&self) -> usize {
        self.records[0].len() + self.outside.iter().map(Vec::len).sum::<usize>()
    }

    /// Takes out the values that do not fit into their rows. They need chains, to which
    /// [`Chunk::lead_to`] then leads.
    pub(crate) fn take_outside(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.outside)
    }

    /// Has the rows lead to the chains of their long values.
    pub(crate) fn lead_to(&mut self, table: &Table, chains: &[OverflowRef]) {
        patch_refs(&table.clustered().layout, &mut self.records[0], chains);
    }

    /// Sets the hidden row id of the next row.
    pub(crate) fn number_next(&mut self, row_id: u64) {
        self.next_row_id = row_id;
    }

    /// Takes the statistics out.
    pub(crate) fn take_columns(&mut self) -> Vec<Collector> {
        std::mem::take(&mut self.columns)
    }

    /// Records of each index.
    pub(crate) fn into_records(self) -> Vec<Vec<u8>> {
        self.records
    }
}

impl Encoder {
    /// An encoder for rows that `trx` inserts into `table`.
    #[must_use]
    pub fn new(table: Arc<Table>, trx: TrxId) -> Self {
        Self { table, trx }
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// An empty chunk, whose rows get hidden row ids from `first_row_id` on if the table needs
    /// them.
    #[must_use]
    pub fn chunk(&self, first_row_id: u64) -> Chunk {
        Chunk {
            rows: 0,
            records: vec![Vec::new(); self.table.indexes.len()],
            columns: vec![Collector::default(); self.table.def.columns.len()],
            next_row_id: first_row_id,
            outside: Vec::new(),
        }
    }

    /// The clustered record of a row.
    pub(crate) fn clustered(&self, row: &[Datum], row_id: u64) -> Result<Vec<u8>, RowError> {
        let header = RecordHeader {
            flags: RecordFlags::default(),
            trx: self.trx,
            roll: RollPtr(0),
        };
        self.check_count(row.len())?;
        let mut record = Vec::new();
        encode_with(
            &self.table.clustered().layout,
            header,
            &mut record,
            |column| {
                Ok(row
                    .get(column)
                    .map_or(ValueRef::UInt(row_id), Datum::as_ref))
            },
        )?;
        Ok(record)
    }

    /// The clustered record of a row whose values are given as they are stored.
    pub(crate) fn clustered_of(
        &self,
        row: &[ValueRef<'_>],
        row_id: u64,
    ) -> Result<Vec<u8>, RowError> {
        self.check_count(row.len())?;
        let header = RecordHeader {
            flags: RecordFlags::default(),
            trx: self.trx,
            roll: RollPtr(0),
        };
        let layout = &self.table.clustered().layout;
        let mut record = Vec::new();
        let value = |column: usize| row.get(column).copied().unwrap_or(ValueRef::UInt(row_id));
        encode_with(layout, header, &mut record, |column| Ok(value(column)))?;
        Ok(record)
    }

    fn check_count(&self, got: usize) -> Result<(), RowError> {
        match self.table.def.columns.len() {
            expected if expected != got => Err(RowError::ColumnCount { expected, got }),
            _ => Ok(()),
        }
    }

    /// Adds a row given as values of the table's columns. On error the chunk is unchanged.
    pub fn push(&self, chunk: &mut Chunk, row: &[Datum]) -> Result<(), RowError> {
        self.push_with(chunk, |column| Ok(row[column].as_ref()))
    }

    /// Adds a row given as text fields of the table's columns (`None` = NULL). On error the chunk
    /// is unchanged.
    pub fn push_text(&self, chunk: &mut Chunk, fields: &[Option<&[u8]>]) -> Result<(), RowError> {
        let columns = &self.table.def.columns;
        self.push_with(chunk, |column| match fields[column] {
            None => Ok(ValueRef::Null),
            Some(text) => parse_text_ref(columns[column].ty, text),
        })
    }

    /// Sorts the chunk's records, so that it can be merged with others.
    pub fn finish(&self, chunk: &mut Chunk) {
        for (index, records) in self.table.indexes.iter().zip(&mut chunk.records) {
            *records = sorted(&index.layout.shape, std::mem::take(records));
        }
    }

    fn push_with<'v>(
        &self,
        chunk: &mut Chunk,
        value: impl Fn(usize) -> Result<ValueRef<'v>, ValueError>,
    ) -> Result<(), RowError> {
        let outside = chunk.outside.len();
        let mut starts = [0; MAX_INDEXES + 1];
        for (start, records) in starts.iter_mut().zip(&chunk.records) {
            *start = records.len();
        }
        let pushed = match self.table.has_long() {
            true => self.push_long(chunk, &value),
            false => self.push_records(chunk, &value),
        };
        if let Err(e) = pushed {
            chunk.outside.truncate(outside);
            for (start, records) in starts.iter().zip(&mut chunk.records) {
                records.truncate(*start);
            }
            return Err(e);
        }
        let view = RecordView::new(
            &self.table.clustered().layout,
            &chunk.records[0][starts[0]..],
        );
        for (column, collector) in chunk.columns.iter_mut().enumerate() {
            collector.add(&view, column);
        }
        chunk.next_row_id += 1;
        chunk.rows += 1;
        Ok(())
    }

    /// As [`Encoder::push_records`], with long values that do not fit into the row set aside.
    fn push_long<'v>(
        &self,
        chunk: &mut Chunk,
        value: &impl Fn(usize) -> Result<ValueRef<'v>, ValueError>,
    ) -> Result<(), RowError> {
        let layout = &self.table.clustered().layout;
        let mut values = Vec::with_capacity(layout.columns.len());
        for column in 0..self.table.def.columns.len() {
            let wrap = |error| {
                let column = column as u16;
                RowError::Column { column, error }
            };
            let ty = layout.columns[column].ty;
            values.push(match value(column).map_err(wrap)? {
                ValueRef::String(text) if ty.is_long() => parse_text_ref(ty, text).map_err(wrap)?,
                value => value,
            });
        }
        let row_id = ValueRef::UInt(chunk.next_row_id);
        let of = |column: usize| values.get(column).copied().unwrap_or(row_id);
        for column in values_to_move_out(layout, of) {
            if let ValueRef::String(text) = values[column] {
                let pending = OverflowRef::pending(chunk.outside.len(), text.len());
                chunk.outside.push(text.to_vec());
                values[column] = ValueRef::Overflow(pending);
            }
        }
        self.push_records(chunk, &|column: usize| Ok(values[column]))
    }

    /// Appends the clustered record and one entry for each secondary index.
    fn push_records<'v>(
        &self,
        chunk: &mut Chunk,
        value: &impl Fn(usize) -> Result<ValueRef<'v>, ValueError>,
    ) -> Result<(), RowError> {
        let header = RecordHeader {
            flags: RecordFlags::default(),
            trx: self.trx,
            roll: RollPtr(0),
        };
        let width = self.table.def.columns.len();
        let row_id = ValueRef::UInt(chunk.next_row_id);
        let (clustered, secondary) = chunk.records.split_at_mut(1);
        let start = clustered[0].len();
        encode_with(
            &self.table.clustered().layout,
            header,
            &mut clustered[0],
            |column| {
                if column < width {
                    value(column)
                } else {
                    Ok(row_id)
                }
            },
        )?;
        let view = RecordView::new(&self.table.clustered().layout, &clustered[0][start..]);
        for (index, entries) in self.table.indexes[1..].iter().zip(secondary) {
            push_entry(index, &view, entries)?;
        }
        Ok(())
    }
}

/// Appends the entry of a secondary index for a clustered record of the same table.
pub(crate) fn push_entry(
    index: &Index,
    row: &RecordView<'_>,
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    // The hidden row id is the last column of a clustered record.
    let row_id = row.layout().columns.len() - 1;
    encode_with(&index.layout, RecordHeader::default(), out, |column| {
        Ok(row.value(match index.columns[column] {
            HIDDEN_ROW_ID => row_id,
            column => usize::from(column),
        }))
    })
}
