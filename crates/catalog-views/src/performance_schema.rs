//! `performance_schema`: variables and counters.

use crate::definition::{Column, Definition, of, text};
use crate::{Facts, NamedValue, View};

/// The schema's name.
pub(crate) const SCHEMA: &str = "performance_schema";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[
    &GLOBAL_STATUS,
    &GLOBAL_VARIABLES,
    &SESSION_STATUS,
    &SESSION_VARIABLES,
];

/// A name and its value.
const NAMED: &[Column<NamedValue>] = &[
    text("VARIABLE_NAME", 64, |named| of(&named.name)),
    text("VARIABLE_VALUE", 1024, |named| of(&named.value)),
];

/// A view of names and values.
const fn named(name: &'static str, rows: fn(&Facts) -> Vec<NamedValue>) -> Definition<NamedValue> {
    Definition {
        schema: SCHEMA,
        name,
        columns: NAMED,
        rows,
    }
}

static GLOBAL_STATUS: Definition<NamedValue> =
    named("global_status", |facts| facts.global_status.clone());

static GLOBAL_VARIABLES: Definition<NamedValue> =
    named("global_variables", |facts| facts.global_variables.clone());

static SESSION_STATUS: Definition<NamedValue> =
    named("session_status", |facts| facts.session_status.clone());

static SESSION_VARIABLES: Definition<NamedValue> =
    named("session_variables", |facts| facts.session_variables.clone());
