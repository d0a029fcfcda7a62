//! Records of accounts, which are changed like definitions: all that a statement changes of them takes place at once,
//! and is durable before the statement ends. What they say the layer above knows.

use std::sync::Arc;

use super::change::Change;
use crate::EngineError;
use crate::catalog::AccountRecords;
use crate::engine::Engine;

impl Engine {
    /// A number that changes with every change of the accounts.
    #[must_use]
    pub fn accounts_version(&self) -> u64 {
        self.catalog.accounts_version()
    }

    /// The records of accounts, with their version.
    #[must_use]
    pub fn accounts(&self) -> (u64, Arc<AccountRecords>) {
        self.catalog.accounts()
    }

    /// Makes of the records that there are others, one statement after the other.
    ///
    /// # Errors
    /// Those of `make`, [`EngineError::BadDefinition`] if a record is too long: then nothing is changed. Otherwise as
    /// for any change of definitions.
    pub async fn change_accounts<E: From<EngineError>>(
        self: &Arc<Self>,
        make: impl FnOnce(&AccountRecords) -> Result<AccountRecords, E>,
    ) -> Result<(), E> {
        let turn = self.turn().await?;
        let (_, old) = self.accounts();
        let new = make(&old)?;
        if new == *old {
            return Ok(());
        }
        let mut change = Change::default();
        change.accounts(&old, new);
        Ok(self.make_change(turn, Vec::new(), change).await?)
    }

    /// Has a change of other definitions change the records of accounts, too.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn change_accounts_with<E>(
        &self,
        change: &mut Change,
        make: impl FnOnce(&AccountRecords) -> Result<Option<AccountRecords>, E>,
    ) -> Result<(), E> {
        let (_, old) = self.accounts();
        if let Some(new) = make(&old)?.filter(|new| *new != *old) {
            change.accounts(&old, new);
        }
        Ok(())
    }
}
