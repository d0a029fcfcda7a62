//! Logins: the accounts of the catalog as the wire protocol asks for them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use perigee_accounts::{AccountName, Accounts, Credential, SlowHash};
use perigee_engine::{Engine, EngineError};
use perigee_query::Frontend;
use perigee_wire_mysql::{Account, AccountName as WireName, Authenticator, SqlError};
use tokio::sync::Semaphore;

use crate::NodeError;
use crate::adapter::to_wire;

impl From<EngineError> for NodeError {
    fn from(error: EngineError) -> Self {
        Self::component(error)
    }
}

/// Passwords that are hashed slowly at a time: who guesses waits.
const SLOW_AT_A_TIME: usize = 2;

/// Knows the accounts of a frontend.
pub(crate) struct CatalogAccounts {
    frontend: Arc<Frontend>,
    /// The double hashes of passwords that slow hashes were found to be of.
    known: Mutex<HashMap<AccountName, (SlowHash, [u8; 32])>>,
    slow: Semaphore,
}

impl CatalogAccounts {
    pub(crate) fn new(frontend: Arc<Frontend>) -> Self {
        Self {
            frontend,
            known: Mutex::default(),
            slow: Semaphore::new(SLOW_AT_A_TIME),
        }
    }

    /// The double hash of the password that a slow hash is of, if somebody has logged in with it.
    fn known(&self, name: &AccountName, hash: &SlowHash) -> Option<[u8; 32]> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(name).filter(|(of, _)| of == hash);
        found.map(|(_, double)| *double)
    }

    /// Remembers a double hash, and forgets those of accounts that are gone.
    fn remember(&self, name: AccountName, hash: SlowHash, password: &[u8], accounts: &Accounts) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| accounts.get(name).is_some());
        known.insert(name, (hash, Credential::double_sha256(password)));
    }
}

#[async_trait]
impl Authenticator for CatalogAccounts {
    async fn account(&self, user: &str, peer: SocketAddr) -> Result<Option<Account>, SqlError> {
        let accounts = self.frontend.accounts().map_err(to_wire)?;
        let found = accounts.of_client(user, peer.ip());
        Ok(found.map(|(name, account)| {
            let known = match &account.credential {
                Credential::Empty(_) => Account::without_password(),
                Credential::Native(hash) => Account::with_native(*hash),
                Credential::Sha2(hash) => Account::with_sha2(*hash),
                Credential::Slow(hash) => match self.known(name, hash) {
                    Some(double) => Account::with_sha2(double),
                    None => Account::with_slow_hash(),
                },
            };
            let mut known = known.named(name.user(), name.host());
            known.locked = account.locked;
            known.expired = account.expired;
            known
        }))
    }

    async fn check_password(&self, name: &WireName, password: &[u8]) -> Result<bool, SqlError> {
        let name = AccountName::new(&name.user, &name.host);
        let accounts = self.frontend.accounts().map_err(to_wire)?;
        let hash = accounts.get(&name).map(|account| &account.credential);
        let Some(Credential::Slow(hash)) = hash else {
            return Ok(false);
        };
        let Ok(_turn) = self.slow.acquire().await else {
            return Ok(false);
        };
        let (tried, given) = (hash.clone(), password.to_vec());
        let hashing = tokio::task::spawn_blocking(move || tried.matches(&given));
        let is_right = hashing.await.unwrap_or(false);
        if is_right {
            self.remember(name, hash.clone(), password, &accounts);
        }
        Ok(is_right)
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
