//! The shape of source files: each opens by saying what it is, stays readable in length, and names
//! no unfinished work.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of non-test code a file may have.
const FILE_LIMIT: usize = 1000;

/// Files that are longer, with the length they may not exceed. The list may only shrink.
const LONGER: &[(&str, usize)] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" {
            sources(&path, out);
        } else if name.ends_with(".rs") {
            out.push(path);
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    sources(&root().join("crates"), &mut paths);
    let name = |p: &PathBuf| {
        p.strip_prefix(root())
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    paths
        .iter()
        .map(|p| (name(p), fs::read_to_string(p).unwrap()))
        .collect()
}

/// Lines before the unit tests of a file.
fn code_lines(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "mod tests {")
        .count()
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<_> = all_sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(name, _)| name)
        .collect();
    assert!(
        silent.is_empty(),
        "files that do not open with `//! `: {silent:?}"
    );
}

#[test]
fn files_stay_readable() {
    let mut long = Vec::new();
    for (name, text) in all_sources() {
        let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
        let limit = LONGER
            .iter()
            .find(|(n, _)| *n == name)
            .map_or(FILE_LIMIT, |(_, l)| *l);
        if !is_test && code_lines(&text) > limit {
            long.push(format!(
                "{name}: {} lines, limit {limit}",
                code_lines(&text)
            ));
        }
    }
    assert!(long.is_empty(), "split these files:\n{}", long.join("\n"));
}

#[test]
fn nothing_unfinished_is_checked_in() {
    let marks = [
        ["to", "do!("].concat(),
        ["unimple", "mented!("].concat(),
        ["FIX", "ME"].concat(),
    ];
    let found: Vec<_> = all_sources()
        .into_iter()
        .filter(|(_, text)| marks.iter().any(|mark| text.contains(mark)))
        .map(|(name, _)| name)
        .collect();
    assert!(found.is_empty(), "unfinished work in {found:?}");
}
