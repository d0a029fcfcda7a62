//! Relations that are not joined by an inner join: those on the right of outer, semi and anti joins.
//!
//! Such a join keeps or leaves out rows of its left side, or adds columns to them, by what its condition says of
//! each; the condition sees no other rows. So it can be done at any time once the relations are there that the
//! condition is about, and inner joins with others can be done before it. The relation *follows* these others.

use std::sync::Arc;

use datafusion::common::{JoinConstraint, JoinType, NullEquality, Result as DfResult};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use super::graph::{Set, is_tied};

/// How a relation follows others.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    kind: JoinType,
    /// Equal expressions, over the others and over the relation.
    pub on: Vec<(Expr, Expr)>,
    /// The rest of the condition.
    pub filter: Option<Expr>,
    null_equality: NullEquality,
    null_aware: bool,
    /// The relations that the condition is about, without this one.
    pub needs: Set,
}

impl Follower {
    /// The left side of a join, the relation that follows it, and how; `None` if it is another kind of join, or
    /// tied to its place.
    pub fn of(join: &Join) -> Option<(&LogicalPlan, &LogicalPlan, Self)> {
        let on = || join.on.iter().cloned();
        let (left, right, kind, on) = match join.join_type {
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
                (&join.left, &join.right, join.join_type, on().collect())
            }
            JoinType::Right => {
                let swapped = on().map(|(left, right)| (right, left));
                (&join.right, &join.left, JoinType::Left, swapped.collect())
            }
            _ => return None,
        };
        let follower = Self {
            kind,
            on,
            filter: join.filter.clone(),
            null_equality: join.null_equality,
            null_aware: join.null_aware,
            needs: 0,
        };
        let is_free = !follower.exprs().any(is_tied);
        is_free.then_some((left, right, follower))
    }

    /// True if the columns of the relation are seen above the join.
    pub fn is_shown(&self) -> bool {
        self.kind == JoinType::Left
    }

    /// Rows that come of one row of the others, if so many of the relation meet it.
    pub fn rows(&self, matches: f64) -> f64 {
        /// Some rows have no partner, whatever is expected.
        const LEAST: f64 = 0.05;
        match self.kind {
            JoinType::LeftSemi => matches.clamp(LEAST, 1.0),
            JoinType::LeftAnti => (1.0 - matches).clamp(LEAST, 1.0),
            _ => matches.max(1.0),
        }
    }

    /// All expressions of the condition.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let on = self.on.iter().flat_map(|(left, right)| [left, right]);
        on.chain(&self.filter)
    }

    /// The join with the relation.
    pub fn join(self, others: LogicalPlan, relation: LogicalPlan) -> DfResult<LogicalPlan> {
        let join = Join::try_new(
            Arc::new(others),
            Arc::new(relation),
            self.on,
            self.filter,
            self.kind,
            JoinConstraint::On,
            self.null_equality,
            self.null_aware,
        )?;
        Ok(LogicalPlan::Join(join))
    }
}
