//! Views of what this server does not have, such as events. Tools ask for them, and are told that there is none.

use super::SCHEMA;
use crate::definition::{Column, Definition, count, long, moment, none, null, number, text};

const fn view(name: &'static str, columns: &'static [Column<()>]) -> Definition<()> {
    Definition {
        schema: SCHEMA,
        name,
        columns,
        rows: none,
    }
}

/// A name.
const fn name(name: &'static str) -> Column<()> {
    text(name, 64, null)
}

/// A word or a few.
const fn word(name: &'static str) -> Column<()> {
    text(name, 512, null)
}

pub(super) static EVENTS: Definition<()> = view(
    "EVENTS",
    &[
        name("EVENT_CATALOG"),
        name("EVENT_SCHEMA"),
        name("EVENT_NAME"),
        word("DEFINER"),
        name("TIME_ZONE"),
        name("EVENT_BODY"),
        long("EVENT_DEFINITION", null),
        name("EVENT_TYPE"),
        moment("EXECUTE_AT", null),
        word("INTERVAL_VALUE"),
        name("INTERVAL_FIELD"),
        word("SQL_MODE"),
        moment("STARTS", null),
        moment("ENDS", null),
        name("STATUS"),
        name("ON_COMPLETION"),
        moment("CREATED", null),
        moment("LAST_ALTERED", null),
        moment("LAST_EXECUTED", null),
        text("EVENT_COMMENT", 2048, null),
        count("ORIGINATOR", null),
        name("CHARACTER_SET_CLIENT"),
        name("COLLATION_CONNECTION"),
        name("DATABASE_COLLATION"),
    ],
);

pub(super) static FILES: Definition<()> = view(
    "FILES",
    &[
        number("FILE_ID", null),
        long("FILE_NAME", null),
        name("FILE_TYPE"),
        name("TABLESPACE_NAME"),
        name("TABLE_CATALOG"),
        name("TABLE_SCHEMA"),
        name("TABLE_NAME"),
        name("LOGFILE_GROUP_NAME"),
        number("LOGFILE_GROUP_NUMBER", null),
        name("ENGINE"),
        number("FREE_EXTENTS", null),
        number("TOTAL_EXTENTS", null),
        number("EXTENT_SIZE", null),
        number("INITIAL_SIZE", null),
        number("MAXIMUM_SIZE", null),
        number("AUTOEXTEND_SIZE", null),
        number("DATA_FREE", null),
        word("STATUS"),
        word("EXTRA"),
    ],
);

pub(super) static PARTITIONS: Definition<()> = view(
    "PARTITIONS",
    &[
        name("TABLE_CATALOG"),
        name("TABLE_SCHEMA"),
        name("TABLE_NAME"),
        name("PARTITION_NAME"),
        name("SUBPARTITION_NAME"),
        count("PARTITION_ORDINAL_POSITION", null),
        count("SUBPARTITION_ORDINAL_POSITION", null),
        name("PARTITION_METHOD"),
        name("SUBPARTITION_METHOD"),
        long("PARTITION_EXPRESSION", null),
        long("SUBPARTITION_EXPRESSION", null),
        long("PARTITION_DESCRIPTION", null),
        count("TABLE_ROWS", null),
        count("AVG_ROW_LENGTH", null),
        count("DATA_LENGTH", null),
        count("MAX_DATA_LENGTH", null),
        count("INDEX_LENGTH", null),
        count("DATA_FREE", null),
        moment("CREATE_TIME", null),
        moment("UPDATE_TIME", null),
        moment("CHECK_TIME", null),
        count("CHECKSUM", null),
        long("PARTITION_COMMENT", null),
        word("NODEGROUP"),
        word("TABLESPACE_NAME"),
    ],
);

pub(super) static PLUGINS: Definition<()> = view(
    "PLUGINS",
    &[
        name("PLUGIN_NAME"),
        name("PLUGIN_VERSION"),
        name("PLUGIN_STATUS"),
        name("PLUGIN_TYPE"),
        name("PLUGIN_TYPE_VERSION"),
        name("PLUGIN_LIBRARY"),
        name("PLUGIN_LIBRARY_VERSION"),
        name("PLUGIN_AUTHOR"),
        long("PLUGIN_DESCRIPTION", null),
        name("PLUGIN_LICENSE"),
        name("LOAD_OPTION"),
    ],
);
