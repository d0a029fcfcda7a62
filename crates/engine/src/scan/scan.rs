//! [`ScanHandle`]: a scan that has been planned, and its partitions.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use perigee_ndp::{Aggregate, Backend, Descriptor, Execution, NdpBatch, NdpError, Scanner};
use perigee_types::TrxId;
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

use super::ScanRequest;
use super::adapt::{Outlook, Side};
use super::ahead::Ahead;
use super::counters::{ScanCounters, add};
use super::cpu::Timed;
use super::filter::{Incoming, Taken};
use super::held::{Held, Holding, bytes_of};
use super::long::LongColumns;
use super::resolve::resolve;
use super::source::{self, Part, Parts, read_one, read_parts};
use crate::EngineError;
use crate::btree::{KeySpan, Tree};
use crate::buffer::Page;
use crate::engine::Engine;
use crate::prices::ScanShape;

/// Rows of a batch that is made in the frontend.
const ROWS_PER_BATCH: usize = 8192;

/// Bytes of a batch that is made in the frontend, of an aggregation: what left its groups for want of memory.
const BYTES_PER_BATCH: usize = 4 << 20;

/// Parts of the range for each worker, so that one that meets more work than the others takes fewer.
const PARTS_PER_WORKER: usize = 8;

/// A near-data scan looks ahead this part of the buffer pool at most: what it holds is the pool's memory.
const NDP_POOL_SHARE: usize = 8;

/// Parts that may wait between the two halves of a partition. A part is at most a read of
/// [`super::source`] or a message of a Page Store, so a scan's memory is bounded.
const PARTS_WAITING: usize = 8;

/// What all partitions of a scan share.
pub(super) struct Shared {
    pub engine: Arc<Engine>,
    pub request: ScanRequest,
    pub tree: Tree,
    pub scanner: Arc<Scanner>,
    long: Option<LongColumns>,
    pub descriptor: Bytes,
    incoming: Incoming,
    pub look_ahead: usize,
    /// Parts of the range that no worker has begun.
    parts: OnceCell<Mutex<Ahead>>,
    pub counters: Arc<ScanCounters>,
    /// Pages and results between their arrival and their delivery.
    pub held: Arc<Held>,
    delivered: AtomicU64,
    /// Where the next batch is worked on.
    pub side: Side,
}

impl Shared {
    /// The next part of the range that a worker scans by itself. Parts are many times as many as
    /// workers, so that they end at about the same time.
    pub async fn next_part(&self) -> Result<Option<KeySpan>, EngineError> {
        let cut = || async { Ok::<_, EngineError>(Mutex::new(Ahead::new(self.cut().await?))) };
        let parts = self.parts.get_or_try_init(cut).await?;
        // Storage that reduces pages is asked for them. Others are better brought in together, where
        // parts may be short.
        let together = !self.is_pushed() && self.request.spans.len() > 1;
        let (part, soon) = {
            let mut parts = parts.lock();
            let soon = match together {
                true => parts.soon(),
                false => Vec::new(),
            };
            (parts.next(), soon)
        };
        if soon.len() > 1 {
            self.tree.prefetch(&soon).await?;
        }
        Ok(part)
    }

    async fn cut(&self) -> Result<Vec<KeySpan>, EngineError> {
        let spans = &self.request.spans;
        let most = self.request.workers * PARTS_PER_WORKER;
        // What is ordered or may end early begins at the beginning.
        if self.request.ordered || self.may_end_early() || spans.len() >= most {
            let mut spans = spans.to_vec();
            if self.request.reverse {
                spans.reverse();
            }
            return Ok(spans);
        }
        let mut parts = Vec::new();
        for span in spans.iter() {
            parts.extend(self.tree.partition(span, most / spans.len()).await?);
        }
        Ok(parts)
    }

    /// The filters that have come by now.
    pub fn filters(&self) -> Arc<Taken> {
        self.incoming.take(&self.scanner.descriptor().layout)
    }

    /// Counts rows that filters left out.
    pub fn count_dropped(&self, filters: &Taken, dropped: &[u64]) {
        filters.count(dropped);
        add(&self.counters.rows_filtered, dropped.iter().sum());
    }

    /// What all that is scanned lies in.
    pub fn hull(&self) -> KeySpan {
        self.request.spans.hull()
    }

    /// What its costs depend on.
    fn shape(&self) -> ScanShape {
        let ScanRequest {
            table,
            index,
            predicate,
            aggregate,
            ..
        } = &self.request;
        let stats = table.stats();
        let pages = stats.leaf_pages.get(*index).copied().unwrap_or_default();
        let of_aggregate = aggregate.iter().flat_map(Aggregate::programs);
        let programs = predicate.iter().chain(of_aggregate);
        ScanShape {
            records_per_page: stats.rows as f64 / (pages as f64).max(1.0),
            nodes: programs.map(|program| program.nodes.len()).sum::<usize>() as f64,
        }
    }

    /// True if storage is asked to reduce the next batch.
    pub fn is_pushed(&self) -> bool {
        self.side.is_pushed(&self.counters, || Outlook {
            prices: self.engine.prices(),
            shape: self.shape(),
            width: self.width(),
        })
    }

    /// Bytes of a row that is delivered, about.
    fn width(&self) -> f64 {
        let ScanRequest {
            table,
            index,
            projection,
            ..
        } = &self.request;
        let (stats, columns) = (table.stats(), &table.indexes[*index].columns);
        if self.request.join.is_some() {
            return 8.0 * projection.len() as f64;
        }
        let width = |place: &u16| {
            let column = usize::from(columns[usize::from(*place)]);
            let stats = stats.columns.get(column);
            stats.map_or(8.0, |stats| f64::from(stats.average_width))
        };
        projection.iter().map(width).sum()
    }

    /// Who wants few rows may need few pages.
    pub fn may_end_early(&self) -> bool {
        self.request.limit.is_some() && self.request.aggregate.is_none()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.engine.counters.absorb(&self.counters);
        if self.engine.config.measure_costs {
            self.engine.learned.learn(self.shape(), &self.counters);
        }
    }
}

/// A scan. Its partitions share the work and may run at the same time.
#[derive(Clone)]
pub struct ScanHandle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for ScanHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let request = &self.shared.request;
        write!(
            f,
            "scan of {} by index {}",
            request.table.def.name, request.index
        )
    }
}

impl ScanHandle {
    pub(crate) fn new(engine: Arc<Engine>, request: ScanRequest) -> Result<Self, EngineError> {
        request.table.check_view(&request.view)?;
        let index = &request.table.indexes[request.index];
        let tree = engine.tree(index);
        let watermark = if engine.config.all_ambiguous {
            TrxId(0)
        } else {
            request.view.watermark()
        };
        let mut descriptor =
            Descriptor::new(engine.db(), index.id, (*index.layout).clone(), watermark);
        descriptor.range = request.spans.hull().range();
        descriptor.reverse = request.reverse;
        descriptor.projection.clone_from(&request.projection);
        descriptor.predicate.clone_from(&request.predicate);
        descriptor.join = request.join.as_ref().map(|join| join.join.clone());
        descriptor.aggregate.clone_from(&request.aggregate);
        descriptor.grouping = request.grouping;
        let ScanRequest { ndp, limit, .. } = request;
        let adapts = request.adapts && limit.is_none() && (ndp || request.aggregate.is_none());
        let may_push = ndp || adapts;
        let encoded = if may_push {
            descriptor.encode()
        } else {
            Bytes::new()
        };
        let backend = if engine.config.interpret {
            Backend::Interpreter
        } else {
            Backend::Jit
        };
        let scanner = Arc::new(Scanner::new(descriptor, backend)?);
        let stored = scanner.output_schema();
        let long = match (&request.aggregate, &request.join) {
            (None, None) => LongColumns::of(&index.layout, &request.projection, &stored),
            // Neither has long columns.
            (Some(_), _) | (_, Some(_)) => None,
        };
        let mut look_ahead = request.look_ahead.unwrap_or(engine.config.look_ahead);
        if may_push {
            look_ahead = look_ahead.min(engine.pool.capacity() / NDP_POOL_SHARE);
        }
        let look_ahead = look_ahead.max(1);
        let held = Held::new(may_push.then(|| engine.pool.clone()));
        let shared = Shared {
            look_ahead,
            incoming: Incoming::new(request.filters.clone(), request.join.clone()),
            engine,
            request,
            tree,
            scanner,
            long,
            descriptor: encoded,
            parts: OnceCell::new(),
            counters: Arc::default(),
            held,
            delivered: AtomicU64::new(0),
            side: Side::new(ndp, adapts),
        };
        add(&shared.counters.scans, u64::from(shared.request.ndp));
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        match &self.shared.long {
            Some(long) => long.schema().clone(),
            None => self.shared.scanner.output_schema(),
        }
    }

    /// What the scan did so far.
    #[must_use]
    pub fn counters(&self) -> Arc<ScanCounters> {
        self.shared.counters.clone()
    }

    /// The most bytes of pages and results that the scan held at a time, from their arrival to
    /// their delivery.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.shared.held.peak()
    }

    /// True if predicate and expressions run as machine code in this process (and in a Page Store,
    /// which says so in its usage).
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.shared.scanner.is_compiled()
    }

    /// A worker's share of the scan's rows. Call it once for each worker, or once if the scan is
    /// ordered. Dropping the stream stops its share, in storage too.
    #[must_use]
    pub fn partition(&self) -> BoxStream<'static, Result<RecordBatch, EngineError>> {
        let shared = self.shared.clone();
        if shared.request.ordered && shared.request.workers > 1 && !shared.may_end_early() {
            return in_sequence(shared);
        }
        let reader = |parts| read_parts(shared.clone(), parts);
        Partition::start(shared.clone(), reader).into_stream()
    }
}

/// An ordered scan by several workers: each takes the next batch read, and what it makes of it waits
/// for its turn.
fn in_sequence(shared: Arc<Shared>) -> BoxStream<'static, Result<RecordBatch, EngineError>> {
    let workers = shared.request.workers;
    let batches = stream::try_unfold(source::Ahead::new(&shared), {
        let shared = shared.clone();
        move |mut ahead| {
            let shared = shared.clone();
            async move {
                let batch = ahead.next_batch(&shared).await?;
                Ok(batch.map(|batch| (batch, ahead)))
            }
        }
    });
    let finished = move |batch| {
        let reader = |parts| read_one(shared.clone(), batch, parts);
        let partition = Partition::start(shared.clone(), reader);
        let held = shared.held.clone();
        let worker = async move {
            let rows: Vec<_> = partition.into_stream().try_collect().await?;
            let bytes = bytes_of(&rows);
            Ok((rows, held.hold(bytes)))
        };
        joined(AbortOnDrop(tokio::spawn(worker)))
    };
    batches
        .map_ok(finished)
        .try_buffered(workers)
        .map_ok(|(rows, held)| {
            stream::iter(rows).map(move |rows| {
                let _until_all_are_delivered = &held;
                Ok(rows)
            })
        })
        .try_flatten()
        .boxed()
}

/// What a task returns; its panic goes on here.
async fn joined<T>(mut task: AbortOnDrop<Result<T, EngineError>>) -> Result<T, EngineError> {
    match (&mut task.0).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The process ends.
            Err(_) => Err(EngineError::Cancelled),
        },
    }
}

/// Ends a task when who needs it goes.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Rows to deliver; those of one result are held together.
type Finished = (RecordBatch, Arc<Holding>);

/// The finishing half of a partition.
struct Partition {
    shared: Arc<Shared>,
    execution: Execution,
    /// The filters that it runs.
    filters: Arc<Taken>,
    incoming: Receiver<Result<Part, EngineError>>,
    /// What is finished of the batch read at hand, with its place; an ordered scan only.
    collected: Vec<(u32, Finished)>,
    /// What can be delivered, the next one last.
    ready: Vec<Finished>,
    reader: AbortOnDrop<()>,
    at_end: bool,
    /// Pages that its own execution has.
    pages: u64,
}

impl Partition {
    /// Begins to read.
    fn start<R>(shared: Arc<Shared>, reader: impl FnOnce(Parts) -> R) -> Self
    where
        R: Future<Output = ()> + Send + 'static,
    {
        let (parts, incoming) = mpsc::channel(PARTS_WAITING);
        let reading = Timed::new(Box::pin(reader(parts)), shared.counters.clone());
        Self {
            execution: Execution::new(shared.scanner.clone()),
            filters: Arc::default(),
            shared,
            incoming,
            collected: Vec::new(),
            ready: Vec::new(),
            reader: AbortOnDrop(tokio::spawn(reading)),
            at_end: false,
            pages: 0,
        }
    }

    fn into_stream(self) -> BoxStream<'static, Result<RecordBatch, EngineError>> {
        let counters = self.shared.counters.clone();
        let batches = stream::unfold(self, |mut partition| async move {
            let next = partition.next().await;
            next.transpose().map(|batch| (batch, partition))
        });
        Timed::new(batches.fuse().boxed(), counters).boxed()
    }

    /// The next batch that is not empty.
    async fn next(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        loop {
            if self.is_limit_reached() {
                self.reader.0.abort();
                return Ok(None);
            }
            if let Some((batch, held)) = self.ready.pop() {
                let batch = match &self.shared.long {
                    Some(_) => self.with_values((batch, held)).await?,
                    None => batch,
                };
                let rows = batch.num_rows() as u64;
                self.shared.delivered.fetch_add(rows, Ordering::Relaxed);
                add(&self.shared.counters.rows, rows);
                return Ok(Some(batch));
            }
            if self.at_end {
                return Ok(None);
            }
            match self.incoming.recv().await {
                Some(part) => self.take_part(part?).await?,
                None => {
                    self.at_end = true;
                    self.flush().await?;
                }
            }
        }
    }

    /// The first of some rows with their long values; the others can be delivered next.
    async fn with_values(&mut self, (batch, held): Finished) -> Result<RecordBatch, EngineError> {
        let shared = self.shared.clone();
        let long = shared.long.as_ref().expect("there are long columns");
        let together = long.rows_together(&batch);
        if together < batch.num_rows() {
            let rest = batch.slice(together, batch.num_rows() - together);
            self.ready.push((rest, held));
        }
        let (pool, cancel) = (&shared.engine.pool, &shared.request.cancel);
        long.fetch(pool, &batch.slice(0, together), cancel).await
    }

    async fn take_part(&mut self, part: Part) -> Result<(), EngineError> {
        match part {
            Part::Reduced(batch, _held) => self.finish(batch).await,
            Part::Pages(pages, _held) => {
                self.take_filters();
                for (index, page) in &pages {
                    self.take_page(*index, page).await?;
                }
                if self.shared.request.ordered {
                    self.flush().await
                } else {
                    Ok(())
                }
            }
            Part::EndOfBatch if self.shared.request.ordered => {
                self.flush().await?;
                self.restore_order();
                Ok(())
            }
            Part::EndOfBatch => Ok(()),
        }
    }

    /// Runs the filters that have come by now over the pages that follow.
    fn take_filters(&mut self) {
        let now = self.shared.filters();
        if !Arc::ptr_eq(&now, &self.filters) {
            self.count_dropped();
            self.execution.set_filters(now.bound.clone());
            self.filters = now;
        }
    }

    fn count_dropped(&mut self) {
        let dropped = self.execution.take_dropped();
        self.shared.count_dropped(&self.filters, &dropped);
    }

    async fn take_page(&mut self, index: u32, page: &Page) -> Result<(), EngineError> {
        self.pages += 1;
        match self.execution.page(index, page.get()) {
            Err(NdpError::Full) => {
                self.flush().await?;
                self.execution.page(index, page.get())?;
            }
            done => done?,
        }
        let execution = &self.execution;
        if execution.rows() >= ROWS_PER_BATCH || execution.bytes() >= BYTES_PER_BATCH {
            self.flush().await
        } else {
            Ok(())
        }
    }

    /// Finishes what the frontend's own execution has.
    async fn flush(&mut self) -> Result<(), EngineError> {
        self.count_dropped();
        let batch = self.execution.take();
        let pages = std::mem::take(&mut self.pages);
        self.shared.side.examined(pages, batch.rows as u64);
        if batch.rows == 0 && batch.ambiguous.is_empty() {
            return Ok(());
        }
        self.finish(batch).await
    }

    async fn finish(&mut self, batch: NdpBatch) -> Result<(), EngineError> {
        add(
            &self.shared.counters.ambiguous_records,
            batch.ambiguous.len() as u64,
        );
        let resolved = resolve(&self.shared, &batch).await?;
        // Storage cannot run them over what it returned whole.
        let filters = self.shared.filters();
        let scanner = &self.shared.scanner;
        let finished = scanner.finish_filtered(batch, &resolved, &filters.bound)?;
        if finished.batch.num_rows() == 0 {
            return Ok(());
        }
        let bytes = bytes_of([&finished.batch]);
        let held = Arc::new(self.shared.held.hold(bytes));
        if !self.shared.request.ordered {
            self.ready.push((finished.batch, held));
            return Ok(());
        }
        let mut start = 0;
        for (first, rows) in runs(&finished.page_rows) {
            if rows > 0 {
                let rows = finished.batch.slice(start, rows);
                self.collected.push((first, (rows, held.clone())));
            }
            start += rows;
        }
        Ok(())
    }

    /// All of a batch read is collected: its rows can be delivered, in the order of its pages.
    fn restore_order(&mut self) {
        assert!(
            self.ready.is_empty(),
            "N4: the batch read before was delivered"
        );
        self.collected
            .sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        self.ready
            .extend(self.collected.drain(..).map(|(_, rows)| rows));
    }

    fn is_limit_reached(&self) -> bool {
        let limit = self.shared.request.limit.unwrap_or(u64::MAX);
        self.shared.request.aggregate.is_none()
            && self.shared.delivered.load(Ordering::Relaxed) >= limit
    }
}

pub(crate) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Page runs that follow each other without a gap, as one: index of the first page, rows.
fn runs(pages: &[(u32, u32)]) -> Vec<(u32, usize)> {
    let mut out: Vec<(u32, usize)> = Vec::new();
    let mut next = None;
    for (index, rows) in pages {
        match out.last_mut() {
            Some((_, total)) if next == Some(*index) => *total += *rows as usize,
            _ => out.push((*index, *rows as usize)),
        }
        next = Some(index + 1);
    }
    out
}
