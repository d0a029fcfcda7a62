//! `mysql`: what tools read of the server's own tables.

use perigee_accounts::{Account, AccountName, Level, Privileges};
use perigee_value::Datum;

use crate::definition::{
    Column, Definition, count, empty, long, moment, none, null, number, of, text,
};
use crate::{Facts, View};

/// The schema's name.
pub(crate) const SCHEMA: &str = "mysql";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[
    &COLUMNS_PRIV,
    &DB,
    &GENERAL_LOG,
    &PROCS_PRIV,
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
            Level::Schema(schema) | Level::Table(schema, _) => schema,
        }
    }

    fn table(&self) -> &str {
        match &self.level {
            Level::Table(_, table) => table,
            _ => "",
        }
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
static TABLES_PRIV: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "tables_priv",
    columns: &[
        text("Host", 255, |one| of(one.name.host())),
        text("Db", 64, |one| of(one.schema())),
        text("User", 32, |one| of(one.name.user())),
        text("Table_name", 64, |one| of(one.table())),
        text("Grantor", 288, null),
        moment("Timestamp", null),
        text("Table_priv", 512, |one| {
            let names: Vec<_> = one.privileges.names().collect();
            of(names.join(","))
        }),
        text("Column_priv", 64, empty),
    ],
    rows: |facts| {
        let is_table = |one: &Granted| matches!(one.level, Level::Table(..));
        Granted::all(facts).filter(is_table).collect()
    },
};

/// A view of what there is not.
const fn nothing(name: &'static str, columns: &'static [Column<()>]) -> Definition<()> {
    Definition {
        schema: SCHEMA,
        name,
        columns,
        rows: none,
    }
}

const fn name(name: &'static str) -> Column<()> {
    text(name, 255, null)
}

static COLUMNS_PRIV: Definition<()> = nothing(
    "columns_priv",
    &[
        name("Host"),
        name("Db"),
        name("User"),
        name("Table_name"),
        name("Column_name"),
        moment("Timestamp", null),
        name("Column_priv"),
    ],
);

static PROCS_PRIV: Definition<()> = nothing(
    "procs_priv",
    &[
        name("Host"),
        name("Db"),
        name("User"),
        name("Routine_name"),
        name("Routine_type"),
        name("Grantor"),
        name("Proc_priv"),
        moment("Timestamp", null),
    ],
);

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
