//! [`Engine::few_values`]: which values a column has in the few rows of a small table for which a condition is true.
//!
//! Statistics say how frequent a value of a foreign key is, but not which key the row of a table has that is looked
//! for by its name: a join may find a few rows there or a tenth of the other table. All leaves of the table are
//! looked at, so it has to be small.
//!
//! What is found are the newest versions, committed or not, as samples count them. A row over which the condition
//! fails does not match. What takes too long, or fails, is not known, which is no reason for a statement to fail.

use std::sync::Arc;

use perigee_ndp::{Backend, Descriptor, Execution, Scanner};
use perigee_page::{PageRef, RecordHeader};
use perigee_types::TrxId;
use perigee_value::{Datum, RecordView};

use crate::EngineError;
use crate::btree::{BatchRequest, KeySpan, LeafState};
use crate::engine::Engine;
use crate::sample::{SampleHow, SampleOf};

/// The values, in the order of the table's keys; `None` if there are more of them than were wanted.
pub type FewValues = Option<Arc<[Datum]>>;

/// Which values are asked for.
#[derive(Clone, Debug)]
pub struct FewValuesOf {
    /// The rows, of the clustered index.
    pub rows: SampleOf,
    /// Place of the column in the index's layout.
    pub place: u16,
    /// Most rows, beyond which nothing is said.
    pub most: usize,
}

impl FewValuesOf {
    /// What was found since the statistics of the table were gathered; `None` if nobody asked.
    #[must_use]
    pub fn known(&self) -> Option<FewValues> {
        self.rows.table.few_values(&self.key())
    }

    /// What tells it from others of the same table.
    fn key(&self) -> Vec<u8> {
        let mut key = self.rows.key();
        key.extend(self.place.to_le_bytes());
        key.extend(self.most.to_le_bytes());
        key
    }
}

impl Engine {
    /// Finds the values and keeps them with the table's statistics, unless the table has more leaves than may be
    /// looked at or it takes too long. True if it is known now which they are.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`]; nothing else is a reason to fail.
    pub async fn few_values(&self, of: &FewValuesOf, how: &SampleHow) -> Result<bool, EngineError> {
        let finding = tokio::time::timeout(how.time, self.find_few_values(of, how.pages));
        let found = tokio::select! {
            found = finding => found,
            () = how.cancel.cancelled() => return Err(EngineError::Cancelled),
        };
        match found {
            Ok(Ok(values)) => {
                let is_known = values.is_some();
                of.rows.table.keep_few_values(&of.key(), values);
                Ok(is_known)
            }
            Ok(Err(error)) => {
                tracing::debug!("values of few rows are not found: {error}");
                Ok(false)
            }
            Err(_) => Ok(false),
        }
    }

    async fn find_few_values(
        &self,
        of: &FewValuesOf,
        most_pages: usize,
    ) -> Result<FewValues, EngineError> {
        let mut finder = Finder::new(self, of)?;
        let tree = self.tree(&of.rows.table.indexes[0]);
        let mut pages = 0;
        let mut rest = Some(of.rows.span.clone());
        while let Some(span) = rest {
            let request = BatchRequest {
                range: &span,
                span: &span,
                reverse: false,
                max_pages: most_pages + 1,
                load: true,
            };
            let last_lsn = || (tree.pool().sal().last_lsn(), ());
            let batch = tree.leaf_batch(request, last_lsn).await?;
            pages += batch.leaves.len();
            if pages > most_pages {
                return Ok(None);
            }
            for leaf in batch.leaves {
                let page = match leaf.state {
                    LeafState::Resident(page) => page,
                    LeafState::Loading(load) => load.land().await?,
                    LeafState::Stored => unreachable!("the batch has its leaves loaded"),
                };
                if !finder.look_at(page.get(), &span) {
                    return Ok(None);
                }
            }
            rest = batch.rest;
        }
        Ok(Some(finder.found.into()))
    }
}

struct Finder<'a> {
    of: &'a FewValuesOf,
    execution: Execution,
    found: Vec<Datum>,
}

impl<'a> Finder<'a> {
    fn new(engine: &Engine, of: &'a FewValuesOf) -> Result<Self, EngineError> {
        let index = of.rows.table.clustered();
        let layout = (*index.layout).clone();
        let mut descriptor = Descriptor::new(engine.db(), index.id, layout, TrxId::MAX);
        descriptor.predicate = Some(of.rows.predicate.clone());
        let scanner = Scanner::new(descriptor, Backend::Interpreter)?;
        Ok(Self {
            of,
            execution: Execution::new(Arc::new(scanner)),
            found: Vec::new(),
        })
    }

    /// Takes in the rows of a leaf; false if there are too many.
    fn look_at(&mut self, page: PageRef<'_>, span: &KeySpan) -> bool {
        let layout = &self.of.rows.table.clustered().layout;
        for slot in span.slots(page) {
            let record = page.record(slot);
            if RecordHeader::read(record).flags.is_deleted() {
                continue;
            }
            if !matches!(self.execution.record(0, record), Ok(true)) {
                continue;
            }
            if self.found.len() == self.of.most {
                return false;
            }
            if let Ok(value) = RecordView::new(layout, record).get(usize::from(self.of.place)) {
                self.found.push(value);
            }
        }
        self.execution.take();
        true
    }
}
