//! Columns of rows as columns of plans: their names, and what clients are told of their types.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{DFSchema, Result as DfResult, TableReference};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection};
use perigee_expr::scalar::Scalar;
use perigee_sql_bind::query::Column;
use perigee_sql_type::SqlType;

use super::relation::{Lowered, Planner, column};
use crate::functions::types::{is_json, is_string};
use crate::plan::branches::data_type_of;
use crate::plan::metadata;
use crate::result::type_of;

impl Lowered {
    /// The relation with a plan whose columns are the row's and nothing else.
    pub(super) fn exact(self, columns: &[Column], planner: &Planner<'_>) -> DfResult<Self> {
        let own = self.plan.schema().columns();
        let is_exact = own.len() == self.columns.len()
            && own
                .iter()
                .zip(&self.columns)
                .all(|(own, expr)| column(expr) == Some(own));
        let names: Vec<_> = columns
            .iter()
            .map(|column| column.name.to_lowercase())
            .collect();
        let are_named = own.iter().zip(&names).all(|(own, name)| own.name == *name);
        match is_exact && are_named {
            true => Ok(self),
            false => self.projected(columns, &names, planner),
        }
    }

    /// The relation with a plan of which each of the row's columns is a column.
    pub(super) fn of_columns(self, columns: &[Column], planner: &Planner<'_>) -> DfResult<Self> {
        match self.columns.iter().all(|expr| column(expr).is_some()) {
            true => Ok(self),
            false => self.exact(columns, planner),
        }
    }

    fn projected(
        self,
        columns: &[Column],
        names: &[String],
        planner: &Planner<'_>,
    ) -> DfResult<Self> {
        let qualifier = planner.qualifier("");
        let schema = self.plan.schema();
        let mut used = HashSet::new();
        let mut exprs = Vec::with_capacity(columns.len());
        for ((expr, column), name) in self.columns.into_iter().zip(columns).zip(names) {
            let name = unique(name, &mut used);
            exprs.push(named(expr, &qualifier, name, &column.ty, schema)?);
        }
        let projection = Projection::try_new(exprs, Arc::new(self.plan))?;
        Ok(Self::of(LogicalPlan::Projection(projection)))
    }
}

/// A name, or one made of it that is not used yet.
pub(super) fn unique(name: &str, used: &mut HashSet<String>) -> String {
    let mut unique = name.to_owned();
    let mut number = used.len();
    while !used.insert(unique.clone()) {
        number += 1;
        unique = format!("{name}#{number}");
    }
    unique
}

/// An expression with a name, and with what its field does not tell of its type.
pub(super) fn named(
    expr: Expr,
    qualifier: &TableReference,
    name: String,
    ty: &SqlType,
    schema: &DFSchema,
) -> DfResult<Expr> {
    let field = expr.to_field(schema)?.1;
    let mut map = HashMap::new();
    let Some(own) = ty.column.filter(|_| !ty.truth) else {
        return Ok(expr.alias_qualified(Some(qualifier.clone()), name));
    };
    let is_text = is_string(field.data_type()) && !is_json(field.data_type());
    if !tells(&field, ty) {
        metadata::declare(&mut map, &own);
    }
    if is_text && metadata::collation(&field) != ty.collation() {
        metadata::name_collation(&mut map, ty.collation());
    }
    let metadata = (!map.is_empty()).then(|| FieldMetadata::from(map));
    Ok(expr.alias_qualified_with_metadata(Some(qualifier.clone()), name, metadata))
}

/// The fields of a result: what the binder says of types that the plan's own fields do not tell.
pub(super) fn told(schema: &DFSchema, columns: &[Column]) -> SchemaRef {
    let fields = schema.fields().iter().zip(columns);
    let fields: Vec<_> = fields
        .map(|(field, own)| match own.ty.column {
            Some(column) if !tells(field, &own.ty) => {
                let mut metadata = field.metadata().clone();
                metadata::declare(&mut metadata, &column);
                let told = field.as_ref().clone().with_metadata(metadata);
                match told.data_type().is_numeric() {
                    true => told.with_data_type(data_type_of(column)),
                    false => told,
                }
            }
            _ => field.as_ref().clone(),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// True if clients are told a type by a field.
fn tells(field: &Field, ty: &SqlType) -> bool {
    metadata::is_enum(field) || ty.truth || type_of(field) == ty.column
}

impl<'q> Planner<'q> {
    /// A row of expressions for each row. Columns stay what they are, and everything else is computed once.
    pub(super) fn project(
        &self,
        input: Lowered,
        columns: &[Column],
        expressions: &[Scalar],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let row = input.row(parameters);
        let exprs = expressions.iter().map(|one| row.value(one));
        let exprs = exprs.collect::<DfResult<Vec<_>>>()?;
        let output = Lowered {
            plan: input.plan,
            columns: exprs,
        };
        match output.columns.iter().all(|expr| column(expr).is_some()) {
            true => Ok(output),
            false => output.exact(columns, self),
        }
    }
}
