//! The frontend's half: a batch becomes Arrow arrays, and what storage left open is completed.
//!
//! The frontend resolves each ambiguous record to the version its read view sees, if any. These
//! versions go through the very same scanner; rows are spliced in where the ambiguous records
//! stood, partial aggregate states are appended. An expression that fails raises its error here
//! and nowhere else.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::ArrowError;
use bytes::Bytes;
use perigee_page::RecordFlags;

use crate::batch::{Column, NdpBatch, PageRun};
use crate::execution::Execution;
use crate::filter::Filters;
use crate::scanner::Scanner;
use crate::{NdpError, arrow};

/// A completed batch.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Rows in the order of the pages, or partial aggregate states.
    pub batch: RecordBatch,
    /// Index in the request and number of rows of each page covered, in the order of the rows:
    /// what it takes to bring the rows of several batches into page order. With an aggregate the
    /// numbers are 0.
    pub page_rows: Vec<(u32, u32)>,
}

/// Rows made of ambiguous records, and where they belong.
struct Resolved {
    columns: Vec<ArrayRef>,
    rows: usize,
    /// For each such row the number of rows of the batch that come before it.
    positions: Vec<usize>,
}

/// Records are evaluated in buffers that 16-bit offsets can address.
const BUFFER_LEN: usize = 1 << 16;

impl Scanner {
    /// Completes a batch. `resolved[i]` is the version of ambiguous record `i` that the scan sees,
    /// or `None` if it sees none; for a record of kind `Failed` it is the record itself.
    ///
    /// # Errors
    /// [`NdpError::Evaluation`] if an expression over a resolved version fails;
    /// [`NdpError::Batch`] if the batch does not fit the descriptor.
    pub fn finish(
        self: &Arc<Self>,
        batch: NdpBatch,
        resolved: &[Option<Bytes>],
    ) -> Result<Finished, NdpError> {
        self.finish_filtered(batch, resolved, &Filters::default())
    }

    /// The same, with only those of the resolved versions that pass these filters.
    ///
    /// # Errors
    /// As [`Scanner::finish`].
    pub fn finish_filtered(
        self: &Arc<Self>,
        batch: NdpBatch,
        resolved: &[Option<Bytes>],
        filters: &Filters,
    ) -> Result<Finished, NdpError> {
        self.check(&batch, resolved)?;
        let NdpBatch {
            mut pages,
            rows,
            ambiguous,
            columns,
            ..
        } = batch;
        let mut columns = self.arrays(rows, columns)?;
        let mut total = rows;
        if resolved.iter().any(Option::is_some) {
            let starts: Vec<_> = pages
                .iter()
                .scan(0, |next, run| {
                    let start = *next;
                    *next += run.rows as usize;
                    Some(start)
                })
                .collect();
            let places = ambiguous
                .iter()
                .map(|a| (a.page as usize, starts[a.page as usize] + a.row as usize));
            let versions = places
                .zip(resolved)
                .filter_map(|(place, version)| Some((place, version.as_ref()?)));
            let extra = if self.aggregate.is_some() {
                self.aggregate_resolved(rows, versions.map(|(_, version)| version), filters)?
            } else {
                self.project_resolved(&mut pages, versions, filters)?
            };
            total += extra.rows;
            let pairs = columns.iter().zip(&extra.columns);
            columns = pairs
                .map(|(own, new)| splice(own, new, &extra.positions))
                .collect::<Result<_, ArrowError>>()
                .map_err(mismatch)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(total));
        let batch = RecordBatch::try_new_with_options(self.output_schema(), columns, &options)
            .map_err(mismatch)?;
        Ok(Finished {
            batch,
            page_rows: pages.iter().map(|run| (run.index, run.rows)).collect(),
        })
    }

    fn check(&self, batch: &NdpBatch, resolved: &[Option<Bytes>]) -> Result<(), NdpError> {
        let what = if batch.descriptor != self.hash {
            "was made for another descriptor"
        } else if batch.aggregated != self.aggregate.is_some()
            || batch.columns.len() != self.schema.fields().len()
        {
            "has other columns than the descriptor asks for"
        } else if batch.ambiguous.len() != resolved.len() {
            "has another number of ambiguous records than were resolved"
        } else {
            return Ok(());
        };
        Err(NdpError::Batch {
            what: what.to_owned(),
        })
    }

    fn arrays(&self, rows: usize, columns: Vec<Column>) -> Result<Vec<ArrayRef>, NdpError> {
        let fields = self.schema.fields().iter();
        fields
            .zip(columns)
            .map(|(field, c)| arrow::array(field.data_type(), rows, c))
            .collect()
    }

    /// Rows of the resolved versions that pass; adds them to the counts of their pages.
    fn project_resolved<'a>(
        self: &Arc<Self>,
        pages: &mut [PageRun],
        versions: impl Iterator<Item = ((usize, usize), &'a Bytes)>,
        filters: &Filters,
    ) -> Result<Resolved, NdpError> {
        let mut execution = Execution::new(Arc::clone(self));
        execution.set_filters(filters.clone());
        let mut positions = Vec::new();
        self.in_buffers(versions, |buffer, offsets, places: &[(usize, usize)]| {
            let passed = execution.records(buffer, offsets)?;
            let mut passed = passed.iter().peekable();
            for (offset, (page, position)) in offsets.iter().zip(places) {
                if passed.next_if_eq(&offset).is_some() {
                    pages[*page].rows += 1;
                    positions.push(*position);
                }
            }
            Ok(())
        })?;
        let batch = execution.take();
        let columns = self.arrays(batch.rows, batch.columns)?;
        Ok(Resolved {
            columns,
            rows: batch.rows,
            positions,
        })
    }

    /// Partial states of the resolved versions, to stand behind those of the batch.
    fn aggregate_resolved<'a>(
        self: &Arc<Self>,
        rows: usize,
        versions: impl Iterator<Item = &'a Bytes>,
        filters: &Filters,
    ) -> Result<Resolved, NdpError> {
        let mut execution = Execution::new(Arc::clone(self));
        execution.set_filters(filters.clone());
        self.in_buffers(versions.map(|v| ((), v)), |buffer, offsets, _: &[()]| {
            execution.records(buffer, offsets).map(drop)
        })?;
        let batch = execution.take();
        let columns = self.arrays(batch.rows, batch.columns)?;
        Ok(Resolved {
            columns,
            rows: batch.rows,
            positions: vec![rows; batch.rows],
        })
    }

    /// Calls `run` with buffers of records, their offsets and what came with them.
    fn in_buffers<'a, P>(
        &self,
        versions: impl Iterator<Item = (P, &'a Bytes)>,
        mut run: impl FnMut(&[u8], &[u16], &[P]) -> Result<(), NdpError>,
    ) -> Result<(), NdpError> {
        let shape = &self.descriptor.layout.shape;
        let (mut buffer, mut offsets, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, version) in versions {
            if shape.record_len(version) != Some(version.len()) {
                let what = "resolved version is of another shape".to_owned();
                return Err(NdpError::Batch { what });
            }
            if RecordFlags(version[0]).is_deleted() {
                continue;
            }
            if buffer.len() + version.len() > BUFFER_LEN && !buffer.is_empty() {
                run(&buffer, &offsets, &places)?;
                buffer.clear();
                offsets.clear();
                places.clear();
            }
            offsets.push(u16::try_from(buffer.len()).expect("the buffer was emptied in time"));
            buffer.extend_from_slice(version);
            places.push(place);
        }
        run(&buffer, &offsets, &places)
    }
}

fn mismatch(error: ArrowError) -> NdpError {
    NdpError::Batch {
        what: error.to_string(),
    }
}

/// `new[i]` stands in front of row `positions[i]` of `own`; positions do not decrease.
fn splice(own: &ArrayRef, new: &ArrayRef, positions: &[usize]) -> Result<ArrayRef, ArrowError> {
    let (own_data, new_data) = (own.to_data(), new.to_data());
    let total = own.len() + new.len();
    let mut out = MutableArrayData::new(vec![&own_data, &new_data], false, total);
    let mut done = 0;
    let mut taken = 0;
    for run in positions.chunk_by(|a, b| a == b) {
        out.try_extend(0, done, run[0])?;
        out.try_extend(1, taken, taken + run.len())?;
        done = run[0];
        taken += run.len();
    }
    out.try_extend(0, done, own.len())?;
    Ok(make_array(out.freeze()))
}
