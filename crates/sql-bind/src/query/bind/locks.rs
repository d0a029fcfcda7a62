//! FOR UPDATE and FOR SHARE.

use std::collections::HashSet;

use sqlparser::ast::{LockClause, LockType, NonBlock};

use super::super::{LockWait, QueryError, RowLock, Strength};
use super::from::parts;
use super::scope::Scope;
use super::statement::Statement;
use crate::Result;

impl Statement<'_> {
    /// Notes the locks of a SELECT over the tables of its FROM.
    pub fn row_locks(&self, locks: &[LockClause], scope: &Scope) -> Result<()> {
        let mut locked = HashSet::new();
        for lock in locks {
            let tables: Vec<usize> = match &lock.of {
                None => scope
                    .sources
                    .iter()
                    .filter_map(|source| source.reference)
                    .collect(),
                Some(name) => {
                    let names: Vec<String> = parts(name)?
                        .iter()
                        .map(|part| part.value.to_lowercase())
                        .collect();
                    let source = match &names[..] {
                        [table] => scope.source(None, table),
                        [schema, table] => scope.source(Some(schema), table),
                        _ => None,
                    };
                    match source.and_then(|source| source.reference) {
                        Some(reference) => vec![reference],
                        None => return Err(QueryError::UnresolvedLock(names.join(".")).into()),
                    }
                }
            };
            for table in &tables {
                if !locked.insert(*table) {
                    let alias = self.tables.borrow()[*table].alias.to_string();
                    return Err(QueryError::DuplicateLock(alias).into());
                }
            }
            self.locks.borrow_mut().push(RowLock {
                tables,
                strength: match lock.lock_type {
                    LockType::Share => Strength::Share,
                    LockType::Update => Strength::Update,
                },
                wait: match lock.nonblock {
                    None => LockWait::Wait,
                    Some(NonBlock::Nowait) => LockWait::Nowait,
                    Some(NonBlock::SkipLocked) => LockWait::SkipLocked,
                },
            });
        }
        Ok(())
    }
}
