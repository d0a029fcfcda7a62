//! JSON_TABLE.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use perigee_expr::json_table::JsonTable;
use perigee_expr::scalar::Scalar;
use perigee_sql_bind::query::{Applied, Apply, Column, Operator, Relation};

use super::Row;
use super::relation::{Lowered, Planner, one_row};
use crate::functions::scalar::field_of_type;
use crate::plan::json_table::JsonTableNode;

impl<'q> Planner<'q> {
    /// The rows of a document that depends on no row, but perhaps on that around a subquery.
    pub(super) fn json_table(
        &self,
        (document, table): (&Scalar, &Arc<JsonTable>),
        columns: &[Column],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let one = Lowered::of(one_row());
        let document = one.row(parameters).expr(document)?;
        self.documents(one, document, (table, false), columns)
    }

    /// The rows of the documents of rows; none for another subquery.
    pub(super) fn applied_json_table(
        &self,
        apply: &'q Apply,
        parameters: &[Expr],
    ) -> DfResult<Option<Lowered>> {
        let Applied::Lateral { outer } = apply.applied else {
            return Ok(None);
        };
        let Relation {
            operator: Operator::JsonTable { document, table },
            columns,
        } = &*apply.subquery
        else {
            return Ok(None);
        };
        let input = self.relation(&apply.input, parameters)?;
        let input = input.of_columns(&apply.input.columns, self)?;
        let row = input.row(parameters);
        let arguments = apply.arguments.iter().map(|argument| row.expr(argument));
        let arguments = arguments.collect::<DfResult<Vec<_>>>()?;
        let inside = Row {
            columns: &[],
            parameters: &arguments,
            schema: input.plan.schema(),
        };
        let document = inside.expr(document)?;
        self.documents(input, document, (table, outer), columns)
            .map(Some)
    }

    fn documents(
        &self,
        input: Lowered,
        document: Expr,
        (table, outer): (&Arc<JsonTable>, bool),
        columns: &[Column],
    ) -> DfResult<Lowered> {
        let qualifier = self.qualifier("json_table");
        let fields = columns.iter().enumerate().map(|(number, column)| {
            let field: Field = field_of_type(&column.ty);
            let field: FieldRef = Arc::new(field.with_name(format!("value{number}")));
            (Some(qualifier.clone()), field)
        });
        let added = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
        let table = (Arc::clone(table), outer);
        let node = JsonTableNode::new(self.number(), input.plan, document, table, &added)?;
        let mut columns = input.columns;
        columns.extend(added.columns().into_iter().map(Expr::Column));
        Ok(Lowered {
            plan: LogicalPlan::Extension(Extension {
                node: Arc::new(node),
            }),
            columns,
        })
    }
}
