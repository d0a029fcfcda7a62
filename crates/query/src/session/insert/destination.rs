//! [`Destination`]: the table that gets the rows of an INSERT. Through a view it is one of the view's tables, and the
//! columns of the view are columns of it.

use std::ops::ControlFlow;
use std::sync::Arc;

use perigee_accounts::Privileges;
use perigee_engine::catalog::{Table, TableDef, ViewDef};
use perigee_sql_bind::query::{Column, Origin, Source};
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, ObjectNamePart, Query, Visit, VisitMut,
    Visitor, VisitorMut,
};

use super::Targets;
use crate::error::{Result, SqlError};
use crate::session::{Session, bound};

/// Where the rows of an INSERT go.
pub(super) struct Destination {
    pub table: Arc<Table>,
    /// The table's name.
    pub name: ObjectName,
    /// Its columns that get values; none are named if all do.
    columns: Vec<ObjectName>,
    through: Option<Through>,
}

/// The view that an INSERT names.
struct Through {
    source: Source,
    /// The view calls columns otherwise than the table, or does not show them as they are.
    renames: bool,
}

impl Destination {
    /// Where values for these columns of a table or a view go.
    ///
    /// # Errors
    /// 1054, 1142, 1146, 1348, 1356, 1393, 1394, 1471.
    pub fn new(
        session: &Session,
        name: ObjectName,
        columns: Vec<ObjectName>,
        (needed, statement): (Privileges, &str),
    ) -> Result<Self> {
        let (schema, own_name) = session.resolve(&name)?;
        match session.named_view(&schema, &own_name) {
            Some(view) => Self::through(session, &view, &columns, (needed, statement)),
            None => Ok(Self {
                table: session.named_table(&name)?,
                name,
                columns,
                through: None,
            }),
        }
    }

    fn through(
        session: &Session,
        view: &ViewDef,
        columns: &[ObjectName],
        (needed, statement): (Privileges, &str),
    ) -> Result<Self> {
        let mut change = bound::view_rows(session, view)?;
        let source = change.sources.swap_remove(0);
        let given = given(&source, columns)?;
        if !is_insertable(&source) {
            return Err(SqlError::not_insertable(&view.name, statement));
        }
        let targets: Vec<Origin> = given.iter().filter_map(|column| column.origin).collect();
        let reference = targets.first().map_or(0, |origin| origin.reference);
        if targets.iter().any(|origin| origin.reference != reference) {
            return Err(SqlError::several_tables(&view.schema, &view.name));
        }
        let bound = &change.query.tables[reference];
        let table = session.stored_table(bound)?;
        bound::check_current(bound, &table.def)?;
        session.check_through(needed, &bound.views, (&bound.schema, &bound.name))?;
        let name = |origin: &Origin| &*table.def.columns[origin.column].name;
        let is_renamed = |column: &Column| {
            let origin = column.origin.filter(|origin| origin.reference == reference);
            !origin.is_some_and(|own| name(&own).eq_ignore_ascii_case(&column.name))
        };
        let columns = targets.iter().map(|origin| named_as(&[name(origin)]));
        Ok(Self {
            columns: columns.collect(),
            name: named_as(&[&bound.schema, &bound.name]),
            through: Some(Through {
                renames: source.columns.iter().any(is_renamed),
                source,
            }),
            table,
        })
    }

    /// The view that is named, if it is not the table.
    pub fn view(&self) -> Option<&Source> {
        self.through.as_ref().map(|through| &through.source)
    }

    /// The columns that get values.
    ///
    /// # Errors
    /// 1054, 1110, 1364, 1423.
    pub fn targets(&self, adjusts: bool) -> Result<Targets> {
        let targets = Targets::new(&self.table, &self.columns, adjusts);
        targets.map_err(|error| match (self.view(), error.errno) {
            (Some(view), 1364) => {
                let (schema, name) = names(view);
                SqlError::view_no_default(schema, name)
            }
            _ => error,
        })
    }

    /// Checks that ON DUPLICATE KEY UPDATE may read these columns of what the INSERT names.
    ///
    /// # Errors
    /// 1143.
    pub fn check_columns(&self, session: &Session, columns: &[String]) -> Result<()> {
        let Some(first) = columns.first() else {
            return Ok(());
        };
        let def = &self.table.def;
        let needed = Privileges::SELECT;
        let Some((schema, name)) = self.view().map(names) else {
            let table = (def.shown_schema(), &*def.name);
            let columns = columns.iter().map(String::as_str);
            return session.check_columns(needed, table, columns);
        };
        // Columns of a view are not looked at one by one.
        let checked = session.check_table(needed, schema, name);
        checked.map_err(|_| session.column_denied("SELECT", first, name))
    }

    /// Has assignments of ON DUPLICATE KEY UPDATE name the columns of a view as those of the table.
    pub fn name_table(&self, assignments: &mut [Assignment]) {
        let Some(view) = self.view() else {
            return;
        };
        let (schema, name) = names(view);
        let mut renaming = ViewNames {
            view: [schema, name],
            table: [&self.table.def.schema, &self.table.def.name],
            within: 0,
        };
        for assignment in assignments {
            let _ = VisitMut::visit(&mut assignment.value, &mut renaming);
        }
    }

    /// Checks that assignments of ON DUPLICATE KEY UPDATE mean the same in the table as in the view.
    ///
    /// # Errors
    /// 1054, 1235.
    pub fn check_assignments(&self, assignments: &[Assignment]) -> Result<()> {
        let Some(Through { source, renames }) = &self.through else {
            return Ok(());
        };
        let mut shown = Shown {
            table: &self.table.def,
            view: source,
        };
        for Assignment { target, value } in assignments {
            let column = match target {
                AssignmentTarget::ColumnName(name) if !renames => match &name.0[..] {
                    [part] => part.as_ident(),
                    _ => None,
                },
                _ => None,
            };
            let other = "ON DUPLICATE KEY UPDATE through a view with names of its own";
            let column = column.ok_or_else(|| SqlError::not_supported(other))?;
            let checked = match shown.column(column) {
                ControlFlow::Continue(()) => value.visit(&mut shown),
                hidden => hidden,
            };
            if let ControlFlow::Break(hidden) = checked {
                return Err(SqlError::unknown_column(hidden, "field list"));
            }
        }
        Ok(())
    }
}

/// Looks for columns of a table that a view of it does not show.
struct Shown<'a> {
    table: &'a TableDef,
    view: &'a Source,
}

impl Shown<'_> {
    fn column(&self, name: &Ident) -> ControlFlow<String> {
        let is_it = |column: &Column| column.name.eq_ignore_ascii_case(&name.value);
        let is_of_table = self.table.column(&name.value).is_some();
        match is_of_table && !self.view.columns.iter().any(is_it) {
            true => ControlFlow::Break(name.value.clone()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Shown<'_> {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match expr {
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(names) => match names.last() {
                Some(name) => self.column(name),
                None => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Puts the table's name in the place of the view's before columns.
struct ViewNames<'a> {
    view: [&'a str; 2],
    table: [&'a str; 2],
    /// Subqueries around, which may read the view themselves.
    within: usize,
}

impl VisitorMut for ViewNames<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.within -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.within == 0
            && let Expr::CompoundIdentifier(parts) = expr
            && let Some((_, before)) = parts.split_last_mut()
        {
            let first = self.view.len().saturating_sub(before.len());
            let is = |(part, name): (&Ident, &&str)| part.value.eq_ignore_ascii_case(name);
            if before.len() <= 2 && before.iter().zip(&self.view[first..]).all(is) {
                let table = before.iter_mut().zip(&self.table[first..]);
                table.for_each(|(part, name)| *part = Ident::with_quote('`', *name));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Schema and name of a view.
fn names(view: &Source) -> (&str, &str) {
    (view.schema.as_deref().unwrap_or_default(), &*view.alias)
}

/// The columns of a view that an INSERT names; all if it names none.
///
/// # Errors
/// 1054, 1394.
fn given<'v>(view: &'v Source, columns: &[ObjectName]) -> Result<Vec<&'v Column>> {
    if columns.is_empty() {
        if view.references.len() > 1 {
            let (schema, name) = names(view);
            return Err(SqlError::insert_into_join(schema, name));
        }
        return Ok(view.columns.iter().collect());
    }
    let named = |name: &ObjectName| {
        let last = name.0.last().and_then(|part| part.as_ident());
        let name = last.map_or("", |ident| &ident.value);
        let mut known = view.columns.iter();
        let found = known.find(|column| column.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| SqlError::unknown_column(name, "field list"))
    };
    columns.iter().map(named).collect()
}

/// True if each column of a view is one of a table, no two the same one.
fn is_insertable(view: &Source) -> bool {
    let is_of_table = |column: &Column| matches!(column.origin, Some(o) if view.references.contains(&o.reference));
    let origins = view.columns.iter().filter_map(|column| column.origin);
    let mut origins: Vec<_> = origins.map(|o| (o.reference, o.column)).collect();
    origins.sort_unstable();
    origins.dedup();
    origins.len() == view.columns.len() && view.columns.iter().all(is_of_table)
}

fn named_as(parts: &[&str]) -> ObjectName {
    let ident = |part: &&str| ObjectNamePart::Identifier(Ident::with_quote('`', *part));
    ObjectName(parts.iter().map(ident).collect())
}
