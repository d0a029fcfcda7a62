//! `performance_schema`: variables, counters, and statements by their digests.

use perigee_value::Datum;

use crate::definition::{Column, Definition, count, instant, long, of, of_some, text};
use crate::{DigestFacts, Facts, NamedValue, View};

/// The schema's name.
pub(crate) const SCHEMA: &str = "performance_schema";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[
    &EVENTS_STATEMENTS_SUMMARY_BY_DIGEST,
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

/// Columns that MySQL has, and those of near-data processing behind them.
static EVENTS_STATEMENTS_SUMMARY_BY_DIGEST: Definition<DigestFacts> = Definition {
    schema: SCHEMA,
    name: "events_statements_summary_by_digest",
    columns: &[
        text("SCHEMA_NAME", 64, |one| of_some(one.schema.as_ref())),
        text("DIGEST", 64, |one| of_some(one.digest.as_ref())),
        long("DIGEST_TEXT", |one| of_some(one.text.as_ref())),
        count("COUNT_STAR", |one| Datum::UInt(one.count)),
        count("SUM_TIMER_WAIT", |one| Datum::UInt(one.total)),
        count("MIN_TIMER_WAIT", |one| Datum::UInt(one.shortest)),
        count("AVG_TIMER_WAIT", |one| Datum::UInt(one.average)),
        count("MAX_TIMER_WAIT", |one| Datum::UInt(one.longest)),
        count("SUM_ERRORS", |one| Datum::UInt(one.errors)),
        count("SUM_WARNINGS", |one| Datum::UInt(one.warnings)),
        count("SUM_ROWS_AFFECTED", |one| Datum::UInt(one.rows_affected)),
        count("SUM_ROWS_SENT", |one| Datum::UInt(one.rows_sent)),
        count("SUM_NO_INDEX_USED", |one| Datum::UInt(one.no_index)),
        instant("FIRST_SEEN", |one| Datum::DateTime(one.first_seen)),
        instant("LAST_SEEN", |one| Datum::DateTime(one.last_seen)),
        long("QUERY_SAMPLE_TEXT", |one| of_some(one.sample.as_ref())),
        count("SUM_NDP_BYTES_READ", |one| Datum::UInt(one.bytes_read)),
        count("SUM_NDP_BYTES_SHIPPED", |one| {
            Datum::UInt(one.bytes_shipped)
        }),
        count("SUM_NDP_BYTES_SAVED", |one| Datum::UInt(one.bytes_saved)),
        count("SUM_COST_NANODOLLARS", |one| Datum::UInt(one.nanodollars)),
    ],
    rows: |facts| facts.digests.clone(),
};
