//! Logins: the accounts of the catalog as the wire protocol asks for them.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use perigee_accounts::Credential;
use perigee_query::Frontend;
use perigee_wire_mysql::{Account, Authenticator, SqlError};

use crate::NodeError;
use crate::adapter::to_wire;

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
