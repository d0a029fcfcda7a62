//! The rows that a row refers to: they are there, and stay until the transaction ends.

use std::sync::Arc;

use perigee_page::RecordFlags;
use perigee_value::Datum;

use super::{Parent, Relations, Target, key_prefix};
use crate::EngineError;
use crate::btree::KeySpan;
use crate::buffer::Access;
use crate::catalog::Table;
use crate::txn::Transaction;
use crate::txn::entries::{clustered_key, entry_of_version};
use crate::txn::locks::LockMode;

impl Transaction {
    /// Locks the rows that a row refers to in shared mode. If one is missing, the error that says so: the
    /// row may not be written.
    ///
    /// `value` gives the row's columns, `old` those of the version that it takes the place of; references
    /// that stay need no check. Neither does the key with number `except`.
    pub(super) async fn check_parents(
        &mut self,
        table: &Arc<Table>,
        relations: &Relations,
        old: Option<&[Datum]>,
        value: &(dyn Fn(u16) -> Datum + Sync),
        except: Option<&str>,
    ) -> Result<Option<EngineError>, EngineError> {
        for parent in &relations.parents {
            if except == Some(parent.key.name.as_str()) {
                continue;
            }
            let values: Vec<Datum> = parent.key.columns.iter().map(|c| value(*c)).collect();
            let before = |column: &u16| old.map(|old| &old[usize::from(*column)]);
            let mut pairs = parent.key.columns.iter().map(before).zip(&values);
            if values.contains(&Datum::Null) || pairs.all(|(old, new)| old == Some(new)) {
                continue;
            }
            if !self.refers(table, parent, &values, value).await? {
                return Ok(Some(parent.refusal(table)));
            }
        }
        Ok(None)
    }

    /// True if there is a row with the referenced values, or the row refers to itself.
    async fn refers(
        &mut self,
        table: &Arc<Table>,
        parent: &Parent,
        values: &[Datum],
        value: &(dyn Fn(u16) -> Datum + Sync),
    ) -> Result<bool, EngineError> {
        let Some(target) = &parent.target else {
            return Ok(false);
        };
        let index = &target.table.indexes[target.index];
        let Some(prefix) = key_prefix(index, values)? else {
            return Ok(true);
        };
        if target.table.id == table.id {
            let own: Vec<Datum> = target.columns.iter().map(|c| value(*c)).collect();
            if key_prefix(index, &own)?.as_ref() == Some(&prefix) {
                return Ok(true);
            }
        }
        self.lock_parent(target, &prefix).await
    }

    /// Locks a row with these referenced values; false if there is none.
    async fn lock_parent(&mut self, target: &Target, prefix: &[u8]) -> Result<bool, EngineError> {
        let Target { table, index, .. } = target;
        let (number, index) = (*index, &table.indexes[*index]);
        let tree = self.engine.tree(index);
        let mut cursor = tree.range(KeySpan::prefix(prefix), false, Access::Point);
        while let Some(run) = cursor.next().await? {
            for slot in run.slots.clone() {
                let entry = run.page.get().record(slot).to_vec();
                let key = match number {
                    0 => index.layout.shape.key(&entry).to_vec(),
                    _ => clustered_key(table, index, &entry)?,
                };
                self.lock_related(table, &key, LockMode::Shared).await?;
                let Some(row) = self.settled(table, &key).await? else {
                    continue;
                };
                if RecordFlags(row[0]).is_deleted() {
                    continue;
                }
                if number == 0 || entry_of_version(table, index, &entry, &row)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
