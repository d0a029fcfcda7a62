//! What the server offers, and who is connected.

use perigee_value::{Charset, Collation, Datum};

use super::SCHEMA;
use crate::definition::{Definition, count, long, number, of, of_some, text};
use crate::describe::{self, ENGINE};
use crate::{Connection, Facts};

/// ENGINES.
pub(super) static ENGINES: Definition<()> = Definition {
    schema: SCHEMA,
    name: "ENGINES",
    columns: &[
        text("ENGINE", 64, |()| of(ENGINE)),
        text("SUPPORT", 8, |()| of("DEFAULT")),
        text("COMMENT", 80, |()| of(describe::ENGINE_COMMENT)),
        text("TRANSACTIONS", 3, |()| of("YES")),
        text("XA", 3, |()| of("NO")),
        text("SAVEPOINTS", 3, |()| of("YES")),
    ],
    rows: |_| vec![()],
};

/// CHARACTER_SETS.
pub(super) static CHARACTER_SETS: Definition<Charset> = Definition {
    schema: SCHEMA,
    name: "CHARACTER_SETS",
    columns: &[
        text("CHARACTER_SET_NAME", 64, |charset| of(charset.name())),
        text("DEFAULT_COLLATE_NAME", 64, |charset| {
            of(charset.default_collation().name())
        }),
        text("DESCRIPTION", 2048, |charset| of(charset.description())),
        count("MAXLEN", |charset| Datum::UInt(charset.max_len().into())),
    ],
    rows: |_| Charset::ALL.to_vec(),
};

/// COLLATIONS.
pub(super) static COLLATIONS: Definition<Collation> = Definition {
    schema: SCHEMA,
    name: "COLLATIONS",
    columns: &[
        text("COLLATION_NAME", 64, |collation| of(collation.name())),
        text("CHARACTER_SET_NAME", 64, |collation| {
            of(collation.charset().name())
        }),
        count("ID", |collation| Datum::UInt(collation.0.into())),
        text("IS_DEFAULT", 3, |collation| {
            of(if describe::is_default(*collation) {
                "Yes"
            } else {
                ""
            })
        }),
        text("IS_COMPILED", 3, |_| of("Yes")),
        count("SORTLEN", |_| Datum::UInt(1)),
        text("PAD_ATTRIBUTE", 9, |collation| {
            of(describe::pad_attribute(*collation))
        }),
    ],
    rows: |_| collations(),
};

fn collations() -> Vec<Collation> {
    Collation::all().collect()
}

/// COLLATION_CHARACTER_SET_APPLICABILITY.
pub(super) static COLLATION_CHARACTER_SET_APPLICABILITY: Definition<Collation> = Definition {
    schema: SCHEMA,
    name: "COLLATION_CHARACTER_SET_APPLICABILITY",
    columns: &[
        text("COLLATION_NAME", 64, |collation| of(collation.name())),
        text("CHARACTER_SET_NAME", 64, |collation| {
            of(collation.charset().name())
        }),
    ],
    rows: |_| collations(),
};

/// PROCESSLIST.
pub(super) static PROCESSLIST: Definition<Connection> = Definition {
    schema: SCHEMA,
    name: "PROCESSLIST",
    columns: &[
        count("ID", |connection| Datum::UInt(connection.id)),
        text("USER", 32, |connection| of(&connection.user)),
        text("HOST", 261, |connection| of(&connection.host)),
        text("DB", 64, |connection| of_some(connection.schema.as_ref())),
        text("COMMAND", 16, |connection| of(&connection.command)),
        number("TIME", |connection| Datum::Int(connection.seconds as i64)),
        text("STATE", 64, |_| of("")),
        long("INFO", |connection| of_some(connection.statement.as_ref())),
    ],
    rows: connections,
};

fn connections(facts: &Facts) -> Vec<Connection> {
    facts.connections.clone()
}
