//! ROUTINES and PARAMETERS.

use perigee_engine::catalog::SqlAccess;
use perigee_value::{Charset, Datum};

use super::SCHEMA;
use super::columns::Place;
use crate::definition::{
    Definition, catalog, count, count_of, long, moment, null, number, of, of_some, text,
};
use crate::{Facts, RoutineFacts};

/// ROUTINES.
pub(super) static ROUTINES: Definition<RoutineFacts> = Definition {
    schema: SCHEMA,
    name: "ROUTINES",
    columns: &[
        text("SPECIFIC_NAME", 64, |routine| of(&routine.def.name)),
        text("ROUTINE_CATALOG", 64, catalog),
        text("ROUTINE_SCHEMA", 64, |routine| of(&routine.def.schema)),
        text("ROUTINE_NAME", 64, |routine| of(&routine.def.name)),
        text("ROUTINE_TYPE", 10, |_| of("PROCEDURE")),
        long("DATA_TYPE", |_| of("")),
        number("CHARACTER_MAXIMUM_LENGTH", null),
        number("CHARACTER_OCTET_LENGTH", null),
        count("NUMERIC_PRECISION", null),
        count("NUMERIC_SCALE", null),
        count("DATETIME_PRECISION", null),
        text("CHARACTER_SET_NAME", 64, null),
        text("COLLATION_NAME", 64, null),
        long("DTD_IDENTIFIER", null),
        text("ROUTINE_BODY", 3, |_| of("SQL")),
        long("ROUTINE_DEFINITION", |routine| of(&routine.def.body)),
        text("EXTERNAL_NAME", 64, null),
        text("EXTERNAL_LANGUAGE", 64, |_| of("SQL")),
        text("PARAMETER_STYLE", 3, |_| of("SQL")),
        text("IS_DETERMINISTIC", 3, |routine| {
            of(if routine.def.deterministic {
                "YES"
            } else {
                "NO"
            })
        }),
        text("SQL_DATA_ACCESS", 17, |routine| {
            of(match routine.def.access {
                SqlAccess::Contains => "CONTAINS SQL",
                SqlAccess::None => "NO SQL",
                SqlAccess::Reads => "READS SQL DATA",
                SqlAccess::Modifies => "MODIFIES SQL DATA",
            })
        }),
        text("SQL_PATH", 64, null),
        text("SECURITY_TYPE", 7, |routine| {
            of(match routine.def.invoker {
                true => "INVOKER",
                false => "DEFINER",
            })
        }),
        moment("CREATED", |routine| second(routine.def.created, routine)),
        moment("LAST_ALTERED", |routine| {
            second(routine.def.altered, routine)
        }),
        text("SQL_MODE", 512, |routine| of(&routine.def.sql_mode)),
        long("ROUTINE_COMMENT", |routine| of(&routine.def.comment)),
        text("DEFINER", 288, |routine| {
            let (user, host) = &routine.def.definer;
            of(format!("{user}@{host}"))
        }),
        text("CHARACTER_SET_CLIENT", 64, |_| of(Charset::Utf8mb4.name())),
        text("COLLATION_CONNECTION", 64, |routine| {
            of(routine.def.connection.name())
        }),
        text("DATABASE_COLLATION", 64, |routine| {
            of(routine.def.database.name())
        }),
    ],
    rows: |facts: &Facts| facts.routines.clone(),
};

/// A point in time in the session's time zone, to the second.
fn second(utc: i64, routine: &RoutineFacts) -> Datum {
    Datum::DateTime(utc - utc.rem_euclid(1_000_000)).local_in(routine.zone)
}

/// A parameter: the procedure, and its place among the parameters.
pub(super) struct Parameter {
    routine: RoutineFacts,
    place: Place,
}

/// PARAMETERS.
pub(super) static PARAMETERS: Definition<Parameter> = Definition {
    schema: SCHEMA,
    name: "PARAMETERS",
    columns: &[
        text("SPECIFIC_CATALOG", 64, catalog),
        text("SPECIFIC_SCHEMA", 64, |own| of(&own.routine.def.schema)),
        text("SPECIFIC_NAME", 64, |own| of(&own.routine.def.name)),
        count("ORDINAL_POSITION", |own| {
            Datum::UInt(own.place.number() as u64 + 1)
        }),
        text("PARAMETER_MODE", 5, |own| {
            of(own.routine.modes[own.place.number()])
        }),
        text("PARAMETER_NAME", 64, |own| of(&own.place.column().name)),
        long("DATA_TYPE", |own| of(own.place.data_type())),
        count("CHARACTER_MAXIMUM_LENGTH", |own| {
            count_of(own.place.chars())
        }),
        count("CHARACTER_OCTET_LENGTH", |own| count_of(own.place.bytes())),
        count("NUMERIC_PRECISION", |own| count_of(own.place.precision())),
        count("NUMERIC_SCALE", |own| count_of(own.place.scale())),
        count("DATETIME_PRECISION", |own| {
            count_of(own.place.column().ty.fsp().map(u64::from))
        }),
        text("CHARACTER_SET_NAME", 64, |own| {
            let collation = crate::describe::collation(own.place.column());
            of_some(collation.map(|own| own.charset().name()))
        }),
        text("COLLATION_NAME", 64, |own| of_some(own.place.collation())),
        long("DTD_IDENTIFIER", |own| of(own.place.column().type_text())),
        text("ROUTINE_TYPE", 9, |_| of("PROCEDURE")),
    ],
    rows: parameters,
};

fn parameters(facts: &Facts) -> Vec<Parameter> {
    let of_routine = |routine: &RoutineFacts| {
        let count = routine.parameters.columns.len();
        let own = routine.clone();
        (0..count).map(move |number| Parameter {
            place: Place::new(own.parameters.clone(), number),
            routine: own.clone(),
        })
    };
    facts.routines.iter().flat_map(of_routine).collect()
}
