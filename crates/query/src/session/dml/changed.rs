//! Which of the tables that an UPDATE or DELETE names, itself or by way of views, it changes.

use perigee_sql_bind::query::Source;
use sqlparser::ast::ObjectName;

use super::assign::Assigned;
use super::change::Kind;
use super::point;
use super::target::Target;
use crate::error::{Result, SqlError};
use crate::parse::Rows;

/// The tables that are assigned to; assignments name them by their places among these then.
pub(super) fn changed_targets(assigned: &mut [Assigned], all: &[Target]) -> Vec<Target> {
    let mut changed: Vec<usize> = assigned.iter().map(|a| a.target).collect();
    changed.sort_unstable();
    changed.dedup();
    for assigned in assigned {
        let place = changed.binary_search(&assigned.target);
        assigned.target = place.expect("it is among them");
    }
    changed.iter().map(|target| all[*target].clone()).collect()
}

/// The tables that rows are deleted from: those that are named, or all.
pub(super) fn deleted_targets(
    names: &[ObjectName],
    all: Vec<Target>,
    sources: &[Source],
) -> Result<Vec<Target>> {
    if names.is_empty() {
        if let [source] = sources {
            deleted_reference(source)?;
        }
        return Ok(all);
    }
    let mut targets: Vec<Target> = Vec::new();
    for name in names {
        let source = sources.iter().find(|source| is_named(source, name));
        let view = source.filter(|source| source.is_view);
        let view = view.map(deleted_reference).transpose()?.flatten();
        let target = all.iter().find(|target| match view {
            Some(reference) => target.access == reference,
            None => target.is_named(name),
        });
        let target = target.ok_or_else(|| SqlError::unknown_delete_table(name))?;
        if targets.iter().any(|known| known.access == target.access) {
            return Err(SqlError::duplicate_alias(&target.alias));
        }
        targets.push(target.clone());
    }
    Ok(targets)
}

/// The table that rows of a view are deleted from.
///
/// # Errors
/// 1288, 1395.
fn deleted_reference(source: &Source) -> Result<Option<usize>> {
    match source.references[..] {
        _ if !source.is_view => Ok(None),
        [reference] if !source.is_join => Ok(Some(reference)),
        [] => Err(SqlError::not_updatable(&source.alias, "DELETE")),
        _ => {
            let schema = source.schema.as_deref().unwrap_or_default();
            Err(SqlError::delete_from_join(schema, &source.alias))
        }
    }
}

/// True if a name in the statement means this table or view.
fn is_named(source: &Source, name: &ObjectName) -> bool {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    let parts: Vec<String> = parts.map(|ident| ident.value.to_lowercase()).collect();
    match &parts[..] {
        [table] => **table == *source.alias,
        [schema, table] => **table == *source.alias && source.schema.as_deref() == Some(&**schema),
        _ => false,
    }
}

/// The key of the only row that can change.
///
/// # Errors
/// 1288 if no table can be changed.
pub(super) fn point_of(kind: Kind, targets: &[Target], rows: &Rows) -> Result<Option<Vec<u8>>> {
    point::key(rows, first_of(kind, targets, rows)?)
}

/// The first of the tables that may change.
///
/// # Errors
/// 1288 if there is none.
pub(super) fn first_of<'t>(kind: Kind, targets: &'t [Target], rows: &Rows) -> Result<&'t Target> {
    let statement = match kind {
        Kind::Update => "UPDATE",
        Kind::Delete => "DELETE",
    };
    match (targets.first(), rows.from.first()) {
        (Some(first), _) => Ok(first),
        (None, Some(table)) => {
            let table = table.relation.to_string();
            Err(SqlError::not_updatable(table, statement))
        }
        (None, None) => Err(SqlError::no_tables_used()),
    }
}
