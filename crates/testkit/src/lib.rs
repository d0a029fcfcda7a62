//! What tests and measurements compare Perigee with, and stores to test it on.

mod binary;
mod exposition;
mod faults;
mod mariadb;
mod replay;
mod rng;

pub use binary::tested_binary;
pub use exposition::{Exposition, Labels};
pub use faults::{Faults, Faulty};
pub use mariadb::MariaDb;
pub use perigee_log_api::conformance::MemoryLogStore;
pub use replay::ReplayPageStore;
pub use rng::Rng;
