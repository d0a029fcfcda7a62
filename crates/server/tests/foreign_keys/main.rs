//! Foreign keys and CHECK constraints: random changes of tables that refer to each other, against MariaDB, and
//! connections that add references while others remove what they refer to.
//!
//! `PERIGEE_FOREIGN_KEYS` sets the number of random statements, `PERIGEE_SEED` the first seed, and
//! `PERIGEE_ORPHANS` the number of transactions of each connection at each level of isolation.
#![allow(clippy::unwrap_used, reason = "test code")]

mod load;
mod orphans;
mod random;
mod tables;
