//! Space: which pages are used for what, and giving back what nobody needs (`docs/space.md`).

mod account;
mod map;
mod reclaim;

pub use account::{OwnerSpace, PageSource, SpaceReport, account};
pub(crate) use map::{ABANDONED, Entry, Owner, bit_of, extent_of, map_page};
pub use map::{EXTENT, ExtentUse, MAPPED};
pub(crate) use reclaim::{Retired, TreeKeep, free_orphans, reclaim_forever};
