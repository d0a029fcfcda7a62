//! [`ApplyNode`]: the rows of a plan, and what a subquery gives for each.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, internal_datafusion_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

/// What a subquery gives for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The columns of its only row.
    Row,
    /// Whether it has rows.
    Exists,
    /// The columns of each of its rows.
    Rows {
        /// One row of NULLs instead of none.
        outer: bool,
    },
}

/// The node. Its arguments are over its input; the plan of the subquery is nothing that rules of the optimizer see.
#[derive(Clone, Debug)]
pub struct ApplyNode {
    /// Of the subquery in the statement: two nodes with one number are the same subquery.
    number: usize,
    input: LogicalPlan,
    subquery: Arc<LogicalPlan>,
    arguments: Vec<Expr>,
    answer: Answer,
    schema: DFSchemaRef,
}

impl ApplyNode {
    /// A node whose row is that of its input with the columns of `added` behind it.
    ///
    /// # Errors
    /// If a column of `added` has the name of another one.
    pub fn new(
        number: usize,
        input: LogicalPlan,
        subquery: Arc<LogicalPlan>,
        arguments: Vec<Expr>,
        answer: Answer,
        added: &DFSchema,
    ) -> DfResult<Self> {
        let schema = Arc::new(input.schema().join(added)?);
        Ok(Self {
            number,
            input,
            subquery,
            arguments,
            answer,
            schema,
        })
    }

    /// The subquery, with parameters.
    #[must_use]
    pub fn subquery(&self) -> &Arc<LogicalPlan> {
        &self.subquery
    }

    /// What it gives.
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.answer
    }
}

impl PartialEq for ApplyNode {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
            && self.input == other.input
            && self.arguments == other.arguments
    }
}

impl Eq for ApplyNode {}

impl Hash for ApplyNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.input.hash(state);
        self.arguments.hash(state);
    }
}

impl PartialOrd for ApplyNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for ApplyNode {
    fn name(&self) -> &str {
        "Apply"
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
        write!(f, "Apply: {:?}", self.answer)
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> DfResult<Self> {
        let input = inputs
            .pop()
            .ok_or_else(|| internal_datafusion_err!("Q1: an apply has an input"))?;
        let own = self.input.schema().fields().len();
        let added = self.schema.iter().skip(own);
        let added = added.map(|(relation, field)| (relation.cloned(), Arc::clone(field)));
        let added = DFSchema::new_with_metadata(added.collect(), Default::default())?;
        Self::new(
            self.number,
            input,
            Arc::clone(&self.subquery),
            exprs,
            self.answer,
            &added,
        )
    }
}
