//! The rows that UPDATE and DELETE change, and the expressions that they assign.

use std::sync::Arc;

use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;
use sqlparser::ast::{
    Expr, Ident, LimitClause, ObjectName, OptimizerHint, OrderBy, TableWithJoins,
};

use super::super::change::{Change, Source};
use super::super::{Catalog, Clause, Operator, Origin, QueryError, Relation};
use super::block::Block;
use super::from::{From, column};
use super::order::exprs;
use super::scope::{Found, Scope};
use super::stage::Stage;
use super::statement::Statement;
use crate::{Environment, Result};

/// MySQL's error of a window function outside of a SELECT.
const WINDOW: u16 = 3593;

/// Which rows a statement changes.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'r> {
    /// The tables.
    pub from: &'r [TableWithJoins],
    /// WHERE.
    pub selection: Option<&'r Expr>,
    /// ORDER BY.
    pub order: Option<&'r OrderBy>,
    /// LIMIT.
    pub limit: Option<&'r Expr>,
    /// Optimizer hints.
    pub hints: &'r [OptimizerHint],
}

/// An assignment.
#[derive(Clone, Copy, Debug)]
pub struct Assigned<'a> {
    /// The column.
    pub column: &'a ObjectName,
    /// What is assigned; `None` if that is no expression.
    pub value: Option<&'a Expr>,
    /// True if the column holds what the expression says: subqueries behind the assignment may depend on it.
    pub is_told: bool,
}

/// The meaning of the rows that a statement changes, and of the expressions that it assigns.
///
/// # Errors
/// [`crate::BindError`].
pub fn bind_change(
    rows: &Rows<'_>,
    assigned: &[Assigned<'_>],
    environment: &dyn Environment,
    catalog: &dyn Catalog,
) -> Result<Change> {
    let statement = Statement::new(environment, catalog);
    statement.keeps_rows.set(true);
    let changed = statement.changed(rows, assigned)?;
    Ok(Change {
        query: statement.query_of(changed.rows),
        values: changed.values,
        columns: changed.columns,
        sources: changed.sources,
    })
}

/// Checks that columns of one table only are changed through each view.
///
/// # Errors
/// 1393.
fn one_table(scope: &Scope, columns: &[Option<Origin>]) -> Result<()> {
    for source in scope.sources.iter().filter(|source| source.is_view) {
        let own = |origin: &&Origin| source.references.contains(&origin.reference);
        let mut changed = columns.iter().flatten().filter(own);
        let first = changed.next();
        if changed.any(|other| Some(other.reference) != first.map(|first| first.reference)) {
            let schema = source.schema.as_deref().unwrap_or_default();
            let name = format!("{schema}.{}", source.alias);
            return Err(QueryError::SeveralTables(name).into());
        }
    }
    Ok(())
}

/// What is known of a statement that changes rows.
struct Changed {
    rows: Relation,
    values: Vec<Scalar>,
    columns: Vec<Option<Origin>>,
    sources: Vec<Source>,
}

impl Source {
    fn of(source: &super::scope::Source) -> Self {
        Self {
            alias: Arc::clone(&source.alias),
            schema: source.schema.clone(),
            references: source.references.clone(),
            is_view: source.is_view,
            is_join: source.is_join,
            columns: source
                .columns
                .iter()
                .map(|named| named.column.clone())
                .collect(),
            checks: source.checks.clone(),
        }
    }
}

impl Statement<'_> {
    fn changed(&self, rows: &Rows<'_>, assigned: &[Assigned<'_>]) -> Result<Changed> {
        self.environment.check()?;
        let number = self.next_select();
        let hints = self.hints_of(rows.hints, number);
        let from = From {
            statement: self,
            select: number,
            outer: None,
            names: Default::default(),
            hints: hints.of_tables.into(),
        };
        let item = from.rows(rows.from)?;
        self.resolve_hints(&from.hints.take(), &hints.orders, &item.scope, number);
        let width = item.relation.columns.len();
        let block = Block::new(self, item.scope.indexed(), width, None, Clause::Fields);
        let mut scalars = Vec::with_capacity(assigned.len());
        let mut columns = Vec::with_capacity(assigned.len());
        for one in assigned {
            let value = one.value.map(|expr| block.expression(expr, Clause::Fields));
            let value = value.transpose()?;
            let place = block.assign(one, value.as_ref());
            columns.push(match place {
                Some(place) => block.changed_column(place, &item.relation)?,
                None => None,
            });
            scalars.extend(value);
        }
        block.assigned.take();
        one_table(&block.scope, &columns)?;
        let sources = block.scope.sources.iter().map(Source::of).collect();
        let mut stage = Stage::new(&block, item.relation);
        if let Some(selection) = rows.selection {
            let condition = block.condition(selection, Clause::Where)?;
            stage.filter(condition)?;
        }
        let order = block.order(exprs(rows.order)?, &[])?;
        let order: Vec<_> = order.into_iter().map(|order| order.key).collect();
        let extras = block.extras.borrow();
        if !extras.windows.is_empty() {
            return Err(QueryError::Window {
                number: WINDOW,
                name: "OVER".into(),
                why: "a window function may not stand here",
            }
            .into());
        }
        if !extras.aggregates.is_empty() {
            return Err(QueryError::InvalidGroupFunction.into());
        }
        drop(extras);
        if !order.is_empty() {
            let keys = stage.place_keys(order)?;
            let columns = stage.relation.columns.clone();
            stage.over(|input| Operator::Sort { input, keys }, columns);
        }
        if let Some(limit) = rows.limit {
            let limit = LimitClause::LimitOffset {
                limit: Some(limit.clone()),
                offset: None,
                limit_by: Vec::new(),
            };
            stage.relation = self.limited(stage.relation, Some(&limit))?;
        }
        let values = stage.place_all(scalars)?;
        self.check_variables(&stage.relation)?;
        Ok(Changed {
            values,
            rows: stage.relation,
            columns,
            sources,
        })
    }
}

impl Block<'_> {
    /// The column of a table that is changed with one of the row, if it is that of a table.
    ///
    /// # Errors
    /// 1288, 1348 for a column of a view that cannot be changed.
    fn changed_column(&self, place: usize, relation: &Relation) -> Result<Option<Origin>> {
        let origin = relation.columns[place].origin;
        let is_own = |source: &&super::scope::Source| {
            source.columns.iter().any(|column| column.place == place)
        };
        let Some(source) = self.scope.sources.iter().find(is_own) else {
            return Ok(origin);
        };
        let is_there = |origin: Origin| source.references.contains(&origin.reference);
        match source.is_view && !origin.is_some_and(is_there) {
            false => Ok(origin),
            true if source.references.is_empty() => {
                Err(QueryError::NotUpdatable(source.alias.to_string()).into())
            }
            true => {
                let name = relation.columns[place].name.to_string();
                Err(QueryError::ColumnNotUpdatable(name).into())
            }
        }
    }

    /// Notes what a column holds from now on. Gives its place, if there is such a column.
    fn assign(&self, assigned: &Assigned<'_>, value: Option<&Scalar>) -> Option<usize> {
        let parts = assigned.column.0.iter();
        let name: Option<Vec<Ident>> = parts.map(|part| part.as_ident().cloned()).collect();
        // What is wrong with the name is said where the assignment is made.
        // What is assigned is not read.
        let column = name.and_then(|name| match self.scope.located(&name) {
            Ok(Found::One(named)) => Some(column(named)),
            _ => None,
        });
        let Some(Scalar {
            node: Node::Column(place),
            ty,
        }) = column
        else {
            return None;
        };
        let is_stamp = |ty: &SqlType| ty.column.is_some_and(ColumnType::is_timestamp);
        let in_zone = |value: &Scalar| {
            is_stamp(&value.ty) == is_stamp(&ty) || Environment::now(self).zone.is_utc()
        };
        let is_told = |value: &&Scalar| assigned.is_told && is_repeatable(value) && in_zone(value);
        let told = value.filter(is_told);
        // Something that is not told makes what is computed of it so.
        let told = told.and_then(|value| self.with_assigned(value.clone()).ok());
        let mut ty = ty.nullable(true);
        ty.literal = false;
        let held = told.map(|value| Scalar::new(Node::Stored(Box::new(value)), ty));
        self.assigned.borrow_mut().insert(place, held);
        (place < self.width).then_some(place)
    }
}

/// True if the expression gives the same value each time.
fn is_repeatable(scalar: &Scalar) -> bool {
    let mut is_repeatable = true;
    scalar.visit(&mut |part| {
        is_repeatable &= part.is_deterministic();
        is_repeatable
    });
    is_repeatable
}
