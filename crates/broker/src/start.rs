//! Starting and stopping a broker.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::Workers;
use replica::agent::BrokerIdentity;
use store::timer::TimerFiles;
use store::{Disk, OpenError, RealDisk, SizeMismatch, Store};

use crate::assign;
use crate::broker::{Broker, LoadError, Loaded};
use crate::config::{Config, own_ip};
use crate::disk_pool::DiskPool;
use crate::engine::{BLOCKING, Next, PUNCTUAL};
use crate::housekeeping::{self, Housekeeping, rereading, saving};
use crate::lite::{self, LiteEngine};
use crate::metadata_writer::MetadataWriter;
use crate::metrics::MetricsExporter;
use crate::parts::Arrivals;
use crate::persist::ConfigFiles;
use crate::remoting::{self, Dispatcher, Forwards, Port};
use crate::replication::{self, Replication};
use crate::retention::Deletion;
use crate::save::save;
use crate::shell::{Post, Shell};
use crate::supervisor::SupervisedWork;
use crate::topics::Topics;
use crate::{
    acting, master_services, pages, persist, pop, pull, register, restore, system_topics, transaction,
};

/// Number of disk pool threads for pulls and pops of consumers far behind, for requests of operators, and for other requests.
const DISK_READERS: usize = 2;

/// Errors of starting a broker.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A configuration file cannot be read or written.
    #[error(transparent)]
    Persist(#[from] persist::Error),
    /// Users, acls or the rules of ACL 1.0 cannot be used.
    #[error(transparent)]
    Auth(#[from] auth::StartError),
    /// A port cannot be bound or a thread cannot be started.
    #[error("{what}: {source}")]
    Io {
        /// Action that failed, for the text of the error.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A setting has a value the broker cannot use.
    #[error("{0}")]
    Config(String),
}

/// A broker that serves clients, with all its threads, until [`RunningBroker::stop`] is called.
pub struct RunningBroker {
    pub(crate) broker: Arc<Broker>,
    workers: Workers,
    /// The threads and tasks of the engines.
    shell: Shell,
    address: SocketAddr,
    replication: Replication,
    /// Exporter of metrics, if configured.
    metrics: Option<MetricsExporter>,
}

impl RunningBroker {
    /// Opens the store, recovers it, and serves on the configured port.
    ///
    /// # Errors
    /// [`StartError::Store`] when the store cannot be opened, [`StartError::Persist`] when a configuration file cannot be read or
    /// written, [`StartError::Io`] when a port or thread fails, and [`StartError::Config`] when a setting cannot be used.
    pub fn start(mut config: Config, workers: Workers) -> Result<Self, StartError> {
        let ip = own_ip(&config.broker_ip1).map_err(StartError::Config)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        take_file_sizes(&mut config, &*disk)?;
        let files = ConfigFiles::new(disk.clone(), config.store.root.join("config"));
        files.refuse_rocks()?;
        let topics = Topics::load(files.file("topics.json"))?;
        let batched_topics = restore::batched(&topics, &config, &*disk)
            .map_err(io_error("the queues of batches cannot be listed"))?;
        let in_store = store::Config { batched_topics, ..config.store.clone() };
        let store = Arc::new(Store::open(in_store, disk.clone())?);
        let started = load(config, topics, store.clone(), files, ip).and_then(|(broker, timers)| {
            let started = Self::serve(broker.clone(), timers, workers.clone());
            if started.is_err() {
                // Clients may have been served for a moment: the same steps as in `stop`.
                workers.shutdown();
                save(&broker.delivery, &broker.runtime, &broker.pops);
            }
            started
        });
        // The store is closed so that the next start, be it of Vostok or of RocketMQ, does not take this for a crash and recover.
        if started.is_err()
            && let Err(error) = store.close()
        {
            tracing::error!(%error, "the store could not be closed cleanly");
        }
        started
    }

    fn serve(broker: Arc<Broker>, timers: Option<TimerFiles>, workers: Workers) -> Result<Self, StartError> {
        restore::restore(&broker.tables, &broker.delivery, &broker.runtime)
            .and_then(|()| {
                system_topics::create_system_topics(&broker.tables, &broker.delivery, &broker.runtime)
            })
            .map_err(|refusal| StartError::Config(refusal.remark.into_owned()))?;
        let identity = load_controlled(&broker)?;
        if broker.runtime.config.begins_as_copy() {
            broker
                .store
                .start_following()
                .map_err(|error| StartError::Config(format!("the store cannot follow a master: {error}")))?;
        } else {
            master_services::load(&broker.engines).map_err(|error| StartError::Config(error.to_string()))?;
        }
        let port = broker.runtime.config.listen_port;
        // The task threads call name servers with the same TLS settings and within the same memory budget as all connections.
        let (security, budget) = (workers.security().clone(), workers.budget().clone());
        let limits = net::Limits::default();
        let tasks = Workers::start_within("broker-tasks", BLOCKING + 1, limits, security, budget)
            .map_err(io_error("the broker's timers cannot be started"))?;
        let mut shell = Shell::new(broker.clone(), tasks);
        // Before clients are served: their first requests may have to ask other clients.
        broker.sessions.client_calls.start(shell.tasks().clone());
        shell.disk_pool().map_err(io_error("the threads of the disk pool cannot be started"))?;
        start_retention(&mut shell, &broker)
            .map_err(io_error("the thread that deletes old messages cannot be started"))?;
        // Before clients are served, because this may fail.
        let is_controlled = broker.runtime.config.is_controlled();
        let (replication, links) = if is_controlled {
            Replication::start_controlled(&broker.group_parts(), identity)
                .map(|(replication, links)| (replication, Some(links)))
        } else {
            Replication::start(&broker.group_parts()).map(|replication| (replication, None))
        }
        .map_err(io_error("replication cannot be started (haListenPort)"))?;
        let metrics = MetricsExporter::start(&broker.metrics_parts()).map_err(io_error(
            "metrics cannot be served (metricsPromExporterHost, metricsPromExporterPort)",
        ))?;
        let may_forward = is_controlled || broker.runtime.config.has_acting_master();
        let forwards = if may_forward { Some(start_forwarding(&shell, &broker)?) } else { None };
        let listen = |port: u16, kind: Port| {
            let bind = SocketAddr::new(broker.runtime.config.bind_address, port);
            workers.listen(bind, Arc::new(Dispatcher::forwarding(broker.clone(), kind, forwards.clone())))
        };
        // The VIP port is bound first, so that a client that reaches the broker's port finds the VIP port as well.
        if port > 2
            && let Err(error) = listen(port - 2, Port::Fast)
        {
            tracing::warn!(port = port - 2, %error, "the VIP port cannot be bound; clients with vipChannelEnabled fail");
        }
        let address = listen(port, Port::Own)
            .map_err(io_error(&format!("port {port} cannot be bound for the broker")))?;
        if !broker.runtime.config.begins_as_copy() {
            master_services::start(shell.threads(), &broker.engines, timers)
                .map_err(io_error("the delivery of delayed messages cannot be started"))?;
        }
        start_tasks(&mut shell, &broker).map_err(io_error("the broker's timers cannot be started"))?;
        if let Some(links) = links {
            let post = Post { work: SupervisedWork::Agent, name: "controller-agent" };
            let tasks = shell.tasks().clone();
            let run =
                move |broker: Arc<Broker>| replication::controller::run(broker.group_parts(), tasks, links);
            shell
                .future((PUNCTUAL, post), run)
                .map_err(io_error("the task that speaks with the controllers cannot be started"))?;
        }
        Ok(Self { broker, workers, shell, address, replication, metrics })
    }

    /// The broker's address; when `brokerIP1` is a host name, the address it resolved to.
    pub fn address(&self) -> SocketAddr {
        self.broker.identity.store_host
    }

    /// The address that clients get from name servers: an IP address or a host name, and the port.
    pub fn advertised_address(&self) -> String {
        self.broker.identity.address()
    }

    /// The name of the broker in routes and message queues (`brokerName`).
    pub fn name(&self) -> &str {
        &self.broker.runtime.config.broker_name
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
        self.broker.runtime.draining.store(true, Ordering::Relaxed);
        self.broker.runtime.supervisor.stop();
        for name_server in self.broker.runtime.config.name_servers() {
            let (broker, tasks) = (self.broker.clone(), self.shell.tasks().clone());
            let (sender, receiver) = std::sync::mpsc::channel();
            let spawned = self.shell.tasks().spawn(PUNCTUAL, move || async move {
                register::unregister(&broker.group_parts(), &tasks, &name_server).await;
                let _ = sender.send(());
            });
            if spawned.is_ok() {
                // A name server that does not answer removes the broker later by itself.
                let _ = receiver.recv_timeout(Duration::from_secs(2));
            }
        }
        self.workers.shutdown();
        self.metrics = None;
        self.shell.stop();
        if !self.broker.replication.role.is_slave() && !self.broker.runtime.config.is_controlled() {
            // Before replication ends, so that connected slaves get the checkpoints.
            self.broker.delivery.pops.store_all(&self.broker.pops);
        }
        self.replication.stop();
        let closed = self.broker.store.close();
        // Saved after the log is on disk, so that offsets and delivery positions may be written as they are.
        save(&self.broker.delivery, &self.broker.runtime, &self.broker.pops);
        if closed.is_ok()
            && let Err(error) = self.broker.delivery.schedule.save(self.broker.runtime.now_ms())
        {
            tracing::error!(%error, "positions of delayed messages could not be written");
        }
        closed
    }
}

/// Takes over the sizes of the files of a store that is already there.
fn take_file_sizes(config: &mut Config, disk: &dyn Disk) -> Result<(), OpenError> {
    let mut found = config.store.take_file_sizes(disk)?;
    let mut timers = config.timers.files(&config.store, config.retention.reserved_ms);
    found.extend(timers.take_file_size(disk)?);
    config.timers.log_file_bytes = timers.log_file_bytes;
    for SizeMismatch { setting, configured, found } in found {
        tracing::warn!(
            setting,
            configured,
            found,
            "the store keeps the size of its files, which differs from the setting; Apache RocketMQ opens it with this size only"
        );
    }
    Ok(())
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
    files: ConfigFiles,
    ip: IpAddr,
) -> Result<(Arc<Broker>, Option<TimerFiles>), StartError> {
    let port = config.listen_port;
    let disk_pool = DiskPool::new(DISK_READERS);
    let loaded =
        Loaded::read(config, topics, store, files.clone(), disk_pool).map_err(|error| match error {
            LoadError::Table(error) => StartError::Persist(error),
            LoadError::Auth(error) => StartError::Auth(error),
        })?;
    let broker = Broker::new(loaded, ip, port);
    connect_arrivals(&broker);
    broker.delivery.pops.load(&files)?;
    // In controller mode the files are opened when this broker becomes master.
    let timers = if broker.runtime.config.is_controlled() {
        None
    } else {
        master_services::open_timer(&broker.tables, &broker.delivery, &broker.runtime)?
    };
    Ok((broker, timers))
}

/// Sets what runs when a queue grows at which requests wait.
pub(crate) fn connect_arrivals(broker: &Arc<Broker>) {
    // Parts that are gone have no waiting requests. Strong references would keep the parts for ever.
    let (pulls, pops) = (Arc::downgrade(&broker.pulls), Arc::downgrade(&broker.pops));
    let of_lite = pops.clone();
    let arrivals = Arrivals {
        pulls: Box::new(move |queue| {
            if let Some(pulls) = pulls.upgrade() {
                pull::arrived(&pulls, queue);
            }
        }),
        pops: Box::new(move |queue| {
            if let Some(pops) = pops.upgrade() {
                pop::arrived(&pops, queue);
            }
        }),
        lite: Box::new(move |group, name| {
            if let Some(pops) = of_lite.upgrade() {
                lite::dispatch(&pops.delivery, &pops.runtime, &pops, group, name);
            }
        }),
    };
    assert!(broker.delivery.arrivals.set(arrivals).is_ok(), "a broker is connected once");
}

/// Reads the epochs of the log and the broker's id, in controller mode.
fn load_controlled(broker: &Broker) -> Result<Option<BrokerIdentity>, StartError> {
    if !broker.runtime.config.is_controlled() {
        return Ok(None);
    }
    let refused = |error: replication::FilesError| StartError::Config(error.to_string());
    let mut epochs =
        replication::load_epochs(&broker.runtime.config, &broker.tables.files).map_err(refused)?;
    let may_have_lost = replication::load_may_have_lost(&broker.tables, &broker.runtime).map_err(refused)?;
    if may_have_lost {
        epochs.cut(broker.store.appended());
    }
    let mut elected = broker.replication.replicas.elected();
    (elected.epochs, elected.may_have_lost) = (epochs, may_have_lost);
    drop(elected);
    replication::load_identity(&broker.runtime.config, &broker.tables.files).map_err(refused)
}

/// Starts the thread that deletes old messages, once the disk was checked for the first time.
fn start_retention(shell: &mut Shell, broker: &Arc<Broker>) -> io::Result<()> {
    let deletion = Deletion::new(broker.retention_parts());
    let post = Post { work: SupervisedWork::Retention, name: "retention" };
    shell.threads().start(post, broker.runtime.retention.wakeup(), move || Ok(deletion))
}

/// Starts the thread of lite topics, if the broker serves them.
fn start_lite(shell: &mut Shell, broker: &Arc<Broker>) -> io::Result<()> {
    if !broker.runtime.config.store.multi_dispatch {
        return Ok(());
    }
    let engine = LiteEngine::new(broker.lite_parts());
    let post = Post { work: SupervisedWork::Lite, name: "lite" };
    shell.threads().start(post, broker.tables.lite.wakeup(), move || Ok(engine))
}

/// Starts the task that forwards requests to the master while this broker is not the master.
/// Returns the queue of the task.
fn start_forwarding(shell: &Shell, broker: &Broker) -> Result<Forwards, StartError> {
    let (forwards, taken) = Forwards::new(remoting::answer_timeout(&broker.runtime.config));
    let tasks = shell.tasks().clone();
    let post = Post { work: SupervisedWork::Forwards, name: "forwards" };
    shell
        .future((PUNCTUAL, post), move |broker: Arc<Broker>| remoting::forward_taken(broker, tasks, taken))
        .map_err(io_error("the task that forwards requests to the master cannot be started"))?;
    Ok(forwards)
}

/// Starts the tasks, and the metadata writer.
fn start_tasks(shell: &mut Shell, broker: &Arc<Broker>) -> io::Result<()> {
    use SupervisedWork::{
        Checks, Clients, Members, Metadata, Offsets, Pops, Pulls, Ranking, Refusals, Register, Routes, Rules,
        Tables,
    };
    let metadata_writer = MetadataWriter::new(broker.metadata_parts());
    let post = Post { work: Metadata, name: "metadata-writer" };
    shell.threads().start(post, broker.runtime.metadata_queue.wakeup(), move || Ok(metadata_writer))?;
    start_lite(shell, broker)?;
    let post = |thread, work, name| (thread, Post { work, name });
    if broker.runtime.config.begins_as_copy() {
        let tasks = shell.tasks().clone();
        let sync = move |broker: Arc<Broker>| replication::sync_metadata(broker.group_parts(), tasks);
        shell.future(post(BLOCKING, Tables, "metadata"), sync)?;
    }
    if !broker.runtime.config.is_slave() {
        let checks = transaction::checks(broker.engines.clone());
        shell.task(post(BLOCKING, Checks, "transaction-check"), None, checks)?;
    }
    let of_pulls = broker.clone();
    let pulls = move |now_ms| housekeeping::answer_expired(&of_pulls.sessions, &of_pulls.pulls, now_ms);
    shell.task(
        post(PUNCTUAL, Pulls, "suspended-pulls"),
        Some(|broker| &broker.sessions.poll_timeouts.earlier),
        pulls,
    )?;
    shell.task(post(PUNCTUAL, Clients, "clients"), None, Housekeeping::new(broker.housekeeping_parts()))?;
    let of_disk = broker.clone();
    let watch = move |now_ms| housekeeping::watch_disk(&of_disk.replication, &of_disk.runtime, now_ms);
    shell.task(post(PUNCTUAL, Clients, "disk-watch"), None, watch)?;
    shell.task(post(BLOCKING, Offsets, "offsets"), None, saving(broker.housekeeping_parts()))?;
    let of_topics = broker.clone();
    let rank = move |_| {
        pages::rank_topics(&of_topics.tables);
        Next::Woken
    };
    shell.task(post(BLOCKING, Ranking, "ranking"), None, rank)?;
    let of_pops = broker.clone();
    let pops = move |now_ms| pop::due(&of_pops.pops, now_ms);
    shell.task(
        post(PUNCTUAL, Pops, "suspended-pops"),
        Some(|broker| broker.delivery.pops.earlier()),
        pops,
    )?;
    let of_delays = broker.clone();
    let delays = move |now_ms| of_delays.sessions.gate.delays.due(now_ms);
    shell.task(
        post(PUNCTUAL, Refusals, "refusals"),
        Some(|broker| &broker.sessions.gate.delays.added),
        delays,
    )?;
    if broker.sessions.gate.plain().is_some() {
        shell.task(post(BLOCKING, Rules, "acl-rules"), None, rereading(broker.housekeeping_parts()))?;
    }
    if broker.runtime.config.has_acting_master() {
        let tasks = shell.tasks().clone();
        let run = move |broker: Arc<Broker>| acting::run(broker.group_parts(), tasks);
        shell.future(post(BLOCKING, Members, "acting-master"), run)?;
    }
    let tasks = shell.tasks().clone();
    shell.future(post(PUNCTUAL, Routes, "routes"), move |broker: Arc<Broker>| async move {
        assign::run(&broker.tables, &broker.sessions, &broker.runtime, tasks).await;
    })?;
    let tasks = shell.tasks().clone();
    shell.future(post(PUNCTUAL, Register, "register"), move |broker: Arc<Broker>| {
        register::run_all(broker.group_parts(), tasks)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
