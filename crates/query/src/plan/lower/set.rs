//! UNION, INTERSECT and EXCEPT.
//!
//! INTERSECT and EXCEPT group the rows of both inputs: a group says which inputs have its row. For ALL the equal rows of
//! an input are numbered first, so that each of them has one partner at most.

use std::sync::Arc;

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column as DfColumn, Result as DfResult};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union, Window, WindowFrame,
    WindowFunctionDefinition, lit,
};
use perigee_sql_bind::query::{Column, Relation, SetOperation};

use super::output::unique;
use super::relation::{Lowered, Planner};
use crate::functions::types::is_string;
use crate::plan::branches::Common;
use crate::plan::field::field_of;
use crate::plan::{collation, comparable, grouping, keys, metadata};

/// The column that says which input a row is of. A column of a query cannot be named so.
const SIDE: &str = "/side";

/// The column that counts equal rows of an input.
const NUMBER: &str = "/number";

/// The first and the last input that have a row.
const FIRST: &str = "/first";
const LAST: &str = "/last";

impl<'q> Planner<'q> {
    /// The rows of several relations.
    pub(super) fn set(
        &self,
        operation: SetOperation,
        all: bool,
        inputs: &'q [Relation],
        columns: &[Column],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let mut parts = Vec::with_capacity(inputs.len());
        for input in inputs {
            let input = self.relation(input, parameters)?;
            parts.push(self.converted(input, columns)?);
        }
        if operation != SetOperation::Union {
            return self.matched(operation, all, parts, columns.len());
        }
        let parts = parts.into_iter().map(Arc::new).collect();
        let union = LogicalPlan::Union(Union::try_new_with_loose_types(parts)?);
        let plan = match all {
            true => union,
            false => grouping::distinct(Arc::new(union))?,
        };
        // Beside other relations, its columns have names of their own.
        let plan = LogicalPlanBuilder::from(plan).alias(self.qualifier("union"))?;
        Ok(Lowered::of(plan.build()?))
    }

    /// The rows that both of two inputs have, or that only the first one has.
    fn matched(
        &self,
        operation: SetOperation,
        all: bool,
        parts: Vec<LogicalPlan>,
        width: usize,
    ) -> DfResult<Lowered> {
        let sided = parts.into_iter().enumerate().map(|(side, part)| {
            let part = match all {
                true => numbered(part)?,
                false => part,
            };
            let mut exprs = columns_of(&part);
            exprs.push(lit(side as i64).alias(SIDE));
            let projection = Projection::try_new(exprs, Arc::new(part))?;
            Ok(Arc::new(LogicalPlan::Projection(projection)))
        });
        let union = Union::try_new_with_loose_types(sided.collect::<DfResult<_>>()?)?;
        let union = LogicalPlanBuilder::from(LogicalPlan::Union(union));
        let rows = union.alias(self.qualifier("set"))?.build()?;
        let mut keys = columns_of(&rows);
        let Some(side) = keys.pop() else {
            return datafusion::common::internal_err!("Q1: a row has a side");
        };
        let sides = vec![min(side.clone()).alias(FIRST), max(side).alias(LAST)];
        let groups = grouping::group_by(Aggregate::try_new(Arc::new(rows), keys, sides)?)?;
        let [first, last] = [FIRST, LAST].map(|name| Expr::Column(DfColumn::from_name(name)));
        let wanted = match operation {
            SetOperation::Except => last.eq(lit(0_i64)),
            _ => first.eq(lit(0_i64)).and(last.eq(lit(1_i64))),
        };
        let plan = LogicalPlanBuilder::from(groups).filter(wanted)?.build()?;
        let mut lowered = Lowered::of(plan);
        lowered.columns.truncate(width);
        Ok(lowered)
    }

    /// A relation's row as one of the common types.
    pub(super) fn converted(&self, input: Lowered, columns: &[Column]) -> DfResult<LogicalPlan> {
        let schema = input.plan.schema();
        let mut used = std::collections::HashSet::new();
        let mut exprs = Vec::with_capacity(columns.len());
        for (expr, column) in input.columns.into_iter().zip(columns) {
            let common = Common::of(&column.ty);
            let mut converted = common.convert(expr, schema)?;
            let own = column.ty.collation();
            if is_string(&common.data_type)
                && metadata::collation(field_of(&converted, schema)?.as_ref()) != own
            {
                converted = collation::of_no_column(converted, own);
            }
            let metadata = FieldMetadata::from(common.metadata(Some(own)));
            let name = unique(&column.name.to_lowercase(), &mut used);
            exprs.push(converted.alias_with_metadata(name, Some(metadata)));
        }
        let projection = Projection::try_new(exprs, Arc::new(input.plan))?;
        Ok(LogicalPlan::Projection(projection))
    }
}

fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    let columns = plan.schema().columns().into_iter();
    columns.map(Expr::Column).collect()
}

/// The rows, each with its number among those that are equal to it.
fn numbered(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let columns = columns_of(&plan).into_iter();
    let columns = columns.map(|column| comparable::collated(column, plan.schema()));
    let number = WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(row_number_udwf()),
        params: WindowFunctionParams {
            args: Vec::new(),
            partition_by: columns.collect::<DfResult<_>>()?,
            order_by: Vec::new(),
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    };
    let number = Expr::WindowFunction(Box::new(number)).alias(NUMBER);
    keys::windowed(Window::try_new(vec![number], Arc::new(plan))?)
}
