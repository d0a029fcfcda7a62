//! Workloads and measurements: TPC-H data and queries, `perigee demo` and `perigee bench`.

pub mod tpch;
