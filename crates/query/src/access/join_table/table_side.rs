//! [`TableSide`]: the rows of a join's small side become a table.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use perigee_engine::ndp::{JoinTableBuilder, TableRefused};
use perigee_value::{ColumnType, Datum};

use crate::access::join_key::{encode_value, value_at};

/// What a table is made of.
#[derive(Clone, Debug)]
pub(super) struct TableSide {
    /// The parts of the key, over the rows.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Types of the scan's columns that these are compared with.
    pub key_types: Vec<ColumnType>,
    /// Columns of the rows that joined records have,
    pub columns: Vec<usize>,
    /// and their types and nullability there.
    pub payload: Vec<(ColumnType, bool)>,
    /// Two rows may have the same key.
    pub dedups: bool,
    /// Most bytes of all rows.
    pub budget: usize,
}

impl TableSide {
    /// No rows; `None` if there are no such tables.
    pub fn builder(&self) -> Option<JoinTableBuilder> {
        let builder = JoinTableBuilder::new(&self.key_types, &self.payload, self.budget)?;
        Some(match self.dedups {
            true => builder.deduplicating(),
            false => builder,
        })
    }

    /// Adds rows, those excepted whose key no row of the scan can have.
    ///
    /// # Errors
    /// If a part of a key cannot be computed. Inside, why the rows become no table.
    pub fn add(
        &self,
        batch: &RecordBatch,
        builder: &mut JoinTableBuilder,
    ) -> DfResult<Result<(), TableRefused>> {
        let rows = batch.num_rows();
        let keys = self
            .keys
            .iter()
            .map(|key| key.evaluate(batch)?.into_array(rows))
            .collect::<DfResult<Vec<_>>>()?;
        let columns: Vec<_> = self.columns.iter().map(|c| batch.column(*c)).collect();
        let mut key = Vec::new();
        let mut held = vec![Datum::Null; columns.len()];
        for row in 0..rows {
            key.clear();
            let mut parts = keys.iter().zip(&self.key_types);
            let complete = parts.try_fold(true, |complete, (values, ty)| {
                let encoded = complete && encode_value((*ty, false), values, row, &mut key)?;
                Ok::<_, datafusion::error::DataFusionError>(encoded)
            })?;
            if !complete {
                continue;
            }
            let values = columns.iter().zip(&mut held);
            let values = values
                .map(|(values, held)| value_at(values, row, held))
                .collect::<DfResult<Vec<_>>>()?;
            if let Err(refused) = builder.push(&key, values.into_iter()) {
                return Ok(Err(refused));
            }
        }
        Ok(Ok(()))
    }
}
