//! Connections to the source that all see it as of one moment.

use mysql_async::Conn;

use crate::connect::{connect, execute};
use crate::error::said;
use crate::{Endpoint, TransferError};

/// How long the source may let FLUSH TABLES WITH READ LOCK wait, in seconds: all who write wait behind it.
const LOCK_WAIT: u32 = 30;

/// Readers with their snapshots; the source is locked for writing until [`Snapshot::release`].
pub(crate) struct Snapshot {
    pub readers: Vec<Conn>,
    lock: Option<Conn>,
    /// Why the readers may see different moments.
    pub doubt: Option<String>,
}

/// Opens `count` readers.
///
/// # Errors
/// If a connection fails. An account that may not lock the source is no error.
pub(crate) async fn open(source: &Endpoint, count: usize) -> Result<Snapshot, TransferError> {
    let mut lock = connect(source).await?;
    execute(&mut lock, &format!("SET lock_wait_timeout = {LOCK_WAIT}")).await?;
    let locked = execute(&mut lock, "FLUSH TABLES WITH READ LOCK").await;
    let doubt = match locked {
        Ok(()) => None,
        Err(TransferError::Server { cause, .. }) => Some(format!(
            "FLUSH TABLES WITH READ LOCK: {}; the copy is of one moment only if nobody writes to the source meanwhile, \
             or with an account that has the privilege RELOAD",
            said(&cause)
        )),
        Err(error) => return Err(error),
    };
    let mut readers = Vec::new();
    for _ in 0..count.max(1) {
        let mut reader = connect(source).await?;
        for sql in [
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ] {
            execute(&mut reader, sql).await?;
        }
        readers.push(reader);
    }
    Ok(Snapshot {
        readers,
        lock: doubt.is_none().then_some(lock),
        doubt: doubt.filter(|_| count > 1),
    })
}

impl Snapshot {
    /// Lets others write to the source again.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(crate) async fn release(&mut self) -> Result<(), TransferError> {
        match &mut self.lock {
            Some(lock) => execute(lock, "UNLOCK TABLES").await,
            None => Ok(()),
        }
    }
}
