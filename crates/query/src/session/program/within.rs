//! [`Within`] and [`NoResults`]: where the results of a program's statements go.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;

use crate::error::{Result, SqlError};
use crate::result::{OkResult, ResultColumn, ResultSink};

/// Hands result sets on; a statement without one has no answer of its own.
pub(super) struct Within<'a> {
    pub out: &'a mut dyn ResultSink,
    /// The outcome of the statement.
    pub ok: Option<OkResult>,
}

#[async_trait]
impl ResultSink for Within<'_> {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.out.columns(columns).await
    }

    async fn shared_columns(&mut self, columns: &Arc<[ResultColumn]>) -> Result<()> {
        self.out.shared_columns(columns).await
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        self.out.rows(batch).await
    }

    async fn finish(&mut self, warnings: u16) -> Result<()> {
        self.out.finish(warnings).await
    }

    async fn ok(&mut self, ok: OkResult) -> Result<()> {
        self.ok = Some(ok);
        Ok(())
    }
}

/// Refuses result sets: what it is for has none.
pub(super) struct NoResults(pub &'static str);

#[async_trait]
impl ResultSink for NoResults {
    async fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Err(SqlError::result_set_in(self.0))
    }

    async fn rows(&mut self, _: &RecordBatch) -> Result<()> {
        Err(SqlError::result_set_in(self.0))
    }

    async fn finish(&mut self, _: u16) -> Result<()> {
        Ok(())
    }

    async fn ok(&mut self, _: OkResult) -> Result<()> {
        Ok(())
    }
}
