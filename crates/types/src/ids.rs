//! Newtypes for every number that names something, so that two of them cannot be exchanged.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// Log sequence number: names one log group (mini-transaction) of a database. The first group
    /// has LSN 1 and each following group has the next number, without gaps (invariant L1).
    /// `Lsn(0)` means "before the first group".
    Lsn(u64), "lsn:"
}
id! {
    /// A database: the unit of tenancy. Storage services hold pages and log of many databases and
    /// never mix them (SPEC's S8).
    DbId(u32), "db:"
}
id! {
    /// A page of one database. Ids are handed out once, in increasing order.
    PageId(u64), "page:"
}
id! {
    /// A slice: a fixed-size set of pages of one database, placed on Page Stores as a whole
    /// (taurus-2020 section 3.2).
    SliceId(u32), "slice:"
}
id! {
    /// A PLog: a size-limited, append-only object on the Log Stores (taurus-2020 section 3.3).
    PlogId(u64), "plog:"
}
id! {
    /// A table of one database.
    TableId(u32), "table:"
}
id! {
    /// An index of one database; ids are unique over all tables.
    IndexId(u32), "index:"
}
id! {
    /// A transaction. 48 bits in records; `TrxId(0)` marks data older than every transaction.
    TrxId(u64), "trx:"
}
id! {
    /// Roll pointer: where the undo record of a record version lies. 56 bits in records:
    /// 40 bits page id, 16 bits offset in the page. `RollPtr(0)` means "no older version".
    RollPtr(u64), "roll:"
}

impl Lsn {
    /// The LSN of the log group that follows this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl TrxId {
    /// Greatest transaction id a record can carry.
    pub const MAX: Self = Self((1 << 48) - 1);
}

impl RollPtr {
    /// Points at `offset` in `page`.
    ///
    /// # Panics
    /// If the page id does not fit in 40 bits.
    #[must_use]
    pub fn new(page: PageId, offset: u16) -> Self {
        assert!(page.0 < 1 << 40, "{page} does not fit a roll pointer");
        Self(page.0 << 16 | u64::from(offset))
    }

    /// The undo page.
    #[must_use]
    pub fn page(self) -> PageId {
        PageId(self.0 >> 16)
    }

    /// The offset of the undo record in its page.
    #[must_use]
    pub fn offset(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}
