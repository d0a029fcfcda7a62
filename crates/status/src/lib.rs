//! What a process tells of itself over HTTP: a page for people at `/`, the same figures for Prometheus
//! at `/metrics`, and at `/healthz` whether it can do its work.
//!
//! The crate knows no role. Who serves gives it a [`Source`]; a [`Report`] of the source's figures is
//! made for each request, so that counting costs those who count nothing but the counting. Page and
//! metrics are made from one list, [`Metrics`], and cannot differ.
//!
//! Nothing can be changed here and nothing secret is shown, but whoever reaches the address may read:
//! it is on loopback unless the operator says otherwise.

mod metrics;
mod number;
mod page;
mod process;
mod report;
mod server;
mod text;

pub use metrics::{Family, Histogram, Kind, Metrics, Sample, Section, Value};
pub use process::process_metrics;
pub use report::{Report, Source};
pub use server::serve;
pub use text::exposition;
