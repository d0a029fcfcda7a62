//! Adya's direct serialization graph of a history, with the orders of sessions and of real time.
//!
//! Nodes are transactions, by their place in the history; above them come *moments*. A transaction
//! that ended before a moment leads to it, moments lead to later ones, and a moment leads to the
//! transactions that began after it: so all pairs of "ended before the other began" take edges as many
//! as there are transactions.

use std::ops::Range;

use crate::history::{History, Session, TxnIndex};
use crate::orders::{ListOrder, Orders, elements};
use crate::scc::View;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// The other's version of a list came after.
    Ww,
    /// The other read its version.
    Wr,
    /// It read the version before the other's: an anti-dependency.
    Rw,
    /// The same session ran the other after it.
    Session,
    /// It ended before the other began.
    RealTime,
}

impl Dependency {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of kinds of dependency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// Write dependencies, and the orders beside the data.
    pub const WRITES: Self = Self(0b11001);
    /// What carries information.
    pub const FLOW: Self = Self(0b11011);
    /// All.
    pub const ALL: Self = Self(0b11111);

    fn has(self, kind: Dependency) -> bool {
        self.0 & kind.bit() != 0
    }
}

/// An edge as it is kept: where it leads and which list it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub to: u32,
    pub kind: Dependency,
    /// Place of the list among the orders; of no meaning for the orders of sessions and time.
    pub list: u32,
}

/// The graph: edges sorted by where they come from.
pub(crate) struct Graph {
    transactions: usize,
    first: Vec<usize>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Builds the graph of the committed transactions.
    pub fn build(history: &History, orders: &Orders) -> Self {
        let mut builder = Builder {
            edges: Vec::new(),
            nodes: history.transactions.len() as u32,
        };
        for (number, list) in (0..).zip(&orders.lists) {
            builder.list(history, orders, list, number);
        }
        builder.sessions(history, &orders.committed);
        builder.real_time(history, &orders.committed);
        builder.finish(history.transactions.len())
    }

    /// The transaction that a node is, unless it is a moment.
    pub fn transaction(&self, node: u32) -> Option<TxnIndex> {
        ((node as usize) < self.transactions).then_some(TxnIndex(node))
    }

    pub fn edge(&self, at: usize) -> Edge {
        self.edges[at]
    }

    pub fn edges(&self, node: u32) -> Range<usize> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    fn nodes(&self) -> usize {
        self.first.len() - 1
    }
}

struct Builder {
    edges: Vec<(u32, Edge)>,
    nodes: u32,
}

impl Builder {
    fn add(&mut self, from: TxnIndex, to: TxnIndex, kind: Dependency, list: u32) {
        if from != to {
            let to = to.0;
            self.edges.push((from.0, Edge { to, kind, list }));
        }
    }

    /// The dependencies that one list shows. Readers of the last version come before all appends that
    /// nobody read, whatever the order of those is.
    fn list(&mut self, history: &History, orders: &Orders, list: &ListOrder, number: u32) {
        let committed = |txn: &TxnIndex| orders.committed[txn.at()];
        let writer = |at: usize| list.writer(at).filter(committed);
        let count = list.order.len();
        let unread = || list.unread.iter().map(|at| list.appends[*at].txn);
        for at in 1..count {
            if let (Some(from), Some(to)) = (writer(at - 1), writer(at)) {
                self.add(from, to, Dependency::Ww, number);
            }
        }
        if let Some(last) = count.checked_sub(1).and_then(writer) {
            unread().for_each(|to| self.add(last, to, Dependency::Ww, number));
        }
        for read in &list.reads {
            let seen = elements(history, *read);
            if !list.order.starts_with(seen) {
                continue; // reported as such; it has no place in the order
            }
            if let Some(from) = seen.len().checked_sub(1).and_then(writer) {
                self.add(from, read.txn, Dependency::Wr, number);
            }
            if let Some(to) = writer(seen.len()) {
                self.add(read.txn, to, Dependency::Rw, number);
            }
            if seen.len() == count {
                unread().for_each(|to| self.add(read.txn, to, Dependency::Rw, number));
            }
        }
    }

    fn sessions(&mut self, history: &History, committed: &[bool]) {
        let mut last: std::collections::HashMap<Session, TxnIndex> = Default::default();
        for (txn, transaction) in history.iter().filter(|(txn, _)| committed[txn.at()]) {
            if let Some(before) = last.insert(transaction.session, txn) {
                self.add(before, txn, Dependency::Session, 0);
            }
        }
    }

    fn real_time(&mut self, history: &History, committed: &[bool]) {
        // At one time beginnings come first: who begins when another ends does not begin after it.
        let mut events: Vec<_> = history
            .iter()
            .filter(|(txn, _)| committed[txn.at()])
            .flat_map(|(txn, t)| {
                let end = (t.outcome == crate::Outcome::Committed).then_some((t.end, true, txn));
                [Some((t.begin, false, txn)), end]
            })
            .flatten()
            .collect();
        events.sort_unstable();
        let mut moment = None;
        let mut ended = Vec::new();
        for (_, is_end, txn) in events {
            if is_end {
                ended.push(txn);
                continue;
            }
            if !ended.is_empty() {
                let next = TxnIndex(self.nodes);
                self.nodes += 1;
                for before in ended.drain(..).chain(moment) {
                    self.add(before, next, Dependency::RealTime, 0);
                }
                moment = Some(next);
            }
            if let Some(moment) = moment {
                self.add(moment, txn, Dependency::RealTime, 0);
            }
        }
    }

    /// Sorts the edges by counting.
    fn finish(self, transactions: usize) -> Graph {
        let mut first = vec![0; self.nodes as usize + 1];
        for (from, _) in &self.edges {
            first[*from as usize + 1] += 1;
        }
        for node in 1..first.len() {
            first[node] += first[node - 1];
        }
        let mut free = first.clone();
        let placeholder = Edge {
            to: 0,
            kind: Dependency::Ww,
            list: 0,
        };
        let mut edges = vec![placeholder; self.edges.len()];
        for (from, edge) in self.edges {
            let at = &mut free[from as usize];
            edges[*at] = edge;
            *at += 1;
        }
        Graph {
            transactions,
            first,
            edges,
        }
    }
}

/// The graph reduced to some kinds of dependency.
pub(crate) struct Only<'a> {
    pub graph: &'a Graph,
    pub kinds: Kinds,
}

impl View for Only<'_> {
    fn nodes(&self) -> usize {
        self.graph.nodes()
    }

    fn edges(&self, node: u32) -> Range<usize> {
        self.graph.edges(node)
    }

    fn target(&self, _: u32, edge: usize) -> Option<u32> {
        let edge = self.graph.edge(edge);
        self.kinds.has(edge.kind).then_some(edge.to)
    }
}

/// Walks on which no anti-dependency follows another. Each node stands twice: `2 n` entered by any
/// other edge, `2 n + 1` entered by an anti-dependency, which it cannot leave by one. A history has a
/// cycle here exactly if it is not one of snapshot isolation (Cerone and Gotsman, *Analysing Snapshot
/// Isolation*, 2018).
pub(crate) struct NonAdjacent<'a> {
    pub graph: &'a Graph,
}

impl View for NonAdjacent<'_> {
    fn nodes(&self) -> usize {
        2 * self.graph.nodes()
    }

    fn edges(&self, node: u32) -> Range<usize> {
        self.graph.edges(node / 2)
    }

    fn target(&self, node: u32, edge: usize) -> Option<u32> {
        let edge = self.graph.edge(edge);
        match (edge.kind, node % 2) {
            (Dependency::Rw, 0) => Some(2 * edge.to + 1),
            (Dependency::Rw, _) => None,
            _ => Some(2 * edge.to),
        }
    }
}
