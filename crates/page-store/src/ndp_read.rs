//! The NDP batch read: from a request to a stream of replies.
//!
//! Every page of the request is answered exactly once: reduced by the NDP threads, or declined with
//! its bytes. Declined pages are read like any page, some dozens at a time, as the client takes
//! them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use futures::{Stream, StreamExt, stream};
use perigee_page_api::{
    NdpDecline, NdpItem, NdpRead, NdpReply, NdpStream, NdpUsage, PageError, ReadPages,
};
use perigee_types::PAGE_SIZE;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::ndp::{CHUNK, Job, Reply};
use crate::plugin::NdpProgram;
use crate::service::Store;

/// Replies that wait for the client; each has the results of a few chunks.
const REPLIES_AHEAD: usize = 8;

impl Store {
    /// Answers an NDP batch read.
    pub(crate) async fn ndp_read(self: &Arc<Self>, read: NdpRead) -> Result<NdpStream, PageError> {
        let slice = self.slice(read.slice)?;
        slice.check_lsn(read.lsn)?;
        self.ndp_counters.requests.add(1);
        let chunks = read.pages.len().div_ceil(CHUNK);
        let (taken, reason, program) = match self.program(&read).await {
            Ok(program) => (self.ndp.reserve(chunks), NdpDecline::Busy, Some(program)),
            Err(why) => {
                tracing::debug!("NDP descriptor for {} declined: {why}", read.slice);
                (0, NdpDecline::Descriptor, None)
            }
        };
        let declined = self.declined(&read, taken * CHUNK, reason);
        let Some(program) = program.filter(|_| taken > 0) else {
            return Ok(self.counted(declined).boxed());
        };
        let (sender, receiver) = mpsc::channel(REPLIES_AHEAD);
        self.ndp.submit(Job {
            slice,
            lsn: read.lsn,
            pages: read.pages,
            program,
            sender,
            chunks: taken,
            next: AtomicUsize::new(0),
            runtime: Handle::current(),
        });
        let reduced = stream::unfold(receiver, |mut receiver| async move {
            Some((receiver.recv().await?, receiver))
        });
        Ok(self.counted(stream::select(reduced, declined)).boxed())
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

    /// The descriptor's program, from the cache or made now.
    async fn program(&self, read: &NdpRead) -> Result<Arc<dyn NdpProgram>, String> {
        if let Some(program) = self.descriptors.get(&read.descriptor) {
            return Ok(program);
        }
        let (plugin, descriptor) = (self.plugin.clone(), read.descriptor.clone());
        let begin = Instant::now();
        let prepared = tokio::task::spawn_blocking(move || plugin.prepare(&descriptor)).await;
        // A plugin that panics over a descriptor does not take it.
        let prepared = prepared.map_err(|e| e.to_string()).flatten();
        self.descriptors
            .count_miss(begin.elapsed(), prepared.is_err());
        let program = prepared?;
        self.descriptors.insert(&read.descriptor, program.clone());
        Ok(program)
    }

    /// The pages from `from` on, as they are.
    fn declined(
        self: &Arc<Self>,
        read: &NdpRead,
        from: usize,
        reason: NdpDecline,
    ) -> impl Stream<Item = Reply> + Send + 'static {
        let (slice, lsn) = (read.slice, read.lsn);
        let rest = read.pages.get(from..).unwrap_or_default();
        let reads: Vec<_> = rest
            .chunks(CHUNK)
            .map(|pages| {
                let pages = pages.to_vec();
                ReadPages { slice, lsn, pages }
            })
            .collect();
        let store = self.clone();
        stream::iter(reads).enumerate().then(move |(chunk, read)| {
            let store = store.clone();
            let first = from + chunk * CHUNK;
            async move {
                let pages = store.read_pages(read).await?;
                let usage = NdpUsage {
                    pages: pages.len() as u64,
                    bytes_read: (pages.len() * PAGE_SIZE) as u64,
                    ..NdpUsage::default()
                };
                let items = pages
                    .into_iter()
                    .enumerate()
                    .map(|(i, page)| NdpItem::Declined {
                        index: (first + i) as u32,
                        reason,
                        page,
                    });
                Ok(NdpReply {
                    items: items.collect(),
                    usage,
                })
            }
        })
    }
}
