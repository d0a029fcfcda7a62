//! `mysql_scalar(…)`: a bound expression that nothing else in plans computes, evaluated row by row.
//!
//! Its arguments are the columns and parameters that the expression names. Two of them are equal if the expressions are.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Node, Scalar, value_type};
use perigee_sql_type::SqlType;

use super::library::{self, Column, Running};
use super::{kernels, results};
use crate::error::SqlError;
use crate::interrupt;
use crate::plan::{branches, metadata};

/// Its name.
pub const SCALAR: &str = "mysql_scalar";

/// What an argument is the value of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leaf {
    /// The column in this place of the row.
    Column(usize),
    /// The parameter of this number.
    Parameter(usize),
}

/// The function of an expression.
pub struct BoundScalar {
    scalar: Arc<Scalar>,
    leaves: Vec<Leaf>,
    /// All that the expression says.
    text: String,
    signature: Signature,
    /// Stops the statement; plans run on threads that do not know it.
    cancel: Option<CancelToken>,
}

impl BoundScalar {
    /// The function of an expression, and what its arguments are.
    #[must_use]
    pub fn new(scalar: &Scalar) -> (Self, Vec<Leaf>) {
        let mut leaves = Vec::new();
        find_leaves(scalar, &mut leaves);
        leaves.sort_unstable();
        leaves.dedup();
        let volatility = match is_deterministic(scalar) {
            true => Volatility::Immutable,
            false => Volatility::Volatile,
        };
        let kinds = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let function = Self {
            text: format!("{scalar:?}"),
            scalar: Arc::new(scalar.clone()),
            leaves: leaves.clone(),
            signature: Signature::one_of(kinds, volatility),
            cancel: interrupt::token(),
        };
        (function, leaves)
    }

    /// The expression with these texts in the places of what its arguments are the values of.
    #[must_use]
    pub fn shown(&self, arguments: &[String]) -> String {
        let text = self.scalar.to_string();
        let mut shown = String::new();
        let (mut rest, mut quoted) = (text.as_str(), false);
        while let Some(at) = rest.find(['\'', '#', '?']) {
            let (before, mark) = rest.split_at(at);
            shown.push_str(before);
            quoted ^= mark.starts_with('\'');
            let digits = &mark[1..];
            let digits = &digits[..digits
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(digits.len())];
            let leaf = match (digits.parse(), &mark[..1]) {
                (Ok(place), "#") if !quoted => Some(Leaf::Column(place)),
                (Ok(number), "?") if !quoted => Some(Leaf::Parameter(number)),
                _ => None,
            };
            let at = self.leaves.iter().position(|own| Some(*own) == leaf);
            match at.and_then(|at| arguments.get(at)) {
                Some(argument) => {
                    shown.push_str(argument);
                    rest = &mark[1 + digits.len()..];
                }
                None => {
                    shown.push_str(&mark[..1]);
                    rest = &mark[1..];
                }
            }
        }
        shown.push_str(rest);
        shown
    }

    /// The type in which results are computed.
    fn computed_type(&self) -> DataType {
        library::data_type(value_type(&self.scalar.ty))
    }

    fn shown_type(&self) -> DataType {
        shown_type(&self.scalar.ty)
    }
}

fn shown_type(ty: &SqlType) -> DataType {
    match ty.column {
        _ if ty.truth => DataType::Boolean,
        Some(column) => branches::data_type_of(column),
        None => DataType::Null,
    }
}

/// The field of the values of an expression.
#[must_use]
pub fn field_of(scalar: &Scalar) -> Field {
    field_of_type(&scalar.ty)
}

/// The field of values of a type.
#[must_use]
pub fn field_of_type(ty: &SqlType) -> Field {
    let field = Field::new(SCALAR, shown_type(ty), true);
    let Some(column) = ty.column.filter(|_| !ty.truth) else {
        return field;
    };
    let mut map = std::collections::HashMap::new();
    metadata::declare(&mut map, &column);
    if let Some(collation) = column.collation().filter(|own| own.is_text()) {
        metadata::set_collation(&mut map, collation);
    }
    field.with_metadata(map)
}

fn find_leaves(scalar: &Scalar, leaves: &mut Vec<Leaf>) {
    match scalar.node {
        Node::Column(place) => leaves.push(Leaf::Column(place)),
        Node::Parameter(number) => leaves.push(Leaf::Parameter(number)),
        _ => {
            for operand in scalar.operands() {
                find_leaves(operand, leaves);
            }
        }
    }
}

/// True if an expression has one value for each row.
#[must_use]
pub fn is_deterministic(scalar: &Scalar) -> bool {
    scalar.is_deterministic() && scalar.operands().into_iter().all(is_deterministic)
}

impl std::fmt::Debug for BoundScalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoundScalar({})", self.scalar)
    }
}

impl PartialEq for BoundScalar {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for BoundScalar {}

impl Hash for BoundScalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl ScalarUDFImpl for BoundScalar {
    fn name(&self) -> &str {
        SCALAR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn display_name(&self, args: &[Expr]) -> DfResult<String> {
        self.schema_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        Ok(format!("{SCALAR}({}; {})", self.scalar, args.join(", ")))
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.shown_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(field_of(&self.scalar)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_pure = self.signature.volatility == Volatility::Immutable;
        let is_scalar = is_pure && args.args.iter().all(is_constant);
        let rows = if is_scalar { 1 } else { args.number_rows };
        if args.args.len() != self.leaves.len() {
            return internal_err!("Q1: {SCALAR} has an argument for each leaf");
        }
        let mut columns = Vec::with_capacity(args.args.len());
        for (leaf, arg) in self.leaves.iter().zip(&args.args) {
            let array = arg.to_array(if is_constant(arg) { 1 } else { rows })?;
            columns.push((*leaf, is_constant(arg), Column::any(&array)?));
        }
        kernels::shape(self.evaluated(&columns, rows)?, is_scalar)
    }
}

impl BoundScalar {
    fn evaluated(&self, columns: &[(Leaf, bool, Column)], rows: usize) -> DfResult<ArrayRef> {
        let environment = Running::new(self.cancel.as_ref());
        let mut out = results::Results::new(&self.computed_type(), rows, false)?;
        let width = |of: fn(Leaf) -> Option<usize>| {
            let places = self.leaves.iter().filter_map(|leaf| of(*leaf));
            places.max().map_or(0, |last| last + 1)
        };
        let width_of_row = width(|leaf| match leaf {
            Leaf::Column(place) => Some(place),
            Leaf::Parameter(_) => None,
        });
        let width_of_parameters = width(|leaf| match leaf {
            Leaf::Parameter(number) => Some(number),
            Leaf::Column(_) => None,
        });
        for number in 0..rows {
            let mut row = vec![Value::Null; width_of_row];
            let mut parameters = vec![Value::Null; width_of_parameters];
            for (leaf, is_constant, column) in columns {
                let value = column.get(if *is_constant { 0 } else { number });
                match *leaf {
                    Leaf::Column(place) => row[place] = value,
                    Leaf::Parameter(number) => parameters[number] = value,
                }
            }
            let context = Context::with_parameters(&environment, &parameters);
            let value = self.scalar.evaluate(&row, &context);
            out.push(value.map_err(|failure| SqlError::from(failure).into_df())?)?;
        }
        let array = out.finish()?;
        let shown = self.shown_type();
        match *array.data_type() == shown {
            true => Ok(array),
            false => Ok(cast(&array, &shown)?),
        }
    }
}
