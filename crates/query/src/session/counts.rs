//! Statements counted by what they are, as MySQL's `Com_` variables do.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::parse::{Statement, TransactionStatement};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal),* $(,)?) => {
        /// What a statement is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kind {
            $($(#[$doc])* $kind,)*
        }

        /// A name for each [`Kind`], in the same order.
        const NAMES: &[&str] = &[$($name),*];
    };
}

kinds! {
    /// SELECT and other queries.
    Select "select",
    /// INSERT.
    Insert "insert",
    /// REPLACE.
    Replace "replace",
    /// UPDATE.
    Update "update",
    /// DELETE.
    Delete "delete",
    /// LOAD DATA.
    Load "load",
    /// What changes definitions.
    Define "define",
    /// What changes accounts and privileges.
    Account "account",
    /// ANALYZE TABLE.
    Analyze "analyze",
    /// BEGIN.
    Begin "begin",
    /// COMMIT.
    Commit "commit",
    /// ROLLBACK, whole.
    Rollback "rollback",
    /// Statements about savepoints.
    Savepoint "savepoint",
    /// SET.
    Set "set_option",
    /// SHOW and DESCRIBE.
    Show "show",
    /// EXPLAIN.
    Explain "explain",
    /// All others.
    Other "other",
}

impl Kind {
    /// What a statement is; `None` for EXECUTE, which is counted as what it executes.
    pub(super) fn of(statement: &Statement) -> Option<Self> {
        Some(match statement {
            Statement::Query(_) | Statement::Into(..) => Self::Select,
            Statement::Insert(insert) if insert.replace_into => Self::Replace,
            Statement::Insert(_) => Self::Insert,
            Statement::Update(_) => Self::Update,
            Statement::Delete(_) => Self::Delete,
            Statement::Load(_) => Self::Load,
            Statement::Ddl(_) | Statement::Program(_) => Self::Define,
            Statement::Account(_) => Self::Account,
            Statement::Analyze(_) => Self::Analyze,
            Statement::Transaction(transaction) => match transaction {
                TransactionStatement::Begin { .. } => Self::Begin,
                TransactionStatement::Commit(_) => Self::Commit,
                TransactionStatement::Rollback(_) => Self::Rollback,
                TransactionStatement::Savepoint(_)
                | TransactionStatement::RollbackTo(_)
                | TransactionStatement::Release(_) => Self::Savepoint,
            },
            Statement::Set(_) => Self::Set,
            Statement::Show(_) | Statement::Describe(..) => Self::Show,
            Statement::Explain(..) | Statement::ExplainConnection(..) => Self::Explain,
            Statement::Execute { .. } => return None,
            Statement::Use(_)
            | Statement::Do(_)
            | Statement::Flush
            | Statement::FlushLogs
            | Statement::Lock(_)
            | Statement::Kill { .. }
            | Statement::Prepare { .. }
            | Statement::Deallocate(_)
            | Statement::Call(_)
            | Statement::Signal(_)
            | Statement::Diagnostics(_) => Self::Other,
        })
    }
}

/// Statements of each kind, those that failed among them.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; NAMES.len()]);

impl Counts {
    pub(super) fn count(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Names and numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let numbers = self.0.iter().map(|n| n.load(Ordering::Relaxed));
        NAMES.iter().copied().zip(numbers)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::parse::Script;

    #[test]
    fn every_statement_has_its_kind() {
        for (text, name) in [
            ("SELECT 1", "select"),
            ("INSERT INTO t VALUES (1)", "insert"),
            ("REPLACE INTO t VALUES (1)", "replace"),
            ("UPDATE t SET a = 1", "update"),
            ("DELETE FROM t", "delete"),
            ("LOAD DATA LOCAL INFILE 'a' INTO TABLE t", "load"),
            ("CREATE TABLE t (a INT)", "define"),
            ("DROP USER u", "account"),
            ("ANALYZE TABLE t", "analyze"),
            ("START TRANSACTION", "begin"),
            ("COMMIT", "commit"),
            ("ROLLBACK", "rollback"),
            ("ROLLBACK TO s", "savepoint"),
            ("SET a = 1", "set_option"),
            ("DESCRIBE t", "show"),
            ("EXPLAIN SELECT 1", "explain"),
            ("USE s", "other"),
        ] {
            let script = Script::new(text).unwrap();
            let statement = script.pieces().next().unwrap().parse().unwrap();
            let counts = Counts::default();
            counts.count(Kind::of(&statement).unwrap());
            let counted: Vec<_> = counts.all().filter(|(_, n)| *n > 0).collect();
            assert_eq!(counted, [(name, 1)], "{text}");
        }
        let script = Script::new("EXECUTE s").unwrap();
        let execute = script.pieces().next().unwrap().parse().unwrap();
        assert_eq!(Kind::of(&execute), None);
    }
}
