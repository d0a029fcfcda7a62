//! Files on the server that statements read and write: only those under the directory that the server was started with
//! (`secure_file_priv`), for accounts with the privilege FILE.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use perigee_accounts::Privileges;
use tokio::fs::{File, OpenOptions, canonicalize, metadata};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Session;
use crate::error::{Result, SqlError};
use crate::result::LocalFile;

/// The variable that names the directory; NULL if there is none.
pub(super) const SECURE_FILE_PRIV: &str = "secure_file_priv";

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Who may read and write a file: the server, and its group may read it.
const MODE: u32 = 0o640;

impl Session {
    /// The directory of files that statements read and write.
    ///
    /// # Errors
    /// 1045 for an account without FILE, 1290 if there is no such directory.
    pub(super) fn file_directory(&self) -> Result<PathBuf> {
        if !self.grants().global().has(Privileges::FILE) {
            let account = &self.info.account;
            return Err(SqlError::access_denied(
                account.user(),
                account.host(),
                "YES",
            ));
        }
        let globals = self.frontend.globals.read();
        let directory = globals.get(SECURE_FILE_PRIV)?;
        directory
            .map(PathBuf::from)
            .ok_or_else(SqlError::no_secure_file)
    }
}

/// The path of a file in a directory, or below it. A name without a directory means the directory itself. Links do not
/// lead out of it.
///
/// # Errors
/// 1290 for all other files.
async fn secured(directory: &Path, name: &str) -> Result<PathBuf> {
    let outside = |_| SqlError::no_secure_file();
    let directory = canonicalize(directory).await.map_err(outside)?;
    let path = directory.join(name);
    let (Some(parent), Some(file)) = (path.parent(), path.file_name()) else {
        return Err(SqlError::no_secure_file());
    };
    let parent = canonicalize(parent).await.map_err(outside)?;
    match parent.starts_with(&directory) {
        true => Ok(parent.join(file)),
        false => Err(SqlError::no_secure_file()),
    }
}

fn os_error(error: &io::Error) -> (i32, String) {
    let number = error.raw_os_error().unwrap_or_default();
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    (number, text.to_owned())
}

/// A file that a statement writes. It is removed again unless it is [kept](Self::keep).
pub(super) struct NewFile {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl NewFile {
    /// An empty file.
    ///
    /// # Errors
    /// 1086 if there is one of the name, 1290 if it is in another directory, 1 if it cannot be made.
    pub(super) async fn create(directory: &Path, name: &str) -> Result<Self> {
        let path = secured(directory, name).await?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(MODE);
        let file = options.open(&path).await.map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return SqlError::file_exists(name);
            }
            let (number, text) = os_error(&error);
            SqlError::file_not_created(path.display(), number, text)
        })?;
        Ok(Self {
            path,
            file,
            is_kept: false,
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// 1026.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes).await;
        written.map_err(|error| self.failed(&error))
    }

    /// The file stays, and is on the disk.
    ///
    /// # Errors
    /// 1026.
    pub(super) async fn keep(mut self) -> Result<()> {
        let synced = self.synced().await;
        synced.map_err(|error| self.failed(&error))?;
        self.is_kept = true;
        Ok(())
    }

    async fn synced(&mut self) -> io::Result<()> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        match self.path.parent() {
            Some(directory) => File::open(directory).await?.sync_all().await,
            None => Ok(()),
        }
    }

    fn failed(&self, error: &io::Error) -> SqlError {
        let (number, text) = os_error(error);
        SqlError::file_not_written(self.path.display(), number, text)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is wrong is reported by whoever gave it up.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A file that LOAD DATA reads.
pub(super) struct ServerFile {
    directory: PathBuf,
    file: Option<File>,
}

impl ServerFile {
    /// A file in a directory.
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            file: None,
        }
    }
}

#[async_trait]
impl LocalFile for ServerFile {
    async fn open(&mut self, name: &str) -> Result<()> {
        let path = secured(&self.directory, name).await?;
        let missing = |error: io::Error| {
            let (number, text) = os_error(&error);
            SqlError::file_not_found(name, number, text)
        };
        // The last part of the name may be a link, too.
        let path = canonicalize(&path).await.map_err(missing)?;
        let path = secured(&self.directory, &path.display().to_string()).await?;
        if !metadata(&path).await.map_err(missing)?.is_file() {
            return Err(SqlError::file_not_readable(name));
        }
        self.file = Some(File::open(&path).await.map_err(missing)?);
        Ok(())
    }

    async fn read(&mut self) -> Result<Option<Bytes>> {
        let Some(file) = &mut self.file else {
            return Err(SqlError::unknown("Q16: a file that is not open"));
        };
        let mut piece = BytesMut::with_capacity(PIECE);
        let read = file.read_buf(&mut piece).await;
        read.map_err(|error| {
            let (number, text) = os_error(&error);
            SqlError::file_not_read(self.directory.display(), number, text)
        })?;
        Ok((!piece.is_empty()).then(|| piece.freeze()))
    }
}
