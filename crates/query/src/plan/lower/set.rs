//! UNION.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union};
use perigee_sql_bind::query::{Column, Relation, SetOperation};

use super::output::unique;
use super::relation::{Lowered, Planner, unsupported};
use crate::functions::types::is_string;
use crate::plan::branches::Common;
use crate::plan::field::field_of;
use crate::plan::{collation, metadata, typing};

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
        if operation != SetOperation::Union {
            return unsupported("INTERSECT, EXCEPT");
        }
        let mut parts = Vec::with_capacity(inputs.len());
        for input in inputs {
            let input = self.relation(input, parameters)?;
            parts.push(Arc::new(self.converted(input, columns)?));
        }
        let union = LogicalPlan::Union(Union::try_new_with_loose_types(parts)?);
        let plan = match all {
            true => union,
            false => typing::distinct(Arc::new(union))?,
        };
        // Beside other relations, its columns have names of their own.
        let plan = LogicalPlanBuilder::from(plan).alias(self.qualifier("union"))?;
        Ok(Lowered::of(plan.build()?))
    }

    /// A relation's row as one of the common types.
    fn converted(&self, input: Lowered, columns: &[Column]) -> DfResult<LogicalPlan> {
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
