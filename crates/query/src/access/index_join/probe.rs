//! Combining outer rows with the inner rows that have their keys, a bounded chunk at a time.
//!
//! Output is in the order of the outer rows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{kernels::cmp, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{JoinSide, Result as DfResult};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

use super::inner::Matches;
use crate::texts::compact;

/// What becomes of an outer row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::access) enum Kind {
    /// One output row for each match.
    Inner,
    /// The same, and one with NULLs if there is no match.
    Outer,
    /// One output row if there is a match.
    Semi,
    /// One output row if there is no match.
    Anti,
}

/// What the join does with outer and inner rows of equal keys.
#[derive(Clone, Debug)]
pub(in crate::access) struct Combine {
    pub kind: Kind,
    /// Which side of the join the outer rows are.
    pub outer: JoinSide,
    /// Comparisons for equality beyond the key: values of the outer and of the inner row.
    pub equal: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    /// The rest of the condition.
    pub filter: Option<JoinFilter>,
    /// Where the output columns come from.
    pub columns: Vec<ColumnIndex>,
    /// The output.
    pub schema: SchemaRef,
}

/// Outer rows that are being combined.
pub(in crate::access) struct Probe {
    outer: RecordBatch,
    key_of_row: Vec<Option<u32>>,
    matches: Matches,
    /// Values of [`Combine::equal`].
    equal: Vec<(ArrayRef, ArrayRef)>,
    /// The next outer row.
    row: usize,
    /// So many of its inner rows were combined already.
    done: u32,
    /// One of them passed the condition.
    matched: bool,
}

/// Some pairs of outer and inner rows.
#[derive(Default)]
struct Pairs {
    outer: Vec<u32>,
    inner: Vec<u32>,
}

impl Probe {
    /// Prepares to combine outer rows with their matches.
    ///
    /// # Errors
    /// If a value to compare cannot be computed.
    pub fn new(
        combine: &Combine,
        outer: RecordBatch,
        key_of_row: Vec<Option<u32>>,
        matches: Matches,
    ) -> DfResult<Self> {
        let equal = combine
            .equal
            .iter()
            .map(|(of_outer, of_inner)| {
                let of_outer = of_outer.evaluate(&outer)?.into_array(outer.num_rows())?;
                let rows = &matches.rows;
                Ok((
                    of_outer,
                    of_inner.evaluate(rows)?.into_array(rows.num_rows())?,
                ))
            })
            .collect::<DfResult<_>>()?;
        Ok(Self {
            outer,
            key_of_row,
            matches,
            equal,
            row: 0,
            done: 0,
            matched: false,
        })
    }

    /// Bytes that the rows take. Columns of strings share buffers, with each other and between batches.
    pub fn size(&self) -> usize {
        let mut counter = RecordBatchMemoryCounter::new();
        counter.count_batch(&self.outer);
        counter.count_batch(&self.matches.rows);
        counter.memory_usage()
    }

    /// The next output rows, from at most `limit` pairs; none at the end.
    ///
    /// # Errors
    /// If the join's condition fails on a pair.
    pub fn next(&mut self, combine: &Combine, limit: usize) -> DfResult<Option<RecordBatch>> {
        if self.row == self.outer.num_rows() {
            return Ok(None);
        }
        let conditional = !combine.equal.is_empty() || combine.filter.is_some();
        if !conditional && matches!(combine.kind, Kind::Semi | Kind::Anti) {
            let rows = self.existing(combine.kind == Kind::Semi);
            return self
                .output(combine, &rows, &UInt32Array::from(Vec::<u32>::new()))
                .map(Some);
        }
        let first = self.row;
        let pairs = self.pairs(limit);
        let pairs = if conditional {
            self.passing(combine, pairs)?
        } else {
            pairs
        };
        let (outer, inner) = self.rows(combine.kind, first, pairs);
        self.output(combine, &outer, &inner).map(Some)
    }

    /// All outer rows that have, or do not have, an inner row with their key.
    fn existing(&mut self, wanted: bool) -> UInt32Array {
        self.row = self.outer.num_rows();
        let rows = (0..self.row).filter(|row| self.inner_rows(*row).is_empty() != wanted);
        rows.map(|row| row as u32).collect::<Vec<_>>().into()
    }

    /// The inner rows with the key of an outer row.
    fn inner_rows(&self, row: usize) -> Range<u32> {
        match self.key_of_row[row] {
            Some(key) => {
                let key = key as usize;
                self.matches.starts[key]..self.matches.starts[key + 1]
            }
            None => 0..0,
        }
    }

    /// The next pairs with equal keys.
    fn pairs(&mut self, limit: usize) -> Pairs {
        let mut pairs = Pairs::default();
        while self.row < self.outer.num_rows() {
            let rows = self.inner_rows(self.row);
            let room = (limit - pairs.outer.len()).min(u32::MAX as usize) as u32;
            let from = rows.start + self.done;
            let count = (rows.end - from).min(room);
            pairs
                .outer
                .resize(pairs.outer.len() + count as usize, self.row as u32);
            pairs.inner.extend(from..from + count);
            if from + count < rows.end {
                self.done += count;
                break;
            }
            self.row += 1;
            self.done = 0;
        }
        pairs
    }

    /// The pairs for which the rest of the join's condition is true. It is evaluated only where the
    /// comparisons hold, as a hash join does.
    fn passing(&self, combine: &Combine, mut pairs: Pairs) -> DfResult<Pairs> {
        for (of_outer, of_inner) in &self.equal {
            let (outer, inner) = pairs.indices();
            let equal = cmp::eq(
                &take(of_outer, &outer, None)?,
                &take(of_inner, &inner, None)?,
            )?;
            pairs = pairs.only(&equal);
        }
        if let Some(filter) = &combine.filter {
            let (outer, inner) = pairs.indices();
            let columns = self.columns(combine, filter.column_indices(), &outer, &inner)?;
            let options = RecordBatchOptions::new().with_row_count(Some(pairs.outer.len()));
            let batch =
                RecordBatch::try_new_with_options(filter.schema().clone(), columns, &options)?;
            let passes = filter
                .expression()
                .evaluate(&batch)?
                .into_array(batch.num_rows())?;
            pairs = pairs.only(passes.as_boolean());
        }
        Ok(pairs)
    }

    /// Output rows from the pairs that passed, which are of outer rows from `first` up to the one
    /// that is being combined: for each the outer row, and the inner row if there is one.
    fn rows(&mut self, kind: Kind, first: usize, pairs: Pairs) -> (UInt32Array, UInt32Array) {
        if kind == Kind::Inner {
            return pairs.indices();
        }
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let mut next = 0;
        let mut pairs_of = |row: usize, outer: &mut Vec<u32>, inner: &mut Vec<Option<u32>>| {
            let mut any = false;
            while pairs.outer.get(next).is_some_and(|of| *of as usize == row) {
                if kind == Kind::Outer {
                    outer.push(row as u32);
                    inner.push(Some(pairs.inner[next]));
                }
                next += 1;
                any = true;
            }
            any
        };
        for row in first..self.row {
            let matched = pairs_of(row, &mut outer, &mut inner) || self.matched;
            self.matched = false;
            match kind {
                Kind::Outer if !matched => {
                    outer.push(row as u32);
                    inner.push(None);
                }
                Kind::Semi if matched => outer.push(row as u32),
                Kind::Anti if !matched => outer.push(row as u32),
                _ => {}
            }
        }
        // The row that this chunk cut is decided when its last pair is.
        self.matched |= pairs_of(self.row, &mut outer, &mut inner);
        (outer.into(), inner.into())
    }

    fn output(
        &self,
        combine: &Combine,
        outer: &UInt32Array,
        inner: &UInt32Array,
    ) -> DfResult<RecordBatch> {
        let columns = self.columns(combine, &combine.columns, outer, inner)?;
        let options = RecordBatchOptions::new().with_row_count(Some(outer.len()));
        Ok(RecordBatch::try_new_with_options(
            combine.schema.clone(),
            columns,
            &options,
        )?)
    }

    fn columns(
        &self,
        combine: &Combine,
        columns: &[ColumnIndex],
        outer: &UInt32Array,
        inner: &UInt32Array,
    ) -> DfResult<Vec<ArrayRef>> {
        let column = |column: &ColumnIndex| {
            let taken = if column.side == combine.outer {
                take(self.outer.column(column.index), outer, None)
            } else {
                take(self.matches.rows.column(column.index), inner, None)
            };
            Ok(compact(taken?))
        };
        columns.iter().map(column).collect()
    }
}

impl Pairs {
    fn indices(&self) -> (UInt32Array, UInt32Array) {
        (self.outer.clone().into(), self.inner.clone().into())
    }

    /// The pairs for which `passes` is true.
    fn only(self, passes: &BooleanArray) -> Self {
        let kept = |(i, _): &(usize, u32)| passes.is_valid(*i) && passes.value(*i);
        let only = |rows: Vec<u32>| -> Vec<u32> {
            rows.into_iter()
                .enumerate()
                .filter(kept)
                .map(|(_, row)| row)
                .collect()
        };
        Self {
            outer: only(self.outer),
            inner: only(self.inner),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    /// Rows of `columns` columns, all with the same strings in the same buffer.
    fn shared(strings: &ArrayRef, columns: usize) -> RecordBatch {
        let field = |i: usize| Field::new(format!("c{i}"), DataType::Utf8View, true);
        let schema = Schema::new((0..columns).map(field).collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), vec![strings.clone(); columns]).unwrap()
    }

    #[test]
    fn buffers_that_columns_and_sides_share_count_once() {
        let texts = (0..8192).map(|i| Some(format!("{i:0>100}")));
        let strings: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        let bytes = strings.get_array_memory_size();
        let probe = Probe {
            outer: shared(&strings, 20),
            key_of_row: Vec::new(),
            matches: Matches {
                rows: shared(&strings.slice(10, 20), 20),
                starts: Vec::new(),
            },
            equal: Vec::new(),
            row: 0,
            done: 0,
            matched: false,
        };
        assert!(bytes > 800_000);
        assert!(probe.size() <= bytes, "{} of {bytes}", probe.size());
    }

    #[test]
    fn few_strings_do_not_keep_the_buffers_of_all() {
        let texts = (0..8192).map(|i| Some(format!("{i:0>100}")));
        let strings: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        let few = compact(strings.slice(4000, 2));
        assert_eq!(few.as_string_view().value(1), format!("{:0>100}", 4001));
        assert!(few.get_array_memory_size() < 1000);
        let all = compact(strings.clone());
        let buffer = |array: &ArrayRef| array.as_string_view().data_buffers()[0].data_ptr();
        assert_eq!(buffer(&all), buffer(&strings), "nothing is copied in vain");
    }
}
