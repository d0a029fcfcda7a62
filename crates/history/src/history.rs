//! A recorded history: what clients asked, what they were answered, and when.

use std::fmt;

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u32);

/// An element of a list; a history appends it to its list once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Element(pub u32);

/// A client that runs one transaction after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Session(pub u32);

/// Nanoseconds since the history began, on one clock for all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub u64);

/// The place of a transaction in its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnIndex(pub u32);

impl TxnIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// One operation that succeeded; what failed is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The element became the last of the list.
    Append(Key, Element),
    /// The list was read and had these elements.
    Read(Key, Box<[Element]>),
}

impl Op {
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Append(key, _) | Self::Read(key, _) => *key,
        }
    }
}

/// How a transaction ended, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The commit was acknowledged.
    Committed,
    /// It was rolled back, or failed so that it cannot have been committed.
    Aborted,
    /// The connection broke while it was committed.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The client.
    pub session: Session,
    /// Before the first statement was sent.
    pub begin: Time,
    /// After the end was acknowledged.
    pub end: Time,
    /// How it ended.
    pub outcome: Outcome,
    /// What it did, in order.
    pub ops: Vec<Op>,
}

/// All transactions of a run, in any order; those of one session in the order in which they ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions.
    pub transactions: Vec<Transaction>,
}

impl History {
    pub(crate) fn get(&self, index: TxnIndex) -> &Transaction {
        &self.transactions[index.at()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TxnIndex, &Transaction)> {
        (0..).map(TxnIndex).zip(&self.transactions)
    }
}

impl fmt::Display for TxnIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(key, element) => write!(f, "append({}, {})", key.0, element.0),
            Self::Read(key, list) => {
                let list: Vec<_> = list.iter().map(|e| e.0.to_string()).collect();
                write!(f, "read({}) = [{}]", key.0, list.join(" "))
            }
        }
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Time| time.0 as f64 / 1e9;
        let outcome = match self.outcome {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Unknown => "of unknown outcome",
        };
        write!(
            f,
            "session {}, {:.6} s to {:.6} s, {outcome}:",
            self.session.0,
            seconds(self.begin),
            seconds(self.end)
        )?;
        self.ops.iter().try_for_each(|op| write!(f, " {op}"))
    }
}
