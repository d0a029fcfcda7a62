//! A server of the files in a directory: GET and HEAD, whole or a range.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};

/// Serves the files of `dir` to those who connect to `listener`, for ever. Dropping the future ends
/// the connections too.
pub async fn serve(listener: TcpListener, dir: PathBuf) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(connection(socket, dir.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(socket: TcpStream, dir: PathBuf) {
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let dir = dir.clone();
        let answer = spawn_blocking(move || answer(&request, &dir));
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|_| failed())) }
    });
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a reader of files left: {error}");
    }
}

type Answer = Response<Full<Bytes>>;

fn answer<B>(request: &Request<B>, dir: &Path) -> Answer {
    let name = request.uri().path().trim_start_matches('/');
    // One directory, no way out of it.
    if name.contains('/') || name.starts_with('.') {
        return plain(StatusCode::NOT_FOUND);
    }
    let Ok(file) = File::open(dir.join(name)) else {
        return plain(StatusCode::NOT_FOUND);
    };
    let range = request.headers().get(RANGE);
    let range = range.and_then(|value| value.to_str().ok());
    respond(&file, range, request.method() == Method::HEAD).unwrap_or_else(|_| failed())
}

fn respond(file: &File, range: Option<&str>, head: bool) -> io::Result<Answer> {
    let len = file.metadata()?.len();
    let mut response = Response::builder().header(ACCEPT_RANGES, "bytes");
    let part = match range.map(|text| parse_range(text, len)) {
        None => 0..len,
        Some(None) => return Ok(plain(StatusCode::RANGE_NOT_SATISFIABLE)),
        Some(Some(part)) => {
            let Range { start, end } = part;
            let text = format!("bytes {start}-{}/{len}", end - 1);
            response = response
                .status(StatusCode::PARTIAL_CONTENT)
                .header(CONTENT_RANGE, text);
            part
        }
    };
    let len = part.end - part.start;
    let mut bytes = vec![0; if head { 0 } else { len as usize }];
    file.read_exact_at(&mut bytes, part.start)?;
    let response = response.header(CONTENT_LENGTH, len);
    Ok(response
        .body(Full::new(bytes.into()))
        .expect("the headers are valid"))
}

/// The part of a file that `bytes=…` asks for, if it is one and not empty.
fn parse_range(text: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (first, last) {
        ("", suffix) => len.saturating_sub(suffix.parse().ok()?)..len,
        (first, "") => first.parse().ok()?..len,
        (first, last) => {
            let last: u64 = last.parse().ok()?;
            first.parse().ok()?..last.saturating_add(1).min(len)
        }
    };
    (range.start < range.end).then_some(range)
}

fn failed() -> Answer {
    plain(StatusCode::INTERNAL_SERVER_ERROR)
}

fn plain(status: StatusCode) -> Answer {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_in_the_file() {
        for (text, range) in [
            ("bytes=0-9", Some(0..10)),
            ("bytes=5-", Some(5..100)),
            ("bytes=-8", Some(92..100)),
            ("bytes=-800", Some(0..100)),
            ("bytes=90-1000", Some(90..100)),
            ("bytes=100-", None),
            ("bytes=7-5", None),
            ("bytes=-0", None),
            ("bytes=a-b", None),
            ("lines=0-9", None),
        ] {
            assert_eq!(parse_range(text, 100), range, "{text}");
        }
    }
}
