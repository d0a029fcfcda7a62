//! The server half: any [`PageStore`] as a gRPC service.
//!
//! It translates and checks messages and knows no files. A client that goes away, or whose deadline
//! passes, drops the call; by the contract of [`PageStore`] that is safe at any point, and it stops
//! what the store still does for it: pages are read from the store some dozens at a time, and an
//! NDP stream is dropped with its call.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use perigee_types::{DbId, Lsn, PageId, SliceId, checksum};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::transport::{Error, Server};
use tonic::{Request, Response, Status};

use crate::lanes::lanes;
use crate::proto::page_store_server;
use crate::status::to_status;
use crate::transport::{FRAME_LEN, STREAM_WINDOW, TransportBytes};
use crate::{
    FilterHash, Fragment, MAX_FILTERS, MAX_MESSAGE, MAX_PAGES, NdpDecline, NdpFilter, NdpItem,
    NdpRead, NdpReply, PageError, PageStore, ReadPages, SliceKey, SliceStatus, proto,
};

/// Pages in a message: 1 MiB, so that the cost of a message is small beside that of its bytes.
const PAGES_PER_MESSAGE: usize = 64;

/// Messages that are read from the store ahead of the one being sent.
const READ_AHEAD: usize = 2;

/// Calls one connection may have running at once; more wait in the client.
const CALLS_PER_CONNECTION: u32 = 256;

/// The gRPC service that [`serve`] makes, to be added to a [`Server`].
pub type PageStoreServer = page_store_server::PageStoreServer<Adapter>;

/// Offers `store` as a gRPC service, to be mounted with [`Server::add_service`].
pub fn serve(store: Arc<dyn PageStore>) -> PageStoreServer {
    PageStoreServer::new(Adapter { store })
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE)
}

/// A [`Server`] with the transport settings a Page Store wants: wide windows, keepalive that finds
/// dead clients, and a bound on the calls of one connection.
pub fn transport() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(2 * STREAM_WINDOW)
        .max_frame_size(FRAME_LEN)
        .max_concurrent_streams(CALLS_PER_CONNECTION)
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
}

/// Serves `store` until `stop`, and then until the calls under way have ended: the connections for
/// NDP on the runtime `ndp`, whose threads may have a lower priority, all others on this one.
///
/// # Errors
/// If the server fails.
pub async fn serve_apart(
    store: Arc<dyn PageStore>,
    listener: TcpListener,
    bytes: Arc<TransportBytes>,
    ndp: &Handle,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (of_others, of_ndp) = lanes(listener, bytes);
    let router = || transport().add_service(serve(store.clone()));
    // They stop with this call, also if it is dropped.
    let (stops, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let for_ndp = ndp.spawn(router().serve_with_incoming_shutdown(of_ndp, stopped));
    let stop = async move {
        stop.await;
        drop(stops);
    };
    router()
        .serve_with_incoming_shutdown(of_others, stop)
        .await?;
    // An error: the runtime has ended.
    for_ndp.await.unwrap_or(Ok(()))
}

/// Translates between messages and the trait.
pub struct Adapter {
    store: Arc<dyn PageStore>,
}

fn refuse(text: String) -> Status {
    to_status(&PageError::Refused(text))
}

fn decode_slice(slice: Option<proto::Slice>) -> Result<SliceKey, Status> {
    let slice = slice.ok_or_else(|| refuse("the request names no slice".into()))?;
    Ok(SliceKey {
        db: DbId(slice.db),
        slice: SliceId(slice.slice),
    })
}

fn decode_pages(slice: SliceKey, pages: &[u64]) -> Result<Vec<PageId>, Status> {
    if pages.len() > MAX_PAGES {
        let n = pages.len();
        return Err(refuse(format!(
            "read of {n} pages of {slice}: {MAX_PAGES} are the most"
        )));
    }
    Ok(pages.iter().map(|p| PageId(*p)).collect())
}

fn encode_status(status: SliceStatus) -> proto::SliceStatus {
    proto::SliceStatus {
        sequence: status.sequence,
        persistent_lsn: status.persistent_lsn.0,
        consolidated_lsn: status.consolidated_lsn.0,
        backlog_bytes: status.backlog_bytes,
        pages: status.pages,
    }
}

fn encode_item(item: NdpItem) -> proto::NdpItem {
    use proto::NdpItemKind as Kind;
    let (kind, index, payload) = match item {
        NdpItem::Reduced(batch) => (Kind::Reduced, 0, batch),
        NdpItem::Declined {
            index,
            reason,
            page,
        } => {
            let kind = match reason {
                NdpDecline::Descriptor => Kind::DeclinedDescriptor,
                NdpDecline::Busy => Kind::DeclinedBusy,
                NdpDecline::Page => Kind::DeclinedPage,
                NdpDecline::Forced => Kind::DeclinedForced,
            };
            (kind, index, page)
        }
    };
    proto::NdpItem {
        kind: kind.into(),
        index,
        payload,
    }
}

fn encode_reply(reply: NdpReply) -> proto::NdpReadResponse {
    let usage = reply.usage;
    proto::NdpReadResponse {
        items: reply.items.into_iter().map(encode_item).collect(),
        usage: Some(proto::NdpUsage {
            pages: usage.pages,
            bytes_read: usage.bytes_read,
            cpu_nanos: usage.cpu_nanos,
            compiled: usage.compiled,
        }),
        filters: reply.filters.map(|used| proto::NdpFilterUse {
            missing: used.missing,
            dropped: used.dropped,
        }),
    }
}

fn decode_filters(filters: Vec<proto::NdpFilter>) -> Result<Vec<NdpFilter>, Status> {
    if filters.len() > MAX_FILTERS {
        let n = filters.len();
        return Err(refuse(format!("{n} filters: {MAX_FILTERS} are the most")));
    }
    let decode = |filter: proto::NdpFilter| {
        let hash = <[u8; 16]>::try_from(&filter.hash[..]);
        let hash = hash.map_err(|_| refuse("a filter has no hash of 16 bytes".into()))?;
        Ok(NdpFilter {
            hash: FilterHash(hash),
            content: filter.content,
        })
    };
    filters.into_iter().map(decode).collect()
}

#[tonic::async_trait]
impl page_store_server::PageStore for Adapter {
    async fn create_slice(
        &self,
        request: Request<proto::CreateSliceRequest>,
    ) -> Result<Response<proto::CreateSliceResponse>, Status> {
        let r = request.into_inner();
        let slice = decode_slice(r.slice)?;
        let done = self.store.create_slice(slice, r.epoch).await;
        done.map_err(|e| to_status(&e))?;
        Ok(Response::new(proto::CreateSliceResponse {}))
    }

    async fn delete_slice(
        &self,
        request: Request<proto::DeleteSliceRequest>,
    ) -> Result<Response<proto::DeleteSliceResponse>, Status> {
        let r = request.into_inner();
        let slice = decode_slice(r.slice)?;
        let deleted = self.store.delete_slice(slice, r.epoch, Lsn(r.end)).await;
        let deleted = deleted.map_err(|e| to_status(&e))?;
        Ok(Response::new(proto::DeleteSliceResponse { deleted }))
    }

    async fn write_logs(
        &self,
        request: Request<proto::WriteLogsRequest>,
    ) -> Result<Response<proto::SliceStatus>, Status> {
        let r = request.into_inner();
        let slice = decode_slice(r.slice)?;
        if checksum(&r.groups) != r.groups_crc {
            let text = format!("fragment {} of {slice} changed on its way", r.sequence);
            return Err(to_status(&PageError::Corrupt(text)));
        }
        let fragment = Fragment {
            slice,
            epoch: r.epoch,
            sequence: r.sequence,
            prev_lsn: Lsn(r.prev_lsn),
            first_lsn: Lsn(r.first_lsn),
            last_lsn: Lsn(r.last_lsn),
            groups: r.groups,
        };
        let status = self.store.write_logs(fragment).await;
        let status = status.map_err(|e| to_status(&e))?;
        Ok(Response::new(encode_status(status)))
    }

    type ReadPagesStream = BoxStream<'static, Result<proto::ReadPagesResponse, Status>>;

    async fn read_pages(
        &self,
        request: Request<proto::ReadPagesRequest>,
    ) -> Result<Response<Self::ReadPagesStream>, Status> {
        let r = request.into_inner();
        let slice = decode_slice(r.slice)?;
        let pages = decode_pages(slice, &r.pages)?;
        let (epoch, lsn) = (r.epoch, Lsn(r.lsn));
        let chunks: Vec<Vec<PageId>> = pages
            .chunks(PAGES_PER_MESSAGE)
            .map(<[PageId]>::to_vec)
            .collect();
        let store = self.store.clone();
        let messages = stream::iter(chunks)
            .map(move |pages| {
                let store = store.clone();
                async move {
                    let read = ReadPages {
                        slice,
                        epoch,
                        lsn,
                        pages,
                    };
                    match store.read_pages(read).await {
                        Ok(pages) => Ok(proto::ReadPagesResponse { pages }),
                        Err(error) => Err(to_status(&error)),
                    }
                }
            })
            .buffered(READ_AHEAD);
        Ok(Response::new(messages.boxed()))
    }

    type NdpReadStream = BoxStream<'static, Result<proto::NdpReadResponse, Status>>;

    async fn ndp_read(
        &self,
        request: Request<proto::NdpReadRequest>,
    ) -> Result<Response<Self::NdpReadStream>, Status> {
        let r = request.into_inner();
        let slice = decode_slice(r.slice)?;
        let read = NdpRead {
            slice,
            epoch: r.epoch,
            lsn: Lsn(r.lsn),
            pages: decode_pages(slice, &r.pages)?,
            descriptor: r.descriptor,
            filters: decode_filters(r.filters)?,
            enough: r.enough,
        };
        let replies = self.store.ndp_read(read).await;
        let replies = replies.map_err(|e| to_status(&e))?;
        let messages =
            replies.map(|reply| reply.map(encode_reply).map_err(|error| to_status(&error)));
        Ok(Response::new(messages.boxed()))
    }

    async fn set_recycle_lsn(
        &self,
        request: Request<proto::SetRecycleLsnRequest>,
    ) -> Result<Response<proto::SetRecycleLsnResponse>, Status> {
        let r = request.into_inner();
        let done = self.store.set_recycle_lsn(DbId(r.db), Lsn(r.lsn)).await;
        done.map_err(|e| to_status(&e))?;
        Ok(Response::new(proto::SetRecycleLsnResponse {}))
    }

    async fn get_slice_status(
        &self,
        request: Request<proto::GetSliceStatusRequest>,
    ) -> Result<Response<proto::SliceStatus>, Status> {
        let slice = decode_slice(request.into_inner().slice)?;
        let status = self.store.slice_status(slice).await;
        let status = status.map_err(|e| to_status(&e))?;
        Ok(Response::new(encode_status(status)))
    }

    async fn get_status(
        &self,
        _: Request<proto::GetStatusRequest>,
    ) -> Result<Response<proto::GetStatusResponse>, Status> {
        let status = self.store.status().await.map_err(|e| to_status(&e))?;
        let slices = status
            .slices
            .into_iter()
            .map(|(key, status)| proto::NamedSliceStatus {
                slice: Some(proto::Slice {
                    db: key.db.0,
                    slice: key.slice.0,
                }),
                status: Some(encode_status(status)),
            })
            .collect();
        Ok(Response::new(proto::GetStatusResponse {
            slices,
            live_bytes: status.live_bytes,
            disk_bytes: status.disk_bytes,
        }))
    }

    async fn get_room(
        &self,
        _: Request<proto::GetRoomRequest>,
    ) -> Result<Response<proto::GetRoomResponse>, Status> {
        let has_room = self.store.has_room().await.map_err(|e| to_status(&e))?;
        Ok(Response::new(proto::GetRoomResponse { has_room }))
    }
    async fn get_capabilities(
        &self,
        _: Request<proto::GetCapabilitiesRequest>,
    ) -> Result<Response<proto::GetCapabilitiesResponse>, Status> {
        let known = self.store.capabilities().await.map_err(|e| to_status(&e))?;
        Ok(Response::new(proto::GetCapabilitiesResponse {
            descriptor_version: known.descriptor,
            expression_version: known.expression,
            filter_version: known.filter,
        }))
    }
}
