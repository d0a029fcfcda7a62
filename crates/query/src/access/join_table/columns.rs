//! What is known of the columns of a plan that is to become a table: their types, and whether some of them are unique.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use perigee_engine::ndp::joins_column;
use perigee_value::{Collation, ColumnType};

use crate::access::exec::{PageScanExec, as_page_scan};
use crate::access::join_key::Around;

/// A column of a plan that is one of a table.
pub(super) struct Origin<'a> {
    scan: &'a PageScanExec,
    /// Its number in the table.
    column: usize,
}

impl<'a> Origin<'a> {
    /// Where a column of a plan comes from, as it is.
    pub fn of(plan: &'a Arc<dyn ExecutionPlan>, column: usize) -> Option<Self> {
        let (below, column) = match below(plan, column) {
            Some(step) => step?,
            None => {
                let scan = as_page_scan(plan).filter(|scan| scan.aggregate.is_none())?;
                let column = *scan.projection.get(column)?;
                return Some(Self { scan, column });
            }
        };
        Self::of(below, column)
    }

    fn ty(&self) -> Option<ColumnType> {
        let def = self.scan.table.def.columns.get(self.column)?;
        let binary = def.ty.is_string() && !def.ty.collation().is_some_and(Collation::is_text);
        (!binary && joins_column(def.ty)).then_some(def.ty)
    }

    /// Average width of its values in bytes.
    pub fn width(&self) -> Option<f64> {
        let stats = self.scan.stats.columns.get(self.column)?;
        Some(f64::from(stats.average_width))
    }

    /// How many different values it has.
    pub fn distinct(&self) -> Option<f64> {
        let stats = self.scan.stats.columns.get(self.column)?;
        Some(stats.distinct as f64)
    }
}

/// The plan below and the column there, if the plan gives out columns as it gets them; `None` inside if this one is
/// computed.
type Step<'a> = Option<(&'a Arc<dyn ExecutionPlan>, usize)>;

fn below(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<Step<'_>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = projection.expr().get(column);
        let inner = expr.and_then(|expr| expr.expr.downcast_ref::<Column>());
        return Some(inner.map(|inner| (projection.input(), inner.index())));
    }
    let filter = plan.downcast_ref::<FilterExec>()?;
    let column = match filter.projection() {
        Some(projection) => projection.get(column).copied(),
        None => Some(column),
    };
    Some(column.map(|column| (filter.input(), column)))
}

/// The type of a column in a table, if it can be in one.
pub(super) fn column_type(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<ColumnType> {
    if let Some(origin) = Origin::of(plan, column) {
        return origin.ty();
    }
    let integer = |bytes, unsigned| ColumnType::Int { bytes, unsigned };
    Some(match plan.schema().field(column).data_type() {
        DataType::Int8 => integer(1, false),
        DataType::Int16 => integer(2, false),
        DataType::Int32 => integer(4, false),
        DataType::Int64 => integer(8, false),
        DataType::UInt8 => integer(1, true),
        DataType::UInt16 => integer(2, true),
        DataType::UInt32 => integer(4, true),
        DataType::UInt64 => integer(8, true),
        DataType::Decimal128(precision, scale) => ColumnType::Decimal {
            precision: *precision,
            scale: u8::try_from(*scale).ok()?,
        },
        DataType::Float64 => ColumnType::Double,
        DataType::Date32 => ColumnType::Date,
        DataType::Timestamp(TimeUnit::Microsecond, None) => ColumnType::DateTime { fsp: 6 },
        DataType::Duration(TimeUnit::Microsecond) => ColumnType::Time { fsp: 6 },
        _ => return None,
    })
}

/// True if it is known that no two rows of a plan have the same values in these columns, NULLs left aside.
pub(super) fn are_unique(plan: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> bool {
    if let Some(scan) = as_page_scan(plan) {
        return scan.aggregate.is_none() && are_unique_key(scan, columns);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let is_whole = !matches!(aggregate.mode(), AggregateMode::Partial);
        let groups = aggregate.group_expr();
        let mut group_columns = 0..groups.expr().len();
        return is_whole
            && groups.is_single()
            && !group_columns.is_empty()
            && group_columns.all(|column| columns.contains(&column));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        // What a join compares may be converted before; that its values are still unique is checked when there are any.
        let columns = columns.iter().filter_map(|column| {
            let expr = &projection.expr().get(*column)?.expr;
            Some(Around::default().column(expr)?.index())
        });
        return are_unique(projection.input(), &columns.collect::<Vec<_>>());
    }
    let steps: Vec<_> = columns
        .iter()
        .filter_map(|column| below(plan, *column))
        .collect();
    let known: Vec<_> = steps.into_iter().flatten().collect();
    let Some((input, _)) = known.first() else {
        return false;
    };
    let columns: Vec<_> = known.iter().map(|(_, column)| *column).collect();
    are_unique(input, &columns)
}

fn are_unique_key(scan: &PageScanExec, columns: &[usize]) -> bool {
    let columns = columns
        .iter()
        .filter_map(|column| scan.projection.get(*column));
    let columns: Vec<u16> = columns.map(|column| scan.column(*column)).collect();
    scan.table.indexes.iter().any(|index| {
        let key = index.layout.key.iter().take(index.key_columns);
        let mut key = key.map(|place| index.columns[usize::from(*place)]);
        index.unique && key.all(|column| columns.contains(&column))
    })
}
