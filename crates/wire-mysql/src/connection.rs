//! One connection from its greeting to its end: takes commands, hands them to the session, sends
//! what comes back. One task runs it; nothing here outlives it.
//!
//! While a statement runs the socket is watched: a client that closes it has the statement
//! cancelled. A cancelled statement is always awaited, never dropped, so that the session can undo
//! what it did; only the end of the server's own patience at shutdown cuts that short.

mod prepared;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::str;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::admission::{
    End, Ended, FAREWELL, LoggedIn, ServerShared, connect, open_session, say_farewell,
};
use crate::cancel::{CancelReason, CancelToken};
use crate::channel::{ReceiveError, Receiver, Sender};
use crate::column::{UTF8MB4_GENERAL_CI, is_utf8mb4};
use crate::command::Command;
use crate::errors::{
    CLIENT_INTERACTION_TIMEOUT, INVALID_CHARACTER_STRING, MALFORMED_PACKET, NO_SUCH_THREAD,
    OUT_OF_RESOURCES, QUERY_INTERRUPTED, SERVER_SHUTDOWN, SqlError, UNKNOWN_COM_ERROR,
};
use crate::flags::Capabilities;
use crate::handshake::HandshakeResponse;
use crate::login::{Login, LoginError};
use crate::memory::Held;
use crate::outlet::{ClientFile, Outlet, QuerySink, RowForm};
use crate::raw_strings::with_hexadecimal;
use crate::registry::{Registration, count};
use crate::session::{OkInfo, Session};
use crate::statements::Statements;
use crate::transport::Transport;

/// Whether a connection goes on after a command.
type Flow = ControlFlow<Ended>;

/// A connection whose client has logged in.
struct Connection {
    shared: Arc<ServerShared>,
    registration: Registration,
    transport: Arc<Transport>,
    receiver: Receiver,
    outlet: Mutex<Outlet>,
    session: Box<dyn Session>,
    statements: Statements,
    client: Capabilities,
    collation: u16,
    peer: SocketAddr,
}

/// Serves the client at `transport` until it leaves, fails or is told to go.
pub(crate) async fn serve(
    shared: Arc<ServerShared>,
    mut registration: Registration,
    transport: Transport,
    peer: SocketAddr,
) -> End {
    let transport = Arc::new(transport);
    let config = &shared.config;
    let held = Held::new(shared.frontend.memory());
    let long_data = held.of_same();
    let mut receiver = Receiver::new(Arc::clone(&transport), config.net_read_timeout, held);
    let mut outlet = Outlet::new(Sender::new(
        Arc::clone(&transport),
        config.net_buffer_length,
        config.net_write_timeout,
    ));
    let kill = registration.handle().kill_token().clone();
    let connect = connect(&shared, &mut registration, &mut receiver, &mut outlet, peer);
    let connected = tokio::select! {
        biased;
        _ = shared.stop.cancelled() => Err((End::Shutdown, Some(SERVER_SHUTDOWN.with(&[])))),
        reason = kill.cancelled() => Err(match reason {
            CancelReason::CrowdedOut => (End::CrowdedOut, None),
            _ => (End::Killed, Some(QUERY_INTERRUPTED.with(&[]))),
        }),
        connected = connect => connected,
    };
    let (session, response) = match connected {
        Ok(opened) => opened,
        Err((end, answer)) => {
            count(&shared.registry.live_counters().aborted_connects, 1);
            say_farewell(&mut receiver, &mut outlet, &end, answer).await;
            transport.close();
            return end;
        }
    };
    if response.capabilities.has(Capabilities::COMPRESS) {
        receiver.expect_envelopes();
        outlet.sender.use_envelopes();
    }
    let mut connection = Connection {
        client: response.capabilities,
        collation: response.collation,
        outlet: Mutex::new(outlet),
        statements: Statements::new(shared.config.max_allowed_packet, long_data),
        shared,
        registration,
        transport,
        receiver,
        session,
        peer,
    };
    let (end, answer) = connection.run().await;
    if !matches!(end, End::Quit) {
        count(
            &connection.shared.registry.live_counters().aborted_clients,
            1,
        );
    }
    say_farewell(
        &mut connection.receiver,
        connection.outlet.get_mut(),
        &end,
        answer,
    )
    .await;
    connection.transport.close();
    end
}

impl Connection {
    /// Takes commands until the end; gives the error the client is still to be told.
    async fn run(&mut self) -> Ended {
        loop {
            let payload = match self.receive().await {
                Ok(payload) => payload,
                Err(end) => return end,
            };
            count(&self.shared.registry.live_counters().questions, 1);
            let next = self.receiver.next_seq();
            self.outlet.get_mut().sender.set_seq(next);
            let flow = match Command::decode(&payload) {
                Ok(command) => self.execute(command).await,
                Err(error) => {
                    tracing::debug!(id = self.id(), %error, "malformed command");
                    self.answer(&MALFORMED_PACKET.with(&[]))
                }
            };
            if let ControlFlow::Break(ended) = flow {
                return ended;
            }
            if let Err(error) = self.outlet.get_mut().sender.flush().await {
                return (End::Send(error), None);
            }
        }
    }

    fn id(&self) -> u32 {
        self.registration.handle().id()
    }

    /// Waits for a command.
    async fn receive(&mut self) -> Result<Bytes, Ended> {
        let config = &self.shared.config;
        let interactive = self.client.has(Capabilities::INTERACTIVE);
        let idle = self.session.idle_timeout().unwrap_or(if interactive {
            config.interactive_timeout
        } else {
            config.wait_timeout
        });
        let kill = self.registration.handle().kill_token();
        self.receiver.expect_seq(0);
        // What is said to a silent client is the answer to the command it sends next.
        self.outlet.get_mut().sender.set_seq(1);
        let received = tokio::select! {
            biased;
            _ = self.shared.stop.cancelled() => {
                return Err((End::Shutdown, Some(SERVER_SHUTDOWN.with(&[]))));
            }
            _ = kill.cancelled() => {
                return Err((End::Killed, Some(QUERY_INTERRUPTED.saying("Connection was killed"))));
            }
            received = self.receiver.payload(config.max_allowed_packet, idle) => received,
        };
        received.map_err(|error| {
            let answer = match &error {
                ReceiveError::Closed | ReceiveError::Io(_) => None,
                ReceiveError::Idle(_) => Some(CLIENT_INTERACTION_TIMEOUT.with(&[])),
                ReceiveError::Stalled(_) | ReceiveError::NoMemory | ReceiveError::Frame(_) => {
                    Some(error.to_sql())
                }
            };
            let next = self.receiver.next_seq().wrapping_add(1);
            self.outlet.get_mut().sender.set_seq(next);
            (End::Receive(error), answer)
        })
    }

    /// Answers with an error and goes on.
    fn answer(&mut self, error: &SqlError) -> Flow {
        self.outlet.get_mut().err(error);
        ControlFlow::Continue(())
    }

    /// Answers with OK or an error and goes on.
    fn verdict(&mut self, result: Result<(), SqlError>) -> Flow {
        let status = self.session.status();
        match result {
            Ok(()) => self.outlet.get_mut().ok(&OkInfo::default(), status),
            Err(error) => self.outlet.get_mut().err(&error),
        }
        ControlFlow::Continue(())
    }

    /// Executes one command; its answer is left in the outlet.
    async fn execute(&mut self, command: Command) -> Flow {
        let handle = self.registration.handle().clone();
        if !matches!(command, Command::Query(_) | Command::Execute { .. }) {
            handle.begin(command.name(), None);
        }
        let flow = match command {
            Command::Quit => ControlFlow::Break((End::Quit, None)),
            Command::Ping => self.verdict(Ok(())),
            Command::InitDb(name) => {
                let result = self.session.use_database(&name).await;
                self.verdict(result)
            }
            Command::FieldList { table, wildcard } => self.field_list(&table, &wildcard).await,
            Command::Statistics => self.statistics(),
            Command::ProcessKill(id) => self.process_kill(id),
            Command::ResetConnection => {
                let result = self.session.reset().await;
                self.statements.clear();
                self.verdict(result)
            }
            Command::SetOption { multi_statements } => {
                self.session.allow_multi_statements(multi_statements);
                let status = self.session.status();
                self.outlet.get_mut().eof(status);
                ControlFlow::Continue(())
            }
            Command::ChangeUser(arguments) => self.change_user(&arguments).await,
            Command::Prepare(text) => self.prepare(text).await,
            Command::Execute {
                statement,
                arguments,
            } => self.execute_statement(statement, &arguments).await,
            Command::LongData {
                statement,
                parameter,
                part,
            } => {
                self.statements.append(statement, parameter, &part);
                ControlFlow::Continue(())
            }
            Command::CloseStatement(statement) => self.close_statement(statement),
            Command::ResetStatement(statement) => self.reset_statement(statement),
            Command::Fetch(statement) => self.fetch(statement),
            Command::Query(text) => self.query(text).await,
            Command::Unknown(_) => self.answer(&UNKNOWN_COM_ERROR.with(&[])),
        };
        handle.end();
        flow
    }

    async fn query(&mut self, text: Bytes) -> Flow {
        let (sql, _held) = match self.utf8(&text) {
            Ok(sql) => sql,
            Err(error) => return self.answer(&error),
        };
        let status = self.session.status();
        let cancel = self
            .registration
            .handle()
            .begin("Query", Some(text.clone()));
        let collation = text_collation(self.collation);
        let mut sink = QuerySink::new(&self.outlet, &cancel, RowForm::Text, collation, status);
        let mut file = ClientFile::new(&self.outlet, &mut self.receiver, &cancel);
        let running = self.session.query(&sql, &mut sink, &mut file, &cancel);
        let result = watched(running, &self.transport, &cancel).await;
        sink.check_end(&result);
        // A client may have much left to send; a killed connection does not wait for it.
        let kill = self.registration.handle().kill_token();
        let drained = tokio::select! {
            biased;
            drained = file.drain() => drained,
            _ = kill.cancelled() => return ControlFlow::Break((End::Killed, None)),
        };
        if let Err(error) = drained {
            return ControlFlow::Break((End::Receive(error), None));
        }
        self.conclude(result, &cancel)
    }

    /// The text of a statement, with what it takes beside the command.
    fn utf8<'t>(&self, text: &'t [u8]) -> Result<(Cow<'t, str>, Held), SqlError> {
        let mut held = Held::new(self.shared.frontend.memory());
        if let Ok(text) = str::from_utf8(text) {
            return Ok((Cow::Borrowed(text), held));
        }
        if !held.resize(2 * text.len()) {
            return Err(OUT_OF_RESOURCES.with(&[]));
        }
        let escapes = !self.session.status().no_backslash_escapes;
        match with_hexadecimal(text, escapes) {
            Ok(text) => Ok((Cow::Owned(text), held)),
            Err(at) => Err(not_utf8(text, at)),
        }
    }

    /// Ends the response to a statement with the session's result.
    fn conclude(&mut self, mut result: Result<(), SqlError>, cancel: &CancelToken) -> Flow {
        if result.is_err() && cancel.reason() == Some(CancelReason::Shutdown) {
            result = Err(SERVER_SHUTDOWN.with(&[]));
        }
        let status = self.session.status();
        let outlet = self.outlet.get_mut();
        outlet.conclude(&result, status);
        match cancel.reason() {
            Some(CancelReason::ClientGone) => {
                return ControlFlow::Break((End::Receive(ReceiveError::Closed), None));
            }
            // Nobody may be left to take what is still buffered.
            Some(
                CancelReason::KillConnection | CancelReason::Shutdown | CancelReason::CrowdedOut,
            ) => {
                outlet.sender.hurry(FAREWELL);
            }
            Some(CancelReason::KillQuery) | None => {}
        }
        ControlFlow::Continue(())
    }

    async fn field_list(&mut self, table: &str, wildcard: &str) -> Flow {
        let columns = match self.session.field_list(table, wildcard).await {
            Ok(columns) => columns,
            Err(error) => return self.answer(&error),
        };
        let status = self.session.status();
        let outlet = self.outlet.get_mut();
        for column in &columns {
            outlet.sender.packet(|out| {
                column.encode(UTF8MB4_GENERAL_CI, out);
                out.extend_from_slice(&[crate::codec::NULL_MARK]); // its default value
            });
        }
        outlet.eof(status);
        ControlFlow::Continue(())
    }

    fn statistics(&mut self) -> Flow {
        let registry = &self.shared.registry;
        let uptime = registry.uptime();
        let questions = registry.counters().questions;
        let line = format!(
            "Uptime: {}  Threads: {}  Questions: {questions}  Queries per second avg: {:.3}",
            uptime.as_secs(),
            registry.len(),
            questions as f64 / uptime.as_secs_f64().max(1.0),
        );
        self.outlet
            .get_mut()
            .sender
            .packet(|out| out.extend_from_slice(line.as_bytes()));
        ControlFlow::Continue(())
    }

    fn process_kill(&mut self, id: u32) -> Flow {
        if id == self.id() {
            return ControlFlow::Break((End::Killed, Some(QUERY_INTERRUPTED.with(&[]))));
        }
        let allowed = self.session.check_kill(id);
        let killed = allowed.and_then(|()| {
            let killed = self.shared.registry.kill_connection(id);
            killed.map_err(|_| NO_SUCH_THREAD.with(&[&id]))
        });
        self.verdict(killed)
    }

    /// Logs in as another user, in a new session; a failure ends the connection.
    async fn change_user(&mut self, arguments: &[u8]) -> Flow {
        let decoded = HandshakeResponse::decode_change_user(arguments, self.client, self.collation);
        let response = match decoded {
            Ok(response) => response,
            Err(error) => {
                let error = LoginError::Malformed(error);
                let answer = error.answer();
                return ControlFlow::Break((End::Login(error), answer));
            }
        };
        let patience = self.shared.config.connect_timeout;
        let mut login = Login {
            receiver: &mut self.receiver,
            outlet: self.outlet.get_mut(),
            authenticator: &*self.shared.authenticator,
            peer: self.peer,
            tls: None,
            require_tls: false,
            patience,
        };
        // The greeting's nonce was used up by the first login: the client is asked anew.
        let account = match tokio::time::timeout(patience, login.prove(&response, None)).await {
            Ok(Ok(account)) => account,
            Ok(Err(error)) => {
                let answer = error.answer();
                return ControlFlow::Break((End::Login(error), answer));
            }
            Err(_) => {
                return ControlFlow::Break((End::Receive(ReceiveError::Idle(patience)), None));
            }
        };
        let client = LoggedIn {
            response: &response,
            account,
            peer: self.peer,
            tls: self.transport.tls().cloned(),
        };
        match open_session(&self.shared, &self.registration, client).await {
            Ok(session) => {
                self.session = session;
                self.statements.clear();
                self.collation = response.collation;
                self.verdict(Ok(()))
            }
            Err(error) => ControlFlow::Break((End::NoSession(error.clone()), Some(error))),
        }
    }
}

/// The collation that text is described in to a client with this one.
fn text_collation(client: u16) -> u16 {
    if is_utf8mb4(client) {
        client
    } else {
        UTF8MB4_GENERAL_CI
    }
}

/// Runs a statement while the client's socket is watched.
async fn watched<T>(
    running: impl Future<Output = Result<T, SqlError>>,
    transport: &Transport,
    cancel: &CancelToken,
) -> Result<T, SqlError> {
    tokio::pin!(running);
    tokio::select! {
        biased;
        result = &mut running => return result,
        () = transport.peer_gone() => cancel.cancel(CancelReason::ClientGone),
    }
    running.await
}

/// Error 1300 showing the first bytes that are not UTF-8.
fn not_utf8(text: &[u8], valid: usize) -> SqlError {
    let shown: String = text[valid..]
        .iter()
        .take(6)
        .map(|byte| format!("\\x{byte:02X}"))
        .collect();
    INVALID_CHARACTER_STRING.with(&[&"utf8mb4", &shown])
}
