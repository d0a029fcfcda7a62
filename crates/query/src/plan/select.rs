//! A SELECT from its syntax tree to an optimized plan.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, Projection};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias, GroupByExpr, Query, SelectItem, SetExpr, Statement,
};

use super::clause;
use super::metadata;
use super::rewrite::{OutputNames, Rewritten};
use super::typing;
use crate::error::{Result, SqlError};
use crate::interrupt;

/// A typed logical plan with the names of its columns.
#[derive(Debug)]
pub struct Planned {
    /// The plan, before DataFusion's optimizer.
    pub plan: LogicalPlan,
    /// What clients are told of its columns.
    pub schema: SchemaRef,
    /// What the result's columns are called.
    pub names: Vec<String>,
}

/// Columns of a SELECT, as many as MySQL's tables have. A row of literals may have more.
const MAX_COLUMNS: usize = 4096;

/// Plans a rewritten query.
///
/// # Errors
/// Unknown columns, types that do not go together, what is not supported; 1117 for too many columns.
pub async fn plan(state: &SessionState, rewritten: Rewritten) -> Result<Planned> {
    let query = rewritten.query;
    let plan = match literals(&query) {
        Some(literals) => row_of(state, literals)?,
        None if rewritten.columns > MAX_COLUMNS => return Err(SqlError::too_many_columns()),
        None => {
            let statement = DfStatement::Statement(Box::new(Statement::Query(query.clone())));
            let plan = state.statement_to_plan(statement).await;
            plan.map_err(|error| clause::located(error.into(), &query))?
        }
    };
    let plan = typing::apply(plan)?;
    let names = output_names(&plan, &rewritten.names);
    let schema = Arc::clone(plan.schema().inner());
    Ok(Planned {
        plan,
        schema,
        names,
    })
}

/// Literals from which a select list is planned here: DataFusion compares the names of all columns with each
/// other, and drivers send as many parameters as the protocol has.
const MANY_LITERALS: usize = 256;

/// The select list of a query that has nothing else: no table, no clause.
#[must_use]
pub fn bare_list(query: &Query) -> Option<&[SelectItem]> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let has_more = query.with.is_some()
        || query.order_by.is_some()
        || query.limit_clause.is_some()
        || !query.locks.is_empty()
        || select.distinct.is_some()
        || select.selection.is_some()
        || select.having.is_some()
        || is_grouped
        || !select.from.is_empty();
    (!has_more).then_some(&select.projection)
}

/// The select list of a query that selects nothing but many literals.
fn literals(query: &Query) -> Option<&[SelectItem]> {
    let is_literal = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, .. } => matches!(expr, SqlExpr::Value(_)),
        _ => false,
    };
    let are_literals =
        |items: &&[SelectItem]| items.len() >= MANY_LITERALS && items.iter().all(is_literal);
    bare_list(query).filter(are_literals)
}

/// The plan of one row of literals.
fn row_of(state: &SessionState, items: &[SelectItem]) -> Result<LogicalPlan> {
    let schema = DFSchemaRef::new(DFSchema::empty());
    let mut row = Vec::with_capacity(items.len());
    for item in items {
        interrupt::check()?;
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            let literal = ExprWithAlias {
                expr: expr.clone(),
                alias: Some(alias.clone()),
            };
            row.push(state.create_logical_expr_from_sql_expr(literal, &schema)?);
        }
    }
    let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema,
    });
    let row = Projection::try_new(row, Arc::new(nothing))?;
    Ok(LogicalPlan::Projection(row))
}

fn output_names(plan: &LogicalPlan, names: &OutputNames) -> Vec<String> {
    let fields = plan.schema().fields();
    if let Some(by_position) = &names.by_position
        && by_position.len() == fields.len()
    {
        return by_position.clone();
    }
    fields
        .iter()
        .map(
            |field| match (names.by_alias.get(field.name()), metadata::origin(field)) {
                (Some(name), _) => name.clone(),
                (None, Some(origin)) => origin.column,
                (None, None) => field.name().clone(),
            },
        )
        .collect()
}
