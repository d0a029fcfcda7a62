//! The tables that tools ask about a server: `information_schema`, the parts of `performance_schema` and `mysql` that
//! clients read. Each is a list of columns with what a fact says in each of them; the session gathers the facts.
//! SHOW tells the same facts in other words, with what [`describe`] says of them.

pub mod describe;

mod definition;
mod facts;
mod information_schema;
mod mysql;
mod performance_schema;

use perigee_engine::catalog::TableDef;
use perigee_value::Datum;

pub use facts::{
    Connection, DigestFacts, Facts, NamedValue, RoleFacts, RoutineFacts, TableFacts, TriggerFacts,
    ViewFacts,
};

/// Schemas that consist of views only.
pub const SCHEMAS: [&str; 3] = [
    information_schema::SCHEMA,
    mysql::SCHEMA,
    performance_schema::SCHEMA,
];

/// A table whose rows are made of what the server knows.
pub trait View: Send + Sync {
    /// Schema, in lower case.
    fn schema(&self) -> &'static str;

    /// Name, as it is shown.
    fn name(&self) -> &'static str;

    /// The table as a user would have defined it.
    fn definition(&self) -> TableDef;

    /// Its rows, with a value of its type for each column.
    fn rows(&self, facts: &Facts) -> Vec<Vec<Datum>>;
}

/// All views.
pub fn all() -> impl Iterator<Item = &'static dyn View> {
    let schemas = [
        information_schema::VIEWS,
        mysql::VIEWS,
        performance_schema::VIEWS,
    ];
    schemas.into_iter().flatten().copied()
}

/// The view with this name, compared without case.
#[must_use]
pub fn find(schema: &str, name: &str) -> Option<&'static dyn View> {
    all().find(|view| {
        view.schema().eq_ignore_ascii_case(schema) && view.name().eq_ignore_ascii_case(name)
    })
}

/// True for the name of a schema of views, compared without case.
#[must_use]
pub fn is_schema(name: &str) -> bool {
    SCHEMAS
        .iter()
        .any(|schema| schema.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
