//! Measurements: each command of `perigee-bench`, and the peers that Perigee is measured against.

pub mod commands;
pub mod http;
pub mod isolation;
pub mod pairs;
pub mod parquet;
