//! Statements about accounts and privileges. Each changes the accounts as a whole: all of what it says or nothing,
//! and durably before it ends.

use perigee_accounts::{
    Account, AccountName, Accounts, Credential, Level, Plugin, Privileges, Records,
};
use perigee_engine::EngineError;

use super::rowset::{Rowset, text};
use super::{Session, grants, roles};
use crate::error::{Result, SqlError};
use crate::parse::{AccountStatement, Grant, Identified, Options, Secret, User, UserName};

/// Runs a statement.
pub(super) async fn run(session: &mut Session, statement: AccountStatement) -> Result<()> {
    check(session, &statement)?;
    if let AccountStatement::SetRole(choice) = &statement {
        return roles::set(session, choice);
    }
    let on = match &statement {
        AccountStatement::Grant(grant) | AccountStatement::Revoke(grant) => {
            Some(grants::level_of(session, &grant.on)?)
        }
        _ => None,
    };
    if let AccountStatement::Grant(grant) = &statement {
        grants::check_exists(session, on.as_ref(), grant)?;
    }
    let mut notes = Vec::new();
    let statement_of = Statement {
        session,
        on,
        notes: &mut notes,
    };
    let changed = session
        .frontend
        .engine
        .change_accounts(|records| statement_of.changed(records, &statement))
        .await;
    changed.map_err(|Failed(error)| error)?;
    for note in notes {
        session.warn("Note", &note);
    }
    session.renew_rights()
}

/// An error of a change, which may also be the engine's.
struct Failed(SqlError);

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Self {
        Self(error.into())
    }
}

impl From<SqlError> for Failed {
    fn from(error: SqlError) -> Self {
        Self(error)
    }
}

/// Checks that the session may run a statement.
fn check(session: &Session, statement: &AccountStatement) -> Result<()> {
    let is_own = |name: &UserName| name_of(session, name) == session.info.account;
    let create_user = || session.check_server(Privileges::CREATE_USER);
    if session.must_change_password() {
        return check_expired(session, statement);
    }
    match statement {
        AccountStatement::Create { default_roles, .. } => {
            create_user()?;
            roles::check_admin(session, default_roles)
        }
        AccountStatement::Drop { .. }
        | AccountStatement::Rename(_)
        | AccountStatement::RevokeEverything(_) => create_user(),
        // Its own password anybody may change.
        AccountStatement::Alter { users, options, .. } => {
            let own = users.iter().all(|user| is_own(&user.name));
            match own && *options == Options::default() {
                true => Ok(()),
                false => create_user(),
            }
        }
        AccountStatement::SetPassword(name, _) if is_own(name) => Ok(()),
        AccountStatement::SetPassword(..) => create_user(),
        AccountStatement::Grant(grant) | AccountStatement::Revoke(grant) => {
            grants::check(session, grant)
        }
        AccountStatement::CreateRoles { .. } => {
            session.check_server(Privileges::CREATE_USER.with(Privileges::CREATE_ROLE))
        }
        AccountStatement::DropRoles { .. } => {
            session.check_server(Privileges::CREATE_USER.with(Privileges::DROP_ROLE))
        }
        AccountStatement::GrantRoles { roles, .. } | AccountStatement::RevokeRoles(roles, _) => {
            roles::check_admin(session, roles)
        }
        AccountStatement::SetDefaultRoles(_, users) if users.iter().all(is_own) => Ok(()),
        AccountStatement::SetDefaultRoles(..) => create_user(),
        AccountStatement::SetRole(_) => Ok(()),
    }
}

/// With an expired password only a new one can be set.
fn check_expired(session: &Session, statement: &AccountStatement) -> Result<()> {
    let is_own = |name: &UserName| name_of(session, name) == session.info.account;
    let allowed = match statement {
        AccountStatement::SetPassword(name, _) => is_own(name),
        AccountStatement::Alter { users, options, .. } => {
            let sets = |user: &User| is_own(&user.name) && user.identified.is_some();
            *options == Options::default() && users.iter().all(sets)
        }
        _ => false,
    };
    match allowed {
        true => Ok(()),
        false => Err(SqlError::must_change_password()),
    }
}

/// The account that a name in a statement is of.
pub(super) fn name_of(session: &Session, name: &UserName) -> AccountName {
    match name {
        UserName::Current => session.info.account.clone(),
        UserName::Named(name) => name.clone(),
    }
}

/// A statement and what it is run with.
struct Statement<'s> {
    session: &'s Session,
    /// The level of a GRANT or REVOKE.
    on: Option<Level>,
    notes: &'s mut Vec<SqlError>,
}

impl Statement<'_> {
    /// The records after the statement.
    fn changed(self, records: &Records, statement: &AccountStatement) -> Result<Records, Failed> {
        let mut all = Accounts::decode(records).map_err(SqlError::corrupt)?;
        self.change(&mut all, statement)?;
        Ok(all.records())
    }

    fn change(self, all: &mut Accounts, statement: &AccountStatement) -> Result<()> {
        let session = self.session;
        match statement {
            AccountStatement::Create {
                if_not_exists,
                users,
                default_roles,
                options,
            } => {
                let new = (users.as_slice(), default_roles.as_slice());
                self.create(all, new, *options, *if_not_exists)
            }
            AccountStatement::Alter {
                if_exists,
                users,
                options,
            } => self.alter(all, users, *options, *if_exists),
            AccountStatement::Drop { if_exists, users } => self.drop(all, users, *if_exists),
            AccountStatement::Rename(renames) => self.rename(all, renames),
            AccountStatement::SetPassword(name, password) => {
                let name = name_of(self.session, name);
                let Some(account) = all.get_mut(&name) else {
                    return failed("SET PASSWORD", &[name]);
                };
                set_password(account, None, password);
                Ok(())
            }
            AccountStatement::Grant(grant) => self.grant(all, grant),
            AccountStatement::Revoke(grant) => self.revoke(all, grant),
            AccountStatement::CreateRoles {
                if_not_exists,
                roles,
            } => {
                let existing = roles::create(all, roles);
                self.noted("CREATE ROLE", existing, *if_not_exists, |name| {
                    SqlError::user_exists(name)
                })
            }
            AccountStatement::DropRoles { if_exists, roles } => {
                let missing = roles::drop(session, all, roles)?;
                self.noted("DROP ROLE", missing, *if_exists, |name| {
                    SqlError::user_missing(name)
                })
            }
            AccountStatement::GrantRoles {
                roles,
                users,
                with_admin,
            } => roles::grant(session, all, roles, users, *with_admin),
            AccountStatement::RevokeRoles(roles, users) => {
                roles::revoke(session, all, roles, users)
            }
            AccountStatement::SetDefaultRoles(choice, users) => {
                roles::set_defaults(session, all, choice, users)
            }
            // It changes no account.
            AccountStatement::SetRole(_) => Ok(()),
            AccountStatement::RevokeEverything(users) => {
                let missing = self.missing(users, |name| all.revoke_everything(name));
                match missing.first() {
                    Some(_) => Err(SqlError::no_such_grant(
                        missing[0].user(),
                        missing[0].host(),
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    /// Error 1396 for accounts that exist or do not, or notes where that is no error.
    fn noted(
        self,
        operation: &str,
        names: Vec<AccountName>,
        is_no_error: bool,
        note: fn(&AccountName) -> SqlError,
    ) -> Result<()> {
        if is_no_error {
            self.notes.extend(names.iter().map(note));
            return Ok(());
        }
        failed(operation, &names)
    }

    /// Those of the accounts for which something fails.
    fn missing(
        &self,
        users: &[UserName],
        mut does: impl FnMut(&AccountName) -> bool,
    ) -> Vec<AccountName> {
        let names = users.iter().map(|user| name_of(self.session, user));
        names.filter(|name| !does(name)).collect()
    }

    fn create(
        self,
        all: &mut Accounts,
        (users, default_roles): (&[User], &[AccountName]),
        options: Options,
        if_not_exists: bool,
    ) -> Result<()> {
        let mut existing = Vec::new();
        for user in users {
            let name = name_of(self.session, &user.name);
            let mut account = Account::default();
            identify(&mut account, user.identified.as_ref());
            apply(&mut account, options);
            match all.put(name.clone(), account) {
                true => roles::give_defaults(all, default_roles, &name)?,
                false => existing.push(name),
            }
        }
        self.noted("CREATE USER", existing, if_not_exists, |name| {
            SqlError::user_exists(name)
        })
    }

    fn alter(
        self,
        all: &mut Accounts,
        users: &[User],
        options: Options,
        if_exists: bool,
    ) -> Result<()> {
        let mut missing = Vec::new();
        for user in users {
            let name = name_of(self.session, &user.name);
            match all.get_mut(&name) {
                Some(account) => {
                    identify(account, user.identified.as_ref());
                    apply(account, options);
                }
                None => missing.push(name),
            }
        }
        self.noted("ALTER USER", missing, if_exists, |name| {
            SqlError::user_missing(name)
        })
    }

    fn drop(self, all: &mut Accounts, users: &[UserName], if_exists: bool) -> Result<()> {
        let names = users.iter().map(|user| name_of(self.session, user));
        let missing = roles::drop(self.session, all, &names.collect::<Vec<_>>())?;
        self.noted("DROP USER", missing, if_exists, |name| {
            SqlError::user_missing(name)
        })
    }

    fn rename(self, all: &mut Accounts, renames: &[(UserName, UserName)]) -> Result<()> {
        let mut refused = Vec::new();
        for (from, to) in renames {
            let (from, to) = (name_of(self.session, from), name_of(self.session, to));
            if roles::is_role(self.session, all, &from) {
                return Err(SqlError::role_is_not_renamed());
            }
            if !all.rename(&from, to) {
                refused.push(from);
            }
        }
        failed("RENAME USER", &refused)
    }

    fn grant(self, all: &mut Accounts, grant: &Grant) -> Result<()> {
        let Some(level) = &self.on else { return Ok(()) };
        let mut privileges = grants::of_level(grant.privileges, level);
        if grant.with_option {
            privileges = privileges.with(Privileges::GRANT_OPTION);
        }
        let columns = grants::levels_of_columns(level, grant);
        let missing = self.missing(&grant.users, |name| {
            let mut columns = columns.iter();
            all.grant(name, level, privileges)
                && columns.all(|(level, privileges)| all.grant(name, level, *privileges))
        });
        match missing.is_empty() {
            true => Ok(()),
            false => Err(SqlError::grant_creates_no_user()),
        }
    }

    fn revoke(self, all: &mut Accounts, grant: &Grant) -> Result<()> {
        let Some(level) = &self.on else { return Ok(()) };
        let privileges = grants::of_level(grant.privileges, level);
        let columns = grants::levels_of_columns(level, grant);
        let is_of_columns_only = privileges.is_none() && !columns.is_empty();
        let missing = self.missing(&grant.users, |name| {
            let mut columns = columns.iter();
            (is_of_columns_only || all.revoke(name, level, privileges))
                && columns.all(|(level, privileges)| all.revoke(name, level, *privileges))
        });
        let Some(name) = missing.first() else {
            return Ok(());
        };
        let (user, host) = (name.user(), name.host());
        Err(match level {
            Level::Table(_, table) => SqlError::no_such_table_grant(user, host, table),
            Level::Routine(_, _, routine) => SqlError::no_such_routine_grant(user, host, routine),
            _ => SqlError::no_such_grant(user, host),
        })
    }
}

/// Error 1396 if there is one of these.
fn failed(operation: &str, names: &[AccountName]) -> Result<()> {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(SqlError::user_operation_failed(operation, names.join(","))),
    }
}

fn identify(account: &mut Account, identified: Option<&Identified>) {
    match identified {
        None => {}
        Some(Identified::By(plugin, password)) => set_password(account, *plugin, password),
        Some(Identified::As(credential)) => {
            account.credential = credential.clone();
            account.expired = false;
        }
    }
}

/// Sets a password, which is not expired then.
fn set_password(account: &mut Account, plugin: Option<Plugin>, Secret(password): &Secret) {
    let plugin = plugin.unwrap_or(account.credential.plugin());
    account.credential = Credential::of_password(plugin, password);
    account.expired = false;
}

fn apply(account: &mut Account, options: Options) {
    account.locked = options.lock.unwrap_or(account.locked);
    account.expired = options.expire.unwrap_or(account.expired);
}

/// SHOW GRANTS: without an account the own with its active roles.
pub(super) fn show_grants(
    session: &Session,
    account: Option<&UserName>,
    using: &[AccountName],
) -> Result<Rowset> {
    let (name, accounts) = shown(session, account.unwrap_or(&UserName::Current))?;
    let using = match account {
        Some(_) => {
            roles::check_granted(session, &accounts, &name, using)?;
            using
        }
        None => session.active_roles(),
    };
    let everybodys = session.frontend.mandatory_roles();
    let lines = accounts.grant_statements(&name, using, &everybodys);
    if lines.is_empty() {
        return Err(SqlError::no_such_grant(name.user(), name.host()));
    }
    let heading = format!("Grants for {}@{}", name.user(), name.host());
    let mut rows = Rowset::new(&[&heading]);
    lines
        .into_iter()
        .for_each(|line| rows.push(vec![text(line)]));
    Ok(rows)
}

/// SHOW CREATE USER.
pub(super) fn create_user(session: &Session, name: &UserName) -> Result<Rowset> {
    let (name, accounts) = shown(session, name)?;
    let Some(statement) = accounts.create_statement(&name) else {
        failed("SHOW CREATE USER", std::slice::from_ref(&name))?;
        return Ok(Rowset::new(&[]));
    };
    let heading = format!("CREATE USER for {}@{}", name.user(), name.host());
    let mut rows = Rowset::new(&[&heading]);
    rows.push(vec![text(statement)]);
    Ok(rows)
}

/// An account that may be shown to the session: its own, or any to those who may read the schema `mysql`.
fn shown(session: &Session, name: &UserName) -> Result<(AccountName, std::sync::Arc<Accounts>)> {
    let name = name_of(session, name);
    if name != session.info.account && !session.sees_accounts() {
        return Err(session.schema_denied("mysql"));
    }
    let (_, accounts) = session.frontend.accounts_now()?;
    Ok((name, accounts))
}
