//! Thread `role` of controller mode: makes this broker master or slave while it runs, in the order of
//! `ReplicasManager.changeToMaster` and `changeToSlave`. It owns the threads of either role.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use replica::in_sync::{CommittedSet, SetEpoch};
use replica::master::{Master, MasterEvent, MasterStart};
use replica::slave::{Slave, SlaveStart};
use tokio::sync::{mpsc, watch};
use wire::ha::switch::Handshake;
use wire::ha::{BrokerId, Epoch};

use super::files::{forget_loss, save_epochs};
use super::master::{self, ToControllers};
use super::{Worker, slave};
use crate::broker::Broker;
use crate::master_services::{self, MasterServicesError};
use crate::position_writer::wait_flushed;
use crate::shell::EngineThreads;
use crate::supervisor::SupervisedWork;

/// Most decisions of controllers that wait for the thread `ha-master`.
const DECISIONS_MAX: usize = 64;

/// Pause before an order that failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Order of the agent.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Become master.
    Lead { own: BrokerId, epoch: Epoch, committed: CommittedSet },
    /// Become slave of the master at this address.
    Follow { own: BrokerId, epoch: Epoch, master: String },
    /// Decision for this broker as master.
    Decided(MasterEvent),
    /// The broker stops.
    Stop,
}

/// Errors of taking a role.
#[derive(Debug, thiserror::Error)]
enum RoleError {
    #[error(transparent)]
    Store(#[from] store::AppendError),
    #[error("the log cannot be written to disk")]
    Unflushed,
    #[error(transparent)]
    Epoch(#[from] replica::epochs::StaleEpoch),
    #[error("the epochs of the log cannot be written: {0}")]
    EpochFile(io::Error),
    #[error("the note of a loss cannot be removed: {0}")]
    Note(io::Error),
    #[error(transparent)]
    MasterServices(#[from] MasterServicesError),
    #[error(transparent)]
    Thread(#[from] io::Error),
}

/// Fences the broker when the thread that holds this value panics. Without the thread the role would never change,
/// and a broker in an old role acknowledges messages that are lost.
struct FencedByPanic(Arc<Broker>);

impl Drop for FencedByPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.replication.role.fence();
        }
    }
}

/// The thread's state.
pub(super) struct Roles {
    broker: Arc<Broker>,
    proposals: mpsc::UnboundedSender<(BTreeSet<BrokerId>, SetEpoch)>,
    /// The thread `ha-master` or `ha-slave`.
    worker: Option<Worker>,
    /// Engines that only a master runs.
    engines: EngineThreads,
    /// Sender of decisions to this broker as master.
    decided: Option<mpsc::Sender<MasterEvent>>,
}

impl Roles {
    pub(super) fn new(
        broker: Arc<Broker>,
        proposals: mpsc::UnboundedSender<(BTreeSet<BrokerId>, SetEpoch)>,
    ) -> Self {
        Self { proposals, worker: None, engines: EngineThreads::new(broker.clone()), decided: None, broker }
    }

    /// Follows orders until the broker stops. A failed order is tried again until the next order.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        let _fenced_by_panic = FencedByPanic(self.broker.clone());
        let mut failed = None;
        loop {
            let order = match failed.take() {
                None => orders.recv().unwrap_or(Order::Stop),
                Some(failed) => match orders.recv_timeout(RETRY_PAUSE) {
                    // The decision was for the failed master.
                    Ok(Order::Decided(_)) | Err(RecvTimeoutError::Timeout) => failed,
                    Ok(order) => order,
                    Err(RecvTimeoutError::Disconnected) => Order::Stop,
                },
            };
            if matches!(order, Order::Stop) {
                break;
            }
            let performed = self.perform(order.clone());
            if !matches!(order, Order::Decided(_)) {
                self.broker.replication.replicas.elected().lead_failed =
                    performed.is_err() && matches!(order, Order::Lead { .. });
            }
            if let Err(error) = performed {
                tracing::error!(?order, %error, "this broker cannot take the role it was given; it is tried again");
                self.end_role();
                self.broker.replication.role.fence();
                failed = Some(order);
            }
        }
        self.engines.stop();
        if !self.broker.replication.role.is_slave() {
            // Before the master's thread ends, so that connected slaves get the checkpoints.
            self.broker.delivery.pops.store_all(&self.broker);
        }
    }

    fn perform(&mut self, order: Order) -> Result<(), RoleError> {
        match order {
            Order::Lead { own, epoch, committed } => self.lead(own, epoch, committed),
            Order::Follow { own, epoch, master } => self.follow(own, epoch, master),
            Order::Decided(decided) => {
                if let Some(master) = &self.decided {
                    // An ended thread was reported. A thread that still waits for its port takes no decisions. This
                    // thread must not wait for it, and the controllers repeat their decisions.
                    let _ = master.try_send(decided);
                }
                Ok(())
            }
            Order::Stop => Ok(()),
        }
    }

    fn lead(&mut self, own: BrokerId, epoch: Epoch, committed: CommittedSet) -> Result<(), RoleError> {
        let broker = self.broker.clone();
        tracing::info!(%epoch, members = ?committed.members, "this broker becomes master");
        self.end_role();
        // Queues and key index have every record that the log has: the store adds them together.
        let end = broker.store.stop_following()?;
        let is_durable = broker.replication.durability.waits_for_flush();
        if is_durable && !wait_flushed(&broker.store, end) {
            return Err(RoleError::Unflushed);
        }
        let mut epochs = broker.replication.replicas.elected().epochs.clone();
        let goes_on = epochs.last().is_some_and(|last| last.epoch == epoch);
        if !goes_on || broker.replication.replicas.elected().may_have_lost {
            epochs.begin(epoch, end)?;
            save_epochs(&broker, epochs.clone()).map_err(RoleError::EpochFile)?;
        }
        forget_loss(&broker).map_err(RoleError::Note)?;
        broker.replication.replicas.set_master(None);
        master_services::load(&broker)?;
        let timers = master_services::open_timer(&broker).map_err(MasterServicesError::from)?;
        let settings = &broker.runtime.config.replication;
        let is_all_ack = settings.controller.is_all_ack;
        // A message that no other broker must have is confirmed from the first request on, because consumers may have
        // read it at the former master.
        let is_alone = committed.members.iter().all(|member| *member == own);
        let known = broker.store.confirmed().filter(|_| !is_alone);
        let confirm = known.unwrap_or(end).min(end);
        broker.store.set_confirmed(is_all_ack.then_some(confirm));
        let log = master::range(&broker.store, is_durable);
        let start = MasterStart { own, committed: committed.clone(), epochs, log, confirm };
        let machine = Master::elected(0, settings.of_elected(&broker.runtime.config.store), start);
        let need = machine.need(u32::MAX);
        match need {
            Some(Ok(replica::acks::Need::Master)) | None => broker.replication.durability.ignore_slaves(),
            Some(_) => broker.replication.durability.wait_for_slaves(),
        }
        broker.replication.durability.set_lacks_replicas(need.is_some_and(|need| need.is_err()));
        let (decided, received) = mpsc::channel(DECISIONS_MAX);
        let controllers = ToControllers { decided: received, proposals: self.proposals.clone() };
        let serving = broker.clone();
        let run = move |mut stopped: watch::Receiver<bool>| async move {
            if let Some(listener) = master::bind(&serving, &mut stopped).await {
                master::run(serving, listener, machine, Some(controllers), stopped).await;
            }
        };
        self.worker = Some(Worker::start(&broker, (SupervisedWork::Replicate, "ha-master"), run)?);
        self.decided = Some(decided);
        // Before requests are taken: answers about tables wait for this set from the first one on.
        broker.replication.replicas.elected().in_sync = committed;
        broker.replication.table_copies.begin(broker.runtime.clock.steady());
        broker.tables.topics.renew(Some(i64::from(epoch.get())), broker.runtime.now_ms());
        crate::restore::restore_from_log(&broker);
        broker.replication.role.lead();
        master_services::start(&mut self.engines, &broker, timers)?;
        tracing::info!(%epoch, %end, "this broker is master");
        Ok(())
    }

    fn follow(&mut self, own: BrokerId, epoch: Epoch, master: String) -> Result<(), RoleError> {
        let broker = self.broker.clone();
        tracing::info!(%epoch, master, "this broker becomes slave");
        // From here on requests are refused. The store refuses earlier requests when it follows.
        broker.replication.role.follow(own.to_i64());
        self.end_role();
        broker.store.start_following()?;
        // This broker no longer counts slaves, and waiting senders must ask the new master.
        broker.replication.durability.depose();
        forget_loss(&broker).map_err(RoleError::Note)?;
        master_services::forget(&broker);
        // Answers wait for slaves as before: a send that has passed the role must not become a success now.
        broker.replication.durability.set_lacks_replicas(false);
        {
            let mut elected = broker.replication.replicas.elected();
            (elected.in_sync, elected.proposed) = Default::default();
        }
        let (end, flushed) = (broker.store.followed(), broker.store.flushed());
        let confirm = broker.store.confirmed().unwrap_or(end).min(end);
        broker.store.set_confirmed(Some(confirm));
        broker.replication.replicas.set_master(Some(master));
        let settings = &broker.runtime.config.replication;
        let start = SlaveStart {
            handshake: Handshake {
                broker_id: own,
                is_from_last_file: settings.controller.is_from_last_file,
                is_learner: settings.controller.is_learner,
            },
            epochs: broker.replication.replicas.elected().epochs.clone(),
            end,
            flushed: flushed.min(end),
            confirm,
        };
        let config =
            settings.of_elected_slave(&broker.runtime.config.store, broker.replication.durability.mode());
        let shell = slave::Shell::new(broker.clone(), Slave::of_elected(config, start));
        let run = move |stopped| shell.run(stopped);
        self.worker = Some(Worker::start(&broker, (SupervisedWork::Follow, "ha-slave"), run)?);
        Ok(())
    }

    /// Ends the threads of the role that this broker has.
    fn end_role(&mut self) {
        self.engines.abandon();
        self.decided = None;
        self.worker = None;
    }
}

#[cfg(test)]
mod tests;
