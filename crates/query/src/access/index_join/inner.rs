//! The inner side of an index nested-loop join: keys from outer rows, and the inner rows with them.

use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{filter, filter_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use perigee_engine::scan::{KeySpan, Lookups};
use perigee_engine::txn::ReadView;
use perigee_value::ColumnType;

use super::{LONG_BYTES, LONG_BYTES_PER_REQUEST, ROWS_PER_REQUEST};
use crate::access::engine_error;
use crate::access::exec::PageScanExec;
use crate::access::join_key::{Strings, encode};

/// What the plan does between the table and the join, from the table upwards.
#[derive(Clone, Debug)]
pub(in crate::access) enum Step {
    /// Only rows for which this is true, of those only these columns.
    Filter(Arc<dyn PhysicalExpr>, Option<Vec<usize>>),
    /// These expressions, with this schema.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

/// One leading column of the index's key.
#[derive(Clone, Debug)]
pub(in crate::access) struct KeyPart {
    /// Type of the column.
    pub ty: ColumnType,
    /// Whether the index encodes NULL for it.
    pub nullable: bool,
    /// Its value, over the outer rows.
    pub value: Arc<dyn PhysicalExpr>,
    /// What that is of a string.
    pub strings: Strings,
}

/// The inner side.
#[derive(Clone, Debug)]
pub(in crate::access) struct InnerSide {
    /// The table, with the index as path; rows are taken from the clustered index.
    pub scan: PageScanExec,
    /// What happens to its rows.
    pub steps: Vec<Step>,
    /// The rows that take part in the join.
    pub schema: SchemaRef,
    /// The key columns that are looked up, at least one.
    pub key: Vec<KeyPart>,
    /// Rows that are expected to have one key, before any filter.
    pub matches: f64,
    /// Made when the first keys are looked up.
    pub lookups: OnceLock<Lookups>,
}

/// The different keys of some outer rows, in key order.
pub(in crate::access) struct Keys {
    pub keys: Vec<Vec<u8>>,
    /// The number of its key for each outer row; none if no inner row can have it.
    pub of_row: Vec<Option<u32>>,
}

/// Inner rows, grouped by key.
pub(in crate::access) struct Matches {
    pub rows: RecordBatch,
    /// The rows of key `k` begin at `starts[k]` and end before `starts[k + 1]`.
    pub starts: Vec<u32>,
}

impl InnerSide {
    /// The keys of outer rows, each once.
    ///
    /// # Errors
    /// If an outer value cannot be computed.
    pub fn keys(&self, outer: &RecordBatch) -> DfResult<Keys> {
        let values = self
            .key
            .iter()
            .map(|part| part.value.evaluate(outer)?.into_array(outer.num_rows()))
            .collect::<DfResult<Vec<_>>>()?;
        let encoded = (0..outer.num_rows())
            .map(|row| self.encode(&values, row))
            .collect::<DfResult<Vec<_>>>()?;
        Ok(number(encoded))
    }

    /// The key of one outer row; none if no inner row can have it: NULL equals nothing, and a value
    /// outside the column's range is not in the index.
    fn encode(&self, values: &[ArrayRef], row: usize) -> DfResult<Option<Vec<u8>>> {
        let mut out = Vec::new();
        for (part, values) in self.key.iter().zip(values) {
            let column = (part.ty, part.nullable);
            if !encode(column, part.strings, values, row, &mut out)? {
                return Ok(None);
            }
        }
        Ok(Some(out))
    }

    /// The view to read the rows with these keys with: if they are locked, the one that the last lock
    /// gave, which sees all that was locked.
    async fn view_of(&self, keys: &[Vec<u8>]) -> DfResult<Arc<ReadView>> {
        let scan = &self.scan;
        let mut view = scan.context.view.clone();
        if scan.context.locker.is_some() {
            for key in keys {
                let span = KeySpan::prefix(key).into();
                let locked = scan
                    .context
                    .view_of(&scan.table, scan.path.index, &span)
                    .await;
                view = locked.map_err(engine_error)?;
            }
        }
        Ok(view)
    }

    /// True if storage picks rows out of pages that are not in the buffer pool.
    pub fn uses_key_batches(&self) -> bool {
        let path = &self.scan.path;
        (path.fetch || path.index == 0) && self.scan.uses_key_batches()
    }

    /// Inner rows that a request should find: fewer if they come with long values.
    pub fn rows_per_request(&self) -> usize {
        let columns = &self.scan.table.def.columns;
        let is_long = |column: &&usize| columns.get(**column).is_some_and(|c| c.ty.is_long());
        let width = |column: &usize| {
            let stats = self.scan.stats.columns.get(*column);
            stats.map_or(LONG_BYTES, |stats| stats.average_width)
        };
        let long = self.scan.projection.iter().filter(is_long).map(width);
        let width = f64::from(long.sum::<f32>()).max(1.0);
        ((LONG_BYTES_PER_REQUEST / width) as usize).clamp(1, ROWS_PER_REQUEST)
    }

    /// The inner rows with these keys.
    ///
    /// # Errors
    /// If the engine cannot read them, or an expression fails on one.
    pub async fn look_up(&self, keys: Vec<Vec<u8>>) -> DfResult<Matches> {
        let count = keys.len();
        let scan = &self.scan;
        let view = self.view_of(&keys).await?;
        let lookups = match self.lookups.get() {
            Some(lookups) => lookups.with_view(view),
            None => {
                let prepared = scan.lookups(view, self.key.len())?;
                self.lookups.get_or_init(|| {
                    scan.context.status.count(&scan.ndp);
                    prepared.clone()
                });
                prepared
            }
        };
        let found = lookups.find(&keys).await.map_err(engine_error)?;
        let mut rows = scan.shape(&found.batch, &scan_schema(scan))?;
        let mut key_of_row = UInt32Array::from(found.key_of_row);
        for step in &self.steps {
            (rows, key_of_row) = step.apply(rows, key_of_row)?;
        }
        Ok(Matches {
            starts: starts(key_of_row.values(), count),
            rows,
        })
    }
}

/// The columns that a scan delivers.
fn scan_schema(scan: &PageScanExec) -> SchemaRef {
    use datafusion::physical_plan::ExecutionPlan;
    scan.schema()
}

impl Step {
    fn apply(
        &self,
        rows: RecordBatch,
        key_of_row: UInt32Array,
    ) -> DfResult<(RecordBatch, UInt32Array)> {
        match self {
            Self::Filter(predicate, columns) => {
                let passes = predicate.evaluate(&rows)?.into_array(rows.num_rows())?;
                // What is NULL does not pass.
                let passes = passes.as_boolean();
                let mut kept = filter_record_batch(&rows, passes)?;
                if let Some(columns) = columns {
                    kept = kept.project(columns)?;
                }
                let key_of_row = filter(&key_of_row, passes)?;
                Ok((kept, key_of_row.as_primitive().clone()))
            }
            Self::Project(exprs, schema) => {
                let columns = exprs
                    .iter()
                    .map(|expr| expr.evaluate(&rows)?.into_array(rows.num_rows()))
                    .collect::<DfResult<Vec<_>>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                let rows = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
                Ok((rows, key_of_row))
            }
        }
    }
}

/// Sorts keys, so that lookups go through the index in one direction, and drops duplicates.
fn number(encoded: Vec<Option<Vec<u8>>>) -> Keys {
    let mut of_row = vec![None; encoded.len()];
    let mut order: Vec<(Vec<u8>, usize)> = encoded
        .into_iter()
        .enumerate()
        .filter_map(|(row, key)| Some((key?, row)))
        .collect();
    order.sort_unstable();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for (key, row) in order {
        if keys.last() != Some(&key) {
            keys.push(key);
        }
        of_row[row] = Some(keys.len() as u32 - 1); // fewer keys than rows of a batch
    }
    Keys { keys, of_row }
}

/// Where each key's rows begin, and where the last one's end.
fn starts(key_of_row: &[u32], keys: usize) -> Vec<u32> {
    assert!(
        key_of_row.is_sorted(),
        "Q9: a lookup delivers rows in the order of its keys"
    );
    let mut starts = vec![0; keys + 1];
    for key in key_of_row {
        starts[*key as usize + 1] += 1;
    }
    for key in 0..keys {
        starts[key + 1] += starts[key];
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_counted_once() {
        let key = |text: &str| Some(text.as_bytes().to_vec());
        let keys = number(vec![key("b"), None, key("a"), key("b"), key("c")]);
        assert_eq!(keys.keys, [b"a", b"b", b"c"]);
        assert_eq!(keys.of_row, [Some(1), None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn starts_bound_the_rows_of_each_key() {
        assert_eq!(starts(&[1, 1, 3], 5), [0, 0, 2, 2, 3, 3]);
        assert_eq!(starts(&[], 2), [0, 0, 0]);
    }
}
