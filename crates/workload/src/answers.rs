//! Reference answers of the 22 queries: MariaDB's, kept in `answers/`, one file a query.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Rows, WorkloadError};

/// Directory in the repository with the answers for a scale factor.
#[must_use]
pub fn directory(scale: f64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("answers/scale-{scale}"))
}

macro_rules! kept {
    ($scale:literal: $($number:literal)*) => {
        [$((
            $number,
            include_str!(concat!("../answers/scale-", $scale, "/q", $number, ".txt")),
        )),*]
    };
}

const SCALE_0_01: [(usize, &str); 22] =
    kept!("0.01": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);
const SCALE_0_1: [(usize, &str); 22] =
    kept!("0.1": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

/// The reference answer of a query, if answers for this scale are kept.
#[must_use]
pub fn reference(scale: f64, query: usize) -> Option<&'static str> {
    let kept = match scale {
        0.01 => &SCALE_0_01,
        0.1 => &SCALE_0_1,
        _ => return None,
    };
    kept.iter()
        .find(|(number, _)| *number == query)
        .map(|(_, text)| *text)
}

/// Rows in the form the answers are kept in: a row a line, values separated by tabs.
#[must_use]
pub fn to_text(rows: &Rows) -> String {
    let mut out = String::new();
    for row in rows {
        let values: Vec<_> = row.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect();
        out.push_str(&values.join("\t"));
        out.push('\n');
    }
    out
}

/// Compares two answers to a query, given its name, byte by byte.
///
/// # Errors
/// If they differ; the text shows the first different row.
pub fn expect_equal(
    query: &str,
    what: &str,
    ours: &str,
    theirs: &str,
) -> Result<(), WorkloadError> {
    if ours == theirs {
        return Ok(());
    }
    let mut pairs = ours.lines().zip(theirs.lines()).enumerate();
    let first = match pairs.find(|(_, (a, b))| a != b) {
        Some((row, (a, b))) => format!("row {}: {a:?} against {b:?}", row + 1),
        None => format!(
            "{} rows against {}",
            ours.lines().count(),
            theirs.lines().count()
        ),
    };
    Err(WorkloadError::Unexpected(format!(
        "{query} differs from {what}: {first}"
    )))
}

/// Writes an answer into a directory, as MariaDB gave it.
///
/// # Errors
/// If the file cannot be written.
pub fn write(dir: &Path, query: usize, text: &str) -> Result<(), WorkloadError> {
    let path = dir.join(format!("q{query}.txt"));
    fs::create_dir_all(dir).map_err(WorkloadError::io(format!("create {}", dir.display())))?;
    fs::write(&path, text).map_err(WorkloadError::io(format!("write {}", path.display())))
}
