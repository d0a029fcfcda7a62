//! `perigee inspect slice`: the directories of slices.

use std::path::{Path, PathBuf};

use super::{entries, print, store_dir};

/// Prints all slices there are; then an error tells what is damaged in them.
pub fn run(dir: &Path) -> Result<(), String> {
    let mut damage = Vec::new();
    for slice in slices(dir)? {
        match perigee_page_store::dump_slice(&slice) {
            Err(error) => damage.push(error.to_string()),
            Ok(dump) => {
                print(&format!("{}\n{}", slice.display(), dump.text))?;
                damage.extend(dump.damage.iter().map(ToString::to_string));
            }
        }
    }
    match damage.is_empty() {
        true => print("checksums are good\n"),
        false => Err(damage.join("\n")),
    }
}

/// The slices' directories at a path.
fn slices(path: &Path) -> Result<Vec<PathBuf>, String> {
    let is_slice = |path: &Path| path.join("SLICE").is_file();
    if is_slice(path) {
        return Ok(vec![path.to_owned()]);
    }
    let dir = store_dir(path, "pages");
    let mut found = Vec::new();
    for db in entries(&dir, |name| name.starts_with("db-"))? {
        found.extend(entries(&db, |name| name.starts_with("slice-"))?);
    }
    found.retain(|slice| is_slice(slice));
    if found.is_empty() {
        return Err(format!("there is no slice in {}", path.display()));
    }
    Ok(found)
}
