//! What statements mean: the binder over the session's tables.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use perigee_accounts::Privileges;
use perigee_engine::TableName;
use perigee_engine::catalog::{TableDef, ViewDef};
use perigee_sql_bind::query::{
    self, Assigned, Catalog, Change, Hint, HintKind, IndexHint, IndexUse, Noted, Operator,
    QueryError, Relation, TableColumn, TableDefinition, ViewDefinition, bind,
};
use perigee_sql_bind::{BindError, Result as Bound};
use perigee_sql_type::SqlType;
use perigee_value::{ColumnType, Now};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableWithJoins};
use sqlparser::tokenizer::Location;

use super::Session;
use super::assigned::UserAssignments;
use super::definition::{PRIMARY, definition};
use super::dml::table_of;
use super::join_places::join_places;
use super::scalars::Around;
use super::stored_view::{self, Acting};
use crate::access::{IndexChoice, ROW_ID, TableReference};
use crate::error::{Result, SqlError};
use crate::memory::Charge;
use crate::parse::{Footprint, Piece, Rows, Script, SelectLists, Source};

/// The type of hidden row ids.
const ROW_ID_TYPE: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: true,
};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// The catalog for a statement.
struct Tables<'s> {
    session: &'s Session,
    lists: SelectLists<'s>,
    /// Tables have their hidden row ids as their last columns.
    with_row_ids: bool,
    /// The table of the first reference, if it is none of the catalog.
    first: RefCell<Option<Arc<TableDefinition>>>,
    /// What tables must be allowed to be used for; without it they must be allowed to be seen.
    needed: Option<Privileges>,
    /// Why one is not.
    refused: RefCell<Option<SqlError>>,
    /// The views around what is bound.
    acting: Acting,
    /// A view that is not in the catalog, if it is the first that is looked up.
    first_view: RefCell<Option<Arc<ViewDef>>>,
    /// The view that is being defined, which does not see itself.
    defining: Option<&'s TableName>,
    /// What the queries of views take that are parsed and bound.
    charge: RefCell<Option<Charge>>,
}

impl<'s> Tables<'s> {
    fn new(session: &'s Session, piece: Piece<'s>, with_row_ids: bool) -> Self {
        let source = Source {
            text: piece.text,
            tokens: piece.tokens,
            lists: piece.lists,
        };
        Self {
            session,
            lists: SelectLists::new(source),
            with_row_ids,
            first: RefCell::default(),
            needed: Some(Privileges::SELECT),
            refused: RefCell::default(),
            acting: Acting::default(),
            first_view: RefCell::default(),
            defining: None,
            charge: RefCell::default(),
        }
    }

    /// What came of binding a statement, for which the session is charged for as long as it runs.
    fn bound<T>(&self, bound: Bound<T>) -> Result<T> {
        let bound = bound.map_err(|error| self.error(error))?;
        let statement = self.session.charge.upgrade();
        if let (Some(views), Some(statement)) = (self.charge.take(), statement) {
            statement.absorb(views);
        }
        Ok(bound)
    }

    /// Charges the memory for a view as for a text that names what the view does.
    fn admit(&self, view: &ViewDef) -> Result<()> {
        let mut charge = self.charge.borrow_mut();
        let charge = match &mut *charge {
            Some(charge) => charge,
            none => none.insert(self.session.frontend.memory.charge(0)?),
        };
        let bytes = charge.bytes() + Footprint::of(&view.query).parsed();
        self.session.admit(bytes, charge)
    }

    /// The error of a statement that means nothing, or may not be run.
    fn error(&self, error: BindError) -> SqlError {
        if let Some(denied) = self.refused.take() {
            return denied;
        }
        match error {
            BindError::Query(QueryError::TableDenied(table)) => {
                self.session.denied("SELECT", &table)
            }
            BindError::Query(QueryError::ColumnDenied(column, table)) => {
                self.session.column_denied("SELECT", &column, &table)
            }
            error => error.into(),
        }
    }

    fn check(&self, schema: &str, table: &str) -> Bound<()> {
        if self.acting.is_in_view() {
            let needed = self.needed.unwrap_or(Privileges::SELECT);
            let names = (schema, table);
            return match self.acting.may_somewhere(self.session, needed, names) {
                true => Ok(()),
                // What is wrong with the view is not told.
                false => Err(QueryError::NoSuchTable(schema.into(), table.into()).into()),
            };
        }
        let checked = match self.needed {
            Some(needed) => self.session.check_somewhere(needed, schema, table),
            None => self.session.check_visible(schema, table),
        };
        checked.map_err(|denied| self.stopped(denied))
    }

    /// Which columns of a table or view may not be read, while others may; empty if all may, or none: then the table
    /// is what is refused.
    fn denied<'n>(
        &self,
        (schema, table): (&str, &str),
        columns: impl Iterator<Item = &'n str>,
    ) -> Vec<bool> {
        let acting = self.acting.grants();
        let grants = acting.as_ref().unwrap_or(self.session.grants());
        let reads = Privileges::SELECT;
        let reads_some = || grants.somewhere_on_table(schema, table).has(reads);
        if grants.has_all_tables() || grants.on_table(schema, table).has(reads) || !reads_some() {
            return Vec::new();
        }
        let may = |column: &str| grants.on_column(schema, table, &column.to_lowercase());
        columns.map(|column| !may(column).has(reads)).collect()
    }

    /// Stops with an error that is not the binder's.
    fn stopped(&self, error: SqlError) -> BindError {
        self.refused.replace(Some(error));
        BindError::Stopped
    }

    /// The definition of a table that is read.
    fn read(&self, schema: &str, table: &str) -> Bound<TableDef> {
        if let Some(view) = perigee_catalog_views::find(schema, table) {
            return Ok(view.definition());
        }
        let found = match self.acting.is_in_view() {
            true => self.session.base_table(schema, table),
            false => self.session.table(schema, table),
        };
        let found = found.map_err(|error| {
            let names = (schema.to_owned(), table.to_owned());
            BindError::Query(match error.errno {
                1049 => QueryError::UnknownSchema(names.0),
                _ => QueryError::NoSuchTable(names.0, names.1),
            })
        })?;
        if found.def.is_temporary() && self.defining.is_some() {
            return Err(self.stopped(SqlError::view_temporary(table)));
        }
        let checked = self.session.check_locked(&found, false);
        checked.map_err(|error| self.stopped(error))?;
        Ok(found.def.clone())
    }
}

impl Catalog for Tables<'_> {
    fn current_schema(&self) -> Option<&str> {
        match self.acting.is_in_view() {
            true => None,
            false => self.session.schema(),
        }
    }

    fn open_view(&self, schema: &str, view: &str) -> Bound<Option<ViewDefinition>> {
        // What is no table of the catalog is no view either.
        if self.first.borrow().is_some() {
            return Ok(None);
        }
        let given = self.first_view.take();
        let is_given = given.is_some();
        let named = || match self.acting.is_in_view() {
            true => self.session.stored_view(schema, view),
            false => self.session.named_view(schema, view),
        };
        let Some(found) = given.or_else(named) else {
            return Ok(None);
        };
        let is_own = |name: &TableName| name.schema == schema && name.name == view;
        if self.defining.is_some_and(is_own) && !is_given {
            return Err(QueryError::NoSuchTable(schema.into(), view.into()).into());
        }
        if !is_given {
            self.check(schema, view)?;
        }
        self.admit(&found).map_err(|error| self.stopped(error))?;
        let grants = self.session.rights_in(&found, self.acting.grants());
        let grants = grants.map_err(|error| self.stopped(error))?;
        let definition = stored_view::definition(&found);
        let mut definition = definition.map_err(|error| self.stopped(error))?;
        definition.denied = self.denied((schema, view), found.columns.iter().map(String::as_str));
        self.acting.enter(grants);
        Ok(Some(definition))
    }

    fn close_view(&self) {
        self.acting.leave();
    }

    fn table(&self, schema: &str, table: &str) -> Bound<Arc<TableDefinition>> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        self.check(schema, table)?;
        let found = self.read(schema, table)?;
        let mut definition = definition(&found);
        // A temporary table is the session's own.
        if !found.is_temporary() {
            let columns = found.columns.iter().map(|column| column.name.as_str());
            definition.denied = self.denied((schema, table), columns);
        }
        let is_stored = perigee_catalog_views::find(schema, table).is_none();
        if self.with_row_ids && is_stored && found.primary_key.is_empty() {
            definition.columns.push(TableColumn {
                name: ROW_ID.into(),
                ty: SqlType::of(ROW_ID_TYPE).nullable(false),
                visible: false,
                hidden: false,
                expression: None,
            });
        }
        Ok(Arc::new(definition))
    }

    fn only_full_group_by(&self) -> bool {
        self.session.only_full_group_by()
    }

    fn item_texts(&self, select: Location) -> Vec<String> {
        if self.acting.is_in_view() {
            return Vec::new();
        }
        let texts = self.lists.items(select).into_iter();
        let lists = self.lists.lists();
        let written = |text: &str| lists.written(text).unwrap_or_else(|| text.to_owned());
        texts.map(written).collect()
    }
}

/// The meaning of a query.
///
/// # Errors
/// Those of names and types; 1235 for what is not supported.
pub(super) fn bound(session: &Session, query: &Query, piece: Piece<'_>) -> Result<query::Query> {
    let now = session.now();
    let bound = settled(session, (piece, now), |around| {
        let tables = Tables::new(session, piece, !query.locks.is_empty());
        tables.bound(bind(query, around, &tables))
    })?;
    if bound.locks.len() != query.locks.len() {
        let what = "FOR UPDATE and FOR SHARE in a subquery";
        return Err(SqlError::not_supported(what));
    }
    Ok(bound)
}

/// The meaning of a view's query, and what its names mean.
///
/// # Errors
/// Those of names and types; 1235 for what is not supported.
pub(super) fn view(
    session: &Session,
    query: &Query,
    piece: Piece<'_>,
    name: &TableName,
) -> Result<(query::Query, Vec<Noted>)> {
    let tables = Tables {
        defining: Some(name),
        ..Tables::new(session, piece, false)
    };
    if !query.locks.is_empty() {
        return Err(SqlError::not_supported(
            "FOR UPDATE and FOR SHARE in a view",
        ));
    }
    let around = around(session, (piece, session.now()));
    query::bind_view(query, &around, &tables).map_err(|error| tables.error(error))
}

/// The rows of a view, which need not be in the catalog: the view is their only source.
///
/// # Errors
/// 1356, 1449.
pub(super) fn view_rows(session: &Session, view: &ViewDef) -> Result<Change> {
    let script = Script::new("")?;
    let ident = |name: &String| ObjectNamePart::Identifier(Ident::new(name));
    let names = [&view.schema, &view.name].map(ident);
    let from = [table_of(ObjectName(names.to_vec()))];
    let tables = Tables {
        needed: None,
        first_view: RefCell::new(Some(Arc::new(view.clone()))),
        ..Tables::new(session, script.whole(), true)
    };
    let rows = query::Rows {
        from: &from,
        selection: None,
        order: None,
        limit: None,
        hints: &[],
    };
    let around = around(session, (script.whole(), session.now()));
    let change = query::bind_change(&rows, &[], &around, &tables);
    change.map_err(|error| tables.error(error))
}

/// The rows that a statement changes, and what it assigns to their columns. That the account may change and read the
/// tables is checked when it is known which of them are changed: [`Session::check_change`].
///
/// # Errors
/// Those of names and types; 1235 for what is not supported.
pub(super) fn change(
    session: &Session,
    rows: &Rows,
    assigned: &[Assigned<'_>],
    (piece, now): (Piece<'_>, Now),
) -> Result<Change> {
    let rows = query::Rows {
        from: &rows.from,
        selection: rows.selection.as_ref(),
        order: rows.order_by.as_ref(),
        limit: rows.limit.as_ref(),
        hints: &rows.hints,
    };
    settled(session, (piece, now), |around| {
        let tables = Tables {
            needed: None,
            ..Tables::new(session, piece, true)
        };
        tables.bound(query::bind_change(&rows, assigned, around, &tables))
    })
}

/// Binds a statement until the types of the user variables that it assigns to are known.
fn settled<T: AsMut<query::Query>>(
    session: &Session,
    from: (Piece<'_>, Now),
    once: impl Fn(&Around<'_>) -> Result<T>,
) -> Result<T> {
    let assigned = UserAssignments::default();
    let around = Around {
        assigned: Some(&assigned),
        ..around(session, from)
    };
    loop {
        assigned.begin();
        let mut bound = once(&around)?;
        if assigned.is_settled() {
            assigned.finish(bound.as_mut());
            return Ok(bound);
        }
    }
}

/// Assignments over the row of a table that is in the way and the one that is to be inserted, whose columns stand behind
/// the others with `prefix` before their names.
///
/// # Errors
/// Those of names and types; 1235 for what is not supported.
pub(super) fn over_both(
    session: &Session,
    ((table, inserted), from, prefix): ((&TableDef, &TableDef), &[TableWithJoins], &str),
    assigned: &[Assigned<'_>],
    (piece, now): (Piece<'_>, Now),
) -> Result<Change> {
    let mut both = definition(table);
    let new = definition(inserted).columns;
    let new = new.iter().map(|column| TableColumn {
        name: format!("{prefix}{}", column.name.to_lowercase()).into(),
        ty: column.ty.clone().nullable(true),
        visible: false,
        hidden: false,
        expression: None,
    });
    both.columns.extend(new);
    let tables = Tables::new(session, piece, false);
    if !table.is_temporary() {
        let columns = table.columns.iter().map(|column| column.name.as_str());
        both.denied = tables.denied((&table.schema, &table.name), columns);
    }
    tables.first.replace(Some(Arc::new(both)));
    let rows = query::Rows {
        from,
        selection: None,
        order: None,
        limit: None,
        hints: &[],
    };
    let around = around(session, (piece, now));
    tables.bound(query::bind_change(&rows, assigned, &around, &tables))
}

fn around<'s>(session: &'s Session, (piece, now): (Piece<'s>, Now)) -> Around<'s> {
    Around {
        session,
        now,
        lists: piece.lists,
        columns: &|_| None,
        assigned: None,
    }
}

/// Warnings of a query's hints.
pub(super) fn warn(session: &mut Session, query: &query::Query) {
    for warning in &query.warnings {
        let warning = SqlError::interrupted_by(warning.number, &warning.text);
        session.warn("Warning", &warning);
    }
}

/// True if the rows of a reference end with their hidden row ids.
pub(super) fn has_row_id(table: &query::Table) -> bool {
    let last = table.definition.columns.last();
    last.is_some_and(|column| &*column.name == ROW_ID)
}

/// An error if a table is not defined any more as it was when a statement was bound: places of columns may mean others.
///
/// # Errors
/// 1412; a statement that has not seen the table yet begins anew.
pub(super) fn check_current(table: &query::Table, now: &TableDef) -> Result<()> {
    let bound = &table.definition;
    let now = definition(now);
    let columns = &bound.columns[..bound.columns.len() - usize::from(has_row_id(table))];
    let is_same = columns == now.columns
        && bound.unique_keys == now.unique_keys
        && bound.indexes == now.indexes
        && bound.invisible_indexes == now.invisible_indexes;
    match is_same {
        true => Ok(()),
        false => Err(SqlError::table_changed()),
    }
}

/// The references of a query to tables.
pub(super) fn references(query: &query::Query) -> Vec<TableReference> {
    let hint = |table: &query::Table, kind: HintKind| {
        let hint = table.hints.iter().find(|(known, _)| *known == kind);
        hint.map(|(_, wanted)| *wanted)
    };
    let mut straight = HashSet::new();
    gather_straight(&query.body, false, &mut straight);
    let is_fixed = |select: usize| {
        let is_it =
            |hint: &Hint| matches!(hint, Hint::JoinFixedOrder { select: own } if *own == select);
        query.hints.iter().any(is_it)
    };
    let places = join_places(query);
    let reference = |table: &Arc<query::Table>| TableReference {
        select: table.select,
        schema: table.stored_schema().to_owned(),
        table: table.name.to_string(),
        alias: table.alias.to_string(),
        ndp_hint: hint(table, HintKind::Pushdown),
        join_filter_hint: hint(table, HintKind::JoinFilter),
        join_table_hint: hint(table, HintKind::JoinTable),
        straight: straight.contains(&table.reference) || is_fixed(table.select),
        place: places.get(&table.reference).copied().unwrap_or_default(),
        indexes: choice(table),
    };
    query.tables.iter().map(reference).collect()
}

/// The tables of the joins that are written as STRAIGHT_JOIN.
fn gather_straight(relation: &Relation, is_straight: bool, found: &mut HashSet<usize>) {
    stacker::maybe_grow(RED_ZONE, STACK, || {
        if let (Operator::Table(table), true) = (&relation.operator, is_straight) {
            found.insert(table.reference);
        }
        let is_straight = match &relation.operator {
            Operator::Join(join) => is_straight || join.straight,
            _ => is_straight,
        };
        for input in relation.inputs() {
            gather_straight(input, is_straight, found);
        }
    });
}

/// What the hints of a table leave of its visible indexes.
fn choice(table: &query::Table) -> IndexChoice {
    let definition = &table.definition;
    // Without a primary key the first index has no name.
    let first = match definition.indexes.first() {
        Some(name) if name == PRIMARY => 0,
        _ => 1,
    };
    let mask = |hint: &IndexHint| {
        let bits = hint.indexes.iter().map(|place| place + first);
        let bits = bits.filter(|number| *number < 64);
        bits.fold(0_u64, |all, number| all | 1 << number)
    };
    let hints = || table.index_hints.iter();
    let wanted = hints().filter(|hint| hint.kind != IndexUse::Ignore);
    let wanted = wanted.map(mask).reduce(|all, one| all | one);
    let ignored = hints().filter(|hint| hint.kind == IndexUse::Ignore);
    let ignored = ignored.map(mask).fold(0, |all, one| all | one);
    let invisible = definition.invisible_indexes.iter();
    let invisible = invisible
        .map(|place| place + first)
        .filter(|number| *number < 64);
    let invisible = invisible.fold(0_u64, |all, number| all | 1 << number);
    IndexChoice {
        allowed: wanted.unwrap_or(u64::MAX) & !ignored & !invisible,
        forced: hints().any(|hint| hint.kind == IndexUse::Force),
    }
}
