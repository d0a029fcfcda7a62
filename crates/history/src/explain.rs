//! Counterexamples as text: the transactions of a cycle, and why each comes before the next.

use std::fmt::Write;

use crate::cycles::Cycle;
use crate::graph::{Dependency, Edge, Graph};
use crate::history::{History, TxnIndex};
use crate::orders::{ListOrder, Orders};

/// Describes transactions, a line each.
pub(crate) fn transactions(history: &History, indexes: &[TxnIndex]) -> String {
    let mut out = String::new();
    for index in indexes {
        let _ = write!(out, "\n  {index}: {}", history.get(*index));
    }
    out
}

/// Describes a cycle.
pub(crate) fn cycle(history: &History, orders: &Orders, graph: &Graph, cycle: &Cycle) -> String {
    let mut edges = Vec::new();
    let mut steps: Vec<_> = cycle.steps.clone();
    // Begin at a transaction, so that moments stand between two.
    let first = steps
        .iter()
        .position(|(node, _)| graph.transaction(*node).is_some());
    steps.rotate_left(first.expect("moments alone are no cycle"));
    for (node, edge) in steps {
        match graph.transaction(node) {
            Some(from) => edges.push((from, graph.edge(edge))),
            None => {
                let last = edges.last_mut().expect("a transaction comes first");
                last.1.to = graph.edge(edge).to;
            }
        }
    }
    let count = edges.len();
    let indexes: Vec<_> = edges.iter().map(|(from, _)| *from).collect();
    let mut out = format!("a cycle of {count} transactions");
    for (from, edge) in &edges {
        let to = TxnIndex(edge.to);
        let _ = write!(
            out,
            "\n  {from} comes before {to}: {}",
            why(orders, *from, edge)
        );
    }
    out + &transactions(history, &indexes)
}

fn why(orders: &Orders, from: TxnIndex, edge: &Edge) -> String {
    let list = &orders.lists[edge.list as usize];
    let (to, key) = (TxnIndex(edge.to), list.key.0);
    match edge.kind {
        Dependency::Session => "the same session ran it before".to_owned(),
        Dependency::RealTime => "it ended before the other began".to_owned(),
        Dependency::Wr => format!("{to} read what {from} appended to list {key} (wr)"),
        Dependency::Rw => match next_of(list, to) {
            Some(element) => {
                format!("{from} read list {key} without {element}, which {to} appended (rw)")
            }
            None => format!("{from} read list {key} before {to} appended to it (rw)"),
        },
        Dependency::Ww => match next_of(list, to) {
            Some(element) => {
                format!("{to} appended {element} to list {key} right after {from} did (ww)")
            }
            None => format!("{to} appended to list {key} after {from} did (ww)"),
        },
    }
}

/// The first element that a transaction appended to a list.
fn next_of(list: &ListOrder, txn: TxnIndex) -> Option<u32> {
    let mut appends = list.appends.iter().filter(|a| a.txn == txn);
    let first = appends.next()?;
    appends.next().is_none().then_some(first.element.0)
}
