//! GROUP BY and DISTINCT over strings as their collations compare them, and sums within the digits of a DECIMAL.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result as DfResult, TableReference};
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, Projection};

use super::comparable::{collated, has_more_digits};
use super::fractions::{extreme_digits, with_digits};
use super::metadata;
use super::operators::{call, without_padding};
use crate::functions::enumeration;
use crate::functions::types::{is_json, is_string};
use crate::functions::wide::SumInRange;
use crate::result::flags::PRIMARY_KEY;

/// Name of the column that carries what a group's key looks like; a column cannot be named so.
const SHOWN: &str = "/shown@";

/// Groups strings as their collation compares them: by the value without trailing spaces, and beside
/// it the group's least value as it is stored, which takes the key's place in the output.
pub(super) fn group_by(aggregate: Aggregate) -> DfResult<LogicalPlan> {
    let keyed = keyed_tables(&aggregate);
    // The keys of grouping sets are one expression, and several columns.
    let of_sets = match aggregate.group_expr[..] {
        [Expr::GroupingSet(_)] => Some(aggregate.group_expr_len()?),
        _ => None,
    };
    let Aggregate {
        input,
        mut group_expr,
        mut aggr_expr,
        schema,
        ..
    } = aggregate;
    // A key that is named twice is one column of the output.
    let mut known = HashSet::new();
    group_expr.retain(|expr| known.insert(expr.clone()));
    let mut shown = vec![None; group_expr.len()];
    for (i, expr) in group_expr.iter_mut().enumerate() {
        if matches!(expr, Expr::GroupingSet(_))
            || belongs_to(expr.unalias_ref(), &keyed)
            || !needs_padding(expr.unalias_ref(), input.schema())?
        {
            continue;
        }
        let (relation, name) = expr.qualified_name();
        let value = expr.clone().unalias();
        shown[i] = Some(
            match metadata::members(&value.to_field(input.schema())?.1) {
                // One text has one number.
                Some(members) => {
                    let key = Expr::Column(Column::new(relation.clone(), &name));
                    enumeration::text_of(key, members)
                }
                None => {
                    let carrier = format!("{SHOWN}{i}");
                    aggr_expr.push(min(value.clone()).alias(&carrier));
                    Expr::Column(Column::new_unqualified(carrier))
                }
            },
        );
        *expr = collated(value, input.schema())?.alias_qualified(relation, name);
    }
    let groups = of_sets.unwrap_or(shown.len());
    let mut digits = vec![0; groups];
    for expr in &aggr_expr {
        digits.push(extreme_digits(expr.unalias_ref(), input.schema())?);
    }
    let changed = shown.iter().any(Option::is_some) || digits.iter().any(|digits| *digits > 0);
    let aggregate = Aggregate::try_new(input, group_expr, aggr_expr)?;
    if !changed {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let column = |i: usize, relation: Option<&TableReference>, field: &Field| {
        let name = field.name();
        if let Some(Some(shown)) = shown.get(i) {
            let metadata = Some(FieldMetadata::from(field));
            let shown = shown.clone();
            return Ok(shown.alias_qualified_with_metadata(relation.cloned(), name, metadata));
        }
        let column = Expr::Column(Column::new(relation.cloned(), name));
        let column = with_digits(column, digits[i], &aggregate.schema)?;
        Ok(match column.transformed {
            true => column.data.alias_qualified(relation.cloned(), name),
            false => column.data,
        })
    };
    let columns = schema.iter().enumerate();
    let columns = columns
        .map(|(i, (relation, field))| column(i, relation, field))
        .collect::<DfResult<_>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(LogicalPlan::Aggregate(aggregate)),
    )?))
}

/// DISTINCT over strings is GROUP BY of all columns.
pub(super) fn distinct(input: Arc<LogicalPlan>) -> DfResult<LogicalPlan> {
    let columns: Vec<Expr> = input
        .schema()
        .iter()
        .map(|(relation, field)| Expr::Column(Column::new(relation.cloned(), field.name())))
        .collect();
    for column in &columns {
        if needs_padding(column, input.schema())? {
            return group_by(Aggregate::try_new(input, columns, Vec::new())?);
        }
    }
    Ok(LogicalPlan::Distinct(Distinct::All(input)))
}

/// Checks sums of wide decimals, which DataFusion gives more digits than a DECIMAL has.
pub(super) fn sums_in_range(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let outputs = plan.schema().fields().iter().zip(are_sums(&plan));
    let are_longer: Vec<bool> = outputs
        .map(|(field, is_sum)| is_sum && has_more_digits(field.data_type()))
        .collect();
    if !are_longer.contains(&true) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().zip(are_longer);
    let columns = columns.map(|((relation, field), is_longer)| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        match is_longer {
            true => call(SumInRange::default().into(), vec![column])
                .alias_qualified(relation.cloned(), field.name()),
            false => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}

/// Which outputs of an aggregation, or of the projection that [`group_by`] lays over it, are sums.
fn are_sums(plan: &LogicalPlan) -> Vec<bool> {
    let aggregate = match plan {
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        plan => plan,
    };
    let LogicalPlan::Aggregate(aggregate) = aggregate else {
        return vec![false; plan.schema().fields().len()];
    };
    let is_sum = |expr: &Expr| matches!(expr.unalias_ref(), Expr::AggregateFunction(function) if function.func.name() == "sum");
    let groups = vec![false; aggregate.group_expr_len().unwrap_or_default()];
    let sums = aggregate.aggr_expr.iter().map(is_sum);
    groups.into_iter().chain(sums).collect()
}

/// The tables whose whole primary key is grouped by. Their other columns have one value in a group,
/// whose bytes are all equal: it need not be cut, and is shown as it is stored.
fn keyed_tables(aggregate: &Aggregate) -> Vec<TableReference> {
    let mut tables = Vec::new();
    whole_tables(&aggregate.input, &mut tables);
    tables.retain(|(table, schema)| {
        let is_grouped = |name: &str| {
            aggregate
                .group_expr
                .iter()
                .any(|expr| match expr.unalias_ref() {
                    Expr::Column(column) => {
                        column.relation.as_ref() == Some(table) && column.name == name
                    }
                    _ => false,
                })
        };
        let is_key = |field: &Field| {
            metadata::origin(field).is_some_and(|origin| origin.flags & PRIMARY_KEY != 0)
        };
        let fields = schema.fields();
        fields.iter().any(|field| is_key(field))
            && fields
                .iter()
                .all(|field| !is_key(field) || is_grouped(field.name()))
    });
    tables.into_iter().map(|(table, _)| table).collect()
}

/// Tables that a plan reads with all their columns. Derived tables are none: there, a column of the
/// key may stand beside columns of other rows.
fn whole_tables(plan: &LogicalPlan, out: &mut Vec<(TableReference, DFSchemaRef)>) {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            if matches!(alias.input.as_ref(), LogicalPlan::TableScan(_)) {
                out.push((alias.alias.clone(), Arc::clone(&alias.schema)));
            }
        }
        LogicalPlan::Filter(filter) => whole_tables(&filter.input, out),
        LogicalPlan::Join(join) => {
            whole_tables(&join.left, out);
            whole_tables(&join.right, out);
        }
        _ => {}
    }
}

fn belongs_to(expr: &Expr, tables: &[TableReference]) -> bool {
    match expr {
        Expr::Column(column) => column.relation.as_ref().is_some_and(|r| tables.contains(r)),
        _ => false,
    }
}

fn needs_padding(expr: &Expr, schema: &DFSchema) -> DfResult<bool> {
    if metadata::is_enum(&expr.to_field(schema)?.1) {
        return Ok(true);
    }
    let ty = expr.get_type(schema)?;
    Ok(is_json(&ty) || (is_string(&ty) && without_padding(expr.clone(), schema)? != *expr))
}

/// An expression below its names.
pub(super) trait UnaliasRef {
    /// It.
    fn unalias_ref(&self) -> &Expr;
}

impl UnaliasRef for Expr {
    fn unalias_ref(&self) -> &Expr {
        match self {
            Expr::Alias(alias) => alias.expr.unalias_ref(),
            other => other,
        }
    }
}
