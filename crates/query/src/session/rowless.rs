//! SELECT of expressions without a table: one row, for which no plan is made.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::value_type;
use perigee_sql_bind::query::Column;
use perigee_sql_type::SqlType;
use sqlparser::ast::{Expr, Query, SelectItem};

use super::{Session, scalars};
use crate::error::{Result, SqlError};
use crate::functions::library;
use crate::functions::results::Results;
use crate::parse::bare_list;
use crate::result::{ResultColumn, ResultSink};

/// The expressions of a query that selects nothing else.
pub(super) fn expressions(query: &Query) -> Option<Vec<Expr>> {
    let expression = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    };
    bare_list(query)?.iter().map(expression).collect()
}

/// A row and its types.
pub(super) type Row = Vec<(Value<'static>, SqlType)>;

/// The row of the expressions; `None` if one of them needs a plan.
///
/// # Errors
/// Those of evaluation.
pub(super) fn row(session: &Session, exprs: &[Expr], cancel: &CancelToken) -> Result<Option<Row>> {
    let now = session.now();
    let mut row = Vec::with_capacity(exprs.len());
    for expr in exprs {
        match scalars::value_of(session, expr, now, cancel)? {
            Some(value) => row.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(row))
}

/// Delivers the row.
pub(super) async fn deliver(
    session: &Session,
    row: Row,
    columns: &[Column],
    out: &mut dyn ResultSink,
) -> Result<()> {
    let columns: Vec<_> = row
        .iter()
        .zip(columns)
        .map(|((_, ty), own)| column(ty, &own.name))
        .collect();
    out.columns(&columns).await?;
    out.rows(&batch(row)?).await?;
    out.finish(session.warning_count()).await
}

fn column(ty: &SqlType, name: &str) -> ResultColumn {
    ResultColumn {
        name: name.to_owned(),
        org_name: String::new(),
        table: String::new(),
        schema: String::new(),
        ty: ty.column,
        members: None,
        not_null: !ty.nullable,
        primary_key: false,
        unique_key: false,
        multiple_key: false,
    }
}

fn batch(row: Row) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(row.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(row.len());
    for (value, ty) in row {
        let data_type = library::data_type(value_type(&ty));
        let mut results = Results::new(&data_type, 1, false)?;
        results.push(value)?;
        fields.push(Field::new("", data_type, true));
        arrays.push(results.finish()?);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(SqlError::unknown)
}
