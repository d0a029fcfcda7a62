//! Workloads and measurements: TPC-H data and queries, `perigee demo` and `perigee bench`.

mod client;
mod cluster;
mod error;
pub mod tpch;

pub use client::{Client, Rows};
pub use cluster::{Cluster, ClusterOptions, Role};
pub use error::BenchError;
