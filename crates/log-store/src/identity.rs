//! What a directory is, and that only one process uses it.
//!
//! The file `STORE` is one line of text, `perigee <kind> <format version>`. It is read before
//! anything in the directory is touched, so that a directory of another kind, of another version or
//! of somebody else stays as it was.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use perigee_log_api::LogError;

use crate::disk::{Disk, disk_error};
use crate::frame::FORMAT_VERSION;

const STORE: &str = "STORE";
const STORE_TEMPORARY: &str = "STORE.tmp";
const LOCK: &str = "LOCK";
const KIND: &str = "log-store";

/// How long a lock is waited for. A killed process holds its lock until the kernel is done with it,
/// which takes as long as the sync it was in; so does a child that it had just begun to start.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes `dir` a Log Store's directory if it is empty or missing, checks that it is one otherwise,
/// and locks it until the file returned is closed.
pub(crate) fn open(disk: &Disk, dir: &Path) -> Result<File, LogError> {
    make_directory(disk, dir)?;
    let is_new = !check(dir)?;
    let lock = lock(dir)?;
    if is_new && !check(dir)? {
        let line = format!("perigee {KIND} {FORMAT_VERSION}\n");
        disk.replace(&dir.join(STORE), line.as_bytes())?;
    }
    Ok(lock)
}

fn make_directory(disk: &Disk, dir: &Path) -> Result<(), LogError> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(|e| disk_error("create", dir, &e))?;
    let full = fs::canonicalize(dir).map_err(|e| disk_error("find", dir, &e))?;
    match full.parent() {
        Some(parent) => disk.sync_directory(parent),
        None => Ok(()),
    }
}

/// True if `dir` is a directory of ours, false if it is a new one.
fn check(dir: &Path) -> Result<bool, LogError> {
    let path = dir.join(STORE);
    match fs::read(&path) {
        Ok(bytes) => parse(dir, &bytes).map(|()| true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let entries = fs::read_dir(dir).map_err(|e| disk_error("list", dir, &e))?;
            for entry in entries {
                let name = entry.map_err(|e| disk_error("list", dir, &e))?.file_name();
                if name != LOCK && name != STORE_TEMPORARY {
                    return Err(LogError::Refused(format!(
                        "{} is no {KIND}: it has no file {STORE} but holds {name:?}",
                        dir.display()
                    )));
                }
            }
            Ok(false)
        }
        Err(e) => Err(disk_error("read", &path, &e)),
    }
}

fn parse(dir: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let dir = dir.display();
    let text = std::str::from_utf8(bytes)
        .ok()
        .and_then(|t| t.strip_suffix('\n'));
    let words: Option<Vec<&str>> = text.map(|t| t.split(' ').collect());
    let Some(["perigee", kind, version]) = words.as_deref() else {
        return Err(LogError::Corrupt(format!(
            "{dir}/{STORE} does not say what the directory is"
        )));
    };
    if *kind != KIND {
        let text = format!("{dir} holds a {kind}, expected a {KIND}");
        return Err(LogError::Refused(text));
    }
    if *version != FORMAT_VERSION.to_string() {
        return Err(LogError::Refused(format!(
            "{dir} holds a {KIND} of format version {version}, expected version {FORMAT_VERSION}; \
             use the program that made it, or another directory"
        )));
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<File, LogError> {
    let path = dir.join(LOCK);
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let mut file = file.map_err(|e| disk_error("open", &path, &e))?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let holder = match file.read_to_string(&mut holder) {
                    Ok(_) if !holder.trim().is_empty() => format!("process {}", holder.trim()),
                    _ => "another process".to_owned(),
                };
                let dir = dir.display();
                let text = format!("{dir} is in use by {holder}; stop it or use another directory");
                return Err(LogError::Unavailable(text));
            }
            Err(TryLockError::Error(e)) => return Err(disk_error("lock", &path, &e)),
        }
    }
    // For the message above only, so a full disk does not matter here; the lock is what counts.
    let id = format!("{}\n", std::process::id());
    let _ = file
        .write_all(id.as_bytes())
        .and_then(|()| file.set_len(id.len() as u64));
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn refusal(dir: &Path) -> String {
        open(&Disk::default(), dir).unwrap_err().to_string()
    }

    #[test]
    fn a_new_directory_is_made_and_known_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        drop(open(&Disk::default(), &dir).unwrap());
        assert_eq!(
            fs::read_to_string(dir.join(STORE)).unwrap(),
            "perigee log-store 1\n"
        );
        drop(open(&Disk::default(), &dir).unwrap());
    }

    #[test]
    fn a_crash_while_the_identity_is_written_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LOCK), "").unwrap();
        fs::write(dir.path().join(STORE_TEMPORARY), "perig").unwrap();
        drop(open(&Disk::default(), dir.path()).unwrap());
    }

    #[test]
    fn other_directories_are_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for (line, expected) in [
            (
                "perigee log-store 2\n",
                "log-store of format version 2, expected version 1",
            ),
            (
                "perigee page-store 1\n",
                "holds a page-store, expected a log-store",
            ),
            ("perigee log-store 1", "does not say what the directory is"),
            ("", "does not say what the directory is"),
        ] {
            fs::write(dir.path().join(STORE), line).unwrap();
            let refusal = refusal(dir.path());
            assert!(refusal.contains(expected), "{line:?}: {refusal}");
            assert_eq!(
                fs::read_dir(dir.path()).unwrap().count(),
                1,
                "nothing was added"
            );
        }
        fs::remove_file(dir.path().join(STORE)).unwrap();
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        assert!(refusal(dir.path()).contains("holds \"thesis.tex\""));
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing was added"
        );
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let lock = open(&Disk::default(), dir.path()).unwrap();
        let refusal = open(&Disk::default(), dir.path()).unwrap_err();
        assert!(matches!(refusal, LogError::Unavailable(_)), "{refusal}");
        let holder = format!("is in use by process {}", std::process::id());
        assert!(refusal.to_string().contains(&holder), "{refusal}");
        drop(lock);
        drop(open(&Disk::default(), dir.path()).unwrap());
    }
}
