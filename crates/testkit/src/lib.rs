//! What tests and measurements compare Perigee with, stores to test it on, and inputs for fuzzing.

mod answers;
mod bignum;
mod binary;
mod exposition;
mod faults;
mod fuzz;
mod mariadb;
mod queries;
mod replay;
mod rng;

pub use answers::Answer;
pub use bignum::Big;
pub use binary::tested_binary;
pub use exposition::{Exposition, Labels};
pub use faults::{Faults, Faulty};
pub use fuzz::Fuzz;
pub use mariadb::MariaDb;
pub use perigee_log_api::conformance::MemoryLogStore;
pub use queries::{QUERY_TABLES, QueryGenerator};
pub use replay::ReplayPageStore;
pub use rng::Rng;
