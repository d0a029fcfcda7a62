//! LOCK TABLES, UNLOCK TABLES and FLUSH.

use perigee_engine::TableLock;
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::Token;

use super::{Cursor, Statement};
use crate::error::{Result, SqlError};

/// A statement about locks of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockStatement {
    /// LOCK TABLES.
    Tables(Vec<(ObjectName, TableLock)>),
    /// UNLOCK TABLES.
    Unlock,
    /// FLUSH TABLES … WITH READ LOCK: these tables.
    Flushed(Vec<ObjectName>),
    /// FLUSH TABLES WITH READ LOCK: all tables.
    All,
}

/// LOCK TABLES.
pub(super) fn lock(mut cursor: Cursor<'_>) -> Result<Statement> {
    expect_tables(&mut cursor, "LOCK")?;
    let mut tables = Vec::new();
    loop {
        let table = cursor.object_name()?;
        if cursor.accept("AS") || !cursor.peek_any(&["READ", "WRITE", "LOW_PRIORITY"]) {
            cursor.identifier()?;
        }
        let lock = if cursor.accept("READ") {
            cursor.accept("LOCAL");
            TableLock::Read
        } else {
            cursor.accept("LOW_PRIORITY");
            cursor.expect_word("WRITE")?;
            TableLock::Write
        };
        tables.push((table, lock));
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.end()?;
    Ok(Statement::Lock(LockStatement::Tables(tables)))
}

/// UNLOCK TABLES.
pub(super) fn unlock(mut cursor: Cursor<'_>) -> Result<Statement> {
    expect_tables(&mut cursor, "UNLOCK")?;
    cursor.end()?;
    Ok(Statement::Lock(LockStatement::Unlock))
}

fn expect_tables(cursor: &mut Cursor<'_>, verb: &str) -> Result<()> {
    if cursor.peek_any(&["INSTANCE"]) {
        return Err(SqlError::not_supported(format!("{verb} INSTANCE")));
    }
    if !cursor.accept("TABLES") {
        cursor.expect_word("TABLE")?;
    }
    Ok(())
}

/// FLUSH of privileges and of tables, which statements read as they are, and of tables with locks.
pub(super) fn flush(mut cursor: Cursor<'_>) -> Result<Statement> {
    if !cursor.accept("LOCAL") {
        cursor.accept("NO_WRITE_TO_BINLOG");
    }
    let what = cursor.word();
    match what.as_str() {
        "PRIVILEGES" => {
            cursor.end()?;
            Ok(Statement::Flush)
        }
        "TABLES" | "TABLE" => flush_tables(cursor),
        "LOGS" => {
            cursor.end()?;
            Ok(Statement::FlushLogs)
        }
        "SLOW" => {
            cursor.expect_word("LOGS")?;
            cursor.end()?;
            Ok(Statement::FlushLogs)
        }
        _ => Err(SqlError::not_supported(format!("FLUSH {what}").trim())),
    }
}

fn flush_tables(mut cursor: Cursor<'_>) -> Result<Statement> {
    let mut tables = Vec::new();
    if !cursor.at_end() && !cursor.peek_any(&["WITH", "FOR"]) {
        tables.push(cursor.object_name()?);
        while cursor.accept_token(&Token::Comma) {
            tables.push(cursor.object_name()?);
        }
    }
    if cursor.peek_any(&["FOR"]) {
        return Err(SqlError::not_supported("FLUSH TABLES … FOR EXPORT"));
    }
    let locks = cursor.accept("WITH");
    if locks {
        cursor.expect_word("READ")?;
        cursor.expect_word("LOCK")?;
    }
    cursor.end()?;
    Ok(match (locks, tables.is_empty()) {
        (false, _) => Statement::Flush,
        (true, true) => Statement::Lock(LockStatement::All),
        (true, false) => Statement::Lock(LockStatement::Flushed(tables)),
    })
}
