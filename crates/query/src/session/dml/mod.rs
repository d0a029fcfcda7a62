//! Statements that change rows: what UPDATE, DELETE and INSERT share.
//!
//! A statement reads all that it will change before it changes anything, so it never meets its own
//! changes: its read phase is a query like any other, with near-data processing, that delivers the
//! rows' keys and what their new values are made of. Then row after row is locked and written. A row that another
//! transaction changed in between makes the statement begin anew, see
//! [`Work::may_restart`](super::transaction::Work::may_restart).

mod assign;
mod change;
mod changed;
pub(super) mod convert;
mod current;
mod duplicate;
mod evaluated;
mod one_row;
mod point;
mod target;
mod writing;

pub(super) use assign::{assign, touch};
pub(super) use change::{Kind, ReadPhase, UpdatedColumn, delete, keep, update};
pub(super) use convert::{Converter, Strictness, implicit_default, is_moment};
pub(super) use current::CurrentRows;
pub(super) use duplicate::{NEW, OnDuplicate, table_of};
pub(super) use one_row::value as value_of;
pub(super) use target::{HIDDEN, Target, row_of};

use super::Session;
use crate::error::{Result, SqlError};
use crate::memory::Charge;

/// Memory that a statement may keep rows in.
pub(super) struct Budget {
    limit: usize,
    used: usize,
    charge: Charge,
}

impl Budget {
    /// All that the session's statements may use.
    pub(super) fn new(session: &Session) -> Result<Self> {
        Ok(Self {
            limit: session.variables.integer("query_memory_limit") as usize,
            used: 0,
            charge: session.frontend.memory.charge(0)?,
        })
    }

    /// Takes some bytes of it.
    ///
    /// # Errors
    /// 1038.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.used += bytes;
        if self.used > self.limit {
            let detail = format!("{} bytes of rows to change or lock", self.used);
            return Err(SqlError::out_of_memory(detail));
        }
        self.charge.grow(bytes)
    }
}
