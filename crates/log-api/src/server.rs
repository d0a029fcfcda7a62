//! The server half: any [`LogStore`] as a gRPC service.
//!
//! It translates and checks messages and knows no files. A client that goes away, or whose deadline
//! passes, drops the call; by the contract of [`LogStore`] that is safe at any point.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream};
use futures::{StreamExt, TryFutureExt};
use perigee_types::{DbId, Lsn, PlogId, checksum};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::proto::log_store_server;
use crate::status::to_status;
use crate::{Append, LogEntry, LogError, LogStore, MAX_MESSAGE, PlogInfo, PlogKey, proto};

/// Small entries are sent together until a message has about this many bytes.
const READ_MESSAGE: usize = 1 << 20;

/// Longest time for which a call waits for an epoch: a server that ends waits for its calls.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Calls one connection may have running at once; more wait in the client.
const CALLS_PER_CONNECTION: u32 = 256;

/// Pause after a failure to accept: too many files are open, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// HTTP/2 window of one call and, doubled, of one connection: at 1 GiB/s over a round trip of
/// 8 ms, 8 MiB are on their way.
pub(crate) const STREAM_WINDOW: u32 = 8 << 20;

/// HTTP/2 frame length: large frames cost less per byte, and appends are up to some MiB.
pub(crate) const FRAME_LEN: u32 = 1 << 20;

/// The gRPC service that [`serve`] makes, to be added to a [`Server`].
pub type LogStoreServer = log_store_server::LogStoreServer<Adapter>;

/// Offers `store` as a gRPC service, to be mounted with [`Server::add_service`].
pub fn serve(store: Arc<dyn LogStore>) -> LogStoreServer {
    LogStoreServer::new(Adapter { store })
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE)
}

/// A [`Server`] with the transport settings a Log Store wants: wide windows, keepalive that finds
/// dead clients, and a bound on the calls of one connection. To be fed by [`connections`].
pub fn transport() -> Server {
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(2 * STREAM_WINDOW)
        .max_frame_size(FRAME_LEN)
        .max_concurrent_streams(CALLS_PER_CONNECTION)
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
}

/// The connections that `listener` accepts, for [`Server`]'s `serve_with_incoming`. Answers are
/// sent at once: held back to be joined with later ones, an append would take 40 ms.
pub fn connections(
    listener: TcpListener,
) -> impl Stream<Item = io::Result<TcpStream>> + Send + 'static {
    stream::unfold(listener, async |listener| {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let socket = socket.set_nodelay(true).map(|()| socket);
                    return Some((socket, listener));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    })
}

/// Translates between messages and the trait.
pub struct Adapter {
    store: Arc<dyn LogStore>,
}

fn key(db: u32, plog: u64) -> PlogKey {
    PlogKey {
        db: DbId(db),
        plog: PlogId(plog),
    }
}

#[tonic::async_trait]
impl log_store_server::LogStore for Adapter {
    async fn begin_epoch(
        &self,
        request: Request<proto::BeginEpochRequest>,
    ) -> Result<Response<proto::EpochResponse>, Status> {
        let db = DbId(request.into_inner().db);
        let epoch = self.store.begin_epoch(db).map_err(|e| to_status(&e));
        let epoch = epoch.await?;
        Ok(Response::new(proto::EpochResponse { epoch }))
    }

    async fn await_epoch(
        &self,
        request: Request<proto::AwaitEpochRequest>,
    ) -> Result<Response<proto::EpochResponse>, Status> {
        let r = request.into_inner();
        let wait = Duration::from_millis(r.wait_millis).min(LONGEST_WAIT);
        let epoch = self.store.await_epoch(DbId(r.db), r.epoch, wait);
        let epoch = epoch.map_err(|e| to_status(&e)).await?;
        Ok(Response::new(proto::EpochResponse { epoch }))
    }

    async fn create_plog(
        &self,
        request: Request<proto::CreatePlogRequest>,
    ) -> Result<Response<proto::CreatePlogResponse>, Status> {
        let r = request.into_inner();
        self.store
            .create_plog(key(r.db, r.plog), r.epoch)
            .map_err(|e| to_status(&e))
            .await?;
        Ok(Response::new(proto::CreatePlogResponse {}))
    }

    async fn append(
        &self,
        request: Request<proto::AppendRequest>,
    ) -> Result<Response<proto::AppendResponse>, Status> {
        let r = request.into_inner();
        let plog = key(r.db, r.plog);
        if checksum(&r.payload) != r.payload_crc {
            let text = format!(
                "append to {plog} at {}: payload changed on its way",
                r.offset
            );
            return Err(to_status(&LogError::Corrupt(text)));
        }
        let append = Append {
            plog,
            epoch: r.epoch,
            offset: r.offset,
            first_lsn: Lsn(r.first_lsn),
            last_lsn: Lsn(r.last_lsn),
            payload: r.payload,
        };
        let end = self.store.append(append).map_err(|e| to_status(&e)).await?;
        Ok(Response::new(proto::AppendResponse { end }))
    }

    type ReadStream = BoxStream<'static, Result<proto::ReadResponse, Status>>;

    async fn read(
        &self,
        request: Request<proto::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let r = request.into_inner();
        let entries = self
            .store
            .read(key(r.db, r.plog), r.offset, r.max_bytes)
            .map_err(|e| to_status(&e))
            .await?;
        // Messages are made one by one as the client takes them.
        let mut rest = entries.into_iter().map(encode_entry).peekable();
        let messages = std::iter::from_fn(move || {
            let mut message = proto::ReadResponse {
                entries: vec![rest.next()?],
            };
            let mut bytes = message.entries[0].payload.len();
            while let Some(entry) =
                rest.next_if(|e| bytes + e.payload.len() + ENTRY_FIELDS <= READ_MESSAGE)
            {
                bytes += entry.payload.len() + ENTRY_FIELDS;
                message.entries.push(entry);
            }
            Some(Ok(message))
        });
        Ok(Response::new(stream::iter(messages).boxed()))
    }

    async fn seal(
        &self,
        request: Request<proto::SealRequest>,
    ) -> Result<Response<proto::SealResponse>, Status> {
        let r = request.into_inner();
        let length = self
            .store
            .seal(key(r.db, r.plog), r.epoch)
            .map_err(|e| to_status(&e))
            .await?;
        Ok(Response::new(proto::SealResponse { length }))
    }

    async fn list(
        &self,
        request: Request<proto::ListRequest>,
    ) -> Result<Response<proto::ListResponse>, Status> {
        let db = DbId(request.into_inner().db);
        let plogs = self.store.list(db).map_err(|e| to_status(&e)).await?;
        let plogs = plogs.into_iter().map(encode_info).collect();
        Ok(Response::new(proto::ListResponse { plogs }))
    }

    async fn delete(
        &self,
        request: Request<proto::DeleteRequest>,
    ) -> Result<Response<proto::DeleteResponse>, Status> {
        let r = request.into_inner();
        self.store
            .delete(key(r.db, r.plog), r.epoch)
            .map_err(|e| to_status(&e))
            .await?;
        Ok(Response::new(proto::DeleteResponse {}))
    }

    async fn get_room(
        &self,
        _: Request<proto::GetRoomRequest>,
    ) -> Result<Response<proto::GetRoomResponse>, Status> {
        let has_room = self.store.has_room().await.map_err(|e| to_status(&e))?;
        Ok(Response::new(proto::GetRoomResponse { has_room }))
    }
}

/// No less than the encoded length of an entry's fields other than the payload: four varints of up
/// to eleven bytes, a tagged fixed32, and two length prefixes of up to six.
const ENTRY_FIELDS: usize = 64;

fn encode_entry(entry: LogEntry) -> proto::Entry {
    proto::Entry {
        offset: entry.offset,
        next_offset: entry.next_offset,
        first_lsn: entry.first_lsn.0,
        last_lsn: entry.last_lsn.0,
        payload_crc: checksum(&entry.payload),
        payload: entry.payload,
    }
}

fn encode_info(info: PlogInfo) -> proto::Plog {
    proto::Plog {
        plog: info.plog.plog.0,
        epoch: info.epoch,
        length: info.length,
        sealed: info.sealed,
        first_lsn: info.first_lsn.0,
        last_lsn: info.last_lsn.0,
    }
}
