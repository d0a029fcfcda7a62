//! `perigee inspect space`: who uses which pages, and what they take on disk.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use perigee_engine::EngineError;
use perigee_engine::space::{OwnerSpace, PageSource, SpaceReport, account};
use perigee_page::{PageMut, PageRef};
use perigee_page_store::{OfflineSlice, OfflineStore};
use perigee_redo::{Change, Group, apply_change};
use perigee_types::{DbId, Lsn, PAGE_SIZE, PageId};
use serde_json::json;

use super::log::plogs;
use super::{print, store_dir};

/// Which stores.
#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// Directory of `perigee serve`, or those of the Log Store and of all Page Stores
    #[arg(value_name = "DIR", default_value = "perigee-data")]
    dirs: Vec<PathBuf>,
    /// Number of the database
    #[arg(long, value_name = "N", default_value_t = 1)]
    database: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the account. Pages that were lost, or are used in two places, are an error too.
pub fn run(args: &SpaceArgs) -> Result<(), String> {
    let mut stores = Stores::open(&args.dirs, DbId(args.database))?;
    let report = account(&mut stores).map_err(|e| e.to_string())?;
    let stored = stores.stored()?;
    let stray = stored.iter().filter(|page| !report.is_used(**page)).count();
    let space = Space {
        report,
        slices: stores
            .stores
            .iter()
            .flat_map(OfflineStore::slices)
            .collect(),
        stored: stored.len(),
        stray,
        disk: disk_bytes(&args.dirs),
    };
    let text = if args.json {
        let mut text = serde_json::to_string_pretty(&space.json()).map_err(|e| e.to_string())?;
        text.push('\n');
        text
    } else {
        space.text()
    };
    print(&text)?;
    match space.trouble() {
        None => Ok(()),
        Some(trouble) => Err(trouble),
    }
}

/// Pages of all stores, with the log that they do not have yet.
struct Stores {
    stores: Vec<OfflineStore>,
    /// Changes in the Log Store, by page, oldest first.
    log: HashMap<PageId, Vec<(Lsn, Change)>>,
}

impl Stores {
    fn open(dirs: &[PathBuf], db: DbId) -> Result<Self, String> {
        let mut stores = Vec::new();
        let mut log: HashMap<PageId, Vec<_>> = HashMap::new();
        for dir in dirs {
            let pages = store_dir(dir, "pages");
            if is_store(&pages, "page-store") {
                stores.push(OfflineStore::open(&pages, db).map_err(|e| e.to_string())?);
            }
            if is_store(&store_dir(dir, "log"), "log-store") {
                for group in groups(dir, db)? {
                    for change in group.changes {
                        log.entry(change.page)
                            .or_default()
                            .push((group.lsn, change));
                    }
                }
            }
        }
        if stores.is_empty() {
            return Err("there is no Page Store in these directories".to_owned());
        }
        Ok(Self { stores, log })
    }

    /// The page, and whether a Page Store or the log has anything of it.
    fn read(&self, page: PageId) -> Result<Option<Bytes>, String> {
        let (mut lsn, mut bytes) = (Lsn(0), None);
        for store in &self.stores {
            let found = store.page(page).map_err(|e| e.to_string())?;
            if found.lsn > lsn {
                (lsn, bytes) = (found.lsn, found.bytes);
            }
        }
        let changes = self.log.get(&page).into_iter().flatten();
        let missing: Vec<_> = changes.filter(|(at, _)| *at > lsn).collect();
        let Some((_, last)) = missing.last() else {
            return Ok(bytes);
        };
        if last.frees() {
            return Ok(None);
        }
        let mut image = Box::new([0; PAGE_SIZE]);
        if let Some(bytes) = &bytes {
            image.copy_from_slice(bytes);
        }
        let from = missing.iter().rposition(|(_, change)| change.formats());
        for (lsn, change) in &missing[from.unwrap_or(0)..] {
            apply_change(&mut image, *lsn, change).map_err(|e| e.to_string())?;
        }
        PageMut::new(&mut image).seal();
        Ok(Some(Bytes::copy_from_slice(&image[..])))
    }

    /// All pages that have content.
    fn stored(&self) -> Result<Vec<PageId>, String> {
        let mut pages: Vec<_> = self.stores.iter().flat_map(OfflineStore::pages).collect();
        pages.extend(self.log.keys());
        pages.sort_unstable();
        pages.dedup();
        let mut stored = Vec::new();
        for page in pages {
            if self.read(page)?.is_some() {
                stored.push(page);
            }
        }
        Ok(stored)
    }
}

impl PageSource for Stores {
    fn page(&mut self, page: PageId) -> Result<Option<Bytes>, EngineError> {
        let bytes = self.read(page).map_err(EngineError::Corrupt)?;
        if let Some(bytes) = &bytes {
            let verified = PageRef::new(bytes).and_then(PageRef::verify);
            verified.map_err(|e| EngineError::Corrupt(e.to_string()))?;
        }
        Ok(bytes)
    }
}

/// True if a directory says that it is a store of this kind.
fn is_store(dir: &Path, kind: &str) -> bool {
    let text = std::fs::read_to_string(dir.join("STORE")).unwrap_or_default();
    text.split_whitespace().any(|word| word == kind)
}

/// The log groups of a database that are in a Log Store, up to a torn end.
fn groups(dir: &Path, db: DbId) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    let mut trouble = None;
    let files = plogs(dir)?.into_iter().filter(|file| {
        let name = file.parent().and_then(Path::file_name);
        name.is_none_or(|name| name == format!("db-{}", db.0).as_str())
    });
    for file in files {
        let read = |payload: Bytes, _: &mut String| match Group::decode_all(&payload) {
            Ok(more) => groups.extend(more),
            Err(error) => trouble = Some(error.to_string()),
        };
        perigee_log_store::dump_plog(&file, &mut String::new(), read).map_err(|e| e.to_string())?;
    }
    trouble.map_or(Ok(groups), Err)
}

/// Bytes of all files below directories.
fn disk_bytes(dirs: &[PathBuf]) -> u64 {
    let mut left: Vec<_> = dirs.to_vec();
    let mut bytes = 0;
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => left.push(entry.path()),
                Ok(meta) => bytes += meta.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// The account, and what is on disk.
struct Space {
    report: SpaceReport,
    slices: Vec<OfflineSlice>,
    /// Pages with content.
    stored: usize,
    /// Of these, those that are not in use.
    stray: usize,
    disk: u64,
}

impl Space {
    fn trouble(&self) -> Option<String> {
        let mut trouble = self.report.wrong.clone();
        let leaked = &self.report.leaked;
        if let Some(first) = leaked.first() {
            let count = leaked.len();
            trouble.push(format!("{count} pages are leaked, the first is {first}"));
        }
        (!trouble.is_empty()).then(|| trouble.join("\n"))
    }

    fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            writeln!(out, "{text}").expect("strings take all");
        };
        let wide = |owner: &OwnerSpace| owner.name.chars().count();
        let width = self
            .report
            .owners
            .iter()
            .map(wide)
            .max()
            .unwrap_or(0)
            .max(8);
        line(format_args!(
            "{:width$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "used by", "leaves", "inner", "overflow", "other", "pages", "unused"
        ));
        for owner in &self.report.owners {
            line(format_args!(
                "{:width$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                owner.name,
                owner.leaves,
                owner.inner,
                owner.overflow,
                owner.other,
                owner.pages(),
                owner.unused
            ));
        }
        let report = &self.report;
        line(format_args!(""));
        let rows: [(&str, u64, &str); 8] = [
            ("in use", report.in_use(), ""),
            (
                "unused",
                report.unused(),
                "page numbers of extents that somebody has",
            ),
            ("free", report.free, "page numbers of free extents"),
            (
                "being freed",
                report.pending,
                "page numbers of extents of dropped or unfinished trees",
            ),
            (
                "leaked",
                report.leaked.len() as u64,
                "marked as in use, and nothing leads to them",
            ),
            (
                "handed out",
                report.handed_out,
                "page numbers: the sum of these",
            ),
            ("stored", self.stored as u64, "pages with content on disk"),
            (
                "stray",
                self.stray as u64,
                "pages with content on disk that are not in use",
            ),
        ];
        for (name, pages, what) in rows {
            line(format_args!("{name:12} {pages:>9}  {what}"));
        }
        line(format_args!(
            "{:12} {:>9}  bytes of files",
            "disk", self.disk
        ));
        line(format_args!(""));
        line(format_args!(
            "{:12} {:>9} {:>12}",
            "slice", "pages", "bytes"
        ));
        for slice in &self.slices {
            line(format_args!(
                "{:12} {:>9} {:>12}",
                slice.key.slice.0, slice.pages, slice.disk_bytes
            ));
        }
        out
    }

    fn json(&self) -> serde_json::Value {
        let report = &self.report;
        let owner = |owner: &OwnerSpace| {
            json!({
                "name": owner.name, "index": owner.index, "leaves": owner.leaves,
                "inner": owner.inner, "overflow": owner.overflow, "other": owner.other,
                "pages": owner.pages(), "unused": owner.unused,
            })
        };
        let slice = |slice: &OfflineSlice| json!({"slice": slice.key.slice.0, "pages": slice.pages, "bytes": slice.disk_bytes});
        json!({
            "slices": self.slices.iter().map(slice).collect::<Vec<_>>(),
            "owners": report.owners.iter().map(owner).collect::<Vec<_>>(),
            "in_use": report.in_use(), "unused": report.unused(), "free": report.free,
            "being_freed": report.pending, "handed_out": report.handed_out,
            "leaked": report.leaked.iter().map(|page| page.0).collect::<Vec<_>>(),
            "wrong": report.wrong, "stored": self.stored, "stray": self.stray,
            "page_bytes": PAGE_SIZE, "disk_bytes": self.disk,
        })
    }
}
