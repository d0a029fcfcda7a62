//! Small result sets that are not queries: SHOW, DESCRIBE, EXPLAIN.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use perigee_value::{Collation, ColumnType, LikePattern};
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use crate::error::{Result, SqlError};
use crate::parse::Filter;
use crate::result::{ResultColumn, ResultSink};

/// A cell: NULL or text; numbers are their text.
pub(super) type Cell = Option<String>;

/// A result set in memory.
pub(super) struct Rowset {
    /// Name, and whether it is a number.
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<Cell>>,
}

/// A cell with text.
pub(super) fn text(text: impl Into<String>) -> Cell {
    Some(text.into())
}

impl Rowset {
    /// An empty one; names that begin with `#` are columns of integers.
    pub(super) fn new(columns: &[&str]) -> Self {
        let columns = columns
            .iter()
            .map(|name| match name.strip_prefix('#') {
                Some(name) => (name.to_owned(), true),
                None => ((*name).to_owned(), false),
            })
            .collect();
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(
            row.len(),
            self.columns.len(),
            "Q6: a row has a cell for each column"
        );
        self.rows.push(row);
    }

    /// Keeps the rows that a LIKE over the first column or a WHERE lets through.
    ///
    /// # Errors
    /// 1054 for unknown columns, 1235 for conditions other than comparisons with constants.
    pub(super) fn filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        self.filter_by(0, filter)
    }

    /// As [`Rowset::filter`], with LIKE over another column.
    pub(super) fn filter_by(&mut self, column: usize, filter: Option<&Filter>) -> Result<()> {
        match filter {
            None => Ok(()),
            Some(Filter::Like(pattern)) => {
                // SHOW compares names without case.
                let pattern = LikePattern::new(&pattern.to_lowercase(), '\\');
                self.rows.retain(|row| {
                    let name = row[column].as_deref().unwrap_or_default().to_lowercase();
                    pattern.matches(name.as_bytes())
                });
                Ok(())
            }
            Some(Filter::Where(condition)) => {
                let mut kept = Vec::new();
                for row in std::mem::take(&mut self.rows) {
                    if holds(condition, &self.columns, &row)? == Some(true) {
                        kept.push(row);
                    }
                }
                self.rows = kept;
                Ok(())
            }
        }
    }

    /// What clients are told of its columns.
    pub(super) fn columns(&self) -> Vec<ResultColumn> {
        self.columns.iter().map(result_column).collect()
    }

    /// Delivers it.
    pub(super) async fn send(self, warnings: u16, out: &mut dyn ResultSink) -> Result<()> {
        out.columns(&self.columns()).await?;
        if !self.rows.is_empty() {
            out.rows(&self.batch()?).await?;
        }
        out.finish(warnings).await
    }

    fn batch(&self) -> Result<RecordBatch> {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (i, (name, number)) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().map(|row| row[i].as_deref());
            if *number {
                fields.push(Field::new(name, DataType::Int64, true));
                let numbers: Int64Array = cells
                    .map(|c| c.and_then(|c| c.parse::<i64>().ok()))
                    .collect();
                arrays.push(Arc::new(numbers));
            } else {
                fields.push(Field::new(name, DataType::Utf8View, true));
                arrays.push(Arc::new(cells.collect::<StringViewArray>()));
            }
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(SqlError::unknown)
    }
}

fn result_column((name, number): &(String, bool)) -> ResultColumn {
    let ty = if *number {
        ColumnType::Int {
            bytes: 8,
            unsigned: false,
        }
    } else {
        ColumnType::Varchar {
            chars: 1024,
            collation: Collation::UTF8MB4_BIN,
        }
    };
    ResultColumn {
        name: name.clone(),
        org_name: String::new(),
        table: String::new(),
        schema: String::new(),
        ty: Some(ty),
        members: None,
        not_null: false,
        primary_key: false,
        unique_key: false,
        multiple_key: false,
    }
}

/// Truth of a condition over a row; `None` is unknown.
fn holds(expr: &Expr, columns: &[(String, bool)], row: &[Cell]) -> Result<Option<bool>> {
    Ok(match expr {
        Expr::Nested(inner) => holds(inner, columns, row)?,
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => holds(expr, columns, row)?.map(|v| !v),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => match (holds(left, columns, row)?, holds(right, columns, row)?) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Or,
            right,
        } => match (holds(left, columns, row)?, holds(right, columns, row)?) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::Eq | BinaryOperator::NotEq),
            right,
        } => {
            let (left, right) = (cell(left, columns, row)?, cell(right, columns, row)?);
            let equal = left.zip(right).map(|(l, r)| l.eq_ignore_ascii_case(&r));
            equal.map(|equal| equal == (*op == BinaryOperator::Eq))
        }
        Expr::Like {
            negated,
            expr,
            pattern,
            ..
        } => {
            let (text, pattern) = (cell(expr, columns, row)?, cell(pattern, columns, row)?);
            text.zip(pattern).map(|(text, pattern)| {
                let pattern = LikePattern::new(&pattern.to_lowercase(), '\\');
                pattern.matches(text.to_lowercase().as_bytes()) != *negated
            })
        }
        Expr::InList {
            expr,
            list,
            negated,
        } => {
            let Some(value) = cell(expr, columns, row)? else {
                return Ok(None);
            };
            let mut found = false;
            for item in list {
                let item = cell(item, columns, row)?;
                found |= item.is_some_and(|item| item.eq_ignore_ascii_case(&value));
            }
            Some(found != *negated)
        }
        Expr::IsNull(inner) => Some(cell(inner, columns, row)?.is_none()),
        Expr::IsNotNull(inner) => Some(cell(inner, columns, row)?.is_some()),
        other => return Err(SqlError::not_supported(format!("SHOW … WHERE {other}"))),
    })
}

fn cell(expr: &Expr, columns: &[(String, bool)], row: &[Cell]) -> Result<Cell> {
    match expr {
        Expr::Nested(inner) => cell(inner, columns, row),
        Expr::Identifier(ident) => {
            let at = columns
                .iter()
                .position(|(name, _)| name.eq_ignore_ascii_case(&ident.value));
            at.map(|at| row[at].clone())
                .ok_or_else(|| SqlError::unknown_column(&ident.value, "where clause"))
        }
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                Ok(Some(text.clone()))
            }
            Value::Number(text, _) => Ok(Some(text.clone())),
            Value::Null => Ok(None),
            other => Err(SqlError::not_supported(format!("SHOW … WHERE {other}"))),
        },
        other => Err(SqlError::not_supported(format!("SHOW … WHERE {other}"))),
    }
}
