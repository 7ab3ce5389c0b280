//! Starting and stopping a broker.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use net::Workers;
use store::timer::TimerFiles;
use store::{OpenError, RealDisk, Store};

use crate::assign::{self, Modes};
use crate::broker::{Broker, Loaded};
use crate::config::Config;
use crate::disk_pool::DiskPool;
use crate::dispatcher::Dispatcher;
use crate::groups::Groups;
use crate::metadata_writer::MetadataWriter;
use crate::offsets::Offsets;
use crate::position_writer::PositionWriter;
use crate::retention::RetentionThread;
use crate::schedule::{self, Schedule};
use crate::supervisor::SupervisedWork;
use crate::timer::scheduler;
use crate::topics::{self, Topics};
use crate::{persist, pop, restore};
use crate::{register, stats, transaction};

/// Number of disk pool threads for pulls and pops of consumers far behind, and as many for other requests except those of
/// operators.
const DISK_READERS: usize = 2;

/// Index of the task thread whose tasks may wait for the disk. Thread 0 runs the tasks that must be on time.
const BLOCKING: usize = 1;

/// Interval at which clients without heartbeats are removed (`ClientHousekeepingService`).
const CLIENT_SWEEP: Duration = Duration::from_secs(10);

/// Why a broker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A configuration file cannot be read or written.
    #[error(transparent)]
    Persist(#[from] persist::Error),
    /// A port cannot be bound or a thread cannot be started.
    #[error("{what}: {source}")]
    Io {
        /// What cannot be done, for the text of the error.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A setting has a value the broker cannot use.
    #[error("{0}")]
    Config(String),
}

/// A running broker.
pub struct RunningBroker {
    broker: Arc<Broker>,
    workers: Workers,
    /// The task threads: timeouts, calls to name servers, and tasks that may wait for the disk.
    tasks: Workers,
    retention: RetentionThread,
    address: SocketAddr,
    delivery: Delivery,
}

/// The threads that deliver delayed and timed messages and bring popped messages back, and the position writer.
struct Delivery {
    position_writer: Arc<PositionWriter>,
    threads: Vec<JoinHandle<()>>,
}

impl Delivery {
    fn start(broker: &Arc<Broker>, timers: Option<TimerFiles>) -> io::Result<Self> {
        let position_writer = PositionWriter::start(&broker.supervisor)?;
        let mut delivery = Self { position_writer: position_writer.clone(), threads: Vec::new() };
        match delivery.spawn(broker, timers) {
            Ok(()) => Ok(delivery),
            Err(error) => {
                delivery.stop(broker);
                Err(error)
            }
        }
    }

    fn spawn(&mut self, broker: &Arc<Broker>, timers: Option<TimerFiles>) -> io::Result<()> {
        self.threads.push(schedule::start(broker.clone(), self.position_writer.clone())?);
        if let Some(files) = timers {
            self.threads.push(scheduler::start(broker.clone(), files, self.position_writer.clone())?);
            self.threads.push(pop::revive::start(broker.clone())?);
        }
        Ok(())
    }

    /// Stops and joins the threads. No message is delivered after this returns.
    fn stop(&mut self, broker: &Broker) {
        broker.supervisor.stop();
        broker.schedule.stop();
        broker.timer.stop();
        broker.pops.stop();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        self.position_writer.stop();
    }
}

impl RunningBroker {
    /// Opens the store, recovers it, and serves on the configured port.
    ///
    /// # Errors
    /// [`StartError::Store`] when the store cannot be opened, [`StartError::Persist`] when a configuration file cannot be read or
    /// written, [`StartError::Io`] when a port or thread fails, and [`StartError::Config`] when a setting cannot be used.
    pub fn start(config: Config, workers: Workers) -> Result<Self, StartError> {
        let ip = own_ip(&config.broker_ip1)?;
        let files = config.store.root.join("config");
        persist::refuse_rocks(&files)?;
        let topics = Topics::load(files.join("topics.json"))?;
        let batched_topics = restore::batched(&topics, &config, &RealDisk)
            .map_err(io_error("the queues of batches cannot be listed"))?;
        let in_store = store::Config { batched_topics, ..config.store.clone() };
        let store = Arc::new(Store::open(in_store, Arc::new(RealDisk))?);
        let started = load(config, topics, store.clone(), ip).and_then(|(broker, timers)| {
            let started = Self::serve(broker.clone(), timers, workers);
            if started.is_err() {
                broker.disk_pool.stop();
            }
            started
        });
        // No message was stored. The store is closed so that the next start, be it of Vostok or of RocketMQ, does not take
        // this for a crash and recover.
        if started.is_err()
            && let Err(error) = store.close()
        {
            tracing::error!(%error, "the store could not be closed cleanly");
        }
        started
    }

    fn serve(broker: Arc<Broker>, timers: Option<TimerFiles>, workers: Workers) -> Result<Self, StartError> {
        restore::restore(&broker)
            .and_then(|()| topics::create_system_topics(&broker))
            .map_err(|refusal| StartError::Config(refusal.remark.into_owned()))?;
        let loaded = transaction::load(&broker);
        loaded.map_err(|error| {
            StartError::Config(format!("the state of transactions cannot be read: {error}"))
        })?;
        let retention = RetentionThread::start(broker.clone())
            .map_err(io_error("the thread that deletes old messages cannot be started"))?;
        let port = broker.config.listen_port;
        // The task threads call name servers with the same TLS settings and within the same memory budget as all connections.
        let (security, budget) = (workers.security().clone(), workers.budget().clone());
        let limits = net::Limits::default();
        let tasks = Workers::start_within("broker-tasks", BLOCKING + 1, limits, security, budget)
            .map_err(io_error("the broker's timers cannot be started"))?;
        let listen = |port: u16, fast: bool| {
            let bind = SocketAddr::new(broker.config.bind_address, port);
            workers.listen(bind, Arc::new(Dispatcher { broker: broker.clone(), fast }))
        };
        // The VIP port is bound first, so that a client that reaches the broker's port finds the VIP port as well.
        if port > 2
            && let Err(error) = listen(port - 2, true)
        {
            tracing::warn!(port = port - 2, %error, "the VIP port cannot be bound; clients with vipChannelEnabled fail");
        }
        let address =
            listen(port, false).map_err(io_error(&format!("port {port} cannot be bound for the broker")))?;
        let delivery = Delivery::start(&broker, timers)
            .map_err(io_error("the delivery of delayed messages cannot be started"))?;
        let mut running = Self { broker, workers, tasks, retention, address, delivery };
        if let Err(error) = running.spawn_tasks() {
            running.delivery.stop(&running.broker);
            return Err(io_error("the broker's timers cannot be started")(error));
        }
        Ok(running)
    }

    fn spawn_tasks(&self) -> io::Result<()> {
        MetadataWriter::start(&self.broker)?;
        self.broker.client_calls.start(self.tasks.clone());
        self.watched(BLOCKING, (SupervisedWork::Checks, "transaction-check"), transaction::run)?;
        self.watched(0, (SupervisedWork::Pulls, "suspended-pulls"), answer_expired)?;
        self.watched(0, (SupervisedWork::Clients, "clients"), housekeep)?;
        self.watched(BLOCKING, (SupervisedWork::Offsets, "offsets"), save_regularly)?;
        self.watched(0, (SupervisedWork::Pops, "suspended-pops"), pop::run)?;
        let tasks = self.tasks.clone();
        self.watched(0, (SupervisedWork::Routes, "routes"), move |broker| assign::run(broker, tasks))?;
        for name_server in self.broker.config.name_servers() {
            let tasks = self.tasks.clone();
            let run = move |broker| register::run(broker, tasks, name_server);
            self.watched(0, (SupervisedWork::Register, "register"), run)?;
        }
        Ok(())
    }

    /// Runs a supervised task on one of the task threads until the broker stops.
    fn watched<F: Future<Output = ()> + 'static>(
        &self,
        thread: usize,
        (duty, name): (SupervisedWork, &'static str),
        make: impl FnOnce(Arc<Broker>) -> F + Send + 'static,
    ) -> io::Result<()> {
        let broker = self.broker.clone();
        self.tasks.spawn(thread, move || async move {
            let supervisor = broker.supervisor.clone();
            supervisor.task(duty, name, make(broker)).await;
        })
    }

    /// The broker's address; when `brokerIP1` is a host name, the address it resolved to.
    pub fn address(&self) -> SocketAddr {
        self.broker.store_host
    }

    /// The address that clients get from name servers: an IP address or a host name, and the port.
    pub fn told_address(&self) -> String {
        self.broker.address()
    }

    /// The broker's name (`brokerName`).
    pub fn name(&self) -> &str {
        &self.broker.config.broker_name
    }

    /// The local address the broker listens on.
    pub fn bound(&self) -> SocketAddr {
        self.address
    }

    /// Unregisters from the name servers, answers newer clients so that they use other brokers, and closes the store cleanly.
    /// Shuts down the workers given to [`RunningBroker::start`].
    ///
    /// # Errors
    /// The error with which the store was closed.
    pub fn stop(mut self) -> Result<(), store::AppendError> {
        self.broker.draining.store(true, Ordering::Relaxed);
        self.broker.supervisor.stop();
        for name_server in self.broker.config.name_servers() {
            let (broker, tasks) = (self.broker.clone(), self.tasks.clone());
            let (sender, receiver) = std::sync::mpsc::channel();
            let told = self.tasks.spawn(0, move || async move {
                register::unregister(&broker, &tasks, &name_server).await;
                let _ = sender.send(());
            });
            if told.is_ok() {
                // A name server that does not answer removes the broker later by itself.
                let _ = receiver.recv_timeout(Duration::from_secs(2));
            }
        }
        self.workers.shutdown();
        self.broker.metadata_writer.stop();
        self.tasks.shutdown();
        self.delivery.stop(&self.broker);
        self.broker.disk_pool.stop();
        drop(self.retention);
        self.broker.pops.store_all(&self.broker);
        let closed = self.broker.store.close();
        // Saved after the log is on disk, so that offsets and delivery positions may be written as they are.
        self.broker.save();
        if closed.is_ok()
            && let Err(error) = self.broker.schedule.save(self.broker.now_ms())
        {
            tracing::error!(%error, "positions of delayed messages could not be written");
        }
        closed
    }
}

/// The address of `brokerIP1`, for records and message ids.
fn own_ip(host: &str) -> Result<IpAddr, StartError> {
    if let Ok(ip) = host.parse() {
        return Ok(ip);
    }
    let found = (host, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
    let advice = "put an address of this machine there, or a name that resolves to one";
    let failed =
        |why: String| StartError::Config(format!("brokerIP1={host} does not resolve ({why}): {advice}"));
    let found: Vec<IpAddr> = found.map_err(|error| failed(error.to_string()))?;
    preferred(&found).ok_or_else(|| failed("no address".to_owned()))
}

/// The address to use of those a host name resolves to: an IPv4 address if there is one, because some clients cannot read
/// IPv6 addresses in message ids.
fn preferred(found: &[IpAddr]) -> Option<IpAddr> {
    found.iter().find(|ip| ip.is_ipv4()).or(found.first()).copied()
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> StartError {
    let what = what.to_owned();
    move |source| StartError::Io { what, source }
}

/// Loads the configuration files and the timer's files, and makes the broker.
fn load(
    config: Config,
    topics: Topics,
    store: Arc<Store>,
    ip: IpAddr,
) -> Result<(Arc<Broker>, Option<TimerFiles>), StartError> {
    let files = config.store.root.join("config");
    let port = config.listen_port;
    let timers = config.timers.files(&config.store, config.retention.reserved_ms);
    let timers = config.timers.enabled.then(|| TimerFiles::open(timers, Arc::new(RealDisk))).transpose()?;
    let disk_pool =
        DiskPool::start(DISK_READERS).map_err(io_error("the threads of the disk pool cannot be started"))?;
    let light = config.store.multi_dispatch;
    let loaded = Loaded {
        topics,
        groups: Groups::load(files.join("subscriptionGroup.json"))?.with_light(light),
        offsets: if light {
            Offsets::load_light(&files)?
        } else {
            Offsets::load(files.join("consumerOffset.json"))?
        },
        schedule: Schedule::load(files.join("delayOffset.json"))?,
        modes: Modes::load(files.join("messageRequestMode.json"))?,
        store,
        disk_pool,
        config,
    };
    let broker = Broker::new(loaded, ip, port);
    broker.pops.load(&files)?;
    Ok((broker, timers))
}

/// Answers suspended pulls when their polling time is over.
async fn answer_expired(broker: Arc<Broker>) {
    loop {
        let wait_ms = broker.poll_timeouts.earliest().map_or(1000, |deadline| deadline - broker.now_ms());
        if wait_ms > 0 {
            let timer = tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs().min(1000)));
            tokio::select! {
                () = timer => {}
                () = broker.poll_timeouts.earlier.notified() => {}
            }
        }
        broker.answer_expired();
    }
}

/// Saves the offsets of groups every `flushConsumerOffsetInterval`.
async fn save_regularly(broker: Arc<Broker>) {
    loop {
        tokio::time::sleep(Duration::from_millis(broker.config.flush_consumer_offset_interval_ms)).await;
        broker.save();
    }
}

/// Samples statistics, and removes clients without heartbeats.
async fn housekeep(broker: Arc<Broker>) {
    let mut sweep = tokio::time::interval(CLIENT_SWEEP);
    let mut sample = tokio::time::interval(Duration::from_millis(stats::SAMPLE_MS.unsigned_abs()));
    loop {
        tokio::select! {
            _ = sample.tick() => stats::sample(&broker, broker.now_ms()),
            _ = sweep.tick() => {
                broker.announce(&broker.clients.expire(broker.now_ms()));
            }
        }
    }
}

/// An address of this machine that other machines can reach. This is the source address the system chooses for a public
/// address, or, on a machine without a default route, for a network the machine is part of. No packet is sent.
pub fn reachable_ip() -> IpAddr {
    let public = [Ipv4Addr::new(192, 0, 2, 1)];
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let ours =
        public.into_iter().chain(neighbours(&routes)).find_map(|address| source_towards(address.into()));
    let six = || source_towards(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    ours.or_else(six).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn source_towards(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// An address in each network of a routing table (`/proc/net/route`), except networks that exist only within this machine,
/// like loopback and bridges of containers (`NetworkUtil.getLocalInetAddress` skips the same).
fn neighbours(routes: &str) -> impl Iterator<Item = Ipv4Addr> {
    const OWN: [&str; 5] = ["lo", "docker", "br-", "veth", "virbr"];
    routes.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (device, network) = (words.next()?, words.next()?);
        let network = u32::from_str_radix(network, 16).ok().filter(|network| *network != 0)?;
        let first = u32::from_be_bytes(network.to_ne_bytes()).checked_add(1)?;
        (!OWN.iter().any(|own| device.starts_with(own))).then(|| Ipv4Addr::from(first))
    })
}

#[cfg(test)]
mod tests;
