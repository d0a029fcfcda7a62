//! `mysql`: what tools read of the server's own tables.

use crate::View;
use crate::definition::{Column, Definition, moment, none, null, of, text};

/// The schema's name.
pub(crate) const SCHEMA: &str = "mysql";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[&COLUMNS_PRIV, &DB, &PROCS_PRIV, &TABLES_PRIV, &USER];

/// Whoever logs in, and what he may do.
static USER: Definition<()> = Definition {
    schema: SCHEMA,
    name: "user",
    columns: &[
        text("Host", 255, |()| of("%")),
        text("User", 32, |()| of("root")),
        text("Select_priv", 1, |()| of("Y")),
        text("Insert_priv", 1, |()| of("Y")),
        text("Update_priv", 1, |()| of("Y")),
        text("Delete_priv", 1, |()| of("Y")),
        text("Create_priv", 1, |()| of("Y")),
        text("Drop_priv", 1, |()| of("Y")),
        text("Super_priv", 1, |()| of("Y")),
        text("plugin", 64, |()| of("mysql_native_password")),
        text("authentication_string", 1024, null),
    ],
    rows: |_| vec![()],
};

/// Privileges for parts of the server. There are none: whoever logs in may do everything.
const fn privileges(name: &'static str, columns: &'static [Column<()>]) -> Definition<()> {
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

static DB: Definition<()> = privileges(
    "db",
    &[
        name("Host"),
        name("Db"),
        name("User"),
        name("Select_priv"),
        name("Insert_priv"),
        name("Update_priv"),
        name("Delete_priv"),
        name("Create_priv"),
        name("Drop_priv"),
        name("Grant_priv"),
    ],
);

static TABLES_PRIV: Definition<()> = privileges(
    "tables_priv",
    &[
        name("Host"),
        name("Db"),
        name("User"),
        name("Table_name"),
        name("Grantor"),
        moment("Timestamp", null),
        name("Table_priv"),
        name("Column_priv"),
    ],
);

static COLUMNS_PRIV: Definition<()> = privileges(
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

static PROCS_PRIV: Definition<()> = privileges(
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
