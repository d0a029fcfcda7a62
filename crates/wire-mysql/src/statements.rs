//! The prepared statements of a connection, as far as the protocol goes: the types its client bound
//! to their parameters, and values that it sends in parts.
//!
//! Invariant: the values sent in parts hold no more than `limit` bytes together, and no more than is left of
//! the memory that all connections share. How many
//! statements there may be is the session's affair, which prepares them.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::errors::{OUT_OF_RESOURCES, SqlError, UNKNOWN_ERROR, WRONG_ARGUMENTS};
use crate::memory::Held;
use crate::parameter::{Parameter, ParameterError, ParameterType, decode};
use crate::session::StatementId;

/// The prepared statements of a connection.
#[derive(Debug)]
pub(crate) struct Statements {
    by_id: HashMap<StatementId, Statement>,
    /// Bytes of values sent in parts.
    long_bytes: usize,
    /// Most of them.
    limit: usize,
    /// Memory for them.
    held: Held,
}

/// What a client has said of a prepared statement.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Its text, for SHOW PROCESSLIST.
    pub(crate) text: Bytes,
    parameters: u16,
    types: Vec<ParameterType>,
    /// Values sent in parts, by the number of their parameter.
    long: BTreeMap<u16, Vec<u8>>,
    /// What was wrong with a part. Parts are not answered, so the next execution is.
    error: Option<SqlError>,
}

impl Statements {
    /// None yet; `limit` is in bytes.
    pub(crate) fn new(limit: usize, held: Held) -> Self {
        Self {
            by_id: HashMap::new(),
            long_bytes: 0,
            limit,
            held,
        }
    }

    /// Adds a statement that the session has prepared.
    pub(crate) fn insert(&mut self, id: StatementId, text: Bytes, parameters: u16) {
        let statement = Statement {
            text,
            parameters,
            types: Vec::new(),
            long: BTreeMap::new(),
            error: None,
        };
        self.by_id.insert(id, statement);
    }

    /// A statement by its id.
    pub(crate) fn get_mut(&mut self, id: StatementId) -> Option<&mut Statement> {
        self.by_id.get_mut(&id)
    }

    /// Appends to the value of a parameter. What is wrong is told to the next execution; nobody
    /// hears of a statement that does not exist.
    pub(crate) fn append(&mut self, id: StatementId, parameter: u16, part: &[u8]) {
        let Some(statement) = self.by_id.get_mut(&id) else {
            return;
        };
        if statement.error.is_some() {
            return;
        }
        if parameter >= statement.parameters {
            let command = "mysqld_stmt_send_long_data";
            statement.error = Some(WRONG_ARGUMENTS.with(&[&command]));
        } else if self.long_bytes + part.len() > self.limit {
            self.long_bytes -= statement.forget_long_data();
            self.held.resize(GROWTH * self.long_bytes);
            statement.error = Some(UNKNOWN_ERROR.with(&[&TOO_LONG]));
        } else if !self.held.resize(GROWTH * (self.long_bytes + part.len())) {
            self.long_bytes -= statement.forget_long_data();
            self.held.resize(GROWTH * self.long_bytes);
            statement.error = Some(OUT_OF_RESOURCES.with(&[]));
        } else {
            statement
                .long
                .entry(parameter)
                .or_default()
                .extend_from_slice(part);
            self.long_bytes += part.len();
        }
    }

    /// Forgets the values sent in parts.
    pub(crate) fn forget_long_data(&mut self, id: StatementId) {
        if let Some(statement) = self.by_id.get_mut(&id) {
            self.long_bytes -= statement.forget_long_data();
            self.held.resize(GROWTH * self.long_bytes);
        }
    }

    /// Forgets the values sent in parts and what was wrong with them; `None` if there is no such
    /// statement.
    pub(crate) fn reset(&mut self, id: StatementId) -> Option<()> {
        let statement = self.by_id.get_mut(&id)?;
        statement.error = None;
        self.long_bytes -= statement.forget_long_data();
        self.held.resize(GROWTH * self.long_bytes);
        Some(())
    }

    /// Removes a statement; false if there is none of that id.
    pub(crate) fn remove(&mut self, id: StatementId) -> bool {
        let known = self.reset(id).is_some();
        self.by_id.remove(&id);
        known
    }

    /// Removes all statements.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.limit, self.held.of_same());
    }
}

/// Memory that a value sent in parts takes: its buffer doubles as it grows.
const GROWTH: usize = 2;

/// MySQL's words for values that are too long in all.
const TOO_LONG: &str = "Parameter of prepared statement which is set through \
    mysql_send_long_data() is longer than 'max_allowed_packet' bytes";

impl Statement {
    /// The parameters of an execution.
    pub(crate) fn parameters<'a>(
        &'a mut self,
        arguments: &'a [u8],
    ) -> Result<Vec<Parameter<'a>>, SqlError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let long = &self.long;
        let value = |index| long.get(&(index as u16)).map(Vec::as_slice);
        let count = usize::from(self.parameters);
        decode(arguments, count, &mut self.types, value).map_err(|error| {
            if let ParameterError::Malformed(error) = &error {
                tracing::debug!(%error, "malformed parameters");
            }
            error.answer()
        })
    }

    /// Gives the number of bytes forgotten.
    fn forget_long_data(&mut self) -> usize {
        let long = std::mem::take(&mut self.long);
        long.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::memory::tests::Bytes;

    const ID: StatementId = StatementId(1);
    /// One parameter, not NULL, of type BLOB.
    const BLOB: &[u8] = &[0, 1, 252, 0];

    fn one_statement(limit: usize) -> Statements {
        let mut statements = Statements::new(limit, Held::new(None));
        statements.insert(ID, "SELECT ?".into(), 1);
        statements
    }

    #[test]
    fn parts_are_put_together_and_forgotten_by_a_reset() {
        let mut statements = one_statement(100);
        statements.append(ID, 0, b"ab");
        statements.append(ID, 0, b"cd");
        let statement = statements.get_mut(ID).unwrap();
        assert_eq!(
            statement.parameters(BLOB),
            Ok(vec![Parameter::Bytes(b"abcd")])
        );
        statements.reset(ID).unwrap();
        let statement = statements.get_mut(ID).unwrap();
        assert_eq!(statement.parameters(BLOB).unwrap_err().errno, 1835);
        assert_eq!(
            statement.parameters(b"\0\0\x01x"),
            Ok(vec![Parameter::Bytes(b"x")]),
            "the types stay"
        );
    }

    #[test]
    fn the_limit_holds_for_all_statements_together() {
        let mut statements = one_statement(5);
        let other = StatementId(2);
        statements.insert(other, "SELECT ?".into(), 1);
        statements.append(ID, 0, b"abc");
        statements.append(other, 0, b"abc");
        let refused = statements.get_mut(other).unwrap().parameters(BLOB);
        assert_eq!(refused.unwrap_err().errno, 1105);
        assert!(statements.get_mut(ID).unwrap().parameters(BLOB).is_ok());
        // What is forgotten makes room.
        assert!(statements.remove(ID));
        statements.reset(other).unwrap();
        statements.append(other, 0, b"abcde");
        assert!(statements.get_mut(other).unwrap().parameters(BLOB).is_ok());
        assert!(!statements.remove(ID));
    }

    #[test]
    fn the_memory_of_all_connections_holds_too() {
        let memory = Arc::new(Bytes(AtomicUsize::new(3 << 20)));
        let mut statements = Statements::new(64 << 20, Held::new(Some(memory.clone())));
        statements.insert(ID, "SELECT ?".into(), 1);
        let part = vec![b'x'; 1 << 20];
        statements.append(ID, 0, &part);
        assert!(statements.get_mut(ID).unwrap().parameters(BLOB).is_ok());
        statements.append(ID, 0, &part);
        let refused = statements.get_mut(ID).unwrap().parameters(BLOB);
        assert_eq!(refused.unwrap_err().errno, 1041);
        assert_eq!(memory.0.load(Ordering::Relaxed), 3 << 20);
        // What is forgotten makes room.
        statements.reset(ID).unwrap();
        statements.append(ID, 0, &part);
        assert!(statements.get_mut(ID).unwrap().parameters(BLOB).is_ok());
        statements.clear();
        assert_eq!(memory.0.load(Ordering::Relaxed), 3 << 20);
    }

    #[test]
    fn a_part_of_no_parameter_is_an_error_of_the_next_execution() {
        let mut statements = one_statement(5);
        statements.append(ID, 1, b"abc");
        let refused = statements.get_mut(ID).unwrap().parameters(BLOB);
        assert_eq!(
            refused.unwrap_err().message,
            "Incorrect arguments to mysqld_stmt_send_long_data"
        );
        statements.append(StatementId(9), 0, b"nobody hears of this");
    }
}
