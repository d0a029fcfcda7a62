//! [`Engine::sample`]: which share of the rows of a key range a condition lets through, and which share of its
//! pages has one, from some leaf pages all over the range. No statistics are needed.
//!
//! Page Stores look at the pages, as for a scan: a descriptor that wants no columns gives the number of rows of
//! each page that pass, one without the condition how many there are. Pages in the buffer pool, and those that a
//! store declines, are looked at here. What takes too long, or fails, is left out of the sample: it is an estimate
//! and no reason for a statement to fail.
//!
//! What is counted are the newest versions, committed or not, as statistics count them. A row over which the
//! condition fails does not match.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use perigee_expr::Program;
use perigee_ndp::{Backend, Descriptor, Execution, NdpBatch, Scanner};
use perigee_page::PageRef;
use perigee_page_api::NdpItem;
use perigee_sal::NdpWork;
use perigee_types::{Lsn, PAGE_SIZE, PageId, TrxId, Writer};

use crate::EngineError;
use crate::btree::KeySpan;
use crate::catalog::{Sample, Table};
use crate::engine::Engine;
use crate::scan::{CancelToken, add};

/// What a sample is to tell of.
#[derive(Clone, Debug)]
pub struct SampleOf {
    /// The table.
    pub table: Arc<Table>,
    /// Index number in [`Table::indexes`].
    pub index: usize,
    /// The keys whose rows are counted.
    pub span: KeySpan,
    /// The condition; its columns are those of the index layout.
    pub predicate: Program,
}

/// How a sample is taken.
#[derive(Clone, Debug)]
pub struct SampleHow {
    /// Most leaf pages.
    pub pages: usize,
    /// Let the Page Stores look at the pages; otherwise they are read whole.
    pub ndp: bool,
    /// What is not known by then is left out.
    pub time: Duration,
    /// Stops the statement.
    pub cancel: CancelToken,
}

impl SampleOf {
    /// What a sample said of it since the statistics of the table were gathered.
    #[must_use]
    pub fn known(&self) -> Option<Sample> {
        self.table.sampled(&self.key())
    }

    /// What tells it from others of the same table.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u16(self.index as u16).bytes(&self.span.lower);
        w.u8(u8::from(self.span.upper.is_some()));
        w.bytes(self.span.upper.as_deref().unwrap_or_default());
        self.predicate.encode(&mut w);
        w.into_bytes()
    }
}

impl Engine {
    /// Takes a sample and keeps what it says with the table's statistics. `None` if nothing could be looked at in
    /// time.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`]; nothing else is a reason to fail.
    pub async fn sample(
        &self,
        of: &SampleOf,
        how: &SampleHow,
    ) -> Result<Option<Sample>, EngineError> {
        let mut pages = Vec::new();
        let sampler = match Sampler::new(self, of, how) {
            Ok(sampler) => sampler,
            Err(error) => return Ok(not_taken(&error)),
        };
        let taken = tokio::select! {
            taken = tokio::time::timeout(how.time, sampler.take(&mut pages)) => taken,
            () = how.cancel.cancelled() => return Err(EngineError::Cancelled),
        };
        if let Ok(Err(error)) = taken {
            not_taken(&error);
        }
        let sample = summary(&pages);
        if sample.pages == 0 {
            return Ok(None);
        }
        self.counters.count_sample(&sample);
        of.table.keep_sample(&of.key(), sample);
        Ok(Some(sample))
    }
}

fn not_taken(error: &EngineError) -> Option<Sample> {
    tracing::debug!("a sample is not taken: {error}");
    None
}

/// A page of the sample, as far as it is known.
#[derive(Clone, Copy, Default)]
struct Looked {
    rows: Option<u32>,
    matching: Option<u32>,
}

/// What is known of both counts.
fn summary(pages: &[Looked]) -> Sample {
    let known = pages.iter().filter_map(|page| page.rows.zip(page.matching));
    known.fold(Sample::default(), |sum, (rows, matching)| Sample {
        pages: sum.pages + 1,
        matching_pages: sum.matching_pages + u64::from(matching > 0),
        rows: sum.rows + u64::from(rows),
        matching_rows: sum.matching_rows + u64::from(matching),
    })
}

struct Sampler<'a> {
    engine: &'a Engine,
    of: &'a SampleOf,
    how: &'a SampleHow,
    /// Counts the rows for which the condition is true.
    matching: Counter,
    /// Counts all rows.
    all: Counter,
}

/// A descriptor that counts rows.
struct Counter {
    encoded: Bytes,
    scanner: Arc<Scanner>,
}

impl Counter {
    fn new(
        engine: &Engine,
        of: &SampleOf,
        predicate: Option<Program>,
    ) -> Result<Self, EngineError> {
        let index = &of.table.indexes[of.index];
        let layout = (*index.layout).clone();
        // Every version is taken for visible, so that no page comes back for want of a decision.
        let mut descriptor = Descriptor::new(engine.db(), index.id, layout, TrxId::MAX);
        descriptor.range = of.span.range();
        descriptor.predicate = predicate;
        let encoded = descriptor.encode();
        // Few pages are looked at here.
        let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter)?);
        Ok(Self { encoded, scanner })
    }

    /// Rows of a page that it counts; `None` if it is not one of the index.
    fn count(&self, page: PageRef<'_>) -> Option<u32> {
        let mut execution = Execution::new(self.scanner.clone());
        execution.page(0, page).ok()?;
        Some(execution.take().pages.first()?.rows)
    }
}

impl<'a> Sampler<'a> {
    fn new(engine: &'a Engine, of: &'a SampleOf, how: &'a SampleHow) -> Result<Self, EngineError> {
        Ok(Self {
            engine,
            of,
            how,
            matching: Counter::new(engine, of, Some(of.predicate.clone()))?,
            all: Counter::new(engine, of, None)?,
        })
    }

    /// Looks at the pages; `pages` says what is known whenever this ends.
    async fn take(&self, pages: &mut Vec<Looked>) -> Result<(), EngineError> {
        let engine = self.engine;
        let tree = engine.tree(&self.of.table.indexes[self.of.index]);
        let pin = || {
            let pin = engine.registry.pin(|| engine.sal.last_lsn());
            (pin.lsn(), pin)
        };
        let chosen = tree.leaves_of(&self.of.span, self.how.pages, pin).await?;
        pages.resize(chosen.leaves.len(), Looked::default());
        let past_pool = engine.config.past_pool;
        if past_pool {
            engine.sal.wait_page_persistent(chosen.lsn).await?;
        }
        let mut stored = Vec::new();
        for (at, (id, page)) in chosen.leaves.into_iter().enumerate() {
            match page.filter(|_| !past_pool) {
                Some(page) => pages[at] = self.look(page.get()),
                None => stored.push((at, id)),
            }
        }
        match self.how.ndp {
            true => self.ask(chosen.lsn, &stored, pages).await,
            false => self.read(chosen.lsn, &stored, pages).await,
        }
    }

    /// Looks at a page here.
    fn look(&self, page: PageRef<'_>) -> Looked {
        Looked {
            rows: self.all.count(page),
            matching: self.matching.count(page),
        }
    }

    /// Reads pages whole.
    async fn read(
        &self,
        lsn: Lsn,
        stored: &[(usize, PageId)],
        pages: &mut [Looked],
    ) -> Result<(), EngineError> {
        let ids: Vec<_> = stored.iter().map(|(_, id)| *id).collect();
        let read = self.engine.sal.read_pages(&ids, lsn).await?;
        for ((at, id), bytes) in stored.iter().zip(read) {
            pages[*at] = self.look_at_bytes(*id, &bytes);
        }
        Ok(())
    }

    /// Looks at a page as it came from storage, if it is whole and the right one.
    fn look_at_bytes(&self, id: PageId, bytes: &[u8]) -> Looked {
        let shipped = &self.engine.counters.bytes_shipped;
        add(shipped, PAGE_SIZE as u64);
        let page = PageRef::new(bytes).ok();
        let page = page.filter(|page| page.id() == id && page.verify_checksum().is_ok());
        page.map_or_else(Looked::default, |page| self.look(page))
    }

    /// Has Page Stores count: first the rows that match, then, of the pages that did not come whole, all.
    async fn ask(
        &self,
        lsn: Lsn,
        stored: &[(usize, PageId)],
        pages: &mut [Looked],
    ) -> Result<(), EngineError> {
        self.ask_for(&self.matching, lsn, stored, pages, |page| {
            &mut page.matching
        })
        .await?;
        let half_known =
            |(at, _): &&(usize, PageId)| pages[*at].matching.is_some() && pages[*at].rows.is_none();
        let rest: Vec<_> = stored.iter().filter(half_known).copied().collect();
        self.ask_for(&self.all, lsn, &rest, pages, |page| &mut page.rows)
            .await
    }

    async fn ask_for(
        &self,
        counter: &Counter,
        lsn: Lsn,
        stored: &[(usize, PageId)],
        pages: &mut [Looked],
        of: fn(&mut Looked) -> &mut Option<u32>,
    ) -> Result<(), EngineError> {
        if stored.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = stored.iter().map(|(_, id)| *id).collect();
        let work = NdpWork {
            descriptor: counter.encoded.clone(),
            ..NdpWork::default()
        };
        let mut replies = self.engine.sal.ndp_read(&ids, lsn, &work)?;
        while let Some(part) = replies.next().await {
            let Ok(reply) = part.reply else { continue };
            self.engine.counters.used(&reply);
            for item in reply.items {
                let place = |index: u32| {
                    let place = part.pages.get(index as usize)?;
                    stored.get(*place as usize).copied()
                };
                match item {
                    NdpItem::Reduced(bytes) => {
                        add(&self.engine.counters.bytes_shipped, bytes.len() as u64);
                        for (at, rows) in runs(counter, bytes, place) {
                            *of(&mut pages[at]) = Some(rows);
                        }
                    }
                    NdpItem::Declined { index, page, .. } => {
                        if let Some((at, id)) = place(index) {
                            pages[at] = self.look_at_bytes(id, &page);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a result says of each page; nothing if it is damaged or for something else.
fn runs(
    counter: &Counter,
    bytes: Bytes,
    place: impl Fn(u32) -> Option<(usize, PageId)>,
) -> Vec<(usize, u32)> {
    let batch = NdpBatch::decode(bytes).ok();
    let batch = batch.filter(|batch| batch.descriptor == counter.scanner.descriptor().hash());
    let runs = batch.into_iter().flat_map(|batch| batch.pages);
    runs.filter_map(|run| Some((place(run.index)?.0, run.rows)))
        .collect()
}
