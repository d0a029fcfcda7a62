//! The commands of prepared statements.
//!
//! There are no cursors: an execution that asks for one is answered with all rows, as the protocol
//! allows, and there is never anything to fetch.

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};

use super::{Connection, Flow, text_collation, watched};
use crate::cancel::CancelReason;
use crate::column::{BINARY_COLLATION, Column, SqlType};
use crate::errors::{SERVER_SHUTDOWN, STMT_HAS_NO_OPEN_CURSOR, SqlError, UNKNOWN_STMT_HANDLER};
use crate::outlet::{QuerySink, RowForm};
use crate::response::put_prepared;
use crate::session::{Prepared, StatementId};

impl Connection {
    pub(super) async fn prepare(&mut self, text: Bytes) -> Flow {
        let (sql, _held) = match self.utf8(&text) {
            Ok(sql) => sql,
            Err(error) => return self.answer(&error),
        };
        let handle = self.registration.handle();
        let cancel = handle.begin("Prepare", Some(text.clone()));
        let preparing = self.session.prepare(&sql, &cancel);
        match watched(preparing, &self.transport, &cancel).await {
            Ok(prepared) => {
                // The packet's buffer may be much larger, and would live as long as the statement.
                let text = Bytes::copy_from_slice(&text);
                self.statements
                    .insert(prepared.statement, text, prepared.parameters);
                self.describe(&prepared);
                ControlFlow::Continue(())
            }
            Err(_) if cancel.reason() == Some(CancelReason::Shutdown) => {
                self.conclude(Err(SERVER_SHUTDOWN.with(&[])), &cancel)
            }
            Err(error) => self.conclude(Err(error), &cancel),
        }
    }

    /// Answers with what a prepared statement needs and gives.
    fn describe(&mut self, prepared: &Prepared) {
        let status = self.session.status();
        let collation = text_collation(self.collation);
        let outlet = self.outlet.get_mut();
        outlet.sender.packet(|out| put_prepared(out, prepared));
        if prepared.parameters > 0 {
            let mut definition = BytesMut::new();
            parameter_column().encode(BINARY_COLLATION, &mut definition);
            for _ in 0..prepared.parameters {
                outlet
                    .sender
                    .packet(|out| out.extend_from_slice(&definition));
            }
            outlet.definitions_end(status);
        }
        if !prepared.columns.is_empty() {
            for column in prepared.columns.iter() {
                outlet.sender.packet(|out| column.encode(collation, out));
            }
            outlet.definitions_end(status);
        }
    }

    pub(super) async fn execute_statement(&mut self, id: StatementId, arguments: &Bytes) -> Flow {
        let Some(statement) = self.statements.get_mut(id) else {
            return self.unknown(id, "mysqld_stmt_execute");
        };
        let status = self.session.status();
        let text = statement.text.clone();
        let cancel = self.registration.handle().begin("Execute", Some(text));
        let result = match statement.parameters(arguments) {
            Ok(parameters) => {
                let collation = text_collation(self.collation);
                let form = RowForm::Binary;
                let mut sink = QuerySink::new(&self.outlet, &cancel, form, collation, status);
                let running = self.session.execute(id, &parameters, &mut sink, &cancel);
                let result = watched(running, &self.transport, &cancel).await;
                sink.check_end(&result);
                // Values sent in parts are those of one execution.
                self.statements.forget_long_data(id);
                result
            }
            Err(error) => Err(error),
        };
        self.conclude(result, &cancel)
    }

    pub(super) fn close_statement(&mut self, id: StatementId) -> Flow {
        if self.statements.remove(id) {
            self.session.close(id);
        }
        ControlFlow::Continue(())
    }

    pub(super) fn reset_statement(&mut self, id: StatementId) -> Flow {
        match self.statements.reset(id) {
            Some(()) => self.verdict(Ok(())),
            None => self.unknown(id, "mysqld_stmt_reset"),
        }
    }

    pub(super) fn fetch(&mut self, id: StatementId) -> Flow {
        match self.statements.get_mut(id) {
            Some(_) => self.answer(&STMT_HAS_NO_OPEN_CURSOR.with(&[&id.0])),
            None => self.unknown(id, "mysqld_stmt_fetch"),
        }
    }

    fn unknown(&mut self, id: StatementId, command: &str) -> Flow {
        let error: SqlError = UNKNOWN_STMT_HANDLER.with(&[&id.0, &command]);
        self.answer(&error)
    }
}

/// What clients are told of a parameter: nothing, since it may have any type.
fn parameter_column() -> Column {
    Column::expression("?", SqlType::VarBinary { bytes: 0 })
}
