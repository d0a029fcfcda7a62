//! One LOAD DATA, whose file is what readers make of the source.
//!
//! **Invariant:** a file ends only if all of its parts ended. A protocol of LOAD DATA has no way to take a file back, and an
//! end commits what was sent; so a file that misses a part ends with a line that no table takes, which undoes it.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::TransferError;
use crate::lines;
use crate::names::{ident, literal};

/// What a reader sends.
pub(crate) enum Block {
    /// Whole lines, and the room that they take until they are on their way to the target.
    Lines(Bytes, Option<OwnedSemaphorePermit>),
    /// All lines of the part were sent.
    End,
}

/// Where a reader sends its part. It may be so many bytes ahead of the target, however large the blocks are.
pub(crate) struct Blocks {
    to: mpsc::Sender<Block>,
    room: Arc<Semaphore>,
    /// Room in KiB.
    all: usize,
}

/// Blocks on their way at most; they hold most of the room each.
const BLOCKS: usize = 1024;

/// A way for blocks with room for so many bytes.
pub(crate) fn blocks(bytes: usize) -> (Blocks, mpsc::Receiver<Block>) {
    let (to, from) = mpsc::channel(BLOCKS);
    let all = (bytes >> 10).max(1);
    let room = Arc::new(Semaphore::new(all));
    (Blocks { to, room, all }, from)
}

impl Blocks {
    /// Sends lines once there is room; a block that is larger than all of it goes alone.
    ///
    /// # Errors
    /// [`TransferError::Stopped`] if nobody takes them.
    pub(crate) async fn send(&self, lines: Bytes) -> Result<(), TransferError> {
        let room = (lines.len() >> 10).clamp(1, self.all) as u32;
        let room = self.room.clone().acquire_many_owned(room).await.ok();
        let sent = self.to.send(Block::Lines(lines, room)).await;
        sent.map_err(|_| TransferError::Stopped)
    }

    /// Says that the part is whole.
    ///
    /// # Errors
    /// As [`Blocks::send`].
    pub(crate) async fn end(&self) -> Result<(), TransferError> {
        self.to
            .send(Block::End)
            .await
            .map_err(|_| TransferError::Stopped)
    }
}

/// A part of the file.
pub(crate) struct Part {
    pub blocks: mpsc::Receiver<Block>,
    /// No part comes behind it.
    pub last: bool,
}

/// Where the rows go.
pub(crate) struct Into {
    /// The table, quoted.
    pub table: String,
    /// The columns for which there are fields.
    pub columns: Vec<String>,
    /// The name of the file: the target shows it in its process list.
    pub mark: String,
}

/// Loads a file that comes in parts; returns how many rows there were.
///
/// # Errors
/// What the target answers; then it has none of the rows. The same if a part did not come to its end.
pub(crate) async fn load(
    conn: &mut Conn,
    into: &Into,
    parts: mpsc::Receiver<Part>,
) -> Result<u64, TransferError> {
    let columns: Vec<_> = into.columns.iter().map(|name| ident(name)).collect();
    let sql = format!(
        "LOAD DATA LOCAL INFILE {} INTO TABLE {} {} ({})",
        literal(&into.mark),
        into.table,
        lines::FORMAT,
        columns.join(", ")
    );
    let file = File {
        parts,
        current: None,
        poison: lines::poison(columns.len()),
        ended: false,
    };
    conn.set_infile_handler(async move {
        let blocks = futures::stream::unfold(file, |mut file| async move {
            let block = file.next().await?;
            Some((Ok(block), file))
        });
        Ok(blocks.boxed())
    });
    let loaded = conn.query_drop(sql).await;
    // If the target did not ask for the file, the connection still has it, and its readers would wait.
    conn.set_infile_handler(async { Err(mysql_async::Error::Other("there is no file".into())) });
    loaded.map_err(TransferError::server("LOAD DATA"))?;
    Ok(conn.affected_rows())
}

/// The file.
struct File {
    parts: mpsc::Receiver<Part>,
    current: Option<Part>,
    poison: Vec<u8>,
    ended: bool,
}

impl File {
    /// The next lines; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            let Some(part) = &mut self.current else {
                match self.parts.recv().await {
                    Some(part) => self.current = Some(part),
                    None => return Some(self.spoil()),
                }
                continue;
            };
            match part.blocks.recv().await {
                Some(Block::Lines(lines, room)) => {
                    drop(room);
                    return Some(lines);
                }
                Some(Block::End) if part.last => self.ended = true,
                Some(Block::End) => self.current = None,
                None => return Some(self.spoil()),
            }
        }
        None
    }

    fn spoil(&mut self) -> Bytes {
        self.ended = true;
        std::mem::take(&mut self.poison).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]
    use super::*;

    /// The file of parts, each with its lines and whether it ends; whether the last one comes.
    async fn file(parts: &[(&[&str], bool)], whole: bool) -> Vec<u8> {
        let (to, from) = mpsc::channel(10);
        for (number, (lines, ends)) in parts.iter().enumerate() {
            let (send, blocks) = blocks(10 << 10);
            let last = whole && number + 1 == parts.len();
            let sent = to.send(Part { blocks, last }).await;
            assert!(sent.is_ok());
            for line in *lines {
                send.send(Bytes::from((*line).to_owned())).await.unwrap();
            }
            if *ends {
                send.end().await.unwrap();
            }
        }
        drop(to);
        let mut file = File {
            parts: from,
            current: None,
            poison: b"poison".to_vec(),
            ended: false,
        };
        let mut found = Vec::new();
        while let Some(block) = file.next().await {
            found.extend_from_slice(&block);
        }
        found
    }

    #[tokio::test]
    async fn a_file_is_whole_or_spoilt() {
        let (a, b): (&[&str], &[&str]) = (&["a", "b"], &["c"]);
        assert_eq!(file(&[(a, true), (b, true)], true).await, b"abc");
        assert_eq!(file(&[(&[], true)], true).await, b"");
        assert_eq!(file(&[(a, false), (b, true)], true).await, b"abpoison");
        assert_eq!(file(&[(a, true), (b, false)], true).await, b"abcpoison");
        assert_eq!(file(&[(a, true)], false).await, b"abpoison");
        assert_eq!(file(&[], false).await, b"poison");
    }
}
