//! [`Accounts`]: all accounts and what is granted to them, and how they are changed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::host::specificity;
use crate::roles::Roles;
use crate::{Account, AccountName, Credential, Plugin, Privileges, Scope, matches_host};

/// What a grant is for. Names are in lower case; a schema's may have wildcards unless a table's follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `*.*`.
    Global,
    /// `schema.*`.
    Schema(String),
    /// `schema.table`.
    Table(String, String),
    /// A column: of a schema and a table.
    Column(String, String, String),
    /// A routine: of a kind, with its schema.
    Routine(RoutineKind, String, String),
}

impl Level {
    /// What kind of level it is.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self {
            Self::Global => Scope::Global,
            Self::Schema(_) => Scope::Schema,
            Self::Table(..) => Scope::Table,
            Self::Column(..) => Scope::Column,
            Self::Routine(..) => Scope::Routine,
        }
    }

    /// True for the level itself, and for the columns of a table.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Table(schema, table), Self::Column(own, of, _)) => schema == own && table == of,
            _ => self == other,
        }
    }
}

/// A kind of routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutineKind {
    /// A stored function.
    Function,
    /// A procedure.
    Procedure,
}

impl RoutineKind {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "FUNCTION",
            Self::Procedure => "PROCEDURE",
        }
    }
}

/// All accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    accounts: BTreeMap<AccountName, Account>,
    /// What is granted for schemas, tables, columns and routines; nowhere nothing.
    grants: BTreeMap<AccountName, BTreeMap<Level, Privileges>>,
    /// The roles of accounts; nowhere none.
    pub(crate) roles: BTreeMap<AccountName, Roles>,
}

impl Accounts {
    /// The accounts of a new database.
    #[must_use]
    pub fn first() -> Self {
        Self {
            accounts: BTreeMap::from([Account::first()]),
            ..Self::default()
        }
    }

    /// All accounts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&AccountName, &Account)> {
        self.accounts.iter()
    }

    /// An account.
    #[must_use]
    pub fn get(&self, name: &AccountName) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// An account, to be changed.
    pub fn get_mut(&mut self, name: &AccountName) -> Option<&mut Account> {
        self.accounts.get_mut(name)
    }

    /// One account alone, with what is granted to it, without roles.
    #[must_use]
    pub fn only(&self, name: &AccountName) -> Self {
        let own = |(own, account): (&AccountName, &Account)| (own.clone(), account.clone());
        let account = self.accounts.get_key_value(name).map(own);
        let grants = self.grants.get(name);
        Self {
            accounts: account.into_iter().collect(),
            grants: grants
                .map(|own| (name.clone(), own.clone()))
                .into_iter()
                .collect(),
            roles: BTreeMap::new(),
        }
    }

    /// The account that a client logs in to who says that it is `user`.
    #[must_use]
    pub fn of_client(&self, user: &str, client: IpAddr) -> Option<(&AccountName, &Account)> {
        let of_user = |user: &str| {
            let first = AccountName::new(user, "");
            let of_user = user.to_owned();
            self.accounts
                .range(first..)
                .take_while(move |(name, _)| name.user() == of_user)
        };
        let fitting = of_user(user).chain(of_user(""));
        let fitting = fitting.filter(|(name, _)| matches_host(name.host(), client));
        fitting.min_by_key(|(name, _)| (specificity(name.host()), name.user().is_empty()))
    }

    /// True if somebody may log in as root without a password.
    #[must_use]
    pub fn has_open_root(&self) -> bool {
        let open = |account: &Account| account.credential.is_empty() && !account.locked;
        self.iter()
            .any(|(name, account)| name.user() == "root" && open(account))
    }

    /// Gives root a password where it has none, and an account for every host with the same.
    pub fn give_root(&mut self, password: &str) {
        let credential = Credential::of_password(Plugin::default(), password);
        for (name, account) in &mut self.accounts {
            if name.user() == "root" && account.credential.is_empty() {
                account.credential = credential.clone();
            }
        }
        let account = Account {
            credential,
            privileges: Privileges::everything(),
            ..Account::default()
        };
        self.put(AccountName::new("root", "%"), account);
    }

    /// Adds an account; false if there is one of this name.
    pub fn put(&mut self, name: AccountName, account: Account) -> bool {
        if self.accounts.contains_key(&name) {
            return false;
        }
        self.accounts.insert(name, account);
        true
    }

    /// Removes an account with all that is granted to it; false if there is none.
    pub fn remove(&mut self, name: &AccountName) -> bool {
        self.grants.remove(name);
        self.forget_roles(name);
        self.accounts.remove(name).is_some()
    }

    /// Renames an account; false if there is none, or another one has the name.
    pub fn rename(&mut self, from: &AccountName, to: AccountName) -> bool {
        if self.accounts.contains_key(&to) {
            return false;
        }
        let Some(account) = self.accounts.remove(from) else {
            return false;
        };
        if let Some(grants) = self.grants.remove(from) {
            self.grants.insert(to.clone(), grants);
        }
        if let Some(roles) = self.roles.remove(from) {
            self.roles.insert(to.clone(), roles);
        }
        self.accounts.insert(to, account);
        true
    }

    /// Grants privileges; false if there is no such account.
    pub fn grant(&mut self, name: &AccountName, level: &Level, privileges: Privileges) -> bool {
        let Some(account) = self.accounts.get_mut(name) else {
            return false;
        };
        match level {
            Level::Global => account.privileges = account.privileges.with(privileges),
            _ if privileges.is_none() => {}
            level => {
                let grants = self.grants.entry(name.clone()).or_default();
                let granted = grants.entry(level.clone()).or_default();
                *granted = granted.with(privileges);
            }
        }
        true
    }

    /// Takes privileges back, for a table also those of its columns; false if nothing is granted at that level.
    pub fn revoke(&mut self, name: &AccountName, level: &Level, privileges: Privileges) -> bool {
        let Some(account) = self.accounts.get_mut(name) else {
            return false;
        };
        if *level == Level::Global {
            account.privileges = account.privileges.without(privileges);
            return true;
        }
        let Some(grants) = self.grants.get_mut(name) else {
            return false;
        };
        let mut found = false;
        for (_, granted) in grants.iter_mut().filter(|(own, _)| level.covers(own)) {
            *granted = granted.without(privileges);
            found = true;
        }
        grants.retain(|_, granted| !granted.is_none());
        if grants.is_empty() {
            self.grants.remove(name);
        }
        found
    }

    /// Takes back what is granted for a routine, which is dropped.
    pub fn forget_routine(&mut self, kind: RoutineKind, schema: &str, name: &str) {
        let level = Level::Routine(kind, schema.to_owned(), name.to_owned());
        self.grants.retain(|_, grants| {
            grants.remove(&level);
            !grants.is_empty()
        });
    }

    /// Takes everything back, but not roles; false if there is no such account.
    pub fn revoke_everything(&mut self, name: &AccountName) -> bool {
        let Some(account) = self.accounts.get_mut(name) else {
            return false;
        };
        account.privileges = Privileges::NONE;
        self.grants.remove(name);
        true
    }

    /// What is granted to an account at other levels than everywhere.
    pub fn levels(&self, name: &AccountName) -> impl Iterator<Item = (&Level, Privileges)> {
        let grants = self.grants.get(name).into_iter().flatten();
        grants.map(|(level, privileges)| (level, *privileges))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn with(names: &[(&str, &str)]) -> Accounts {
        let mut all = Accounts::default();
        for (user, host) in names {
            assert!(all.put(AccountName::new(*user, host), Account::default()));
        }
        all
    }

    #[test]
    fn the_most_specific_host_decides_then_the_named_user() {
        let all = with(&[
            ("ann", "%"),
            ("ann", "10.0.0.%"),
            ("ann", "10.0.0.7"),
            ("", "localhost"),
            ("bob", "%"),
            ("bob", "localhost"),
        ]);
        for (user, client, expected) in [
            ("ann", "10.0.0.7", Some("'ann'@'10.0.0.7'")),
            ("ann", "10.0.0.8", Some("'ann'@'10.0.0.%'")),
            ("ann", "10.0.1.8", Some("'ann'@'%'")),
            // As in MySQL, which surprises many.
            ("ann", "127.0.0.1", Some("''@'localhost'")),
            ("bob", "127.0.0.1", Some("'bob'@'localhost'")),
            ("anybody", "127.0.0.1", Some("''@'localhost'")),
            ("anybody", "10.0.0.7", None),
            ("Ann", "10.0.0.7", None),
        ] {
            let found = all.of_client(user, client.parse().unwrap());
            let found = found.map(|(name, _)| name.to_string());
            assert_eq!(found.as_deref(), expected, "{user} {client}");
        }
    }

    #[test]
    fn a_new_database_lets_root_in_from_loopback_only() {
        let all = Accounts::first();
        let client = |address: &str| all.of_client("root", address.parse().unwrap());
        let (name, account) = client("127.0.0.1").unwrap();
        assert!(account.privileges.has(Privileges::everything()));
        assert!(client("::1").is_some() && client("10.0.0.1").is_none());
        assert!(all.has_open_root());
        let mut all = all.clone();
        all.get_mut(name).unwrap().locked = true;
        assert!(!all.has_open_root());
    }

    #[test]
    fn root_can_be_given_a_password_for_every_host() {
        let mut all = Accounts::first();
        all.give_root("secret");
        assert!(!all.has_open_root());
        for client in ["127.0.0.1", "10.0.0.1"] {
            let (_, root) = all.of_client("root", client.parse().unwrap()).unwrap();
            assert!(root.privileges.has(Privileges::everything()));
        }
        let before = all.clone();
        all.give_root("another");
        assert_eq!(all, before, "it has one");
    }

    #[test]
    fn what_is_granted_can_be_revoked_and_goes_with_the_account() {
        let mut all = with(&[("ann", "%")]);
        let ann = AccountName::new("ann", "%");
        let level = Level::Schema("m".into());
        let both = Privileges::SELECT.with(Privileges::INSERT);
        assert!(!all.revoke(&ann, &level, both), "nothing is granted there");
        assert!(all.grant(&ann, &level, both));
        assert!(all.revoke(&ann, &level, Privileges::SELECT));
        let left: Vec<_> = all.levels(&ann).map(|(_, left)| left).collect();
        assert_eq!(left, [Privileges::INSERT]);
        let other = AccountName::new("other", "%");
        assert!(all.rename(&ann, other.clone()) && !all.rename(&ann, other.clone()));
        assert_eq!(all.levels(&other).count(), 1);
        assert!(all.revoke(&other, &level, both));
        assert_eq!(all.levels(&other).count(), 0);
        assert!(all.grant(&other, &level, both) && all.remove(&other));
        assert!(!all.grant(&other, &level, both) && !all.remove(&other));
        assert!(all.put(other.clone(), Account::default()));
        assert_eq!(
            all.levels(&other).count(),
            0,
            "a new account has nothing of it"
        );
    }

    #[test]
    fn what_is_revoked_for_a_table_is_revoked_for_its_columns() {
        let mut all = with(&[("ann", "%")]);
        let ann = AccountName::new("ann", "%");
        let column = |name: &str| Level::Column("m".into(), "t".into(), name.into());
        assert!(all.grant(&ann, &column("a"), Privileges::SELECT));
        assert!(all.grant(&ann, &column("b"), Privileges::OF_COLUMNS));
        let table = Level::Table("m".into(), "t".into());
        assert!(all.revoke(&ann, &table, Privileges::SELECT));
        let left: Vec<_> = all.levels(&ann).map(|(level, _)| level.clone()).collect();
        assert_eq!(left, [column("b")]);
        let other = Level::Table("m".into(), "u".into());
        assert!(!all.revoke(&ann, &other, Privileges::SELECT));
    }

    #[test]
    fn what_is_granted_for_a_routine_goes_with_it() {
        let mut all = with(&[("ann", "%")]);
        let ann = AccountName::new("ann", "%");
        let level = |kind| Level::Routine(kind, "m".into(), "p".into());
        for kind in [RoutineKind::Function, RoutineKind::Procedure] {
            assert!(all.grant(&ann, &level(kind), Privileges::EXECUTE));
        }
        all.forget_routine(RoutineKind::Procedure, "m", "p");
        let left: Vec<_> = all.levels(&ann).map(|(level, _)| level.clone()).collect();
        assert_eq!(left, [level(RoutineKind::Function)]);
    }

    #[test]
    fn everything_can_be_taken_back() {
        let mut all = Accounts::first();
        let root = AccountName::new("root", "localhost");
        all.grant(&root, &Level::Schema("m".into()), Privileges::SELECT);
        assert!(all.revoke_everything(&root));
        assert!(!all.grants_of(&root, &[]).sees_schema("m"));
    }
}
