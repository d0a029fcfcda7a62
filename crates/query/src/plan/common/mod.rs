//! Common table expressions that are computed once for a statement: recursive ones, and those that are named several
//! times and cost something.
//!
//! The plan of such a table is none of the statement's plan, in which [leaves](SharedNode) stand for its rows. It is
//! planned when the first of these is, and [run](compute) by the first leaf that is executed; its rows are
//! [kept](held) and charged until the statement's plan is dropped, so that every leaf gives the same rows, as often as
//! it is executed.

mod compute;
mod exec;
mod held;
mod node;
mod planner;
mod seen;
mod step;

pub use exec::{definitions, gives_step, is_step, shared_table};
pub use node::SharedNode;
pub use planner::Commons;
pub use step::StepNode;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::OnceCell;

use super::apply::filled;
use held::Held;
use step::Work;

/// The rows that follow from those of the step before, until there are none.
#[derive(Debug)]
pub struct Step {
    /// The plan of a step, in which a [`StepNode`] stands for the rows of the step before.
    pub plan: LogicalPlan,
    /// The columns by which rows are told apart, if each row comes once only.
    pub distinct: Option<Vec<usize>>,
    /// Most steps (`cte_max_recursion_depth`).
    pub most: u64,
}

/// A common table expression.
pub struct CommonTable {
    /// No other table of the statement has this number.
    number: usize,
    name: Arc<str>,
    /// The columns of a row. Plans may have more behind them.
    schema: SchemaRef,
    base: LogicalPlan,
    step: Option<Step>,
    /// True if the plans have parameters of the subquery that the table is defined in.
    depends: bool,
    planned: OnceCell<Planned>,
    rows: OnceCell<Arc<Held>>,
}

/// The plans of a table.
struct Planned {
    base: Arc<dyn ExecutionPlan>,
    step: Option<Arc<dyn ExecutionPlan>>,
    /// The rows that the step reads.
    work: Arc<Work>,
    /// They were executed, and given up.
    begun: AtomicBool,
}

/// Tables with values in the places of their parameters, by their numbers.
pub type Filled = HashMap<usize, Arc<CommonTable>>;

impl CommonTable {
    /// A table that nothing is computed of yet.
    #[must_use]
    pub fn new(
        number: usize,
        name: Arc<str>,
        schema: SchemaRef,
        base: LogicalPlan,
        step: Option<Step>,
        depends: bool,
    ) -> Self {
        Self {
            number,
            name,
            schema,
            base,
            step,
            depends,
            planned: OnceCell::new(),
            rows: OnceCell::new(),
        }
    }

    /// The table for these values of the parameters; the same one for all leaves that stand for it.
    fn filled(
        self: &Arc<Self>,
        values: &[ScalarValue],
        tables: &mut Filled,
    ) -> DfResult<Arc<Self>> {
        if !self.depends {
            return Ok(Arc::clone(self));
        }
        if let Some(known) = tables.get(&self.number) {
            return Ok(Arc::clone(known));
        }
        let base = filled(&self.base, values, tables)?;
        let step = match &self.step {
            Some(step) => Some(Step {
                plan: filled(&step.plan, values, tables)?,
                distinct: step.distinct.clone(),
                most: step.most,
            }),
            None => None,
        };
        let (name, schema) = (Arc::clone(&self.name), Arc::clone(&self.schema));
        let own = Self::new(self.number, name, schema, base, step, false);
        let own = Arc::new(own);
        tables.insert(self.number, Arc::clone(&own));
        Ok(own)
    }
}

impl fmt::Debug for CommonTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommonTable")
            .field("number", &self.number)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
