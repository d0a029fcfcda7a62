//! [`Target`]: the place of a scan's filter, and the keys that the filter is made of.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use perigee_engine::ndp::KeySet;
use perigee_engine::scan::ScanFilter;
use perigee_value::ColumnType;

use crate::access::join_key::{ScanColumn, encode_value};

/// A scan's filter and the keys that it is made of.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The parts of the key, over the rows that are watched.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Types of the scan's columns.
    types: Vec<ColumnType>,
    /// Places of the scan's columns in its records.
    places: Vec<u16>,
    filter: Arc<ScanFilter>,
}

impl Target {
    /// A filter of a scan on these columns, each for a part of the key; `None` if storage cannot compare one.
    pub fn new(keys: Vec<Arc<dyn PhysicalExpr>>, columns: &[ScanColumn]) -> Option<Self> {
        let types: Vec<_> = columns.iter().map(|column| column.ty).collect();
        KeySet::new(&types)?;
        Some(Self {
            keys,
            types,
            places: columns.iter().map(|column| column.place).collect(),
            filter: Arc::new(ScanFilter::default()),
        })
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.keys.iter()
    }

    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    pub fn places(&self) -> &[u16] {
        &self.places
    }

    pub fn filter(&self) -> &Arc<ScanFilter> {
        &self.filter
    }

    /// Calls `take` with the encoded key of each row, those with a NULL excepted, and those that no row of the
    /// scan can have.
    ///
    /// # Errors
    /// If a part cannot be computed.
    pub fn each_key(&self, batch: &RecordBatch, mut take: impl FnMut(&[u8])) -> DfResult<()> {
        let rows = batch.num_rows();
        let values = self
            .keys
            .iter()
            .map(|key| key.evaluate(batch)?.into_array(rows))
            .collect::<DfResult<Vec<_>>>()?;
        let mut key = Vec::new();
        for row in 0..rows {
            key.clear();
            let mut parts = values.iter().zip(&self.types);
            let complete = parts.try_fold(true, |complete, (values, ty)| {
                let encoded = complete && encode_value((*ty, false), values, row, &mut key)?;
                Ok::<_, datafusion::error::DataFusionError>(encoded)
            })?;
            if complete {
                take(&key);
            }
        }
        Ok(())
    }
}
