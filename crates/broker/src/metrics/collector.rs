//! Requests to an OpenTelemetry collector: `MetricsService.Export` of gRPC, over HTTP/2, plain or with TLS.

use std::fmt::Display;
use std::path::PathBuf;

use grpc::Channel;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use net::{Stream, tls};
use tokio::net::TcpStream;

use super::otlp::Request;
use crate::config::Metrics;

/// Name of the service.
const SERVICE: &str = "opentelemetry.proto.collector.metrics.v1.MetricsService";

/// Paths of the trusted certificate authorities of systems: Debian, Red Hat, SUSE.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Most bytes of a message of a response.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends requests to the configured collector, one after the other over one connection.
///
/// # Errors
/// The collector is not reached, or refuses. The text contains the cause.
pub(super) async fn export(settings: &Metrics, requests: &[Request]) -> Result<(), String> {
    let uri: Uri = settings.otlp_target.parse().map_err(text)?;
    let authority = uri.authority().ok_or("the target has no address")?;
    let (host, port) = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(4317));
    let mut headers = HeaderMap::new();
    for (name, value) in settings.otlp_headers() {
        let value = HeaderValue::try_from(value).map_err(text)?;
        headers.append(HeaderName::try_from(name).map_err(text)?, value);
    }
    let stream = TcpStream::connect((host, port)).await.map_err(text)?;
    let stream = match uri.scheme_str() {
        Some("https") => tls::connect_http2(host, stream, &trusted()?).await.map_err(text)?,
        _ => Stream::Plain(stream),
    };
    let (channel, carried) = Channel::open(stream, &settings.otlp_target, headers).await.map_err(text)?;
    let exports = async {
        let method = channel.method_of(SERVICE, "Export", None)?;
        for request in requests {
            let mut answers = channel.call(&method, grpc::framed(request)).await?.limited(ANSWER_BYTES_MAX);
            // A message can only contain the number of rejected points, which no retry changes.
            while answers.next::<()>().await?.is_some() {}
        }
        Ok(())
    };
    let exported = tokio::select! {
        biased;
        exported = exports => exported,
        failure = carried => Err(failure),
    };
    exported.map_err(text)
}

/// The file of the authorities that sign collectors' certificates: that of `SSL_CERT_FILE`, or else that of the system.
fn trusted() -> Result<PathBuf, String> {
    let set = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = SYSTEM_AUTHORITIES.into_iter().map(PathBuf::from);
    set.into_iter().chain(known).find(|path| path.exists()).ok_or_else(|| {
        format!("there is no file of trusted authorities: set SSL_CERT_FILE, or install one of {SYSTEM_AUTHORITIES:?}")
    })
}

fn text(error: impl Display) -> String {
    error.to_string()
}
