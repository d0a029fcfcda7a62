//! Statements about accounts and privileges. Each changes the accounts as a whole: all of what it says or nothing,
//! and durably before it ends.

use perigee_accounts::{
    Account, AccountName, Accounts, Credential, Level, Plugin, Privileges, Records, Scope,
};
use perigee_engine::EngineError;

use super::Session;
use super::rowset::{Rowset, text};
use crate::error::{Result, SqlError};
use crate::parse::{AccountStatement, Granted, Identified, On, Options, Secret, User, UserName};

/// Runs a statement.
pub(super) async fn run(session: &mut Session, statement: AccountStatement) -> Result<()> {
    check(session, &statement)?;
    let on = match &statement {
        AccountStatement::Grant { on, .. } | AccountStatement::Revoke { on, .. } => {
            Some(level_of(session, on)?)
        }
        _ => None,
    };
    if let AccountStatement::Grant { privileges, .. } = &statement {
        check_table_exists(session, on.as_ref(), *privileges)?;
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
        AccountStatement::Create { .. }
        | AccountStatement::Drop { .. }
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
        AccountStatement::Grant { privileges, on, .. }
        | AccountStatement::Revoke { privileges, on, .. } => check_grant(session, on, *privileges),
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

/// Who grants or revokes needs what is granted, and GRANT OPTION, at that level.
fn check_grant(session: &Session, on: &On, granted: Granted) -> Result<()> {
    let scope = on.scope();
    let privileges = match granted {
        Granted::All => Privileges::all_at(scope),
        Granted::Some(privileges) => privileges,
    };
    check_scope(scope, privileges)?;
    let needed = privileges.with(Privileges::GRANT_OPTION);
    let (grants, account) = (session.grants(), &session.info.account);
    match level_of(session, on)? {
        Level::Global if !grants.global().has(needed) => Err(SqlError::access_denied(
            account.user(),
            account.host(),
            session.password_was_given()?,
        )),
        Level::Schema(schema) if !grants.on_schema(&schema).has(needed) => {
            Err(session.schema_denied(&schema))
        }
        Level::Table(schema, table) if !grants.on_table(&schema, &table).has(needed) => {
            let own = grants.on_table(&schema, &table);
            let missing = privileges.without(own).names().next();
            Err(SqlError::table_access_denied(
                missing.unwrap_or("GRANT"),
                account.user(),
                &session.info.host,
                &table,
            ))
        }
        _ => Ok(()),
    }
}

/// Checks that privileges can be granted at a level.
fn check_scope(scope: Scope, privileges: Privileges) -> Result<()> {
    let foreign = privileges.foreign_to(scope);
    if foreign.is_none() {
        return Ok(());
    }
    let dynamic = foreign.dynamic();
    if !dynamic.is_none() {
        let names: Vec<_> = dynamic.names().collect();
        return Err(SqlError::illegal_privilege_level(names.join(", ")));
    }
    match scope {
        Scope::Table => Err(SqlError::illegal_grant()),
        _ => Err(SqlError::wrong_usage("DB GRANT", "GLOBAL PRIVILEGES")),
    }
}

/// A table must exist, unless the account is to be allowed to make it.
fn check_table_exists(session: &Session, on: Option<&Level>, granted: Granted) -> Result<()> {
    let creates = match granted {
        Granted::All => true,
        Granted::Some(privileges) => privileges.has(Privileges::CREATE),
    };
    match on {
        Some(Level::Table(schema, table)) if !creates => {
            session.definition(schema, table).map(|_| ())
        }
        _ => Ok(()),
    }
}

fn level_of(session: &Session, on: &On) -> Result<Level> {
    let current = || {
        let schema = session.schema().map(str::to_owned);
        schema.ok_or_else(SqlError::no_schema_selected)
    };
    Ok(match on {
        On::Level(level) => level.clone(),
        On::CurrentSchema => Level::Schema(current()?),
        On::CurrentTable(table) => Level::Table(current()?, table.clone()),
    })
}

fn name_of(session: &Session, name: &UserName) -> AccountName {
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
        match statement {
            AccountStatement::Create {
                if_not_exists,
                users,
                options,
            } => self.create(all, users, *options, *if_not_exists),
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
            AccountStatement::Grant {
                privileges,
                users,
                with_option,
                ..
            } => self.grant(all, *privileges, users, *with_option),
            AccountStatement::Revoke {
                privileges, users, ..
            } => self.revoke(all, *privileges, users),
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
        users: &[User],
        options: Options,
        if_not_exists: bool,
    ) -> Result<()> {
        let mut existing = Vec::new();
        for user in users {
            let name = name_of(self.session, &user.name);
            let mut account = Account::default();
            identify(&mut account, user.identified.as_ref());
            apply(&mut account, options);
            if !all.put(name.clone(), account) {
                existing.push(name);
            }
        }
        if if_not_exists {
            self.notes
                .extend(existing.iter().map(SqlError::user_exists));
            return Ok(());
        }
        failed("CREATE USER", &existing)
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
        if if_exists {
            self.notes
                .extend(missing.iter().map(SqlError::user_missing));
            return Ok(());
        }
        failed("ALTER USER", &missing)
    }

    fn drop(self, all: &mut Accounts, users: &[UserName], if_exists: bool) -> Result<()> {
        let missing = self.missing(users, |name| all.remove(name));
        if if_exists {
            self.notes
                .extend(missing.iter().map(SqlError::user_missing));
            return Ok(());
        }
        failed("DROP USER", &missing)
    }

    fn rename(self, all: &mut Accounts, renames: &[(UserName, UserName)]) -> Result<()> {
        let mut refused = Vec::new();
        for (from, to) in renames {
            let (from, to) = (name_of(self.session, from), name_of(self.session, to));
            if !all.rename(&from, to) {
                refused.push(from);
            }
        }
        failed("RENAME USER", &refused)
    }

    fn grant(
        self,
        all: &mut Accounts,
        granted: Granted,
        users: &[UserName],
        with_option: bool,
    ) -> Result<()> {
        let Some(level) = &self.on else { return Ok(()) };
        let mut privileges = of_level(granted, level);
        if with_option {
            privileges = privileges.with(Privileges::GRANT_OPTION);
        }
        let missing = self.missing(users, |name| all.grant(name, level, privileges));
        match missing.is_empty() {
            true => Ok(()),
            false => Err(SqlError::grant_creates_no_user()),
        }
    }

    fn revoke(self, all: &mut Accounts, granted: Granted, users: &[UserName]) -> Result<()> {
        let Some(level) = &self.on else { return Ok(()) };
        let privileges = of_level(granted, level);
        let missing = self.missing(users, |name| all.revoke(name, level, privileges));
        match (missing.first(), level) {
            (None, _) => Ok(()),
            (Some(name), Level::Table(_, table)) => Err(SqlError::no_such_table_grant(
                name.user(),
                name.host(),
                table,
            )),
            (Some(name), _) => Err(SqlError::no_such_grant(name.user(), name.host())),
        }
    }
}

fn of_level(granted: Granted, level: &Level) -> Privileges {
    let scope = match level {
        Level::Global => Scope::Global,
        Level::Schema(_) => Scope::Schema,
        Level::Table(..) => Scope::Table,
    };
    match granted {
        Granted::All => Privileges::all_at(scope),
        Granted::Some(privileges) => privileges,
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

/// SHOW GRANTS.
pub(super) fn grants(session: &Session, name: &UserName) -> Result<Rowset> {
    let (name, accounts) = shown(session, name)?;
    let lines = accounts.grant_statements(&name);
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
