//! FOR UPDATE and FOR SHARE.

use std::collections::HashSet;

use sqlparser::ast::{LockClause, LockType, NonBlock, ObjectName};

use super::super::{LockWait, Operator, QueryError, Relation, RowLock, Strength};
use super::from::parts;
use super::scope::Scope;
use super::statement::Statement;
use crate::Result;

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Statement<'_> {
    /// Notes the locks of a SELECT over the tables of its FROM.
    pub fn row_locks(&self, locks: &[LockClause], scope: &Scope) -> Result<()> {
        let sources = scope.sources.iter();
        let references: Vec<usize> = sources
            .flat_map(|source| source.references.iter().copied())
            .collect();
        self.lock(locks, &references, Some(scope))
    }

    /// Notes the locks of a UNION over the tables of all of its parts.
    pub fn locks_of(&self, locks: &[LockClause], relation: &Relation) -> Result<()> {
        if locks.is_empty() {
            return Ok(());
        }
        let mut references = Vec::new();
        tables_of(relation, &mut references);
        self.lock(locks, &references, None)
    }

    fn lock(
        &self,
        locks: &[LockClause],
        references: &[usize],
        scope: Option<&Scope>,
    ) -> Result<()> {
        let mut locked = HashSet::new();
        for lock in locks {
            let tables: Vec<usize> = match &lock.of {
                None => references.to_vec(),
                Some(name) => match view_of(name, scope)? {
                    Some(references) => references,
                    None => self.named(name, references)?,
                },
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

    /// The references to tables of a name.
    fn named(&self, name: &ObjectName, references: &[usize]) -> Result<Vec<usize>> {
        let names = parts(name)?
            .into_iter()
            .map(|part| part.value.to_lowercase());
        let names: Vec<String> = names.collect();
        let tables = self.tables.borrow();
        let is_it = |reference: &usize| {
            let table = &tables[*reference];
            match &names[..] {
                [alias] => *table.alias == **alias,
                [schema, alias] => *table.schema == **schema && *table.alias == **alias,
                _ => false,
            }
        };
        let found: Vec<usize> = references.iter().copied().filter(is_it).collect();
        match found.is_empty() {
            true => Err(QueryError::UnresolvedLock(names.join(".")).into()),
            false => Ok(found),
        }
    }
}

/// The references to the tables of a view of a name.
fn view_of(name: &ObjectName, scope: Option<&Scope>) -> Result<Option<Vec<usize>>> {
    let names = parts(name)?
        .into_iter()
        .map(|part| part.value.to_lowercase());
    let names: Vec<String> = names.collect();
    let source = match (&names[..], scope) {
        ([alias], Some(scope)) => scope.source(None, alias),
        ([schema, alias], Some(scope)) => scope.source(Some(schema), alias),
        _ => None,
    };
    let view = source.filter(|source| source.is_view);
    Ok(view.map(|view| view.references.clone()))
}

/// The tables that a relation reads outside of subqueries of expressions.
fn tables_of(relation: &Relation, references: &mut Vec<usize>) {
    stacker::maybe_grow(RED_ZONE, STACK, || match &relation.operator {
        Operator::Table(table) => references.push(table.reference),
        Operator::Apply(apply) => tables_of(&apply.input, references),
        _ => {
            for input in relation.inputs() {
                tables_of(input, references);
            }
        }
    });
}
