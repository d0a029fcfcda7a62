//! What statements mean: the binder over the session's tables.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use perigee_accounts::Privileges;
use perigee_engine::catalog::TableDef;
use perigee_sql_bind::query::{
    self, Assigned, Catalog, Change, Hint, HintKind, IndexHint, IndexUse, Operator, QueryError,
    Relation, TableColumn, TableDefinition, bind,
};
use perigee_sql_bind::{BindError, Digits, Result as Bound};
use perigee_sql_type::{Number, SqlType};
use perigee_value::ColumnType;
use sqlparser::ast::{Query, TableWithJoins};
use sqlparser::tokenizer::Location;

use super::Session;
use super::environment::micros_now;
use super::scalars::Around;
use crate::access::{IndexChoice, PRIMARY, ROW_ID, TableReference, definition};
use crate::error::{Result, SqlError};
use crate::interrupt;
use crate::parse::{Piece, Rows, SelectLists, Source};

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
    denied: RefCell<Option<SqlError>>,
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
            denied: RefCell::default(),
        }
    }

    /// The error of a statement that means nothing, or may not be run.
    fn error(&self, error: BindError) -> SqlError {
        self.denied.take().unwrap_or_else(|| error.into())
    }

    fn check(&self, schema: &str, table: &str) -> Bound<()> {
        let checked = match self.needed {
            Some(needed) => self.session.check_table(needed, schema, table),
            None => self.session.check_visible(schema, table),
        };
        checked.map_err(|denied| {
            self.denied.replace(Some(denied));
            BindError::Stopped
        })
    }
}

impl Catalog for Tables<'_> {
    fn current_schema(&self) -> Option<&str> {
        self.session.schema()
    }

    fn table(&self, schema: &str, table: &str) -> Bound<Arc<TableDefinition>> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        self.check(schema, table)?;
        let found = self.session.definition(schema, table);
        let found = found.map_err(|error| {
            let names = (schema.to_owned(), table.to_owned());
            BindError::Query(match error.errno {
                1049 => QueryError::UnknownSchema(names.0),
                _ => QueryError::NoSuchTable(names.0, names.1),
            })
        });
        let found = found?;
        let mut definition = definition(&found);
        let is_stored = perigee_catalog_views::find(schema, table).is_none();
        if self.with_row_ids && is_stored && found.primary_key.is_empty() {
            definition.columns.push(TableColumn {
                name: ROW_ID.into(),
                ty: SqlType::of(ROW_ID_TYPE).nullable(false),
                visible: false,
            });
        }
        Ok(Arc::new(definition))
    }

    fn only_full_group_by(&self) -> bool {
        self.session.only_full_group_by()
    }

    fn item_texts(&self, select: Location) -> Vec<String> {
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
    let tables = Tables::new(session, piece, !query.locks.is_empty());
    let bound = bind(query, &around(session, (piece, micros_now())), &tables);
    let bound = bound.map_err(|error| tables.error(error))?;
    if bound.locks.len() != query.locks.len() {
        let what = "FOR UPDATE and FOR SHARE in a subquery";
        return Err(SqlError::not_supported(what));
    }
    Ok(bound)
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
    (piece, now): (Piece<'_>, i64),
) -> Result<Change> {
    let tables = Tables {
        needed: None,
        ..Tables::new(session, piece, true)
    };
    let rows = query::Rows {
        from: &rows.from,
        selection: rows.selection.as_ref(),
        order: rows.order_by.as_ref(),
        limit: rows.limit.as_ref(),
        hints: &rows.hints,
    };
    let around = around(session, (piece, now));
    let change = query::bind_change(&rows, assigned, &around, &tables);
    change.map_err(|error| tables.error(error))
}

/// Assignments over the row of a table that is in the way and the one that is to be inserted, whose columns stand behind
/// the others with `prefix` before their names.
///
/// # Errors
/// Those of names and types; 1235 for what is not supported.
pub(super) fn over_both(
    session: &Session,
    (table, from, prefix): (&TableDef, &[TableWithJoins], &str),
    assigned: &[Assigned<'_>],
    (piece, now): (Piece<'_>, i64),
) -> Result<Change> {
    let mut both = definition(table);
    let new = both.columns.iter().map(|column| TableColumn {
        name: format!("{prefix}{}", column.name.to_lowercase()).into(),
        ty: column.ty.clone().nullable(true),
        visible: false,
    });
    let new: Vec<_> = new.collect();
    both.columns.extend(new);
    let tables = Tables {
        first: RefCell::new(Some(Arc::new(both))),
        ..Tables::new(session, piece, false)
    };
    let rows = query::Rows {
        from,
        selection: None,
        order: None,
        limit: None,
        hints: &[],
    };
    let around = around(session, (piece, now));
    let change = query::bind_change(&rows, assigned, &around, &tables);
    change.map_err(|error| tables.error(error))
}

fn around<'s>(session: &'s Session, (piece, now): (Piece<'s>, i64)) -> Around<'s> {
    Around {
        session,
        now,
        lists: piece.lists,
        columns: &|_| None,
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
        && bound.indexes == now.indexes;
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
    let reference = |table: &Arc<query::Table>| TableReference {
        select: table.select,
        schema: table.schema.to_string(),
        table: table.name.to_string(),
        alias: table.alias.to_string(),
        ndp_hint: hint(table, HintKind::Pushdown),
        join_filter_hint: hint(table, HintKind::JoinFilter),
        join_table_hint: hint(table, HintKind::JoinTable),
        straight: straight.contains(&table.reference) || is_fixed(table.select),
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

/// What the hints of a table leave of its indexes.
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
    IndexChoice {
        allowed: wanted.unwrap_or(u64::MAX) & !ignored,
        forced: hints().any(|hint| hint.kind == IndexUse::Force),
    }
}

impl From<BindError> for SqlError {
    fn from(error: BindError) -> Self {
        let number = error.number();
        match error {
            BindError::NotSupported(what) => Self::not_supported(what),
            BindError::NoCommonType(a, b) => {
                Self::not_supported(format!("one value of {a} or {b}"))
            }
            BindError::UnknownColumn(name) => Self::unknown_column(name, "field list"),
            BindError::WrongArguments(name) => Self::wrong_arguments(name),
            BindError::OperandColumns(count) => Self::operand_columns(count),
            BindError::MixOfCollations(mix) => mix.into(),
            BindError::UnknownCollation(name) => Self::unknown_collation(name),
            BindError::UnknownCharset(name) => Self::unknown_charset(name),
            BindError::InvalidText(charset) => Self::invalid_text(charset.name()),
            BindError::CollationOfCharset(collation, charset) => {
                Self::collation_of_charset(collation.name(), charset.name())
            }
            BindError::IncorrectLiteral { kind, value } => Self::incorrect_literal(kind, value),
            BindError::UnknownVariable(name) => Self::unknown_variable(name),
            BindError::Digits(digits) => of_digits(digits),
            BindError::Stopped => interrupt::check().err().unwrap_or_else(Self::interrupted),
            BindError::Query(error) => of_query(error, number),
        }
    }
}

fn of_digits(digits: Digits) -> SqlError {
    const PLACE: &str = "CAST";
    match digits {
        Digits::Scale(scale) => SqlError::scale_too_big(scale, PLACE, Number::MAX_SCALE),
        Digits::Precision(precision) => {
            SqlError::precision_too_big(precision, PLACE, ColumnType::MAX_PRECISION)
        }
        Digits::ScaleAbovePrecision => SqlError::scale_above_precision(PLACE),
    }
}

fn of_query(error: QueryError, number: u16) -> SqlError {
    match error {
        QueryError::NoSchemaSelected => SqlError::no_schema_selected(),
        QueryError::UnknownSchema(name) => SqlError::unknown_schema(name),
        QueryError::UnknownTable(name) => SqlError::unknown_table(name),
        QueryError::AmbiguousColumn(name, clause) => SqlError::ambiguous_column(name, clause),
        QueryError::UnknownColumn(name, clause) => SqlError::unknown_column(name, clause),
        QueryError::NotGrouped(name) => SqlError::not_grouped(name),
        QueryError::DuplicateColumn(name) => SqlError::duplicate_column(name),
        QueryError::Syntax(near) => SqlError::syntax(near, 1),
        QueryError::DuplicateAlias(name) => SqlError::duplicate_alias(name),
        QueryError::NoTablesUsed => SqlError::no_tables_used(),
        QueryError::InvalidGroupFunction => SqlError::invalid_group_function(),
        QueryError::TooManyTables(most) => SqlError::too_many_tables(most),
        QueryError::ValueCount(row) => SqlError::value_count(row),
        QueryError::MixedGroups(name) => SqlError::mixed_groups(name),
        QueryError::NoSuchTable(schema, table) => SqlError::no_such_table(schema, table),
        QueryError::UnknownKey(key, table) => SqlError::unknown_key(key, table),
        QueryError::TooManyColumns => SqlError::too_many_columns(),
        QueryError::SetColumns => SqlError::union_columns(),
        QueryError::DerivedAlias => SqlError::derived_alias(),
        QueryError::ColumnList => SqlError::column_list(),
        QueryError::TooLarge(most) => SqlError::too_large(most),
        QueryError::UnresolvedLock(name) => SqlError::unresolved_lock_table(name),
        other => SqlError::interrupted_by(number, &other.to_string()),
    }
}
