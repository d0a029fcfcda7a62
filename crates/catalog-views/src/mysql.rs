//! `mysql`: what tools read of the server's own tables.

use crate::View;
use crate::definition::{Definition, null, of, text};

/// The schema's name.
pub(crate) const SCHEMA: &str = "mysql";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[&USER];

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
