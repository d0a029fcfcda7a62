//! Rows of a query as lines of LOAD DATA, and their checksum; one pass for both.

use std::borrow::Cow;

use bytes::Bytes;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};

use super::load::Blocks;
use crate::TransferError;
use crate::checksum::{RowHash, Tally};
use crate::kind::Kind;
use crate::lines;
use crate::progress::Progress;
use crate::readers::Stop;

/// Bytes of lines that are sent at once: large enough that sending costs nothing, small enough that it is soon.
const BLOCK: usize = 256 << 10;

/// A field of a row.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The column's name in the target.
    pub name: String,
    /// Its kind in the target, which decides by what it is compared.
    pub kind: Kind,
    /// It is loaded; generated columns are compared only.
    pub loaded: bool,
}

/// The form in which values of one side are compared.
pub(crate) type Form = for<'a> fn(Kind, &'a [u8]) -> Cow<'a, [u8]>;

/// Lines on their way to a LOAD DATA, or to nowhere if only their checksum is asked for.
pub(crate) struct Out<'a> {
    to: Option<&'a Blocks>,
    lines: Vec<u8>,
    tally: Tally,
    counted: u64,
    progress: &'a Progress,
    stop: &'a Stop,
}

impl<'a> Out<'a> {
    pub(crate) fn new(to: Option<&'a Blocks>, progress: &'a Progress, stop: &'a Stop) -> Self {
        Self {
            to,
            lines: Vec::with_capacity(BLOCK + (BLOCK >> 3)),
            tally: Tally::default(),
            counted: 0,
            progress,
            stop,
        }
    }

    /// Adds a row. Returns true if it is time to [`Out::flush`].
    pub(crate) fn row<'v>(
        &mut self,
        fields: &[Field],
        form: Form,
        values: impl Iterator<Item = Option<&'v [u8]>>,
    ) -> bool {
        let mut hash = RowHash::new();
        for (field, value) in fields.iter().zip(values) {
            if field.loaded && self.to.is_some() {
                lines::field(&mut self.lines, value);
            }
            match value {
                Some(text) => hash.value(Some(&form(field.kind, text))),
                None => hash.value(None),
            }
        }
        if self.to.is_some() {
            lines::end(&mut self.lines);
        }
        self.tally.add(hash);
        self.lines.len() >= BLOCK || self.tally.rows - self.counted >= 10_000
    }

    fn count(&mut self) -> Result<(), TransferError> {
        self.progress.add(self.tally.rows - self.counted);
        self.counted = self.tally.rows;
        self.stop.check()
    }

    fn take(&mut self) -> Bytes {
        let lines = std::mem::replace(&mut self.lines, Vec::with_capacity(BLOCK + (BLOCK >> 3)));
        Bytes::from(lines)
    }

    /// Sends what there is.
    ///
    /// # Errors
    /// [`TransferError::Stopped`] if nobody takes it any more.
    pub(crate) async fn flush(&mut self) -> Result<(), TransferError> {
        self.count()?;
        match self.to {
            Some(to) if !self.lines.is_empty() => to.send(self.take()).await,
            _ => Ok(()),
        }
    }

    /// Sends what there is, and says that this was all; returns what it was.
    ///
    /// # Errors
    /// As [`Out::flush`].
    pub(crate) async fn end(mut self) -> Result<Tally, TransferError> {
        self.flush().await?;
        if let Some(to) = self.to {
            to.end().await?;
        }
        Ok(self.tally)
    }
}

/// Reads the rows of a query.
///
/// # Errors
/// What the server answers, or [`TransferError::Stopped`]; then the connection is of no use any more.
pub(crate) async fn read(
    conn: &mut Conn,
    sql: &str,
    (fields, form): (&[Field], Form),
    mut out: Out<'_>,
) -> Result<Tally, TransferError> {
    let failed = || TransferError::server("read");
    let mut result = conn.query_iter(sql).await.map_err(failed())?;
    while let Some(row) = result.next().await.map_err(failed())? {
        let values = row.unwrap();
        let texts = values.iter().map(|value| match value {
            Value::Bytes(bytes) => Some(bytes.as_slice()),
            // A result of the text protocol has nothing else.
            _ => None,
        });
        if out.row(fields, form, texts) {
            out.flush().await?;
        }
    }
    out.end().await
}
