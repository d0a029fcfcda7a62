//! VIEWS.

use perigee_engine::catalog::CheckOption;
use perigee_value::Charset;

use super::SCHEMA;
use crate::definition::{Definition, catalog, long, of, text};
use crate::{Facts, ViewFacts};

/// VIEWS.
pub(super) static VIEWS: Definition<ViewFacts> = Definition {
    schema: SCHEMA,
    name: "VIEWS",
    columns: &[
        text("TABLE_CATALOG", 64, catalog),
        text("TABLE_SCHEMA", 64, |view| of(&view.def.schema)),
        text("TABLE_NAME", 64, |view| of(&view.def.name)),
        long("VIEW_DEFINITION", |view| {
            of(match view.is_shown {
                true => &*view.def.query,
                false => "",
            })
        }),
        text("CHECK_OPTION", 8, |view| {
            of(match view.def.check {
                CheckOption::None => "NONE",
                CheckOption::Local => "LOCAL",
                CheckOption::Cascaded => "CASCADED",
            })
        }),
        text("IS_UPDATABLE", 3, |view| {
            of(if view.is_updatable { "YES" } else { "NO" })
        }),
        text("DEFINER", 288, |view| {
            let (user, host) = &view.def.definer;
            of(format!("{user}@{host}"))
        }),
        text("SECURITY_TYPE", 7, |view| {
            of(if view.def.invoker {
                "INVOKER"
            } else {
                "DEFINER"
            })
        }),
        text("CHARACTER_SET_CLIENT", 64, |_| of(Charset::Utf8mb4.name())),
        text("COLLATION_CONNECTION", 64, |view| {
            of(view.def.collation.name())
        }),
    ],
    rows: |facts: &Facts| facts.views.clone(),
};
