//! Listener: HTTP/2 on the broker's threads. Each connection stays on a single thread.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::tls::Security;
use net::{Budget, ConnectionPermit, ConnectionSender, ProtocolStream, Stream, Workers};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_local;

use crate::activity::Activity;
use crate::body::Keeping;
use crate::brokers::Brokers;
use crate::calls::Proxy;
use crate::cluster::heartbeat_sync;
use crate::cluster::port::Answers;
use crate::cluster::read_users;
use crate::config::Config;
use crate::dispatch::{Origin, answered, dispatch};
use crate::{heartbeats, renewer};

/// Most bytes of a request that a client may send before the server reads them.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// Flow-control window for all requests of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Bytes of request headers at most.
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Bytes of a response that may wait for the client to read them.
const SEND_BYTES_MAX: usize = 128 << 10;

/// Interval of pings to a client. A client that does not answer in time is closed within a minute.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Longest wait for the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Least time without calls after which a connection ends.
const IDLE_MIN: Duration = Duration::from_millis(10);

/// Longest wait for the messages that are given back when the server stops.
const LAST_ROUND: Duration = Duration::from_secs(5);

/// Error of starting the gRPC side: a port cannot be bound.
#[derive(Debug)]
pub struct StartError {
    port: u16,
    source: io::Error,
}

impl StartError {
    /// Whether another program listens on the port.
    pub fn is_port_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "port {} cannot be bound for gRPC: {}", self.port, self.source)
    }
}

impl std::error::Error for StartError {}

/// Starts the tasks of connections on the thread of their connection.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future<Output = ()> + 'static> Executor<F> for Local {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

/// Number of connections, with a wait for the end of all connections.
#[derive(Default)]
struct Connections {
    count: Mutex<usize>,
    ended: Condvar,
}

/// Connection in the count.
struct Counted(Arc<Connections>);

impl Counted {
    fn new(connections: &Arc<Connections>) -> Self {
        *connections.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(connections.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

/// A listener of a port on `bind`.
fn bound(bind: IpAddr, port: u16) -> Result<std::net::TcpListener, StartError> {
    let listener = std::net::TcpListener::bind(SocketAddr::new(bind, port));
    listener
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|source| StartError { port, source })
}

/// Protocols of a port.
enum PortProtocols {
    /// gRPC alone.
    Grpc,
    /// gRPC, and the remoting protocol.
    Either(ConnectionSender),
}

/// Port on a worker.
struct Port {
    listener: std::net::TcpListener,
    speaks: PortProtocols,
    security: Security,
    budget: Arc<Budget>,
    connections: Arc<Connections>,
}

/// The gRPC side of a broker; ends with the workers it runs on.
pub struct RunningProxy {
    address: SocketAddr,
    remoting: Option<SocketAddr>,
    proxy: Arc<Proxy>,
    connections: Arc<Connections>,
    /// Dropped for the last rounds of renewals.
    renewals_end: oneshot::Sender<()>,
    /// Closed after those rounds.
    renewals_ended: mpsc::Receiver<()>,
}

impl RunningProxy {
    /// Listens on `bind` at the ports of the configuration, and serves on `workers`. A port of -1 for remoting
    /// clients is left out.
    ///
    /// # Errors
    /// [`StartError`] when a port cannot be bound.
    pub fn start(
        config: Config,
        brokers: Brokers,
        bind: IpAddr,
        workers: &Workers,
    ) -> Result<Self, StartError> {
        let grpc = bound(bind, config.port)?;
        let remoting = u16::try_from(config.remoting_port).ok().map(|port| bound(bind, port)).transpose()?;
        let port = config.port;
        Self::listen(config, brokers, (grpc, remoting), workers).map_err(|source| StartError { port, source })
    }

    fn listen(
        config: Config,
        brokers: Brokers,
        (grpc, remoting): (std::net::TcpListener, Option<std::net::TcpListener>),
        workers: &Workers,
    ) -> io::Result<Self> {
        let address = grpc.local_addr()?;
        let remoting_address = remoting.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
        let advertised = remoting_address.filter(|_| !config.advertised_host.is_empty());
        let advertised: Option<Arc<str>> =
            advertised.map(|own| format!("{}:{}", config.advertised_host, own.port()).into());
        let places = Arc::new(Semaphore::new(config.calls_max.min(Semaphore::MAX_PERMITS)));
        let proxy = Proxy::new(brokers, config, address.port());
        let connections = Arc::<Connections>::default();
        for index in 0..workers.count() {
            let port = |listener, speaks| Port {
                listener,
                speaks,
                security: workers.security().clone(),
                budget: workers.budget().clone(),
                connections: connections.clone(),
            };
            let mut ports = vec![port(grpc.try_clone()?, PortProtocols::Grpc)];
            if let Some(remoting) = &remoting {
                let frames = match &proxy.brokers {
                    Brokers::Local(own) => own.api.frames(workers, index, advertised.clone())?,
                    Brokers::Cluster(cluster) => workers.connection_sender(
                        index,
                        Arc::new(Answers::new(cluster.clone(), advertised.clone())),
                    )?,
                };
                ports.push(port(remoting.try_clone()?, PortProtocols::Either(frames)));
            }
            let (proxy, places) = (proxy.clone(), places.clone());
            workers.spawn(index, move || async move {
                let sends = proxy.brokers.sends();
                let mark = Arc::default();
                let origin = Origin { proxy, remote: address, mark, sends, authority: None, places };
                for port in ports {
                    spawn_local(accept(Arc::new(port), origin.clone()));
                }
            })?;
        }
        let (renewals_end, end) = oneshot::channel();
        let (ended, renewals_ended) = mpsc::channel();
        let renewed = proxy.clone();
        workers.spawn(0, move || async move {
            renewer::run(renewed, end).await;
            drop(ended);
        })?;
        let beating = proxy.clone();
        workers.spawn(0, move || heartbeats::run(beating))?;
        if let Brokers::Cluster(cluster) = &proxy.brokers {
            let (syncing, synced) = (proxy.clone(), cluster.clone());
            workers.spawn(0, move || async move {
                // The client may have received messages here.
                let left = |client: &str| {
                    if syncing.registry.forget(client) {
                        syncing.renewals.given_back.notify_one();
                    }
                };
                heartbeat_sync::run(&synced, syncing.stopping(), left).await;
            })?;
            let (reading, read) = (proxy.clone(), cluster.clone());
            workers.spawn(0, move || async move { read_users(&read, reading.stopping()).await })?;
        }
        Ok(Self { address, remoting: remoting_address, proxy, connections, renewals_end, renewals_ended })
    }

    /// The local address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Local address of the port for remoting clients, which serves gRPC too.
    pub fn remoting_address(&self) -> Option<SocketAddr> {
        self.remoting
    }

    /// Stops the server: takes no further connections and calls, and answers the calls that wait for messages. Waits
    /// for the other calls, at most for the configured time. Then gives messages back.
    pub fn stop(self) {
        self.proxy.stop.send_replace(true);
        let patience = Duration::from_secs(u64::try_from(self.proxy.config.shutdown_s).unwrap_or(0));
        let count = self.connections.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.connections.ended.wait_timeout_while(count, patience, |count| *count > 0);
        let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *count > 0 {
            tracing::warn!(
                connections = *count,
                "connections of gRPC still had calls when the server stopped"
            );
        }
        drop((count, self.renewals_end));
        // The channel carries no values: the wait ends when the rounds end.
        let _ = self.renewals_ended.recv_timeout(LAST_ROUND);
        if let Some(cluster) = self.proxy.brokers.cluster() {
            cluster.client.shutdown();
        }
    }
}

/// Accepts connections on one worker; all workers listen on the same socket.
async fn accept(port: Arc<Port>, origin: Origin) {
    let listener = match port.listener.try_clone().and_then(TcpListener::from_std) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept connections of gRPC"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = origin.proxy.stopping() => return,
        };
        match accepted {
            Ok((stream, remote)) => {
                let Some(permit) = port.budget.admit(remote.ip(), &port.security) else { continue };
                spawn_local(welcome((stream, permit), origin.clone(), port.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; raise the open file limit if it is reached");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Reads the PROXY preamble of a connection, performs its TLS handshake, if any, and finds out its protocol. Then passes
/// the connection with its permit to the handler of the protocol.
async fn welcome((stream, permit): (TcpStream, ConnectionPermit), origin: Origin, port: Arc<Port>) {
    // Boxed: a connection has no room for its TLS handshake once that is over.
    let greeting = Box::pin(async {
        stream.set_nodelay(true)?;
        match port.speaks {
            PortProtocols::Grpc => {
                let (stream, remote) = net::greet_http2(stream, &port.security, &permit).await?;
                Ok((ProtocolStream::Http2(stream), remote))
            }
            PortProtocols::Either(_) => net::greet_either(stream, &port.security, &permit).await,
        }
    });
    let greeted = tokio::select! {
        greeted = greeting => greeted,
        () = origin.proxy.stopping() => return,
    };
    match greeted {
        // A task of its own: nothing of the greeting stays in memory as long as the connection.
        Ok((ProtocolStream::Http2(stream), remote)) => {
            let held = (permit, Counted::new(&port.connections));
            drop(spawn_local(serve(stream, origin, remote, held)));
        }
        Ok((ProtocolStream::Frames(stream), _)) => {
            if let PortProtocols::Either(frames) = &port.speaks {
                frames.send(stream, permit);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            tracing::info!(%error, "a connection of gRPC was refused");
        }
        Err(error) => tracing::debug!(%error, "a connection of gRPC ended before it was served"),
    }
}

/// Serves a gRPC connection. `held` is dropped after the connection.
fn serve(
    stream: Stream,
    origin: Origin,
    remote: SocketAddr,
    held: (ConnectionPermit, Counted),
) -> impl Future<Output = ()> {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    let (proxy, origin) = (origin.proxy.clone(), Origin { remote, mark: Arc::default(), ..origin });
    let activity = Arc::new(Activity::new());
    let calls = activity.clone();
    let service = service_fn(move |request| {
        let (answer, call) = (dispatch(origin.clone(), request), Activity::call(&calls));
        async move { Ok::<_, Infallible>(Keeping::until_written(answered(answer.await), call)) }
    });
    // Pings of clients are answered whenever they come: some clients send one a minute without a call.
    let connection = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(proxy.config.connection_calls_max)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let connection = Box::pin(connection);
    let idle = Duration::from_millis(u64::try_from(proxy.config.idle_ms).unwrap_or(0)).max(IDLE_MIN);
    async move {
        let _held = held;
        let mut connection = connection;
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = over(&proxy, &activity, idle) => {
                // The client gets GOAWAY, and calls in flight are answered.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, %error, "a connection of gRPC ended");
        }
    }
}

/// Waits until the server stops, or the connection had no call for the time `idle`.
async fn over(proxy: &Proxy, activity: &Activity, idle: Duration) {
    let idles = async {
        let mut patience = idle;
        while !patience.is_zero() {
            tokio::time::sleep(patience).await;
            patience = idle.saturating_sub(activity.idle());
        }
    };
    tokio::select! {
        () = proxy.stopping() => {}
        () = idles => {}
    }
}
