//! The client half: a [`LogStore`] in another process.
//!
//! Invariants:
//! - every call has a deadline, which the server learns too; when it passes, the call fails with
//!   [`LogError::Unavailable`] and its outcome is unknown;
//! - nothing is retried here: only the caller knows whether its append is still the next one;
//! - answers are checked before they are believed.
//!
//! The connection is made by the first call and made again by the first call after it broke.

use std::time::Duration;

use async_trait::async_trait;
use perigee_types::{DbId, Lsn, PlogId, checksum};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::proto::log_store_client;
use crate::server::{FRAME_LEN, STREAM_WINDOW};
use crate::status::from_status;
use crate::{Append, LogEntry, LogError, LogStore, MAX_MESSAGE, PlogInfo, PlogKey, proto};

/// How long a [`LogStoreClient`] waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// For a TCP connection to be made.
    pub connect_timeout: Duration,
    /// For the answer to a short call: create, append, seal, list, delete.
    pub call_timeout: Duration,
    /// For all of a read.
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

/// A Log Store reached over gRPC. Clones share one connection.
#[derive(Clone, Debug)]
pub struct LogStoreClient {
    rpc: log_store_client::LogStoreClient<Channel>,
    address: String,
    config: ClientConfig,
}

impl LogStoreClient {
    /// A client of the Log Store at `address`, for example `http://127.0.0.1:7301`. Does not
    /// connect yet; must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`LogError::Refused`] if `address` is not a URI.
    pub fn new(address: &str, config: ClientConfig) -> Result<Self, LogError> {
        let endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(|e| LogError::Refused(format!("{address} is no address: {e}")))?
            .connect_timeout(config.connect_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(2 * STREAM_WINDOW)
            .max_frame_size(FRAME_LEN)
            .http2_keep_alive_interval(config.keepalive_interval)
            .keep_alive_timeout(config.keepalive_timeout)
            .keep_alive_while_idle(true);
        Ok(Self::with_channel(endpoint.connect_lazy(), address, config))
    }

    /// A client over a channel made elsewhere; `name` names the store in errors.
    #[must_use]
    pub fn with_channel(channel: Channel, name: &str, config: ClientConfig) -> Self {
        let rpc = log_store_client::LogStoreClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Self {
            rpc,
            address: name.to_owned(),
            config,
        }
    }

    /// Runs `call` with `message` under `deadline`, which is also told to the server.
    async fn call<M, T>(
        &self,
        what: &str,
        deadline: Duration,
        message: M,
        call: impl AsyncFnOnce(
            log_store_client::LogStoreClient<Channel>,
            Request<M>,
        ) -> Result<T, Status>,
    ) -> Result<T, LogError> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        match tokio::time::timeout(deadline, call(self.rpc.clone(), request)).await {
            Ok(answer) => answer
                .map_err(|status| from_status(&status, &format!("{what} at {}", self.address))),
            Err(_) => Err(LogError::Unavailable(format!(
                "{what} at {}: no answer within {deadline:?}",
                self.address
            ))),
        }
    }

    /// An answer that contradicts itself or its request.
    fn nonsense(&self, what: &str, detail: impl std::fmt::Display) -> LogError {
        LogError::Corrupt(format!("{what} at {}: answer {detail}", self.address))
    }

    /// Checks an entry that should begin at `expected`.
    fn decode_entry(
        &self,
        plog: PlogKey,
        expected: u64,
        entry: proto::Entry,
    ) -> Result<LogEntry, LogError> {
        let what = || format!("read of {plog} at {expected}");
        let end = entry.offset.checked_add(entry.payload.len() as u64);
        if entry.offset != expected || end != Some(entry.next_offset) || entry.payload.is_empty() {
            let (from, to) = (entry.offset, entry.next_offset);
            return Err(self.nonsense(&what(), format_args!("has an entry at {from}..{to}")));
        }
        if checksum(&entry.payload) != entry.payload_crc {
            return Err(self.nonsense(&what(), "changed on its way"));
        }
        if entry.first_lsn == 0 || entry.first_lsn > entry.last_lsn {
            let (first, last) = (Lsn(entry.first_lsn), Lsn(entry.last_lsn));
            return Err(self.nonsense(&what(), format_args!("has groups {first} to {last}")));
        }
        Ok(LogEntry {
            offset: entry.offset,
            next_offset: entry.next_offset,
            first_lsn: Lsn(entry.first_lsn),
            last_lsn: Lsn(entry.last_lsn),
            payload: entry.payload,
        })
    }
}

#[async_trait]
impl LogStore for LogStoreClient {
    async fn begin_epoch(&self, db: DbId) -> Result<u64, LogError> {
        let message = proto::BeginEpochRequest { db: db.0 };
        let what = format!("new epoch of {db}");
        let deadline = self.config.call_timeout;
        let answer = self
            .call(&what, deadline, message, async |mut rpc, request| {
                rpc.begin_epoch(request).await
            })
            .await?;
        Ok(answer.into_inner().epoch)
    }

    async fn await_epoch(&self, db: DbId, epoch: u64, wait: Duration) -> Result<u64, LogError> {
        let message = proto::AwaitEpochRequest {
            db: db.0,
            epoch,
            wait_millis: wait.as_millis().try_into().unwrap_or(u64::MAX),
        };
        let what = format!("epoch of {db}");
        let deadline = self.config.call_timeout.saturating_add(wait);
        let answer = self
            .call(&what, deadline, message, async |mut rpc, request| {
                rpc.await_epoch(request).await
            })
            .await?;
        Ok(answer.into_inner().epoch)
    }

    async fn create_plog(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError> {
        let message = proto::CreatePlogRequest {
            db: plog.db.0,
            plog: plog.plog.0,
            epoch,
        };
        let what = format!("create {plog}");
        self.call(
            &what,
            self.config.call_timeout,
            message,
            async |mut rpc, request| rpc.create_plog(request).await,
        )
        .await?;
        Ok(())
    }

    async fn append(&self, append: Append) -> Result<u64, LogError> {
        let Append {
            plog,
            epoch,
            offset,
            first_lsn,
            last_lsn,
            payload,
        } = append;
        let what = format!("append to {plog} at {offset}");
        let end = offset.checked_add(payload.len() as u64);
        let message = proto::AppendRequest {
            db: plog.db.0,
            plog: plog.plog.0,
            epoch,
            offset,
            first_lsn: first_lsn.0,
            last_lsn: last_lsn.0,
            payload_crc: checksum(&payload),
            payload,
        };
        let answer = self
            .call(
                &what,
                self.config.call_timeout,
                message,
                async |mut rpc, request| rpc.append(request).await,
            )
            .await?
            .into_inner();
        if Some(answer.end) != end {
            return Err(self.nonsense(&what, format_args!("says the PLog ends at {}", answer.end)));
        }
        Ok(answer.end)
    }

    async fn read(
        &self,
        plog: PlogKey,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<LogEntry>, LogError> {
        let message = proto::ReadRequest {
            db: plog.db.0,
            plog: plog.plog.0,
            offset,
            max_bytes,
        };
        let what = format!("read of {plog} at {offset}");
        let messages = self
            .call(
                &what,
                self.config.read_timeout,
                message,
                async |mut rpc, request| {
                    let mut messages = rpc.read(request).await?.into_inner();
                    let mut all = Vec::new();
                    while let Some(message) = messages.message().await? {
                        all.extend(message.entries);
                    }
                    Ok(all)
                },
            )
            .await?;
        let mut entries: Vec<LogEntry> = Vec::with_capacity(messages.len());
        for entry in messages {
            let expected = entries.last().map_or(offset, |e| e.next_offset);
            entries.push(self.decode_entry(plog, expected, entry)?);
        }
        Ok(entries)
    }

    async fn seal(&self, plog: PlogKey, epoch: u64) -> Result<u64, LogError> {
        let message = proto::SealRequest {
            db: plog.db.0,
            plog: plog.plog.0,
            epoch,
        };
        let what = format!("seal {plog}");
        let answer = self
            .call(
                &what,
                self.config.call_timeout,
                message,
                async |mut rpc, request| rpc.seal(request).await,
            )
            .await?;
        Ok(answer.into_inner().length)
    }

    async fn list(&self, db: DbId) -> Result<Vec<PlogInfo>, LogError> {
        let what = format!("list {db}");
        let message = proto::ListRequest { db: db.0 };
        let answer = self
            .call(
                &what,
                self.config.call_timeout,
                message,
                async |mut rpc, request| rpc.list(request).await,
            )
            .await?
            .into_inner();
        let infos: Vec<PlogInfo> = answer
            .plogs
            .into_iter()
            .map(|info| PlogInfo {
                plog: PlogKey {
                    db,
                    plog: PlogId(info.plog),
                },
                epoch: info.epoch,
                length: info.length,
                sealed: info.sealed,
                first_lsn: Lsn(info.first_lsn),
                last_lsn: Lsn(info.last_lsn),
            })
            .collect();
        if !infos.is_sorted_by(|a, b| a.plog < b.plog) {
            return Err(self.nonsense(&what, "is not in id order"));
        }
        Ok(infos)
    }

    async fn delete(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError> {
        let message = proto::DeleteRequest {
            db: plog.db.0,
            plog: plog.plog.0,
            epoch,
        };
        let what = format!("delete {plog}");
        self.call(
            &what,
            self.config.call_timeout,
            message,
            async |mut rpc, request| rpc.delete(request).await,
        )
        .await?;
        Ok(())
    }

    async fn has_room(&self) -> Result<bool, LogError> {
        let message = proto::GetRoomRequest {};
        let asked = self.call(
            "room",
            self.config.call_timeout,
            message,
            async |mut rpc, request| rpc.get_room(request).await,
        );
        match asked.await {
            Ok(answer) => Ok(answer.into_inner().has_room),
            // An older store does not know the call.
            Err(LogError::Refused(_)) => Ok(true),
            Err(e) => Err(e),
        }
    }
}
