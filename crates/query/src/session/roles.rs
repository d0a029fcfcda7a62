//! Roles of accounts, and those that are active in a session.

use perigee_accounts::{Account, AccountName, Accounts, Privileges, RoleGrant};

use super::accounts::name_of;
use super::variables::{ACTIVATE_ALL_ROLES, MANDATORY_ROLES};
use super::{Frontend, Session};
use crate::error::{Result, SqlError};
use crate::parse::{RoleChoice, UserName, roles_of};

impl Frontend {
    /// The roles that everybody has: those of `mandatory_roles`, whether they exist or not.
    pub(super) fn mandatory_roles(&self) -> Vec<AccountName> {
        let globals = self.globals.read();
        let text = globals.get(MANDATORY_ROLES).ok().flatten();
        text.and_then(roles_of).unwrap_or_default()
    }

    /// The roles that an account may make active.
    pub(super) fn granted_roles(
        &self,
        accounts: &Accounts,
        name: &AccountName,
    ) -> Vec<AccountName> {
        let mandatory = self.mandatory_roles().into_iter();
        let mandatory = mandatory.filter(|role| role != name && accounts.get(role).is_some());
        let own = accounts.roles_of(name).map(|(role, _)| role.clone());
        let mut roles: Vec<_> = own.chain(mandatory).collect();
        roles.sort();
        roles.dedup();
        roles
    }

    /// The roles that SET ROLE DEFAULT makes active.
    fn default_roles(&self, accounts: &Accounts, name: &AccountName) -> Vec<AccountName> {
        let granted = self.granted_roles(accounts, name);
        let defaults = accounts.default_roles(name);
        let defaults = defaults.filter(|role| granted.contains(role));
        defaults.cloned().collect()
    }

    /// The roles that are active after a login, and where the rights of a definer count.
    pub(super) fn roles_at_login(
        &self,
        accounts: &Accounts,
        name: &AccountName,
    ) -> Vec<AccountName> {
        let is_all = self.globals.read().is_on(ACTIVATE_ALL_ROLES);
        match is_all {
            true => self.granted_roles(accounts, name),
            false => self.default_roles(accounts, name),
        }
    }
}

/// Roles as CURRENT_ROLE() has them.
pub(super) fn shown(roles: &[AccountName]) -> String {
    let names: Vec<_> = roles.iter().map(AccountName::in_backticks).collect();
    match names.is_empty() {
        true => "NONE".to_owned(),
        false => names.join(","),
    }
}

/// SET ROLE.
///
/// # Errors
/// 3530.
pub(super) fn set(session: &mut Session, choice: &RoleChoice) -> Result<()> {
    let (_, accounts) = session.frontend.accounts_now()?;
    let name = &session.info.account;
    let mut roles = session.frontend.granted_roles(&accounts, name);
    match choice {
        RoleChoice::Default => roles = session.frontend.default_roles(&accounts, name),
        RoleChoice::None => roles.clear(),
        RoleChoice::All => {}
        RoleChoice::AllExcept(except) => roles.retain(|role| !except.contains(role)),
        RoleChoice::These(these) => {
            check_granted(session, &accounts, name, these)?;
            roles.retain(|role| these.contains(role));
        }
    }
    session.activate(roles)
}

/// Checks that an account has roles.
///
/// # Errors
/// 3530.
pub(super) fn check_granted(
    session: &Session,
    accounts: &Accounts,
    name: &AccountName,
    roles: &[AccountName],
) -> Result<()> {
    let granted = session.frontend.granted_roles(accounts, name);
    match roles.iter().find(|role| !granted.contains(role)) {
        Some(role) => {
            let (role, name) = (role.in_backticks(), name.in_backticks());
            Err(SqlError::role_not_granted(role, name))
        }
        None => Ok(()),
    }
}

/// Checks that the session may grant and revoke roles.
///
/// # Errors
/// 1227.
pub(super) fn check_admin(session: &Session, roles: &[AccountName]) -> Result<()> {
    let admin = Privileges::ROLE_ADMIN.with(Privileges::SUPER);
    if session.grants().global().has_any(admin) {
        return Ok(());
    }
    let (_, accounts) = session.frontend.accounts_now()?;
    let grantees = accounts.reached(session.active_roles());
    let grantees = grantees.into_iter().chain([&session.info.account]);
    let own: Vec<_> = grantees.flat_map(|name| accounts.roles_of(name)).collect();
    let may = |role: &AccountName| own.iter().any(|(own, admin)| *own == role && *admin);
    match roles.iter().all(may) {
        true => Ok(()),
        false => Err(SqlError::privilege_needed("WITH ADMIN, ROLE_ADMIN, SUPER")),
    }
}

/// True for an account that is somebody's or everybody's role.
pub(super) fn is_role(session: &Session, all: &Accounts, name: &AccountName) -> bool {
    all.is_role(name) || session.frontend.mandatory_roles().contains(name)
}

/// CREATE ROLE: accounts to which nobody logs in. Gives those that exist already.
pub(super) fn create(all: &mut Accounts, roles: &[AccountName]) -> Vec<AccountName> {
    let account = || Account {
        locked: true,
        expired: true,
        ..Account::default()
    };
    let existing = roles
        .iter()
        .filter(|role| !all.put((*role).clone(), account()));
    existing.cloned().collect()
}

/// DROP ROLE and DROP USER. Gives those that do not exist.
///
/// # Errors
/// 3628.
pub(super) fn drop(
    session: &Session,
    all: &mut Accounts,
    names: &[AccountName],
) -> Result<Vec<AccountName>> {
    check_not_mandatory(session, names)?;
    let missing = names.iter().filter(|name| !all.remove(name));
    Ok(missing.cloned().collect())
}

fn check_not_mandatory(session: &Session, roles: &[AccountName]) -> Result<()> {
    let mandatory = session.frontend.mandatory_roles();
    match roles.iter().find(|role| mandatory.contains(role)) {
        Some(role) => Err(SqlError::mandatory_role(role.in_backticks())),
        None => Ok(()),
    }
}

fn unknown(name: &AccountName) -> SqlError {
    SqlError::unknown_authorization(name.user(), name.host())
}

/// GRANT of roles.
///
/// # Errors
/// 3523, 4027.
pub(super) fn grant(
    session: &Session,
    all: &mut Accounts,
    roles: &[AccountName],
    users: &[UserName],
    with_admin: bool,
) -> Result<()> {
    for user in users {
        let name = name_of(session, user);
        for role in roles {
            grant_one(all, role, &name, with_admin)?;
        }
    }
    Ok(())
}

fn grant_one(
    all: &mut Accounts,
    role: &AccountName,
    to: &AccountName,
    with_admin: bool,
) -> Result<()> {
    match all.grant_role(role, to, with_admin) {
        RoleGrant::Done => Ok(()),
        RoleGrant::NoRole => Err(unknown(role)),
        RoleGrant::NoAccount => Err(unknown(to)),
        RoleGrant::Circle => {
            let (role, to) = (role.in_backticks(), to.in_backticks());
            Err(SqlError::role_granted_to_itself(role, to))
        }
    }
}

/// REVOKE of roles.
///
/// # Errors
/// 3523, 3628.
pub(super) fn revoke(
    session: &Session,
    all: &mut Accounts,
    roles: &[AccountName],
    users: &[UserName],
) -> Result<()> {
    check_not_mandatory(session, roles)?;
    for user in users {
        let name = name_of(session, user);
        for role in roles {
            if let Some(missing) = [role, &name].into_iter().find(|one| all.get(one).is_none()) {
                return Err(unknown(missing));
            }
            all.revoke_role(role, &name);
        }
    }
    Ok(())
}

/// CREATE USER … DEFAULT ROLE: a new account gets roles, which are active after its logins.
///
/// # Errors
/// 3162, 4027.
pub(super) fn give_defaults(
    all: &mut Accounts,
    roles: &[AccountName],
    name: &AccountName,
) -> Result<()> {
    for role in roles {
        if all.get(role).is_none() {
            return Err(SqlError::user_missing(role.in_backticks()));
        }
        grant_one(all, role, name, false)?;
        all.add_default_role(name, role.clone());
    }
    Ok(())
}

/// SET DEFAULT ROLE.
///
/// # Errors
/// 3523, 3530.
pub(super) fn set_defaults(
    session: &Session,
    all: &mut Accounts,
    choice: &RoleChoice,
    users: &[UserName],
) -> Result<()> {
    for user in users {
        let name = name_of(session, user);
        if all.get(&name).is_none() {
            return Err(unknown(&name));
        }
        let mut roles = session.frontend.granted_roles(all, &name);
        match choice {
            RoleChoice::None => roles.clear(),
            RoleChoice::AllExcept(except) => roles.retain(|role| !except.contains(role)),
            RoleChoice::These(these) => {
                check_granted(session, all, &name, these)?;
                roles.retain(|role| these.contains(role));
            }
            RoleChoice::All | RoleChoice::Default => {}
        }
        all.clear_default_roles(&name);
        for role in roles {
            all.add_default_role(&name, role);
        }
    }
    Ok(())
}
