//! The storage abstraction layer over stores in memory, with faults.
#![allow(clippy::unwrap_used, reason = "test code")]

mod cluster;
mod reads;
mod recovery;
mod slices;
mod write_path;
