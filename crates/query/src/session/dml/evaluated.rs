//! The assignments of an UPDATE, evaluated over the rows that its query delivers: one after the other, so that each
//! sees what was assigned before it.

use datafusion::arrow::array::RecordBatch;
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Scalar, to_datum};
use perigee_sql_bind::query::{Change, Origin};
use perigee_value::Datum;

use super::Converter;
use super::assign::{Assigned, Given};
use super::one_row::value;
use super::target::Target;
use crate::error::Result;
use crate::functions::library::{self, Running};

/// The assignments over the query's rows.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    assigned: Vec<Step>,
}

/// An assignment.
#[derive(Clone, Debug)]
struct Step {
    target: usize,
    column: usize,
    value: Assignment,
    /// The place of the column in the rows, if they have it.
    place: Option<usize>,
}

#[derive(Clone, Debug)]
enum Assignment {
    Default(Datum),
    Expression(Scalar),
}

impl Evaluated {
    /// The assignments over the rows of a change; their targets are among `targets`.
    pub(super) fn new(change: &Change, assigned: &[Assigned], targets: &[Target]) -> Self {
        let mut steps = Vec::with_capacity(assigned.len());
        for assigned in assigned {
            let origin = Origin {
                reference: targets[assigned.target].access,
                column: assigned.column,
            };
            let value = match &assigned.value {
                Given::Default(value) => Assignment::Default(value.clone()),
                Given::Item(item) => Assignment::Expression(change.values[*item].clone()),
            };
            steps.push(Step {
                target: assigned.target,
                column: assigned.column,
                value,
                place: change.place_of(origin),
            });
        }
        Self { assigned: steps }
    }

    /// The values of a batch of the query's rows.
    pub(super) fn over<'a>(
        &'a self,
        targets: &'a [Target],
        batch: &RecordBatch,
        cancel: &'a CancelToken,
    ) -> Result<EvaluatedBatch<'a>> {
        let columns = batch.columns().iter().map(library::Column::any);
        Ok(EvaluatedBatch {
            assigned: &self.assigned,
            targets,
            columns: columns.collect::<datafusion::common::Result<_>>()?,
            cancel,
        })
    }
}

/// Assignments over a batch.
pub(super) struct EvaluatedBatch<'a> {
    assigned: &'a [Step],
    targets: &'a [Target],
    columns: Vec<library::Column>,
    cancel: &'a CancelToken,
}

impl EvaluatedBatch<'_> {
    /// What a row of the batch assigns to columns of a target; `number` is its number in the
    /// statement, from 1.
    ///
    /// # Errors
    /// If an expression fails, or a value does not fit its column.
    pub(super) fn row(
        &self,
        target: usize,
        row: usize,
        number: u64,
        converter: &mut Converter,
    ) -> Result<Vec<(usize, Datum)>> {
        let running = Running::new(Some(self.cancel));
        let context = Context::new(&running);
        let mut row: Vec<Value<'_>> = self.columns.iter().map(|column| column.get(row)).collect();
        let mut values = Vec::new();
        for step in self.assigned {
            let is_own = step.target == target;
            if !is_own && step.place.is_none() {
                continue;
            }
            let def = &self.targets[step.target].table.def.columns[step.column];
            let datum = match &step.value {
                Assignment::Default(value) => value.clone(),
                Assignment::Expression(scalar) => {
                    let computed = scalar.evaluate(&row, &context)?.into_owned();
                    let (datum, from) = to_datum(computed, &scalar.ty);
                    match is_own {
                        true => converter.value(datum, from, def, number)?,
                        // The other table's row reports what does not fit.
                        false => {
                            let zone = converter.zone();
                            def.coerce(datum, from, zone).unwrap_or(Datum::Null)
                        }
                    }
                }
            };
            if let Some(place) = step.place {
                row[place] = value(&datum, def).into_owned();
            }
            if is_own {
                values.push((step.column, datum));
            }
        }
        Ok(values)
    }
}
