//! The check of a whole history, and its report.

use std::collections::BTreeMap;
use std::fmt;

use crate::graph::Graph;
use crate::history::{History, TxnIndex};
use crate::level::{Level, Phenomenon};
use crate::orders::Orders;
use crate::{cycles, explain, items};

/// Anomalies of each phenomenon that are described; all are counted.
const DESCRIBED: u64 = 5;

/// One occurrence of a phenomenon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Which.
    pub phenomenon: Phenomenon,
    /// The transactions that show it.
    pub transactions: Vec<TxnIndex>,
    /// The counterexample, for a person to read.
    pub text: String,
}

/// What a history shows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    counts: BTreeMap<Phenomenon, u64>,
    described: Vec<Anomaly>,
}

impl Report {
    /// How often a phenomenon was found; cycles count once for each component of the graph.
    #[must_use]
    pub fn count(&self, phenomenon: Phenomenon) -> u64 {
        self.counts.get(&phenomenon).copied().unwrap_or(0)
    }

    /// The phenomena found, and how often.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Phenomenon, u64> {
        &self.counts
    }

    /// Some anomalies that a level forbids; none exactly if the history is one of that level.
    pub fn forbidden(&self, level: Level) -> impl Iterator<Item = &Anomaly> {
        let forbidden = move |a: &&Anomaly| level.forbids(a.phenomenon);
        self.described.iter().filter(forbidden)
    }

    /// Whether the history shows nothing that the level forbids.
    #[must_use]
    pub fn satisfies(&self, level: Level) -> bool {
        self.forbidden(level).next().is_none()
    }

    /// Counts an anomaly and has it described unless enough are.
    pub(crate) fn add(
        &mut self,
        phenomenon: Phenomenon,
        transactions: &[TxnIndex],
        text: impl FnOnce() -> String,
    ) {
        let count = self.counts.entry(phenomenon).or_default();
        *count += 1;
        if *count <= DESCRIBED {
            self.described.push(Anomaly {
                phenomenon,
                transactions: transactions.to_vec(),
                text: text(),
            });
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.phenomenon, self.text)
    }
}

/// Finds the phenomena of a history, in time and memory that grow with its length.
#[must_use]
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    let orders = Orders::infer(history);
    items::find(history, &orders, &mut report);
    let graph = Graph::build(history, &orders);
    for cycle in cycles::find(&graph) {
        let transactions: Vec<_> = cycle
            .steps
            .iter()
            .filter_map(|(node, _)| graph.transaction(*node))
            .collect();
        report.add(cycle.phenomenon, &transactions, || {
            explain::cycle(history, &orders, &graph, &cycle)
        });
    }
    report
}
