//! Queries whose names, types and collations the binder decides, and their plans.

use std::sync::Arc;

use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableSource;
use datafusion::sql::sqlparser::ast::Query;
use datafusion::sql::sqlparser::tokenizer::Location;
use perigee_engine::catalog::TableDef;
use perigee_sql_bind::query::{
    self, Catalog, HintKind, QueryError, TableColumn, TableDefinition, bind,
};
use perigee_sql_bind::{BindError, Result as Bound};
use perigee_sql_type::SqlType;

use super::Session;
use super::environment::micros_now;
use super::scalars::Around;
use crate::error::{Result, SqlError};
use crate::parse::Piece;
use crate::plan::lower::{self, Subqueries};
use crate::plan::rewrite::{
    ACCESS_SEPARATOR, Environment, OutputNames, Rewritten, SelectLists, Source,
    TableAccess as TableReference,
};
use crate::plan::select::Planned;
use crate::plan::state::CATALOG;

/// The catalog for a statement.
struct Tables<'s> {
    session: &'s Session,
    lists: SelectLists<'s>,
}

impl Catalog for Tables<'_> {
    fn current_schema(&self) -> Option<&str> {
        self.session.schema()
    }

    fn table(&self, schema: &str, table: &str) -> Bound<Arc<TableDefinition>> {
        let found = self.session.definition(schema, table);
        let found = found.map_err(|error| {
            let names = (schema.to_owned(), table.to_owned());
            BindError::Query(match error.errno {
                1049 => QueryError::UnknownSchema(names.0),
                _ => QueryError::NoSuchTable(names.0, names.1),
            })
        });
        Ok(Arc::new(definition(&found?)))
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
    let columns = def.columns.iter().map(|column| {
        let ty = match &column.members {
            Some(members) => SqlType::of_members(members.clone()),
            None => SqlType::of(column.ty),
        };
        TableColumn {
            name: column.name.as_str().into(),
            ty: ty.nullable(column.nullable),
            visible: true,
        }
    });
    let places = |columns: &[u16]| columns.iter().map(|column| usize::from(*column)).collect();
    let is_key = |columns: &[u16]| {
        let mut columns = columns.iter();
        columns.all(|column| !def.columns[usize::from(*column)].nullable)
    };
    let mut unique_keys: Vec<Vec<usize>> = Vec::new();
    let mut indexes = Vec::new();
    if !def.primary_key.is_empty() {
        unique_keys.push(places(&def.primary_key));
        indexes.push("primary".to_owned());
    }
    for index in &def.indexes {
        if index.unique && is_key(&index.columns) {
            unique_keys.push(places(&index.columns));
        }
        indexes.push(index.name.to_lowercase());
    }
    TableDefinition {
        columns: columns.collect(),
        unique_keys,
        indexes,
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
) -> Result<Option<Arc<query::Query>>> {
    let source = Source {
        text: piece.text,
        tokens: piece.tokens,
        lists: piece.lists,
    };
    let tables = Tables {
        session,
        lists: SelectLists::new(source),
    };
    let around = Around {
        session,
        now: micros_now(),
        columns: &|_| None,
    };
    match bind(query, &around, &tables) {
        Ok(query) => Ok(Some(Arc::new(query))),
        Err(error) if error.number() == 1235 => Ok(None),
        Err(BindError::Stopped) => match crate::interrupt::check() {
            Err(error) => Err(error),
            Ok(()) => Ok(None),
        },
        Err(error) => Err(error.into()),
    }
}

/// A query that only the binder understands; `error` says why.
pub(super) fn only(query: Box<Query>, bound: Arc<query::Query>, error: SqlError) -> Rewritten {
    let names = bound.body.columns.iter();
    let names = names.map(|column| column.name.to_string()).collect();
    Rewritten {
        query,
        accesses: references(&bound),
        names: OutputNames {
            by_position: Some(names),
            ..OutputNames::default()
        },
        locks: Vec::new(),
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
    let reference = |table: &Arc<query::Table>| TableReference {
        select: table.select,
        schema: table.schema.to_string(),
        table: table.name.to_string(),
        alias: table.alias.to_string(),
        ndp_hint: hint(table, HintKind::Pushdown),
        join_filter_hint: hint(table, HintKind::JoinFilter),
    };
    query.tables.iter().map(reference).collect()
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
    let is_hinted = |table: &Arc<query::Table>| !table.index_hints.is_empty();
    if !query.locks.is_empty() {
        return Err(SqlError::not_supported(
            "FOR UPDATE, FOR SHARE in a subquery",
        ));
    }
    // Hints for tables that are not read are among the warnings.
    if !query.hints.is_empty() || !query.warnings.is_empty() || query.tables.iter().any(is_hinted) {
        return Err(SqlError::not_supported("hints"));
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
