//! [`InTurnNode`]: the rows of a plan, and what is computed for them one after the other.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, internal_datafusion_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::Work;

/// The node. Its row is that of its input with the values of the expressions behind it.
#[derive(Clone, Debug)]
pub struct InTurnNode {
    /// No other node of the statement has this number.
    number: usize,
    input: LogicalPlan,
    /// The columns of the input that the expressions name.
    arguments: Vec<Expr>,
    work: Arc<Work>,
    schema: DFSchemaRef,
}

impl InTurnNode {
    /// A node whose row is that of its input with the columns of `added` behind it.
    ///
    /// # Errors
    /// If a column of `added` has the name of another one.
    pub fn new(
        number: usize,
        input: LogicalPlan,
        arguments: Vec<Expr>,
        work: Arc<Work>,
        added: &DFSchema,
    ) -> DfResult<Self> {
        let schema = Arc::new(input.schema().join(added)?);
        Ok(Self {
            number,
            input,
            arguments,
            work,
            schema,
        })
    }

    /// What is computed.
    #[must_use]
    pub fn work(&self) -> &Arc<Work> {
        &self.work
    }
}

impl PartialEq for InTurnNode {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
            && self.input == other.input
            && self.arguments == other.arguments
    }
}

impl Eq for InTurnNode {}

impl Hash for InTurnNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.input.hash(state);
        self.arguments.hash(state);
    }
}

impl PartialOrd for InTurnNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for InTurnNode {
    fn name(&self) -> &str {
        "InTurn"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.arguments.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InTurn: {}", self.work)
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> DfResult<Self> {
        let input = inputs
            .pop()
            .ok_or_else(|| internal_datafusion_err!("Q1: what is computed in turn has an input"))?;
        let own = self.input.schema().fields().len();
        let added = self.schema.iter().skip(own);
        let added = added.map(|(relation, field)| (relation.cloned(), Arc::clone(field)));
        let added = DFSchema::new_with_metadata(added.collect(), Default::default())?;
        let work = Arc::clone(&self.work);
        Self::new(self.number, input, exprs, work, &added)
    }
}
