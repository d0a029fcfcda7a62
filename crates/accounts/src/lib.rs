//! Accounts: who may log in from where, by which password, and what each account may do. Everything that MySQL decides
//! about them without looking at a table, and the records in which the catalog keeps them.
//!
//! [`Accounts`] is all of them as one value: decoded from records, changed as a whole, and turned into records again.
//! [`Grants`] is what one account may do, ready for the question that every statement asks.
//!
//! Invariants
//! - A database without any record of accounts has one: `root`@`localhost`, without a password, with all privileges.
//! - Passwords are not kept, only what checks them; neither is ever printed.
//! - A role is an account that others were granted. None reaches itself, and each that is named exists.
//! - Of several accounts that fit a client the most specific host decides, then the named user before the anonymous.
//!
//! Not here: sockets, statements, the catalog.

mod account;
mod all;
mod grants;
mod host;
mod password;
mod privilege;
mod record;
mod roles;
mod shown;
mod slow_hash;

pub use account::{Account, AccountName};
pub use all::{Accounts, Level, RoutineKind};
pub use grants::Grants;
pub use host::{is_valid_host, matches_host};
pub use password::{Credential, Plugin};
pub use privilege::{Privileges, Scope};
pub use record::Records;
pub use roles::RoleGrant;
pub use slow_hash::SlowHash;
