//! Phenomena that show in the reads of one list or in one transaction, without the graph.

use std::collections::{HashMap, HashSet};

use crate::check::Report;
use crate::explain::transactions;
use crate::history::{Element, History, Key, Op, Outcome, Time, Transaction, TxnIndex};
use crate::level::Phenomenon;
use crate::orders::{ListOrder, Orders, Read, elements};

/// Finds them all.
pub(crate) fn find(history: &History, orders: &Orders, report: &mut Report) {
    for list in &orders.lists {
        let mut of_list = OfList {
            history,
            list,
            report,
        };
        of_list.appended_twice();
        of_list.compatible();
        of_list.aborted();
        of_list.intermediate();
        of_list.stale();
        of_list.lost_updates();
    }
    for (txn, transaction) in history.iter().filter(|(txn, _)| orders.committed[txn.at()]) {
        own_reads(history, txn, transaction, report);
    }
}

struct OfList<'a> {
    history: &'a History,
    list: &'a ListOrder,
    report: &'a mut Report,
}

impl OfList<'_> {
    fn add(&mut self, phenomenon: Phenomenon, indexes: &[TxnIndex], what: &str) {
        let (history, key) = (self.history, self.list.key.0);
        self.report.add(phenomenon, indexes, || {
            format!("list {key}: {what}{}", transactions(history, indexes))
        });
    }

    fn appended_twice(&mut self) {
        let mut by_element: HashMap<Element, TxnIndex> = HashMap::new();
        for append in &self.list.appends {
            if let Some(other) = by_element.insert(append.element, append.txn) {
                let what = format!("{} was appended twice", append.element.0);
                self.add(Phenomenon::DuplicateElement, &[other, append.txn], &what);
            }
        }
    }

    /// Every read is a beginning of the longest, which has each element once and only elements that
    /// somebody appended.
    fn compatible(&mut self) {
        let list = self.list;
        let longest = list
            .reads
            .iter()
            .find(|read| elements(self.history, **read).len() == list.order.len());
        let Some(longest) = longest.copied() else {
            return;
        };
        self.elements_once(longest);
        for read in &list.reads {
            let seen = elements(self.history, *read);
            if !list.order.starts_with(seen) {
                self.elements_once(*read);
                let what = format!(
                    "neither {} nor {} begins with the other",
                    read.txn, longest.txn
                );
                let both = [read.txn, longest.txn];
                self.add(Phenomenon::IncompatibleOrder, &both, &what);
            }
        }
    }

    fn elements_once(&mut self, read: Read) {
        let list = self.list;
        let known: HashSet<Element> = list.appends.iter().map(|a| a.element).collect();
        let mut met = HashSet::new();
        for element in elements(self.history, read) {
            if !met.insert(*element) {
                let what = format!("{} read {} twice", read.txn, element.0);
                self.add(Phenomenon::DuplicateElement, &[read.txn], &what);
            }
            if !known.contains(element) {
                let what = format!("{} read {}, which nobody appended", read.txn, element.0);
                self.add(Phenomenon::Garbage, &[read.txn], &what);
            }
        }
    }

    /// The first element of a read that an aborted transaction appended.
    fn aborted(&mut self) {
        let list = self.list;
        let is_aborted = |txn: TxnIndex| self.history.get(txn).outcome == Outcome::Aborted;
        let bad: HashMap<Element, TxnIndex> = list
            .appends
            .iter()
            .filter(|append| is_aborted(append.txn))
            .map(|append| (append.element, append.txn))
            .collect();
        if bad.is_empty() {
            return;
        }
        for read in &list.reads {
            let seen = elements(self.history, *read).iter();
            let mut found = seen.filter_map(|e| bad.get(e).filter(|w| **w != read.txn));
            if let Some(writer) = found.next() {
                let what = format!("{} read what {writer} appended", read.txn);
                self.add(Phenomenon::G1a, &[*writer, read.txn], &what);
            }
        }
    }

    /// The last element of a read is the last one of its transaction.
    fn intermediate(&mut self) {
        let list = self.list;
        for read in &list.reads {
            let seen = elements(self.history, *read);
            let Some(last) = seen.len().checked_sub(1) else {
                continue;
            };
            let Some(Some(writer)) = list
                .writers
                .get(last)
                .filter(|_| list.order.starts_with(seen))
            else {
                continue;
            };
            let writer = list.appends[*writer];
            if !writer.is_final && writer.txn != read.txn {
                let what = format!(
                    "{} read {} but not what {} appended after it",
                    read.txn, seen[last].0, writer.txn
                );
                self.add(Phenomenon::G1b, &[writer.txn, read.txn], &what);
            }
        }
    }

    /// A read has all that was acknowledged before its transaction began.
    fn stale(&mut self) {
        let list = self.list;
        let never = (Time(u64::MAX), TxnIndex(u32::MAX));
        let end = |txn: TxnIndex| {
            let transaction = self.history.get(txn);
            match transaction.outcome {
                Outcome::Committed => (transaction.end, txn),
                Outcome::Aborted | Outcome::Unknown => never,
            }
        };
        // For each version: the first end of a transaction that appended behind it.
        let unread = list.unread.iter().map(|at| end(list.appends[*at].txn));
        let mut first = vec![unread.min().unwrap_or(never); list.order.len() + 1];
        for at in (0..list.order.len()).rev() {
            let writer = list.writer(at).map_or(never, end);
            first[at] = first[at + 1].min(writer);
        }
        for read in &list.reads {
            let seen = elements(self.history, *read);
            let (end, writer) = first[seen.len()];
            if list.order.starts_with(seen) && end < self.history.get(read.txn).begin {
                let what = format!(
                    "{} does not see what {writer} appended, which was acknowledged before",
                    read.txn
                );
                self.add(Phenomenon::StaleRead, &[writer, read.txn], &what);
            }
        }
    }

    /// Each version has one committed transaction at most that read it and then appended.
    fn lost_updates(&mut self) {
        let list = self.list;
        let mut first: HashMap<usize, TxnIndex> = HashMap::new();
        for read in &list.reads {
            let ops = &self.history.get(read.txn).ops;
            let appends = |ops: &[Op]| {
                ops.iter()
                    .any(|op| matches!(op, Op::Append(key, _) if *key == list.key))
            };
            if appends(&ops[..read.op]) || !appends(&ops[read.op..]) {
                continue;
            }
            let seen = elements(self.history, *read);
            let other = *first.entry(seen.len()).or_insert(read.txn);
            if other != read.txn && list.order.starts_with(seen) {
                let what = format!(
                    "{other} and {} read it with {} elements and then appended to it",
                    read.txn,
                    seen.len()
                );
                self.add(Phenomenon::LostUpdate, &[other, read.txn], &what);
            }
        }
    }
}

/// What a transaction knows of a list from its own operations.
struct Known<'a> {
    key: Key,
    /// What others appended, if it read the list.
    others: Option<&'a [Element]>,
    own: Vec<Element>,
}

/// A transaction sees what it appended, and between its reads nobody else's appends.
fn own_reads(history: &History, txn: TxnIndex, transaction: &Transaction, report: &mut Report) {
    let mut known: Vec<Known<'_>> = Vec::new();
    for op in &transaction.ops {
        let key = op.key();
        let at = known.iter().position(|k| k.key == key).unwrap_or_else(|| {
            known.push(Known {
                key,
                others: None,
                own: Vec::new(),
            });
            known.len() - 1
        });
        let known = &mut known[at];
        let seen: &[Element] = match op {
            Op::Append(_, element) => {
                known.own.push(*element);
                continue;
            }
            Op::Read(_, seen) => seen,
        };
        let mut found = |phenomenon, what: &str| {
            report.add(phenomenon, &[txn], || {
                format!(
                    "list {}: {txn} {what}{}",
                    key.0,
                    transactions(history, &[txn])
                )
            });
        };
        let Some(others) = seen.strip_suffix(known.own.as_slice()) else {
            found(Phenomenon::Internal, "does not see what it appended last");
            continue;
        };
        if known.others.is_some_and(|before| before != others) {
            found(Phenomenon::FuzzyRead, "reads two versions of others");
        }
        known.others = Some(others);
    }
}
