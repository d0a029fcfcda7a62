//! Logins: the accounts of the catalog as the wire protocol asks for them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use perigee_accounts::{Accounts, Credential};
use perigee_engine::{Engine, EngineError};
use perigee_query::Frontend;
use perigee_wire_mysql::{Account, Authenticator, SqlError};

use crate::NodeError;
use crate::adapter::to_wire;

impl From<EngineError> for NodeError {
    fn from(error: EngineError) -> Self {
        Self::component(error)
    }
}

/// Knows the accounts of a frontend.
pub(crate) struct CatalogAccounts(pub(crate) Arc<Frontend>);

#[async_trait]
impl Authenticator for CatalogAccounts {
    async fn account(&self, user: &str, peer: SocketAddr) -> Result<Option<Account>, SqlError> {
        let accounts = self.0.accounts().map_err(to_wire)?;
        let found = accounts.of_client(user, peer.ip());
        Ok(found.map(|(name, account)| {
            let known = match &account.credential {
                Credential::Empty(_) => Account::without_password(),
                Credential::Native(hash) => Account::with_native(*hash),
                Credential::Sha2(hash) => Account::with_sha2(*hash),
            };
            let mut known = known.named(name.user(), name.host());
            known.locked = account.locked;
            known.expired = account.expired;
            known
        }))
    }
}

/// Gives root the password in a file, if it has none.
///
/// # Errors
/// [`NodeError::PasswordFile`], or what storage says.
pub(crate) async fn give_root_password(engine: &Arc<Engine>, file: &Path) -> Result<(), NodeError> {
    let unusable = |cause: String| NodeError::PasswordFile {
        path: file.to_owned(),
        cause,
    };
    let text = std::fs::read_to_string(file).map_err(|e| unusable(e.to_string()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(unusable("it is empty".to_owned()));
    }
    let given = engine.change_accounts(|records| {
        let mut all = Accounts::decode(records).map_err(NodeError::component)?;
        if !all.has_open_root() {
            return Ok(records.clone());
        }
        all.give_root(password);
        tracing::info!("root has the password of {}", file.display());
        Ok(all.records())
    });
    given.await
}

/// Checks that a server may be reached at an address: only from its own machine while root has no password.
///
/// # Errors
/// [`NodeError::OpenRoot`].
pub(crate) fn check_reachable(frontend: &Frontend, address: SocketAddr) -> Result<(), NodeError> {
    let accounts = frontend.accounts().map_err(NodeError::component)?;
    match accounts.has_open_root() && !address.ip().is_loopback() {
        true => Err(NodeError::OpenRoot { address }),
        false => Ok(()),
    }
}
