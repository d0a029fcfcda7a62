//! Workloads and measurements: TPC-H data and queries, `perigee demo` and `perigee bench`.

pub mod answers;
mod client;
mod cluster;
pub mod commands;
pub mod demo;
mod error;
pub mod http;
pub mod isolation;
mod link;
pub mod load;
mod measure;
pub mod pairs;
pub mod paper;
pub mod parquet;
pub mod report;
pub mod sequence;
pub mod tpch;

pub use client::{Client, Rows};
pub use cluster::{Cluster, ClusterOptions, Embedded, Role};
pub use error::BenchError;
pub use link::{Link, Rate};
pub use measure::{Cost, measure};
