//! UNION: all parts of one UNION have the common type of each column, before anything is made of its rows.
//!
//! `a UNION b UNION ALL c` is one UNION of three parts: 1 and 1.0 are two rows of the first two where the third one
//! has texts. DataFusion plans it as `(a UNION b) UNION ALL c`, with the types of the first part. So the rewriter
//! hides each UNION in a table of its own ([`hide`]), and [`Unions`] gives the parts their types as soon as they
//! are planned: what stands around a UNION is planned over the types that it has.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, Result as DfResult};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Projection, Union};
use datafusion::sql::sqlparser::ast::{
    Ident, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
};

use super::branches::{self, Branch, Common};
use super::{collation, metadata};
use crate::functions::types::is_string;

/// Name of the table in which a UNION hides; no alias can be named so.
const HIDDEN: &str = "/union@";

/// Makes a SELECT `SELECT * FROM (body)`, where `body` is a UNION.
pub fn hide(body: Box<SetExpr>, select: &mut Select) {
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(body)),
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', HIDDEN),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    };
    select.projection = vec![SelectItem::Wildcard(Default::default())];
    select.from = vec![TableWithJoins {
        relation,
        joins: Vec::new(),
    }];
}

/// The UNION that [`hide`] hid in a SELECT.
#[must_use]
pub fn found(select: &Select) -> Option<&Query> {
    match &select.from[..] {
        [
            TableWithJoins {
                relation:
                    TableFactor::Derived {
                        subquery,
                        alias: Some(alias),
                        ..
                    },
                ..
            },
        ] if alias.name.value == HIDDEN => Some(subquery),
        _ => None,
    }
}

fn query_of(body: Box<SetExpr>) -> Query {
    Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// DataFusion's hook.
#[derive(Debug)]
pub struct Unions;

impl RelationPlanner for Unions {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DfResult<RelationPlanning> {
        match relation {
            TableFactor::Derived {
                lateral,
                subquery,
                alias: Some(alias),
                sample,
            } if alias.name.value == HIDDEN => {
                let plan = context.plan(TableFactor::Derived {
                    lateral,
                    subquery,
                    alias: None,
                    sample,
                })?;
                let plan = typed(plan)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
                    plan, None,
                ))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// A step on the way from a UNION to its first part.
enum Step {
    Distinct,
    /// A UNION with these parts behind the first one.
    Union(Vec<Arc<LogicalPlan>>),
}

/// A UNION, perhaps of UNIONs, whose parts all have the types that they have in common.
fn typed(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut steps = Vec::new();
    let mut first = plan;
    loop {
        first = match first {
            LogicalPlan::Distinct(Distinct::All(input))
                if matches!(
                    input.as_ref(),
                    LogicalPlan::Union(_) | LogicalPlan::Distinct(_)
                ) =>
            {
                steps.push(Step::Distinct);
                Arc::unwrap_or_clone(input)
            }
            LogicalPlan::Union(mut union) if !union.inputs.is_empty() => {
                let first = union.inputs.remove(0);
                steps.push(Step::Union(union.inputs));
                Arc::unwrap_or_clone(first)
            }
            other => {
                first = other;
                break;
            }
        };
    }
    let mut parts = vec![Arc::new(first)];
    for step in steps.iter_mut().rev() {
        if let Step::Union(others) = step {
            parts.append(others);
        }
    }
    let mut parts = unified(parts)?.into_iter();
    let mut plan = parts.next().map(Arc::unwrap_or_clone);
    for step in steps.into_iter().rev() {
        plan = match (plan, step) {
            (Some(plan), Step::Distinct) => {
                Some(LogicalPlan::Distinct(Distinct::All(Arc::new(plan))))
            }
            (Some(plan), Step::Union(_)) => {
                let inputs = std::iter::once(Arc::new(plan)).chain(parts.next());
                Some(LogicalPlan::Union(Union::try_new_with_loose_types(
                    inputs.collect(),
                )?))
            }
            (None, _) => None,
        };
    }
    plan.ok_or_else(|| datafusion::common::internal_datafusion_err!("Q1: a UNION has parts"))
}

/// The parts of a UNION with columns of the types that they have in common.
///
/// # Errors
/// 1235 for types that do not go together.
pub fn unified(parts: Vec<Arc<LogicalPlan>>) -> DfResult<Vec<Arc<LogicalPlan>>> {
    let count = parts.first().map_or(0, |part| part.schema().fields().len());
    if parts
        .iter()
        .any(|part| part.schema().fields().len() != count)
    {
        return Ok(parts);
    }
    let commons: Vec<Option<Common>> = (0..count)
        .map(|column| common(&parts, column))
        .collect::<DfResult<_>>()?;
    if commons.iter().all(Option::is_none) {
        return Ok(parts);
    }
    let collations: Vec<_> = (0..count).map(|i| collation::of_union(&parts, i)).collect();
    let converted = |part: Arc<LogicalPlan>| {
        let columns = part.schema().iter().enumerate();
        let columns = columns.map(|(i, (relation, field))| {
            let column = Expr::Column(Column::new(relation.cloned(), field.name()));
            let Some(common) = &commons[i] else {
                return Ok(column);
            };
            let own = collations[i];
            let mut converted = common.convert(column, part.schema())?;
            if is_string(&common.data_type) && metadata::collation(field) != own {
                converted = collation::of_no_column(converted, own);
            }
            let metadata = FieldMetadata::from(common.metadata(Some(own)));
            Ok(converted.alias_qualified_with_metadata(
                relation.cloned(),
                field.name(),
                Some(metadata),
            ))
        });
        let columns = columns.collect::<DfResult<_>>()?;
        let projection = Projection::try_new(columns, Arc::clone(&part))?;
        Ok(Arc::new(LogicalPlan::Projection(projection)))
    };
    parts.into_iter().map(converted).collect()
}

/// What a column of several parts has in common; `None` if the parts say the same already.
fn common(parts: &[Arc<LogicalPlan>], column: usize) -> DfResult<Option<Common>> {
    let fields = || parts.iter().map(|part| part.schema().field(column));
    let says = |field: &Field| {
        let collation = is_string(field.data_type()).then(|| metadata::collation(field));
        let ty = metadata::declared(field).map(str::to_owned);
        (field.data_type().clone(), ty, collation)
    };
    let mut all = fields().map(|field| says(field));
    let first = all.next();
    let is_same = all.all(|other| Some(&other) == first.as_ref());
    if is_same && !fields().any(|field| metadata::is_enum(field)) {
        return Ok(None);
    }
    let branches: Vec<Branch<'_>> = parts
        .iter()
        .map(|part| (part.schema().field(column) as &Field, literal(part, column)))
        .collect();
    branches::common(branches).map(Some)
}

/// The literal that a column of a part is.
fn literal(part: &LogicalPlan, column: usize) -> Option<&datafusion::common::ScalarValue> {
    match part {
        LogicalPlan::Projection(projection) => branches::literal(projection.expr.get(column)?),
        _ => None,
    }
}
