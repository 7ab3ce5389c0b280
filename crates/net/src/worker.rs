//! Worker threads: each runs a single-threaded runtime, and a connection stays on its thread for life.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{LocalSet, spawn_local};

use crate::admission::ConnectionPermit;
use crate::connection::{Connection, Scratch};
use crate::greeting::{FrameStream, greet};
use crate::stream::Stream;
use crate::tls::Security;
use crate::{Budget, ConnectionHandle, Limits, Service};

/// Longest duration of a connection attempt (RocketMQ's client: 3 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which connections may write queued frames at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

type Job = Box<dyn FnOnce(&Rc<Context>) + Send>;

/// An accepted connection and its permit.
type NewConnection = (NewStream, ConnectionPermit);

/// A connection that is new to a worker.
enum NewStream {
    /// No byte of the connection was read.
    Raw(std::net::TcpStream),
    /// The preamble and the TLS handshake are over, on the worker's own thread.
    Greeted(Box<FrameStream>),
}

/// Passes connections of a port with several protocols to a worker, which serves them like those of its own ports.
pub struct ConnectionSender {
    sender: mpsc::UnboundedSender<NewConnection>,
    connections: Arc<AtomicUsize>,
}

impl ConnectionSender {
    /// Serves a connection until it ends. Must be called on the worker's thread. Connections that come while the workers stop end at
    /// once.
    pub fn send(&self, stream: FrameStream, permit: ConnectionPermit) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send((NewStream::Greeted(Box::new(stream)), permit));
    }
}

/// State that the tasks of one worker share.
struct Context {
    scratch: Rc<RefCell<Scratch>>,
    peers: RefCell<HashMap<u64, Arc<ConnectionHandle>>>,
    connections: Arc<AtomicUsize>,
    limits: Limits,
    /// Bytes of unanswered requests, of all workers.
    unanswered: Arc<AtomicUsize>,
    security: Security,
    budget: Arc<Budget>,
    stop: watch::Receiver<bool>,
}

struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
    connections: Arc<AtomicUsize>,
}

/// The threads that serve connections. Cheap to clone; [`Workers::shutdown`] ends all of them.
#[derive(Clone)]
pub struct Workers {
    workers: Arc<[Worker]>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    stop: Arc<watch::Sender<bool>>,
    security: Security,
    budget: Arc<Budget>,
}

impl Workers {
    /// Starts `count` threads named `name-0`, `name-1`, ..., for connections without TLS.
    pub fn start(name: &str, count: usize, limits: Limits) -> io::Result<Self> {
        Self::start_secured(name, count, limits, Security::default())
    }

    /// Like [`Workers::start`], with the given security settings.
    pub fn start_secured(name: &str, count: usize, limits: Limits, security: Security) -> io::Result<Self> {
        Self::start_within(name, count, limits, security, Budget::unbounded())
    }

    /// Like [`Workers::start_secured`], with a memory budget, which other workers may share.
    pub fn start_within(
        name: &str,
        count: usize,
        limits: Limits,
        security: Security,
        budget: Arc<Budget>,
    ) -> io::Result<Self> {
        assert!(count > 0, "at least one worker");
        // Requests that wait must not reach by themselves the bound at which connections are closed.
        let unanswered_bytes_total = limits.unanswered_bytes_total.min(budget.bytes_max() / 4);
        let limits = Limits { unanswered_bytes_total, ..limits };
        let (stop, stopped) = watch::channel(false);
        let mut workers = Vec::new();
        let mut threads = Vec::new();
        let unanswered: Arc<AtomicUsize> = Arc::default();
        for index in 0..count {
            let (jobs, queue) = mpsc::unbounded_channel();
            let connections = Arc::new(AtomicUsize::new(0));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (load, stop, security) = (connections.clone(), stopped.clone(), security.clone());
            let (unanswered, budget) = (unanswered.clone(), budget.clone());
            let thread = std::thread::Builder::new().name(format!("{name}-{index}")).spawn(move || {
                let context = Rc::new(Context {
                    scratch: Rc::new(RefCell::new(Scratch::new())),
                    peers: RefCell::default(),
                    connections: load,
                    limits,
                    unanswered,
                    security,
                    budget,
                    stop,
                });
                LocalSet::new().block_on(&runtime, work(context, queue));
            })?;
            workers.push(Worker { jobs, connections });
            threads.push(thread);
        }
        let (workers, threads, stop) = (workers.into(), Arc::new(Mutex::new(threads)), Arc::new(stop));
        let workers = Self { workers, threads, stop, security, budget };
        let watched = workers.budget.clone();
        workers.spawn(0, move || watched.watch())?;
        Ok(workers)
    }

    /// The memory budget of the connections.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The security settings of the connections.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// Number of worker threads.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Listens on `address` (port 0: any free port) and returns the bound address.
    pub fn listen<S: Service>(&self, address: SocketAddr, service: Arc<S>) -> io::Result<SocketAddr> {
        let listener = bind(address)?;
        let local = SocketAddr::new(address.ip(), listener.local_addr()?.port());
        let mut targets = Vec::new();
        for index in 0..self.count() {
            let ConnectionSender { sender, connections } = self.connection_sender(index, service.clone())?;
            targets.push((sender, connections));
        }
        self.submit(&self.workers[0], move |context| {
            let (security, budget) = (context.security.clone(), context.budget.clone());
            spawn_local(accept(listener, targets, (security, budget), context.stop.clone()));
        })?;
        Ok(local)
    }

    /// Makes worker `index` serve the connections that it gets from the returned [`ConnectionSender`].
    pub fn connection_sender<S: Service>(
        &self,
        index: usize,
        service: Arc<S>,
    ) -> io::Result<ConnectionSender> {
        let worker = &self.workers[index % self.count()];
        let (sender, streams) = mpsc::unbounded_channel();
        self.submit(worker, move |context| {
            spawn_local(serve_assigned(context.clone(), service, streams));
        })?;
        Ok(ConnectionSender { sender, connections: worker.connections.clone() })
    }

    /// Connects to `address` on the worker with the fewest connections.
    pub async fn dial<S: Service>(
        &self,
        address: SocketAddr,
        service: Arc<S>,
    ) -> io::Result<Arc<ConnectionHandle>> {
        let load = |worker: &Worker| worker.connections.load(Ordering::Relaxed);
        let index = (0..self.count()).min_by_key(|index| load(&self.workers[*index])).unwrap_or(0);
        self.dial_on(index, address, service).await
    }

    /// Connects to the first address of `host:port` that accepts the connection.
    ///
    /// # Errors
    /// The name does not resolve within three seconds; otherwise the error of the last address tried.
    pub async fn dial_name<S: Service>(
        &self,
        name: &str,
        service: Arc<S>,
    ) -> io::Result<Arc<ConnectionHandle>> {
        self.dial_first(&resolve(name).await?, service).await
    }

    /// Connects to the first of these addresses that accepts the connection.
    ///
    /// # Errors
    /// There are no addresses. Otherwise the error of the last address.
    pub async fn dial_first<S: Service>(
        &self,
        addresses: &[SocketAddr],
        service: Arc<S>,
    ) -> io::Result<Arc<ConnectionHandle>> {
        let mut failure = io::Error::other("the name has no address");
        for address in addresses {
            match self.dial(*address, service.clone()).await {
                Ok(peer) => return Ok(peer),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Connects to `address` on worker `index` (modulo the number of workers).
    pub async fn dial_on<S: Service>(
        &self,
        index: usize,
        address: SocketAddr,
        service: Arc<S>,
    ) -> io::Result<Arc<ConnectionHandle>> {
        let (sender, receiver) = oneshot::channel();
        self.submit(&self.workers[index % self.count()], move |context| {
            spawn_local(dial(context.clone(), address, service, sender));
        })?;
        receiver.await.map_err(|_| stopping())?
    }

    /// Runs a future on worker `index` (modulo the number of workers) until it ends or the workers stop.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        index: usize,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<()> {
        self.submit(&self.workers[index % self.count()], move |context| {
            let mut stop = context.stop.clone();
            let future = make();
            spawn_local(async move {
                tokio::select! {
                    () = future => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
            });
        })
    }

    /// Stops accepting, lets connections write queued frames, closes them and joins the threads.
    pub fn shutdown(&self) {
        self.stop.send_replace(true);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(|p| p.into_inner()));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    }

    fn submit(&self, worker: &Worker, job: impl FnOnce(&Rc<Context>) + Send + 'static) -> io::Result<()> {
        worker.jobs.send(Box::new(job)).map_err(|_| stopping())
    }
}

/// The addresses of `host:port`, IPv4 first, as in the JDK.
///
/// # Errors
/// The name does not resolve within three seconds.
pub async fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let lookup = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host(name));
    let mut addresses: Vec<SocketAddr> = lookup.await.map_err(io::Error::other)??.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    Ok(addresses)
}

fn stopping() -> io::Error {
    io::Error::other("the connection workers have stopped")
}

/// Main task of a worker: starts jobs until the stop signal, then lets connections finish.
async fn work(context: Rc<Context>, mut queue: mpsc::UnboundedReceiver<Job>) {
    let mut stop = context.stop.clone();
    loop {
        tokio::select! {
            job = queue.recv() => match job {
                Some(job) => job(&context),
                None => break,
            },
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    for peer in context.peers.borrow().values() {
        peer.close();
    }
    let drained = async {
        while !context.peers.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
        tracing::warn!(connections = context.peers.borrow().len(), "connections did not drain in time");
    }
}

/// Listens on an address. For 0.0.0.0 it listens on all addresses of both families, as Java does, or only IPv4 where the
/// system has no IPv6.
fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    if address.ip() == Ipv4Addr::UNSPECIFIED {
        match bind_one(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port())) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    bind_one(address)
}

fn bind_one(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, 1024)?;
    Ok(std::net::TcpListener::from(socket))
}

/// Accepts connections and hands each to the worker with the fewest.
async fn accept(
    listener: std::net::TcpListener,
    targets: Vec<(mpsc::UnboundedSender<NewConnection>, Arc<AtomicUsize>)>,
    (security, budget): (Security, Arc<Budget>),
    mut stop: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let target = targets.iter().min_by_key(|(_, load)| load.load(Ordering::Relaxed));
        match accepted.and_then(|(stream, remote)| Ok((stream.into_std()?, remote.ip()))) {
            Ok((stream, remote)) => {
                let Some(permit) = budget.admit(remote, &security) else { continue };
                if let Some((sender, load)) = target {
                    load.fetch_add(1, Ordering::Relaxed);
                    if sender.send((NewStream::Raw(stream), permit)).is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; raise the open file limit if it is reached");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves the connections that one listener assigned to this worker.
async fn serve_assigned<S: Service>(
    context: Rc<Context>,
    service: Arc<S>,
    mut streams: mpsc::UnboundedReceiver<NewConnection>,
) {
    let read_batch = Rc::new(RefCell::new(service.read_batch()));
    while let Some((stream, permit)) = streams.recv().await {
        let served = serve_new(context.clone(), (stream, permit), service.clone(), read_batch.clone());
        spawn_local(served);
    }
}

/// Serves one connection, after its PROXY preamble and TLS handshake. Frees the connection's permit at the
/// end.
async fn serve_new<S: Service>(
    context: Rc<Context>,
    (stream, permit): NewConnection,
    service: Arc<S>,
    read_batch: Rc<RefCell<S::ReadBatch>>,
) {
    let greeted = async {
        let stream = match stream {
            NewStream::Greeted(greeted) => {
                let FrameStream { stream, remote, local } = *greeted;
                return Ok((stream, open(&context, remote, local)));
            }
            NewStream::Raw(stream) => TcpStream::from_std(stream)?,
        };
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        let greeted = tokio::time::timeout(context.limits.idle, greet(stream, &context.security, &permit));
        let (stream, remote) = greeted.await.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok((stream, open(&context, remote, local)))
    };
    let mut stop = context.stop.clone();
    let greeted = tokio::select! {
        greeted = greeted => greeted,
        _ = stop.wait_for(|stop| *stop) => Err(stopping()),
    };
    match greeted {
        Ok((stream, peer)) => serve(context, stream, peer, service, read_batch).await,
        Err(error) => {
            context.connections.fetch_sub(1, Ordering::Relaxed);
            match error.kind() {
                io::ErrorKind::InvalidData => tracing::info!(%error, "a connection was refused"),
                _ => tracing::debug!(%error, "a connection ended before it was served"),
            }
        }
    }
}

async fn dial<S: Service>(
    context: Rc<Context>,
    address: SocketAddr,
    service: Arc<S>,
    sender: oneshot::Sender<io::Result<Arc<ConnectionHandle>>>,
) {
    let connected = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection to {address} within {CONNECT_TIMEOUT:?}"),
        )),
    };
    let ready = async {
        let stream = connected?;
        stream.set_nodelay(true)?;
        let (remote, local) = (stream.peer_addr()?, stream.local_addr()?);
        let stream = match &context.security.client {
            Some(tls) => tls.connect(stream).await?,
            None => Stream::Plain(stream),
        };
        Ok((stream, open(&context, remote, local)))
    };
    match ready.await {
        Ok((stream, peer)) => {
            context.connections.fetch_add(1, Ordering::Relaxed);
            let read_batch = Rc::new(RefCell::new(service.read_batch()));
            // The caller may have stopped waiting; the connection then ends by its idle timeout.
            let _ = sender.send(Ok(peer.clone()));
            serve(context, stream, peer, service, read_batch).await;
        }
        Err(error) => {
            let _ = sender.send(Err(error));
        }
    }
}

/// Creates the handle of a connection that is about to be served.
fn open(context: &Context, remote: SocketAddr, local: SocketAddr) -> Arc<ConnectionHandle> {
    let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    // A socket for both families shows IPv4 addresses as ::ffff:a.b.c.d; convert them to a.b.c.d.
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let ends = (plain(remote), plain(local));
    let (unanswered, budget) = (context.unanswered.clone(), context.budget.clone());
    let peer = Arc::new(ConnectionHandle::new(id, ends, &context.limits, unanswered, budget));
    context.budget.enter(&peer);
    context.peers.borrow_mut().insert(id, peer.clone());
    if *context.stop.borrow() {
        peer.close();
    }
    peer
}

async fn serve<S: Service>(
    context: Rc<Context>,
    stream: Stream,
    peer: Arc<ConnectionHandle>,
    service: Arc<S>,
    read_batch: Rc<RefCell<S::ReadBatch>>,
) {
    let id = peer.id();
    let scratch = context.scratch.clone();
    let limits = context.limits;
    let (kept, known) = (service.clone(), peer.clone());
    let served = spawn_local(Connection { stream, peer, service, read_batch, scratch, limits }.run()).await;
    if served.is_err() {
        tracing::error!(remote = %known.remote(), "a request could not be served and its connection was ended");
        known.mark_closed();
        kept.closed(&known);
    }
    context.scratch.borrow_mut().heavy.remove(id);
    context.budget.leave(&known);
    context.peers.borrow_mut().remove(&id);
    context.connections.fetch_sub(1, Ordering::Relaxed);
}
