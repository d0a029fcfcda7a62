//! What tests and measurements compare Perigee with.

mod mariadb;

pub use mariadb::MariaDb;
