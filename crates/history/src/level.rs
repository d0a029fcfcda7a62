//! Phenomena, and the levels of isolation that forbid them.

use std::fmt;

/// What a history may show; the names are Adya's and Elle's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phenomenon {
    /// A read has an element that nobody appended.
    Garbage,
    /// A read has an element twice, or two transactions appended it.
    DuplicateElement,
    /// Two reads of a list of which neither begins with the other.
    IncompatibleOrder,
    /// A transaction does not see what it appended itself.
    Internal,
    /// Dirty write: a cycle of write dependencies.
    G0,
    /// Aborted read: a committed transaction saw what an aborted one appended.
    G1a,
    /// Intermediate read: a transaction saw an element but not the later ones of its transaction.
    G1b,
    /// Circular information flow: a cycle of write and read dependencies.
    G1c,
    /// A read misses what was acknowledged before its transaction began; a lost commit shows so.
    StaleRead,
    /// A transaction read a list twice, and others appended to it in between.
    FuzzyRead,
    /// Two transactions read the same version of a list and then both appended to it.
    LostUpdate,
    /// A cycle with one anti-dependency.
    GSingle,
    /// A cycle without two anti-dependencies one after the other, which snapshots exclude.
    GNonadjacent,
    /// A cycle with anti-dependencies, two of them at least adjacent: write skew.
    G2Item,
}

impl Phenomenon {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Garbage,
        Self::DuplicateElement,
        Self::IncompatibleOrder,
        Self::Internal,
        Self::G0,
        Self::G1a,
        Self::G1b,
        Self::G1c,
        Self::StaleRead,
        Self::FuzzyRead,
        Self::LostUpdate,
        Self::GSingle,
        Self::GNonadjacent,
        Self::G2Item,
    ];

    /// The weakest level that forbids it.
    #[must_use]
    pub fn forbidden_from(self) -> Level {
        match self {
            Self::Garbage
            | Self::DuplicateElement
            | Self::IncompatibleOrder
            | Self::Internal
            | Self::G0
            | Self::G1a
            | Self::G1b
            | Self::G1c
            | Self::StaleRead => Level::ReadCommitted,
            Self::FuzzyRead | Self::LostUpdate | Self::GSingle | Self::GNonadjacent => {
                Level::SnapshotIsolation
            }
            Self::G2Item => Level::Serializable,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage read",
            Self::DuplicateElement => "duplicate element",
            Self::IncompatibleOrder => "incompatible order",
            Self::Internal => "internal inconsistency",
            Self::G0 => "G0",
            Self::G1a => "G1a",
            Self::G1b => "G1b",
            Self::G1c => "G1c",
            Self::StaleRead => "stale read",
            Self::FuzzyRead => "fuzzy read",
            Self::LostUpdate => "lost update",
            Self::GSingle => "G-single",
            Self::GNonadjacent => "G-nonadjacent",
            Self::G2Item => "G2-item",
        }
    }
}

impl fmt::Display for Phenomenon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level of isolation, the weakest first. Each is the *strong* one: what was acknowledged before a
/// transaction began is visible to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// READ COMMITTED: Adya's PL-2.
    ReadCommitted,
    /// Snapshot isolation: our REPEATABLE READ.
    SnapshotIsolation,
    /// SERIALIZABLE: Adya's PL-3, over items.
    Serializable,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::ReadCommitted,
        Self::SnapshotIsolation,
        Self::Serializable,
    ];

    /// Whether a history of this level must not show the phenomenon.
    #[must_use]
    pub fn forbids(self, phenomenon: Phenomenon) -> bool {
        phenomenon.forbidden_from() <= self
    }
}
