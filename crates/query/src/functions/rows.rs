//! String and mathematical functions that are computed a row at a time: one line of the table each.
//!
//! Arguments are converted as MySQL does (numbers to text, text to numbers); a NULL argument makes
//! the result NULL.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, Float64Array, Float64Builder, Int64Array,
    Int64Builder, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_value::collation::weight;
use perigee_value::{date, string};

use super::cast::{Target, convert, fsp_of};
use super::types::is_bytes;
use super::{kernels, text};
use crate::error::SqlError;
use crate::interrupt;
use crate::plan::metadata;

/// Type of a parameter or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Text,
    Int,
    Double,
    Date,
}

/// One value of a row.
enum Value<'a> {
    Text(Cow<'a, str>),
    Int(i64),
    Double(f64),
}

impl<'a> Value<'a> {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    fn int(&self) -> i64 {
        match self {
            Self::Int(v) => *v,
            _ => 0,
        }
    }

    fn double(&self) -> f64 {
        match self {
            Self::Double(v) => *v,
            _ => 0.0,
        }
    }

    fn owned(text: impl Into<String>) -> Option<Self> {
        Some(Self::Text(Cow::Owned(text.into())))
    }

    fn slice(bytes: &[u8]) -> Option<Self> {
        Self::owned(String::from_utf8_lossy(bytes))
    }

    fn finite(v: f64) -> Option<Self> {
        v.is_finite().then_some(Self::Double(v))
    }
}

type Evaluate = for<'a> fn(&[Value<'a>]) -> Option<Value<'a>>;

/// A function's line in the table.
struct Definition {
    name: &'static str,
    /// Least and greatest number of arguments.
    arguments: (usize, usize),
    /// Kinds of parameters; the last one repeats.
    parameters: &'static [Kind],
    result: Kind,
    evaluate: Evaluate,
}

use Kind::{Date, Double, Int, Text};

const MANY: usize = usize::MAX;

macro_rules! define {
    ($($name:literal $arguments:tt; $($kind:ident),* => $result:ident = $evaluate:expr;)*) => {
        &[$(Definition {
            name: $name,
            arguments: $arguments,
            parameters: &[$($kind),*],
            result: $result,
            evaluate: $evaluate,
        }),*]
    };
}

static DEFINITIONS: &[Definition] = define! {
    "mysql_concat" (1, MANY); Text => Text = |a| {
        Value::owned(a.iter().map(Value::text).collect::<String>())
    };
    "mysql_substring" (2, 3); Text, Int, Int => Text = |a| {
        let length = a.get(2).map(Value::int);
        Value::slice(string::substring(a[0].text().as_bytes(), a[1].int(), length))
    };
    "mysql_left" (2, 2); Text, Int => Text = |a| {
        Value::slice(string::substring(a[0].text().as_bytes(), 1, Some(a[1].int())))
    };
    "mysql_right" (2, 2); Text, Int => Text = |a| {
        let chars = a[0].text().chars().count() as i64;
        let count = a[1].int().clamp(0, chars);
        Value::owned(a[0].text().chars().skip((chars - count) as usize).collect::<String>())
    };
    "mysql_length" (1, 1); Text => Int = |a| Some(Value::Int(a[0].text().len() as i64));
    "mysql_char_length" (1, 1); Text => Int = |a| {
        Some(Value::Int(a[0].text().chars().count() as i64))
    };
    "mysql_upper" (1, 1); Text => Text = |a| {
        Value::owned(cased(a[0].text(), char::to_uppercase))
    };
    "mysql_lower" (1, 1); Text => Text = |a| {
        Value::owned(cased(a[0].text(), char::to_lowercase))
    };
    "mysql_trim" (1, 2); Text => Text = |a| {
        Value::owned(strip_end(strip_start(a[0].text(), cut(a)), cut(a)))
    };
    "mysql_ltrim" (1, 2); Text => Text = |a| Value::owned(strip_start(a[0].text(), cut(a)));
    "mysql_rtrim" (1, 2); Text => Text = |a| Value::owned(strip_end(a[0].text(), cut(a)));
    "mysql_reverse" (1, 1); Text => Text = |a| {
        Value::owned(a[0].text().chars().rev().collect::<String>())
    };
    "mysql_replace" (3, 3); Text => Text = |a| {
        if a[1].text().is_empty() {
            return Value::owned(a[0].text());
        }
        Value::owned(a[0].text().replace(a[1].text(), a[2].text()))
    };
    "mysql_locate" (2, 3); Text, Text, Int => Int = |a| {
        Some(Value::Int(locate(a[0].text(), a[1].text(), a.get(2).map_or(1, Value::int))))
    };
    "mysql_locate_weights" (2, 3); Text, Text, Int => Int = |a| {
        let from = a.get(2).map_or(1, Value::int);
        Some(Value::Int(locate_weights(a[0].text(), a[1].text(), from)))
    };
    "mysql_lpad" (3, 3); Text, Int, Text => Text = |a| pad(a, true);
    "mysql_rpad" (3, 3); Text, Int, Text => Text = |a| pad(a, false);
    "mysql_ascii" (1, 1); Text => Int = |a| {
        Some(Value::Int(a[0].text().bytes().next().map_or(0, i64::from)))
    };
    "mysql_datediff" (2, 2); Date => Int = |a| Some(Value::Int(a[0].int() - a[1].int()));
    "mysql_dayofweek" (1, 1); Date => Int = |a| {
        // 1970-01-01 was a Thursday; Sunday is 1.
        Some(Value::Int((a[0].int() + 4).rem_euclid(7) + 1))
    };
    "mysql_weekday" (1, 1); Date => Int = |a| Some(Value::Int((a[0].int() + 3).rem_euclid(7)));
    "mysql_dayofyear" (1, 1); Date => Int = |a| {
        let days = a[0].int() as i32;
        let year = date::Civil::from_days(days).year;
        let first = date::Civil { year, month: 1, day: 1 }.to_days()?;
        Some(Value::Int(i64::from(days - first) + 1))
    };
    "mysql_sqrt" (1, 1); Double => Double = |a| Value::finite(a[0].double().sqrt());
    "mysql_exp" (1, 1); Double => Double = |a| Some(Value::Double(a[0].double().exp()));
    "mysql_ln" (1, 1); Double => Double = |a| Value::finite(a[0].double().ln());
    "mysql_log2" (1, 1); Double => Double = |a| Value::finite(a[0].double().log2());
    "mysql_log10" (1, 1); Double => Double = |a| Value::finite(a[0].double().log10());
    "mysql_power" (2, 2); Double => Double = |a| {
        Some(Value::Double(a[0].double().powf(a[1].double())))
    };
    "mysql_pi" (0, 0); Double => Double = |_| Some(Value::Double(std::f64::consts::PI));
};

/// A text in another case, as MySQL has it: each character becomes one character or stays, `ß` for example.
fn cased<I: ExactSizeIterator<Item = char>>(text: &str, case: fn(char) -> I) -> String {
    let one = |char: char| {
        let mut chars = case(char);
        match chars.len() {
            1 => chars.next().unwrap_or(char),
            _ => char,
        }
    };
    text.chars().map(one).collect()
}

fn cut<'v>(args: &'v [Value<'_>]) -> &'v str {
    args.get(1).map_or(" ", Value::text)
}

fn strip_start<'t>(mut text: &'t str, what: &str) -> &'t str {
    while let Some(rest) = text.strip_prefix(what).filter(|_| !what.is_empty()) {
        text = rest;
    }
    text
}

fn strip_end<'t>(mut text: &'t str, what: &str) -> &'t str {
    while let Some(rest) = text.strip_suffix(what).filter(|_| !what.is_empty()) {
        text = rest;
    }
    text
}

/// Where character `from` of a text begins, or the text ends.
fn start_of(text: &str, from: i64) -> Option<usize> {
    let skip = usize::try_from(from - 1).ok()?;
    let starts = text.char_indices().map(|(at, _)| at);
    starts.chain([text.len()]).nth(skip)
}

/// Position in characters of `what` in `text` from character `from`, 0 if absent.
fn locate(what: &str, text: &str, from: i64) -> i64 {
    let Some(start) = start_of(text, from) else {
        return 0;
    };
    match text[start..].find(what) {
        Some(at) => text[..start + at].chars().count() as i64 + 1,
        None => 0,
    }
}

/// As [`locate`], by the weights of characters. As in MySQL what is found has as many bytes as `what`:
/// `'ä'` is not found in `'a'`.
fn locate_weights(what: &str, text: &str, from: i64) -> i64 {
    let Some(start) = start_of(text, from) else {
        return 0;
    };
    let rest = &text[start..];
    let found = |at: usize| -> bool {
        let part = rest.get(at..at + what.len());
        part.is_some_and(|part| part.chars().map(weight).eq(what.chars().map(weight)))
    };
    let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    match starts.into_iter().position(found) {
        Some(skipped) => from + skipped as i64,
        None => 0,
    }
}

/// Longest text that is computed, in bytes: MySQL's default `max_allowed_packet`.
const MAX_TEXT: usize = 64 << 20;

/// Most bytes of texts that are computed for a batch of rows. No operator asks for this memory before they are
/// there.
const MAX_BATCH: usize = 256 << 20;

fn pad<'a>(args: &[Value<'a>], left: bool) -> Option<Value<'a>> {
    let (text, length, filler) = (args[0].text(), args[1].int(), args[2].text());
    if !(0..=MAX_TEXT as i64).contains(&length) {
        return None;
    }
    let (length, chars) = (length as usize, text.chars().count());
    if chars >= length {
        return Value::owned(text.chars().take(length).collect::<String>());
    }
    if filler.is_empty() {
        return Value::owned("");
    }
    let (missing, cycle) = (length - chars, filler.chars().count());
    let mut fill = filler.repeat(missing / cycle);
    fill.extend(filler.chars().take(missing % cycle));
    Value::owned(if left {
        fill + text
    } else {
        text.to_owned() + &fill
    })
}

/// A function of the table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RowFunction {
    /// Index into [`DEFINITIONS`].
    index: usize,
    signature: Signature,
}

/// All functions of the table.
pub fn all() -> impl Iterator<Item = RowFunction> {
    (0..DEFINITIONS.len()).map(|index| RowFunction {
        index,
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

/// A function of the table by its name.
#[must_use]
pub fn named(name: &str) -> Option<RowFunction> {
    all().find(|function| function.name() == name)
}

/// LOCATE.
pub const LOCATE: &str = "mysql_locate";

/// LOCATE where strings compare by weights.
pub const LOCATE_WEIGHTS: &str = "mysql_locate_weights";

/// Checks the number of arguments of a function of the table; `None` if it is not in the table.
#[must_use]
pub fn accepts(name: &str, arguments: usize) -> Option<bool> {
    let definition = DEFINITIONS.iter().find(|d| d.name == name)?;
    Some((definition.arguments.0..=definition.arguments.1).contains(&arguments))
}

/// True for arguments of the table's functions that are numbers.
#[must_use]
pub fn takes_number(name: &str, argument: usize) -> bool {
    let definition = DEFINITIONS.iter().find(|d| d.name == name);
    let kinds = definition.map_or(&[][..], |definition| definition.parameters);
    let kind = kinds.get(argument).or(kinds.last());
    matches!(kind, Some(Int | Double))
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        DEFINITIONS[self.index].name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DfResult<DataType> {
        let definition = &DEFINITIONS[self.index];
        Ok(match definition.result {
            Text if is_over_bytes(definition, arguments) => DataType::BinaryView,
            Text => DataType::Utf8View,
            Int => DataType::Int64,
            Double => DataType::Float64,
            Date => DataType::Date32,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        interrupt::check_df()?;
        let definition = &DEFINITIONS[self.index];
        for (i, field) in args.arg_fields.iter().enumerate() {
            if parameter(definition, i) == Date && field.data_type().is_numeric() {
                let what = format!("a number as date argument of {}", definition.name);
                return Err(SqlError::not_supported(what).into_df());
            }
        }
        let types = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone());
        let types: Vec<_> = types.collect();
        let ty = self.return_type(&types)?;
        let mut field = Field::new(self.name(), ty, true);
        if definition.result == Text {
            let fields = args.arg_fields.iter().enumerate();
            let texts = fields.filter(|(i, _)| parameter(definition, *i) == Text);
            metadata::pass_collation(texts.map(|(_, field)| field.as_ref()), &mut field);
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let definition = &DEFINITIONS[self.index];
        let scalar = args
            .args
            .iter()
            .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let types = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone());
        let bytes = is_over_bytes(definition, &types.collect::<Vec<_>>());
        let mut columns = Vec::with_capacity(args.args.len());
        for (i, arg) in args.args.iter().enumerate() {
            let fsp = fsp_of(&args.arg_fields[i]);
            let kind = parameter(definition, i);
            columns.push(match bytes && kind == Text {
                true => Column::of_bytes(arg, fsp, rows)?,
                false => Column::new(arg, kind, fsp, rows)?,
            });
        }
        let result = evaluate(definition, &columns, rows, bytes)?;
        check_range(definition, &result)?;
        kernels::shape(result, scalar)
    }
}

/// Refuses a result beyond the range of DOUBLE.
fn check_range(definition: &Definition, result: &ArrayRef) -> DfResult<()> {
    if definition.result != Double {
        return Ok(());
    }
    let mut values = result.as_primitive::<Float64Type>().iter().flatten();
    match values.all(f64::is_finite) {
        true => Ok(()),
        false => {
            let name = definition.name.trim_start_matches("mysql_");
            Err(SqlError::numeric_range("DOUBLE", format!("{name}(…)")).into_df())
        }
    }
}

/// True if a function gets bytes for texts: then its texts have a character for each byte
/// ([`text::to_latin`]).
fn is_over_bytes(definition: &Definition, arguments: &[DataType]) -> bool {
    let mut arguments = arguments.iter().enumerate();
    arguments.any(|(i, ty)| parameter(definition, i) == Text && is_bytes(ty))
}

/// What is computed over bytes, where that is not what is computed over a character for each.
fn over_bytes(definition: &Definition) -> Evaluate {
    match definition.name {
        "mysql_length" => |a| Some(Value::Int(a[0].text().chars().count() as i64)),
        "mysql_ascii" => |a| {
            let first = a[0].text().chars().next();
            Some(Value::Int(first.map_or(0, |c| i64::from(u32::from(c)))))
        },
        // Bytes have no case.
        "mysql_upper" | "mysql_lower" => |a| Value::owned(a[0].text()),
        _ => definition.evaluate,
    }
}

fn parameter(definition: &Definition, i: usize) -> Kind {
    let last = definition.parameters.len().saturating_sub(1);
    definition
        .parameters
        .get(i.min(last))
        .copied()
        .unwrap_or(Text)
}

/// An argument, converted to the kind of its parameter; constants have one row.
enum Column {
    Text(StringViewArray, bool),
    Int(Int64Array, bool),
    Double(Float64Array, bool),
}

impl Column {
    fn new(arg: &ColumnarValue, kind: Kind, fsp: u8, rows: usize) -> DfResult<Self> {
        let constant = matches!(arg, ColumnarValue::Scalar(_));
        let array = arg.to_array(if constant { 1 } else { rows })?;
        Ok(match kind {
            Text => {
                let array = convert(&array, Target::Char(None), fsp)?;
                Self::Text(text::as_view(&array)?, constant)
            }
            Int => {
                let array = convert(&array, Target::Signed, 0)?;
                Self::Int(array.as_primitive::<Int64Type>().clone(), constant)
            }
            Double => {
                let array = convert(&array, Target::Double, 0)?;
                Self::Double(array.as_primitive::<Float64Type>().clone(), constant)
            }
            Date => {
                let days = convert(&array, Target::Date, 0)?;
                let days = datafusion::arrow::compute::cast(&days, &DataType::Int32)?;
                let days = datafusion::arrow::compute::cast(&days, &DataType::Int64)?;
                Self::Int(days.as_primitive::<Int64Type>().clone(), constant)
            }
        })
    }

    /// A text over bytes.
    fn of_bytes(arg: &ColumnarValue, fsp: u8, rows: usize) -> DfResult<Self> {
        let constant = matches!(arg, ColumnarValue::Scalar(_));
        let array = arg.to_array(if constant { 1 } else { rows })?;
        Ok(Self::Text(text::to_latin(&array, fsp)?, constant))
    }

    fn get(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Self::Text(array, constant) => {
                let row = if *constant { 0 } else { row };
                array
                    .is_valid(row)
                    .then(|| Value::Text(Cow::Borrowed(array.value(row))))
            }
            Self::Int(array, constant) => {
                let row = if *constant { 0 } else { row };
                array.is_valid(row).then(|| Value::Int(array.value(row)))
            }
            Self::Double(array, constant) => {
                let row = if *constant { 0 } else { row };
                array.is_valid(row).then(|| Value::Double(array.value(row)))
            }
        }
    }
}

/// Texts of a batch.
#[derive(Default)]
struct Total(usize);

impl Total {
    /// Adds a result; NULL if it is longer than a text may be, as in MySQL.
    ///
    /// # Errors
    /// 1038 if they are too long together.
    fn add<'a>(&mut self, value: Option<&'a str>) -> DfResult<Option<&'a str>> {
        let value = value.filter(|text| text.len() <= MAX_TEXT);
        self.0 += value.map_or(0, str::len);
        if self.0 > MAX_BATCH {
            let detail = format!("the texts of a batch of rows take more than {MAX_BATCH} bytes");
            return Err(SqlError::out_of_memory(detail).into_df());
        }
        Ok(value)
    }
}

fn evaluate(
    definition: &Definition,
    columns: &[Column],
    rows: usize,
    bytes: bool,
) -> DfResult<ArrayRef> {
    let mut total = Total::default();
    let function = match bytes {
        true => over_bytes(definition),
        false => definition.evaluate,
    };
    let row = |row: usize| -> Option<Value<'_>> {
        let values: Option<Vec<_>> = columns.iter().map(|column| column.get(row)).collect();
        function(&values?)
    };
    Ok(match definition.result {
        Text if bytes => {
            let mut out = BinaryViewBuilder::with_capacity(rows);
            for i in 0..rows {
                let value = row(i);
                let value = total.add(value.as_ref().map(Value::text))?;
                out.append_option(value.map(text::from_latin));
            }
            Arc::new(out.finish())
        }
        Text => {
            let mut out = StringViewBuilder::with_capacity(rows);
            for i in 0..rows {
                let value = row(i);
                out.append_option(total.add(value.as_ref().map(Value::text))?);
            }
            Arc::new(out.finish())
        }
        Int | Date => {
            let mut out = Int64Builder::with_capacity(rows);
            for i in 0..rows {
                out.append_option(row(i).as_ref().map(Value::int));
            }
            Arc::new(out.finish())
        }
        Double => {
            let mut out = Float64Builder::with_capacity(rows);
            for i in 0..rows {
                out.append_option(row(i).as_ref().map(Value::double));
            }
            Arc::new(out.finish())
        }
    })
}
