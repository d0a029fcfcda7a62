//! Why storage does not do a part of an access, and counters of what it was asked to do: the texts
//! that EXPLAIN shows and the status variables, in one place (SPEC's N1, N16).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::exec::NdpChoice;
use super::placement::Placement;

/// Why an access is not pushed, or a part of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// `ndp_mode` is OFF.
    ModeOff,
    /// `ndp_mode` is REPLICA_ON, and this is no replica.
    NoReplica,
    /// A hint says so.
    Hint,
    /// It costs less in the frontend.
    Cost {
        /// What both sides cost.
        placement: Placement,
        /// It would, too, if no row passed.
        hopeless: bool,
    },
    /// It costs less in storage, but its scans have paid as much for that as reading its pages whole costs.
    Warming(Placement),
    /// Storage has hardly any of its pages that is not in the buffer pool.
    InPool,
    /// Storage makes groups of few rows, which cost more than the rows.
    DearGroups {
        /// How many are expected.
        groups: f64,
        /// Rows that storage would make one of.
        of_rows: f64,
    },
    /// Few pages have to come from storage.
    FewPages {
        /// How many are expected to.
        pages: f64,
        /// `ndp_min_pages`.
        least: u64,
    },
    /// Rows are looked up by their keys.
    Lookup,
    /// There is nothing to filter by.
    NoCondition,
    /// Most rows pass the condition.
    FilterFactor {
        /// The share of rows that is expected to pass.
        factor: f64,
        /// `ndp_max_filter_factor`.
        most: f64,
    },
    /// Rows would hardly become narrower.
    Width {
        /// By what share they would.
        reduction: f64,
        /// `ndp_min_width_reduction`.
        least: f64,
    },
    /// The aggregation has a form that storage does not know.
    AggregateForm(&'static str),
    /// Storage does not have an aggregate function.
    AggregateFunction(String),
    /// Storage cannot evaluate what is grouped by or aggregated.
    AggregateExpression(String),
    /// A part of the condition is evaluated after the access, so aggregation comes later still.
    AggregateResidual,
    /// There are too many groups.
    ManyGroups {
        /// How many are expected.
        groups: f64,
        /// Rows that storage would make one of.
        of_rows: f64,
        /// `ndp_min_rows_per_group`.
        least: f64,
    },
    /// A join or a sort could filter the access, and a Page Store of an older version does not know such filters.
    OlderStore,
}

impl Reason {
    /// True if it is about the aggregation only.
    #[must_use]
    pub fn is_of_aggregate(&self) -> bool {
        matches!(
            self,
            Self::AggregateForm(_)
                | Self::AggregateFunction(_)
                | Self::AggregateExpression(_)
                | Self::AggregateResidual
                | Self::ManyGroups { .. }
                | Self::DearGroups { .. }
        )
    }

    /// True if storage may do other parts of the access.
    #[must_use]
    pub fn is_for_a_part(&self) -> bool {
        let others = matches!(
            self,
            Self::NoCondition
                | Self::FilterFactor { .. }
                | Self::Width { .. }
                | Self::OlderStore
                | Self::Cost {
                    hopeless: false,
                    ..
                }
        );
        others || self.is_of_aggregate()
    }

    /// The counter of accesses with this reason.
    fn counter<'c>(&self, counters: &'c NdpCounters) -> &'c AtomicU64 {
        match self {
            Self::ModeOff | Self::NoReplica => &counters.ndp_not_pushed_mode,
            Self::Hint => &counters.ndp_not_pushed_hint,
            Self::FewPages { .. } | Self::InPool => &counters.ndp_not_pushed_few_pages,
            Self::Cost { .. } => &counters.ndp_not_pushed_cost,
            Self::Warming(_) => &counters.ndp_not_pushed_warming,
            Self::Lookup => &counters.ndp_not_pushed_lookup,
            Self::NoCondition => &counters.ndp_not_pushed_no_condition,
            Self::FilterFactor { .. } => &counters.ndp_not_pushed_filter_factor,
            Self::Width { .. } => &counters.ndp_not_pushed_width,
            Self::AggregateForm(_) | Self::AggregateFunction(_) => {
                &counters.ndp_not_pushed_aggregate_function
            }
            Self::AggregateExpression(_) => &counters.ndp_not_pushed_aggregate_expression,
            Self::AggregateResidual => &counters.ndp_not_pushed_aggregate_residual,
            Self::ManyGroups { .. } | Self::DearGroups { .. } => {
                &counters.ndp_not_pushed_aggregate_groups
            }
            Self::OlderStore => &counters.ndp_not_pushed_filter,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModeOff => f.write_str("ndp_mode is OFF"),
            Self::NoReplica => f.write_str("ndp_mode is REPLICA_ON and this is the master"),
            Self::Hint => f.write_str("the hint NO_NDP_PUSHDOWN"),
            Self::FewPages { pages, least } => {
                write!(
                    f,
                    "about {pages:.0} pages to read, below ndp_min_pages = {least}"
                )
            }
            Self::Cost { placement, .. } => placement.fmt(f),
            Self::Warming(placement) => {
                write!(f, "to bring its pages into the buffer pool; {placement}")
            }
            Self::InPool => f.write_str("its pages are in the buffer pool"),
            Self::DearGroups { groups, of_rows } => write!(
                f,
                "aggregate: about {groups:.0} groups, of which storage makes one of {of_rows:.1} rows, \
                 cost more than the rows"
            ),
            Self::Lookup => f.write_str("a lookup reads few rows"),
            Self::NoCondition => f.write_str("no condition"),
            Self::FilterFactor { factor, most } => {
                write!(
                    f,
                    "filter factor {factor:.2} is above ndp_max_filter_factor = {most}"
                )
            }
            Self::Width { reduction, least } => write!(
                f,
                "width reduction {reduction:.2} is below ndp_min_width_reduction = {least}"
            ),
            Self::AggregateForm(form) => write!(f, "aggregate with {form}"),
            Self::AggregateFunction(function) => {
                write!(f, "aggregate: storage has no {function}")
            }
            Self::AggregateExpression(obstacle) => write!(f, "aggregate: {obstacle}"),
            Self::OlderStore => {
                f.write_str("run-time filter: a Page Store of an older version does not know it")
            }
            Self::AggregateResidual => {
                f.write_str("aggregate: a part of the condition is not pushed")
            }
            Self::ManyGroups {
                groups,
                of_rows,
                least,
            } => write!(
                f,
                "aggregate: about {groups:.0} groups, of which storage makes one of {of_rows:.1} rows, \
                 below ndp_min_rows_per_group = {least}"
            ),
        }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// How many accesses were pushed, and how many were not, by reason.
        #[derive(Debug, Default)]
        pub struct NdpCounters {
            $($(#[$doc])* pub $field: AtomicU64,)*
        }

        impl NdpCounters {
            /// Name, as SHOW STATUS has it, and value of each counter.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field.load(Ordering::Relaxed))),*].into_iter()
            }
        }
    };
}

counters! {
    /// Accesses to tables by plans.
    ndp_accesses,
    /// Accesses of which storage did a part.
    ndp_pushed,
    /// Accesses whose condition storage evaluated.
    ndp_pushed_filter,
    /// Accesses of whose rows storage delivered the columns that were needed.
    ndp_pushed_columns,
    /// Accesses whose rows storage aggregated.
    ndp_pushed_aggregate,
    /// Accesses that storage ran filters of joins over.
    ndp_pushed_join_filter,
    /// Accesses whose rows storage joined with a table.
    ndp_pushed_join,
    /// Accesses that storage ran thresholds of sorts over.
    ndp_pushed_top_filter,
    /// Accesses that were not pushed because of `ndp_mode`.
    ndp_not_pushed_mode,
    /// Accesses that were not pushed because of a hint.
    ndp_not_pushed_hint,
    /// Accesses that were not pushed because they cost less in the frontend.
    ndp_not_pushed_cost,
    /// Accesses that were not pushed to bring an index into the buffer pool that is scanned again and again.
    ndp_not_pushed_warming,
    /// Accesses that were not pushed because few pages had to come from storage.
    ndp_not_pushed_few_pages,
    /// Accesses that were not pushed because rows were looked up.
    ndp_not_pushed_lookup,
    /// Accesses that could be pushed and have no condition.
    ndp_not_pushed_no_condition,
    /// Accesses that could be pushed and whose condition was not, because most rows were expected to
    /// pass it.
    ndp_not_pushed_filter_factor,
    /// Accesses that could be pushed and delivered whole rows, because those would hardly have become
    /// narrower.
    ndp_not_pushed_width,
    /// Accesses that could be pushed, below an aggregation with a function or in a form that storage
    /// does not have.
    ndp_not_pushed_aggregate_function,
    /// Accesses that could be pushed, below an aggregation of something that storage cannot evaluate.
    ndp_not_pushed_aggregate_expression,
    /// Accesses that could be pushed, below an aggregation, a part of whose condition was not.
    ndp_not_pushed_aggregate_residual,
    /// Accesses that could be pushed, below an aggregation with too many groups.
    ndp_not_pushed_aggregate_groups,
    /// Accesses whose rows storage was to join with a table that did not come about: its rows were too many, or two had
    /// the same key.
    ndp_not_pushed_join,
    /// Accesses that run-time filters could reduce, with a Page Store that does not know them.
    ndp_not_pushed_filter,
}

impl NdpCounters {
    /// Counts an access for which this was decided.
    pub(super) fn count(&self, choice: &NdpChoice) {
        let add = |counter: &AtomicU64, yes: bool| {
            counter.fetch_add(u64::from(yes), Ordering::Relaxed);
        };
        add(&self.ndp_accesses, true);
        add(&self.ndp_pushed, choice.any());
        add(&self.ndp_pushed_filter, choice.filter);
        add(&self.ndp_pushed_columns, choice.columns);
        add(&self.ndp_pushed_aggregate, choice.aggregate);
        add(&self.ndp_pushed_join_filter, choice.join_filters);
        add(&self.ndp_pushed_join, choice.join);
        add(&self.ndp_pushed_top_filter, choice.top_filters);
        for reason in &choice.reasons {
            add(reason.counter(self), true);
        }
    }
}

/// The counters that an access adds to.
#[derive(Clone, Debug, Default)]
pub struct NdpStatus {
    /// Those of its session.
    pub session: Arc<NdpCounters>,
    /// Those of all sessions.
    pub global: Arc<NdpCounters>,
}

impl NdpStatus {
    /// Counts an access for which this was decided.
    pub(super) fn count(&self, choice: &NdpChoice) {
        self.session.count(choice);
        self.global.count(choice);
    }

    /// Counts an access that is not joined in storage, as was decided before its table was made.
    pub(super) fn count_refused(&self) {
        for counters in [&self.session, &self.global] {
            counters.ndp_not_pushed_join.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_counted_by_what_was_decided() {
        let status = NdpStatus::default();
        let pushed = NdpChoice {
            filter: true,
            columns: true,
            reasons: vec![Reason::AggregateFunction("AVG".to_owned())],
            ..NdpChoice::default()
        };
        status.count(&pushed);
        status.count(&NdpChoice::not(Reason::Lookup));
        let counted = |counters: &NdpCounters| {
            let counted = counters.iter().filter(|(_, value)| *value > 0);
            counted.collect::<Vec<_>>()
        };
        let expected = [
            ("ndp_accesses", 2),
            ("ndp_pushed", 1),
            ("ndp_pushed_filter", 1),
            ("ndp_pushed_columns", 1),
            ("ndp_not_pushed_lookup", 1),
            ("ndp_not_pushed_aggregate_function", 1),
        ];
        assert_eq!(counted(&status.session), expected);
        assert_eq!(counted(&status.global), expected);
    }
}
