//! Connections to name servers and brokers, made on first use, and calls over them.

use crate::client::Config;
use crate::inbox::Inbox;
use crate::{Credentials, Error, Signed};
use net::{Limits, Peer, Reply, Workers};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::codes::response;
use wire::frame::{Encoding, FrameWriter, Head};

/// One connection that may be under way; whoever wants it waits for the same attempt.
type Link = Arc<tokio::sync::Mutex<Option<Arc<Peer>>>>;

/// Connections by address. Bounded by the addresses that configuration and routes name.
pub(crate) struct Remote {
    pub workers: Workers,
    pub inbox: Arc<Inbox>,
    encoding: Encoding,
    pub credentials: Option<Credentials>,
    links: Mutex<HashMap<String, Link>>,
    name_servers: Vec<String>,
    /// Told when a connection was made: brokers must learn who we are, also after they were restarted.
    pub dialed: Arc<tokio::sync::Notify>,
    /// The name server in use; it changes when it fails (`NettyRemotingClient.getAndCreateNameserverChannel`).
    chosen: AtomicUsize,
}

impl Remote {
    pub fn start(config: &Config, seed: u64) -> Result<Self, Error> {
        let name_servers = config.name_servers.clone();
        if name_servers.is_empty() {
            return Err(Error::NoNameServer);
        }
        let chosen = AtomicUsize::new((seed % name_servers.len() as u64) as usize);
        Ok(Self {
            workers: Workers::start_secured(
                "client",
                config.workers.max(1),
                Limits::default(),
                config.security.clone(),
            )?,
            inbox: Arc::default(),
            encoding: config.encoding,
            credentials: config.credentials.clone(),
            links: Mutex::default(),
            name_servers,
            dialed: Arc::default(),
            chosen,
        })
    }

    /// The connection to `address`, made if there is none.
    pub async fn peer(&self, address: &str) -> Result<Arc<Peer>, Error> {
        let link = self.links.lock().expect("short section").entry(address.to_owned()).or_default().clone();
        let mut link = link.lock().await;
        if let Some(peer) = link.as_ref().filter(|peer| !peer.is_closed()) {
            return Ok(peer.clone());
        }
        let failed = |source| Error::Connect { address: address.to_owned(), source };
        let target = resolve(address).await.map_err(failed)?;
        let peer = self.workers.dial(target, self.inbox.clone()).await.map_err(failed)?;
        *link = Some(peer.clone());
        self.dialed.notify_one();
        Ok(peer)
    }

    /// Sends a request and returns its answer, whatever the code. `write` adds fields and finishes the frame.
    pub async fn ask(
        &self,
        address: &str,
        code: i32,
        timeout: Duration,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Reply, Error> {
        let peer = self.peer(address).await?;
        let Some(credentials) = &self.credentials else {
            return Ok(peer.call(self.encoding, code, timeout, write).await?);
        };
        let signed = Signed::new(credentials, write);
        Ok(peer.call(self.encoding, code, timeout, |frame| signed.write(frame)).await?)
    }

    /// As [`Remote::ask`]; every code but success is an error.
    pub async fn call(
        &self,
        address: &str,
        code: i32,
        timeout: Duration,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Reply, Error> {
        accept(address, self.ask(address, code, timeout, write).await?)
    }

    /// Sends a request nobody answers.
    pub async fn tell(
        &self,
        address: &str,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<(), Error> {
        let peer = self.peer(address).await?;
        tell(&peer, self.credentials.as_ref(), code, write)
            .map_err(|gone| Error::Call(net::CallError::Closed(gone.0)))
    }

    /// Asks the chosen name server, and the others in turn when it does not answer.
    pub async fn ask_name_server(
        &self,
        code: i32,
        write: impl Fn(FrameWriter<'_>),
    ) -> Result<(Reply, &str), Error> {
        let mut failure = Error::NoNameServer;
        for _ in 0..self.name_servers.len() {
            let chosen = self.chosen.load(Relaxed) % self.name_servers.len();
            let address = &self.name_servers[chosen];
            match self.ask(address, code, Duration::from_secs(3), &write).await {
                Ok(reply) => return Ok((reply, address)),
                Err(error) => {
                    tracing::warn!(%error, "name server failed");
                    failure = error;
                }
            }
            // Only one of several callers moves on from the same failed server.
            let _ = self.chosen.compare_exchange(chosen, chosen + 1, Relaxed, Relaxed);
        }
        Err(failure)
    }
}

/// Begins a one-way request on a connection.
pub(crate) fn tell(
    peer: &Peer,
    credentials: Option<&Credentials>,
    code: i32,
    write: impl FnOnce(FrameWriter<'_>),
) -> Result<(), net::Gone> {
    let head = Head::one_way(Encoding::Json, code, peer.next_opaque());
    peer.push(|out| {
        let frame = FrameWriter::begin(out, head);
        match credentials {
            None => write(frame),
            Some(credentials) => Signed::new(credentials, write).write(frame),
        }
    })
}

/// Turns every code but success into an error.
pub(crate) fn accept(address: &str, reply: Reply) -> Result<Reply, Error> {
    if reply.code == response::SUCCESS {
        return Ok(reply);
    }
    let remark = reply.remark.unwrap_or_default();
    Err(Error::Refused { address: address.to_owned(), code: reply.code, remark })
}

/// The first address of `host:port`.
pub(crate) async fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    if let Ok(address) = address.parse() {
        return Ok(address);
    }
    let mut found = tokio::net::lookup_host(address).await?;
    found.next().ok_or_else(|| std::io::Error::other("the name has no address"))
}
