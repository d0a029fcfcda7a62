//! GROUP_CONCAT: the texts of a group with a separator between them, in an order, each once if that is wanted, cut at
//! a number of bytes.
//!
//! Its arguments are the text of a row, then the key of the order and that of equal rows, as far as there are such
//! ([`super::row_key`]). A row whose text is NULL does not count.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use super::kept_rows::{KeptRows, rows_of};
use crate::functions::text;
use crate::interrupt;

/// Its name.
const NAME: &str = "group_concat";

/// Rows between two looks at whether the statement is to stop.
const ROWS: usize = 1 << 12;

/// What it does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupConcat {
    /// What stands between two rows.
    pub separator: Arc<str>,
    /// Most bytes of a result.
    pub most: usize,
    /// The arguments have the key of an order.
    pub ordered: bool,
    /// The arguments have a key of which each one counts once.
    pub distinct: bool,
    /// Texts, which are cut between two characters; otherwise bytes.
    pub is_text: bool,
}

impl GroupConcat {
    /// The function of plans.
    #[must_use]
    pub fn function(self) -> Arc<AggregateUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        let concat = Arc::new(self);
        Arc::new(Function { concat, signature }.into())
    }

    /// The place behind which a result is cut.
    fn end(&self, bytes: &[u8]) -> usize {
        let is_start = |place: &usize| bytes[*place] & 0xc0 != 0x80;
        match bytes.len() > self.most {
            true if self.is_text => (0..=self.most).rev().find(is_start).unwrap_or(0),
            true => self.most,
            false => bytes.len(),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    concat: Arc<GroupConcat>,
    signature: Signature,
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(match self.concat.is_text {
            true => DataType::Utf8View,
            false => DataType::BinaryView,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let name = format_state_name(args.name, NAME);
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let concat = Arc::clone(&self.concat);
        Ok(match concat.ordered || concat.distinct {
            true => Box::new(Rows::new(concat)),
            false => Box::new(Joined::new(concat)),
        })
    }
}

/// The texts of rows as bytes.
fn texts(concat: &GroupConcat, array: &ArrayRef) -> DfResult<BinaryArray> {
    let bytes = match concat.is_text {
        true => text::as_bytes(&(Arc::new(text::as_view(array)?) as ArrayRef))?,
        false => text::as_bytes(array)?,
    };
    Ok(bytes.iter().collect())
}

/// A group's texts as they come.
#[derive(Debug)]
struct Joined {
    concat: Arc<GroupConcat>,
    bytes: Vec<u8>,
    /// There was a row.
    any: bool,
}

impl Joined {
    fn new(concat: Arc<GroupConcat>) -> Self {
        Self {
            concat,
            bytes: Vec::new(),
            any: false,
        }
    }

    /// Adds a row. What is behind the end is not kept.
    fn push(&mut self, text: &[u8]) {
        let room = |bytes: &Vec<u8>| (self.concat.most + 1).saturating_sub(bytes.len());
        if std::mem::replace(&mut self.any, true) {
            let separator = self.concat.separator.as_bytes();
            let end = separator.len().min(room(&self.bytes));
            self.bytes.extend(&separator[..end]);
        }
        let end = text.len().min(room(&self.bytes));
        self.bytes.extend(&text[..end]);
    }

    fn value(&self) -> DfResult<ScalarValue> {
        let shown = self
            .any
            .then(|| &self.bytes[..self.concat.end(&self.bytes)]);
        if !self.concat.is_text {
            return Ok(ScalarValue::BinaryView(shown.map(<[u8]>::to_vec)));
        }
        let text = shown
            .map(|shown| String::from_utf8(shown.to_vec()))
            .transpose();
        let text = text.map_err(|_| internal_datafusion_err!("Q1: {NAME} of bytes"))?;
        Ok(ScalarValue::Utf8View(text))
    }
}

impl Accumulator for Joined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let texts = texts(&self.concat, &values[0])?;
        texts.iter().flatten().for_each(|text| self.push(text));
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.value()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let bytes = self.any.then(|| std::mem::take(&mut self.bytes));
        Ok(vec![ScalarValue::Binary(bytes)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let states = states[0].as_binary::<i32>();
        states.iter().flatten().for_each(|text| self.push(text));
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }
}

/// A group's rows, which are put in order in the end.
#[derive(Debug)]
struct Rows {
    concat: Arc<GroupConcat>,
    /// The key of the order, that of equal rows, the text.
    rows: KeptRows<3>,
    /// Keys of rows that were kept.
    known: HashSet<Box<[u8]>>,
    /// Their bytes.
    bytes: usize,
}

impl Rows {
    fn new(concat: Arc<GroupConcat>) -> Self {
        Self {
            concat,
            rows: KeptRows::default(),
            known: HashSet::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, row: [&[u8]; 3]) -> DfResult<()> {
        let [_, key, _] = row;
        if self.concat.distinct {
            if self.known.contains(key) {
                return Ok(());
            }
            self.known.insert(key.into());
            self.bytes += key.len();
        }
        self.rows.push(row)
    }
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let texts = texts(&self.concat, &values[0])?;
        let mut keys = values[1..].iter().map(|keys| keys.as_binary::<i32>());
        let order = self.concat.ordered.then(|| keys.next()).flatten();
        let equal = self.concat.distinct.then(|| keys.next()).flatten();
        for row in 0..texts.len() {
            let key = |keys: Option<&'_ BinaryArray>| -> Vec<u8> {
                keys.map_or_else(Vec::new, |keys| keys.value(row).to_vec())
            };
            if texts.is_valid(row) {
                self.push([&key(order), &key(equal), texts.value(row)])?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        interrupt::check_df()?;
        let mut places: Vec<_> = (0..self.rows.len()).collect();
        if self.concat.ordered {
            // Rows that are equal stay as they came.
            places.sort_by(|a, b| self.rows.get(*a)[0].cmp(self.rows.get(*b)[0]));
        }
        let mut joined = Joined::new(Arc::clone(&self.concat));
        for (number, place) in places.into_iter().enumerate() {
            if number % ROWS == 0 {
                interrupt::check_df()?;
            }
            if joined.bytes.len() > self.concat.most {
                break;
            }
            let [_, _, text] = self.rows.get(place);
            joined.push(text);
        }
        joined.value()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let bytes = (!self.rows.is_empty()).then(|| self.rows.as_bytes().to_vec());
        Ok(vec![ScalarValue::Binary(bytes)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            for row in rows_of::<3>(state) {
                self.push(row?)?;
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let keys = self.known.capacity() * size_of::<Box<[u8]>>() * 2 + self.bytes;
        size_of::<Self>() + self.rows.size() + keys
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn concat(most: usize, is_text: bool) -> Arc<GroupConcat> {
        Arc::new(GroupConcat {
            separator: "--".into(),
            most,
            ordered: true,
            distinct: true,
            is_text,
        })
    }

    #[test]
    fn a_result_is_cut_between_characters() {
        let cut = |most, is_text| {
            let mut joined = Joined::new(concat(most, is_text));
            joined.push("aä".as_bytes());
            joined.push(b"b");
            joined.value().unwrap()
        };
        let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
        assert_eq!(cut(100, true), text("aä--b"));
        assert_eq!(cut(2, true), text("a"));
        assert_eq!(cut(3, true), text("aä"));
        assert_eq!(cut(4, true), text("aä-"));
        assert_eq!(
            cut(2, false),
            ScalarValue::BinaryView(Some(vec![b'a', 0xc3]))
        );
    }

    #[test]
    fn merged_rows_are_ordered_and_count_once() {
        let parts = [[("2", "b"), ("1", "a")], [("1", "a"), ("3", "c")]];
        let mut whole = Rows::new(concat(100, true));
        for part in parts {
            let mut rows = Rows::new(concat(100, true));
            for (key, text) in part {
                rows.push([key.as_bytes(), text.as_bytes(), text.as_bytes()])
                    .unwrap();
            }
            let state = rows.state().unwrap().swap_remove(0).to_array().unwrap();
            whole.merge_batch(&[state]).unwrap();
        }
        let all = ScalarValue::Utf8View(Some("a--b--c".into()));
        assert_eq!(whole.evaluate().unwrap(), all);
        let mut none = Rows::new(concat(100, true));
        assert_eq!(none.evaluate().unwrap(), ScalarValue::Utf8View(None));
    }
}
