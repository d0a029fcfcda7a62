//! What statements about roles say: CREATE and DROP ROLE, GRANT and REVOKE of roles, SET ROLE, SET DEFAULT ROLE.

use perigee_accounts::{AccountName, Privileges};
use sqlparser::tokenizer::Token;

use super::account::{AccountStatement, UserName, list, refuse_clauses, user_name};
use super::{Cursor, Script};
use crate::error::{Result, SqlError};

/// Which roles are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChoice {
    /// DEFAULT: those that are active after a login.
    Default,
    /// NONE.
    None,
    /// ALL that are granted.
    All,
    /// ALL EXCEPT these.
    AllExcept(Vec<AccountName>),
    /// These.
    These(Vec<AccountName>),
}

/// CREATE ROLE, behind CREATE.
pub(super) fn create(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("ROLE")?;
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    let roles = list(&mut cursor, role_name)?;
    cursor.end()?;
    Ok(AccountStatement::CreateRoles {
        if_not_exists,
        roles,
    })
}

/// DROP ROLE, behind DROP.
pub(super) fn drop(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("ROLE")?;
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let roles = list(&mut cursor, role_name)?;
    cursor.end()?;
    Ok(AccountStatement::DropRoles { if_exists, roles })
}

/// A list of roles before a word, with what stands behind the word; `None` for privileges.
pub(super) fn list_before<'a>(
    cursor: &Cursor<'a>,
    word: &str,
) -> Result<Option<(Vec<AccountName>, Cursor<'a>)>> {
    let mut ahead = cursor.clone();
    let mut tokens = cursor.clone();
    // Privileges have ON behind them.
    while !tokens.peek_any(&["ON", word]) {
        if tokens.next().is_none() {
            return Ok(None);
        }
    }
    let is_everything = cursor.peek_any(&["ALL", "GRANT"]);
    if tokens.peek_any(&["ON"]) || is_everything {
        return Ok(None);
    }
    let roles = list(&mut ahead, role_name)?;
    ahead.expect_word(word)?;
    Ok(Some((roles, ahead)))
}

/// GRANT of roles, behind TO.
pub(super) fn grant(roles: Vec<AccountName>, mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    let users = list(&mut cursor, user_name)?;
    let with_admin = cursor.accept_all(&["WITH", "ADMIN", "OPTION"]);
    cursor.end()?;
    Ok(AccountStatement::GrantRoles {
        roles,
        users,
        with_admin,
    })
}

/// REVOKE of roles, behind FROM.
pub(super) fn revoke(roles: Vec<AccountName>, mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    let users = list(&mut cursor, user_name)?;
    refuse_clauses(&cursor, &["IGNORE"], "UNKNOWN USER in REVOKE")?;
    cursor.end()?;
    Ok(AccountStatement::RevokeRoles(roles, users))
}

/// SET ROLE, behind SET.
pub(super) fn set(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("ROLE")?;
    let choice = match cursor.accept("DEFAULT") {
        true => RoleChoice::Default,
        false if cursor.accept_all(&["ALL", "EXCEPT"]) => {
            RoleChoice::AllExcept(list(&mut cursor, role_name)?)
        }
        false => default_roles(&mut cursor)?,
    };
    cursor.end()?;
    Ok(AccountStatement::SetRole(choice))
}

/// SET DEFAULT ROLE, behind SET.
pub(super) fn set_default(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("DEFAULT")?;
    cursor.expect_word("ROLE")?;
    let choice = default_roles(&mut cursor)?;
    cursor.expect_word("TO")?;
    let users = list(&mut cursor, user_name)?;
    cursor.end()?;
    Ok(AccountStatement::SetDefaultRoles(choice, users))
}

/// NONE, ALL or a list.
pub(super) fn default_roles(cursor: &mut Cursor<'_>) -> Result<RoleChoice> {
    if cursor.accept("NONE") {
        return Ok(RoleChoice::None);
    }
    if cursor.accept("ALL") {
        return Ok(RoleChoice::All);
    }
    list(cursor, role_name).map(RoleChoice::These)
}

/// A role's name.
pub(super) fn role_name(cursor: &mut Cursor<'_>) -> Result<AccountName> {
    if let Some(Token::Word(word)) = cursor.peek()
        && word.quote_style.is_none()
        && (super::names::is_reserved(&word.value)
            || Privileges::by_name(&word.value.to_ascii_uppercase()).is_some())
    {
        return Err(cursor.error());
    }
    match user_name(cursor)? {
        UserName::Named(name) if name.user().is_empty() => Err(cursor.error_at_last()),
        UserName::Named(name) => Ok(name),
        UserName::Current => Err(cursor.error_at_last()),
    }
}

/// The roles in a text, such as the variable `mandatory_roles` has; none if it is no list of roles.
#[must_use]
pub fn roles_of(text: &str) -> Option<Vec<AccountName>> {
    let parsed = || -> Result<Vec<AccountName>> {
        let script = Script::new(text)?;
        let mut cursor = Cursor::new(script.whole());
        if cursor.at_end() {
            return Ok(Vec::new());
        }
        let roles = list(&mut cursor, role_name)?;
        match cursor.at_end() {
            true => Ok(roles),
            false => Err(SqlError::wrong_value_for_variable("mandatory_roles", text)),
        }
    };
    parsed().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::parse::account::tests::{named, parsed};

    fn role(name: &str) -> AccountName {
        AccountName::new(name, "%")
    }

    #[test]
    fn statements_about_roles() {
        let roles = vec![role("r"), AccountName::new("s", "h")];
        let users = vec![named("u", "%"), UserName::Current];
        for (text, expected) in [
            (
                "CREATE ROLE IF NOT EXISTS r, 's'@'h'",
                AccountStatement::CreateRoles {
                    if_not_exists: true,
                    roles: roles.clone(),
                },
            ),
            (
                "DROP ROLE r, s@h",
                AccountStatement::DropRoles {
                    if_exists: false,
                    roles: roles.clone(),
                },
            ),
            (
                "GRANT r, s@h TO u, CURRENT_USER() WITH ADMIN OPTION",
                AccountStatement::GrantRoles {
                    roles: roles.clone(),
                    users: users.clone(),
                    with_admin: true,
                },
            ),
            (
                "REVOKE r, `s`@`h` FROM u, CURRENT_USER",
                AccountStatement::RevokeRoles(roles.clone(), users.clone()),
            ),
            (
                "SET DEFAULT ROLE ALL TO u, CURRENT_USER",
                AccountStatement::SetDefaultRoles(RoleChoice::All, users),
            ),
            (
                "ALTER USER u DEFAULT ROLE r, s@h",
                AccountStatement::SetDefaultRoles(
                    RoleChoice::These(roles.clone()),
                    vec![named("u", "%")],
                ),
            ),
            (
                "SET ROLE ALL EXCEPT r, s@h",
                AccountStatement::SetRole(RoleChoice::AllExcept(roles)),
            ),
            (
                "SET ROLE DEFAULT",
                AccountStatement::SetRole(RoleChoice::Default),
            ),
            ("SET ROLE NONE", AccountStatement::SetRole(RoleChoice::None)),
            (
                "SET ROLE 'r'",
                AccountStatement::SetRole(RoleChoice::These(vec![role("r")])),
            ),
        ] {
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
        for text in [
            "CREATE ROLE",
            "CREATE ROLE ''",
            "CREATE ROLE select",
            "GRANT EXECUTE TO u",
            "GRANT r TO",
            "GRANT r TO u WITH GRANT OPTION",
            "SET ROLE DEFAULT, r",
            "SET DEFAULT ROLE DEFAULT TO u",
            "ALTER USER IF EXISTS u DEFAULT ROLE r",
            "ALTER USER u, v DEFAULT ROLE r",
        ] {
            assert_eq!(parsed(text).unwrap_err().errno, 1064, "{text}");
        }
    }

    #[test]
    fn roles_are_read_from_a_text() {
        let both = vec![role("r"), AccountName::new("s", "h")];
        assert_eq!(roles_of("r,'s'@'h'"), Some(both));
        assert_eq!(roles_of(" "), Some(Vec::new()));
        assert_eq!(roles_of("r,"), None);
        assert_eq!(roles_of("r s"), None);
    }
}
