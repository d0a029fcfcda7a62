//! The response to one query as it goes out: results one after another, and files asked for in
//! between.
//!
//! A result's last packet says whether another result follows, which is known only later: it is
//! held back until the next result begins or the query ends. [`Outlet`] is that state and the
//! sender; [`QuerySink`] and [`ClientFile`] are the two faces of it that a session sees, with a
//! lock between them that is free whenever a session does one thing at a time.
//!
//! A query's rows go out as text, those of a prepared statement in the binary form; all else is the
//! same.

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::binary;
use crate::cancel::CancelToken;
use crate::cells::Cells;
use crate::channel::{ReceiveError, Receiver, Sender};
use crate::codec::put_lenenc_int;
use crate::column::{Column, SqlType};
use crate::columns::{Columns, FIRST_SEQ, Packets};
use crate::errors::{
    CLIENT_LOCAL_FILES_DISABLED, DATA_OUT_OF_RANGE, QUERY_INTERRUPTED, SqlError, WRONG_VALUE,
};
use crate::flags::Capabilities;
use crate::frame::FilePart;
use crate::response::{put_eof, put_err, put_file_request, put_ok, status_flags};
use crate::session::{InfileSource, OkInfo, ResultSink, SessionStatus};
use crate::text;

/// The last packet of a result, held back.
#[derive(Debug)]
enum Last {
    /// Of a result set.
    Rows {
        /// Warnings to report.
        warnings: u16,
    },
    /// Of a result without rows.
    Ok(OkInfo),
}

/// The sender, and what is held back.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) sender: Sender,
    /// What the client can do.
    pub(crate) client: Capabilities,
    last: Option<(Last, SessionStatus)>,
}

impl Outlet {
    /// An outlet to a client of which nothing is known yet.
    pub(crate) fn new(sender: Sender) -> Self {
        Self {
            sender,
            client: Capabilities::NONE,
            last: None,
        }
    }

    /// Appends an OK packet.
    pub(crate) fn ok(&mut self, ok: &OkInfo, status: SessionStatus) {
        self.sender
            .packet(|out| put_ok(out, ok, status_flags(status, false)));
    }

    /// Appends the end of a list.
    pub(crate) fn eof(&mut self, status: SessionStatus) {
        let client = self.client;
        self.sender
            .packet(|out| put_eof(out, 0, status_flags(status, false), client));
    }

    /// Appends the end of definitions to clients that expect one there.
    pub(crate) fn definitions_end(&mut self, status: SessionStatus) {
        if !self.client.has(Capabilities::DEPRECATE_EOF) {
            self.eof(status);
        }
    }

    /// Appends an ERR packet.
    pub(crate) fn err(&mut self, error: &SqlError) {
        self.sender.packet(|out| put_err(out, error));
    }

    /// Appends what was held back.
    fn release(&mut self, more_results: bool) {
        let client = self.client;
        match self.last.take() {
            None => {}
            Some((Last::Rows { warnings }, status)) => {
                let flags = status_flags(status, more_results);
                self.sender
                    .packet(|out| put_eof(out, warnings, flags, client));
            }
            Some((Last::Ok(ok), status)) => {
                let flags = status_flags(status, more_results);
                self.sender.packet(|out| put_ok(out, &ok, flags));
            }
        }
    }

    /// Ends the response to a query with the session's `result`; `status` is the session's now.
    pub(crate) fn conclude(&mut self, result: &Result<(), SqlError>, status: SessionStatus) {
        match result {
            Ok(()) => {
                let last = self.last.as_mut();
                last.expect("W2: a query that succeeds has a result, and has finished it")
                    .1 = status;
                self.release(false);
            }
            Err(error) => {
                self.release(true);
                self.err(error);
            }
        }
    }
}

/// How rows are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowForm {
    /// As the answer to COM_QUERY.
    Text,
    /// As the answer to COM_STMT_EXECUTE.
    Binary,
}

/// Where a session's results go.
pub(crate) struct QuerySink<'a> {
    outlet: &'a Mutex<Outlet>,
    cancel: &'a CancelToken,
    form: RowForm,
    /// Collation that text is described in.
    text_collation: u16,
    status: SessionStatus,
    /// Columns of the result set that is under way.
    columns: Option<Columns>,
}

impl<'a> QuerySink<'a> {
    /// A sink for the results of one query; `status` is the session's at its beginning.
    pub(crate) fn new(
        outlet: &'a Mutex<Outlet>,
        cancel: &'a CancelToken,
        form: RowForm,
        text_collation: u16,
        status: SessionStatus,
    ) -> Self {
        Self {
            outlet,
            cancel,
            form,
            text_collation,
            status,
            columns: None,
        }
    }

    /// Checks that a session that succeeded has ended what it began.
    pub(crate) fn check_end(&self, result: &Result<(), SqlError>) {
        assert!(
            result.is_err() || self.columns.is_none(),
            "W2: a result set is not finished"
        );
    }

    /// Begins a result set; `packets` are its first if they are at hand.
    async fn begin(
        &mut self,
        columns: &Columns,
        packets: Option<&Packets>,
    ) -> Result<(), SqlError> {
        assert!(
            self.columns.is_none(),
            "W2: a result set begins inside another"
        );
        assert!(!columns.is_empty(), "W2: a result set has columns");
        check(self.cancel)?;
        let mut outlet = self.outlet.lock().await;
        outlet.release(true);
        let sender = &mut outlet.sender;
        match packets {
            Some(packets) if sender.seq() == FIRST_SEQ => {
                sender.packets(&packets.bytes, packets.next_seq);
            }
            _ => {
                sender.packet(|out| put_lenenc_int(out, columns.len() as u64));
                for column in columns.iter() {
                    sender.packet(|out| column.encode(self.text_collation, out));
                }
            }
        }
        outlet.definitions_end(self.status);
        self.columns = Some(columns.clone());
        if outlet.sender.is_full() {
            flush(&mut outlet.sender, self.cancel).await
        } else {
            Ok(())
        }
    }
}

/// Sends all that is buffered, unless the statement is cancelled meanwhile; the rest then stays in
/// the buffer, before whatever follows.
async fn flush(sender: &mut Sender, cancel: &CancelToken) -> Result<(), SqlError> {
    tokio::select! {
        biased;
        sent = sender.flush() => sent.map_err(|error| error.to_sql()),
        _ = cancel.cancelled() => Err(QUERY_INTERRUPTED.with(&[])),
    }
}

fn check(cancel: &CancelToken) -> Result<(), SqlError> {
    if cancel.is_cancelled() {
        Err(QUERY_INTERRUPTED.with(&[]))
    } else {
        Ok(())
    }
}

/// The error for a value that the type of `column` does not have.
fn out_of_range(column: &Column) -> SqlError {
    match column.sql_type {
        SqlType::TinyInt { .. }
        | SqlType::SmallInt { .. }
        | SqlType::MediumInt { .. }
        | SqlType::Int { .. }
        | SqlType::BigInt { .. } => DATA_OUT_OF_RANGE.with(&[&"INTEGER", &column.name]),
        SqlType::Float => DATA_OUT_OF_RANGE.with(&[&"FLOAT", &column.name]),
        SqlType::Double => DATA_OUT_OF_RANGE.with(&[&"DOUBLE", &column.name]),
        SqlType::Date => WRONG_VALUE.with(&[&"DATE", &column.name]),
        SqlType::Time { .. } => WRONG_VALUE.with(&[&"TIME", &column.name]),
        _ => WRONG_VALUE.with(&[&"DATETIME", &column.name]),
    }
}

#[async_trait]
impl ResultSink for QuerySink<'_> {
    async fn columns(&mut self, columns: &[Column]) -> Result<(), SqlError> {
        self.begin(&Columns::new(columns.to_vec()), None).await
    }

    async fn shared_columns(&mut self, columns: &Columns) -> Result<(), SqlError> {
        self.begin(columns, columns.packets(self.text_collation))
            .await
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let columns = self
            .columns
            .as_deref()
            .expect("W2: rows come inside a result set");
        assert_eq!(
            batch.num_columns(),
            columns.len(),
            "W2: a batch has the result's columns"
        );
        check(self.cancel)?;
        let cells = columns
            .iter()
            .zip(batch.columns())
            .map(|(column, array)| Cells::new(column, array))
            .collect::<Result<Vec<_>, _>>()?;
        let form = self.form;
        let mut outlet = self.outlet.lock().await;
        let sender = &mut outlet.sender;
        for row in 0..batch.num_rows() {
            let written = sender.try_packet(|out| match form {
                RowForm::Text => text::put_row(out, &cells, row),
                RowForm::Binary => binary::put_row(out, columns, &cells, row),
            });
            written.map_err(|index| out_of_range(&columns[index]))?;
            if sender.is_full() {
                flush(sender, self.cancel).await?;
            }
        }
        Ok(())
    }

    async fn finish(&mut self, warnings: u16) -> Result<(), SqlError> {
        assert!(
            self.columns.take().is_some(),
            "W2: only a result set that was begun is finished"
        );
        self.outlet.lock().await.last = Some((Last::Rows { warnings }, self.status));
        Ok(())
    }

    async fn ok(&mut self, ok: OkInfo) -> Result<(), SqlError> {
        assert!(self.columns.is_none(), "W2: OK comes inside a result set");
        let mut outlet = self.outlet.lock().await;
        outlet.release(true);
        outlet.last = Some((Last::Ok(ok), self.status));
        Ok(())
    }

    fn set_status(&mut self, status: SessionStatus) {
        self.status = status;
    }
}

/// How far a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// None asked for, or read to its end.
    Closed,
    /// Its bytes are coming.
    Open,
    /// Its end has come, and the sender does not know yet where to go on counting.
    Ended,
    /// The connection broke while they came.
    Broken,
}

/// A file of the client.
pub(crate) struct ClientFile<'a> {
    outlet: &'a Mutex<Outlet>,
    receiver: &'a mut Receiver,
    cancel: &'a CancelToken,
    state: FileState,
}

impl<'a> ClientFile<'a> {
    /// No file is asked for yet.
    pub(crate) fn new(
        outlet: &'a Mutex<Outlet>,
        receiver: &'a mut Receiver,
        cancel: &'a CancelToken,
    ) -> Self {
        Self {
            outlet,
            receiver,
            cancel,
            state: FileState::Closed,
        }
    }

    /// Reads and drops what the session left: the client sends its whole file before it looks for
    /// an answer.
    pub(crate) async fn drain(&mut self) -> Result<(), ReceiveError> {
        while matches!(self.state, FileState::Open | FileState::Ended) {
            self.part().await?;
        }
        if self.state == FileState::Broken {
            Err(ReceiveError::Closed)
        } else {
            Ok(())
        }
    }

    async fn part(&mut self) -> Result<Option<Bytes>, ReceiveError> {
        if self.state == FileState::Open {
            match self.receiver.file_part().await {
                Ok(FilePart::Data(bytes)) => return Ok(Some(bytes)),
                Ok(FilePart::End) => self.state = FileState::Ended,
                Err(error) => {
                    self.state = FileState::Broken;
                    return Err(error);
                }
            }
        }
        self.outlet
            .lock()
            .await
            .sender
            .set_seq(self.receiver.next_seq());
        self.state = FileState::Closed;
        Ok(None)
    }
}

#[async_trait]
impl InfileSource for ClientFile<'_> {
    async fn open(&mut self, file_name: &str) -> Result<(), SqlError> {
        assert_eq!(
            self.state,
            FileState::Closed,
            "W3: a file is asked for while another comes"
        );
        check(self.cancel)?;
        let mut outlet = self.outlet.lock().await;
        if !outlet.client.has(Capabilities::LOCAL_FILES) {
            return Err(CLIENT_LOCAL_FILES_DISABLED.with(&[]));
        }
        outlet.release(true);
        outlet.sender.packet(|out| put_file_request(out, file_name));
        self.receiver.expect_seq(outlet.sender.seq());
        // From here on the client will send a file, even if the wait below is given up.
        self.state = FileState::Open;
        // Not cut short by a cancel: the answer to it is drained only if the request went out.
        outlet.sender.flush().await.map_err(|error| error.to_sql())
    }

    async fn read(&mut self) -> Result<Option<Bytes>, SqlError> {
        assert_ne!(
            self.state,
            FileState::Closed,
            "W3: a file is read that was not asked for"
        );
        if self.state == FileState::Broken {
            return Err(ReceiveError::Closed.to_sql());
        }
        let cancel = self.cancel;
        tokio::select! {
            biased;
            _ = cancel.cancelled() => Err(QUERY_INTERRUPTED.with(&[])),
            part = self.part() => part.map_err(|error| error.to_sql()),
        }
    }
}
