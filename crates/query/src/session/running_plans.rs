//! The plans that run now, for EXPLAIN FOR CONNECTION. Statements by key have none: they end before anybody asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use crate::access::TableReference;
use crate::explain::Changed;

/// A plan and the statement that it is of.
pub(super) struct Shown {
    pub plan: Arc<dyn ExecutionPlan>,
    pub references: Vec<TableReference>,
    pub changed: Changed,
}

/// The plans, by their connections.
#[derive(Default)]
pub(super) struct RunningPlans(Mutex<Plans>);

#[derive(Default)]
struct Plans {
    /// By the connection's id, then in the order in which they began.
    by_connection: BTreeMap<(u64, u64), Arc<Shown>>,
    begun: u64,
}

/// A plan that runs, until this is dropped.
pub(super) struct Begun {
    all: Arc<RunningPlans>,
    key: (u64, u64),
}

impl RunningPlans {
    /// A plan of a connection begins to run.
    pub fn begin(self: &Arc<Self>, connection: u64, shown: Shown) -> Begun {
        let mut plans = self.0.lock();
        plans.begun += 1;
        let key = (connection, plans.begun);
        plans.by_connection.insert(key, Arc::new(shown));
        let all = Arc::clone(self);
        Begun { all, key }
    }

    /// The plan of what a connection runs: the one that began first.
    pub fn of(&self, connection: u64) -> Option<Arc<Shown>> {
        let plans = self.0.lock();
        let mut own = plans
            .by_connection
            .range((connection, 0)..=(connection, u64::MAX));
        own.next().map(|(_, shown)| Arc::clone(shown))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let ended = self.all.0.lock().by_connection.remove(&self.key);
        // A plan may be large: it goes without the lock.
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    #[test]
    fn a_connection_shows_its_outermost_plan_until_it_ends() {
        let all: Arc<RunningPlans> = Arc::default();
        let begin = |connection, name: &str| {
            let shown = Shown {
                plan: Arc::new(EmptyExec::new(Arc::new(Schema::empty()))),
                references: Vec::new(),
                changed: Changed::Inserted("INSERT", name.to_owned()),
            };
            all.begin(connection, shown)
        };
        let name = |connection| match all.of(connection)?.changed.clone() {
            Changed::Inserted(_, name) => Some(name),
            _ => None,
        };
        let outer = begin(7, "outer");
        let inner = begin(7, "inner");
        let other = begin(8, "other");
        assert_eq!(name(7).as_deref(), Some("outer"));
        assert_eq!(name(8).as_deref(), Some("other"));
        assert_eq!(name(9), None);
        drop(outer);
        assert_eq!(name(7).as_deref(), Some("inner"));
        drop((inner, other));
        assert_eq!((name(7), name(8)), (None, None));
    }
}
