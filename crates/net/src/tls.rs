//! TLS with RocketMQ's settings (`TlsSystemConfig`, `TlsHelper`): which connections are encrypted, with which certificate,
//! and which certificates are trusted.

mod files;
mod settings;
mod sources;
#[cfg(test)]
mod tests;
mod trust;
mod validity;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor, TlsConnector, TlsStream};

use crate::stream::Stream;
use crate::{ConnectionPermit, TrustedProxies};

pub use settings::{ClientAuth, KeyPair, TlsError, TlsMode, TlsSettings};
pub use sources::TlsSources;

/// Longest duration of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 10 });

/// Least time between two checks of the certificate files; a new connection triggers a check.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// TLS settings of a process's connections. Connections of a kind without settings are not encrypted.
#[derive(Clone, Default)]
pub struct Security {
    /// TLS of accepted connections. Without it a TLS hello ends the connection.
    pub server: Option<Arc<ServerTls>>,
    /// TLS of dialed connections. Without it they are plain.
    pub client: Option<Arc<ClientTls>>,
    /// TLS of the connections of replication, both ends. Without it they are plain.
    pub replication: Option<Arc<Security>>,
    /// Proxies whose PROXY preambles are accepted.
    pub proxies: TrustedProxies,
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (server, client) = (self.server.is_some(), self.client.is_some());
        f.debug_struct("Security")
            .field("server", &server)
            .field("client", &client)
            .field("replication", &self.replication)
            .field("proxies", &self.proxies)
            .finish()
    }
}

impl Security {
    /// Loads the certificates that the settings name.
    ///
    /// # Errors
    /// [`TlsError::File`] when a file cannot be read or has other content; [`TlsError::Setting`] when a cipher or protocol is
    /// unknown; [`TlsError::Rustls`] when certificate and key cannot be used.
    pub fn new(settings: &TlsSettings) -> Result<Self, TlsError> {
        let server = match settings.mode {
            TlsMode::Disabled => None,
            _ => Some(Arc::new(ServerTls::new(settings)?)),
        };
        let encrypts = settings.client_enabled.unwrap_or(settings.mode == TlsMode::Enforcing);
        let client = encrypts.then(|| ClientTls::new(settings).map(Arc::new)).transpose()?;
        let of_replication = settings.of_replication();
        let replication = of_replication.map(|it| Self::new(&it).map(Arc::new)).transpose()?;
        Ok(Self { server, client, replication, proxies: TrustedProxies::default() })
    }

    /// Whether every server that is dialed must show a certificate of a trusted authority.
    pub fn checks_servers(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.checks_servers)
    }
}

/// The server side of TLS. Certificates are loaded again when their files change.
pub struct ServerTls {
    settings: TlsSettings,
    loaded: Mutex<LoadedConfig>,
}

struct LoadedConfig {
    config: Arc<ServerConfig>,
    /// Modification times of the certificate files when they were loaded.
    stamps: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl ServerTls {
    fn new(settings: &TlsSettings) -> Result<Self, TlsError> {
        let stamps = settings.stamps();
        let config = files::server_config(settings)?;
        let loaded = Mutex::new(LoadedConfig { config, stamps, looked: Instant::now() });
        Ok(Self { settings: settings.clone(), loaded })
    }

    /// Whether plain connections are refused.
    pub(crate) fn is_required(&self) -> bool {
        self.settings.mode == TlsMode::Enforcing
    }

    /// Performs the handshake of a connection that is served outside [`Workers`](crate::Workers), such as a
    /// browser's.
    ///
    /// # Errors
    /// The handshake fails or takes too long.
    pub async fn secured(&self, stream: TcpStream) -> io::Result<Stream> {
        let stream = in_time(TlsAcceptor::from(self.current()).accept(stream)).await?;
        Ok(Stream::Tls(Box::new(TlsStream::Server(stream))))
    }

    /// Performs the handshake of an accepted connection, and returns whether it speaks HTTP/2. If HTTP/2 is offered
    /// and the client offers protocols, the client must offer `h2`. A handshake counts after the client's hello is
    /// complete. A client that sends less costs no signature, and takes no handshake from others.
    ///
    /// # Errors
    /// The handshake failed, took too long, or is above the limit of handshakes per second.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        permit: &ConnectionPermit,
        offers_http2: bool,
    ) -> io::Result<(Stream, bool)> {
        let handshake = async {
            let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
            if !permit.begin_tls().await {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let mut config = self.current();
            if offers_http2 {
                Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
            }
            hello.into_stream(config).await
        };
        let stream = in_time(handshake).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Stream::Tls(Box::new(TlsStream::Server(stream))), is_http2))
    }

    /// Returns the configuration, loaded again after a change of a file. If loading fails, the old configuration
    /// stays in use.
    fn current(&self) -> Arc<ServerConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= RELOAD_INTERVAL {
            loaded.looked = Instant::now();
            let stamps = self.settings.stamps();
            if stamps != loaded.stamps {
                loaded.stamps = stamps;
                match files::server_config(&self.settings) {
                    Ok(config) => {
                        loaded.config = config;
                        tracing::info!("the TLS certificates changed and were read again");
                    }
                    Err(error) => {
                        tracing::error!(%error, "the changed TLS certificates cannot be used; the old ones stay")
                    }
                }
            }
        }
        loaded.config.clone()
    }
}

/// The client side of TLS.
pub struct ClientTls {
    config: Arc<ClientConfig>,
    checks_servers: bool,
}

impl ClientTls {
    fn new(settings: &TlsSettings) -> Result<Self, TlsError> {
        Ok(Self { config: files::client_config(settings)?, checks_servers: settings.checks_servers() })
    }

    /// Performs the handshake of a dialed connection.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<Stream> {
        Self::handshake(self.config.clone(), stream).await
    }

    /// Performs the handshake of a dialed HTTP/2 connection, which offers `h2`.
    pub(crate) async fn connect_http2(&self, stream: TcpStream) -> io::Result<Stream> {
        let mut config = self.config.clone();
        Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
        Self::handshake(config, stream).await
    }

    async fn handshake(config: Arc<ClientConfig>, stream: TcpStream) -> io::Result<Stream> {
        let name = stream.peer_addr()?.ip().into();
        let handshake = TlsConnector::from(config).connect(name, stream);
        let stream = in_time(handshake).await?;
        Ok(Stream::Tls(Box::new(TlsStream::Client(stream))))
    }
}

/// Performs the handshake of a dialed connection to an HTTP/2 server. The server must show a certificate for the name
/// `host`, signed by an authority in the file `trust`.
///
/// # Errors
/// The file cannot be read or has no certificate. The server has another certificate. The handshake failed or took
/// too long.
pub async fn connect_http2(host: &str, stream: TcpStream, trust: &Path) -> io::Result<Stream> {
    let config = files::http2_config(trust).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = in_time(TlsConnector::from(config).connect(name, stream)).await?;
    Ok(Stream::Tls(Box::new(TlsStream::Client(stream))))
}

/// Returns the expiry time of the certificate of the server at an address, in milliseconds since 1970. The
/// certificate is not verified.
///
/// # Errors
/// The server is not reached or does not use TLS, or the handshake takes too long. The certificate cannot be read.
pub async fn certificate_ends_ms(address: &str) -> io::Result<i64> {
    let config = files::client_config(&TlsSettings::default()).map_err(io::Error::other)?;
    let handshake = async {
        let stream = TcpStream::connect(address).await?;
        let name = stream.peer_addr()?.ip().into();
        TlsConnector::from(config).connect(name, stream).await
    };
    let stream = in_time(handshake).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "the certificate cannot be read");
    shown.and_then(|certificate| validity::ends_ms(certificate)).ok_or_else(unreadable)
}

/// A handshake that must not take longer than [`HANDSHAKE_TIMEOUT`].
async fn in_time<S>(handshake: impl Future<Output = io::Result<S>>) -> io::Result<S> {
    let late =
        |_| io::Error::new(io::ErrorKind::TimedOut, format!("no TLS handshake within {HANDSHAKE_TIMEOUT:?}"));
    tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(late)?
}
