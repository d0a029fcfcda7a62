//! `perigee inspect log`: PLogs with the log groups in them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use perigee_redo::Group;
use perigee_types::PageId;

use super::{entries, print, store_dir};

/// Which log, and how much of it.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// A PLog's file, a Log Store's directory, or that of `perigee serve`
    #[arg(value_name = "PATH", default_value = "perigee-data")]
    path: PathBuf,
    /// Only the appends, not what is in them
    #[arg(long, conflicts_with = "page")]
    brief: bool,
    /// Only what changes this page
    #[arg(long, value_name = "PAGE")]
    page: Option<u64>,
}

/// Prints all PLogs there are, in order. One that is damaged is printed up to there, and the others
/// too; then an error tells the damage.
pub fn run(args: &LogArgs) -> Result<(), String> {
    let mut damage = Vec::new();
    for file in plogs(&args.path)? {
        let mut text = String::new();
        let done = perigee_log_store::dump_plog(&file, &mut text, |payload, out| {
            if !args.brief {
                describe(&payload, args.page.map(PageId), out);
            }
        });
        print(&format!("{}\n{text}", file.display()))?;
        damage.extend(done.err().map(|e| e.to_string()));
    }
    match damage.is_empty() {
        true => Ok(()),
        false => Err(damage.join("\n")),
    }
}

/// The PLog files at a path, oldest first.
pub(super) fn plogs(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let is_plog = |name: &str| name.starts_with("plog-") && name.ends_with(".log");
    let dir = store_dir(path, "log");
    let mut found = entries(&dir, is_plog)?;
    for db in entries(&dir, |name| name.starts_with("db-"))? {
        if db.is_dir() {
            found.extend(entries(&db, is_plog)?);
        }
    }
    if found.is_empty() {
        return Err(format!("there is no PLog in {}", path.display()));
    }
    Ok(found)
}

/// The groups of an append, one line an operation.
fn describe(payload: &Bytes, page: Option<PageId>, out: &mut String) {
    let groups = match Group::decode_all(payload) {
        Ok(groups) => groups,
        Err(error) => {
            writeln!(out, "            no log groups: {error}").expect("strings take all");
            return;
        }
    };
    for group in groups {
        let group = match page {
            None => group,
            Some(page) => match group.restrict(|changed| changed == page) {
                None => continue,
                Some(part) => part,
            },
        };
        for line in group.dump().lines() {
            writeln!(out, "            {line}").expect("strings take all");
        }
    }
}
