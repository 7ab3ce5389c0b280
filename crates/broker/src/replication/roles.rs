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
use wire::units::LogOffset;

use super::files::{forget_loss, save_epochs};
use super::master::{self, ToControllers};
use super::{Worker, slave};
use crate::master_services::{self, MasterServicesError};
use crate::parts::GroupParts;
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
struct FencedByPanic(Arc<GroupParts>);

impl Drop for FencedByPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.replication.role.fence();
        }
    }
}

/// The thread's state.
pub(super) struct Roles {
    parts: Arc<GroupParts>,
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
        parts: Arc<GroupParts>,
        proposals: mpsc::UnboundedSender<(BTreeSet<BrokerId>, SetEpoch)>,
    ) -> Self {
        Self {
            proposals,
            worker: None,
            engines: EngineThreads::new(parts.runtime.clone()),
            decided: None,
            parts,
        }
    }

    /// Follows orders until the broker stops. A failed order is tried again until the next order.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        let _fenced_by_panic = FencedByPanic(self.parts.clone());
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
                self.parts.replication.replicas.elected().lead_failed =
                    performed.is_err() && matches!(order, Order::Lead { .. });
            }
            if let Err(error) = performed {
                tracing::error!(?order, %error, "this broker cannot take the role it was given; it is tried again");
                self.end_role();
                self.parts.replication.role.fence();
                failed = Some(order);
            }
        }
        self.engines.stop();
        if !self.parts.replication.role.is_slave() {
            // Before the master's thread ends, so that connected slaves get the checkpoints.
            self.parts.delivery.pops.store_all(&self.parts.pops);
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
        let parts = self.parts.clone();
        tracing::info!(%epoch, members = ?committed.members, "this broker becomes master");
        self.end_role();
        // Queues and key index have every record that the log has: the store adds them together.
        let end = parts.tables.store.stop_following()?;
        let is_durable = parts.replication.durability.waits_for_flush();
        if is_durable && !wait_flushed(&parts.tables.store, end) {
            return Err(RoleError::Unflushed);
        }
        let mut epochs = parts.replication.replicas.elected().epochs.clone();
        let goes_on = epochs.last().is_some_and(|last| last.epoch == epoch);
        if !goes_on || parts.replication.replicas.elected().may_have_lost {
            epochs.begin(epoch, end)?;
            save_epochs(&parts.tables, &parts.replication, &parts.runtime, epochs.clone())
                .map_err(RoleError::EpochFile)?;
        }
        forget_loss(&parts.tables, &parts.replication, &parts.runtime).map_err(RoleError::Note)?;
        parts.replication.replicas.set_master(None);
        master_services::load(&parts.engines)?;
        let timers = master_services::open_timer(&parts.tables, &parts.delivery, &parts.runtime)
            .map_err(MasterServicesError::from)?;
        let settings = &parts.runtime.config.replication;
        let is_all_ack = settings.controller.is_all_ack;
        // A message that no other broker must have is confirmed from the first request on, because consumers may have
        // read it at the former master.
        let is_alone = committed.members.iter().all(|member| *member == own);
        let known = parts.tables.store.confirmed().filter(|_| !is_alone);
        let confirm = known.unwrap_or(end).min(end);
        parts.tables.store.set_confirmed(is_all_ack.then_some(confirm));
        let log = master::range(&parts.tables.store, is_durable);
        let start = MasterStart { own, committed: committed.clone(), epochs, log, confirm };
        let mut machine = Master::elected(0, settings.of_elected(&parts.runtime.config.store), start);
        let need = {
            // Locked until responses wait for the need: the agent may name an heir at any moment.
            let mut elected = parts.replication.replicas.elected();
            (elected.answered, elected.heirs) = (LogOffset::ZERO, Vec::new());
            machine.wait_for_heirs(&elected.named_heirs);
            let need = machine.need(u32::MAX);
            match need {
                Some(Ok(replica::acks::AckRequirement::Master)) | None => {
                    parts.replication.durability.ignore_slaves()
                }
                Some(_) => parts.replication.durability.wait_for_slaves(),
            }
            need
        };
        parts.replication.durability.set_lacks_replicas(need.is_some_and(|need| need.is_err()));
        let (decided, received) = mpsc::channel(DECISIONS_MAX);
        let controllers = ToControllers { decided: received, proposals: self.proposals.clone() };
        let serving = parts.clone();
        let run = move |mut stopped: watch::Receiver<bool>| async move {
            if let Some(listener) = master::bind(&serving.identity, &serving.runtime, &mut stopped).await {
                master::run(serving, listener, machine, Some(controllers), stopped).await;
            }
        };
        self.worker = Some(Worker::start(&parts, (SupervisedWork::Replicate, "ha-master"), run)?);
        self.decided = Some(decided);
        // Before requests are taken: answers about tables wait for this set from the first one on.
        parts.replication.replicas.elected().in_sync = committed;
        parts.replication.table_copies.begin(parts.runtime.clock.steady());
        parts.tables.topics.renew(Some(i64::from(epoch.get())), parts.runtime.now_ms());
        crate::restore::restore_from_log(&parts.tables, &parts.delivery, &parts.runtime);
        parts.replication.role.lead();
        master_services::start(&mut self.engines, &parts.engines, timers)?;
        tracing::info!(%epoch, %end, "this broker is master");
        Ok(())
    }

    fn follow(&mut self, own: BrokerId, epoch: Epoch, master: String) -> Result<(), RoleError> {
        let parts = self.parts.clone();
        tracing::info!(%epoch, master, "this broker becomes slave");
        // From here on requests are refused. The store refuses earlier requests when it follows.
        parts.replication.role.follow(own.to_i64());
        self.end_role();
        parts.tables.store.start_following()?;
        // This broker no longer counts slaves, and waiting senders must ask the new master.
        parts.replication.durability.depose();
        forget_loss(&parts.tables, &parts.replication, &parts.runtime).map_err(RoleError::Note)?;
        master_services::forget(&parts.delivery);
        // Answers wait for slaves as before: a send that has passed the role must not become a success now.
        parts.replication.durability.set_lacks_replicas(false);
        {
            let mut elected = parts.replication.replicas.elected();
            (elected.in_sync, elected.proposed) = Default::default();
        }
        let (end, flushed) = (parts.tables.store.followed(), parts.tables.store.flushed());
        let confirm = parts.tables.store.confirmed().unwrap_or(end).min(end);
        parts.tables.store.set_confirmed(Some(confirm));
        parts.replication.replicas.set_master(Some(master));
        let settings = &parts.runtime.config.replication;
        let start = SlaveStart {
            handshake: Handshake {
                broker_id: own,
                is_from_last_file: settings.controller.is_from_last_file,
                is_learner: settings.controller.is_learner,
            },
            epochs: parts.replication.replicas.elected().epochs.clone(),
            end,
            flushed: flushed.min(end),
            confirm,
        };
        let config =
            settings.of_elected_slave(&parts.runtime.config.store, parts.replication.durability.mode());
        let shell = slave::Shell::new(parts.clone(), Slave::of_elected(config, start));
        let run = move |stopped| shell.run(stopped);
        self.worker = Some(Worker::start(&parts, (SupervisedWork::Follow, "ha-slave"), run)?);
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
