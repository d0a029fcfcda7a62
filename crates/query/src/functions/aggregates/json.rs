//! JSON_ARRAYAGG and JSON_OBJECTAGG. Their values are texts of JSON in normal form; those of the latter have a name
//! before them.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use perigee_value::json::{Json, MAX_DEPTH};

use super::kept_rows::{KeptRows, rows_of};
use crate::error::SqlError;
use crate::functions::{text, types};
use crate::interrupt;

/// Rows between two looks at whether the statement is to stop.
const ROWS: usize = 1 << 12;

/// What is made of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// JSON_ARRAYAGG.
    Array,
    /// JSON_OBJECTAGG.
    Object,
}

impl Kind {
    /// The function of plans.
    #[must_use]
    pub fn function(self) -> Arc<AggregateUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(
            Function {
                kind: self,
                signature,
            }
            .into(),
        )
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Array => "json_arrayagg",
            Kind::Object => "json_objectagg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(types::json())
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let name = format_state_name(args.name, self.name());
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(match self.kind {
            Kind::Array => Box::new(Elements::default()),
            Kind::Object => Box::new(Members::default()),
        })
    }
}

/// Arrays and objects that lie within each other in a text in normal form.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn check_depth(text: &str) -> DfResult<()> {
    match depth(text) < MAX_DEPTH {
        true => Ok(()),
        false => Err(SqlError::json_too_deep().into_df()),
    }
}

fn utf8(bytes: &[u8]) -> DfResult<&str> {
    let text = std::str::from_utf8(bytes);
    text.map_err(|_| internal_datafusion_err!("Q1: the state of an aggregate of JSON"))
}

/// The elements of an array. Rows leave a window's frame at its start, which is why their number is known.
#[derive(Debug, Default)]
struct Elements {
    /// The texts with a comma and a space behind each.
    text: String,
    /// Where the first one starts: what is before it left the frame.
    start: usize,
    /// Bytes of each, with what is behind it.
    lengths: VecDeque<usize>,
}

/// What stands behind an element.
const BEHIND: &str = ", ";

impl Elements {
    fn push(&mut self, element: &str) {
        self.text.push_str(element);
        self.text.push_str(BEHIND);
        self.lengths.push_back(element.len() + BEHIND.len());
    }
}

impl Accumulator for Elements {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for element in text::as_view(&values[0])?.iter() {
            let element = element.unwrap_or("null");
            check_depth(element)?;
            self.push(element);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let gone = self.lengths.drain(..values[0].len());
        self.start += gone.sum::<usize>();
        if self.start > self.text.len() / 2 {
            self.text.drain(..self.start);
            self.start = 0;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let all = &self.text[self.start..];
        let array = all.strip_suffix(BEHIND).map(|all| format!("[{all}]"));
        Ok(ScalarValue::LargeUtf8(array))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let mut rows = KeptRows::<1>::default();
        let mut at = self.start;
        for length in &self.lengths {
            rows.push([&self.text.as_bytes()[at..at + length - BEHIND.len()]])?;
            at += length;
        }
        let state = (!rows.is_empty()).then(|| rows.as_bytes().to_vec());
        Ok(vec![ScalarValue::Binary(state)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            for row in rows_of::<1>(state) {
                let [element] = row?;
                self.push(utf8(element)?);
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let lengths = size_of::<usize>() * self.lengths.capacity();
        size_of::<Self>() + self.text.capacity() + lengths
    }
}

/// The members of an object, all that came: of those with one name the last one counts.
#[derive(Debug, Default)]
struct Members {
    /// Name and value.
    rows: KeptRows<2>,
    /// Rows that left a window's frame.
    gone: usize,
}

impl Accumulator for Members {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let (names, members) = (text::as_view(&values[0])?, text::as_view(&values[1])?);
        for (name, member) in names.iter().zip(members.iter()) {
            let name = name.ok_or_else(|| SqlError::json_null_name().into_df())?;
            let member = member.unwrap_or("null");
            check_depth(member)?;
            self.rows.push([name.as_bytes(), member.as_bytes()])?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.gone += values[0].len();
        if self.gone > self.rows.len() / 2 {
            let mut rows = KeptRows::default();
            for place in self.gone..self.rows.len() {
                rows.push(self.rows.get(place))?;
            }
            self.rows = rows;
            self.gone = 0;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        interrupt::check_df()?;
        let mut places: Vec<_> = (self.gone..self.rows.len()).collect();
        if places.is_empty() {
            return Ok(ScalarValue::LargeUtf8(None));
        }
        let name = |place: usize| {
            let [name, _] = self.rows.get(place);
            (name.len(), name)
        };
        // The order of the normal form; of one name the last one stands last.
        places.sort_by(|a, b| name(*a).cmp(&name(*b)));
        let mut object = String::from("{");
        for (number, place) in places.iter().enumerate() {
            if number % ROWS == 0 {
                interrupt::check_df()?;
            }
            let next = places.get(number + 1);
            if next.is_some_and(|next| name(*next) == name(*place)) {
                continue;
            }
            let [name, member] = self.rows.get(*place);
            if object.len() > 1 {
                object.push_str(", ");
            }
            let name = Json::String(utf8(name)?.to_owned()).to_string();
            object.extend([&name, ": ", utf8(member)?]);
        }
        object.push('}');
        Ok(ScalarValue::LargeUtf8(Some(object)))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let state = (!self.rows.is_empty()).then(|| self.rows.as_bytes().to_vec());
        Ok(vec![ScalarValue::Binary(state)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            for row in rows_of::<2>(state) {
                self.rows.push(row?)?;
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.rows.size()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use datafusion::arrow::array::StringArray;

    use super::*;

    fn column(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    fn shown(accumulator: &mut dyn Accumulator) -> String {
        accumulator.evaluate().unwrap().to_string()
    }

    #[test]
    fn elements_leave_at_the_start() {
        let mut elements = Elements::default();
        assert_eq!(shown(&mut elements), "NULL");
        elements
            .update_batch(&[column(&["1", "\"a, b\"", "[2]"])])
            .unwrap();
        assert_eq!(shown(&mut elements), "[1, \"a, b\", [2]]");
        elements.retract_batch(&[column(&["1"])]).unwrap();
        assert_eq!(shown(&mut elements), "[\"a, b\", [2]]");
        elements.retract_batch(&[column(&["", ""])]).unwrap();
        elements.update_batch(&[column(&["3"])]).unwrap();
        assert_eq!(shown(&mut elements), "[3]");
        let mut merged = Elements::default();
        let state = elements.state().unwrap().swap_remove(0);
        merged.merge_batch(&[state.to_array().unwrap()]).unwrap();
        assert_eq!(shown(&mut merged), "[3]");
    }

    #[test]
    fn of_members_with_one_name_the_last_counts() {
        let mut members = Members::default();
        let names = column(&["bb", "a\"", "bb"]);
        members
            .update_batch(&[names, column(&["1", "2", "[3]"])])
            .unwrap();
        assert_eq!(shown(&mut members), "{\"a\\\"\": 2, \"bb\": [3]}");
        members
            .retract_batch(&[column(&["", ""]), column(&["", ""])])
            .unwrap();
        assert_eq!(shown(&mut members), "{\"bb\": [3]}");
        let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        assert!(members.update_batch(&[null, column(&["1"])]).is_err());
    }

    #[test]
    fn brackets_in_strings_are_no_levels() {
        assert_eq!(depth("[1, {\"[\\\"[\": [2]}]"), 3);
        assert_eq!(depth("\"[[\""), 0);
    }
}
