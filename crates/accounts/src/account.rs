//! One account: its name, what checks its password, its state, and what it may do everywhere.

use std::fmt;

use crate::{Credential, Plugin, Privileges, is_valid_host};

/// Most characters of a user's name, as in MySQL.
const MAX_USER: usize = 32;

/// A user and the host pattern of the clients that it may come from. Users compare with case, hosts without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName {
    user: String,
    host: String,
}

impl AccountName {
    /// The name of an account.
    #[must_use]
    pub fn new(user: impl Into<String>, host: &str) -> Self {
        Self {
            user: user.into(),
            host: host.to_lowercase(),
        }
    }

    /// The user; empty for anybody.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The host pattern.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// True if an account may be called so.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let printable = !self.user.chars().any(char::is_control);
        printable && self.user.chars().count() <= MAX_USER && is_valid_host(&self.host)
    }

    /// True if a user's name is too long.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.user.chars().count() > MAX_USER
    }

    /// As statements write it: with backticks.
    #[must_use]
    pub fn in_backticks(&self) -> String {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        format!("{}@{}", quoted(&self.user), quoted(&self.host))
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'@'{}'", self.user, self.host)
    }
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// What checks its password.
    pub credential: Credential,
    /// Nobody may log in to it.
    pub locked: bool,
    /// Whoever logs in has to change the password first.
    pub expired: bool,
    /// What it may do everywhere.
    pub privileges: Privileges,
}

impl Account {
    /// The account that a new database has.
    pub(crate) fn first() -> (AccountName, Self) {
        let account = Self {
            credential: Credential::Empty(Plugin::default()),
            privileges: Privileges::everything(),
            ..Self::default()
        };
        (AccountName::new("root", "localhost"), account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_with_their_quotes() {
        let name = AccountName::new("o`hara", "LOCALHOST");
        assert_eq!(name.to_string(), "'o`hara'@'localhost'");
        assert_eq!(name.in_backticks(), "`o``hara`@`localhost`");
        assert!(name.is_valid());
    }

    #[test]
    fn what_is_too_long_or_not_printable_is_no_name() {
        for (user, host) in [("a\0b", "%"), ("a", "h\u{0}"), ("a", "x@y")] {
            assert!(
                !AccountName::new(user, host).is_valid(),
                "{user:?} {host:?}"
            );
        }
        let long = AccountName::new("u".repeat(33), "%");
        assert!(!long.is_valid() && long.is_too_long());
        assert!(!AccountName::new("u", &"h".repeat(256)).is_valid());
        assert!(AccountName::new("u".repeat(32), "%").is_valid());
    }
}
