//! Constraints that statements add to a table: keys, foreign keys and CHECK.

use perigee_accounts::Privileges;
use sqlparser::ast::{ColumnDef, ColumnOption, ObjectName, TableConstraint};

use super::draft::Draft;
use super::keys;
use crate::error::Result;
use crate::session::Session;

/// Adds a constraint of CREATE TABLE or ALTER TABLE.
pub(super) fn add(
    session: &Session,
    draft: &mut Draft,
    constraint: &TableConstraint,
) -> Result<()> {
    match constraint {
        TableConstraint::ForeignKey(key) => {
            let (schema, table) = parent(session, &draft.schema, &key.foreign_table)?;
            session.check_base_table(Privileges::REFERENCES, &schema, &table)?;
            draft.add_foreign_key(key, (schema, table))
        }
        TableConstraint::Check(check) => draft.add_check(check, None, None),
        other => draft.add_key(keys::key_of(other)?),
    }
}

/// Schema and name of the table that a foreign key refers to, of a table in `schema`, which need not be that of the
/// session.
pub(super) fn parent(
    session: &Session,
    schema: &str,
    name: &ObjectName,
) -> Result<(String, String)> {
    match &name.0[..] {
        [table] => {
            let table = table.as_ident().map(|ident| ident.value.to_lowercase());
            Ok((schema.to_owned(), table.unwrap_or_default()))
        }
        _ => session.resolve(name),
    }
}

/// Adds the CHECK constraints of a column's definition.
pub(super) fn of_column(draft: &mut Draft, column: &ColumnDef) -> Result<()> {
    for option in &column.options {
        if let ColumnOption::Check(check) = &option.option {
            draft.add_check(check, option.name.as_ref(), Some(&column.name.value))?;
        }
    }
    Ok(())
}
