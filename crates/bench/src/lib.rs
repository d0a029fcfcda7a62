//! Workloads and measurements: TPC-H data and queries, `perigee demo` and `perigee bench`.

pub mod answers;
mod client;
mod cluster;
pub mod demo;
mod error;
pub mod load;
mod measure;
pub mod paper;
pub mod report;
pub mod tpch;

pub use client::{Client, Rows};
pub use cluster::{Cluster, ClusterOptions, Role};
pub use error::BenchError;
pub use measure::{Cost, measure};
