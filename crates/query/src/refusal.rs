//! What foreign keys forbid, in MySQL's words.

use perigee_engine::Refusal;

use crate::error::SqlError;

impl From<Refusal> for SqlError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoParent(key) => Self::no_referenced_row(key),
            Refusal::Referenced(key) => Self::row_is_referenced(key),
            Refusal::CascadeDepth(depth) => Self::cascade_depth(depth),
            Refusal::DuplicateInChild {
                parent,
                row,
                table,
                index,
            } => Self::duplicate_in_child(parent, row, table, index),
            Refusal::NoTable(table) => Self::no_referenced_table(table),
            Refusal::NoColumn { key, column } => {
                Self::no_referenced_column(column, key.name, key.parent.1)
            }
            Refusal::NoIndex(key) => Self::no_referenced_index(key.name, key.parent.1),
            Refusal::Incompatible {
                key,
                column,
                referenced,
            } => Self::incompatible_columns(column, referenced, key.name),
            Refusal::KeyExists(name) => Self::foreign_key_exists(name),
            Refusal::CheckExists(name) => Self::check_exists(name),
            Refusal::TableReferenced(key) => {
                Self::table_is_referenced(key.parent.1, key.name, key.table)
            }
            Refusal::RowsReferenced(key) => {
                Self::truncate_referenced(key.schema, key.table, key.name)
            }
            Refusal::ChangedColumn { key, column } => {
                Self::foreign_key_column_changed(column, key.name)
            }
            Refusal::ChangedParent { key, column } => {
                let table = format!("{}.{}", key.schema, key.table);
                Self::referenced_column_changed(column, key.name, table)
            }
            Refusal::DroppedParent { key, column } => {
                Self::referenced_column_dropped(column, key.name, key.table)
            }
            Refusal::IndexNeeded(index) => Self::index_needed(index),
            Refusal::TriggersMove => Self::trigger_in_wrong_schema(),
            Refusal::Unchecked => {
                Self::unknown("Q19: a row keeps no condition and nobody says why")
            }
        }
    }
}
