//! What a session's account may do, and the errors for what it may not.
//!
//! A session keeps what its account may do as long as no account changes, which a number tells: looking costs one
//! load. An account that may use all tables in every way, as root may, is one flag beyond that.
//!
//! Invariants
//! - Each statement begins with the rights of that moment: what is granted and revoked holds from the next statement
//!   on, in all sessions.
//! - An account is asked for its rights before it is told whether a table exists.

use std::sync::Arc;

use parking_lot::RwLock;
use perigee_accounts::{AccountName, Accounts, Grants, Privileges};
use perigee_catalog_views::describe::{self, PRIVILEGES};
use perigee_engine::Engine;
use perigee_engine::catalog::{ColumnDef, Table, TableDef};
use sqlparser::ast::ObjectName;

use super::Session;
use super::dml::{Kind, ReadPhase, UpdatedColumn};
use super::variables::MANDATORY_ROLES;
use crate::error::{Result, SqlError};
use crate::parse::{Clause, Ddl, Scope, Statement, Target};

/// The schema whose views are for administrators.
const MYSQL: &str = "mysql";

/// All accounts as the catalog has them, decoded once for each change.
#[derive(Debug)]
pub(super) struct Known(RwLock<(u64, Arc<Accounts>)>);

impl Known {
    /// The accounts of an engine that was opened.
    pub(super) fn new(engine: &Engine) -> Result<Self> {
        Ok(Self(RwLock::new(decoded(engine)?)))
    }

    /// The accounts now, with their version.
    pub(super) fn now(&self, engine: &Engine) -> Result<(u64, Arc<Accounts>)> {
        let version = engine.accounts_version();
        {
            let known = self.0.read();
            if known.0 == version {
                return Ok(known.clone());
            }
        }
        let new = decoded(engine)?;
        let mut known = self.0.write();
        if known.0 < new.0 {
            *known = new;
        }
        Ok(known.clone())
    }
}

fn decoded(engine: &Engine) -> Result<(u64, Arc<Accounts>)> {
    let (version, records) = engine.accounts();
    let accounts = Accounts::decode(&records).map_err(SqlError::corrupt)?;
    Ok((version, Arc::new(accounts)))
}

/// What a session's account may do.
#[derive(Debug)]
pub(super) struct Rights {
    /// The version of the accounts; none is 0.
    version: u64,
    grants: Grants,
    /// The roles that are active; none before the session's first look, which those after a login are.
    roles: Option<Vec<AccountName>>,
    /// The password had expired when the session began, and was not changed since.
    expired: bool,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            version: 0,
            grants: Grants::default(),
            roles: None,
            expired: true,
        }
    }
}

impl Session {
    /// Looks whether accounts have changed.
    ///
    /// # Errors
    /// If what the catalog has of them is damaged.
    pub(super) fn renew_rights(&mut self) -> Result<()> {
        if self.frontend.engine.accounts_version() == self.rights.version {
            return Ok(());
        }
        let (version, accounts) = self.frontend.accounts_now()?;
        let name = &self.info.account;
        let roles = match self.rights.roles.take() {
            None => self.frontend.roles_at_login(&accounts, name),
            Some(mut roles) => {
                let granted = self.frontend.granted_roles(&accounts, name);
                roles.retain(|role| granted.contains(role));
                roles
            }
        };
        self.rights = Rights {
            version,
            grants: accounts.grants_of(name, &roles),
            roles: Some(roles),
            expired: self.rights.expired && accounts.get(name).is_some_and(|own| own.expired),
        };
        Ok(())
    }

    /// Makes other roles active.
    pub(super) fn activate(&mut self, roles: Vec<AccountName>) -> Result<()> {
        self.rights.roles = Some(roles);
        self.rights.version = 0;
        self.renew_rights()
    }

    /// The roles that are active.
    pub(super) fn active_roles(&self) -> &[AccountName] {
        self.rights.roles.as_deref().unwrap_or_default()
    }

    /// What the account may do.
    pub(super) fn grants(&self) -> &Grants {
        &self.rights.grants
    }

    /// True if a table may be used so, and nobody has locked it: asked for each statement that runs without a plan.
    pub(super) fn may(&self, needed: Privileges, table: &Table) -> bool {
        let (grants, def) = (self.grants(), &table.def);
        let allowed = grants.has_all_tables()
            || def.is_temporary()
            || grants.on_table(&def.schema, &def.name).has(needed);
        allowed && !self.rights.expired && self.is_unlocked(table)
    }

    /// True if the password has expired, and nothing can be done but set another.
    pub(super) fn must_change_password(&self) -> bool {
        self.rights.expired
    }

    /// True if all accounts may be seen.
    pub(super) fn sees_accounts(&self) -> bool {
        self.grants().on_schema(MYSQL).has(Privileges::SELECT)
    }

    /// `YES` or `NO`, as error 1045 says it.
    pub(super) fn password_was_given(&self) -> Result<&'static str> {
        let (_, accounts) = self.frontend.accounts_now()?;
        let own = accounts.get(&self.info.account);
        Ok(match own.is_some_and(|own| !own.credential.is_empty()) {
            true => "YES",
            false => "NO",
        })
    }

    /// True if the connections of a user may be seen.
    pub(super) fn sees_connections_of(&self, user: &str) -> bool {
        self.info.user == user || self.grants().global().has(Privileges::PROCESS)
    }

    /// Checks that a connection may be ended: one's own, or with a privilege any.
    ///
    /// # Errors
    /// 1095.
    pub fn check_kill(&mut self, id: u64) -> Result<()> {
        self.renew_rights()?;
        let admin = Privileges::CONNECTION_ADMIN.with(Privileges::SUPER);
        if self.grants().global().has_any(admin) {
            return Ok(());
        }
        let connections = self.info.connections.list();
        let other = |user: &str| user != self.info.user;
        match connections.iter().find(|process| process.id == id) {
            Some(process) if other(&process.user) => Err(SqlError::kill_denied(id)),
            _ => Ok(()),
        }
    }

    /// What may be done with a table that a statement names: with a temporary one everything.
    fn on_table(&self, schema: &str, table: &str) -> Privileges {
        match self.has_temporary(schema, table) {
            true => Privileges::everything(),
            false => self.on_base_table(schema, table),
        }
    }

    /// What may be done with a table that is not temporary. The views of what the server knows of itself anybody may read, who then sees
    /// what is for him.
    fn on_base_table(&self, schema: &str, table: &str) -> Privileges {
        let grants = self.grants();
        match perigee_catalog_views::is_schema(schema) {
            true if schema == MYSQL => grants.on_table(schema, table),
            // Nobody can change them, which has an error of its own.
            true => Privileges::everything(),
            false => grants.on_table(schema, table),
        }
    }

    /// Checks that a table, by its names in lower case, may be used so.
    ///
    /// # Errors
    /// 1142 for the first privilege that is missing.
    pub(super) fn check_table(&self, needed: Privileges, schema: &str, table: &str) -> Result<()> {
        if self.grants().has_all_tables() {
            return Ok(());
        }
        self.check_missing(needed.without(self.on_table(schema, table)), table)
    }

    /// As [`Session::check_table`], for a name that does not mean a temporary table.
    pub(super) fn check_base_table(
        &self,
        needed: Privileges,
        schema: &str,
        table: &str,
    ) -> Result<()> {
        self.check_missing(needed.without(self.on_base_table(schema, table)), table)
    }

    fn check_missing(&self, missing: Privileges, table: &str) -> Result<()> {
        match missing.names().next() {
            Some(command) => Err(self.denied(command, table)),
            None => Ok(()),
        }
    }

    /// As [`Session::check_table`]; privileges for some of the columns are enough, of which each that is used is
    /// checked apart.
    pub(super) fn check_somewhere(
        &self,
        needed: Privileges,
        schema: &str,
        table: &str,
    ) -> Result<()> {
        if self.grants().has_all_tables() {
            return Ok(());
        }
        let of_columns = needed.and(self.grants().somewhere_on_table(schema, table));
        self.check_table(needed.without(of_columns), schema, table)
    }

    /// Checks that these columns may be used so, where the table may not; without columns all are meant.
    ///
    /// # Errors
    /// 1142, 1143.
    pub(super) fn check_columns<'n>(
        &self,
        needed: Privileges,
        (schema, table): (&str, &str),
        columns: impl Iterator<Item = &'n str>,
    ) -> Result<()> {
        if self.grants().has_all_tables() || self.on_table(schema, table).has(needed) {
            return Ok(());
        }
        let command = needed.names().next().unwrap_or("SELECT");
        let mut columns = columns.peekable();
        if columns.peek().is_none() {
            return Err(self.denied(command, table));
        }
        for column in columns {
            let lower = column.to_lowercase();
            if !self.grants().on_column(schema, table, &lower).has(needed) {
                return Err(self.column_denied(command, column, table));
            }
        }
        Ok(())
    }

    /// As [`Session::check_table`], for a name in a statement.
    pub(super) fn check_named(&self, needed: Privileges, name: &ObjectName) -> Result<()> {
        if self.grants().has_all_tables() {
            return Ok(());
        }
        let (schema, table) = self.resolve(name)?;
        self.check_table(needed, &schema, &table)
    }

    /// As [`Session::check_base_table`], for a name in a statement.
    fn check_base(&self, needed: Privileges, name: &ObjectName) -> Result<()> {
        let (schema, table) = self.resolve(name)?;
        self.check_base_table(needed, &schema, &table)
    }

    /// Checks that a table may be seen, which is so if it may be used in any way.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn check_visible(&self, schema: &str, table: &str) -> Result<()> {
        match self.has_temporary(schema, table) || self.sees_table(schema, table) {
            true => Ok(()),
            false => Err(self.denied("SELECT", table)),
        }
    }

    /// Checks that a table may be used in some way as a whole, not in some of its columns only.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn check_whole(&self, name: &ObjectName) -> Result<()> {
        let (schema, table) = self.resolve(name)?;
        let any = Privileges::all_at(perigee_accounts::Scope::Table);
        match self.on_table(&schema, &table).has_any(any) {
            true => Ok(()),
            false => Err(self.denied("SHOW", &table)),
        }
    }

    /// True if a table may be used in some way.
    pub(super) fn sees_table(&self, schema: &str, table: &str) -> bool {
        let open = perigee_catalog_views::is_schema(schema) && schema != MYSQL;
        open || self.grants().sees_table(schema, table)
    }

    /// What may be done with a column, as it is shown; `None` for a column that may not be seen.
    pub(super) fn shown_privileges(&self, def: &TableDef, column: &ColumnDef) -> Option<String> {
        let grants = self.grants();
        let is_open = def.is_temporary() || perigee_catalog_views::is_schema(&def.schema);
        if grants.has_all_tables() || is_open {
            return Some(PRIVILEGES.to_owned());
        }
        let column = column.name.to_lowercase();
        describe::privileges(grants.on_column(&def.schema, &def.name, &column))
    }

    /// True if something in a schema may be used.
    pub(super) fn sees_schema(&self, schema: &str) -> bool {
        let open = perigee_catalog_views::is_schema(schema) && schema != MYSQL;
        open || self.grants().sees_schema(schema)
    }

    /// Error 1143 for a column.
    pub(super) fn column_denied(&self, command: &str, column: &str, table: &str) -> SqlError {
        let (user, host) = (self.info.account.user(), &self.info.host);
        SqlError::column_access_denied(command, user, host, column, table)
    }

    /// Error 1142 for a table.
    pub(super) fn denied(&self, command: &str, table: &str) -> SqlError {
        let (user, host) = (self.info.account.user(), &self.info.host);
        SqlError::table_access_denied(command, user, host, table)
    }

    /// Error 1044 for a schema.
    pub(super) fn schema_denied(&self, schema: &str) -> SqlError {
        let account = &self.info.account;
        SqlError::schema_access_denied(account.user(), account.host(), schema)
    }

    /// Checks that something in a schema may be used.
    ///
    /// # Errors
    /// 1044.
    pub(super) fn check_schema_visible(&self, schema: &str) -> Result<()> {
        match self.sees_schema(schema) {
            true => Ok(()),
            false => Err(self.schema_denied(schema)),
        }
    }

    /// Checks that a schema itself may be used so.
    pub(super) fn check_schema(&self, needed: Privileges, schema: &str) -> Result<()> {
        let schema = schema.to_lowercase();
        let own = perigee_catalog_views::is_schema(&schema);
        match own || self.grants().on_schema(&schema).has(needed) {
            true => Ok(()),
            false => Err(self.schema_denied(&schema)),
        }
    }

    /// Checks that one of these privileges is granted everywhere.
    ///
    /// # Errors
    /// 1227.
    pub(super) fn check_server(&self, one_of: Privileges) -> Result<()> {
        if self.grants().global().has_any(one_of) {
            return Ok(());
        }
        let names: Vec<_> = one_of.names().collect();
        Err(SqlError::privilege_needed(names.join(", ")))
    }

    /// Checks what a statement needs beyond the tables that it reads, which are checked when their names are looked
    /// up.
    ///
    /// # Errors
    /// 1044, 1142, 1227; 1820 if the password has expired.
    pub(super) fn check_statement(&self, statement: &Statement) -> Result<()> {
        if self.rights.expired && !matches!(statement, Statement::Account(_) | Statement::Set(_)) {
            return Err(SqlError::must_change_password());
        }
        match statement {
            Statement::Flush => self.check_server(Privileges::RELOAD),
            Statement::Ddl(ddl) => self.check_ddl(ddl),
            Statement::Load(load) => self.check_named(Privileges::INSERT, &load.table),
            Statement::Analyze(analyze) => {
                let needed = Privileges::SELECT.with(Privileges::INSERT);
                let mut tables = analyze.tables.iter();
                tables.try_for_each(|table| self.check_named(needed, table))
            }
            Statement::Set(assignments) => {
                let is_global =
                    |target: &Target| matches!(target, Target::System(Scope::Global, _));
                let is_of_roles = |target: &Target| matches!(target, Target::System(Scope::Global, name) if name == MANDATORY_ROLES);
                if assignments.iter().any(|one| is_of_roles(&one.target)) {
                    self.check_server(Privileges::SUPER.with(Privileges::ROLE_ADMIN))?;
                }
                match assignments.iter().any(|one| is_global(&one.target)) {
                    true => {
                        let admin = Privileges::SYSTEM_VARIABLES_ADMIN;
                        self.check_server(Privileges::SUPER.with(admin))
                    }
                    false => Ok(()),
                }
            }
            Statement::Explain(_, explained) => self.check_statement(explained),
            _ => Ok(()),
        }
    }

    /// Checks that a definition may be changed.
    fn check_ddl(&self, ddl: &Ddl) -> Result<()> {
        let into_new = Privileges::CREATE.with(Privileges::INSERT);
        let renamed = Privileges::ALTER.with(Privileges::DROP);
        match ddl {
            Ddl::CreateSchema { name, .. } => self.check_schema(Privileges::CREATE, name),
            Ddl::AlterSchema { name, .. } => {
                let own = self.schema.as_deref().unwrap_or_default();
                self.check_schema(Privileges::ALTER, name.as_deref().unwrap_or(own))
            }
            Ddl::DropSchema { name, .. } => self.check_schema(Privileges::DROP, name),
            Ddl::CreateTable(table) if table.temporary => self.check_temporary(&table.name),
            Ddl::CreateTable(table) => {
                let needed = match table.query {
                    Some(_) => into_new,
                    None => Privileges::CREATE,
                };
                self.check_base(needed, &table.name)
            }
            // Temporary tables are the session's own.
            Ddl::DropTables {
                temporary: true, ..
            } => Ok(()),
            Ddl::DropTables { names, .. } => {
                let mut names = names.iter();
                names.try_for_each(|name| self.check_named(Privileges::DROP, name))
            }
            Ddl::CreateView(view) => {
                let create = Privileges::CREATE_VIEW;
                let needed = match view.replace || view.alter {
                    true => create.with(Privileges::DROP),
                    false => create,
                };
                self.check_base(needed, &view.name)
            }
            Ddl::DropViews { names, .. } => {
                let mut names = names.iter();
                names.try_for_each(|name| self.check_base(Privileges::DROP, name))
            }
            Ddl::AlterTable { name, clauses } => {
                self.check_named(needed_to_alter(clauses), name)?;
                for clause in clauses {
                    if let Clause::RenameTable(to) = clause {
                        self.check_named(renamed, name)?;
                        self.check_base(into_new, to)?;
                    }
                }
                Ok(())
            }
            Ddl::RenameTables(renames) => {
                for (from, to) in renames {
                    self.check_base(renamed, from)?;
                    self.check_base(into_new, to)?;
                }
                Ok(())
            }
            Ddl::Truncate(name) => self.check_named(Privileges::DROP, name),
        }
    }

    /// Checks that a temporary table may get a name.
    ///
    /// # Errors
    /// 1044.
    fn check_temporary(&self, name: &ObjectName) -> Result<()> {
        let (schema, _) = self.resolve(name)?;
        self.check_schema(Privileges::CREATE_TEMPORARY_TABLES, &schema)
    }

    /// Checks that rows of a table that may be read may be locked as if they were to be changed.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn check_lockable(&self, schema: &str, table: &str) -> Result<()> {
        let changes = Privileges::UPDATE.with(Privileges::DELETE);
        let one_of = changes.with(Privileges::LOCK_TABLES);
        match self.on_table(schema, table).has_any(one_of) {
            true => Ok(()),
            false => Err(self.denied("SELECT, LOCK TABLES", table)),
        }
    }

    /// Checks that a column may be read of a table that may be changed. Where only some columns may be read, the binder
    /// has looked at each.
    ///
    /// # Errors
    /// 1143.
    fn check_column(&self, schema: &str, table: &str, column: &str) -> Result<()> {
        match self.check_somewhere(Privileges::SELECT, schema, table) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.column_denied("SELECT", column, table)),
        }
    }

    /// Checks that an UPDATE or DELETE may change its targets, of which the columns `updated`, and read what it reads, of
    /// its targets the column `read`.
    ///
    /// # Errors
    /// 1142, 1143.
    pub(super) fn check_change(
        &self,
        phase: &ReadPhase,
        updated: &[UpdatedColumn],
        read: Option<&str>,
    ) -> Result<()> {
        for target in &phase.targets {
            self.check_locked(&target.table, true)?;
        }
        // In views the rights of their definers count.
        let has_views = phase.tables().any(|table| !table.views.is_empty());
        if self.grants().has_all_tables() && !has_views {
            return Ok(());
        }
        let change = match phase.kind {
            Kind::Update => Privileges::UPDATE,
            Kind::Delete => Privileges::DELETE,
        };
        for target in &phase.targets {
            let def = &target.table.def;
            let reference = phase.table(target.access);
            let names = (def.shown_schema(), &*def.name);
            self.check_through(change, &reference.views, names)?;
        }
        for column in updated {
            let names = (&*column.schema, &*column.table);
            let column = std::iter::once(&*column.column);
            self.check_columns(Privileges::UPDATE, names, column)?;
        }
        for table in phase.tables() {
            let is_target = phase.targets.iter().any(|t| t.access == table.reference);
            match (is_target, read) {
                (true, None) => {}
                // What a view reads was checked with the rights that count in it.
                (_, _) if !table.views.is_empty() => {
                    let view = &table.views[0];
                    self.check_somewhere(Privileges::SELECT, &view.schema, &view.name)?;
                }
                (true, Some(column)) => self.check_column(&table.schema, &table.name, column)?,
                (false, _) => {
                    self.check_somewhere(Privileges::SELECT, &table.schema, &table.name)?;
                }
            }
        }
        Ok(())
    }
}

/// CREATE and DROP INDEX need INDEX, whatever else is altered needs ALTER.
fn needed_to_alter(clauses: &[Clause]) -> Privileges {
    let is_index = |clause: &Clause| matches!(clause, Clause::CreateIndex { .. });
    match clauses {
        [Clause::DropKey(_)] => Privileges::INDEX,
        clauses if !clauses.is_empty() && clauses.iter().all(is_index) => Privileges::INDEX,
        _ => Privileges::ALTER,
    }
}
