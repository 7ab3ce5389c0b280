//! Requests to an OpenTelemetry collector: `MetricsService.Export` of gRPC, over HTTP/2, plain or with TLS.

use std::fmt::Display;
use std::path::PathBuf;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Uri};
use net::{Stream, tls};
use tokio::net::TcpStream;

use crate::config::Metrics;

/// Path of the method.
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Paths of the trusted certificate authorities of systems: Debian, Red Hat, SUSE.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Most bytes that are read of a response.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends requests to the configured collector, one after the other over one connection.
///
/// # Errors
/// The collector is not reached, or refuses. The text contains the cause.
pub(super) async fn export(settings: &Metrics, requests: Vec<Vec<u8>>) -> Result<(), String> {
    let uri: Uri = format!("{}{EXPORT}", settings.otlp_target).parse().map_err(text)?;
    let authority = uri.authority().ok_or("the target has no address")?;
    let (host, port) = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(4317));
    let stream = TcpStream::connect((host, port)).await.map_err(text)?;
    let stream = match uri.scheme_str() {
        Some("https") => tls::connect_http2(host, stream, &trusted()?).await.map_err(text)?,
        _ => Stream::Plain(stream),
    };
    let (mut sender, connection) = h2::client::handshake(stream).await.map_err(text)?;
    let exports = async {
        for request in requests {
            sender = export_one(sender, &uri, settings, request).await?;
        }
        Ok(())
    };
    tokio::select! {
        biased;
        done = exports => done,
        ended = connection => Err(ended.map_or_else(text, |()| "the collector closed the connection".to_owned())),
    }
}

/// The file of the authorities that sign collectors' certificates: that of `SSL_CERT_FILE`, or else that of the system.
fn trusted() -> Result<PathBuf, String> {
    let set = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = SYSTEM_AUTHORITIES.into_iter().map(PathBuf::from);
    set.into_iter().chain(known).find(|path| path.exists()).ok_or_else(|| {
        format!("there is no file of trusted authorities: set SSL_CERT_FILE, or install one of {SYSTEM_AUTHORITIES:?}")
    })
}

async fn export_one(
    sender: SendRequest<Bytes>,
    uri: &Uri,
    settings: &Metrics,
    message: Vec<u8>,
) -> Result<SendRequest<Bytes>, String> {
    let mut sender = sender.ready().await.map_err(text)?;
    let mut request = http::Request::builder().method(Method::POST).uri(uri.clone());
    let own = [("content-type", "application/grpc"), ("te", "trailers")];
    for (name, value) in own.into_iter().chain(settings.otlp_headers()) {
        request = request.header(name.to_ascii_lowercase(), value);
    }
    let (answer, mut body) = sender.send_request(request.body(()).map_err(text)?, false).map_err(text)?;
    body.send_data(framed(message)?, true).map_err(text)?;
    let answer = answer.await.map_err(text)?;
    if !answer.status().is_success() {
        return Err(format!("HTTP status {}", answer.status()));
    }
    if let Some(refused) = refused(answer.headers()) {
        return refused.map(|()| sender);
    }
    let mut body = answer.into_body();
    let mut read = 0;
    while let Some(data) = body.data().await {
        let count = data.map_err(text)?.len();
        read += count;
        if read > ANSWER_BYTES_MAX {
            return Err("the answer is too long".to_owned());
        }
        body.flow_control().release_capacity(count).map_err(text)?;
    }
    let trailers = body.trailers().await.map_err(text)?.unwrap_or_default();
    refused(&trailers).unwrap_or_else(|| Err("the answer has no status".to_owned())).map(|()| sender)
}

/// A message with the prefix of gRPC: not compressed, and its length.
fn framed(message: Vec<u8>) -> Result<Bytes, String> {
    let length = u32::try_from(message.len()).map_err(text)?;
    let mut frame = vec![0];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&message);
    Ok(frame.into())
}

/// Returns the result in the status header, or `None` without a status.
fn refused(headers: &HeaderMap) -> Option<Result<(), String>> {
    let status = headers.get("grpc-status")?;
    if status.as_bytes() == b"0" {
        return Some(Ok(()));
    }
    let message =
        headers.get("grpc-message").map(|it| String::from_utf8_lossy(it.as_bytes())).unwrap_or_default();
    Some(Err(format!("gRPC status {}: {message}", String::from_utf8_lossy(status.as_bytes()))))
}

fn text(error: impl Display) -> String {
    error.to_string()
}
