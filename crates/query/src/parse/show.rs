//! SHOW.

use perigee_accounts::AccountName;
use sqlparser::ast::{Expr, ObjectName};
use sqlparser::tokenizer::Token;

use super::account::{UserName, list, user_name};
use super::balance::balance;
use super::role::role_name;
use super::{Cursor, Piece, Scope};
use crate::error::{Result, SqlError};

/// LIKE or WHERE of a SHOW.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Pattern over the first column.
    Like(String),
    /// Condition over the result's columns.
    Where(Box<Expr>),
}

/// What is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// DATABASES, SCHEMAS.
    Schemas(Option<Filter>),
    /// TABLES.
    Tables {
        /// With their kind.
        full: bool,
        /// Of a schema other than the current one.
        schema: Option<String>,
        /// Which.
        filter: Option<Filter>,
    },
    /// COLUMNS, FIELDS.
    Columns {
        /// With collation, privileges, comment.
        full: bool,
        /// The table.
        table: ObjectName,
        /// Its schema, if given by a second FROM.
        schema: Option<String>,
        /// Which.
        filter: Option<Filter>,
    },
    /// INDEX, INDEXES, KEYS.
    Indexes {
        /// The table.
        table: ObjectName,
        /// Its schema, if given by a second FROM.
        schema: Option<String>,
        /// Which.
        filter: Option<Filter>,
    },
    /// CREATE TABLE.
    CreateTable(ObjectName),
    /// CREATE DATABASE.
    CreateSchema {
        /// The schema.
        name: String,
        /// With IF NOT EXISTS in the statement that is shown.
        if_not_exists: bool,
    },
    /// VARIABLES.
    Variables(Scope, Option<Filter>),
    /// STATUS.
    Status(Scope, Option<Filter>),
    /// WARNINGS, ERRORS.
    Warnings {
        /// Errors only.
        errors: bool,
        /// Only their number.
        count: bool,
    },
    /// CREATE VIEW.
    CreateView(ObjectName),
    /// CREATE PROCEDURE.
    CreateProcedure(ObjectName),
    /// CREATE TRIGGER.
    CreateTrigger(ObjectName),
    /// TRIGGERS.
    Triggers {
        /// The columns.
        columns: &'static [&'static str],
        /// Of a schema other than the current one.
        schema: Option<String>,
        /// Which, by the names of their tables.
        filter: Option<Filter>,
    },
    /// PROCEDURE STATUS: the columns, and which.
    Procedures(&'static [&'static str], Option<Filter>),
    /// ENGINES.
    Engines,
    /// COLLATION.
    Collations(Option<Filter>),
    /// CHARACTER SET.
    CharacterSets(Option<Filter>),
    /// TABLE STATUS.
    TableStatus {
        /// Of a schema other than the current one.
        schema: Option<String>,
        /// Which.
        filter: Option<Filter>,
    },
    /// PROCESSLIST.
    Processes {
        /// With whole texts.
        full: bool,
    },
    /// GRANTS.
    Grants {
        /// FOR an account; the own one with its active roles without.
        account: Option<UserName>,
        /// USING roles.
        using: Vec<AccountName>,
    },
    /// CREATE USER.
    CreateUser(UserName),
    /// What is always empty here, such as events: its columns, a `#` in front of numbers.
    Nothing(&'static [&'static str]),
}

/// Columns of what there is not, as MySQL names them.
const PLUGINS: &[&str] = &["Name", "Status", "Type", "Library", "License"];
const TRIGGERS: &[&str] = &[
    "Trigger",
    "Event",
    "Table",
    "Statement",
    "Timing",
    "Created",
    "sql_mode",
    "Definer",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];
const EVENTS: &[&str] = &[
    "Db",
    "Name",
    "Definer",
    "Time zone",
    "Type",
    "Execute at",
    "Interval value",
    "Interval field",
    "Starts",
    "Ends",
    "Status",
    "#Originator",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];
const ROUTINES: &[&str] = &[
    "Db",
    "Name",
    "Type",
    "Language",
    "Definer",
    "Modified",
    "Created",
    "Security_type",
    "Comment",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];
const OPEN_TABLES: &[&str] = &["Database", "Table", "#In_use", "#Name_locked"];
const MASTER: &[&str] = &[
    "File",
    "#Position",
    "Binlog_Do_DB",
    "Binlog_Ignore_DB",
    "Executed_Gtid_Set",
];
const REPLICA: &[&str] = &[
    "Replica_IO_State",
    "Source_Host",
    "Source_User",
    "#Source_Port",
];

pub(super) fn parse(mut cursor: Cursor<'_>) -> Result<Show> {
    if cursor.accept_token(&Token::LParen) {
        return Err(cursor.error());
    }
    if cursor.peek_any(&["COUNT"]) || cursor.peek_is(&Token::Mul) {
        return count(cursor);
    }
    cursor.accept("EXTENDED");
    let full = cursor.accept("FULL");
    let scope = if cursor.accept("GLOBAL") {
        Scope::Global
    } else {
        if !cursor.accept("SESSION") {
            cursor.accept("LOCAL");
        }
        Scope::Session
    };
    let what = cursor.word();
    let show = match what.as_str() {
        "DATABASES" | "SCHEMAS" => Show::Schemas(filter(&mut cursor)?),
        "TABLES" => {
            let schema = from_schema(&mut cursor)?;
            Show::Tables {
                full,
                schema,
                filter: filter(&mut cursor)?,
            }
        }
        "COLUMNS" | "FIELDS" => {
            let (table, schema) = of_table(&mut cursor)?;
            Show::Columns {
                full,
                table,
                schema,
                filter: filter(&mut cursor)?,
            }
        }
        "INDEX" | "INDEXES" | "KEYS" => {
            let (table, schema) = of_table(&mut cursor)?;
            Show::Indexes {
                table,
                schema,
                filter: filter(&mut cursor)?,
            }
        }
        "CREATE" => create(&mut cursor)?,
        "VARIABLES" => Show::Variables(scope, filter(&mut cursor)?),
        "STATUS" => Show::Status(scope, filter(&mut cursor)?),
        "WARNINGS" | "ERRORS" => Show::Warnings {
            errors: what == "ERRORS",
            count: false,
        },
        "ENGINES" => Show::Engines,
        "STORAGE" => {
            cursor.expect_word("ENGINES")?;
            Show::Engines
        }
        "COLLATION" => Show::Collations(filter(&mut cursor)?),
        "CHARSET" => Show::CharacterSets(filter(&mut cursor)?),
        "CHARACTER" => {
            cursor.expect_word("SET")?;
            Show::CharacterSets(filter(&mut cursor)?)
        }
        "TABLE" => {
            cursor.expect_word("STATUS")?;
            let schema = from_schema(&mut cursor)?;
            Show::TableStatus {
                schema,
                filter: filter(&mut cursor)?,
            }
        }
        "PROCESSLIST" => Show::Processes { full },
        "PLUGINS" => Show::Nothing(PLUGINS),
        "GRANTS" => {
            let account = match cursor.accept("FOR") {
                true => Some(user_name(&mut cursor)?),
                false => None,
            };
            let using = match account.is_some() && cursor.accept("USING") {
                true => list(&mut cursor, role_name)?,
                false => Vec::new(),
            };
            Show::Grants { account, using }
        }
        "OPEN" => {
            cursor.expect_word("TABLES")?;
            from_schema(&mut cursor)?;
            filter(&mut cursor)?;
            Show::Nothing(OPEN_TABLES)
        }
        "MASTER" | "SLAVE" | "REPLICA" => {
            cursor.expect_word("STATUS")?;
            Show::Nothing(if what == "MASTER" { MASTER } else { REPLICA })
        }
        "TRIGGERS" => Show::Triggers {
            columns: TRIGGERS,
            schema: from_schema(&mut cursor)?,
            filter: filter(&mut cursor)?,
        },
        "EVENTS" => {
            from_schema(&mut cursor)?;
            filter(&mut cursor)?;
            Show::Nothing(EVENTS)
        }
        "PROCEDURE" | "FUNCTION" => {
            cursor.expect_word("STATUS")?;
            let filter = filter(&mut cursor)?;
            match what.as_str() {
                "PROCEDURE" => Show::Procedures(ROUTINES, filter),
                _ => Show::Nothing(ROUTINES),
            }
        }
        "" => return Err(cursor.error()),
        other => return Err(SqlError::not_supported(format!("SHOW {other}"))),
    };
    cursor.end()?;
    Ok(show)
}

/// `COUNT(*) WARNINGS`.
fn count(mut cursor: Cursor<'_>) -> Result<Show> {
    cursor.expect_word("COUNT")?;
    cursor.expect(&Token::LParen)?;
    cursor.expect(&Token::Mul)?;
    cursor.expect(&Token::RParen)?;
    let errors = cursor.accept("ERRORS");
    if !errors {
        cursor.expect_word("WARNINGS")?;
    }
    cursor.end()?;
    Ok(Show::Warnings {
        errors,
        count: true,
    })
}

fn create(cursor: &mut Cursor<'_>) -> Result<Show> {
    if cursor.accept("TABLE") {
        return Ok(Show::CreateTable(cursor.object_name()?));
    }
    if cursor.accept("VIEW") {
        return Ok(Show::CreateView(cursor.object_name()?));
    }
    if cursor.accept("PROCEDURE") {
        return Ok(Show::CreateProcedure(cursor.object_name()?));
    }
    if cursor.accept("TRIGGER") {
        return Ok(Show::CreateTrigger(cursor.object_name()?));
    }
    if cursor.accept("DATABASE") || cursor.accept("SCHEMA") {
        let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
        return Ok(Show::CreateSchema {
            name: cursor.name()?,
            if_not_exists,
        });
    }
    if cursor.accept("USER") {
        return Ok(Show::CreateUser(user_name(cursor)?));
    }
    Err(SqlError::not_supported(
        "SHOW CREATE of anything but tables, views, procedures, triggers, databases and users",
    ))
}

fn from_schema(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if cursor.accept("FROM") || cursor.accept("IN") {
        return cursor.name().map(Some);
    }
    Ok(None)
}

fn of_table(cursor: &mut Cursor<'_>) -> Result<(ObjectName, Option<String>)> {
    if !cursor.accept("FROM") {
        cursor.expect_word("IN")?;
    }
    let table = cursor.object_name()?;
    Ok((table, from_schema(cursor)?))
}

fn filter(cursor: &mut Cursor<'_>) -> Result<Option<Filter>> {
    if cursor.accept("LIKE") {
        return Ok(Some(Filter::Like(cursor.string()?)));
    }
    if !cursor.accept("WHERE") {
        return Ok(None);
    }
    let start = cursor.position();
    while cursor.next().is_some() {}
    let tokens = cursor.tokens(start..cursor.position());
    let piece = Piece {
        tokens,
        ..cursor.piece()
    };
    let mut parser = piece.parser(0);
    let mut expr = parser.parse_expr().map_err(|e| piece.error(&e))?;
    balance(&mut expr, piece.grammar);
    piece.expect_end(&mut parser)?;
    Ok(Some(Filter::Where(Box::new(expr))))
}
