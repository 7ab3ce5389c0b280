//! The server: listens, passes requests to the request handler ([`RequestHandler`]), removes lost brokers, sends notices.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auth::audit::Origin;
use auth::{Denial, ResponseTime};
use net::tls::Security;
use net::{Budget, ConnectionHandle, ConnectionLimits, Limits, Service, Silent, Workers};
use parking_lot::Mutex;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};

use crate::gate::Gate;
use crate::writer::Writer;
use crate::{Config, KvError, KvStore, MinBrokerNotice, RequestHandler};

/// Number of threads that serve connections; requests that take long run on the writer ([`Writer`]).
const WORKERS: usize = 2;

/// Time limit for connecting to a broker to send it a notice (`notifyMinBrokerIdChanged`).
const NOTICE_TIMEOUT: Duration = Duration::from_millis(300);

/// Interval of checks of the users' files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Errors of starting the name server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `bindAddress` is not an IP address.
    #[error("bindAddress is `{0}`, expected an ip address")]
    Address(String),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The key-value settings cannot be read.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// The settings of authentication are wrong, or the users cannot be read.
    #[error(transparent)]
    Auth(#[from] auth::StartError),
}

/// A running name server.
pub struct NameServer {
    workers: Workers,
    address: SocketAddr,
    handler: Arc<RequestHandler>,
    writer: Arc<Writer>,
}

impl NameServer {
    /// Loads the key-value settings, listens, and serves on its own threads.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_secured(config, Security::default())
    }

    /// Like [`NameServer::start`], with the given security settings.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_secured(config: Config, security: Security) -> Result<Self, StartError> {
        let connections = ConnectionLimits {
            total: config.connections_max,
            per_address: config.connections_per_address_max,
            handshakes_per_second: config.tls_handshakes_per_second_max,
        };
        let budget = Budget::limited(config.connection_bytes_max, connections);
        let security = Security { proxies: config.trusted_proxies.clone(), ..security };
        let ip: IpAddr =
            config.bind_address.parse().map_err(|_| StartError::Address(config.bind_address.clone()))?;
        let address = SocketAddr::new(ip, config.listen_port);
        let limits = Limits { idle: config.idle(), ..Limits::default() };
        let scan_interval = Duration::from_millis(config.scan_interval_ms.max(1));
        let kv = KvStore::open(&config.kv_config_path)?;
        let refusal_of_others = config.refusal_of_others;
        let gate = Gate::open(&config)?;
        let handler = Arc::new(RequestHandler::new(config, kv, Instant::now()));
        let workers = Workers::start_within("namesrv", WORKERS, limits, security, budget)
            .map_err(StartError::Thread)?;
        let senders = workers.clone();
        let writer = Writer::start(handler.clone(), move |notices| send_all(&senders, notices));
        let writer = Arc::new(writer.map_err(StartError::Thread).inspect_err(|_| workers.shutdown())?);
        let front = Arc::new(NameServerService {
            handler: handler.clone(),
            refusal_of_others,
            gate,
            started: Instant::now(),
            brokers: Mutex::default(),
            writer: writer.clone(),
        });
        let listening = workers.listen(address, front.clone()).and_then(|local| {
            workers.spawn(0, move || supervise_routes(front, scan_interval))?;
            Ok(local)
        });
        match listening {
            Ok(address) => Ok(Self { workers, address, handler, writer }),
            Err(error) => {
                workers.shutdown();
                writer.stop();
                Err(StartError::Listen { address, error })
            }
        }
    }

    /// Address on which the server listens, with the assigned port if the configuration has 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The memory budget of the server's connections, to be shared with other roles in the process.
    pub fn budget(&self) -> &Arc<Budget> {
        self.workers.budget()
    }

    /// The request handler, for callers in the same process.
    pub fn handler(&self) -> &RequestHandler {
        &self.handler
    }

    /// Closes all connections and joins the threads.
    pub fn shutdown(&self) {
        self.workers.shutdown();
        self.writer.stop();
    }
}

/// Receives the commands of all connections.
struct NameServerService {
    handler: Arc<RequestHandler>,
    /// The remark with which clients of other machines are refused; `None` to serve them.
    refusal_of_others: Option<&'static str>,
    /// Gate. `None` without authentication.
    gate: Option<Gate>,
    started: Instant,
    /// Handles of the connections on which brokers registered, for closing those of silent brokers.
    brokers: Mutex<HashMap<u64, Arc<ConnectionHandle>>>,
    writer: Arc<Writer>,
}

impl NameServerService {
    /// Closes connections on which brokers registered.
    fn close(&self, connections: &[u64]) {
        for connection in connections {
            let peer = self.brokers.lock().get(connection).cloned();
            if let Some(peer) = peer {
                peer.close();
            }
        }
    }

    /// Whether a request is served. A refused request was answered, or its response leaves later.
    fn authorize(&self, peer: &Arc<ConnectionHandle>, command: &Command<'_>, out: &mut Vec<u8>) -> bool {
        let Some(gate) = &self.gate else { return true };
        let now_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let origin = Origin::new(peer.remote(), peer.id());
        let admitted = gate.admit((now_ms, wall_ms()), command, origin, peer.mark());
        let Err(Denial { error, response_time, mark }) = admitted else { return true };
        let mut frame = Vec::new();
        if !command.is_one_way() {
            command.response(error.code()).remark(&error.to_string()).write(&mut frame, b"");
        }
        match response_time {
            ResponseTime::Now => out.append(&mut frame),
            ResponseTime::Never => peer.close(),
            ResponseTime::After(wait_ms) => {
                let send = peer.delayed(frame, mark);
                // Such responses are bounded by the waits that the gate gives: a minute's worth for each address.
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs())).await;
                    send();
                });
            }
        }
        false
    }
}

impl Service for NameServerService {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(
        &self,
        _read_batch: &mut (),
        peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if command.is_response() {
            return;
        }
        if let Some(text) = self.refusal_of_others.filter(|_| !peer.is_local()) {
            if !command.is_one_way() {
                command.response(response::NO_PERMISSION).remark(text).write(out, b"");
            }
            return;
        }
        if !self.authorize(peer, &command, out) {
            return;
        }
        if command.code == request::REGISTER_BROKER {
            self.brokers.lock().insert(peer.id(), peer.clone());
        }
        if RequestHandler::takes_long(command.code) {
            self.writer.add(peer, &command);
        } else {
            self.handler.respond(Instant::now(), peer.id(), &command, out);
        }
    }

    fn end(&self, _read_batch: &mut (), _peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {
        if self.handler.is_unsettled() {
            self.writer.settle();
        }
    }

    fn closed(&self, peer: &Arc<ConnectionHandle>) {
        if self.brokers.lock().remove(&peer.id()).is_some() && self.handler.disconnected(peer.id()) {
            self.writer.settle();
        }
    }
}

/// Milliseconds of the wall clock since 1970.
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Runs [`maintain_routes`] and restarts it after a panic: without it lost brokers would stay in the routes.
async fn supervise_routes(front: Arc<NameServerService>, scan_interval: Duration) {
    while net::caught(maintain_routes(front.clone(), scan_interval)).await.is_err() {
        tracing::error!("the task that removes silent brokers panicked and begins anew");
        // Wait, so that a panic at every start does not occupy the thread.
        tokio::time::sleep(scan_interval).await;
    }
}

/// Lets the writer remove silent brokers, and reloads users.
async fn maintain_routes(front: Arc<NameServerService>, scan_interval: Duration) {
    let [mut scan, mut reload] = [scan_interval, RELOAD_INTERVAL].map(tokio::time::interval);
    scan.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = reload.tick(), if front.gate.is_some() => front.gate.iter().for_each(Gate::reload),
            _ = scan.tick() => {
                let closing = front.clone();
                front.writer.expire(move |connections| closing.close(&connections));
            }
        }
    }
}

/// Sends notices to their recipients.
fn send_all(workers: &Workers, notices: Vec<MinBrokerNotice>) {
    for notice in notices.into_iter().map(Arc::new) {
        for recipient in &notice.recipients {
            let sending = send(workers.clone(), recipient.clone(), notice.clone());
            if workers.spawn(0, move || sending).is_err() {
                return;
            }
        }
    }
}

/// Sends a notice on a new connection; a broker that cannot be reached will ask by itself later.
async fn send(workers: Workers, recipient: String, notice: Arc<MinBrokerNotice>) {
    let sent = tokio::time::timeout(NOTICE_TIMEOUT, async {
        let peer = workers.dial_name(&recipient, Arc::new(Silent)).await?;
        let pushed = peer.push(|out| {
            let opaque = peer.next_opaque();
            let head = Head::one_way(Encoding::Json, request::NOTIFY_MIN_BROKER_ID_CHANGE, opaque);
            FrameWriter::begin(out, head)
                .number("minBrokerId", notice.id)
                .text("minBrokerAddr", &notice.address)
                .maybe("offlineBrokerAddr", notice.offline_address.as_deref())
                .maybe("haBrokerAddr", notice.ha_address.as_deref())
                .finish(&[]);
        });
        peer.close();
        pushed.map_err(io::Error::other)
    });
    let failure = match sent.await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {NOTICE_TIMEOUT:?}"),
    };
    tracing::warn!(recipient, failure, "a broker was not told that the smallest id of its group changed");
}
