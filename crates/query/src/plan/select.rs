//! A SELECT from its syntax tree to an optimized plan.

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement;

use super::clause;
use super::metadata;
use super::rewrite::{OutputNames, Rewritten};
use super::typing;
use crate::error::Result;

/// A typed logical plan with the names of its columns.
#[derive(Debug)]
pub struct Planned {
    /// The plan, before DataFusion's optimizer.
    pub plan: LogicalPlan,
    /// What the result's columns are called.
    pub names: Vec<String>,
}

/// Plans a rewritten query.
///
/// # Errors
/// Unknown columns, types that do not go together, what is not supported.
pub async fn plan(state: &SessionState, rewritten: Rewritten) -> Result<Planned> {
    let query = rewritten.query;
    let statement = DfStatement::Statement(Box::new(Statement::Query(query.clone())));
    let plan = state
        .statement_to_plan(statement)
        .await
        .map_err(|error| clause::located(error.into(), &query))?;
    let plan = typing::apply(plan)?;
    let names = output_names(&plan, &rewritten.names);
    Ok(Planned { plan, names })
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
