//! SUM of doubles, exact until it is rounded once at the end ([`perigee_expr::ExactSum`]): near-data processing, the
//! number of workers and the order of the rows change nothing.

use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Float64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use crate::error::SqlError;
use perigee_expr::ExactSum;

/// `sum(x)` of doubles.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SumDouble {
    signature: Signature,
}

/// The function, in the place of DataFusion's.
#[must_use]
pub fn sum_of_doubles() -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    Arc::new(SumDouble { signature }.into())
}

impl AggregateUDFImpl for SumDouble {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let name = format_state_name(args.name, "sum");
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(match args.is_distinct {
            true => Box::new(DistinctTerms::default()),
            false => Box::new(Terms::default()),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _: AccumulatorArgs<'_>,
    ) -> DfResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::default()))
    }
}

/// The sum that clients see.
fn shown(sum: &ExactSum) -> DfResult<f64> {
    let value = sum.value();
    match value.is_finite() {
        true => Ok(value),
        false => Err(SqlError::numeric_range("DOUBLE", "SUM(…)").into_df()),
    }
}

fn state_of(bytes: &[u8]) -> DfResult<ExactSum> {
    ExactSum::from_bytes(bytes).ok_or_else(|| internal_datafusion_err!("Q1: the state of a sum"))
}

/// The terms that are not NULL.
fn terms(values: &[ArrayRef]) -> impl Iterator<Item = f64> + '_ {
    values[0].as_primitive::<Float64Type>().iter().flatten()
}

/// The sum of one group, or of a window's frame.
#[derive(Debug, Default)]
struct Terms {
    sum: ExactSum,
    /// Terms that are not NULL.
    count: u64,
}

impl Accumulator for Terms {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for term in terms(values) {
            self.sum.add(term);
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for term in terms(values) {
            self.sum.subtract(term);
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = (self.count > 0).then(|| shown(&self.sum)).transpose()?;
        Ok(ScalarValue::Float64(value))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let bytes = (self.count > 0).then(|| self.sum.to_bytes());
        Ok(vec![ScalarValue::Binary(bytes)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            self.sum.merge(&state_of(state)?);
            self.count += 1;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.sum.size()
    }
}

/// The sum of different terms, which are kept.
#[derive(Debug, Default)]
struct DistinctTerms {
    terms: HashSet<u64>,
}

impl DistinctTerms {
    fn insert(&mut self, term: f64) {
        // Both zeros are one value.
        self.terms.insert((term + 0.0).to_bits());
    }
}

impl Accumulator for DistinctTerms {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        terms(values).for_each(|term| self.insert(term));
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let mut sum = ExactSum::default();
        for term in &self.terms {
            sum.add(f64::from_bits(*term));
        }
        let value = (!self.terms.is_empty()).then(|| shown(&sum)).transpose()?;
        Ok(ScalarValue::Float64(value))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let bytes = self.terms.iter().flat_map(|term| term.to_le_bytes());
        Ok(vec![ScalarValue::Binary(Some(bytes.collect()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            let (terms, _) = state.as_chunks::<8>();
            let terms = terms.iter().map(|term| u64::from_le_bytes(*term));
            self.terms.extend(terms);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + 16 * self.terms.capacity()
    }
}

/// The sums of all groups.
#[derive(Debug, Default)]
struct Groups {
    /// `None` for a group without terms.
    sums: Vec<Option<ExactSum>>,
}

impl Groups {
    fn sum_mut(&mut self, group: usize) -> &mut ExactSum {
        self.sums[group].get_or_insert_default()
    }
}

/// True for the rows that a filter lets through.
fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> DfResult<()> {
        self.sums.resize(count, None);
        let terms = values[0].as_primitive::<Float64Type>().iter();
        for (row, (term, group)) in terms.zip(groups).enumerate() {
            if let Some(term) = term.filter(|_| passes(filter, row)) {
                self.sum_mut(*group).add(term);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let values = sums.iter().map(|sum| sum.as_ref().map(shown).transpose());
        Ok(Arc::new(values.collect::<DfResult<Float64Array>>()?))
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let states = sums.iter().map(|sum| sum.as_ref().map(ExactSum::to_bytes));
        Ok(vec![Arc::new(states.collect::<BinaryArray>())])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> DfResult<()> {
        self.sums.resize(count, None);
        for (state, group) in states[0].as_binary::<i32>().iter().zip(groups) {
            if let Some(state) = state {
                self.sum_mut(*group).merge(&state_of(state)?);
            }
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DfResult<Vec<ArrayRef>> {
        let mut states = BinaryBuilder::with_capacity(values[0].len(), 10 * values[0].len());
        for (row, term) in values[0].as_primitive::<Float64Type>().iter().enumerate() {
            states.append_option(term.filter(|_| passes(filter, row)).map(|term| {
                let mut sum = ExactSum::default();
                sum.add(term);
                sum.to_bytes()
            }));
        }
        Ok(vec![Arc::new(states.finish())])
    }

    fn size(&self) -> usize {
        /// Most sums are of two or three doubles.
        const OF_SUM: usize = 32;
        self.sums.capacity() * (size_of::<Option<ExactSum>>() + OF_SUM)
    }
}
