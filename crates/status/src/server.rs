//! The HTTP server: few paths, nothing that changes anything, and bounds on all that a client can take:
//! bytes of a request, time of a connection, and connections. Who is slow or sends nonsense takes one
//! place among those who look, for seconds, and nothing from those who work.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{Source, exposition, page, text};

/// Connections at once; more wait to be accepted.
const CONNECTIONS: usize = 32;

/// How long a client may take to send the head of its request.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// How long a connection lives. Each is for one request.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Bytes of a request's head, at most.
const HEAD_BYTES: usize = 16 << 10;

/// How long to wait when connections cannot be accepted: there may be no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Media type of all that is neither the page nor metrics.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves what `source` tells to those who connect to `listener`, for ever. Dropping the future ends
/// the connections too.
pub async fn serve(listener: TcpListener, source: Arc<dyn Source>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let place = places.clone().acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((socket, _)) => {
                let source = source.clone();
                connections.spawn(async move {
                    let _place = place;
                    // Whoever takes longer is dropped in the middle of it.
                    let _ = timeout(CONNECTION_TIME, connection(socket, source)).await;
                });
            }
            Err(error) => {
                tracing::warn!("a look at the status cannot be served: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        // Those that have ended need no more room.
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(socket: TcpStream, source: Arc<dyn Source>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &*source);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a look at the status ends with an error: {error}");
    }
}

/// The answer to a request. To a HEAD hyper sends all of it but the body.
fn answer<B>(request: &Request<B>, source: &dyn Source) -> Response<String> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "only GET and HEAD are served here\n";
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, PLAIN, text.to_owned());
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    match request.uri().path() {
        "/" => {
            let query = request.uri().query();
            let shown = page::page(&source.report(), &source.health(), query);
            response(StatusCode::OK, page::MEDIA_TYPE, shown)
        }
        "/metrics" => {
            let metrics = exposition(&source.report().metrics);
            response(StatusCode::OK, text::MEDIA_TYPE, metrics)
        }
        "/healthz" => match source.health() {
            Ok(()) => response(StatusCode::OK, PLAIN, "ok\n".to_owned()),
            Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        _ => {
            let text = "there are /, /metrics and /healthz\n";
            response(StatusCode::NOT_FOUND, PLAIN, text.to_owned())
        }
    }
}

fn response(status: StatusCode, media_type: &'static str, body: String) -> Response<String> {
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, media_type)
        .header(CACHE_CONTROL, "no-store")
        .header(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        )
        .body(body)
        .expect("the headers are valid")
}
