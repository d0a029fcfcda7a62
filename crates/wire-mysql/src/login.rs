//! The connection phase: greeting, perhaps a turn to TLS, response, perhaps a switch of the method, verdict. COM_CHANGE_USER
//! goes through the second half of it again.
//!
//! A scramble is checked against the nonce of the greeting only if the client used the method that
//! the greeting named. Otherwise the client is asked again, with a new nonce: what it sent first was
//! made for a method it guessed, and may be nothing at all. A user that does not exist takes the
//! same path as one with another password.

use std::net::SocketAddr;
use std::time::Duration;

use perigee_types::DecodeError;

use crate::auth::{AuthMethod, NONCE, is_empty_password, nonce};
use crate::channel::{ReceiveError, Receiver, SendError};
use crate::errors::{
    ACCESS_DENIED_ERROR, ACCOUNT_HAS_BEEN_LOCKED, HANDSHAKE_ERROR, MUST_CHANGE_PASSWORD_LOGIN,
    NOT_SUPPORTED_AUTH_MODE, SECURE_TRANSPORT_REQUIRED, SqlError,
};
use crate::flags::Capabilities;
use crate::handshake::{
    HandshakeResponse, asks_for_tls, put_auth_switch, put_fast_auth_success, put_full_auth,
    put_greeting,
};
use crate::outlet::Outlet;
use crate::session::{Account, AccountName, Authenticator};
use crate::tls::{HandshakeError, Tls};

/// Longest packet taken of a client that has not logged in: a response with 64 KiB of attributes
/// fits.
const MAX_LOGIN_PACKET: usize = 128 * 1024;

/// Why nobody is logged in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// The client is told.
    #[error("{0}")]
    Refused(SqlError),
    /// The client's packet makes no sense.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The client sent nothing usable.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The client cannot be reached.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The client asked for TLS, and there is none with it.
    #[error("TLS: {0}")]
    Tls(#[from] HandshakeError),
}

impl LoginError {
    /// What the client is told, if it can be told anything.
    pub(crate) fn answer(&self) -> Option<SqlError> {
        match self {
            Self::Refused(error) => Some(error.clone()),
            Self::Malformed(_) => Some(HANDSHAKE_ERROR.with(&[])),
            Self::Receive(error @ ReceiveError::Frame(_)) => Some(error.to_sql()),
            Self::Receive(_) | Self::Send(_) | Self::Tls(_) => None,
        }
    }
}

/// The two halves of a connection, and what decides about logins.
pub(crate) struct Login<'a> {
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) outlet: &'a mut Outlet,
    pub(crate) authenticator: &'a dyn Authenticator,
    pub(crate) peer: SocketAddr,
    /// What clients may turn the connection to.
    pub(crate) tls: Option<&'a Tls>,
    /// Who does not is refused.
    pub(crate) require_tls: bool,
    /// Longest silence of the client at each step.
    pub(crate) patience: Duration,
}

impl Login<'_> {
    /// Greets the client and lets it log in. The verdict, OK or ERR, is left to the caller.
    pub(crate) async fn greet(
        &mut self,
        server_version: &str,
        connection_id: u32,
        offered: AuthMethod,
    ) -> Result<(HandshakeResponse, AccountName), LoginError> {
        let nonce = nonce();
        let response = self
            .introduce(server_version, connection_id, offered, &nonce)
            .await?;
        let account = self.prove(&response, Some((offered, &nonce))).await?;
        Ok((response, account))
    }

    /// Greets the client and takes its response, without looking at who it is.
    pub(crate) async fn introduce(
        &mut self,
        server_version: &str,
        connection_id: u32,
        offered: AuthMethod,
        nonce: &[u8; NONCE],
    ) -> Result<HandshakeResponse, LoginError> {
        let capabilities = Capabilities::SERVER.with_if(self.tls.is_some(), Capabilities::SSL);
        self.outlet.sender.packet(|out| {
            put_greeting(
                out,
                server_version,
                connection_id,
                nonce,
                offered,
                capabilities,
            );
        });
        let mut payload = self.exchange().await?;
        if let Some(tls) = self.tls
            && asks_for_tls(&payload)
        {
            self.receiver.start_tls(tls).await?;
            payload = self.exchange().await?;
        }
        let mut response = HandshakeResponse::decode(&payload)?;
        if self.require_tls && self.receiver.tls().is_none() {
            return Err(LoginError::Refused(SECURE_TRANSPORT_REQUIRED.with(&[])));
        }
        // A flag without its counterpart means nothing.
        response.capabilities = response.capabilities.and(capabilities);
        self.outlet.client = response.capabilities;
        Ok(response)
    }

    /// Lets the client prove that it is the user it names; gives the account that it may log in to. `greeted` is the method and nonce that
    /// the client was told before it made its response; `None` if it must be asked anew.
    pub(crate) async fn prove(
        &mut self,
        response: &HandshakeResponse,
        greeted: Option<(AuthMethod, &[u8; NONCE])>,
    ) -> Result<AccountName, LoginError> {
        let found = self.authenticator.account(&response.user, self.peer).await;
        let account = found
            .map_err(LoginError::Refused)?
            .unwrap_or_else(Account::decoy);
        let names_methods = response.capabilities.has(Capabilities::PLUGIN_AUTH);
        let named = match &response.method {
            Some(name) => AuthMethod::by_name(name),
            None => Some(AuthMethod::NativePassword),
        };
        let (method, nonce, proof) = match greeted {
            Some((offered, nonce)) if named == Some(offered) && account.knows(offered) => {
                (offered, *nonce, response.auth_response.clone())
            }
            Some((_, nonce)) if !names_methods && account.knows(AuthMethod::NativePassword) => (
                AuthMethod::NativePassword,
                *nonce,
                response.auth_response.clone(),
            ),
            _ if !names_methods => {
                return Err(LoginError::Refused(NOT_SUPPORTED_AUTH_MODE.with(&[])));
            }
            _ => {
                let named = named.filter(|method| account.knows(*method));
                let method = named.unwrap_or(account.method());
                let nonce = nonce();
                self.outlet
                    .sender
                    .packet(|out| put_auth_switch(out, method, &nonce));
                (method, nonce, self.exchange().await?)
            }
        };
        let needs_password = account.needs_password(method) && !is_empty_password(&proof);
        let is_right = match needs_password {
            true => self.full_exchange(&account).await?,
            false => account.accepts(method, &nonce, &proof),
        };
        if !is_right {
            return Err(LoginError::Refused(self.denied(&response.user, &proof)));
        }
        if account.locked {
            let denied = ACCOUNT_HAS_BEEN_LOCKED.with(&[&response.user, &self.peer.ip()]);
            return Err(LoginError::Refused(denied));
        }
        let knows_expiry = Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
        if account.expired && !response.capabilities.has(knows_expiry) {
            let denied = MUST_CHANGE_PASSWORD_LOGIN.with(&[]);
            return Err(LoginError::Refused(denied));
        }
        let was_fast = method == AuthMethod::CachingSha2Password && !needs_password;
        if was_fast && !is_empty_password(&proof) {
            self.outlet.sender.packet(put_fast_auth_success);
        }
        Ok(account.name)
    }

    /// Asks for the password itself and has it checked. Only an encrypted connection may bring it.
    async fn full_exchange(&mut self, account: &Account) -> Result<bool, LoginError> {
        if self.receiver.tls().is_none() {
            return Ok(false);
        }
        self.outlet.sender.packet(put_full_auth);
        let answer = self.exchange().await?;
        let password = answer.strip_suffix(&[0]).unwrap_or(&answer);
        let checked = self.authenticator.check_password(&account.name, password);
        checked.await.map_err(LoginError::Refused)
    }

    fn denied(&self, user: &str, proof: &[u8]) -> SqlError {
        let password = if is_empty_password(proof) {
            "NO"
        } else {
            "YES"
        };
        ACCESS_DENIED_ERROR.with(&[&user, &self.peer.ip(), &password])
    }

    /// Sends what is buffered and takes the client's answer.
    async fn exchange(&mut self) -> Result<bytes::Bytes, LoginError> {
        self.outlet.sender.flush().await?;
        self.receiver.expect_seq(self.outlet.sender.seq());
        let payload = self.receiver.payload(MAX_LOGIN_PACKET, self.patience).await;
        // An error is numbered as the answer to what was being received.
        let next = self
            .receiver
            .next_seq()
            .wrapping_add(u8::from(payload.is_err()));
        self.outlet.sender.set_seq(next);
        Ok(payload?)
    }
}
