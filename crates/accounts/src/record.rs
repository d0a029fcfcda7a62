//! The records in which a catalog keeps accounts. Their names and values are described in `docs/format/system.md`.

use std::collections::BTreeMap;

use perigee_types::{DecodeError, Reader, Writer};

use crate::{
    Account, AccountName, Accounts, Credential, Level, Plugin, Privileges, RoleGrant, RoutineKind,
    SlowHash,
};

/// Values of records by name.
pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Version of the records.
const VERSION: u8 = 2;

/// The version before ROLE_ADMIN, which those get who had everything.
const BEFORE_ROLE_ADMIN: u8 = 1;

// In this order: accounts come before what is granted to them.
const ACCOUNT: u8 = b'a';
const COLUMN: u8 = b'c';
const DEFAULT_ROLE: u8 = b'd';
const FUNCTION: u8 = b'f';
const GRANT: u8 = b'g';
const PROCEDURE: u8 = b'p';
const ROLE: u8 = b'r';

const LOCKED: u8 = 1;
const EXPIRED: u8 = 2;

const NATIVE: u8 = 1;
const SHA2: u8 = 2;

fn name(kind: u8, parts: &[&str]) -> Vec<u8> {
    let mut name = vec![kind];
    name.extend_from_slice(parts.join("\0").as_bytes());
    name
}

fn account_value(account: &Account) -> Vec<u8> {
    let mut w = Writer::new();
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    w.u8(flag(account.locked, LOCKED) | flag(account.expired, EXPIRED));
    w.u8(match account.credential.plugin() {
        Plugin::NativePassword => NATIVE,
        Plugin::CachingSha2Password => SHA2,
    });
    w.u64(account.privileges.bits());
    match &account.credential {
        Credential::Empty(_) => {}
        Credential::Native(hash) => {
            w.raw(hash);
        }
        Credential::Sha2(hash) => {
            w.raw(hash);
        }
        Credential::Slow(hash) => {
            w.raw(&hash.to_bytes());
        }
    }
    w.into_bytes()
}

fn decode_account(value: &[u8]) -> Result<Account, DecodeError> {
    let mut r = Reader::new(value, "account");
    let flags = r.u8()?;
    let plugin = match r.u8()? {
        NATIVE => Plugin::NativePassword,
        SHA2 => Plugin::CachingSha2Password,
        _ => return Err(DecodeError::new("account: unknown plugin")),
    };
    let privileges = Privileges::from_bits(r.u64()?);
    let hash = r.raw(r.remaining())?;
    let wrong = |_| DecodeError::new("account: a hash of another length");
    let credential = match plugin {
        _ if hash.is_empty() => Credential::Empty(plugin),
        Plugin::NativePassword => Credential::Native(hash.try_into().map_err(wrong)?),
        Plugin::CachingSha2Password if hash.len() == SlowHash::LEN => {
            let slow = SlowHash::from_bytes(hash.try_into().map_err(wrong)?);
            Credential::Slow(slow.ok_or_else(|| DecodeError::new("account: a damaged hash"))?)
        }
        Plugin::CachingSha2Password => Credential::Sha2(hash.try_into().map_err(wrong)?),
    };
    Ok(Account {
        credential,
        locked: flags & LOCKED != 0,
        expired: flags & EXPIRED != 0,
        privileges,
    })
}

fn parts<const N: usize>(name: &[u8]) -> Result<[&str; N], DecodeError> {
    let wrong = || DecodeError::new("account: a damaged name");
    let text = std::str::from_utf8(name).map_err(|_| wrong())?;
    let parts: Vec<_> = text.split('\0').collect();
    parts.try_into().map_err(|_| wrong())
}

impl Accounts {
    /// Of records. Without any there is the first account.
    ///
    /// # Errors
    /// If one of them is damaged, or of a later version.
    pub fn decode(records: &Records) -> Result<Self, DecodeError> {
        let Some(version) = records.get(&[][..]) else {
            return match records.is_empty() {
                true => Ok(Self::first()),
                false => Err(DecodeError::new("accounts: no record of their version")),
            };
        };
        let version = match version[..] {
            [version @ (VERSION | BEFORE_ROLE_ADMIN)] => version,
            _ => return Err(DecodeError::new("accounts: unknown version")),
        };
        let mut all = Self::default();
        for (key, value) in records {
            match key.split_first() {
                None => {}
                Some((&ACCOUNT, key)) => {
                    let [user, host] = parts(key)?;
                    let mut account = decode_account(value)?;
                    if version == BEFORE_ROLE_ADMIN {
                        account.privileges = account.privileges.with_role_admin();
                    }
                    all.put(AccountName::new(user, host), account);
                }
                Some((&(ROLE | DEFAULT_ROLE), name)) => all.decode_role(key[0], name, value)?,
                Some((kind, name)) => {
                    let (account, level) = level(*kind, name)?;
                    let mut r = Reader::new(value, "grant");
                    let privileges = Privileges::from_bits(r.u64()?);
                    r.finish()?;
                    if !all.grant(&account, &level, privileges) {
                        return Err(DecodeError::new("accounts: a grant to no account"));
                    }
                }
            }
        }
        Ok(all)
    }

    fn decode_role(&mut self, kind: u8, name: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        let [user, host, role, role_host] = parts(name)?;
        let (account, role) = (
            AccountName::new(user, host),
            AccountName::new(role, role_host),
        );
        let mut r = Reader::new(value, "role");
        let is_done = match kind {
            DEFAULT_ROLE => self.add_default_role(&account, role),
            _ => {
                let with_admin = r.u8()? != 0;
                self.grant_role(&role, &account, with_admin) == RoleGrant::Done
            }
        };
        r.finish()?;
        match is_done {
            true => Ok(()),
            false => Err(DecodeError::new("accounts: a role that cannot be")),
        }
    }

    /// The records of these accounts.
    #[must_use]
    pub fn records(&self) -> Records {
        let mut records = Records::from([(Vec::new(), vec![VERSION])]);
        for (account_name, account) in self.iter() {
            let (user, host) = (account_name.user(), account_name.host());
            records.insert(name(ACCOUNT, &[user, host]), account_value(account));
            for (level, privileges) in self.levels(account_name) {
                let value = privileges.bits().to_le_bytes().to_vec();
                records.extend(level_name(level, [user, host]).map(|name| (name, value)));
            }
            let of_role =
                |kind: u8, role: &AccountName| name(kind, &[user, host, role.user(), role.host()]);
            for (role, with_admin) in self.roles_of(account_name) {
                records.insert(of_role(ROLE, role), vec![u8::from(with_admin)]);
            }
            for role in self.default_roles(account_name) {
                records.insert(of_role(DEFAULT_ROLE, role), Vec::new());
            }
        }
        records
    }
}

/// The name of the record of what is granted to an account at a level.
fn level_name(level: &Level, [user, host]: [&str; 2]) -> Option<Vec<u8>> {
    Some(match level {
        Level::Global => return None,
        Level::Schema(schema) => name(GRANT, &[user, host, schema, ""]),
        Level::Table(schema, table) => name(GRANT, &[user, host, schema, table]),
        Level::Column(schema, table, column) => name(COLUMN, &[user, host, schema, table, column]),
        Level::Routine(kind, schema, routine) => {
            let kind = match kind {
                RoutineKind::Function => FUNCTION,
                RoutineKind::Procedure => PROCEDURE,
            };
            name(kind, &[user, host, schema, routine])
        }
    })
}

/// The account and the level in the name of a record.
fn level(kind: u8, name: &[u8]) -> Result<(AccountName, Level), DecodeError> {
    let routine = |kind| {
        let [user, host, schema, routine] = parts(name)?;
        let level = Level::Routine(kind, schema.to_owned(), routine.to_owned());
        Ok::<_, DecodeError>((AccountName::new(user, host), level))
    };
    match kind {
        GRANT => {
            let [user, host, schema, table] = parts(name)?;
            let level = match table {
                "" => Level::Schema(schema.to_owned()),
                table => Level::Table(schema.to_owned(), table.to_owned()),
            };
            Ok((AccountName::new(user, host), level))
        }
        COLUMN => {
            let [user, host, schema, table, column] = parts(name)?;
            let level = Level::Column(schema.to_owned(), table.to_owned(), column.to_owned());
            Ok((AccountName::new(user, host), level))
        }
        FUNCTION => routine(RoutineKind::Function),
        PROCEDURE => routine(RoutineKind::Procedure),
        _ => Err(DecodeError::new("accounts: a record of unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use perigee_testkit::Fuzz;

    fn some() -> Accounts {
        let mut all = Accounts::first();
        let ann = AccountName::new("ann", "10.0.%");
        let account = Account {
            credential: Credential::of_password(Plugin::NativePassword, "secret"),
            locked: true,
            ..Account::default()
        };
        assert!(all.put(ann.clone(), account));
        let bob = AccountName::new("bob", "%");
        let account = Account {
            credential: Credential::of_password(Plugin::CachingSha2Password, "secret"),
            expired: true,
            privileges: Privileges::PROCESS,
            ..Account::default()
        };
        assert!(all.put(bob.clone(), account));
        let slow = format!("$A$005${}{}", "s".repeat(20), "d".repeat(43));
        let account = Account {
            credential: Credential::from_text(Plugin::CachingSha2Password, &slow).unwrap(),
            ..Account::default()
        };
        assert!(all.put(AccountName::new("slow", "%"), account));
        let schema = Level::Schema("my_%".into());
        let table = Level::Table("m".into(), "t".into());
        let some = Privileges::SELECT.with(Privileges::GRANT_OPTION);
        assert!(all.grant(&ann, &schema, some) && all.grant(&bob, &table, Privileges::INSERT));
        let column = Level::Column("m".into(), "t".into(), "a".into());
        assert!(all.grant(&bob, &column, Privileges::SELECT));
        for kind in [RoutineKind::Function, RoutineKind::Procedure] {
            let routine = Level::Routine(kind, "m".into(), "p".into());
            assert!(all.grant(&bob, &routine, Privileges::EXECUTE));
        }
        assert_eq!(all.grant_role(&ann, &bob, true), RoleGrant::Done);
        assert!(all.add_default_role(&bob, ann));
        all
    }

    #[test]
    fn accounts_come_back_from_their_records() {
        for all in [Accounts::first(), some(), Accounts::default()] {
            assert_eq!(Accounts::decode(&all.records()).unwrap(), all);
        }
        assert_eq!(
            Accounts::decode(&Records::new()).unwrap(),
            Accounts::first()
        );
    }

    #[test]
    fn who_had_everything_before_roles_may_grant_them() {
        let mut records = some().records();
        records.insert(Vec::new(), vec![BEFORE_ROLE_ADMIN]);
        let root = AccountName::new("root", "localhost");
        let all = Privileges::everything().without(Privileges::ROLE_ADMIN);
        let account = Account {
            privileges: all,
            ..Account::default()
        };
        let root_name = name(ACCOUNT, &["root", "localhost"]);
        records.insert(root_name, account_value(&account));
        let decoded = Accounts::decode(&records).unwrap();
        let privileges = |name: &AccountName| decoded.get(name).unwrap().privileges;
        assert_eq!(privileges(&root), Privileges::everything());
        assert_eq!(
            privileges(&AccountName::new("bob", "%")),
            Privileges::PROCESS
        );
        assert_eq!(decoded.records()[&[][..]], [VERSION]);
    }

    #[test]
    fn records_of_another_version_are_refused() {
        let mut records = some().records();
        records.insert(Vec::new(), vec![VERSION + 1]);
        assert!(Accounts::decode(&records).is_err());
        records.remove(&[][..]);
        assert!(Accounts::decode(&records).is_err());
    }

    #[test]
    fn damaged_records_are_refused_or_mean_something() {
        let corpus = some().records().into_iter().map(|(key, value)| {
            let mut bytes = vec![key.len() as u8];
            bytes.extend(key);
            bytes.extend(value);
            bytes
        });
        Fuzz::new(corpus).run("records of accounts", |bytes| {
            let Some((len, rest)) = bytes.split_first() else {
                return false;
            };
            let (key, value) = rest.split_at(rest.len().min(usize::from(*len)));
            let mut records = Records::from([(Vec::new(), vec![VERSION])]);
            records.insert(key.to_vec(), value.to_vec());
            Accounts::decode(&records).is_ok_and(|all| {
                assert_eq!(Accounts::decode(&all.records()).unwrap(), all);
                true
            })
        });
    }
}
