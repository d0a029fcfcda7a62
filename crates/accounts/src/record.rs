//! The records in which a catalog keeps accounts. Their names and values are described in `docs/format/system.md`.

use std::collections::BTreeMap;

use perigee_types::{DecodeError, Reader, Writer};

use crate::{Account, AccountName, Accounts, Credential, Level, Plugin, Privileges};

/// Values of records by name.
pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Version of the records.
const VERSION: u8 = 1;

// In this order: accounts come before what is granted to them.
const ACCOUNT: u8 = b'a';
const GRANT: u8 = b'g';

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
        if version[..] != [VERSION] {
            return Err(DecodeError::new("accounts: unknown version"));
        }
        let mut all = Self::default();
        for (key, value) in records {
            match key.split_first() {
                None => {}
                Some((&ACCOUNT, key)) => {
                    let [user, host] = parts(key)?;
                    all.put(AccountName::new(user, host), decode_account(value)?);
                }
                Some((&GRANT, key)) => {
                    let [user, host, schema, table] = parts(key)?;
                    let mut r = Reader::new(value, "grant");
                    let privileges = Privileges::from_bits(r.u64()?);
                    r.finish()?;
                    let level = match table {
                        "" => Level::Schema(schema.to_owned()),
                        table => Level::Table(schema.to_owned(), table.to_owned()),
                    };
                    if !all.grant(&AccountName::new(user, host), &level, privileges) {
                        return Err(DecodeError::new("accounts: a grant to no account"));
                    }
                }
                Some(_) => return Err(DecodeError::new("accounts: a record of unknown kind")),
            }
        }
        Ok(all)
    }

    /// The records of these accounts.
    #[must_use]
    pub fn records(&self) -> Records {
        let mut records = Records::from([(Vec::new(), vec![VERSION])]);
        for (account_name, account) in self.iter() {
            let (user, host) = (account_name.user(), account_name.host());
            records.insert(name(ACCOUNT, &[user, host]), account_value(account));
            for (level, privileges) in self.levels(account_name) {
                let (schema, table) = match level {
                    Level::Global => continue,
                    Level::Schema(schema) => (schema.as_str(), ""),
                    Level::Table(schema, table) => (schema.as_str(), table.as_str()),
                };
                let value = privileges.bits().to_le_bytes().to_vec();
                records.insert(name(GRANT, &[user, host, schema, table]), value);
            }
        }
        records
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
        let schema = Level::Schema("my_%".into());
        let table = Level::Table("m".into(), "t".into());
        let some = Privileges::SELECT.with(Privileges::GRANT_OPTION);
        assert!(all.grant(&ann, &schema, some) && all.grant(&bob, &table, Privileges::INSERT));
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
