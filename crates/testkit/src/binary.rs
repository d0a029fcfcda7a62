//! Which `perigee` binary tests run.

use std::path::PathBuf;

/// The binary at `PERIGEE_BINARY`, for long runs of a release build under the tests' control; else the
/// one that was built with the tests.
#[must_use]
pub fn tested_binary(built: &str) -> PathBuf {
    std::env::var_os("PERIGEE_BINARY").map_or_else(|| PathBuf::from(built), PathBuf::from)
}
