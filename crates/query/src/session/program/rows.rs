//! [`Rows`]: the rows of a query, kept for a program.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Field;
use perigee_value::{ColumnType, Datum};

use crate::error::{Result, SqlError};
use crate::memory::{Charge, ProcessMemory};
use crate::result::{OkResult, ResultColumn, ResultSink};
use crate::values::{Column, size};

/// A row: values with their types.
pub(super) type Row = Vec<(Datum, ColumnType)>;

/// What a row takes besides its values, in bytes.
const ROW: usize = 64;

/// Keeps rows as long as a program needs them.
pub(super) struct Rows {
    columns: Arc<[ResultColumn]>,
    rows: Vec<Row>,
    /// More rows are error 1172.
    most: usize,
    charge: Charge,
    bytes: usize,
}

impl Rows {
    /// No rows yet, of which there may be so many.
    ///
    /// # Errors
    /// 1038.
    pub fn new(most: usize, memory: &Arc<ProcessMemory>) -> Result<Self> {
        Ok(Self {
            columns: Arc::default(),
            rows: Vec::new(),
            most,
            charge: memory.charge(0)?,
            bytes: 0,
        })
    }

    /// How many columns they have.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The row with a number.
    pub fn row(&self, number: usize) -> Option<Row> {
        self.rows.get(number).cloned()
    }

    /// The first row.
    pub fn into_first(self) -> Option<Row> {
        self.rows.into_iter().next()
    }
}

/// The type of a column's values as they are delivered: times of a TIMESTAMP are those of the time zone, texts have the
/// collation of the column.
fn delivered(column: &ResultColumn, own: ColumnType) -> ColumnType {
    let of_members = column.members.as_ref().map(|members| members.collation());
    let string = column.ty.filter(|ty| *ty != ColumnType::Json);
    let of_string = string.and_then(ColumnType::collation);
    if let Some(collation) = of_members.or(of_string) {
        let chars = u16::MAX;
        return ColumnType::Varchar { chars, collation };
    }
    match column.ty {
        Some(ColumnType::Timestamp { fsp } | ColumnType::DateTime { fsp }) => {
            ColumnType::DateTime { fsp }
        }
        Some(ty @ ColumnType::Time { .. }) => ty,
        _ => own,
    }
}

#[async_trait]
impl ResultSink for Rows {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.columns = columns.into();
        Ok(())
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.rows.len() + batch.num_rows() > self.most {
            return Err(SqlError::several_rows());
        }
        let mut arrays = Vec::with_capacity(batch.num_columns());
        for (array, described) in batch.columns().iter().zip(&*self.columns) {
            let field = Field::new("", array.data_type().clone(), true);
            let column = Column::new(array, &field)?;
            let ty = delivered(described, column.ty());
            arrays.push((column, ty));
        }
        for number in 0..batch.num_rows() {
            let value = |(column, ty): &(Column, ColumnType)| (column.datum(number), *ty);
            let row: Row = arrays.iter().map(value).collect();
            self.bytes += ROW + row.iter().map(|(value, _)| size(value)).sum::<usize>();
            self.rows.push(row);
        }
        self.charge.resize(self.bytes)
    }

    async fn finish(&mut self, _: u16) -> Result<()> {
        Ok(())
    }

    async fn ok(&mut self, _: OkResult) -> Result<()> {
        Ok(())
    }
}
