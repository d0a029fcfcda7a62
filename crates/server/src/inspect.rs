//! `perigee inspect`: what is on disk, checked and made readable. Reads only; it needs no lock, so a
//! store may run meanwhile.

mod log;
mod page;
mod slice;
mod space;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum Inspect {
    /// One page as of an LSN, its structure and checksum verified
    #[command(after_help = PAGE_EXAMPLES)]
    Page(page::PageArgs),
    /// The log: appends, log groups with their LSNs, operations
    #[command(after_help = LOG_EXAMPLES)]
    Log(log::LogArgs),
    /// A slice: its segments, fragments and page versions, and what there is of each page
    #[command(after_help = SLICE_EXAMPLES)]
    Slice(DirArgs),
    /// Every page of a database: who uses it, what is free, what was lost
    #[command(after_help = SPACE_EXAMPLES)]
    Space(space::SpaceArgs),
}

const PAGE_EXAMPLES: &str = "\
Examples:
  perigee inspect page 1 --data perigee-data            newest version, from the files
  perigee inspect page 70 --data perigee-pages --lsn 812
  perigee inspect page 70 --page-store 127.0.0.1:7301   from a running Page Store
  perigee inspect page 70 --data perigee-pages --save page.bin
  perigee inspect page --file page.bin                  16 KiB of bytes from anywhere

A page lists its header, then each record: slot, offset, length, transaction, roll pointer, key in
hexadecimal. `perigee inspect slice` lists the pages there are.";

const LOG_EXAMPLES: &str = "\
Examples:
  perigee inspect log perigee-data                      all of it
  perigee inspect log perigee-log --page 70             only what changes page 70
  perigee inspect log perigee-log/db-1/plog-0000000000000001.log --brief

Each append is a line; below it each log group (one mini-transaction) with its LSN, and below that
its operations, a line each: the page, then what is done to it.";

const SLICE_EXAMPLES: &str = "\
Examples:
  perigee inspect slice perigee-data                    every slice
  perigee inspect slice perigee-pages/db-1/slice-0

Each segment lists its frames by offset: fragments of the log with the LSNs they lead from and to,
or page versions. Then follows the log directory: for each page its versions on disk and the LSNs
of its log records.";

const SPACE_EXAMPLES: &str = "\
Examples:
  perigee inspect space perigee-data
  perigee inspect space perigee-data --json
  perigee inspect space perigee-log perigee-pages-0 perigee-pages-1

Stop the processes first: what a running one changes meanwhile looks like damage. After a kill, pages of
trees that were being dropped or made count as being freed; the next start frees them.";

/// Arguments that name a directory.
#[derive(Debug, Args)]
pub struct DirArgs {
    /// A slice's directory, a Page Store's, or that of `perigee serve`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Looks at what is asked for. An error is for a person to read and names the object.
pub async fn run(inspect: Inspect) -> Result<(), String> {
    match inspect {
        Inspect::Page(args) => page::run(args).await,
        Inspect::Log(args) => log::run(&args),
        Inspect::Slice(args) => slice::run(&args.dir),
        Inspect::Space(args) => space::run(&args),
    }
}

/// Prints; that the reader of a pipe has seen enough is no error.
fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {e}")),
        _ => Ok(()),
    }
}

/// The directory of a store: `dir` itself, or the part of it that `perigee serve` keeps there.
fn store_dir(dir: &Path, part: &str) -> PathBuf {
    let inside = dir.join(part);
    if !dir.join("STORE").exists() && inside.join("STORE").exists() {
        inside
    } else {
        dir.to_owned()
    }
}

/// What lies in a directory and has such a name, in the order of the names.
fn entries(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, String> {
    let failed = |e: io::Error| format!("cannot list {}: {e}", dir.display());
    let mut found = Vec::new();
    for entry in dir.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(&wanted) {
            found.push(entry.path());
        }
    }
    // Numbers of unequal length: `slice-10` comes behind `slice-9`.
    found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(found)
}
