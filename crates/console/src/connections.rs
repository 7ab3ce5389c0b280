//! Connections of browsers: how many there are at once, TLS, and how long each part of a request may take.

use crate::app::App;
use crate::server::handle;
use http::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{Admission, ConnectionLimits};
use std::net::{IpAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Most connections at once; further connections get an error and are closed.
const CONNECTIONS_MAX: usize = 256;
/// Most connections of an address at once, so that a single client does not block further clients. A browser opens at most six.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 64;
/// Time within which the head of a request must have come, and an idle connection must be used again.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Age from which on a connection serves only its running request, so that no client holds a
/// connection for ever.
const LIFE: Duration = Duration::from_secs(600);
/// Time that a running request still gets when its connection reaches [`LIFE`].
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted, as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// Response to a connection above the limit.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 25\r\n\r\nToo many open connections";

/// Accepts connections for ever.
pub(crate) async fn serve(listener: TcpListener, app: Arc<App>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the console stopped"),
    };
    let places = Arc::new(Admission::new(ConnectionLimits {
        total: CONNECTIONS_MAX,
        per_address: CONNECTIONS_PER_ADDRESS_MAX,
        ..ConnectionLimits::default()
    }));
    let mut connections = JoinSet::new();
    loop {
        let (mut stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the console cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let Some(place) = places.enter(peer.ip(), false) else {
            // It fits into the empty buffer of the socket, or is not said.
            let _ = tokio::time::timeout(PAUSE, stream.write_all(BUSY)).await;
            continue;
        };
        let app = app.clone();
        connections.spawn(async move {
            connection(app, stream, peer.ip()).await;
            drop(place);
        });
    }
}

async fn connection(app: Arc<App>, stream: TcpStream, peer: IpAddr) {
    match app.config.tls.clone() {
        None => requests(app, stream, peer).await,
        Some(tls) => match tls.secured(stream).await {
            Ok(stream) => requests(app, stream, peer).await,
            Err(error) => tracing::debug!(%peer, %error, "no TLS with a browser of the console"),
        },
    }
}

/// Serves the requests of a connection until it ends.
async fn requests(app: Arc<App>, stream: impl AsyncRead + AsyncWrite + Unpin, peer: IpAddr) {
    let service = service_fn(move |request: Request<_>| handle(app.clone(), peer, request));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    let mut served = pin!(server.serve_connection(TokioIo::new(stream), service));
    // How a connection ends is the browser's affair.
    if tokio::time::timeout(LIFE, served.as_mut()).await.is_err() {
        served.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(END_TIMEOUT, served).await;
    }
}
