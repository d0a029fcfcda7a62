//! Transaction statements: BEGIN, COMMIT, ROLLBACK, savepoints.

use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Result;

/// A statement about transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatement {
    /// BEGIN, START TRANSACTION.
    Begin {
        /// READ ONLY or READ WRITE, if it says so.
        read_only: Option<bool>,
        /// WITH CONSISTENT SNAPSHOT.
        snapshot: bool,
    },
    /// COMMIT.
    Commit(Completion),
    /// ROLLBACK.
    Rollback(Completion),
    /// SAVEPOINT.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// RELEASE SAVEPOINT.
    Release(String),
}

/// What follows the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// AND CHAIN: another transaction of the same kind begins.
    pub chain: bool,
    /// RELEASE: the connection ends.
    pub release: bool,
}

/// Parses what follows the first word.
pub(super) fn parse(first: &str, mut cursor: Cursor<'_>) -> Result<TransactionStatement> {
    let statement = match first {
        "BEGIN" => {
            cursor.accept("WORK");
            TransactionStatement::Begin {
                read_only: None,
                snapshot: false,
            }
        }
        "START" => start(&mut cursor)?,
        "SAVEPOINT" => TransactionStatement::Savepoint(cursor.identifier()?),
        "RELEASE" => {
            cursor.expect_word("SAVEPOINT")?;
            TransactionStatement::Release(cursor.identifier()?)
        }
        "COMMIT" => {
            cursor.accept("WORK");
            TransactionStatement::Commit(completion(&mut cursor)?)
        }
        _ => {
            cursor.accept("WORK");
            if cursor.accept("TO") {
                cursor.accept("SAVEPOINT");
                TransactionStatement::RollbackTo(cursor.identifier()?)
            } else {
                TransactionStatement::Rollback(completion(&mut cursor)?)
            }
        }
    };
    cursor.end()?;
    Ok(statement)
}

fn start(cursor: &mut Cursor<'_>) -> Result<TransactionStatement> {
    cursor.expect_word("TRANSACTION")?;
    let (mut read_only, mut snapshot) = (None, false);
    while !cursor.at_end() {
        if cursor.accept("WITH") {
            cursor.expect_word("CONSISTENT")?;
            cursor.expect_word("SNAPSHOT")?;
            snapshot = true;
        } else {
            cursor.expect_word("READ")?;
            let only = cursor.accept("ONLY");
            if !only {
                cursor.expect_word("WRITE")?;
            }
            if read_only.is_some_and(|before| before != only) {
                return Err(cursor.error_at_last());
            }
            read_only = Some(only);
        }
        if !cursor.at_end() {
            cursor.expect(&Token::Comma)?;
            if cursor.at_end() {
                return Err(cursor.error());
            }
        }
    }
    Ok(TransactionStatement::Begin {
        read_only,
        snapshot,
    })
}

fn completion(cursor: &mut Cursor<'_>) -> Result<Completion> {
    let mut completion = Completion::default();
    if cursor.accept("AND") {
        completion.chain = !cursor.accept("NO");
        cursor.expect_word("CHAIN")?;
    }
    if cursor.accept("NO") {
        cursor.expect_word("RELEASE")?;
    } else if cursor.accept("RELEASE") {
        if completion.chain {
            return Err(cursor.error_at_last());
        }
        completion.release = true;
    }
    Ok(completion)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::parse::{Script, Statement};

    fn parsed(text: &str) -> Option<TransactionStatement> {
        let script = Script::new(text).unwrap();
        match script.pieces().next().unwrap().parse() {
            Ok(Statement::Transaction(statement)) => Some(statement),
            _ => None,
        }
    }

    #[test]
    fn all_forms_are_known() {
        use TransactionStatement as T;
        let begin = |read_only, snapshot| {
            Some(T::Begin {
                read_only,
                snapshot,
            })
        };
        assert_eq!(parsed("begin work"), begin(None, false));
        assert_eq!(
            parsed("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"),
            begin(Some(true), true)
        );
        assert_eq!(
            parsed("START TRANSACTION READ WRITE"),
            begin(Some(false), false)
        );
        let chain = Completion {
            chain: true,
            release: false,
        };
        assert_eq!(parsed("COMMIT AND CHAIN"), Some(T::Commit(chain)));
        assert_eq!(
            parsed("COMMIT WORK AND NO CHAIN NO RELEASE"),
            Some(T::Commit(Completion::default()))
        );
        assert_eq!(
            parsed("ROLLBACK WORK TO SAVEPOINT `a b`"),
            Some(T::RollbackTo("a b".into()))
        );
        assert_eq!(parsed("ROLLBACK TO x"), Some(T::RollbackTo("x".into())));
        assert_eq!(parsed("RELEASE SAVEPOINT x"), Some(T::Release("x".into())));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "START TRANSACTION READ ONLY, READ WRITE",
            "START TRANSACTION READ ONLY,",
            "COMMIT AND CHAIN RELEASE",
            "SAVEPOINT",
            "ROLLBACK TO",
            "BEGIN x",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
