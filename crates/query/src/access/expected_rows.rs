//! [`ExpectedRows`]: how many rows an operator is expected to deliver, where lookups are considered for each of them.
//!
//! DataFusion takes all values of a column for equally frequent. Where frequent values meet, a join delivers many times
//! as many rows, for which lookups would be dear: as many are expected as the statistics of columns say,
//! if these are more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{JoinType, Result as DfResult};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use super::IndexJoinExec;
use super::join_rule::rows;
use super::skew::{equal, spreads_of};

/// What is expected of the operators of one plan.
#[derive(Default)]
pub(super) struct ExpectedRows {
    /// What is known, by the operator's address, which it keeps as long as it is here.
    known: RefCell<HashMap<usize, Known>>,
}

/// An operator, and the rows that it is expected to deliver.
type Known = (Arc<dyn ExecutionPlan>, Option<f64>);

impl ExpectedRows {
    /// Rows that an operator is expected to deliver.
    ///
    /// # Errors
    /// If its statistics cannot be told.
    pub fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<f64>> {
        let address = Arc::as_ptr(plan).cast::<()>().addr();
        if let Some((_, known)) = self.known.borrow().get(&address) {
            return Ok(*known);
        }
        let expected = match (rows(plan)?, self.of_values(plan)?) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, _) => one,
        };
        let known = (plan.clone(), expected);
        self.known.borrow_mut().insert(address, known);
        Ok(expected)
    }

    /// What values that meet let expect; `None` if nothing is known of them.
    fn of_values(&self, plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<f64>> {
        if plan.fetch().is_some() {
            return Ok(None);
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return match self.of_pairs(join)? {
                None => self.as_inputs(plan),
                pairs => Ok(pairs),
            };
        }
        if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
            let outer = self.of(join.input())?;
            return Ok(outer.map(|outer| join.estimate(outer as usize) as f64));
        }
        let passes_all = plan.is::<ProjectionExec>()
            || plan.is::<RepartitionExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.is::<CooperativeExec>();
        match plan.children()[..] {
            [input] if passes_all => self.of(input),
            _ if plan.is::<FilterExec>() => self.as_inputs(plan),
            _ => Ok(None),
        }
    }

    /// As many times more than DataFusion expects as the inputs deliver.
    fn as_inputs(&self, plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<f64>> {
        let mut times = 1.0;
        for input in plan.children() {
            if let (Some(expected), Some(rows)) = (self.of(input)?, rows(input)?) {
                times *= expected / rows.max(1.0);
            }
        }
        Ok(rows(plan)?.map(|rows| rows * times.max(1.0)))
    }

    fn of_pairs(&self, join: &HashJoinExec) -> DfResult<Option<f64>> {
        // Of several equalities it is not known how far they depend on each other.
        let ([(one, other)], JoinType::Inner) = (join.on(), join.join_type()) else {
            return Ok(None);
        };
        let rows = (self.of(join.left())?, self.of(join.right())?);
        let (Some(left), Some(right)) = rows else {
            return Ok(None);
        };
        let (one, other) = (
            spreads_of(join.left(), one),
            spreads_of(join.right(), other),
        );
        Ok(equal(&one, &other).map(|share| left * right * share))
    }
}
