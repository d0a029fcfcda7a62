//! Workloads and measurements: TPC-H data and queries, `perigee demo` and `perigee bench`.

pub mod answers;
mod client;
mod cluster;
mod error;
pub mod load;
mod measure;
pub mod tpch;

pub use client::{Client, Rows};
pub use cluster::{Cluster, ClusterOptions, Role};
pub use error::BenchError;
pub use measure::{Cost, measure};
