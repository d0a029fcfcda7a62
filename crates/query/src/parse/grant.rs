//! What GRANT and REVOKE of privileges say.

use perigee_accounts::{Level, Privileges, RoutineKind, Scope};
use sqlparser::tokenizer::Token;

use super::Cursor;
use super::account::{AccountStatement, UserName, list, refuse_clauses, user_name};
use super::role;
use crate::error::{Result, SqlError};

/// Most columns that a statement names.
const MAX_COLUMNS: usize = 10_000;

/// What is granted or revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// ALL PRIVILEGES.
    All,
    /// These.
    Some(Privileges),
}

/// What GRANT or REVOKE says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What, for all that ON names.
    pub privileges: Granted,
    /// What for columns of the table, by their names in lower case.
    pub columns: Vec<(String, Privileges)>,
    /// For what.
    pub on: On,
    /// To or from whom.
    pub users: Vec<UserName>,
    /// WITH GRANT OPTION.
    pub with_option: bool,
}

/// ON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// A level with all its names.
    Level(Level),
    /// `*`: the current schema.
    CurrentSchema,
    /// A table of the current schema.
    CurrentTable(String),
    /// A routine of the current schema.
    CurrentRoutine(RoutineKind, String),
}

impl On {
    /// The level at which privileges are granted.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self {
            Self::Level(level) => level.scope(),
            Self::CurrentSchema => Scope::Schema,
            Self::CurrentTable(_) => Scope::Table,
            Self::CurrentRoutine(..) => Scope::Routine,
        }
    }
}

/// GRANT, behind the word.
pub(super) fn grant(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    if let Some((roles, behind)) = role::list_before(&cursor, "TO")? {
        return role::grant(roles, behind);
    }
    let mut grant = privileges_on(&mut cursor)?;
    cursor.expect_word("TO")?;
    grant.users = list(&mut cursor, user_name)?;
    grant.with_option = cursor.accept_all(&["WITH", "GRANT", "OPTION"]);
    refuse_clauses(&cursor, &["AS"], "in GRANT")?;
    cursor.end()?;
    Ok(AccountStatement::Grant(grant))
}

/// REVOKE, behind the word.
pub(super) fn revoke(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    refuse_clauses(&cursor, &["IF"], "EXISTS in REVOKE")?;
    if let Some((roles, behind)) = role::list_before(&cursor, "FROM")? {
        return role::revoke(roles, behind);
    }
    let mut ahead = cursor.clone();
    let everything = ahead.accept("ALL") && {
        ahead.accept("PRIVILEGES");
        ahead.accept_token(&Token::Comma)
    };
    if everything {
        ahead.expect_word("GRANT")?;
        ahead.expect_word("OPTION")?;
        ahead.expect_word("FROM")?;
        let users = list(&mut ahead, user_name)?;
        ahead.end()?;
        return Ok(AccountStatement::RevokeEverything(users));
    }
    let mut grant = privileges_on(&mut cursor)?;
    cursor.expect_word("FROM")?;
    grant.users = list(&mut cursor, user_name)?;
    refuse_clauses(&cursor, &["IGNORE"], "UNKNOWN USER in REVOKE")?;
    cursor.end()?;
    Ok(AccountStatement::Revoke(grant))
}

/// Privileges, and for what they are.
fn privileges_on(cursor: &mut Cursor<'_>) -> Result<Grant> {
    let mut columns = Vec::new();
    let privileges = match cursor.accept("ALL") {
        true => {
            cursor.accept("PRIVILEGES");
            Granted::All
        }
        false => {
            let all = list(cursor, |cursor| privilege(cursor, &mut columns))?;
            Granted::Some(all.into_iter().fold(Privileges::NONE, Privileges::with))
        }
    };
    let on = on(cursor)?;
    match (columns.is_empty(), on.scope()) {
        (true, _) | (false, Scope::Table) => {}
        (false, Scope::Routine) => return Err(cursor.error_at_last()),
        (false, _) => return Err(SqlError::illegal_grant()),
    }
    Ok(Grant {
        privileges,
        columns,
        on,
        users: Vec::new(),
        with_option: false,
    })
}

/// A privilege; none if it is for columns only.
fn privilege(
    cursor: &mut Cursor<'_>,
    columns: &mut Vec<(String, Privileges)>,
) -> Result<Privileges> {
    if cursor.accept("USAGE") {
        return Ok(Privileges::NONE);
    }
    if cursor.accept_all(&["GRANT", "OPTION"]) {
        return Ok(Privileges::GRANT_OPTION);
    }
    let found = longest(cursor)?;
    let is_of_columns = Privileges::OF_COLUMNS.has(found);
    if !is_of_columns || !cursor.accept_token(&Token::LParen) {
        return Ok(found);
    }
    loop {
        if columns.len() == MAX_COLUMNS {
            let most = format!("more than {MAX_COLUMNS} columns in one statement");
            return Err(SqlError::not_supported(most));
        }
        columns.push((cursor.identifier()?.to_lowercase(), found));
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect(&Token::RParen)?;
    Ok(Privileges::NONE)
}

/// The privilege whose name has the most words.
fn longest(cursor: &mut Cursor<'_>) -> Result<Privileges> {
    let mut longest = None;
    let mut ahead = cursor.clone();
    let mut name = String::new();
    for _ in 0..Privileges::MOST_WORDS {
        let word = ahead.word();
        if word.is_empty() {
            break;
        }
        name = if name.is_empty() {
            word
        } else {
            format!("{name} {word}")
        };
        if let Some(found) = Privileges::by_name(&name) {
            longest = Some((found, ahead.clone()));
        }
    }
    let Some((found, behind)) = longest else {
        // Privileges of other servers.
        let word = cursor.word();
        return match word.is_empty() {
            true => Err(cursor.error()),
            false => Err(SqlError::not_supported(format!("GRANT {word}"))),
        };
    };
    *cursor = behind;
    Ok(found)
}

/// ON and its level.
fn on(cursor: &mut Cursor<'_>) -> Result<On> {
    cursor.expect_word("ON")?;
    for kind in [RoutineKind::Function, RoutineKind::Procedure] {
        if cursor.accept(kind.name()) {
            let first = cursor.identifier()?.to_lowercase();
            return Ok(match cursor.accept_token(&Token::Period) {
                true => On::Level(Level::Routine(kind, first, cursor.name()?.to_lowercase())),
                false => On::CurrentRoutine(kind, first),
            });
        }
    }
    cursor.accept("TABLE");
    if cursor.accept_token(&Token::Mul) {
        if !cursor.accept_token(&Token::Period) {
            return Ok(On::CurrentSchema);
        }
        cursor.expect(&Token::Mul)?;
        return Ok(On::Level(Level::Global));
    }
    let first = cursor.identifier()?.to_lowercase();
    if !cursor.accept_token(&Token::Period) {
        return Ok(On::CurrentTable(first));
    }
    if cursor.accept_token(&Token::Mul) {
        return Ok(On::Level(Level::Schema(first)));
    }
    let table = cursor.name()?.to_lowercase();
    Ok(On::Level(Level::Table(first, table)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::parse::account::tests::{named, parsed};

    fn granted(text: &str) -> Result<Grant, u16> {
        match parsed(text) {
            Ok(AccountStatement::Grant(grant)) => Ok(grant),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.errno),
        }
    }

    #[test]
    fn privileges_and_levels() {
        let some = Privileges::SELECT.with(Privileges::CREATE_TEMPORARY_TABLES);
        let schema = On::Level(Level::Schema("d".into()));
        let procedure = RoutineKind::Procedure;
        for (text, privileges, on) in [
            ("ALL ON *.*", Granted::All, On::Level(Level::Global)),
            ("ALL PRIVILEGES ON D.*", Granted::All, schema.clone()),
            (
                "SELECT, CREATE TEMPORARY TABLES ON d.*",
                Granted::Some(some),
                schema,
            ),
            (
                "CREATE ON *",
                Granted::Some(Privileges::CREATE),
                On::CurrentSchema,
            ),
            (
                "USAGE ON TABLE t",
                Granted::Some(Privileges::NONE),
                On::CurrentTable("t".into()),
            ),
            (
                "GRANT OPTION ON `D_1`.`T`",
                Granted::Some(Privileges::GRANT_OPTION),
                On::Level(Level::Table("d_1".into(), "t".into())),
            ),
            (
                "EXECUTE ON PROCEDURE D.P",
                Granted::Some(Privileges::EXECUTE),
                On::Level(Level::Routine(procedure, "d".into(), "p".into())),
            ),
            (
                "ALTER ROUTINE, EXECUTE ON FUNCTION f",
                Granted::Some(Privileges::OF_ROUTINES),
                On::CurrentRoutine(RoutineKind::Function, "f".into()),
            ),
        ] {
            let text = format!("GRANT {text} TO u");
            let grant = granted(&text).unwrap();
            assert_eq!((grant.privileges, grant.on), (privileges, on), "{text}");
        }
        for (text, errno) in [
            ("GRANT SELECT ON d.t", 1064),
            ("GRANT SELECT ON *.t TO u", 1064),
            ("GRANT SELECT ON d.t TO u IDENTIFIED BY 'x'", 1064),
            ("GRANT ON d.t TO u", 1235),
            ("GRANT SELECT (a) ON *.* TO u", 1144),
            ("GRANT SELECT (a) ON d.* TO u", 1144),
            ("GRANT SELECT (a) ON PROCEDURE d.p TO u", 1064),
            ("GRANT DELETE (a) ON d.t TO u", 1064),
            ("GRANT SELECT () ON d.t TO u", 1064),
            ("GRANT SELECT (a ON d.t TO u", 1064),
        ] {
            assert_eq!(granted(text), Err(errno), "{text}");
        }
        let users = vec![named("u", "%"), named("v", "h")];
        let revoked = parsed("REVOKE ALL PRIVILEGES, GRANT OPTION FROM u, v@h");
        assert_eq!(revoked, Ok(AccountStatement::RevokeEverything(users)));
        let revoked = parsed("REVOKE ALL ON *.* FROM u").unwrap();
        assert!(
            matches!(revoked, AccountStatement::Revoke(grant) if grant.privileges == Granted::All)
        );
    }

    #[test]
    fn columns_have_privileges_of_their_own() {
        let grant =
            granted("GRANT SELECT (A, `b`), INSERT, UPDATE (b) ON d.t TO u WITH GRANT OPTION")
                .unwrap();
        assert_eq!(grant.privileges, Granted::Some(Privileges::INSERT));
        let expected = [
            ("a".to_owned(), Privileges::SELECT),
            ("b".to_owned(), Privileges::SELECT),
            ("b".to_owned(), Privileges::UPDATE),
        ];
        assert_eq!(grant.columns, expected);
        assert!(grant.with_option);
    }
}
