//! What statements about accounts say: CREATE, ALTER, DROP and RENAME USER, SET PASSWORD.

use perigee_accounts::{AccountName, Credential, Plugin};
use sqlparser::tokenizer::Token;

use super::Cursor;
use super::grant::Grant;
use super::role::{RoleChoice, default_roles, role_name};
use crate::error::{Result, SqlError};

/// Most accounts that a statement names.
const MAX_USERS: usize = 1000;

/// An account in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserName {
    /// CURRENT_USER.
    Current,
    /// By its name.
    Named(AccountName),
}

/// IDENTIFIED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identified {
    /// BY: a new password for the plugin, or for the one that the account has.
    By(Option<Plugin>, Secret),
    /// WITH a plugin, perhaps AS what it keeps of a password.
    As(Credential),
}

/// A password, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

/// An account and how it is to prove who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: UserName,
    /// IDENTIFIED.
    pub identified: Option<Identified>,
}

/// What else CREATE and ALTER USER say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// ACCOUNT LOCK and UNLOCK.
    pub lock: Option<bool>,
    /// PASSWORD EXPIRE, and what says that it does not.
    pub expire: Option<bool>,
}

/// A statement about accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountStatement {
    /// CREATE USER.
    Create {
        /// Do not fail if one exists.
        if_not_exists: bool,
        /// The accounts.
        users: Vec<User>,
        /// Roles that they get and that are active after a login.
        default_roles: Vec<AccountName>,
        /// For all of them.
        options: Options,
    },
    /// ALTER USER.
    Alter {
        /// Do not fail if one is missing.
        if_exists: bool,
        /// The accounts.
        users: Vec<User>,
        /// For all of them.
        options: Options,
    },
    /// DROP USER.
    Drop {
        /// Do not fail if one is missing.
        if_exists: bool,
        /// The accounts.
        users: Vec<UserName>,
    },
    /// RENAME USER: from and to.
    Rename(Vec<(UserName, UserName)>),
    /// SET PASSWORD.
    SetPassword(UserName, Secret),
    /// GRANT.
    Grant(Grant),
    /// REVOKE.
    Revoke(Grant),
    /// REVOKE ALL PRIVILEGES, GRANT OPTION.
    RevokeEverything(Vec<UserName>),
    /// CREATE ROLE.
    CreateRoles {
        /// Do not fail if one exists.
        if_not_exists: bool,
        /// The roles.
        roles: Vec<AccountName>,
    },
    /// DROP ROLE.
    DropRoles {
        /// Do not fail if one is missing.
        if_exists: bool,
        /// The roles.
        roles: Vec<AccountName>,
    },
    /// GRANT of roles.
    GrantRoles {
        /// Which.
        roles: Vec<AccountName>,
        /// To whom.
        users: Vec<UserName>,
        /// WITH ADMIN OPTION.
        with_admin: bool,
    },
    /// REVOKE of roles: which, and from whom.
    RevokeRoles(Vec<AccountName>, Vec<UserName>),
    /// SET DEFAULT ROLE, and ALTER USER … DEFAULT ROLE.
    SetDefaultRoles(RoleChoice, Vec<UserName>),
    /// SET ROLE, which changes the session only.
    SetRole(RoleChoice),
}

/// CREATE USER, behind CREATE.
pub(super) fn create(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("USER")?;
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    Ok(AccountStatement::Create {
        if_not_exists,
        users: list(&mut cursor, user)?,
        default_roles: match cursor.accept_all(&["DEFAULT", "ROLE"]) {
            true => list(&mut cursor, role_name)?,
            false => Vec::new(),
        },
        options: options(&mut cursor)?,
    })
}

/// ALTER USER, behind ALTER.
pub(super) fn alter(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("USER")?;
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let users = list(&mut cursor, user)?;
    if let ([one], true) = (&users[..], cursor.accept_all(&["DEFAULT", "ROLE"])) {
        if if_exists || one.identified.is_some() {
            return Err(cursor.error_at_last());
        }
        let choice = default_roles(&mut cursor)?;
        cursor.end()?;
        return Ok(AccountStatement::SetDefaultRoles(
            choice,
            vec![one.name.clone()],
        ));
    }
    Ok(AccountStatement::Alter {
        if_exists,
        users,
        options: options(&mut cursor)?,
    })
}

/// DROP USER, behind DROP.
pub(super) fn drop(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("USER")?;
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let users = list(&mut cursor, user_name)?;
    cursor.end()?;
    Ok(AccountStatement::Drop { if_exists, users })
}

/// RENAME USER, behind RENAME.
pub(super) fn rename(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("USER")?;
    let renames = list(&mut cursor, |cursor| {
        let from = user_name(cursor)?;
        cursor.expect_word("TO")?;
        Ok((from, user_name(cursor)?))
    })?;
    cursor.end()?;
    Ok(AccountStatement::Rename(renames))
}

/// SET PASSWORD, behind SET.
pub(super) fn set_password(mut cursor: Cursor<'_>) -> Result<AccountStatement> {
    cursor.expect_word("PASSWORD")?;
    let name = match cursor.accept("FOR") {
        true => user_name(&mut cursor)?,
        false => UserName::Current,
    };
    if cursor.accept("TO") {
        return Err(SqlError::not_supported("SET PASSWORD TO RANDOM"));
    }
    cursor.expect(&Token::Eq)?;
    let password = Secret(cursor.string()?);
    refuse_clauses(&cursor, &["REPLACE", "RETAIN"], "in SET PASSWORD")?;
    cursor.end()?;
    Ok(AccountStatement::SetPassword(name, password))
}

/// An account's name.
pub(super) fn user_name(cursor: &mut Cursor<'_>) -> Result<UserName> {
    if cursor.accept("CURRENT_USER") {
        if cursor.accept_token(&Token::LParen) {
            cursor.expect(&Token::RParen)?;
        }
        return Ok(UserName::Current);
    }
    let (user, host) = match cursor.peek() {
        Some(Token::SingleQuotedString(user) | Token::DoubleQuotedString(user)) => {
            cursor.next();
            (user.clone(), host(cursor)?)
        }
        Some(Token::Word(word)) if word.quote_style.is_some() => {
            cursor.next();
            (word.value.clone(), host(cursor)?)
        }
        // Without quotes the tokenizer takes `user@` and `user@host` for one word.
        Some(Token::Word(word)) => {
            cursor.next();
            match word.value.split_once('@') {
                Some((user, "")) => (user.to_owned(), Some(cursor.name()?)),
                Some((user, host)) => (user.to_owned(), Some(host.to_owned())),
                None => (word.value.clone(), host(cursor)?),
            }
        }
        _ => return Err(cursor.error()),
    };
    let name = AccountName::new(user, host.as_deref().unwrap_or("%"));
    if name.is_too_long() {
        let user = name.user().to_owned();
        return Err(SqlError::user_too_long(user));
    }
    if !name.is_valid() {
        return Err(cursor.error_at_last());
    }
    Ok(UserName::Named(name))
}

/// `@host` behind a user.
fn host(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    match cursor.peek() {
        Some(Token::AtSign) => {
            cursor.next();
            cursor.name().map(Some)
        }
        Some(Token::Word(word)) if word.quote_style.is_none() && word.value.starts_with('@') => {
            cursor.next();
            match &word.value[1..] {
                "" => cursor.name().map(Some),
                host => Ok(Some(host.to_owned())),
            }
        }
        _ => Ok(None),
    }
}

/// Things between commas; at least one.
pub(super) fn list<T>(
    cursor: &mut Cursor<'_>,
    mut one: impl FnMut(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut all = vec![one(cursor)?];
    while cursor.accept_token(&Token::Comma) {
        if all.len() == MAX_USERS {
            let most = format!("more than {MAX_USERS} accounts in one statement");
            return Err(SqlError::not_supported(most));
        }
        all.push(one(cursor)?);
    }
    Ok(all)
}

/// Error 1235 if one of these words follows.
pub(super) fn refuse_clauses(cursor: &Cursor<'_>, words: &[&str], place: &str) -> Result<()> {
    for word in words {
        if cursor.peek_any(&[word]) {
            return Err(SqlError::not_supported(format!("{word} {place}")));
        }
    }
    Ok(())
}

fn user(cursor: &mut Cursor<'_>) -> Result<User> {
    let name = user_name(cursor)?;
    let identified = match cursor.accept("IDENTIFIED") {
        true => Some(identified(cursor)?),
        false => None,
    };
    let unsupported = ["REPLACE", "RETAIN", "DISCARD", "AND", "INITIAL"];
    refuse_clauses(cursor, &unsupported, "behind IDENTIFIED")?;
    Ok(User { name, identified })
}

/// What follows IDENTIFIED.
fn identified(cursor: &mut Cursor<'_>) -> Result<Identified> {
    let mut plugin = None;
    if cursor.accept("WITH") {
        let name = cursor.name()?;
        plugin = Some(Plugin::by_name(&name).ok_or_else(|| SqlError::unknown_plugin(&name))?);
    }
    if cursor.accept("BY") {
        refuse_clauses(cursor, &["RANDOM"], "PASSWORD")?;
        return Ok(Identified::By(plugin, Secret(cursor.string()?)));
    }
    let Some(plugin) = plugin else {
        return Err(cursor.error());
    };
    if !cursor.accept("AS") {
        return Ok(Identified::As(Credential::Empty(plugin)));
    }
    let kept = kept(cursor)?;
    match Credential::from_text(plugin, &kept) {
        Some(credential) => Ok(Identified::As(credential)),
        None => Err(SqlError::password_format()),
    }
}

/// What a plugin keeps of a password, which a hash with bytes that do not print may be written in hexadecimal digits.
fn kept(cursor: &mut Cursor<'_>) -> Result<String> {
    let Some(Token::HexStringLiteral(digits)) = cursor.peek() else {
        return cursor.string();
    };
    let byte = |pair: &[u8]| {
        let pair = str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    let text = bytes.filter(|_| digits.len() % 2 == 0);
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    cursor.next();
    text.ok_or_else(SqlError::password_format)
}

/// What stands behind the accounts of CREATE and ALTER USER. What says how things are anyway is accepted.
fn options(cursor: &mut Cursor<'_>) -> Result<Options> {
    let mut options = Options::default();
    if cursor.accept("REQUIRE") && !cursor.accept("NONE") {
        let what = format!("REQUIRE {}", cursor.word());
        return Err(SqlError::not_supported(what.trim()));
    }
    while !cursor.at_end() {
        if cursor.accept_all(&["ACCOUNT", "LOCK"]) {
            options.lock = Some(true);
        } else if cursor.accept_all(&["ACCOUNT", "UNLOCK"]) {
            options.lock = Some(false);
        } else if cursor.accept_all(&["PASSWORD", "EXPIRE"]) {
            options.expire = Some(expire(cursor)?);
        } else if cursor.accept("PASSWORD") {
            unchanged_policy(cursor)?;
        } else {
            let word = cursor.word();
            return match word.as_str() {
                "WITH"
                | "COMMENT"
                | "ATTRIBUTE"
                | "FAILED_LOGIN_ATTEMPTS"
                | "PASSWORD_LOCK_TIME"
                | "REGISTRATION" => Err(SqlError::not_supported(format!("{word} of an account"))),
                _ => Err(cursor.error_at_last()),
            };
        }
    }
    Ok(options)
}

/// What follows PASSWORD EXPIRE: passwords expire only by that statement.
fn expire(cursor: &mut Cursor<'_>) -> Result<bool> {
    if cursor.accept("DEFAULT") || cursor.accept("NEVER") {
        return Ok(false);
    }
    refuse_clauses(cursor, &["INTERVAL"], "of PASSWORD EXPIRE")?;
    Ok(true)
}

/// Policies of passwords, of which there is the default only.
fn unchanged_policy(cursor: &mut Cursor<'_>) -> Result<()> {
    for policy in [
        &["HISTORY", "DEFAULT"][..],
        &["REUSE", "INTERVAL", "DEFAULT"],
        &["REQUIRE", "CURRENT", "DEFAULT"],
        &["REQUIRE", "CURRENT", "OPTIONAL"],
    ] {
        if cursor.accept_all(policy) {
            return Ok(());
        }
    }
    let what = format!("PASSWORD {}", cursor.word());
    Err(SqlError::not_supported(what.trim()))
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::parse::{Script, Statement};

    pub(in crate::parse) fn parsed(text: &str) -> Result<AccountStatement> {
        let script = Script::new(text)?;
        match script.pieces().next().unwrap().parse()? {
            Statement::Account(statement) => Ok(*statement),
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::parse) fn named(user: &str, host: &str) -> UserName {
        UserName::Named(AccountName::new(user, host))
    }

    #[test]
    fn names_of_accounts_in_every_form() {
        for (text, expected) in [
            ("'u'@'h'", named("u", "h")),
            ("'u'@h", named("u", "h")),
            ("u@'10.0.%'", named("u", "10.0.%")),
            ("u@localhost", named("u", "localhost")),
            ("`u`@`H`", named("u", "h")),
            ("\"u\" @ \"h\"", named("u", "h")),
            ("'u'", named("u", "%")),
            ("u", named("u", "%")),
            ("''@'localhost'", named("", "localhost")),
            ("CURRENT_USER", UserName::Current),
            ("current_user()", UserName::Current),
        ] {
            let users = vec![expected];
            let if_exists = false;
            let drop = AccountStatement::Drop { if_exists, users };
            assert_eq!(
                parsed(&format!("DROP USER {text}")).as_ref(),
                Ok(&drop),
                "{text}"
            );
        }
        for (text, errno) in [
            ("DROP USER", 1064),
            ("DROP USER u@", 1064),
            ("DROP USER 'u'@", 1064),
            ("DROP USER 'u'@'h' 'v'", 1064),
            ("DROP USER 1", 1064),
            ("DROP USER 'a'@'b@c'", 1064),
            ("DROP USER abcdefghijklmnopqrstuvwxyz1234567", 1470),
        ] {
            assert_eq!(parsed(text).unwrap_err().errno, errno, "{text}");
        }
    }

    #[test]
    fn passwords_and_options() {
        let text = "CREATE USER IF NOT EXISTS a IDENTIFIED BY 'x', 'b'@'h' IDENTIFIED WITH \
                    mysql_native_password BY 'y' REQUIRE NONE PASSWORD EXPIRE ACCOUNT LOCK \
                    PASSWORD HISTORY DEFAULT";
        let secret = |text: &str| Secret(text.to_owned());
        let users = vec![
            User {
                name: named("a", "%"),
                identified: Some(Identified::By(None, secret("x"))),
            },
            User {
                name: named("b", "h"),
                identified: Some(Identified::By(Some(Plugin::NativePassword), secret("y"))),
            },
        ];
        let statement = parsed(text).unwrap();
        assert!(
            !format!("{statement:?}").contains("\"x\""),
            "a password is not printed"
        );
        let options = Options {
            lock: Some(true),
            expire: Some(true),
        };
        let expected = AccountStatement::Create {
            if_not_exists: true,
            users,
            default_roles: Vec::new(),
            options,
        };
        assert_eq!(statement, expected);
        for (text, errno) in [
            ("CREATE USER a IDENTIFIED BY", 1064),
            ("CREATE USER a IDENTIFIED 'x'", 1064),
            ("CREATE USER a IDENTIFIED WITH sha256_password BY 'x'", 1524),
            (
                "CREATE USER a IDENTIFIED WITH mysql_native_password AS 'x'",
                1827,
            ),
            (
                "CREATE USER a IDENTIFIED WITH caching_sha2_password AS 0x2441",
                1827,
            ),
            ("CREATE USER a IDENTIFIED BY RANDOM PASSWORD", 1235),
            ("CREATE USER a REQUIRE SSL", 1235),
            ("CREATE USER a WITH MAX_QUERIES_PER_HOUR 1", 1235),
            ("ALTER USER a PASSWORD EXPIRE INTERVAL 3 DAY", 1235),
            ("ALTER USER a ACCOUNT", 1064),
            ("SET PASSWORD TO RANDOM", 1235),
            ("SET PASSWORD = PASSWORD('x')", 1064),
        ] {
            assert_eq!(parsed(text).unwrap_err().errno, errno, "{text}");
        }
    }
}
