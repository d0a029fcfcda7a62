//! How a connection begins and ends: login, seat and session, the last error.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::channel::{ReceiveError, Receiver, SendError};
use crate::config::ServerConfig;
use crate::errors::{CON_COUNT_ERROR, SqlError};
use crate::flags::Capabilities;
use crate::handshake::HandshakeResponse;
use crate::login::{Login, LoginError};
use crate::outlet::Outlet;
use crate::registry::{ConnectionRegistry, Registration, count};
use crate::session::{AccountName, Authenticator, ConnectionInfo, Frontend, OkInfo, Session};
use crate::tls::TlsInfo;

/// How long a connection that ends with an error waits for the client to take it.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// What all connections of a server share.
pub(crate) struct ServerShared {
    pub(crate) config: ServerConfig,
    pub(crate) frontend: Arc<dyn Frontend>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) registry: ConnectionRegistry,
    /// Cancelled when the server stops; idle connections then end.
    pub(crate) stop: CancelToken,
}

/// Why a connection ends; for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The client said goodbye.
    #[error("the client quit")]
    Quit,
    /// Nobody logged in.
    #[error("login failed: {0}")]
    Login(#[from] LoginError),
    /// Too many have not logged in.
    #[error("too many unfinished logins")]
    CrowdedOut,
    /// Too many have logged in.
    #[error("too many connections")]
    NoSeat,
    /// The session could not be opened.
    #[error("no session: {0}")]
    NoSession(SqlError),
    /// KILL.
    #[error("killed")]
    Killed,
    /// The server stops.
    #[error("the server shuts down")]
    Shutdown,
    /// Nothing usable came.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// Nothing could be sent.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// The end of a connection, and the error its client is still to be told.
pub(crate) type Ended = (End, Option<SqlError>);

/// Logs the client in and opens its session.
pub(crate) async fn connect(
    shared: &ServerShared,
    registration: &mut Registration,
    receiver: &mut Receiver,
    outlet: &mut Outlet,
    peer: SocketAddr,
) -> Result<(Box<dyn Session>, HandshakeResponse), Ended> {
    let handle = registration.handle();
    let patience = shared.config.connect_timeout;
    let authenticator = &*shared.authenticator;
    let mut login = Login {
        receiver,
        outlet,
        authenticator,
        peer,
        tls: shared.config.tls.as_ref(),
        require_tls: shared.config.require_tls,
        patience,
    };
    let version = shared.frontend.server_version();
    let greeting = login.greet(version, handle.id(), shared.config.default_auth);
    let (response, account) = match tokio::time::timeout(patience, greeting).await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            let answer = error.answer();
            return Err((End::Login(error), answer));
        }
        Err(_) => return Err((End::Receive(ReceiveError::Idle(patience)), None)),
    };
    // Only after the greeting: a client cannot know the form of an error that comes in its place, and
    // some do not believe it.
    if !registration.take_seat(shared.config.max_connections) {
        count(&shared.registry.live_counters().refused_connections, 1);
        tracing::warn!(%peer, limit = shared.config.max_connections, "too many connections");
        return Err((End::NoSeat, Some(CON_COUNT_ERROR.with(&[]))));
    }
    let client = LoggedIn {
        response: &response,
        account,
        peer,
        tls: receiver.tls().cloned(),
    };
    let session = open_session(shared, registration, client)
        .await
        .map_err(|error| (End::NoSession(error.clone()), Some(error)))?;
    outlet.ok(&OkInfo::default(), session.status());
    outlet
        .sender
        .flush()
        .await
        .map_err(|error| (End::Send(error), None))?;
    Ok((session, response))
}

/// A client that has logged in.
pub(crate) struct LoggedIn<'a> {
    /// What it said.
    pub(crate) response: &'a HandshakeResponse,
    /// The account that it may use.
    pub(crate) account: AccountName,
    /// Where it is.
    pub(crate) peer: SocketAddr,
    /// How its connection is encrypted, if it is.
    pub(crate) tls: Option<TlsInfo>,
}

/// Opens the session of a client that has logged in.
pub(crate) async fn open_session(
    shared: &ServerShared,
    registration: &Registration,
    client: LoggedIn<'_>,
) -> Result<Box<dyn Session>, SqlError> {
    let response = client.response;
    let handle = registration.handle();
    let has = |capability| response.capabilities.has(capability);
    handle.set_user(&response.user);
    handle.set_database(response.database.clone());
    let info = ConnectionInfo {
        id: handle.id(),
        user: response.user.clone(),
        account: client.account,
        peer: client.peer,
        tls: client.tls,
        database: response.database.clone(),
        attributes: response.attributes.clone(),
        collation: response.collation,
        found_rows: has(Capabilities::FOUND_ROWS),
        local_files: has(Capabilities::LOCAL_FILES),
        interactive: has(Capabilities::INTERACTIVE),
        connection: handle.clone(),
        registry: shared.registry.clone(),
    };
    let mut session = shared.frontend.open_session(info).await?;
    session.allow_multi_statements(has(Capabilities::MULTI_STATEMENTS));
    handle.end();
    Ok(session)
}

/// Sends the error a connection ends with, if there is one. If the client may still be sending (a
/// packet that was refused in its middle) that is taken from it first: closing a socket with unread
/// bytes in it would take the error away from the client.
pub(crate) async fn say_farewell(
    receiver: &mut Receiver,
    outlet: &mut Outlet,
    end: &End,
    answer: Option<SqlError>,
) {
    let Some(answer) = answer else { return };
    outlet.err(&answer);
    outlet.sender.hurry(FAREWELL);
    let sent = outlet.sender.flush().await.is_ok();
    let refused = matches!(
        end,
        End::Receive(ReceiveError::Frame(_)) | End::Login(LoginError::Receive(_))
    );
    if sent && refused {
        receiver.discard(FAREWELL).await;
    }
}
