//! CASE, COALESCE, MIN and MAX until types are known: DataFusion's own but for the fields they have, which
//! say in what collation the chosen strings compare. The typing pass puts DataFusion's in their place.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Case, ColumnarValue, Expr, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::plan::{branches, metadata};

/// `mysql_case(condition, value, …, otherwise)`: CASE WHEN condition THEN value … ELSE otherwise END.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Conditional {
    signature: Signature,
}

/// Name of [`Conditional`].
pub const CASE: &str = "mysql_case";

impl Default for Conditional {
    fn default() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Conditional {
    fn name(&self) -> &str {
        CASE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("Q1: {CASE} has a field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let otherwise = args.arg_fields.len() % 2 == 1;
        let nullable = !otherwise || values(args.arg_fields).any(|value| value.is_nullable());
        chosen(
            CASE,
            values(args.arg_fields),
            values(args.scalar_arguments),
            nullable,
        )
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        internal_err!("Q1: the typing pass left {CASE} in a plan")
    }
}

/// The field of one of several values.
fn chosen<'f>(
    name: &str,
    values: impl IntoIterator<Item = &'f FieldRef>,
    literals: impl IntoIterator<Item = &'f Option<&'f ScalarValue>>,
    nullable: bool,
) -> DfResult<FieldRef> {
    let values: Vec<&Field> = values.into_iter().map(AsRef::as_ref).collect();
    let literals = literals.into_iter().copied();
    let common = branches::common(values.iter().copied().zip(literals))?;
    let mut collated = Field::new(name, common.data_type.clone(), nullable);
    metadata::pass_collation(values.into_iter(), &mut collated);
    let mut map = common.metadata(None);
    map.extend(collated.metadata().clone());
    Ok(Arc::new(collated.with_metadata(map)))
}

/// The values among the arguments of [`Conditional`]: what is behind a condition, or behind all of them.
pub fn values<T>(args: &[T]) -> impl Iterator<Item = &T> {
    args.chunks(2).filter_map(|part| part.last())
}

/// The values among the arguments of [`Conditional`], to be changed.
pub fn values_mut<T>(args: &mut [T]) -> impl Iterator<Item = &mut T> {
    args.chunks_mut(2).filter_map(|part| part.last_mut())
}

/// The CASE that [`Conditional`] stands for.
#[must_use]
pub fn case(mut args: Vec<Expr>) -> Expr {
    let otherwise = match args.len() % 2 {
        1 => args.pop().map(Box::new),
        _ => None,
    };
    let mut branches = Vec::with_capacity(args.len() / 2);
    let mut args = args.into_iter().map(Box::new);
    while let (Some(condition), Some(value)) = (args.next(), args.next()) {
        branches.push((condition, value));
    }
    Expr::Case(Case::new(None, branches, otherwise))
}

/// `mysql_coalesce(a, b, …)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Coalesce {
    signature: Signature,
}

/// Name of [`Coalesce`].
pub const COALESCE: &str = "mysql_coalesce";

impl Default for Coalesce {
    fn default() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        COALESCE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("Q1: {COALESCE} has a field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let nullable = args.arg_fields.iter().all(|value| value.is_nullable());
        chosen(COALESCE, args.arg_fields, args.scalar_arguments, nullable)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        internal_err!("Q1: the typing pass left {COALESCE} in a plan")
    }
}

/// `min(x)` and `max(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Extreme {
    /// DataFusion's.
    own: Arc<AggregateUDF>,
}

impl Extreme {
    /// Both.
    pub fn all() -> impl Iterator<Item = Self> {
        [min_udaf(), max_udaf()].into_iter().map(|own| Self { own })
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn signature(&self) -> &Signature {
        self.own.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.own.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.own.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        let mut field = self.own.return_field(fields)?.as_ref().clone();
        metadata::pass_collation(fields.iter().map(AsRef::as_ref), &mut field);
        Ok(Arc::new(field))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        internal_err!("Q1: the typing pass left {} in a plan", self.name())
    }
}

/// DataFusion's function in the place of [`Extreme`]; any other as it is.
#[must_use]
pub fn extreme(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "min" => min_udaf(),
        "max" => max_udaf(),
        _ => function,
    }
}
