//! Expressions over the user variables of a statement, which depend on the order of its rows: they are evaluated row by
//! row, in the order in which the rows come, and within a row from the left to the right.
//!
//! A statement with such expressions has one partition.

mod exec;
mod node;
mod planner;

pub use node::InTurnNode;
pub use planner::InTurn;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Scalar, value_type};

use crate::error::SqlError;
use crate::functions::library::{self, Column, Running};
use crate::functions::results::Results;
use crate::functions::scalar::field_of;
use crate::interrupt;

/// What is computed for each row.
#[derive(Debug)]
pub struct Work {
    /// Rows for which it is not true are left out, and nothing else is computed for them.
    condition: Option<Scalar>,
    expressions: Vec<Scalar>,
    /// The columns that the expressions name, in order.
    places: Vec<usize>,
    /// Stops the statement; plans run on threads that do not know it.
    cancel: Option<CancelToken>,
}

impl Work {
    /// Expressions over the columns of a row, for the rows for which the condition is true.
    #[must_use]
    pub fn new(condition: Option<Scalar>, expressions: Vec<Scalar>) -> Self {
        let all = condition.iter().chain(&expressions);
        let mut places: Vec<usize> = all.flat_map(Scalar::places).collect();
        places.sort_unstable();
        places.dedup();
        Self {
            condition,
            expressions,
            places,
            cancel: interrupt::token(),
        }
    }

    /// The columns that the expressions name, in order.
    #[must_use]
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// The fields of the expressions.
    #[must_use]
    pub fn fields(&self) -> Vec<FieldRef> {
        let fields = self.expressions.iter().enumerate();
        fields
            .map(|(number, one)| Arc::new(field_of(one).with_name(format!("value{number}"))))
            .collect()
    }

    /// The rows of a batch that are left, with the values of the expressions behind their columns. `arguments` are the
    /// columns that the expressions name.
    fn rows(
        &self,
        batch: &RecordBatch,
        arguments: &[Arc<dyn PhysicalExpr>],
        schema: &SchemaRef,
    ) -> DfResult<RecordBatch> {
        interrupt::check_df()?;
        let rows = batch.num_rows();
        let columns = arguments.iter().map(|argument| {
            let array = argument.evaluate(batch)?.into_array(rows)?;
            Column::any(&array)
        });
        let columns = columns.collect::<DfResult<Vec<_>>>()?;
        let (kept, values) = self.values(&columns, rows)?;
        let batch = match &self.condition {
            Some(_) => filter_record_batch(batch, &BooleanArray::from(kept))?,
            None => batch.clone(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().iter().cloned().chain(values).collect();
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }

    /// Which rows are left, and the values for them.
    fn values(&self, columns: &[Column], rows: usize) -> DfResult<(Vec<bool>, Vec<ArrayRef>)> {
        let failed = |failure| SqlError::from(failure).into_df();
        let computed = |one: &Scalar| library::data_type(value_type(&one.ty));
        let results = self.expressions.iter();
        let results = results.map(|one| Results::new(&computed(one), rows, false));
        let mut results = results.collect::<DfResult<Vec<_>>>()?;
        let running = Running::new(self.cancel.as_ref());
        let context = Context::new(&running);
        let width = self.places.last().map_or(0, |last| last + 1);
        let mut kept = Vec::with_capacity(rows);
        for number in 0..rows {
            let mut row = vec![Value::Null; width];
            for (place, column) in self.places.iter().zip(columns) {
                row[*place] = column.get(number);
            }
            let is_kept = match &self.condition {
                Some(condition) => condition.is_true(&row, &context).map_err(failed)? == Some(true),
                None => true,
            };
            kept.push(is_kept);
            if !is_kept {
                continue;
            }
            for (expression, values) in self.expressions.iter().zip(&mut results) {
                values.push(expression.evaluate(&row, &context).map_err(failed)?)?;
            }
        }
        let arrays = results.into_iter().zip(&self.expressions);
        let arrays = arrays.map(|(values, one)| {
            let (array, field) = (values.finish()?, field_of(one));
            match array.data_type() == field.data_type() {
                true => Ok(array),
                false => Ok(cast(&array, field.data_type())?),
            }
        });
        Ok((kept, arrays.collect::<DfResult<_>>()?))
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, expression) in self.expressions.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{expression}")?;
        }
        match &self.condition {
            Some(condition) => write!(f, " if {condition}"),
            None => Ok(()),
        }
    }
}
