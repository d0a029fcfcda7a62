//! BIT_AND, BIT_OR and BIT_XOR over the frames of a window, which rows leave again: each bit is counted.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

/// Which bits the result has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// Those that all rows have.
    And,
    /// Those that a row has.
    Or,
    /// Those that an odd number of rows has.
    Xor,
}

impl Bits {
    /// The function of plans.
    #[must_use]
    pub fn function(self) -> Arc<AggregateUDF> {
        let signature = Signature::exact(vec![DataType::UInt64], Volatility::Immutable);
        let bits = self;
        Arc::new(Function { bits, signature }.into())
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    bits: Bits,
    signature: Signature,
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        match self.bits {
            Bits::And => "bit_and",
            Bits::Or => "bit_or",
            Bits::Xor => "bit_xor",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::UInt64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let name = format_state_name(args.name, self.name());
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Counts {
            bits: self.bits,
            counts: [0; 64],
            rows: 0,
        }))
    }
}

/// How many rows have each bit.
#[derive(Debug)]
struct Counts {
    bits: Bits,
    counts: [u64; 64],
    rows: u64,
}

impl Counts {
    fn count(&mut self, values: &ArrayRef, add: impl Fn(&mut u64)) {
        for value in values.as_primitive::<UInt64Type>().iter().flatten() {
            add(&mut self.rows);
            for (place, count) in self.counts.iter_mut().enumerate() {
                if value >> place & 1 == 1 {
                    add(count);
                }
            }
        }
    }

    fn has(&self, count: u64) -> bool {
        match self.bits {
            Bits::And => count == self.rows,
            Bits::Or => count > 0,
            Bits::Xor => count % 2 == 1,
        }
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.count(&values[0], |count| *count += 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.count(&values[0], |count| *count -= 1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let places = self.counts.iter().enumerate();
        let value = places.fold(0, |value, (place, count)| {
            value | u64::from(self.has(*count)) << place
        });
        Ok(ScalarValue::UInt64(Some(value)))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let all = self.counts.iter().chain([&self.rows]);
        let bytes = all.flat_map(|count| count.to_le_bytes()).collect();
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            let (counts, _) = state.as_chunks::<8>();
            let [counts @ .., rows] = counts else {
                return Err(internal_datafusion_err!("Q1: the state of bits"));
            };
            self.rows += u64::from_le_bytes(*rows);
            for (own, count) in self.counts.iter_mut().zip(counts) {
                *own += u64::from_le_bytes(*count);
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use datafusion::arrow::array::UInt64Array;

    use super::*;

    #[test]
    fn rows_leave_again() {
        let column = |values: &[u64]| Arc::new(UInt64Array::from(values.to_vec())) as ArrayRef;
        for (bits, both, last, none) in [
            (Bits::And, 4, 6, u64::MAX),
            (Bits::Or, 7, 6, 0),
            (Bits::Xor, 3, 6, 0),
        ] {
            let mut counts = Counts {
                bits,
                counts: [0; 64],
                rows: 0,
            };
            let value = |counts: &mut Counts| counts.evaluate().unwrap();
            counts.update_batch(&[column(&[5, 6])]).unwrap();
            assert_eq!(value(&mut counts), ScalarValue::UInt64(Some(both)));
            counts.retract_batch(&[column(&[5])]).unwrap();
            assert_eq!(value(&mut counts), ScalarValue::UInt64(Some(last)));
            counts.retract_batch(&[column(&[6])]).unwrap();
            assert_eq!(value(&mut counts), ScalarValue::UInt64(Some(none)));
        }
    }
}
