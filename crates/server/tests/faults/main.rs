//! Bad input from below: damaged and truncated files, full disks, directories of other versions,
//! and NDP requests that nobody of ours would send. The error names the object, nothing crashes,
//! what is not hit is served, and nothing acknowledged is lost. `perigee inspect` shows what is
//! there.
#![allow(clippy::unwrap_used, reason = "test code")]

mod damage;
mod descriptors;
mod full_disk;
mod inspect;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod versions;
