//! What a history says of each list: who appended which element, who read which version, and the order
//! of versions that the longest read shows.
//!
//! A transaction of unknown outcome counts as committed once a committed one has seen an element of
//! it, and as if it had never been otherwise.

use std::collections::HashMap;

use crate::history::{Element, History, Key, Op, Outcome, TxnIndex};

/// One append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Append {
    pub element: Element,
    pub txn: TxnIndex,
    /// It is the last one of its transaction to this list.
    pub is_final: bool,
}

/// One read of a committed transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub txn: TxnIndex,
    /// Which of its transaction's operations it is.
    pub op: usize,
}

/// What is known of one list.
#[derive(Debug)]
pub(crate) struct ListOrder {
    pub key: Key,
    /// Every append, of whatever outcome.
    pub appends: Vec<Append>,
    /// Every read of a committed transaction.
    pub reads: Vec<Read>,
    /// The longest read: the order of versions, oldest first.
    pub order: Box<[Element]>,
    /// Who appended each element of `order`, as a place in `appends`.
    pub writers: Vec<Option<usize>>,
    /// Committed appends that nobody read; their versions are younger than all of `order`.
    pub unread: Vec<usize>,
}

/// All lists, and which transactions count as committed.
#[derive(Debug)]
pub(crate) struct Orders {
    pub lists: Vec<ListOrder>,
    pub committed: Vec<bool>,
}

impl Orders {
    /// Infers the orders.
    pub fn infer(history: &History) -> Self {
        let committed = history
            .transactions
            .iter()
            .map(|t| t.outcome == Outcome::Committed)
            .collect();
        let mut orders = Self {
            lists: lists(history),
            committed,
        };
        loop {
            for list in &mut orders.lists {
                list.order(history, &orders.committed);
            }
            if !orders.promote(history) {
                break;
            }
        }
        for list in &mut orders.lists {
            list.find_unread(&orders.committed);
        }
        orders
    }

    /// Counts transactions of unknown outcome as committed if their elements were read; true if there
    /// were such.
    fn promote(&mut self, history: &History) -> bool {
        let mut promoted = false;
        for list in &self.lists {
            for append in list.writers.iter().flatten().map(|at| list.appends[*at]) {
                let unknown = history.get(append.txn).outcome == Outcome::Unknown;
                if unknown && !self.committed[append.txn.at()] {
                    self.committed[append.txn.at()] = true;
                    promoted = true;
                }
            }
        }
        promoted
    }
}

/// The lists with their appends and the reads of all transactions, not ordered yet.
fn lists(history: &History) -> Vec<ListOrder> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut lists: Vec<ListOrder> = Vec::new();
    for (txn, transaction) in history.iter() {
        for (op, operation) in transaction.ops.iter().enumerate() {
            let key = operation.key();
            let at = *places.entry(key).or_insert_with(|| {
                lists.push(ListOrder::new(key));
                lists.len() - 1
            });
            let list = &mut lists[at];
            match operation {
                Op::Append(_, element) => {
                    // A transaction's appends come one after the other here.
                    if let Some(last) = list.appends.last_mut().filter(|last| last.txn == txn) {
                        last.is_final = false;
                    }
                    list.appends.push(Append {
                        element: *element,
                        txn,
                        is_final: true,
                    });
                }
                Op::Read(..) => list.reads.push(Read { txn, op }),
            }
        }
    }
    lists
}

impl ListOrder {
    fn new(key: Key) -> Self {
        Self {
            key,
            appends: Vec::new(),
            reads: Vec::new(),
            order: Box::default(),
            writers: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Who appended an element of the order.
    pub fn writer(&self, at: usize) -> Option<TxnIndex> {
        let append = (*self.writers.get(at)?)?;
        Some(self.appends[append].txn)
    }

    /// Takes the longest committed read as the order.
    fn order(&mut self, history: &History, committed: &[bool]) {
        let reads = self.reads.iter().filter(|read| committed[read.txn.at()]);
        let longest = reads
            .map(|read| elements(history, *read))
            .max_by_key(|list| list.len());
        let longest = longest.unwrap_or_default();
        if longest.len() <= self.order.len() {
            return;
        }
        self.order = longest.into();
        let by_element: HashMap<Element, usize> = self
            .appends
            .iter()
            .enumerate()
            .map(|(at, append)| (append.element, at))
            .collect();
        let writers = self.order.iter().map(|e| by_element.get(e).copied());
        self.writers = writers.collect();
    }

    fn find_unread(&mut self, committed: &[bool]) {
        self.reads.retain(|read| committed[read.txn.at()]);
        let mut is_read = vec![false; self.appends.len()];
        for at in self.writers.iter().flatten() {
            is_read[*at] = true;
        }
        self.unread = (0..self.appends.len())
            .filter(|at| !is_read[*at] && committed[self.appends[*at].txn.at()])
            .collect();
    }
}

/// The list that a read returned.
pub(crate) fn elements(history: &History, read: Read) -> &[Element] {
    match &history.get(read.txn).ops[read.op] {
        Op::Read(_, list) => list,
        Op::Append(..) => unreachable!("a read names a read"),
    }
}
