//! Lookups: all rows whose key begins with one of many given keys, for point and short range access
//! and for index nested-loop joins.

use std::sync::Arc;

use arrow_array::RecordBatch;
use perigee_ndp::{Backend, Descriptor, Execution, NdpError, Scanner};
use perigee_types::TrxId;

use super::LookupRequest;
use super::resolve::{clustered_key, is_visible};
use crate::EngineError;
use crate::btree::{KeySpan, Tree};
use crate::buffer::Access;
use crate::engine::Engine;

/// Keys between two looks at the cancel token.
const KEYS_PER_CHECK: usize = 256;

/// What a lookup found.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The rows, in the order of the keys.
    pub batch: RecordBatch,
    /// For each row, the index of its key in the request.
    pub key_of_row: Vec<u32>,
}

impl Engine {
    /// Reads all rows whose key begins with one of the request's keys.
    ///
    /// # Errors
    /// If an expression fails on a row, storage fails, or the lookup is cancelled.
    pub async fn lookup(self: &Arc<Self>, request: &LookupRequest) -> Result<Lookup, EngineError> {
        let table = &request.table;
        let clustered = table.clustered();
        let mut descriptor = Descriptor::new(
            self.db(),
            clustered.id,
            (*clustered.layout).clone(),
            TrxId(0),
        );
        descriptor.projection.clone_from(&request.projection);
        descriptor.predicate.clone_from(&request.predicate);
        let backend = if self.config.interpret {
            Backend::Interpreter
        } else {
            Backend::Jit
        };
        let scanner = Arc::new(Scanner::new(descriptor, backend)?);
        let mut execution = Execution::new(scanner.clone());
        let mut found = Found::default();
        for (number, key) in request.keys.iter().enumerate() {
            if number % KEYS_PER_CHECK == 0 && request.cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            for row in self.rows_with(request, key).await? {
                let number = number as u32; // a request has fewer than 2^32 keys
                match execution.record(number, &row) {
                    Err(NdpError::Full) => {
                        found.take(&scanner, &mut execution)?;
                        execution.record(number, &row)?;
                    }
                    done => drop(done?),
                }
            }
        }
        found.take(&scanner, &mut execution)?;
        found.into_lookup(&scanner)
    }

    /// The visible clustered records for a key prefix of the request's index.
    async fn rows_with(
        &self,
        request: &LookupRequest,
        key: &[u8],
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        let table = &request.table;
        let index = &table.indexes[request.index];
        let mut records = records_with(&self.tree(index), key).await?;
        if request.index > 0 {
            let clustered = self.tree(table.clustered());
            let mut rows = Vec::with_capacity(records.len());
            for entry in &records {
                rows.extend(clustered.get(&clustered_key(table, index, entry)?).await?);
            }
            records = rows;
        }
        records.retain(|row| is_visible(row, &request.view));
        Ok(records)
    }
}

/// All records of a tree whose key begins with a prefix.
async fn records_with(tree: &Tree, prefix: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut cursor = tree.range(KeySpan::prefix(prefix), false, Access::Point);
    let mut records = Vec::new();
    while let Some(run) = cursor.next().await? {
        let page = run.page.get();
        records.extend(run.slots.map(|slot| page.record(slot).to_vec()));
    }
    Ok(records)
}

/// Batches so far.
#[derive(Default)]
struct Found {
    batches: Vec<RecordBatch>,
    key_of_row: Vec<u32>,
}

impl Found {
    fn take(
        &mut self,
        scanner: &Arc<Scanner>,
        execution: &mut Execution,
    ) -> Result<(), EngineError> {
        let finished = scanner.finish(execution.take(), &[])?;
        for (key, rows) in finished.page_rows {
            self.key_of_row
                .extend(std::iter::repeat_n(key, rows as usize));
        }
        self.batches.push(finished.batch);
        Ok(())
    }

    fn into_lookup(self, scanner: &Scanner) -> Result<Lookup, EngineError> {
        let batch = match <[RecordBatch; 1]>::try_from(self.batches) {
            Ok([only]) => only,
            Err(batches) => {
                arrow_select::concat::concat_batches(&scanner.output_schema(), &batches)
                    .map_err(|e| EngineError::Evaluation(e.to_string()))?
            }
        };
        Ok(Lookup {
            batch,
            key_of_row: self.key_of_row,
        })
    }
}
