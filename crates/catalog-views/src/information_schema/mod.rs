//! `information_schema`: what the SQL standard and MySQL say about schemas.

mod columns;
mod constraints;
mod nothing;
mod privileges;
mod roles;
mod routines;
mod server;
mod statistics;
mod tables;
mod triggers;
mod views;

use crate::View;

/// The schema's name.
pub(crate) const SCHEMA: &str = "information_schema";

/// Its views.
pub(crate) const VIEWS: &[&dyn View] = &[
    &roles::ADMINISTRABLE_ROLE_AUTHORIZATIONS,
    &roles::APPLICABLE_ROLES,
    &server::CHARACTER_SETS,
    &constraints::CHECK_CONSTRAINTS,
    &server::COLLATIONS,
    &server::COLLATION_CHARACTER_SET_APPLICABILITY,
    &columns::COLUMNS,
    &privileges::COLUMN_PRIVILEGES,
    &roles::ENABLED_ROLES,
    &server::ENGINES,
    &nothing::EVENTS,
    &nothing::FILES,
    &constraints::KEY_COLUMN_USAGE,
    &routines::PARAMETERS,
    &nothing::PARTITIONS,
    &nothing::PLUGINS,
    &server::PROCESSLIST,
    &constraints::REFERENTIAL_CONSTRAINTS,
    &roles::ROLE_COLUMN_GRANTS,
    &roles::ROLE_ROUTINE_GRANTS,
    &roles::ROLE_TABLE_GRANTS,
    &routines::ROUTINES,
    &tables::SCHEMATA,
    &privileges::SCHEMA_PRIVILEGES,
    &statistics::STATISTICS,
    &tables::TABLES,
    &constraints::TABLE_CONSTRAINTS,
    &privileges::TABLE_PRIVILEGES,
    &triggers::TRIGGERS,
    &privileges::USER_PRIVILEGES,
    &views::VIEWS,
];
