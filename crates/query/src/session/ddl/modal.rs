//! What `sql_mode` and the time zone change in the definitions of columns.

use perigee_engine::catalog::{ColumnDef, ColumnDefault};
use perigee_sql_bind::Modes;
use perigee_value::Collation;
use sqlparser::ast::{ColumnDef as AstColumn, DataType, ExactNumberInfo};

use super::column::{Definition, column_definition};
use crate::error::{Result, SqlError};
use crate::session::Session;

/// [`column_definition`] in the modes and the time zone of a session.
pub(super) fn modal_definition(
    column: &AstColumn,
    otherwise: Collation,
    session: &Session,
) -> Result<Definition> {
    let (modes, zone) = (session.modes(), session.zone());
    if column.data_type == DataType::Real && modes.has(Modes::REAL_AS_FLOAT) {
        let column = AstColumn {
            data_type: DataType::Float(ExactNumberInfo::None),
            ..column.clone()
        };
        return column_definition(&column, otherwise, zone);
    }
    let definition = column_definition(column, otherwise, zone)?;
    check_default(&definition.column, modes)?;
    Ok(definition)
}

/// Refuses 0000-00-00 as a default where it is no date.
///
/// # Errors
/// 1067.
pub(super) fn check_default(column: &ColumnDef, modes: Modes) -> Result<()> {
    match &column.default {
        Some(ColumnDefault::Value(value))
            if value.is_zero_date() && modes.has(Modes::NO_ZERO_DATE) =>
        {
            Err(SqlError::invalid_default(&column.name))
        }
        _ => Ok(()),
    }
}
