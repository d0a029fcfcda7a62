//! COUNT, SUM, MIN, MAX and AVG of a column over rows at hand, exact types only.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use perigee_engine::catalog::Table;
use perigee_value::{ColumnType, ValueRef, decimal};
use sqlparser::ast::{Expr, Function, FunctionArgExpr, SelectItem};

use super::function;
use super::names::Names;
use super::rows::{self, Rows};

/// A column that stands for no column: `COUNT(*)`.
const ALL: u16 = u16::MAX;

/// An aggregate of a select list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aggregate {
    function: Kind,
    column: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Sum,
    Min,
    Max,
    Average,
}

/// The select list, if it is nothing but aggregates.
pub(super) fn list(projection: &[SelectItem], names: &Names<'_>) -> Option<Vec<Aggregate>> {
    let item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias {
            expr: Expr::Function(function),
            ..
        } => aggregate(function, names),
        _ => None,
    };
    projection.iter().map(item).collect()
}

fn aggregate(function: &Function, names: &Names<'_>) -> Option<Aggregate> {
    let (name, arguments) = function::call(function)?;
    let (function, column) = match (name.as_str(), &arguments[..]) {
        ("count", [FunctionArgExpr::Wildcard]) => (Kind::Count, ALL),
        (name, [FunctionArgExpr::Expr(expr)]) => {
            let function = match name {
                "count" => Kind::Count,
                "sum" => Kind::Sum,
                "min" => Kind::Min,
                "max" => Kind::Max,
                "avg" => Kind::Average,
                _ => return None,
            };
            (function, names.column(expr)?)
        }
        _ => return None,
    };
    Some(Aggregate { function, column })
}

/// True if the aggregates of these columns are computed here, as values of these types.
pub(super) fn fit<'t>(
    aggregates: &[Aggregate],
    table: &Table,
    types: impl ExactSizeIterator<Item = &'t DataType>,
) -> bool {
    let fits = |(aggregate, ty): (&Aggregate, &DataType)| {
        let column = table.def.columns.get(usize::from(aggregate.column));
        match (aggregate.function, column.map(|column| column.ty), ty) {
            (Kind::Count, _, DataType::Int64) => true,
            (
                Kind::Sum | Kind::Average,
                Some(ColumnType::Int { .. } | ColumnType::Decimal { .. }),
                DataType::Decimal128(..),
            ) => true,
            (Kind::Min | Kind::Max, Some(ty), arrow) => {
                rows::is_bytewise(ty) && !ty.is_string() && rows::is_delivered(arrow)
            }
            _ => false,
        }
    };
    types.len() == aggregates.len() && aggregates.iter().zip(types).all(fits)
}

/// The aggregates of the rows; `None` if a value is outside its type.
pub(super) fn row(
    aggregates: &[Aggregate],
    rows: &Rows<'_>,
    schema: &SchemaRef,
) -> Option<RecordBatch> {
    let arrays = aggregates
        .iter()
        .zip(schema.fields())
        .map(|(aggregate, field)| {
            let value = aggregate.over(rows, field.data_type())?;
            rows::array(field.data_type(), std::iter::once(value), 1)
        })
        .collect::<Option<Vec<_>>>()?;
    RecordBatch::try_new(schema.clone(), arrays).ok()
}

impl Aggregate {
    fn over<'r>(self, rows: &'r Rows<'_>, ty: &DataType) -> Option<ValueRef<'r>> {
        if self.column == ALL {
            return Some(ValueRef::Int(rows.records.len() as i64));
        }
        let all = (0..rows.records.len()).map(|row| rows.value(row, self.column));
        let mut values = all.filter(|value| !value.is_null());
        match self.function {
            Kind::Count => Some(ValueRef::Int(values.count() as i64)),
            Kind::Min => Some(values.min_by(|a, b| rows::compare(*a, *b)).unwrap_or(NULL)),
            Kind::Max => Some(values.max_by(|a, b| rows::compare(*a, *b)).unwrap_or(NULL)),
            Kind::Sum | Kind::Average => {
                let (count, sum) = values.try_fold((0i128, 0i128), |(count, sum), value| {
                    Some((count + 1, sum.checked_add(units(value)?)?))
                })?;
                if count == 0 {
                    return Some(NULL);
                }
                let DataType::Decimal128(precision, scale) = ty else {
                    return None;
                };
                let sum = match self.function {
                    Kind::Sum => sum,
                    _ => {
                        let from = self.scale(rows);
                        decimal::divide(sum, count, (from, 0), u8::try_from(*scale).ok()?)?
                    }
                };
                decimal::fits(sum, *precision).then_some(ValueRef::Decimal(sum))
            }
        }
    }

    /// Digits behind the point of the column.
    fn scale(self, rows: &Rows<'_>) -> u8 {
        match rows.layout.columns[usize::from(self.column)].ty {
            ColumnType::Decimal { scale, .. } => scale,
            _ => 0,
        }
    }
}

const NULL: ValueRef<'static> = ValueRef::Null;

fn units(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int(v) => Some(i128::from(v)),
        ValueRef::UInt(v) => Some(i128::from(v)),
        ValueRef::Decimal(v) => Some(v),
        _ => None,
    }
}
