//! Files that are there as a whole or not at all: written under another name, synced, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::TransferError;

/// A file that is being written. Without [`Partial::commit`] nothing of it stays.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    hidden: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Partial {
    /// Begins a file.
    ///
    /// # Errors
    /// If it is there already and may not be replaced, or its directory cannot be written.
    pub(crate) fn create(path: &Path, overwrite: bool) -> Result<Self, TransferError> {
        if path.exists() && !overwrite {
            let text = format!(
                "{} is there already; --overwrite replaces it",
                path.display()
            );
            return Err(TransferError::Usage(text));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hidden = path.with_file_name(format!(".{name}.partial"));
        if let Some(dir) = path.parent() {
            let what = format!("create {}", dir.display());
            fs::create_dir_all(dir).map_err(TransferError::file(what))?;
        }
        let file = File::create(&hidden)
            .map_err(TransferError::file(format!("create {}", hidden.display())))?;
        Ok(Self {
            path: path.to_owned(),
            hidden,
            file: Some(BufWriter::with_capacity(1 << 20, file)),
        })
    }

    /// Makes what was written durable, and gives it its name.
    ///
    /// # Errors
    /// If the disk is full or fails; then nothing stays.
    pub(crate) fn commit(mut self) -> Result<(), TransferError> {
        let what = format!("write {}", self.path.display());
        self.synced().map_err(TransferError::file(what))
    }

    fn synced(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
        }
        fs::rename(&self.hidden, &self.path)?;
        // The name is durable once the directory is.
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a commit the hidden name is gone. What cannot be removed is replaced by the next attempt.
        let _ = fs::remove_file(&self.hidden);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]
    use super::*;

    #[test]
    fn a_file_is_there_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/t.csv");
        let names = || fs::read_dir(dir.path().join("sub")).unwrap().count();
        let mut file = Partial::create(&path, false).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(names(), 0);
        let mut file = Partial::create(&path, false).unwrap();
        file.write_all(b"whole").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(), 1);
        assert!(matches!(
            Partial::create(&path, false),
            Err(TransferError::Usage(_))
        ));
        drop(Partial::create(&path, true).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }
}
