//! Queries whose names, types and collations the binder decides, and their plans.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableSource;
use datafusion::sql::sqlparser::ast::{Expr, Query, TableWithJoins};
use datafusion::sql::sqlparser::tokenizer::Location;
use perigee_engine::catalog::{ColumnDef, TableDef};
use perigee_sql_bind::query::{
    self, Catalog, Change, Hint, HintKind, IndexHint, IndexUse, Operator, QueryError, Relation,
    TableColumn, TableDefinition, bind,
};
use perigee_sql_bind::{BindError, Result as Bound};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;

use super::Session;
use super::environment::micros_now;
use super::scalars::Around;
use crate::access::{IndexChoice, ROW_ID};
use crate::error::{Result, SqlError};
use crate::parse::{Piece, Rows};
use crate::plan::lower::{self, Subqueries};
use crate::plan::rewrite::{
    ACCESS_SEPARATOR, Environment, OutputNames, Rewritten, SelectLists, Source,
    TableAccess as TableReference,
};
use crate::plan::select::Planned;
use crate::plan::state::CATALOG;

/// The type of hidden row ids.
const ROW_ID_TYPE: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: true,
};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// The name of the primary key among indexes.
const PRIMARY: &str = "primary";

/// The catalog for a statement.
struct Tables<'s> {
    session: &'s Session,
    lists: SelectLists<'s>,
    /// Tables have their hidden row ids as their last columns.
    with_row_ids: bool,
    /// The table of the first reference, if it is none of the catalog.
    first: RefCell<Option<Arc<TableDefinition>>>,
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
        }
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
        Environment::only_full_group_by(self.session)
    }

    fn item_texts(&self, select: Location) -> Vec<String> {
        let texts = self.lists.items(select).into_iter();
        let lists = self.lists.lists();
        let written = |text: &str| lists.written(text).unwrap_or_else(|| text.to_owned());
        texts.map(written).collect()
    }
}

/// What the binder sees of a table.
fn definition(def: &TableDef) -> TableDefinition {
    let columns = def.columns.iter().map(|column| TableColumn {
        name: column.name.as_str().into(),
        ty: type_of(column),
        visible: true,
    });
    let (unique_keys, indexes) = keys_of(def);
    TableDefinition {
        columns: columns.collect(),
        unique_keys,
        indexes,
    }
}

fn type_of(column: &ColumnDef) -> SqlType {
    let ty = match &column.members {
        Some(members) => SqlType::of_members(members.clone()),
        None => SqlType::of(column.ty),
    };
    ty.nullable(column.nullable)
}

/// The unique keys of a table that have no NULLs, and the names of its indexes.
fn keys_of(def: &TableDef) -> (Vec<Vec<usize>>, Vec<String>) {
    let places = |columns: &[u16]| columns.iter().map(|column| usize::from(*column)).collect();
    let is_key = |columns: &[u16]| {
        let mut columns = columns.iter();
        columns.all(|column| !def.columns[usize::from(*column)].nullable)
    };
    let mut unique_keys: Vec<Vec<usize>> = Vec::new();
    let mut indexes = Vec::new();
    if !def.primary_key.is_empty() {
        unique_keys.push(places(&def.primary_key));
        indexes.push(PRIMARY.to_owned());
    }
    for index in &def.indexes {
        if index.unique && is_key(&index.columns) {
            unique_keys.push(places(&index.columns));
        }
        indexes.push(index.name.to_lowercase());
    }
    (unique_keys, indexes)
}

/// Asserts that a table still is what the binder saw: a bound statement names its columns and keys by their places.
///
/// # Errors
/// 1412 if its definition was changed meanwhile.
pub(super) fn check_is(bound: &TableDefinition, now: &TableDef) -> Result<()> {
    // Only a hidden row id is behind the columns of the definition.
    let known = bound.columns.iter().filter(|column| column.visible);
    let is_same = known.clone().count() == now.columns.len()
        && known
            .zip(&now.columns)
            .all(|(known, column)| *known.name == *column.name && known.ty == type_of(column));
    let (unique_keys, indexes) = keys_of(now);
    match is_same && unique_keys == bound.unique_keys && indexes == bound.indexes {
        true => Ok(()),
        false => Err(SqlError::table_changed()),
    }
}

/// The meaning of a query; `None` if the binder does not know all of it.
///
/// # Errors
/// Those of names and types.
pub(super) fn bound(
    session: &Session,
    query: &Query,
    piece: Piece<'_>,
) -> Result<Option<query::Query>> {
    let tables = Tables::new(session, piece, !query.locks.is_empty());
    let bound = understood(bind(query, &around(session, micros_now()), &tables))?;
    // Locks of subqueries.
    Ok(bound.filter(|bound| bound.locks.len() == query.locks.len()))
}

/// The rows that a statement changes, and expressions over each of them; `None` if the binder does not know all of it.
///
/// # Errors
/// Those of names and types.
pub(super) fn change(
    session: &Session,
    rows: &Rows,
    expressions: &[Expr],
    (piece, now): (Piece<'_>, i64),
) -> Result<Option<Change>> {
    let tables = Tables::new(session, piece, true);
    let rows = query::Rows {
        from: &rows.from,
        selection: rows.selection.as_ref(),
        order: rows.order_by.as_ref(),
        limit: rows.limit.as_ref(),
        hints: &rows.hints,
    };
    let around = around(session, now);
    let change = understood(query::bind_change(&rows, expressions, &around, &tables))?;
    // Only a SELECT warns of its hints.
    Ok(change.filter(|change| change.query.warnings.is_empty()))
}

/// Expressions over the row of a table that is in the way and the one that is to be inserted, whose columns stand behind
/// the others with `prefix` before their names; `None` if the binder does not know all of them.
///
/// # Errors
/// Those of names and types.
pub(super) fn over_both(
    session: &Session,
    (table, from, prefix): (&TableDef, &[TableWithJoins], &str),
    expressions: &[Expr],
    (piece, now): (Piece<'_>, i64),
) -> Result<Option<Change>> {
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
    let around = around(session, now);
    understood(query::bind_change(&rows, expressions, &around, &tables))
}

fn around(session: &Session, now: i64) -> Around<'_> {
    Around {
        session,
        now,
        columns: &|_| None,
    }
}

/// What the binder says; `None` for what it does not know.
fn understood<T>(bound: Bound<T>) -> Result<Option<T>> {
    match bound {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if error.number() == 1235 => Ok(None),
        Err(BindError::Stopped) => match crate::interrupt::check() {
            Err(error) => Err(error),
            Ok(()) => Ok(None),
        },
        Err(error) => Err(error.into()),
    }
}

/// True if the rows of a reference end with their hidden row ids.
pub(super) fn has_row_id(table: &query::Table) -> bool {
    let last = table.definition.columns.last();
    last.is_some_and(|column| &*column.name == ROW_ID)
}

/// A query that only the binder understands; `error` says why.
pub(super) fn only(query: Box<Query>, bound: Arc<query::Query>, error: SqlError) -> Rewritten {
    let names = bound.body.columns.iter();
    let names = names.map(|column| column.name.to_string()).collect();
    let locks = query.locks.clone();
    Rewritten {
        query,
        accesses: references(&bound),
        names: OutputNames {
            by_position: Some(names),
            ..OutputNames::default()
        },
        locks,
        columns: bound.body.columns.len(),
        functions: Vec::new(),
        bound: Some(bound),
        refused: Some(error),
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

/// The plan of a query, whose recursive parts make so many steps at most.
///
/// # Errors
/// 1235 for what has no plan.
pub(super) async fn planned(
    state: &SessionState,
    query: &query::Query,
    subqueries: Subqueries,
    most_steps: u64,
) -> Result<Planned> {
    let catalog = state.catalog_list().catalog(CATALOG);
    let catalog = catalog.ok_or_else(|| SqlError::unknown("Q1: a statement has a catalog"))?;
    let is_known = |hint: &Hint| {
        matches!(
            hint,
            Hint::MaxExecutionTime(_) | Hint::JoinFixedOrder { .. }
        )
    };
    if let Some(hint) = query.hints.iter().find(|hint| !is_known(hint)) {
        return Err(SqlError::not_supported(format!("the hint {hint:?}")));
    }
    let mut tables: Vec<Arc<dyn TableSource>> = Vec::with_capacity(query.tables.len());
    for table in &query.tables {
        let name = format!("{}{ACCESS_SEPARATOR}{}", table.name, table.reference);
        let schema = catalog.schema(&table.schema);
        let schema = schema.ok_or_else(|| SqlError::unknown_schema(&table.schema))?;
        let provider = schema.table(&name).await?;
        let provider = provider.ok_or_else(|| SqlError::no_such_table(&table.schema, &name))?;
        tables.push(provider_as_source(provider));
    }
    Ok(lower::planned(query, &tables, subqueries, most_steps)?)
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
            BindError::MixOfCollations(mix) => Self::mix_of_collations(mix.0.name(), mix.1.name()),
            BindError::IncorrectLiteral { kind, value } => Self::incorrect_literal(kind, value),
            BindError::Stopped => Self::interrupted(),
            BindError::Query(error) => of_query(error, number),
        }
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
