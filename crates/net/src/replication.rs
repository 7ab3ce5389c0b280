//! TLS of the connections of replication, which no worker serves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::Budget;
use crate::greeting::greet;
use crate::stream::Stream;
use crate::tls::Security;

/// Security of replication connections (`tls.replication.mode`). By default they are plain.
#[derive(Clone, Debug, Default)]
pub struct ReplicationTls(Option<(Arc<Security>, Arc<Budget>)>);

impl ReplicationTls {
    /// The TLS of replication for a process with these settings; its handshakes count against `budget`.
    pub fn new(security: &Security, budget: &Arc<Budget>) -> Self {
        Self(security.replication.clone().map(|security| (security, budget.clone())))
    }

    /// Reads the bytes before the first frame of an accepted connection, for `patience` at most. Returns the slave's
    /// address.
    ///
    /// # Errors
    /// The connection ended, or is plain where TLS is required. Its handshake failed or took too long, or a limit of
    /// connections is reached.
    pub async fn accept(&self, stream: TcpStream, patience: Duration) -> io::Result<(Stream, SocketAddr)> {
        let remote = stream.peer_addr()?;
        let Some((security, budget)) = &self.0 else { return Ok((Stream::Plain(stream), remote)) };
        let permit = budget.admit(remote.ip(), security).ok_or(io::ErrorKind::ConnectionRefused)?;
        let greeting = greet(stream, security, &permit);
        tokio::time::timeout(patience, greeting).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Encrypts a connection to a master when `tls.replication.mode` is enforcing.
    ///
    /// # Errors
    /// The handshake failed or took too long.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<Stream> {
        match self.0.as_ref().and_then(|(security, _)| security.client.as_ref()) {
            Some(tls) => tls.connect(stream).await,
            None => Ok(Stream::Plain(stream)),
        }
    }
}
