//! Open files of segments. A store may have more segments than a process may have files open, so
//! those that are no longer written to are closed when too many are open, and opened again by who
//! reads them: the ones that were not read lately go first.
//!
//! A segment that is deleted keeps its file open, so that who reads it may go on (see `segment.rs`).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};

/// The file of a segment, open or not.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    file: RwLock<Option<Arc<File>>>,
    /// Somebody read it since the last look.
    used: AtomicBool,
    /// It is to stay open.
    kept: AtomicBool,
    /// Who closes it, once nobody writes to it any more.
    files: OnceLock<Arc<OpenFiles>>,
}

impl SegmentFile {
    pub(crate) fn new(file: File) -> Arc<Self> {
        Arc::new(Self {
            file: RwLock::new(Some(Arc::new(file))),
            used: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            files: OnceLock::new(),
        })
    }

    /// The file, which is at `path`; opens it if it is closed.
    pub(crate) fn get(self: &Arc<Self>, path: &Path) -> io::Result<Arc<File>> {
        self.used.store(true, Ordering::Relaxed);
        if let Some(file) = &*self.file.read() {
            return Ok(file.clone());
        }
        let mut slot = self.file.write();
        if let Some(file) = &*slot {
            return Ok(file.clone());
        }
        let file = Arc::new(File::open(path)?);
        *slot = Some(file.clone());
        drop(slot);
        if let Some(files) = self.files.get() {
            files.opened(self);
        }
        Ok(file)
    }

    /// Keeps it open from now on: its name goes.
    pub(crate) fn keep(self: &Arc<Self>, path: &Path) -> io::Result<()> {
        self.kept.store(true, Ordering::SeqCst);
        self.get(path).map(drop)
    }

    /// Closes it, unless it is to stay open or was read since the last look.
    fn close(&self) -> bool {
        let mut slot = self.file.write();
        let stays = self.used.swap(false, Ordering::Relaxed) || self.kept.load(Ordering::SeqCst);
        if !stays {
            *slot = None;
        }
        !stays
    }
}

/// The open files that may be closed.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    most: usize,
    /// In the order in which they are looked at.
    open: Mutex<VecDeque<Weak<SegmentFile>>>,
}

impl OpenFiles {
    /// At most so many, besides those that are being written to.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            open: Mutex::default(),
        })
    }

    /// From now on nobody writes to this file.
    pub(crate) fn manage(self: &Arc<Self>, file: &Arc<SegmentFile>) {
        if file.files.set(self.clone()).is_ok() {
            self.opened(file);
        }
    }

    fn opened(&self, file: &Arc<SegmentFile>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(file));
        // Each is looked at twice at most: the second time it is not used any more.
        let mut looks = 2 * open.len();
        while open.len() > self.most && looks > 0 {
            looks -= 1;
            let Some(oldest) = open.pop_front() else {
                return;
            };
            let Some(candidate) = oldest.upgrade() else {
                continue;
            };
            if candidate.kept.load(Ordering::SeqCst) {
                continue;
            }
            if Arc::ptr_eq(&candidate, file) || !candidate.close() {
                open.push_back(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use super::*;

    fn make(dir: &Path, n: u8) -> (Arc<SegmentFile>, PathBuf) {
        let path = dir.join(n.to_string());
        std::fs::write(&path, [n]).unwrap();
        (SegmentFile::new(File::open(&path).unwrap()), path)
    }

    fn read(file: &Arc<SegmentFile>, path: &Path) -> u8 {
        let mut byte = [0];
        let file = file.get(path).unwrap();
        file.read_exact_at(&mut byte, 0).unwrap();
        byte[0]
    }

    fn is_open(file: &SegmentFile) -> bool {
        file.file.read().is_some()
    }

    #[test]
    fn few_are_open_and_all_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let files = OpenFiles::new(3);
        let all: Vec<_> = (0..20).map(|n| make(dir.path(), n)).collect();
        all.iter().for_each(|(file, _)| files.manage(file));
        for round in 0..3 {
            for (n, (file, path)) in (0..).zip(&all) {
                assert_eq!(read(file, path), n, "round {round}");
                let open = all.iter().filter(|(file, _)| is_open(file)).count();
                assert!(open <= 3, "{open} files are open");
            }
        }
        let (often, path) = &all[0];
        for (other, path_of_other) in &all[1..] {
            read(often, path);
            read(other, path_of_other);
        }
        assert!(is_open(often), "what is read often stays open");
    }

    #[test]
    fn a_deleted_file_can_be_read_on() {
        let dir = tempfile::tempdir().unwrap();
        let files = OpenFiles::new(1);
        let all: Vec<_> = (0..5).map(|n| make(dir.path(), n)).collect();
        all.iter().for_each(|(file, _)| files.manage(file));
        let (deleted, path) = &all[0];
        assert!(!is_open(deleted));
        deleted.keep(path).unwrap();
        std::fs::remove_file(path).unwrap();
        for (file, path) in &all[1..] {
            read(file, path);
        }
        assert_eq!(read(deleted, path), 0);
    }
}
