//! [`JsonTableNode`] and its plan.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, internal_datafusion_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use perigee_expr::json_table::JsonTable;

use super::exec::JsonTableExec;

/// The node. Its row is that of its input with the columns of a row of the document behind it.
#[derive(Clone, Debug)]
pub struct JsonTableNode {
    /// No other node of the statement has this number.
    number: usize,
    input: LogicalPlan,
    document: Expr,
    table: Arc<JsonTable>,
    /// A row whose document has no rows has one of NULLs.
    outer: bool,
    schema: DFSchemaRef,
}

impl JsonTableNode {
    /// A node whose row is that of its input with the columns of `added` behind it.
    ///
    /// # Errors
    /// If a column of `added` has the name of another one.
    pub fn new(
        number: usize,
        input: LogicalPlan,
        document: Expr,
        (table, outer): (Arc<JsonTable>, bool),
        added: &DFSchema,
    ) -> DfResult<Self> {
        let schema = Arc::new(input.schema().join(added)?);
        Ok(Self {
            number,
            input,
            document,
            table,
            outer,
            schema,
        })
    }
}

impl PartialEq for JsonTableNode {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number && self.input == other.input && self.document == other.document
    }
}

impl Eq for JsonTableNode {}

impl Hash for JsonTableNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.input.hash(state);
        self.document.hash(state);
    }
}

impl PartialOrd for JsonTableNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for JsonTableNode {
    fn name(&self) -> &str {
        "JsonTable"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.document.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonTable: {}", self.document)
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> DfResult<Self> {
        let (Some(document), Some(input)) = (exprs.pop(), inputs.pop()) else {
            return Err(internal_datafusion_err!(
                "Q1: a table of documents has documents"
            ));
        };
        let own = self.input.schema().fields().len();
        let added = self.schema.iter().skip(own);
        let added = added.map(|(relation, field)| (relation.cloned(), Arc::clone(field)));
        let added = DFSchema::new_with_metadata(added.collect(), Default::default())?;
        let table = (Arc::clone(&self.table), self.outer);
        Self::new(self.number, input, document, table, &added)
    }
}

/// The planner of these nodes.
pub struct JsonTables;

#[async_trait]
impl ExtensionPlanner for JsonTables {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<JsonTableNode>() else {
            return Ok(None);
        };
        let (input, schema) = (Arc::clone(&physical_inputs[0]), inputs[0].schema());
        let document = planner.create_physical_expr(&node.document, schema, session, context)?;
        let own = schema.fields().len();
        let fields = input.schema().fields().iter().cloned().collect::<Vec<_>>();
        let added = node.schema.fields().iter().skip(own).cloned();
        let fields = fields.into_iter().chain(added);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let table = (Arc::clone(&node.table), node.outer);
        Ok(Some(Arc::new(JsonTableExec::new(
            input, document, table, schema,
        ))))
    }
}
