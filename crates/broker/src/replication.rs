//! Replication between the brokers of a group: the shells around the state machines of the crate `replica`.
//!
//! A master runs a thread, `ha-master`, which accepts slaves and sends them the log ([`master`]). A slave runs a
//! thread, `ha-slave`, which takes its master's log ([`slave`]). A task of the slave takes the master's tables
//! ([`metadata`]) and positions of delayed and timed messages ([`positions`]). In controller mode the thread `role`
//! ([`roles`]) starts and ends these threads when the task `controller-agent` ([`controller`]) learns of a new
//! master.
//!
//! `replica::master` and `replica::slave` decide what is sent, appended, reported and closed, and when.
//! `replica::agent` decides the requests to controllers. This module contains sockets, files, the clock, and the
//! calls of the store.

pub(crate) mod controller;
mod files;
mod master;
mod master_link;
mod metadata;
mod positions;
mod roles;
mod slave;

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use replica::agent::BrokerIdentity;
use replica::master::Master;
use replica::slave::Slave;
use tokio::sync::watch;

use crate::parts::{GroupParts, Runtime};
use crate::supervisor::SupervisedWork;
pub(crate) use files::{FilesError, load_epochs, load_identity, load_may_have_lost, note_flushed_later};
use net::Workers;
use roles::{Order, Roles};

/// Most threads of `ha-master` that read parts of the log that are not in memory.
const READERS: usize = 2;

/// A running thread of replication. Dropping it ends the thread and its connections.
pub(crate) struct Worker {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a supervised thread with a runtime of its own, which runs the future until the thread is stopped.
    fn start<F: Future<Output = ()>>(
        parts: &Arc<GroupParts>,
        (work, name): (SupervisedWork, &'static str),
        make: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(READERS).thread_name("ha-read").build()?;
        parts.runtime.supervisor.employ(work);
        let supervisor = parts.runtime.supervisor.clone();
        let run = move || {
            let has_stopped = stopped.clone();
            runtime.block_on(make(stopped));
            if *has_stopped.borrow() {
                supervisor.dismiss(work);
            }
        };
        Ok(Self { stop, thread: Some(parts.runtime.supervisor.spawn(work, name, run)?) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the supervisor.
            let _ = thread.join();
        }
    }
}

/// Replication threads and tasks of this broker.
pub(crate) enum Replication {
    /// The thread of a master or slave that the operator made so; none when slaves cannot connect.
    Classic { _worker: Option<Worker> },
    /// The thread that changes roles.
    Controlled { orders: std::sync::mpsc::Sender<Order>, thread: Option<JoinHandle<()>> },
}

impl Replication {
    /// Starts the thread of a master, or of a slave, by `brokerRole`.
    ///
    /// # Errors
    /// An error of the operating system: `haListenPort` is set and cannot be bound, or the thread cannot be started.
    pub(crate) fn start(parts: &Arc<GroupParts>) -> io::Result<Self> {
        let config = &parts.runtime.config.replication;
        if parts.runtime.config.is_slave() {
            let (end, flushed) = (parts.tables.store.followed(), parts.tables.store.flushed());
            let config = config.of_slave(&parts.runtime.config.store, parts.replication.durability.mode());
            let slave = Slave::classic(config, end, flushed.min(end));
            let shell = slave::Shell::new(parts.clone(), slave);
            let run = move |stopped| shell.run(stopped);
            return Ok(Self::Classic {
                _worker: Some(Worker::start(parts, (SupervisedWork::Follow, "ha-slave"), run)?),
            });
        }
        if config.role == crate::config::Role::SyncMaster && !config.waits_for_slaves() {
            tracing::warn!(
                "brokerRole=SYNC_MASTER waits for no slave as long as inSyncReplicas is 1, as in RocketMQ 5"
            );
        }
        let listener = match listen(&parts.identity, &parts.runtime) {
            Ok(listener) => listener,
            Err(error) if config.port != 0 || config.waits_for_slaves() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "the port behind listenPort cannot be bound; slaves cannot connect (haListenPort)");
                return Ok(Self::Classic { _worker: None });
            }
        };
        if config.waits_for_slaves() {
            parts.replication.durability.wait_for_slaves();
        }
        let range = master::range(&parts.tables.store, false);
        let machine = Master::classic(config.of_master(&parts.runtime.config.store), range);
        let serving = parts.clone();
        let run = move |stopped| master::run(serving, listener, machine, None, stopped);
        Ok(Self::Classic {
            _worker: Some(Worker::start(parts, (SupervisedWork::Replicate, "ha-master"), run)?),
        })
    }

    /// Starts the thread that performs the roles from the controllers, and returns the links for the agent.
    ///
    /// # Errors
    /// An error of the operating system when the thread cannot be started.
    pub(crate) fn start_controlled(
        parts: &Arc<GroupParts>,
        identity: Option<BrokerIdentity>,
    ) -> io::Result<(Self, controller::Links)> {
        let (orders, received) = std::sync::mpsc::channel();
        let (proposer, proposals) = tokio::sync::mpsc::unbounded_channel();
        let roles = Roles::new(parts.clone(), proposer);
        let run = move || roles.run(&received);
        let thread = Some(parts.runtime.supervisor.spawn(SupervisedWork::Role, "role", run)?);
        let links = controller::Links { identity, orders: orders.clone(), proposals };
        Ok((Self::Controlled { orders, thread }, links))
    }

    /// Ends the thread and its connections.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        if let Self::Controlled { orders, thread } = self {
            let _ = orders.send(Order::Stop);
            if let Some(thread) = thread.take() {
                // A panic was reported by the supervisor.
                let _ = thread.join();
            }
        }
    }
}

/// Copies the master's state beside the log to this slave, until the workers stop.
pub(crate) async fn sync_metadata(parts: Arc<GroupParts>, workers: Workers) {
    tokio::join!(metadata::run(parts.clone(), workers.clone()), positions::run(parts, workers));
}

fn listen(identity: &crate::parts::Identity, runtime: &Runtime) -> io::Result<std::net::TcpListener> {
    // The port knows no users, so it is this machine's where only this machine is served.
    let bind = runtime.config.refusal_of_others.map(|_| IpAddr::V4(Ipv4Addr::LOCALHOST));
    let address = SocketAddr::new(bind.unwrap_or(runtime.config.bind_address), identity.ha_port());
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Milliseconds since the thread began, for the state machines.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now_ms(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until this time, or for ever without a time.
    async fn until(self, at_ms: Option<u64>) {
        match at_ms {
            Some(at_ms) => {
                tokio::time::sleep_until((self.0 + std::time::Duration::from_millis(at_ms)).into()).await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Cuts the log of a store that follows off at `to`, as the thread `ha-slave` does.
#[cfg(test)]
pub(crate) fn cut_log(
    tables: &crate::parts::Tables,
    delivery: &crate::parts::Delivery,
    runtime: &Runtime,
    to: wire::units::LogOffset,
) {
    positions::lower(tables, delivery, runtime, to).unwrap();
    tables.store.truncate(to).unwrap();
}

#[cfg(test)]
mod connection_tests;
