//! Connections to name servers and brokers, which are made on first use, and calls over them.

use crate::config::Config;
use crate::server_requests::ServerRequests;
use crate::{Credentials, Error, SignedRequest};
use net::{CallError, ConnectionHandle, Limits, Response, Workers};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use wire::codes::response;
use wire::frame::{Encoding, FrameWriter, Head};

/// Longest time for connecting, including all addresses of a host name and the TLS handshake.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed attempt to connect, in which calls fail at once. Otherwise each of several calls in a row would
/// wait for an attempt of its own.
const DIAL_PAUSE: Duration = Duration::from_millis(200);

/// Longest time that a one-way request may wait until it can be sent.
const ONE_WAY_TIMEOUT: Duration = Duration::from_secs(3);

/// Shortest wait of a call after which a missing answer counts against the connection. Brokers may pause for less.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// Most bytes of sends in flight to one address; further sends wait.
const ROOM_BYTES: usize = 32 << 20;

/// The connection to one address, with its latest attempt.
struct BrokerLink {
    /// Result of the last attempt to connect. The lock is held during an attempt, so all callers that need the
    /// connection wait for it.
    attempt: Arc<tokio::sync::Mutex<Option<Attempt>>>,
    /// Bytes that further sends may take.
    room: Arc<Semaphore>,
}

struct Attempt {
    ended: Instant,
    outcome: Result<Arc<ConnectionHandle>, (io::ErrorKind, String)>,
}

impl Default for BrokerLink {
    fn default() -> Self {
        Self { attempt: Arc::default(), room: Arc::new(Semaphore::new(ROOM_BYTES)) }
    }
}

/// Addresses to which connections were made since the last call of [`Self::take`].
#[derive(Default)]
pub(crate) struct NewConnections {
    addresses: Mutex<BTreeSet<String>>,
    /// Notified for every new connection, because brokers must learn this client's groups, also after a restart.
    pub changed: Notify,
}

impl NewConnections {
    fn add(&self, address: String) {
        self.addresses.lock().expect("short section").insert(address);
        self.changed.notify_one();
    }

    pub fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.addresses.lock().expect("short section"))
    }
}

/// Connections by address. Their number is bounded by the addresses in configuration and routes.
pub(crate) struct Remote {
    pub workers: Workers,
    pub server_requests: Arc<ServerRequests>,
    encoding: Encoding,
    pub credentials: Option<Credentials>,
    api_timeout_min: Duration,
    links: Mutex<HashMap<String, Arc<BrokerLink>>>,
    name_servers: Vec<String>,
    /// New connections, over which a heartbeat must be sent.
    pub dialed: Arc<NewConnections>,
    /// Index of the name server in use; it changes when that one fails
    /// (`NettyRemotingClient.getAndCreateNameserverChannel`).
    chosen: AtomicUsize,
}

impl Remote {
    pub fn start(config: &Config, seed: u64) -> Result<Self, Error> {
        let name_servers = config.name_servers.clone();
        if name_servers.is_empty() {
            return Err(Error::NoNameServer);
        }
        let chosen = AtomicUsize::new((seed % name_servers.len() as u64) as usize);
        // Requests in flight are bounded before they reach the connection. The connection is read in any case, because
        // a broker that waits until its answers are taken reads nothing.
        let limits = Limits {
            unsent_bytes_high: 2 * ROOM_BYTES,
            unsent_bytes_max: 8 * ROOM_BYTES,
            ..Limits::default()
        };
        Ok(Self {
            workers: Workers::start_secured(
                "client",
                config.workers.max(1),
                limits,
                config.security.clone(),
            )?,
            server_requests: Arc::default(),
            encoding: config.encoding,
            credentials: config.credentials.clone(),
            api_timeout_min: config.api_timeout_min,
            links: Mutex::default(),
            name_servers,
            dialed: Arc::default(),
            chosen,
        })
    }

    fn link(&self, address: &str) -> Arc<BrokerLink> {
        self.links.lock().expect("short section").entry(address.to_owned()).or_default().clone()
    }

    /// Returns the connection to `address`, and makes one if there is none.
    async fn peer(&self, address: &str, link: &BrokerLink) -> Result<Arc<ConnectionHandle>, Error> {
        let failed = |source| Error::Connect { address: address.to_owned(), source };
        let begin = Instant::now();
        loop {
            let attempt = link.attempt.clone().lock_owned().await;
            match &*attempt {
                // If the connection ended at once, callers that waited for the attempt do not make another attempt.
                Some(Attempt { ended, outcome: Ok(peer) }) if *ended >= begin || !peer.is_closing() => {
                    return Ok(peer.clone());
                }
                Some(Attempt { ended, outcome: Err((kind, why)) }) if *ended + DIAL_PAUSE >= begin => {
                    return Err(failed(io::Error::new(*kind, why.clone())));
                }
                _ => {}
            }
            self.dial(address, attempt).map_err(failed)?;
        }
    }

    /// Starts an attempt to connect, which continues if the caller stops waiting.
    fn dial(&self, address: &str, mut attempt: OwnedMutexGuard<Option<Attempt>>) -> io::Result<()> {
        let (workers, inbox, dialed) =
            (self.workers.clone(), self.server_requests.clone(), self.dialed.clone());
        let (address, timeout) = (address.to_owned(), DIAL_TIMEOUT.max(self.api_timeout_min));
        self.workers.spawn(0, move || async move {
            let dialing = tokio::time::timeout(timeout, workers.dial_name(&address, inbox));
            let outcome = dialing.await.unwrap_or_else(|late| Err(late.into()));
            if outcome.is_ok() {
                dialed.add(address);
            }
            let outcome = outcome.map_err(|error| (error.kind(), error.to_string()));
            *attempt = Some(Attempt { ended: Instant::now(), outcome });
        })
    }

    /// Waits for room for a request of `bytes`, and for the connection.
    async fn ready(
        &self,
        address: &str,
        link: &BrokerLink,
        bytes: usize,
        timeout: Duration,
    ) -> Result<(Arc<ConnectionHandle>, OwnedSemaphorePermit), Error> {
        let begin = Instant::now();
        let bytes = u32::try_from(bytes.min(ROOM_BYTES)).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(timeout, link.room.clone().acquire_many_owned(bytes)).await;
        let room = room.map_err(|_| Error::Busy { address: address.to_owned(), within: timeout })?;
        let room = room.expect("it is never closed");
        let left = timeout.saturating_sub(begin.elapsed());
        let peer = tokio::time::timeout(left, self.peer(address, link)).await.map_err(|_| {
            let why = format!("no connection within {timeout:?}");
            let source = io::Error::new(io::ErrorKind::TimedOut, why);
            Error::Connect { address: address.to_owned(), source }
        })??;
        Ok((peer, room))
    }

    /// Returns the id of the connection to an address, and makes a connection if there is none.
    pub async fn connection(&self, address: &str, timeout: Duration) -> Result<u64, Error> {
        let link = self.link(address);
        let (peer, _room) = self.ready(address, &link, 0, timeout).await?;
        Ok(peer.id())
    }

    /// Sends a request and returns its answer with any response code. `write` adds fields and finishes the frame.
    pub async fn ask(
        &self,
        address: &str,
        code: i32,
        timeout: Duration,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response, Error> {
        self.ask_large(address, code, timeout, 0, write).await
    }

    /// Sends a request of about `bytes` like [`Remote::ask`]. It waits while too many bytes are in flight.
    pub async fn ask_large(
        &self,
        address: &str,
        code: i32,
        timeout: Duration,
        bytes: usize,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response, Error> {
        let begin = Instant::now();
        let link = self.link(address);
        let (peer, _room) = self.ready(address, &link, bytes, timeout).await?;
        let asked = Instant::now();
        let left = timeout.saturating_sub(asked - begin);
        let answer = match &self.credentials {
            None => peer.call(self.encoding, code, left, write).await,
            Some(credentials) => {
                let signed = SignedRequest::sealed(credentials, code, address, write);
                peer.call(self.encoding, code, left, |frame| signed.write(frame)).await
            }
        };
        match answer {
            Ok(reply) => Ok(reply),
            Err(CallError::TimedOut(remote, _)) => {
                let waited = asked.elapsed();
                if waited >= SILENCE_MIN && peer.silence() >= waited {
                    // The server seems to be gone, so the connection is closed (`clientCloseSocketIfTimeout`).
                    peer.abort();
                }
                Err(CallError::TimedOut(remote, timeout).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Remote::ask`], but every response code except success becomes an error. The time limit is at least
    /// [`Config::api_timeout_min`].
    pub async fn call(
        &self,
        address: &str,
        code: i32,
        timeout: Duration,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response, Error> {
        let timeout = timeout.max(self.api_timeout_min);
        accept(address, self.ask(address, code, timeout, write).await?)
    }

    /// Sends a one-way request of about `bytes`. It waits while too many bytes are in flight. With 0 bytes it does
    /// not wait.
    pub async fn send_one_way(
        &self,
        address: &str,
        code: i32,
        bytes: usize,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<(), Error> {
        let gone = |gone: net::ConnectionClosed| Error::Call(CallError::Closed(gone.0));
        let link = self.link(address);
        let (peer, room) = self.ready(address, &link, bytes, ONE_WAY_TIMEOUT).await?;
        push_one_way(&peer, self.credentials.as_ref(), code, write).map_err(gone)?;
        if bytes > 0 {
            // The closure runs when the connection has taken the request and has few unsent bytes, or has ended.
            let _ = peer.enqueue(Box::new(move |_, _| drop(room)));
        }
        Ok(())
    }

    /// Sends a request to the name server in use, and to the other name servers in turn if it does not respond.
    pub async fn ask_name_server(
        &self,
        code: i32,
        write: impl Fn(FrameWriter<'_>),
    ) -> Result<(Response, &str), Error> {
        let mut failure = Error::NoNameServer;
        let timeout = Duration::from_secs(3).max(self.api_timeout_min);
        for _ in 0..self.name_servers.len() {
            let chosen = self.chosen.load(Relaxed) % self.name_servers.len();
            let address = &self.name_servers[chosen];
            match self.ask(address, code, timeout, &write).await {
                Ok(reply) => return Ok((reply, address)),
                Err(error) => {
                    tracing::warn!(%error, "name server failed");
                    failure = error;
                }
            }
            // Only the first of several callers moves on from the failed server.
            let _ = self.chosen.compare_exchange(chosen, chosen + 1, Relaxed, Relaxed);
        }
        Err(failure)
    }
}

/// Starts the frame of a one-way request on a connection.
pub(crate) fn push_one_way(
    peer: &ConnectionHandle,
    credentials: Option<&Credentials>,
    code: i32,
    write: impl FnOnce(FrameWriter<'_>),
) -> Result<(), net::ConnectionClosed> {
    let head = Head::one_way(Encoding::Json, code, peer.next_opaque());
    peer.push(|out| {
        let frame = FrameWriter::begin(out, head);
        match credentials {
            None => write(frame),
            Some(credentials) => {
                SignedRequest::sealed(credentials, code, &peer.remote().to_string(), write).write(frame);
            }
        }
    })
}

/// Turns every response with another code than success into an [`Error::Refused`].
pub(crate) fn accept(address: &str, reply: Response) -> Result<Response, Error> {
    if reply.code == response::SUCCESS {
        return Ok(reply);
    }
    let remark = reply.remark.unwrap_or_default();
    Err(Error::Refused { address: address.to_owned(), code: reply.code, remark })
}
