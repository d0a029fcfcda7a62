//! USER_PRIVILEGES: everybody may do everything.

use super::SCHEMA;
use crate::definition::{Definition, catalog, of, text};

/// What a user may do.
const ALL: [&str; 14] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "RELOAD",
    "SHUTDOWN",
    "PROCESS",
    "INDEX",
    "ALTER",
    "SHOW DATABASES",
    "LOCK TABLES",
    "CREATE USER",
];

/// USER_PRIVILEGES.
pub(super) static USER_PRIVILEGES: Definition<&'static str> = Definition {
    schema: SCHEMA,
    name: "USER_PRIVILEGES",
    columns: &[
        text("GRANTEE", 292, |_| of("'root'@'%'")),
        text("TABLE_CATALOG", 512, catalog),
        text("PRIVILEGE_TYPE", 64, |privilege| of(privilege)),
        text("IS_GRANTABLE", 3, |_| of("YES")),
    ],
    rows: |_| ALL.to_vec(),
};
