//! The columns of a result that is sent again and again: described once, encoded once.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

use crate::codec::put_lenenc_int;
use crate::column::Column;
use crate::frame;

/// Columns in order; clones are the same columns.
#[derive(Clone, Debug)]
pub struct Columns(Arc<Described>);

#[derive(Debug)]
struct Described {
    columns: Box<[Column]>,
    /// For the client that was first told of them.
    packets: OnceLock<Packets>,
}

/// The packets that begin a result set: the columns' count and definitions.
#[derive(Debug)]
pub(crate) struct Packets {
    /// The collation that text is described in.
    collation: u16,
    /// The packets with their headers, numbered from [`FIRST_SEQ`].
    pub(crate) bytes: Bytes,
    /// The number of the packet that follows.
    pub(crate) next_seq: u8,
}

impl Columns {
    /// Columns that may be sent more than once.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self(Arc::new(Described {
            columns: columns.into(),
            packets: OnceLock::new(),
        }))
    }

    /// The packets that begin a result set of these columns for a client with this collation.
    /// `None` if those at hand are for another one.
    pub(crate) fn packets(&self, text_collation: u16) -> Option<&Packets> {
        let packets = self.0.packets.get_or_init(|| {
            let (mut out, mut seq) = (BytesMut::new(), FIRST_SEQ);
            let start = frame::begin(&mut out);
            put_lenenc_int(&mut out, self.len() as u64);
            frame::end(&mut out, start, &mut seq);
            for column in self.iter() {
                let start = frame::begin(&mut out);
                column.encode(text_collation, &mut out);
                frame::end(&mut out, start, &mut seq);
            }
            Packets {
                collation: text_collation,
                bytes: out.freeze(),
                next_seq: seq,
            }
        });
        (packets.collation == text_collation).then_some(packets)
    }
}

/// The sequence id of the first packet that answers a command.
pub(crate) const FIRST_SEQ: u8 = 1;

impl Deref for Columns {
    type Target = [Column];

    fn deref(&self) -> &[Column] {
        &self.0.columns
    }
}
