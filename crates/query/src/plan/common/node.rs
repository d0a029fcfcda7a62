//! [`SharedNode`]: the rows of a common table expression in a plan.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, ScalarValue, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::{CommonTable, Filled};

/// The node.
#[derive(Clone, Debug)]
pub struct SharedNode {
    table: Arc<CommonTable>,
    schema: DFSchemaRef,
}

impl SharedNode {
    /// The rows under a qualifier that no other relation has.
    ///
    /// # Errors
    /// If two columns have one name.
    pub fn new(table: Arc<CommonTable>, qualifier: TableReference) -> DfResult<Self> {
        let schema = DFSchema::try_from_qualified_schema(qualifier, &table.schema)?;
        Ok(Self {
            table,
            schema: Arc::new(schema),
        })
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<CommonTable> {
        &self.table
    }

    /// The same rows with values in the places of parameters.
    ///
    /// # Errors
    /// If a plan cannot be made.
    pub fn filled(&self, values: &[ScalarValue], tables: &mut Filled) -> DfResult<Self> {
        Ok(Self {
            table: self.table.filled(values, tables)?,
            schema: Arc::clone(&self.schema),
        })
    }
}

impl PartialEq for SharedNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.schema == other.schema
    }
}

impl Eq for SharedNode {}

impl Hash for SharedNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.table.number.hash(state);
        self.schema.hash(state);
    }
}

impl PartialOrd for SharedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for SharedNode {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: {}", self.table.name)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> DfResult<Self> {
        Ok(self.clone())
    }
}
