//! The client half: a [`PageStore`] in another process.
//!
//! Invariants:
//! - every call has a deadline, which the server learns too; when it passes, the call fails with
//!   [`PageError::Unavailable`] and its outcome is unknown. A stream has a deadline for each
//!   message, because how long all of it takes is its reader's business;
//! - nothing is retried here: the caller knows other replicas, this client does not;
//! - answers are checked before they are believed.
//!
//! NDP reads have a connection of their own ([`lanes`](crate::lanes)). A connection is made by the
//! first call that needs it, and made again by the first after it broke.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use perigee_types::{DbId, Lsn, PAGE_SIZE, SliceId, checksum};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::lanes::Lane;
use crate::proto::page_store_client;
use crate::status::from_status;
use crate::transport::{Connector, FRAME_LEN, STREAM_WINDOW, TransportBytes};
use crate::{
    Capabilities, Fragment, MAX_MESSAGE, NdpDecline, NdpFilter, NdpFilterUse, NdpItem, NdpRead,
    NdpReply, NdpStream, NdpUsage, PageError, PageStore, ReadPages, SliceKey, SliceStatus,
    StoreStatus, proto,
};

/// Longest descriptor that fits a message beside the pages of a request.
const MAX_DESCRIPTOR: usize = MAX_MESSAGE - (2 << 20);

/// How long a [`PageStoreClient`] waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// For a TCP connection to be made.
    pub connect_timeout: Duration,
    /// For the answer to a short call: all but reads.
    pub call_timeout: Duration,
    /// For each message of a read.
    pub read_timeout: Duration,
    /// A connection that was silent this long is tested with a ping.
    pub keepalive_interval: Duration,
    /// A connection whose ping was not answered for this long is given up.
    pub keepalive_timeout: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            keepalive_interval: Duration::from_secs(5),
            keepalive_timeout: Duration::from_secs(5),
        }
    }
}

type Rpc = page_store_client::PageStoreClient<Channel>;

/// A Page Store reached over gRPC. Clones share its connections.
#[derive(Clone, Debug)]
pub struct PageStoreClient {
    rpc: Rpc,
    /// For NDP reads.
    ndp: Rpc,
    address: Arc<str>,
    config: ClientConfig,
    bytes: Arc<TransportBytes>,
}

impl PageStoreClient {
    /// A client of the Page Store at `address`, for example `http://127.0.0.1:7401`. Does not
    /// connect yet; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`PageError::Refused`] if `address` is not a URI.
    pub fn new(address: &str, config: ClientConfig) -> Result<Self, PageError> {
        let bytes = Arc::new(TransportBytes::default());
        let endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(|e| PageError::Refused(format!("{address} is no address: {e}")))?
            .connect_timeout(config.connect_timeout)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(2 * STREAM_WINDOW)
            .max_frame_size(FRAME_LEN)
            .http2_keep_alive_interval(config.keepalive_interval)
            .keep_alive_timeout(config.keepalive_timeout)
            .keep_alive_while_idle(true);
        let rpc = |lane| {
            let channel = endpoint.connect_with_connector_lazy(Connector::new(lane, bytes.clone()));
            Rpc::new(channel)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE)
        };
        Ok(Self {
            rpc: rpc(Lane::Ordinary),
            ndp: rpc(Lane::Ndp),
            address: address.into(),
            config,
            bytes,
        })
    }

    /// Counters of the bytes that crossed this client's sockets.
    #[must_use]
    pub fn transport_bytes(&self) -> &Arc<TransportBytes> {
        &self.bytes
    }

    /// Runs a short call under the call deadline, which is also told to the server.
    async fn call<M, T>(
        &self,
        what: &str,
        message: M,
        call: impl AsyncFnOnce(Rpc, Request<M>) -> Result<T, Status>,
    ) -> Result<T, PageError> {
        let deadline = self.config.call_timeout;
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        match tokio::time::timeout(deadline, call(self.rpc.clone(), request)).await {
            Ok(answer) => answer.map_err(|status| from_status(&status, &self.name(what))),
            Err(_) => Err(self.late(what, deadline)),
        }
    }

    /// The next message of a stream, under the read deadline.
    async fn next<M>(&self, what: &str, stream: &mut Streaming<M>) -> Result<Option<M>, PageError> {
        let deadline = self.config.read_timeout;
        match tokio::time::timeout(deadline, stream.message()).await {
            Ok(answer) => answer.map_err(|status| from_status(&status, &self.name(what))),
            Err(_) => Err(self.late(what, deadline)),
        }
    }

    /// Starts a stream, under the read deadline.
    async fn open<M, T>(
        &self,
        rpc: &Rpc,
        what: &str,
        message: M,
        call: impl AsyncFnOnce(Rpc, Request<M>) -> Result<tonic::Response<Streaming<T>>, Status>,
    ) -> Result<Streaming<T>, PageError> {
        let deadline = self.config.read_timeout;
        match tokio::time::timeout(deadline, call(rpc.clone(), Request::new(message))).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(from_status(&status, &self.name(what))),
            Err(_) => Err(self.late(what, deadline)),
        }
    }

    fn name(&self, what: &str) -> String {
        format!("{what} at {}", self.address)
    }

    fn late(&self, what: &str, deadline: Duration) -> PageError {
        let name = self.name(what);
        PageError::Unavailable(format!("{name}: no answer within {deadline:?}"))
    }

    /// An answer that contradicts itself or its request.
    fn nonsense(&self, what: &str, detail: impl std::fmt::Display) -> PageError {
        PageError::Corrupt(format!("{}: answer {detail}", self.name(what)))
    }

    fn decode_reply(
        &self,
        what: &str,
        pages: usize,
        reply: proto::NdpReadResponse,
    ) -> Result<NdpReply, PageError> {
        let usage = reply.usage.unwrap_or_default();
        let items = reply
            .items
            .into_iter()
            .map(|item| self.decode_item(what, pages, item))
            .collect::<Result<_, _>>()?;
        Ok(NdpReply {
            items,
            usage: NdpUsage {
                pages: usage.pages,
                bytes_read: usage.bytes_read,
                cpu_nanos: usage.cpu_nanos,
                compiled: usage.compiled,
            },
            filters: reply.filters.map(|used| NdpFilterUse {
                missing: used.missing,
                dropped: used.dropped,
            }),
        })
    }

    fn decode_item(
        &self,
        what: &str,
        pages: usize,
        item: proto::NdpItem,
    ) -> Result<NdpItem, PageError> {
        use proto::NdpItemKind as Kind;
        let reason = match item.kind() {
            Kind::Reduced => return Ok(NdpItem::Reduced(item.payload)),
            Kind::DeclinedDescriptor => NdpDecline::Descriptor,
            Kind::DeclinedBusy => NdpDecline::Busy,
            Kind::DeclinedPage => NdpDecline::Page,
            Kind::DeclinedForced => NdpDecline::Forced,
            Kind::Unspecified => return Err(self.nonsense(what, "has an item of unknown kind")),
        };
        if item.index as usize >= pages || item.payload.len() != PAGE_SIZE {
            let (index, len) = (item.index, item.payload.len());
            return Err(self.nonsense(
                what,
                format_args!("declines page {index} of {pages} with {len} bytes"),
            ));
        }
        Ok(NdpItem::Declined {
            index: item.index,
            reason,
            page: item.payload,
        })
    }
}

fn encode_slice(slice: SliceKey) -> Option<proto::Slice> {
    Some(proto::Slice {
        db: slice.db.0,
        slice: slice.slice.0,
    })
}

/// Filters, with the content of as many as a message has room for.
fn encode_filters(filters: Vec<NdpFilter>, mut room: usize) -> Vec<proto::NdpFilter> {
    let encode = |filter: NdpFilter| {
        let content = filter.content.filter(|content| content.len() <= room);
        room -= content.as_ref().map_or(0, Bytes::len);
        proto::NdpFilter {
            hash: Bytes::copy_from_slice(&filter.hash.0),
            content,
        }
    };
    filters.into_iter().map(encode).collect()
}

fn decode_status(status: proto::SliceStatus) -> SliceStatus {
    SliceStatus {
        sequence: status.sequence,
        persistent_lsn: Lsn(status.persistent_lsn),
        consolidated_lsn: Lsn(status.consolidated_lsn),
        backlog_bytes: status.backlog_bytes,
        pages: status.pages,
    }
}

#[async_trait]
impl PageStore for PageStoreClient {
    async fn create_slice(&self, slice: SliceKey, epoch: u64) -> Result<(), PageError> {
        let what = format!("create {slice}");
        let message = proto::CreateSliceRequest {
            slice: encode_slice(slice),
            epoch,
        };
        self.call(&what, message, async |mut rpc, request| {
            rpc.create_slice(request).await
        })
        .await?;
        Ok(())
    }

    async fn delete_slice(&self, slice: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        let what = format!("delete {slice}");
        let message = proto::DeleteSliceRequest {
            slice: encode_slice(slice),
            epoch,
            end: end.0,
        };
        let answer = self
            .call(&what, message, async |mut rpc, request| {
                rpc.delete_slice(request).await
            })
            .await?;
        Ok(answer.into_inner().deleted)
    }

    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        let what = format!("write fragment {} of {}", fragment.sequence, fragment.slice);
        if fragment.groups.len() > crate::MAX_FRAGMENT {
            let len = fragment.groups.len();
            return Err(PageError::Refused(format!(
                "{what}: {len} bytes are too many"
            )));
        }
        let message = proto::WriteLogsRequest {
            slice: encode_slice(fragment.slice),
            epoch: fragment.epoch,
            sequence: fragment.sequence,
            prev_lsn: fragment.prev_lsn.0,
            first_lsn: fragment.first_lsn.0,
            last_lsn: fragment.last_lsn.0,
            groups_crc: checksum(&fragment.groups),
            groups: fragment.groups,
        };
        let answer = self
            .call(&what, message, async |mut rpc, request| {
                rpc.write_logs(request).await
            })
            .await?;
        let status = decode_status(answer.into_inner());
        if status.sequence < fragment.sequence || status.persistent_lsn < fragment.last_lsn {
            return Err(self.nonsense(&what, format_args!("does not cover it: {status:?}")));
        }
        Ok(status)
    }

    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        let what = format!("read of {} pages of {}", read.pages.len(), read.slice);
        let expected = read.pages.len();
        let message = proto::ReadPagesRequest {
            slice: encode_slice(read.slice),
            epoch: read.epoch,
            lsn: read.lsn.0,
            pages: read.pages.iter().map(|p| p.0).collect(),
        };
        let mut stream = self
            .open(&self.rpc, &what, message, async |mut rpc, request| {
                rpc.read_pages(request).await
            })
            .await?;
        let mut pages = Vec::with_capacity(expected);
        while let Some(message) = self.next(&what, &mut stream).await? {
            pages.extend(message.pages);
            if pages.len() > expected {
                return Err(self.nonsense(&what, "has more pages"));
            }
        }
        if let Some(page) = pages.iter().find(|page| page.len() != PAGE_SIZE) {
            return Err(self.nonsense(&what, format_args!("has a page of {} bytes", page.len())));
        }
        if pages.len() < expected {
            return Err(self.nonsense(&what, format_args!("has only {} pages", pages.len())));
        }
        Ok(pages)
    }

    async fn ndp_read(&self, read: NdpRead) -> Result<NdpStream, PageError> {
        let what = format!("NDP read of {} pages of {}", read.pages.len(), read.slice);
        let pages = read.pages.len();
        let room = MAX_DESCRIPTOR.saturating_sub(read.descriptor.len());
        // No store takes a descriptor that no message holds; every store declines an empty one.
        let descriptor = match read.descriptor.len() {
            ..=MAX_DESCRIPTOR => read.descriptor,
            _ => Bytes::new(),
        };
        let message = proto::NdpReadRequest {
            slice: encode_slice(read.slice),
            epoch: read.epoch,
            lsn: read.lsn.0,
            pages: read.pages.iter().map(|p| p.0).collect(),
            descriptor,
            filters: encode_filters(read.filters, room),
            enough: read.enough,
        };
        let stream = self
            .open(&self.ndp, &what, message, async |mut rpc, request| {
                rpc.ndp_read(request).await
            })
            .await?;
        // A stream that failed is over; dropping it resets the call, which cancels the work.
        let state = (self.clone(), what, Some(stream));
        Ok(
            futures::stream::unfold(state, move |(client, what, stream)| async move {
                let mut stream = stream?;
                let reply = match client.next(&what, &mut stream).await {
                    Ok(None) => return None,
                    Ok(Some(message)) => client.decode_reply(&what, pages, message),
                    Err(error) => Err(error),
                };
                let rest = reply.is_ok().then_some(stream);
                Some((reply, (client, what, rest)))
            })
            .boxed(),
        )
    }

    async fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError> {
        let what = format!("set recycle LSN of {db}");
        let message = proto::SetRecycleLsnRequest {
            db: db.0,
            lsn: lsn.0,
        };
        self.call(&what, message, async |mut rpc, request| {
            rpc.set_recycle_lsn(request).await
        })
        .await?;
        Ok(())
    }

    async fn slice_status(&self, slice: SliceKey) -> Result<SliceStatus, PageError> {
        let what = format!("status of {slice}");
        let message = proto::GetSliceStatusRequest {
            slice: encode_slice(slice),
        };
        let answer = self
            .call(&what, message, async |mut rpc, request| {
                rpc.get_slice_status(request).await
            })
            .await?;
        Ok(decode_status(answer.into_inner()))
    }

    async fn status(&self) -> Result<StoreStatus, PageError> {
        let answer = self
            .call(
                "status",
                proto::GetStatusRequest {},
                async |mut rpc, request| rpc.get_status(request).await,
            )
            .await?
            .into_inner();
        let slices = answer
            .slices
            .into_iter()
            .map(|named| {
                let slice = named.slice?;
                let key = SliceKey {
                    db: DbId(slice.db),
                    slice: SliceId(slice.slice),
                };
                Some((key, decode_status(named.status?)))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("status", "names no slice"))?;
        Ok(StoreStatus {
            slices,
            live_bytes: answer.live_bytes,
            disk_bytes: answer.disk_bytes,
        })
    }

    async fn has_room(&self) -> Result<bool, PageError> {
        let message = proto::GetRoomRequest {};
        let asked = self.call("room", message, async |mut rpc, request| {
            rpc.get_room(request).await
        });
        match asked.await {
            Ok(answer) => Ok(answer.into_inner().has_room),
            // An older store does not know the call.
            Err(PageError::Refused(_)) => Ok(true),
            Err(e) => Err(e),
        }
    }
    async fn capabilities(&self) -> Result<Capabilities, PageError> {
        let message = proto::GetCapabilitiesRequest {};
        let asked = self.call("capabilities", message, async |mut rpc, request| {
            rpc.get_capabilities(request).await
        });
        match asked.await {
            Ok(answer) => {
                let known = answer.into_inner();
                Ok(Capabilities {
                    descriptor: known.descriptor_version,
                    expression: known.expression_version,
                    filter: known.filter_version,
                })
            }
            // An older store does not know the call.
            Err(PageError::Refused(_)) => Ok(Capabilities::OLDEST),
            Err(e) => Err(e),
        }
    }
}
