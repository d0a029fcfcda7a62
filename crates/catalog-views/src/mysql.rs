//! `mysql`: what tools read of the server's own tables.

use std::collections::BTreeMap;

use perigee_accounts::{Account, AccountName, Accounts, Level, Privileges};
use perigee_value::Datum;

use crate::definition::{
    Column, Definition, count, long, moment, none, null, number, of, set_of, text,
};
use crate::{Facts, View};

/// The schema's name.
pub(crate) const SCHEMA: &str = "mysql";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[
    &COLUMNS_PRIV,
    &DB,
    &DEFAULT_ROLES,
    &GENERAL_LOG,
    &PROCS_PRIV,
    &ROLE_EDGES,
    &SLOW_LOG,
    &TABLES_PRIV,
    &USER,
];

/// An account by its name.
struct Listed {
    name: AccountName,
    account: Account,
}

impl Listed {
    /// `Y` if the account has a privilege everywhere.
    fn has(&self, privilege: Privileges) -> Datum {
        yes(self.account.privileges, privilege)
    }
}

fn yes(privileges: Privileges, one: Privileges) -> Datum {
    of(if privileges.has(one) { "Y" } else { "N" })
}

/// All accounts.
static USER: Definition<Listed> = Definition {
    schema: SCHEMA,
    name: "user",
    columns: &[
        text("Host", 255, |one| of(one.name.host())),
        text("User", 32, |one| of(one.name.user())),
        text("Select_priv", 1, |one| one.has(Privileges::SELECT)),
        text("Insert_priv", 1, |one| one.has(Privileges::INSERT)),
        text("Update_priv", 1, |one| one.has(Privileges::UPDATE)),
        text("Delete_priv", 1, |one| one.has(Privileges::DELETE)),
        text("Create_priv", 1, |one| one.has(Privileges::CREATE)),
        text("Drop_priv", 1, |one| one.has(Privileges::DROP)),
        text("Reload_priv", 1, |one| one.has(Privileges::RELOAD)),
        text("Shutdown_priv", 1, |one| one.has(Privileges::SHUTDOWN)),
        text("Process_priv", 1, |one| one.has(Privileges::PROCESS)),
        text("File_priv", 1, |one| one.has(Privileges::FILE)),
        text("Grant_priv", 1, |one| one.has(Privileges::GRANT_OPTION)),
        text("References_priv", 1, |one| one.has(Privileges::REFERENCES)),
        text("Index_priv", 1, |one| one.has(Privileges::INDEX)),
        text("Alter_priv", 1, |one| one.has(Privileges::ALTER)),
        text("Show_db_priv", 1, |one| one.has(Privileges::SHOW_DATABASES)),
        text("Super_priv", 1, |one| one.has(Privileges::SUPER)),
        text("Lock_tables_priv", 1, |one| {
            one.has(Privileges::LOCK_TABLES)
        }),
        text("Create_user_priv", 1, |one| {
            one.has(Privileges::CREATE_USER)
        }),
        text("plugin", 64, |one| {
            of(one.account.credential.plugin().name())
        }),
        text("authentication_string", 1024, |one| {
            of(one.account.credential.text())
        }),
        text("password_expired", 1, |one| {
            of(if one.account.expired { "Y" } else { "N" })
        }),
        text("account_locked", 1, |one| {
            of(if one.account.locked { "Y" } else { "N" })
        }),
    ],
    rows: |facts| {
        let listed = |(name, account): (&AccountName, &Account)| Listed {
            name: name.clone(),
            account: account.clone(),
        };
        facts.accounts.iter().map(listed).collect()
    },
};

/// What is granted to an account for a schema or a table.
struct Granted {
    name: AccountName,
    level: Level,
    privileges: Privileges,
}

impl Granted {
    fn all(facts: &Facts) -> impl Iterator<Item = Self> {
        facts.accounts.iter().flat_map(|(name, _)| {
            let levels = facts.accounts.levels(name);
            levels.map(|(level, privileges)| Self {
                name: name.clone(),
                level: level.clone(),
                privileges,
            })
        })
    }

    fn has(&self, privilege: Privileges) -> Datum {
        yes(self.privileges, privilege)
    }

    fn schema(&self) -> &str {
        match &self.level {
            Level::Global => "",
            Level::Schema(schema)
            | Level::Table(schema, _)
            | Level::Column(schema, ..)
            | Level::Routine(_, schema, _) => schema,
        }
    }

    fn table(&self) -> &str {
        match &self.level {
            Level::Table(_, table) | Level::Column(_, table, _) => table,
            _ => "",
        }
    }

    /// All that is granted at such levels.
    fn at(facts: &Facts, is_it: fn(&Level) -> bool) -> Vec<Self> {
        Self::all(facts).filter(|one| is_it(&one.level)).collect()
    }
}

/// What is granted for schemas.
static DB: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "db",
    columns: &[
        text("Host", 255, |one| of(one.name.host())),
        text("Db", 64, |one| of(one.schema())),
        text("User", 32, |one| of(one.name.user())),
        text("Select_priv", 1, |one| one.has(Privileges::SELECT)),
        text("Insert_priv", 1, |one| one.has(Privileges::INSERT)),
        text("Update_priv", 1, |one| one.has(Privileges::UPDATE)),
        text("Delete_priv", 1, |one| one.has(Privileges::DELETE)),
        text("Create_priv", 1, |one| one.has(Privileges::CREATE)),
        text("Drop_priv", 1, |one| one.has(Privileges::DROP)),
        text("Grant_priv", 1, |one| one.has(Privileges::GRANT_OPTION)),
        text("Index_priv", 1, |one| one.has(Privileges::INDEX)),
        text("Alter_priv", 1, |one| one.has(Privileges::ALTER)),
    ],
    rows: |facts| {
        let is_schema = |one: &Granted| matches!(one.level, Level::Schema(_));
        Granted::all(facts).filter(is_schema).collect()
    },
};

/// What is granted for tables.
static TABLES_PRIV: Definition<OfTable> = Definition {
    schema: SCHEMA,
    name: "tables_priv",
    columns: &[
        text("Host", 255, |one| of(one.name.host())),
        text("Db", 64, |one| of(&one.schema)),
        text("User", 32, |one| of(one.name.user())),
        text("Table_name", 64, |one| of(&one.table)),
        text("Grantor", 288, null),
        moment("Timestamp", null),
        text("Table_priv", 512, |one| of(set_of(one.privileges))),
        text("Column_priv", 64, |one| of(set_of(one.of_columns))),
    ],
    rows: tables,
};

/// What is granted for a table and for its columns.
struct OfTable {
    name: AccountName,
    schema: String,
    table: String,
    privileges: Privileges,
    of_columns: Privileges,
}

fn tables(facts: &Facts) -> Vec<OfTable> {
    let mut found: BTreeMap<(&AccountName, &str, &str), [Privileges; 2]> = BTreeMap::new();
    for (name, _) in facts.accounts.iter() {
        for (level, privileges) in facts.accounts.levels(name) {
            let (schema, table, number) = match level {
                Level::Table(schema, table) => (schema, table, 0),
                Level::Column(schema, table, _) => (schema, table, 1),
                _ => continue,
            };
            let of_table = found.entry((name, schema, table)).or_default();
            of_table[number] = of_table[number].with(privileges);
        }
    }
    let row = |((name, schema, table), [privileges, of_columns]): (
        (&AccountName, &str, &str),
        [Privileges; 2],
    )| {
        OfTable {
            name: name.clone(),
            schema: schema.to_owned(),
            table: table.to_owned(),
            privileges,
            of_columns,
        }
    };
    found.into_iter().map(row).collect()
}

/// What is granted for columns.
static COLUMNS_PRIV: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "columns_priv",
    columns: &[
        text("Host", 255, |one| of(one.name.host())),
        text("Db", 64, |one| of(one.schema())),
        text("User", 32, |one| of(one.name.user())),
        text("Table_name", 64, |one| of(one.table())),
        text("Column_name", 64, |one| match &one.level {
            Level::Column(.., column) => of(column),
            _ => Datum::Null,
        }),
        moment("Timestamp", null),
        text("Column_priv", 64, |one| of(set_of(one.privileges))),
    ],
    rows: |facts| Granted::at(facts, |level| matches!(level, Level::Column(..))),
};

/// What is granted for single routines.
static PROCS_PRIV: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "procs_priv",
    columns: &[
        text("Host", 255, |one| of(one.name.host())),
        text("Db", 64, |one| of(one.schema())),
        text("User", 32, |one| of(one.name.user())),
        text("Routine_name", 64, |one| match &one.level {
            Level::Routine(.., name) => of(name),
            _ => Datum::Null,
        }),
        text("Routine_type", 9, |one| match &one.level {
            Level::Routine(kind, ..) => of(kind.name()),
            _ => Datum::Null,
        }),
        text("Grantor", 288, null),
        text("Proc_priv", 64, |one| of(set_of(one.privileges))),
        moment("Timestamp", null),
    ],
    rows: |facts| Granted::at(facts, |level| matches!(level, Level::Routine(..))),
};

/// An account that has a role.
struct Edge {
    role: AccountName,
    to: AccountName,
    with_admin: bool,
}

/// Who has which role.
static ROLE_EDGES: Definition<Edge> = Definition {
    schema: SCHEMA,
    name: "role_edges",
    columns: &[
        text("FROM_HOST", 255, |one| of(one.role.host())),
        text("FROM_USER", 32, |one| of(one.role.user())),
        text("TO_HOST", 255, |one| of(one.to.host())),
        text("TO_USER", 32, |one| of(one.to.user())),
        text("WITH_ADMIN_OPTION", 1, |one| {
            of(if one.with_admin { "Y" } else { "N" })
        }),
    ],
    rows: |facts| {
        edges(facts, |accounts, name| {
            accounts
                .roles_of(name)
                .map(|(role, admin)| (role.clone(), admin))
                .collect()
        })
    },
};

/// The roles that are active after logins.
static DEFAULT_ROLES: Definition<Edge> = Definition {
    schema: SCHEMA,
    name: "default_roles",
    columns: &[
        text("HOST", 255, |one| of(one.to.host())),
        text("USER", 32, |one| of(one.to.user())),
        text("DEFAULT_ROLE_HOST", 255, |one| of(one.role.host())),
        text("DEFAULT_ROLE_USER", 32, |one| of(one.role.user())),
    ],
    rows: |facts| {
        edges(facts, |accounts, name| {
            accounts
                .default_roles(name)
                .map(|role| (role.clone(), false))
                .collect()
        })
    },
};

fn edges(
    facts: &Facts,
    roles: fn(&Accounts, &AccountName) -> Vec<(AccountName, bool)>,
) -> Vec<Edge> {
    let of_account = |(name, _): (&AccountName, &Account)| {
        let to = name.clone();
        let roles = roles(&facts.accounts, name).into_iter();
        roles.map(move |(role, with_admin)| Edge {
            role,
            to: to.clone(),
            with_admin,
        })
    };
    facts.accounts.iter().flat_map(of_account).collect()
}

/// A view of what there is not.
const fn nothing(name: &'static str, columns: &'static [Column<()>]) -> Definition<()> {
    Definition {
        schema: SCHEMA,
        name,
        columns,
        rows: none,
    }
}

/// Dumps of all schemas have the definitions of the logs.
static GENERAL_LOG: Definition<()> = nothing(
    "general_log",
    &[
        moment("event_time", null),
        long("user_host", null),
        count("thread_id", null),
        count("server_id", null),
        text("command_type", 64, null),
        long("argument", null),
    ],
);

static SLOW_LOG: Definition<()> = nothing(
    "slow_log",
    &[
        moment("start_time", null),
        long("user_host", null),
        number("query_time", null),
        number("lock_time", null),
        number("rows_sent", null),
        number("rows_examined", null),
        text("db", 512, null),
        number("last_insert_id", null),
        number("insert_id", null),
        count("server_id", null),
        long("sql_text", null),
        count("thread_id", null),
    ],
);
