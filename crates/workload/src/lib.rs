//! Workloads: clients, clusters of processes, TPC-H data and queries, and `perigee demo`.

pub mod answers;
mod client;
mod cluster;
pub mod demo;
mod error;
mod link;
pub mod load;
mod measure;
pub mod paper;
pub mod report;
pub mod sequence;
pub mod tpch;

pub use client::{Client, Rows};
pub use cluster::{Cluster, ClusterOptions, Embedded, Role};
pub use error::WorkloadError;
pub use link::{Link, Rate};
pub use measure::{Cost, measure};
