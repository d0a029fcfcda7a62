//! What DataFusion reads files through: a store of objects that asks an HTTP server for ranges.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HOST, RANGE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;

/// Files that a server has. They are only read.
pub struct HttpFiles {
    address: SocketAddr,
    /// Connections on which nothing is under way.
    idle: Mutex<Vec<Connection>>,
}

type Connection = SendRequest<Empty<Bytes>>;

impl HttpFiles {
    /// The files of the server at an address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            idle: Mutex::default(),
        }
    }

    /// The whole answer to a request.
    async fn request(
        &self,
        method: Method,
        location: &Path,
        range: Option<&GetRange>,
    ) -> std::result::Result<Response<Bytes>, Broken> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/{location}"))
            .header(HOST, self.address.to_string());
        if let Some(range) = range {
            request = request.header(RANGE, range_text(range));
        }
        let mut connection = self.connection().await?;
        let response = connection.send_request(request.body(Empty::new())?).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        self.idle.lock().push(connection);
        Ok(Response::from_parts(head, body))
    }

    fn cannot(&self, operation: &str) -> Error {
        Error::NotImplemented {
            operation: operation.to_owned(),
            implementer: self.to_string(),
        }
    }

    async fn connection(&self) -> std::result::Result<Connection, Broken> {
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                // A connection is ready as soon as it has taken in the end of the last answer.
                Some(mut connection) => {
                    if connection.ready().await.is_ok() {
                        return Ok(connection);
                    }
                }
                None => break,
            }
        }
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(socket)).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

impl fmt::Display for HttpFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the files at http://{}", self.address)
    }
}

impl fmt::Debug for HttpFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why there is no answer.
type Broken = Box<dyn std::error::Error + Send + Sync>;

fn generic(source: Broken) -> Error {
    let store = "HTTP";
    Error::Generic { store, source }
}

fn range_text(range: &GetRange) -> String {
    match range {
        GetRange::Bounded(Range { start, end }) => format!("bytes={start}-{}", end - 1),
        GetRange::Offset(start) => format!("bytes={start}-"),
        GetRange::Suffix(len) => format!("bytes=-{len}"),
    }
}

/// The part of the file that an answer has, and the file's length.
fn part_of(response: &Response<Bytes>) -> Option<(Range<u64>, u64)> {
    let header = |name| response.headers().get(name)?.to_str().ok();
    if response.status() != StatusCode::PARTIAL_CONTENT {
        let len = header(CONTENT_LENGTH)?.parse().ok()?;
        return Some((0..len, len));
    }
    let (part, len) = header(CONTENT_RANGE)?
        .strip_prefix("bytes ")?
        .split_once('/')?;
    let (first, last) = part.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first..last + 1, len.parse().ok()?))
}

#[async_trait]
impl ObjectStore for HttpFiles {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let method = match options.head {
            true => Method::HEAD,
            false => Method::GET,
        };
        let answered = self.request(method, location, options.range.as_ref()).await;
        let response = answered.map_err(generic)?;
        let status = response.status();
        if !status.is_success() {
            let source = format!("the server answers {status}").into();
            return Err(match status {
                StatusCode::NOT_FOUND => Error::NotFound {
                    path: location.to_string(),
                    source,
                },
                _ => generic(source),
            });
        }
        let part = part_of(&response);
        let (range, size) = part.ok_or_else(|| generic("an answer of no length".into()))?;
        let body = response.into_body();
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::once(async { Ok(body) }).boxed()),
            meta: ObjectMeta {
                location: location.clone(),
                last_modified: Default::default(),
                size,
                e_tag: None,
                version: None,
            },
            range,
            attributes: Attributes::default(),
        })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(self.cannot("put"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(self.cannot("put"))
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(self.cannot("delete"))]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(self.cannot("list"))]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(self.cannot("list"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(self.cannot("copy"))
    }
}
