//! TRIGGERS.

use perigee_value::{Charset, ColumnType, Datum};

use super::SCHEMA;
use crate::definition::{Column, Definition, catalog, count, long, null, of, text};
use crate::{Facts, TriggerFacts};

/// TRIGGERS.
pub(super) static TRIGGERS: Definition<TriggerFacts> = Definition {
    schema: SCHEMA,
    name: "TRIGGERS",
    columns: &[
        text("TRIGGER_CATALOG", 64, catalog),
        text("TRIGGER_SCHEMA", 64, |own| of(&own.table.def.schema)),
        text("TRIGGER_NAME", 64, |own| of(&own.def.name)),
        text("EVENT_MANIPULATION", 6, |own| of(own.def.event.name())),
        text("EVENT_OBJECT_CATALOG", 64, catalog),
        text("EVENT_OBJECT_SCHEMA", 64, |own| of(&own.table.def.schema)),
        text("EVENT_OBJECT_TABLE", 64, |own| of(&own.table.def.name)),
        count("ACTION_ORDER", |own| Datum::UInt(own.place)),
        long("ACTION_CONDITION", null),
        long("ACTION_STATEMENT", |own| of(&own.def.body)),
        text("ACTION_ORIENTATION", 3, |_| of("ROW")),
        text("ACTION_TIMING", 6, |own| of(own.def.timing.name())),
        text("ACTION_REFERENCE_OLD_TABLE", 64, null),
        text("ACTION_REFERENCE_NEW_TABLE", 64, null),
        text("ACTION_REFERENCE_OLD_ROW", 3, |_| of("OLD")),
        text("ACTION_REFERENCE_NEW_ROW", 3, |_| of("NEW")),
        Column {
            name: "CREATED",
            ty: ColumnType::DateTime { fsp: 2 },
            nullable: true,
            value: created,
        },
        text("SQL_MODE", 512, |own| of(&own.def.sql_mode)),
        text("DEFINER", 288, |own| {
            let (user, host) = &own.def.definer;
            of(format!("{user}@{host}"))
        }),
        text("CHARACTER_SET_CLIENT", 64, |_| of(Charset::Utf8mb4.name())),
        text("COLLATION_CONNECTION", 64, |own| {
            of(own.def.connection.name())
        }),
        text("DATABASE_COLLATION", 64, |own| of(own.def.database.name())),
    ],
    rows: |facts: &Facts| facts.triggers.clone(),
};

/// When a trigger was made, in the session's time zone, in hundredths of a second.
fn created(own: &TriggerFacts) -> Datum {
    let utc = own.def.created;
    Datum::DateTime(utc - utc.rem_euclid(10_000)).local_in(own.zone)
}
