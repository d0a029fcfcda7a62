//! FROM: tables, derived tables, common table expressions and their names.

use std::cell::RefCell;
use std::sync::Arc;

use perigee_expr::scalar::{Node, Scalar};
use sqlparser::ast::{
    Ident, JoinOperator, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor,
    TableIndexHintType, TableIndexHints, TableWithJoins,
};

use super::super::{
    Clause, Column, IndexHint, IndexUse, Operator, Origin, QueryError, Relation, Table,
    TableDefinition, ViewName,
};
use super::block::{Block, Frame};
use super::hints::TableHint;
use super::scope::{Named, Scope, Source};
use super::statement::Statement;
use crate::Result;
use crate::error::unsupported;

/// Most tables of a FROM, as in MySQL.
const MAX_TABLES: usize = 61;

/// Rows of a FROM or of an operand of a join, and what names mean in them.
pub(super) struct FromItem {
    pub relation: Relation,
    pub scope: Scope,
}

/// Schema, if it is said, and name of a table.
type TableName = (Option<Arc<str>>, Arc<str>);

/// A FROM that is being bound.
pub(super) struct From<'q> {
    pub statement: &'q Statement<'q>,
    /// The number of its SELECT.
    pub select: usize,
    /// The subquery that it is in.
    pub outer: Option<&'q Frame<'q>>,
    /// Names of its tables.
    pub names: RefCell<Vec<TableName>>,
    /// Hints of the SELECT for tables that were not met yet.
    pub hints: RefCell<Vec<TableHint>>,
}

/// The identifiers of a name.
pub(super) fn parts(name: &ObjectName) -> Result<Vec<&Ident>> {
    let parts = name.0.iter().map(|part| match part {
        ObjectNamePart::Identifier(ident) => Ok(ident),
        ObjectNamePart::Function(_) => unsupported("a function as a name"),
    });
    parts.collect()
}

/// True for a table that sees what stands before it.
pub(super) fn is_lateral(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Derived { lateral: true, .. } | TableFactor::JsonTable { .. }
    )
}

/// True for `FROM DUAL`, which is no table.
fn is_dual(from: &[TableWithJoins]) -> bool {
    match from {
        [
            TableWithJoins {
                relation:
                    TableFactor::Table {
                        name, alias: None, ..
                    },
                joins,
            },
        ] => joins.is_empty() && name.to_string().eq_ignore_ascii_case("dual"),
        _ => false,
    }
}

impl From<'_> {
    /// The rows of a FROM; without one, a row without columns.
    pub fn rows(&self, from: &[TableWithJoins]) -> Result<FromItem> {
        let mut all: Option<FromItem> = None;
        if !is_dual(from) {
            for table in from {
                all = Some(self.with_joins(all, table)?);
            }
        }
        Ok(all.unwrap_or_else(|| FromItem {
            relation: Relation::one(),
            scope: Scope::default(),
        }))
    }

    /// A table and what it is joined with, beside what stands before it.
    fn with_joins(&self, before: Option<FromItem>, table: &TableWithJoins) -> Result<FromItem> {
        let mut item = match (before, is_lateral(&table.relation)) {
            (Some(left), true) => {
                let right = self.lateral(&table.relation, &left)?;
                self.applied(left, right, false, None)?
            }
            // Its joins see all tables before it, so they are over all of them.
            (Some(left), false) if table.joins.iter().any(|join| is_lateral(&join.relation)) => {
                super::join::beside(left, self.factor(&table.relation)?)
            }
            (before, _) => {
                let mut item = self.factor(&table.relation)?;
                for join in &table.joins {
                    item = self.join(item, join)?;
                }
                return Ok(match before {
                    Some(left) => super::join::beside(left, item),
                    None => item,
                });
            }
        };
        for join in &table.joins {
            if matches!(
                join.join_operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_)
            ) {
                return unsupported("RIGHT JOIN beside LATERAL");
            }
            item = self.join(item, join)?;
        }
        Ok(item)
    }

    pub fn factor(&self, factor: &TableFactor) -> Result<FromItem> {
        match factor {
            TableFactor::Table { .. } => self.table(factor),
            TableFactor::Derived {
                subquery,
                alias,
                sample: None,
                ..
            } => self.derived(subquery, alias.as_ref(), self.outer),
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.with_joins(None, table_with_joins),
            TableFactor::JsonTable {
                json_expr,
                json_path,
                columns,
                alias,
            } => self.json_table((json_expr, json_path), columns, alias.as_ref(), self.outer),
            _ => unsupported("this kind of table"),
        }
    }

    /// A derived table, or one of JSON, that sees what stands before it.
    pub fn lateral(
        &self,
        factor: &TableFactor,
        left: &FromItem,
    ) -> Result<(FromItem, Vec<Scalar>)> {
        let width = left.relation.columns.len();
        let scope = left.scope.clone();
        let block = Block::new(self.statement, scope, width, self.outer, Clause::From);
        let frame = Frame {
            block: &block,
            arguments: RefCell::default(),
        };
        let item = match factor {
            TableFactor::Derived {
                subquery,
                alias,
                sample: None,
                ..
            } => self.derived(subquery, alias.as_ref(), Some(&frame))?,
            TableFactor::JsonTable {
                json_expr,
                json_path,
                columns,
                alias,
            } => {
                let document = (json_expr, json_path);
                self.json_table(document, columns, alias.as_ref(), Some(&frame))?
            }
            _ => return unsupported("this kind of table"),
        };
        Ok((item, frame.arguments.into_inner()))
    }

    fn derived(
        &self,
        query: &Query,
        alias: Option<&TableAlias>,
        outer: Option<&Frame<'_>>,
    ) -> Result<FromItem> {
        let Some(alias) = alias else {
            return Err(QueryError::DerivedAlias.into());
        };
        let name: Arc<str> = alias.name.value.to_lowercase().into();
        self.add_name(None, &name)?;
        let relation = self.statement.query(query, outer)?;
        let columns = renamed(&relation.columns, &column_names(alias)?, &name)?;
        let scope = scope_of(&name, &columns);
        let relation = Relation {
            columns,
            ..relation
        };
        Ok(FromItem { relation, scope })
    }

    /// Notes the name of a table.
    pub(super) fn add_name(&self, schema: Option<&Arc<str>>, name: &Arc<str>) -> Result<()> {
        let mut names = self.names.borrow_mut();
        let is_it =
            |known: &(Option<Arc<str>>, Arc<str>)| known.1 == *name && known.0.as_ref() == schema;
        if names.iter().any(is_it) {
            return Err(QueryError::DuplicateAlias(name.to_string()).into());
        }
        if names.len() == MAX_TABLES {
            return Err(QueryError::TooManyTables(MAX_TABLES).into());
        }
        names.push((schema.cloned(), Arc::clone(name)));
        Ok(())
    }

    fn table(&self, factor: &TableFactor) -> Result<FromItem> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } = factor
        else {
            return unsupported("this kind of table");
        };
        if !with_hints.is_empty() || !partitions.is_empty() {
            return unsupported("WITH (…), PARTITION");
        }
        if let Some(alias) = alias
            && (!alias.columns.is_empty() || alias.at.is_some())
        {
            return unsupported("column names of a table's alias");
        }
        let idents = parts(name)?;
        let (schema, table) = match idents[..] {
            [table] => (None, table.value.to_lowercase()),
            [schema, table] => (
                Some(schema.value.to_lowercase()),
                table.value.to_lowercase(),
            ),
            _ => return unsupported("names of three parts"),
        };
        let own: Arc<str> = match alias {
            Some(alias) => alias.name.value.to_lowercase().into(),
            None => table.as_str().into(),
        };
        if schema.is_none()
            && let Some(common) = self.statement.common(&table, self.outer)?
        {
            self.add_name(None, &own)?;
            let columns = renamed(&common.columns, &[], &own)?;
            return Ok(FromItem {
                scope: scope_of(&own, &columns),
                relation: Relation {
                    operator: Operator::Shared(common.number),
                    columns,
                },
            });
        }
        let current = self.statement.catalog.current_schema();
        let schema: Arc<str> = match (schema, current) {
            (Some(schema), _) => schema.into(),
            (None, Some(schema)) => schema.to_lowercase().into(),
            (None, None) => return Err(QueryError::NoSchemaSelected.into()),
        };
        self.add_name(Some(&schema), &own)?;
        self.statement.note_table(&idents, &schema, &table);
        let catalog = self.statement.catalog;
        if let Some(view) = catalog.open_view(&schema, &table)? {
            let name = table.into();
            let item = self.view(&ViewName { schema, name }, &own, &view);
            catalog.close_view();
            return match index_hints.iter().find_map(|hint| hint.index_names.first()) {
                Some(key) => Err(QueryError::UnknownKey(key.value.clone(), own.to_string()).into()),
                None => item,
            };
        }
        self.stored(schema, table.into(), own, index_hints)
    }

    /// A table of the catalog.
    fn stored(
        &self,
        schema: Arc<str>,
        name: Arc<str>,
        alias: Arc<str>,
        index_hints: &[TableIndexHints],
    ) -> Result<FromItem> {
        let definition = self.statement.catalog.table(&schema, &name)?;
        let hints = index_hints.iter();
        let hints = hints.map(|hint| index_hint(hint, &definition, &alias));
        let index_hints = hints.collect::<Result<_>>()?;
        let mut tables = self.statement.tables.borrow_mut();
        let reference = tables.len();
        let mut own_hints = Vec::new();
        self.hints.borrow_mut().retain(|hint| {
            let is_it = hint.table == *alias;
            if is_it {
                own_hints.push((hint.kind, hint.wanted));
            }
            !is_it
        });
        let columns = definition.columns.iter().enumerate();
        let columns = columns.map(|(column, known)| Column {
            name: Arc::clone(&known.name),
            table: Some(Arc::clone(&alias)),
            origin: Some(Origin { reference, column }),
            ty: known.ty.clone(),
        });
        let columns: Arc<[Column]> = columns.collect();
        let is_denied = |place: usize| definition.denied.get(place) == Some(&true);
        let named = columns.iter().enumerate();
        let named = named.filter(|(place, _)| !definition.columns[*place].hidden);
        let named = named.map(|(place, column)| Named {
            name: column.name.to_lowercase().into(),
            place,
            column: column.clone(),
            visible: definition.columns[place].visible,
            denied: is_denied(place).then(|| Arc::clone(&name)),
        });
        let scope = Scope::of(Source {
            alias: Arc::clone(&alias),
            schema: Some(Arc::clone(&schema)),
            references: vec![reference],
            is_view: false,
            is_join: false,
            checks: Vec::new(),
            columns: named.collect(),
        });
        let table = Arc::new(Table {
            reference,
            select: self.select,
            schema,
            name,
            alias,
            definition,
            index_hints,
            hints: own_hints,
            views: self.statement.views.borrow().clone(),
        });
        tables.push(Arc::clone(&table));
        Ok(FromItem {
            relation: Relation {
                operator: Operator::Table(table),
                columns,
            },
            scope,
        })
    }
}

fn index_hint(
    hint: &TableIndexHints,
    definition: &TableDefinition,
    table: &str,
) -> Result<IndexHint> {
    if hint.for_clause.is_some() {
        return unsupported("an index hint FOR a clause");
    }
    let places = hint.index_names.iter().map(|name| {
        let lower = name.value.to_lowercase();
        let mut indexes = definition.indexes.iter();
        let place = indexes.position(|index| *index == lower);
        let place = place.filter(|place| !definition.invisible_indexes.contains(place));
        let unknown = || QueryError::UnknownKey(name.value.clone(), table.to_owned());
        place.ok_or_else(|| unknown().into())
    });
    Ok(IndexHint {
        kind: match hint.hint_type {
            TableIndexHintType::Use => IndexUse::Use,
            TableIndexHintType::Force => IndexUse::Force,
            TableIndexHintType::Ignore => IndexUse::Ignore,
        },
        indexes: places.collect::<Result<_>>()?,
    })
}

/// The names that an alias gives to columns.
pub(super) fn column_names(alias: &TableAlias) -> Result<Vec<&str>> {
    if alias.columns.iter().any(|name| name.data_type.is_some()) {
        return unsupported("types of alias columns");
    }
    let names = alias.columns.iter();
    Ok(names.map(|column| &*column.name.value).collect())
}

/// The columns of a derived table, with these names if there are any.
///
/// # Errors
/// 1060, 1353.
pub(super) fn renamed(
    columns: &Arc<[Column]>,
    names: &[&str],
    table: &Arc<str>,
) -> Result<Arc<[Column]>> {
    if !names.is_empty() && names.len() != columns.len() {
        return Err(QueryError::ColumnList.into());
    }
    let mut seen = std::collections::HashSet::new();
    let mut renamed = Vec::with_capacity(columns.len());
    for (place, column) in columns.iter().enumerate() {
        let name: Arc<str> = match names.get(place) {
            Some(name) => Arc::from(*name),
            None => Arc::clone(&column.name),
        };
        if !seen.insert(name.to_lowercase()) {
            return Err(QueryError::DuplicateColumn(name.to_string()).into());
        }
        let mut ty = column.ty.clone();
        ty.literal = false;
        if ty.column.is_some_and(|column| column.is_string()) {
            ty.coercibility = perigee_sql_type::Coercibility::Implicit;
        }
        renamed.push(Column {
            name,
            table: Some(Arc::clone(table)),
            origin: column.origin,
            ty,
        });
    }
    Ok(renamed.into())
}

pub(super) fn scope_of(alias: &Arc<str>, columns: &[Column]) -> Scope {
    let columns = columns.iter().enumerate().map(|(place, column)| Named {
        name: column.name.to_lowercase().into(),
        place,
        column: column.clone(),
        visible: true,
        denied: None,
    });
    Scope::of(Source {
        alias: Arc::clone(alias),
        schema: None,
        references: Vec::new(),
        is_view: false,
        is_join: false,
        checks: Vec::new(),
        columns: columns.collect(),
    })
}

/// A column of a row.
pub(super) fn column(named: &Named) -> Scalar {
    Scalar::new(Node::Column(named.place), named.column.ty.clone())
}
