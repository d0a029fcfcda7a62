//! Reads: a request for many pages becomes one request for each slice concerned, all sent at once
//! (taurus-ndp section IV.C.4).
//!
//! Each slice is asked for min(the LSN wanted, its persistent LSN), so that an idle slice can
//! answer (SPEC's N6). That is the same version: a page that is not in the buffer pool has no
//! change that its Page Store lacks (invariant P9).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{StreamExt, stream};
use perigee_page_api::{
    Capabilities, NdpFilter, NdpRead, NdpReply, NdpStream, PageError, ReadPages,
};
use perigee_types::{Lsn, PageId};
use tokio::sync::mpsc;

use crate::filters::{self, SentFilter};
use crate::link::{Asked, LinkCost};
use crate::retry::{Patience, once, retry};
use crate::sal::{Sal, Shared};
use crate::slice::Slice;
use crate::{SalError, capabilities};

/// One message of the answer to an NDP read, or the end of one slice's answer by an error.
#[derive(Debug)]
pub struct NdpPart {
    /// The sub-batch: index `i` in `reply` (page runs, declined pages) means page `pages[i]` of the
    /// whole request.
    pub pages: Arc<[u32]>,
    /// A message. After an error no more comes for this sub-batch; pages that no reply covered may
    /// be asked for again.
    pub reply: Result<NdpReply, SalError>,
}

/// The answer to an NDP read: messages of all slices as they come. Dropping it cancels the work in
/// the Page Stores.
pub type NdpParts = SelectAll<BoxStream<'static, NdpPart>>;

/// A slice's share of a request: where in the request, and which pages.
struct Share {
    slice: Arc<Slice>,
    indexes: Arc<[u32]>,
    pages: Vec<PageId>,
}

/// What Page Stores are to do with pages.
#[derive(Clone, Debug, Default)]
pub struct NdpWork {
    /// The NDP descriptor.
    pub descriptor: Bytes,
    /// Filters, which stores that know them run as well.
    pub filters: Arc<[Arc<SentFilter>]>,
    /// As in [`NdpRead`].
    pub enough: Option<u64>,
}

impl NdpWork {
    /// The filters as a store is told of them: not at all, if it does not know any.
    fn filters_for(&self, shared: &Shared, store: usize) -> Vec<NdpFilter> {
        let known = shared.stores[store].known.get();
        match known.is_some_and(|known| known.filter == 0) {
            true => Vec::new(),
            false => self.filters.iter().map(|f| f.for_store(store)).collect(),
        }
    }
}

impl Sal {
    /// What near-data processing all Page Stores know; `None` as long as none of them has said.
    #[must_use]
    pub fn capabilities(&self) -> Option<Capabilities> {
        capabilities::common(&self.shared)
    }

    /// What reads cost on their way: the mean of the Page Stores, each by the database's slices on it.
    #[must_use]
    pub fn link_cost(&self) -> LinkCost {
        let stores = &self.shared.stores;
        let mut slices = vec![0_u32; stores.len()];
        for slice in self.shared.slices.read().values() {
            slices[slice.store] += 1;
        }
        // Before there is a slice, all count alike.
        if slices.iter().all(|slices| *slices == 0) {
            slices.fill(1);
        }
        let all = f64::from(slices.iter().sum::<u32>());
        let (mut wait, mut byte) = (0.0, 0.0);
        for (store, slices) in stores
            .iter()
            .zip(&slices)
            .filter(|(_, slices)| **slices > 0)
        {
            let (cost, share) = (store.link.cost(), f64::from(*slices) / all);
            wait += cost.wait * share;
            byte += cost.byte * share;
        }
        LinkCost { wait, byte }
    }

    /// Reads pages as of `lsn` ([`LATEST`](crate::LATEST) for the newest there is); answers are in
    /// the order of `pages`. Checksum and identity are for the caller to verify.
    ///
    /// # Errors
    /// If a page does not exist at that LSN, or its Page Store cannot be reached in time.
    pub async fn read_pages(&self, pages: &[PageId], lsn: Lsn) -> Result<Vec<Bytes>, SalError> {
        self.check()?;
        let shares = split(&self.shared, pages)?;
        let reads = shares
            .iter()
            .map(|share| read_share(&self.shared, share, lsn));
        let answers = try_join_all(reads).await?;
        let mut all = vec![Bytes::new(); pages.len()];
        for (share, answer) in shares.iter().zip(answers) {
            for (index, page) in share.indexes.iter().zip(answer) {
                all[*index as usize] = page;
            }
        }
        Ok(all)
    }

    /// Reads pages as of `lsn` with near-data processing: the sub-batches of all slices are sent
    /// now, and their messages come interleaved. Must be called on the runtime.
    ///
    /// # Errors
    /// If a page lies in a slice that does not exist, or storage has stopped; all else is told in
    /// the parts.
    pub fn ndp_read(
        &self,
        pages: &[PageId],
        lsn: Lsn,
        work: &NdpWork,
    ) -> Result<NdpParts, SalError> {
        self.check()?;
        let shares = split(&self.shared, pages)?;
        let parts = |share| ndp_parts(self.shared.clone(), share, lsn, work.clone());
        Ok(select_all(shares.into_iter().map(parts)))
    }
}

fn split(shared: &Shared, pages: &[PageId]) -> Result<Vec<Share>, SalError> {
    let mut by_slice: BTreeMap<_, (Vec<u32>, Vec<PageId>)> = BTreeMap::new();
    for (index, page) in pages.iter().enumerate() {
        let (indexes, share) = by_slice.entry(shared.geometry.slice_of(*page)).or_default();
        indexes.push(u32::try_from(index).expect("requests have fewer than 2^32 pages"));
        share.push(*page);
    }
    let slices = shared.slices.read();
    by_slice
        .into_iter()
        .map(|(id, (indexes, pages))| {
            let slice = slices.get(&id).cloned().ok_or_else(|| {
                let db = shared.config.db;
                let nothing =
                    || PageError::NotFound(format!("{} of {db}: {id} does not exist", pages[0]));
                shared.damaged.get(&id).cloned().unwrap_or_else(nothing)
            })?;
            Ok(Share {
                slice,
                indexes: indexes.into(),
                pages,
            })
        })
        .collect()
}

async fn read_share(shared: &Shared, share: &Share, lsn: Lsn) -> Result<Vec<Bytes>, SalError> {
    let what = format!("reading {} pages of {}", share.pages.len(), share.slice.key);
    let store = &shared.stores[share.slice.store];
    let config = &shared.config;
    let patience = Patience {
        call: config.call_timeout,
        total: config.read_timeout,
    };
    let read = || {
        let lsn = lsn.min(share.slice.persistent());
        let read = ReadPages {
            slice: share.slice.key,
            epoch: shared.epoch,
            lsn,
            pages: share.pages.clone(),
        };
        moved_on_is_unavailable(async {
            let way = store.link.begin(Asked::Whole);
            let pages = store.api.read_pages(read).await?;
            way.received(pages.iter().map(Bytes::len).sum());
            Ok(pages)
        })
    };
    let pages = retry(&what, patience, read).await;
    let pages = pages.map_err(|e| shared.seen(e))?;
    if pages.len() != share.pages.len() {
        let text = format!("{what}: {} came", pages.len());
        return Err(PageError::Corrupt(text).into());
    }
    Ok(pages)
}

/// Between the choice of an LSN and its arrival at the store, the slice may have moved on and the
/// version been recycled: with the LSN chosen again the read succeeds.
async fn moved_on_is_unavailable<T>(
    read: impl Future<Output = Result<T, PageError>>,
) -> Result<T, PageError> {
    read.await.map_err(|e| match e {
        PageError::Recycled(text) | PageError::Behind(text) => PageError::Unavailable(text),
        other => other,
    })
}

/// Runs one sub-batch in a task of its own: the request goes out at once, and replies are taken from
/// the connection as they come, so that a slow reader of one scan does not keep back others on the
/// same connection. What waits here is bounded by the pages asked for.
fn ndp_parts(
    shared: Arc<Shared>,
    share: Share,
    lsn: Lsn,
    work: NdpWork,
) -> BoxStream<'static, NdpPart> {
    // A reply covers a page at least; the rest is for an error.
    let (replies, mut parts) = mpsc::channel(share.pages.len() + 1);
    let indexes = share.indexes.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = replies.closed() => {}
            () = ndp_replies(&shared, &share, lsn, &work, &replies) => {}
        }
    });
    stream::poll_fn(move |cx| parts.poll_recv(cx))
        .map(move |reply: Result<NdpReply, PageError>| NdpPart {
            pages: indexes.clone(),
            reply: reply.map_err(SalError::from),
        })
        .boxed()
}

/// Passes on the replies to one sub-batch, up to an error.
async fn ndp_replies(
    shared: &Shared,
    share: &Share,
    lsn: Lsn,
    work: &NdpWork,
    to: &mpsc::Sender<Result<NdpReply, PageError>>,
) {
    let limit = shared.config.call_timeout;
    let way = shared.stores[share.slice.store].link.begin(Asked::Reduced);
    let (mut reply, mut rest) = match first_reply(shared, share, lsn, work).await {
        Ok(Some((first, rest))) => (Ok(first), rest),
        Ok(None) => return,
        Err(e) => {
            shared.seen(e.clone());
            return drop(to.send(Err(e)).await);
        }
    };
    loop {
        if let Ok(NdpReply {
            filters: Some(used),
            ..
        }) = &reply
        {
            filters::note(&work.filters, share.slice.store, used);
        }
        if let Ok(reply) = &reply {
            way.received(reply.bytes());
        }
        let last = reply.is_err();
        if to.send(reply).await.is_err() || last {
            return;
        }
        let next = async { Ok(rest.next().await) };
        reply = match once("NDP reply", limit, next).await {
            Ok(Some(reply)) => reply,
            Ok(None) => return,
            Err(e) => Err(e),
        };
    }
}

/// Sends the request until there is a first reply. Later the answer has to be taken as it is: only
/// who reads it knows which pages it covers.
async fn first_reply(
    shared: &Shared,
    share: &Share,
    lsn: Lsn,
    work: &NdpWork,
) -> Result<Option<(NdpReply, NdpStream)>, PageError> {
    let api = &shared.stores[share.slice.store].api;
    let config = &shared.config;
    let what = format!(
        "NDP read of {} pages of {}",
        share.pages.len(),
        share.slice.key
    );
    let patience = Patience {
        call: config.call_timeout,
        total: config.read_timeout,
    };
    let open = || {
        let request = NdpRead {
            slice: share.slice.key,
            epoch: shared.epoch,
            lsn: lsn.min(share.slice.persistent()),
            pages: share.pages.clone(),
            descriptor: work.descriptor.clone(),
            filters: work.filters_for(shared, share.slice.store),
            enough: work.enough,
        };
        moved_on_is_unavailable(async {
            let mut replies = api.ndp_read(request).await?;
            let first = replies.next().await.transpose()?;
            Ok(first.map(|first| (first, replies)))
        })
    };
    retry(&what, patience, open).await
}
