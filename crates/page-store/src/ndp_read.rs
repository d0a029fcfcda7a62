//! The NDP batch read: from a request to a stream of replies.
//!
//! Every page of the request is answered exactly once: reduced by the NDP threads, or declined with
//! its bytes. Declined pages are read like any page, some dozens at a time, as the client takes
//! them. Only as many requests as there are NDP threads have declined pages read and sent at a time,
//! so that work that was not taken does not come back as a flood of pages before which ordinary
//! reads have to wait.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use perigee_page_api::{
    FilterHash, NdpDecline, NdpFilter, NdpFilterUse, NdpItem, NdpRead, NdpReply, NdpStream,
    NdpUsage, PageError, ReadPages,
};
use perigee_types::{DbId, PAGE_SIZE};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::descriptors::Prepared;
use crate::filters;
use crate::ndp::{CHUNK, Job, Reply};
use crate::plugin::{NdpProgram, PreparedFilter};
use crate::service::Store;

/// Too many descriptors wait for being prepared.
struct TooMany;

/// What a store has of a request's filters.
#[derive(Default)]
struct Known {
    ready: Vec<PreparedFilter>,
    /// Their numbers in the request.
    numbers: Vec<usize>,
    /// Numbers of those whose content it wants.
    missing: Vec<u32>,
}

/// How long a request keeps others from sending declined pages, at most.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// Replies that wait for the client; each has the results of a few chunks.
const REPLIES_AHEAD: usize = 8;

impl Store {
    /// Answers an NDP batch read.
    pub(crate) async fn ndp_read(self: &Arc<Self>, read: NdpRead) -> Result<NdpStream, PageError> {
        let slice = self.slice(read.slice)?;
        slice.check_epoch(read.epoch)?;
        slice.check_lsn(read.lsn)?;
        self.ndp_counters.requests.add(1);
        let chunks = read.pages.len().div_ceil(CHUNK);
        let mut known = None;
        let (taken, reason, program) = match self.program(&read).await {
            Ok(Ok(program)) if self.lacks(&*program, &read, &mut known).await => {
                tracing::debug!("NDP descriptor for {} declined: no join table", read.slice);
                (0, NdpDecline::Descriptor, None)
            }
            Ok(Ok(program)) => {
                let taken = self.ndp.reserve(read.slice.db, chunks);
                (taken, NdpDecline::Busy, Some(program))
            }
            Ok(Err(why)) => {
                tracing::debug!("NDP descriptor for {} declined: {why}", read.slice);
                (0, NdpDecline::Descriptor, None)
            }
            Err(TooMany) => (0, NdpDecline::Busy, None),
        };
        let missing = known.as_ref().map(|known: &Known| known.missing.clone());
        let told = missing.filter(|missing| !missing.is_empty());
        let declined = self.declined(&read, taken * CHUNK, reason);
        let declined = declined.map(move |reply| reply.map(|reply| telling(reply, told.as_ref())));
        let Some(program) = program.filter(|_| taken > 0) else {
            return Ok(self.counted(declined).boxed());
        };
        let known = match known {
            Some(known) => known,
            None => self.filters(&read).await,
        };
        let missing = known.missing;
        let (sender, receiver) = mpsc::channel(REPLIES_AHEAD);
        self.ndp.submit(Job {
            slice,
            lsn: read.lsn,
            pages: read.pages,
            program,
            filters: known.ready,
            filter_numbers: (known.numbers, read.filters.len()),
            group_bytes: self.group_bytes,
            workers: self.ndp.workers(taken),
            memory: self.groups.account(read.slice.db),
            enough: read.enough,
            sender,
            chunks: taken,
            next: AtomicUsize::new(0),
            runtime: Handle::current(),
        });
        let reduced = stream::unfold(receiver, |mut receiver| async move {
            Some((receiver.recv().await?, receiver))
        });
        let reduced = reduced.map(move |reply: Reply| -> Reply {
            let mut reply = reply?;
            if let Some(filters) = &mut reply.filters {
                filters.missing.clone_from(&missing);
            }
            Ok(reply)
        });
        Ok(self.counted(stream::select(reduced, declined)).boxed())
    }

    /// True if a program cannot be run because the store has not what it needs, which becomes known then.
    async fn lacks(
        &self,
        program: &dyn NdpProgram,
        read: &NdpRead,
        known: &mut Option<Known>,
    ) -> bool {
        if !program.needs_more() {
            return false;
        }
        let known = known.insert(self.filters(read).await);
        !program.runs_with(&known.ready)
    }

    /// The request's filters, as far as the store has them now.
    async fn filters(&self, read: &NdpRead) -> Known {
        let mut known = Known::default();
        for (number, filter) in read.filters.iter().enumerate() {
            match self.filter(read.slice.db, filter).await {
                Some(Ok(ready)) => {
                    known.ready.push(ready);
                    known.numbers.push(number);
                }
                Some(Err(why)) => tracing::debug!("filter of {} not taken: {why}", read.slice),
                None => known.missing.push(number as u32),
            }
        }
        known
    }

    /// A filter from the cache, or made of its content; `None` if neither is there.
    async fn filter(&self, db: DbId, filter: &NdpFilter) -> Option<filters::Prepared> {
        if let Some(prepared) = self.filters.get(db, filter.hash) {
            return Some(prepared);
        }
        let Some(content) = filter.content.clone() else {
            self.filters.is_missing();
            return None;
        };
        let (plugin, hash) = (self.plugin.clone(), filter.hash);
        let (sender, receiver) = oneshot::channel();
        let queued = self.ndp.prepare(db, move || {
            if sender.is_closed() {
                return;
            }
            let is_right = FilterHash::of(&content) == hash;
            let prepared = is_right.then(|| plugin.prepare_filter(&content));
            // An error: the client left in the meantime.
            drop(sender.send(prepared));
        });
        // Too many wait: the request goes without, and the next one tries again.
        if !queued {
            return None;
        }
        match receiver.await {
            Ok(Some(prepared)) => {
                let prepared = prepared.map_err(Arc::from);
                self.filters.put(db, hash, prepared.clone());
                Some(prepared)
            }
            Ok(None) => Some(Err("its content is not what its hash says".into())),
            Err(_) => Some(Err("its preparation panicked".into())),
        }
    }

    /// The replies, counted as they are handed over.
    fn counted(
        self: &Arc<Self>,
        replies: impl Stream<Item = Reply> + Send + 'static,
    ) -> impl Stream<Item = Reply> + Send + 'static {
        let store = self.clone();
        replies.inspect(move |reply| {
            if let Ok(reply) = reply {
                store.ndp_counters.count(reply);
            }
        })
    }

    /// The descriptor's program, from the cache or made now; it waits for who is making it.
    async fn program(&self, read: &NdpRead) -> Result<Prepared, TooMany> {
        let known = self.descriptors.of(read.slice.db, &read.descriptor);
        let prepared = known.get_or_try_init(|| self.prepare(read)).await?;
        Ok(prepared.clone())
    }

    async fn prepare(&self, read: &NdpRead) -> Result<Prepared, TooMany> {
        let (plugin, descriptor) = (self.plugin.clone(), read.descriptor.clone());
        let (sender, receiver) = oneshot::channel();
        let queued = self.ndp.prepare(read.slice.db, move || {
            if sender.is_closed() {
                return;
            }
            let begin = Instant::now();
            let prepared = plugin.prepare(&descriptor);
            // An error: the client left in the meantime.
            drop(sender.send((prepared, begin.elapsed())));
        });
        if !queued {
            return Err(TooMany);
        }
        let Ok((prepared, took)) = receiver.await else {
            // A plugin that panics over a descriptor does not take it.
            return Ok(Err("its preparation panicked".into()));
        };
        self.descriptors.missed(took, prepared.is_err());
        Ok(prepared.map_err(Arc::from))
    }

    /// The pages from `from` on, as they are.
    fn declined(
        self: &Arc<Self>,
        read: &NdpRead,
        from: usize,
        reason: NdpDecline,
    ) -> impl Stream<Item = Reply> + Send + 'static {
        let (slice, epoch, lsn) = (read.slice, read.epoch, read.lsn);
        let rest = read.pages.get(from..).unwrap_or_default();
        let reads: Vec<_> = rest
            .chunks(CHUNK)
            .map(|pages| {
                let pages = pages.to_vec();
                ReadPages {
                    slice,
                    epoch,
                    lsn,
                    pages,
                }
            })
            .collect();
        let state = (self.clone(), reads.into_iter().enumerate(), None::<Turn>);
        stream::unfold(state, move |(store, mut reads, turn)| async move {
            // The chunk before is on its way: it is somebody else's turn.
            drop(turn);
            let (chunk, read) = reads.next()?;
            let turn = Turn::of(&store.declined_reads).await;
            let pages = store.read_pages(read).await;
            let reply = pages.map(|pages| whole(from + chunk * CHUNK, reason, pages));
            Some((reply, (store, reads, Some(turn))))
        })
    }
}

/// The reply, telling which filters the store lacks, if it lacks any.
fn telling(reply: NdpReply, missing: Option<&Vec<u32>>) -> NdpReply {
    let filters = missing.map(|missing| NdpFilterUse {
        missing: missing.clone(),
        dropped: Vec::new(),
    });
    NdpReply {
        filters: filters.or(reply.filters),
        ..reply
    }
}

/// Whole pages as a reply; the first has this index in the request.
fn whole(first: usize, reason: NdpDecline, pages: Vec<Bytes>) -> NdpReply {
    let usage = NdpUsage {
        pages: pages.len() as u64,
        bytes_read: (pages.len() * PAGE_SIZE) as u64,
        ..NdpUsage::default()
    };
    let items = (first as u32..)
        .zip(pages)
        .map(|(index, page)| NdpItem::Declined {
            index,
            reason,
            page,
        });
    NdpReply {
        items: items.collect(),
        usage,
        filters: None,
    }
}

/// The turn of a request to have declined pages read and sent. It ends when it is dropped, or after
/// a while, because a client may not take what it asked for.
struct Turn(AbortHandle);

impl Turn {
    async fn of(turns: &Arc<Semaphore>) -> Self {
        let turn = turns.clone().acquire_owned().await;
        let turn = turn.expect("nobody closes it");
        let kept = tokio::spawn(async move {
            tokio::time::sleep(LONGEST_TURN).await;
            drop(turn);
        });
        Self(kept.abort_handle())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.abort();
    }
}
