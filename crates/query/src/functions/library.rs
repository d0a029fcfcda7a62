//! The functions of `perigee_expr` in DataFusion plans: each entry becomes a scalar function `mysql_NAME`.
//!
//! Arguments are converted to the kinds of the parameters as CAST does, constants once for a batch.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Float64Array, Int64Array,
    StringViewArray, UInt64Array,
};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, FieldRef, Float64Type,
    Int64Type, TimestampMicrosecondType, UInt64Type,
};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use parking_lot::Mutex;
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::{
    Argument, Call, Environment, Function, FunctionError, JsonFault, Kind, Memo, Value, ValueType,
};
use perigee_value::{Collation, Units};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::cast::{Target, convert, fsp_of};
use super::types::{datetime, decimal_type, is_bytes, is_json, is_string, is_time, json, time};
use super::{dates, kernels, results, text, wide};
use crate::error::SqlError;
use crate::plan::metadata;
use crate::{diagnostics, interrupt};

/// What the names of these functions begin with in plans.
const PREFIX: &str = "mysql_";

/// A function of the library in a plan.
pub struct LibraryFunction {
    name: String,
    function: &'static Function,
    /// In which strings compare.
    collation: Collation,
    signature: Signature,
    /// Stops the statement; plans run on threads that do not know it.
    cancel: Option<CancelToken>,
    /// What is kept from batch to batch.
    memo: Mutex<Memo>,
}

impl LibraryFunction {
    fn new(function: &'static Function, collation: Collation, cancel: Option<CancelToken>) -> Self {
        let volatility = match function.deterministic {
            true => Volatility::Immutable,
            false => Volatility::Volatile,
        };
        let signature = match function.arguments.1 {
            0 => Signature::nullary(volatility),
            _ if function.arguments.0 == 0 => Signature::one_of(
                vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
                volatility,
            ),
            _ => Signature::variadic_any(volatility),
        };
        Self {
            name: name_of(function),
            function,
            collation,
            signature,
            cancel,
            memo: Mutex::default(),
        }
    }

    /// The results for the values of one column, outside of a plan.
    ///
    /// # Errors
    /// Those of the function.
    pub(super) fn of_array(
        function: &'static Function,
        array: &ArrayRef,
        field: &Field,
    ) -> DfResult<ArrayRef> {
        let ty = value_type(field)?;
        let columns = [Column::new(
            array,
            function.parameter(0),
            fsp_of(field),
            false,
        )?];
        let rows = Rows {
            function,
            columns: &columns,
            types: &[ty],
            constant: &[false],
            collation: Collation::UTF8MB4_BIN,
            over_bytes: false,
            cancel: None,
        };
        let argument = Argument { ty, constant: None };
        let result = data_type(function.result_type(&[argument]));
        rows.evaluate(&Memo::default(), array.len(), &result)
    }
}

impl std::fmt::Debug for LibraryFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, collation) = (&self.name, self.collation.name());
        write!(f, "LibraryFunction({name}, {collation})")
    }
}

impl PartialEq for LibraryFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.collation == other.collation
    }
}

impl Eq for LibraryFunction {}

impl Hash for LibraryFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.collation.hash(state);
    }
}

/// The name of a function in plans.
#[must_use]
pub fn name_of(function: &Function) -> String {
    format!("{PREFIX}{}", function.name())
}

/// The function of a plan, with its collation, a memory of its own, and what stops its statement.
#[must_use]
pub fn instance(function: &'static Function, collation: Collation) -> Arc<ScalarUDF> {
    Arc::new(LibraryFunction::new(function, collation, interrupt::token()).into())
}

/// A function that needs nothing of its statement.
#[must_use]
pub fn plain(function: &'static Function) -> Arc<ScalarUDF> {
    Arc::new(LibraryFunction::new(function, Collation::UTF8MB4_BIN, None).into())
}

impl ScalarUDFImpl for LibraryFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("{} has a return field", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        interrupt::check_df()?;
        let constant = |i: usize| args.scalar_arguments[i]?.try_as_str().flatten();
        let fields = args.arg_fields.iter().enumerate();
        let arguments = fields.map(|(i, field)| {
            let (ty, constant) = (value_type(field)?, constant(i));
            Ok(Argument { ty, constant })
        });
        let arguments = arguments.collect::<DfResult<Vec<_>>>()?;
        let ty = self.function.result_type(&arguments);
        let mut field = Field::new(&self.name, data_type(ty), true);
        match ty {
            ValueType::DateTime { fsp } | ValueType::Time { fsp } => {
                field = field.with_metadata([(text::FSP_KEY.to_owned(), fsp.to_string())].into());
            }
            ValueType::Text => {
                let fields = args.arg_fields.iter().enumerate();
                let is_text = |i| matches!(self.function.parameter(i), Kind::Text | Kind::Any);
                let texts = fields.filter(|(i, _)| is_text(*i));
                metadata::pass_collation(texts.map(|(_, field)| field.as_ref()), &mut field);
            }
            _ => {}
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let scalar = self.function.deterministic && args.args.iter().all(is_constant);
        let rows = if scalar { 1 } else { args.number_rows };
        let types = args.arg_fields.iter().map(|field| value_type(field));
        let types = types.collect::<DfResult<Vec<_>>>()?;
        let over_bytes = self.function.is_over_bytes(types.iter().copied());
        let mut columns = Vec::with_capacity(args.args.len());
        for (i, arg) in args.args.iter().enumerate() {
            let array = arg.to_array(if is_constant(arg) { 1 } else { rows })?;
            let kind = self.function.parameter(i);
            let fsp = fsp_of(&args.arg_fields[i]);
            columns.push(Column::new(&array, kind, fsp, over_bytes)?);
        }
        let rows_of = Rows {
            function: self.function,
            columns: &columns,
            types: &types,
            constant: &args.args.iter().map(is_constant).collect::<Vec<_>>(),
            collation: self.collation,
            over_bytes,
            cancel: self.cancel.as_ref(),
        };
        // Another thread that is here at the same time begins with an empty memory.
        let memo = std::mem::take(&mut *self.memo.lock());
        let result = rows_of.evaluate(&memo, rows, args.return_field.data_type());
        *self.memo.lock() = memo;
        kernels::shape(result?, scalar)
    }
}

/// The rows of a batch that a function is called for.
struct Rows<'r> {
    function: &'static Function,
    columns: &'r [Column],
    types: &'r [ValueType],
    constant: &'r [bool],
    collation: Collation,
    over_bytes: bool,
    cancel: Option<&'r CancelToken>,
}

impl Rows<'_> {
    fn evaluate(&self, memo: &Memo, rows: usize, ty: &DataType) -> DfResult<ArrayRef> {
        let mut out = results::Results::new(ty, rows, self.over_bytes)?;
        let mut values = Vec::with_capacity(self.columns.len());
        for row in 0..rows {
            let columns = self.columns.iter().zip(self.constant);
            values.clear();
            values.extend(
                columns.map(|(column, constant)| column.get(if *constant { 0 } else { row })),
            );
            let call = Call {
                name: self.function.name(),
                arguments: &values,
                types: self.types,
                constant: self.constant,
                collation: self.collation,
                over_bytes: self.over_bytes,
                environment: &Running(self.cancel),
                memo,
            };
            let value = self.function.evaluate(&call);
            out.push(value.map_err(|error| SqlError::from(error).into_df())?)?;
        }
        out.finish()
    }
}

/// What functions know of the process and of the statement that runs.
pub struct Running<'a>(Option<&'a CancelToken>);

impl<'a> Running<'a> {
    /// Of a statement that the token stops.
    #[must_use]
    pub fn new(cancel: Option<&'a CancelToken>) -> Self {
        Self(cancel)
    }
}

impl Environment for Running<'_> {
    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_micros() as i64)
    }

    fn random(&self) -> u64 {
        rand::random()
    }

    fn is_stopped(&self) -> bool {
        self.0.is_some_and(CancelToken::is_cancelled) || interrupt::check().is_err()
    }

    fn divided_by_zero(&self) -> Result<(), FunctionError> {
        diagnostics::divided_by_zero(1).map_err(|_| FunctionError::DivisionByZero)
    }

    fn wait(&self, time: Duration) {
        let sleep = || std::thread::sleep(time);
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        match flavor {
            // Other plans go on, on another thread.
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(sleep),
            _ => sleep(),
        }
    }
}

/// The type that a function sees in a field.
fn value_type(field: &Field) -> DfResult<ValueType> {
    Ok(match field.data_type() {
        DataType::Null => ValueType::Null,
        DataType::Boolean => ValueType::Int,
        ty if ty.is_unsigned_integer() => ValueType::UInt,
        ty if ty.is_integer() => ValueType::Int,
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            ValueType::Decimal {
                precision: *precision,
                scale: u8::try_from(*scale).unwrap_or(0),
            }
        }
        DataType::Float32 | DataType::Float64 => ValueType::Double,
        DataType::Date32 => ValueType::Date,
        DataType::Timestamp(..) => ValueType::DateTime { fsp: fsp_of(field) },
        ty if is_time(ty) => ValueType::Time { fsp: fsp_of(field) },
        ty if is_json(ty) => ValueType::Json,
        ty if is_string(ty) => ValueType::Text,
        ty if is_bytes(ty) => ValueType::Bytes,
        ty => return Err(SqlError::not_supported(format!("a value of type {ty}")).into_df()),
    })
}

/// The Arrow type of a result.
#[must_use]
pub fn data_type(ty: ValueType) -> DataType {
    match ty {
        ValueType::Null => DataType::Null,
        ValueType::Int => DataType::Int64,
        ValueType::UInt => DataType::UInt64,
        ValueType::Double => DataType::Float64,
        ValueType::Decimal { precision, scale } => decimal_type(precision, scale),
        ValueType::Text => DataType::Utf8View,
        ValueType::Json => json(),
        ValueType::Bytes => DataType::BinaryView,
        ValueType::Date => DataType::Date32,
        ValueType::DateTime { .. } => datetime(),
        ValueType::Time { .. } => time(),
    }
}

/// An argument, converted to the kind of its parameter; constants have one row.
pub(crate) enum Column {
    Null,
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Double(Float64Array),
    Decimal(Vec<Option<Units>>, u8),
    /// Of another type.
    Array(ArrayRef),
}

impl Column {
    fn new(array: &ArrayRef, kind: Kind, fsp: u8, over_bytes: bool) -> DfResult<Self> {
        let as_int = |array: ArrayRef| Self::Int(array.as_primitive::<Int64Type>().clone());
        Ok(match kind {
            _ if *array.data_type() == DataType::Null => Self::Null,
            Kind::Text if over_bytes => Self::Text(text::to_latin(array, fsp)?),
            Kind::Text => Self::Text(text::to_text(array, fsp)?),
            Kind::Bytes if is_bytes(array.data_type()) => Self::Bytes(text::as_bytes(array)?),
            Kind::Bytes => {
                let texts: ArrayRef = Arc::new(text::to_text(array, fsp)?);
                Self::Bytes(text::as_bytes(&texts)?)
            }
            Kind::Int => as_int(convert(array, Target::Signed, fsp)?),
            Kind::Seconds => as_int(dates::micros_of(array)?),
            Kind::Bits => {
                let bits = convert(array, Target::Unsigned, fsp)?;
                Self::UInt(bits.as_primitive::<UInt64Type>().clone())
            }
            Kind::Double => {
                let doubles = convert(array, Target::Double, fsp)?;
                Self::Double(doubles.as_primitive::<Float64Type>().clone())
            }
            Kind::Number if !array.data_type().is_numeric() => {
                return Self::new(array, Kind::Double, fsp, over_bytes);
            }
            Kind::Json if *array.data_type() == DataType::Boolean => {
                Self::Bool(array.as_boolean().clone())
            }
            Kind::Number | Kind::Any | Kind::Json => Self::any(array)?,
            Kind::Date => Self::Array(convert(array, Target::Date, fsp)?),
            Kind::DateTime => Self::Array(convert(array, Target::DateTime(6), fsp)?),
            Kind::Time => Self::Array(convert(array, Target::Time(6), fsp)?),
        })
    }

    /// Values as they are.
    pub(crate) fn any(array: &ArrayRef) -> DfResult<Self> {
        let of_type = |ty: &DataType| arrow_cast(array, ty);
        Ok(match array.data_type() {
            ty if is_string(ty) => Self::Text(text::as_view(array)?),
            ty if is_bytes(ty) => Self::Bytes(text::as_bytes(array)?),
            ty if ty.is_unsigned_integer() => {
                let numbers = of_type(&DataType::UInt64)?;
                Self::UInt(numbers.as_primitive::<UInt64Type>().clone())
            }
            ty if ty.is_integer() || *ty == DataType::Boolean => {
                let numbers = of_type(&DataType::Int64)?;
                Self::Int(numbers.as_primitive::<Int64Type>().clone())
            }
            DataType::Float32 | DataType::Float64 => {
                let numbers = of_type(&DataType::Float64)?;
                Self::Double(numbers.as_primitive::<Float64Type>().clone())
            }
            DataType::Decimal128(_, scale) => {
                let numbers = array.as_primitive::<Decimal128Type>().iter();
                let scale = u8::try_from(*scale).unwrap_or(0);
                Self::Decimal(numbers.map(|v| v.map(Units::from)).collect(), scale)
            }
            ty @ DataType::Decimal256(..) => {
                Self::Decimal(wide::numbers(array)?, wide::scale_of(ty))
            }
            DataType::Timestamp(..) => Self::Array(of_type(&datetime())?),
            ty if is_time(ty) => Self::Array(of_type(&time())?),
            _ => Self::Array(Arc::clone(array)),
        })
    }

    /// The value of a row.
    pub(crate) fn get(&self, row: usize) -> Value<'_> {
        /// The value of a row of an array.
        macro_rules! value {
            ($array:expr, $value:expr) => {
                match $array.is_valid(row) {
                    true => $value($array.value(row)),
                    false => Value::Null,
                }
            };
        }
        match self {
            Self::Null => Value::Null,
            Self::Text(texts) => value!(texts, Value::text),
            Self::Bytes(bytes) => value!(bytes, Value::bytes),
            Self::Bool(truths) => value!(truths, Value::Bool),
            Self::Int(numbers) => value!(numbers, Value::Int),
            Self::UInt(numbers) => value!(numbers, Value::UInt),
            Self::Double(numbers) => value!(numbers, Value::Double),
            Self::Decimal(numbers, scale) => {
                Value::or_null(numbers[row].map(|units| Value::Decimal(units, *scale)))
            }
            Self::Array(array) => match array.data_type() {
                DataType::Date32 => value!(array.as_primitive::<Date32Type>(), Value::Date),
                DataType::Timestamp(..) => {
                    value!(
                        array.as_primitive::<TimestampMicrosecondType>(),
                        Value::DateTime
                    )
                }
                _ => value!(array.as_primitive::<DurationMicrosecondType>(), Value::Time),
            },
        }
    }
}

impl From<FunctionError> for SqlError {
    fn from(error: FunctionError) -> Self {
        match error {
            FunctionError::OutOfRange { kind, function } => {
                Self::numeric_range(kind, format!("{function}(…)"))
            }
            FunctionError::IncorrectValue {
                kind,
                value,
                function,
            } => Self::wrong_value_for_function(kind, value, function),
            FunctionError::IncorrectArguments(function) => Self::wrong_arguments_to(function),
            FunctionError::Regex { errno, message } => Self::interrupted_by(errno, &message),
            FunctionError::Json(fault) => Self::from(fault),
            FunctionError::Digest(statement) => Self::digest_argument(statement),
            FunctionError::NotSupported(what) => Self::not_supported(what),
            FunctionError::DivisionByZero => Self::division_by_zero(),
            FunctionError::Interrupted => Self::interrupted(),
        }
    }
}

impl From<JsonFault> for SqlError {
    fn from(fault: JsonFault) -> Self {
        match fault {
            JsonFault::InvalidText {
                argument,
                function,
                kind,
                at,
            } => Self::invalid_json_argument(argument, function, kind, at),
            JsonFault::InvalidType { argument, function } => {
                Self::invalid_json_type(argument, function)
            }
            JsonFault::NotString { argument, function } => Self::incorrect_type(argument, function),
            JsonFault::Binary => Self::json_of_binary("binary"),
            JsonFault::InvalidPath(at) => Self::invalid_json_path(at),
            JsonFault::Wildcard => Self::json_path_wildcard(),
            JsonFault::VacuousPath => Self::json_vacuous_path(),
            JsonFault::OneOrAll(function) => Self::json_one_or_all(function),
            JsonFault::TooDeep => Self::json_too_deep(),
            JsonFault::NullName => Self::json_null_name(),
            JsonFault::NotCell => Self::json_not_cell(),
            JsonFault::MissingValue => Self::json_missing_value("json_value"),
            JsonFault::InvalidCast => Self::json_cast("json_value"),
            JsonFault::InvalidDefault => Self::invalid_default("json_value"),
            JsonFault::TableMissing(column) => Self::json_table_missing(column),
            JsonFault::TableNotScalar(column) => Self::json_table_scalar(column),
            JsonFault::TableRange(column) => Self::json_table_range(column),
            JsonFault::TableCast(column) => Self::json_table_cast(column),
            JsonFault::Corrupt(detail) => Self::corrupt(detail),
        }
    }
}
