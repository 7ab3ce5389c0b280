//! Task `controller-agent`: exchanges requests with the controllers for `replica::agent`, which decides about
//! requests and times. Orders about this broker's role go to the thread `role` ([`super::roles`]).

pub(crate) mod codec;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use net::{CallError, ConnectionHandle, Workers};
use parking_lot::{Mutex, MutexGuard};
use replica::agent::{Agent, AgentAction, AgentConfig, AgentEvent, BrokerIdentity, CallId};
use replica::in_sync::SetEpoch;
use replica::master::MasterEvent;
use replica::roster::{ControllerResponse, Request};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

use super::Clock;
use super::files::save_identity;
use super::roles::Order;
use crate::durability::Durability;
use crate::engine::{BLOCKING, PUNCTUAL};
use crate::parts::{GroupParts, Replication, Runtime, Sessions};
use crate::register::Silent;
use crate::replicas::Elected;
use crate::state::Pending;
use crate::supervisor::SupervisedWork;

/// Timeout of a controller's response, and of connecting to a controller.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause before an identity that could not be written is written again.
const SAVE_PAUSE: Duration = Duration::from_secs(1);

/// Channels that the task needs beside the broker.
pub(crate) struct Links {
    pub identity: Option<BrokerIdentity>,
    pub orders: Sender<Order>,
    /// Proposals of the elected master.
    pub proposals: UnboundedReceiver<(BTreeSet<BrokerId>, SetEpoch)>,
}

struct Task {
    parts: Arc<GroupParts>,
    workers: Workers,
    agent: Agent,
    clock: Clock,
    wake_at_ms: Option<u64>,
    orders: Sender<Order>,
    controllers: Arc<Controllers>,
    /// Sender of the results of calls.
    outcomes: UnboundedSender<AgentEvent>,
}

/// Connections to controllers, by address.
#[derive(Default)]
struct Controllers(Mutex<BTreeMap<String, Arc<ConnectionHandle>>>);

/// Runs until the workers stop.
pub(crate) async fn run(parts: Arc<GroupParts>, workers: Workers, links: Links) {
    let (outcomes, mut finished) = unbounded_channel();
    let agent = Agent::new(config(&parts.identity, &parts.replication, &parts.runtime));
    let mut task = Task {
        agent,
        clock: Clock::start(),
        wake_at_ms: None,
        orders: links.orders,
        controllers: Arc::default(),
        outcomes,
        workers,
        parts,
    };
    let mut proposals = links.proposals;
    let mut notices = task.parts.replication.replicas.notices();
    task.step(AgentEvent::Start(links.identity));
    loop {
        let (clock, wake_at_ms) = (task.clock, task.wake_at_ms);
        tokio::select! {
            Some(event) = finished.recv() => task.step(event),
            Some(proposal) = proposals.recv() => {
                if let Some(event) = of_proposal(&task.parts.replication, &task.parts.runtime, proposal) {
                    task.step(event);
                }
            }
            Ok(()) = notices.changed() => {
                let epoch = *notices.borrow_and_update();
                task.step(AgentEvent::Notified(epoch));
            }
            () = clock.until(wake_at_ms) => {
                task.wake_at_ms = None;
                let stalled_ms = stalled_ms(&task.parts.replication, &task.parts.runtime);
                if task.agent.resigns(clock.now_ms(), stalled_ms) {
                    let durability = task.parts.replication.durability.clone();
                    task.step_by(|elected| AgentEvent::DiskStalled(stalled_ms, heirs(elected, &durability)));
                }
                task.step(AgentEvent::Timer);
            }
        }
    }
}

fn config(identity: &crate::parts::Identity, replication: &Replication, runtime: &Runtime) -> AgentConfig {
    let settings = &runtime.config.replication.controller;
    let log_epoch = replication.replicas.elected().epochs.last().map_or(Epoch::ZERO, |last| last.epoch);
    AgentConfig {
        cluster: runtime.config.broker_cluster_name.clone(),
        name: runtime.config.broker_name.clone(),
        address: identity.address(),
        check_code: format!("{};{}", identity.address(), runtime.now_ms()),
        controllers: settings.controllers(),
        log_epoch,
        log_end: Some(replication.store.appended()),
        may_have_lost: replication.replicas.elected().may_have_lost,
        heartbeat_interval_ms: settings.heartbeat_interval_ms,
        poll_interval_ms: settings.poll_interval_ms,
        leader_interval_ms: settings.leader_interval_ms,
        disk_stall_timeout_ms: settings.disk_stall_timeout_ms,
        ..AgentConfig::default()
    }
}

impl Task {
    fn step(&mut self, event: AgentEvent) {
        self.step_by(|_| event);
    }

    /// Performs the step of an event that is made from the published state of the master. The lock is held until the
    /// named heirs are published, so that no later message is answered without them.
    fn step_by(&mut self, event: impl FnOnce(&mut Elected) -> AgentEvent) {
        let mut actions = Vec::new();
        {
            let mut elected = self.parts.replication.replicas.elected();
            let event = event(&mut elected);
            self.agent.step(self.clock.now_ms(), event, &mut actions);
            elected.named_heirs.clone_from(self.agent.heirs());
            elected.own = self.agent.broker().map_or(0, BrokerId::get);
            elected.is_unknown = self.agent.is_unknown();
        }
        for action in actions {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: AgentAction) {
        match action {
            AgentAction::AskLeader(call, controller) => self.ask_leader(call, controller),
            AgentAction::Call(call, leader, request) => self.call(call, leader, request),
            AgentAction::Heartbeat(own) => self.heartbeat(own),
            AgentAction::Save(identity) => self.save(identity),
            AgentAction::Lead(epoch, committed) => {
                if let Some(own) = self.agent.broker() {
                    self.order(Order::Lead { own, epoch, committed });
                }
            }
            AgentAction::LeadOn(epoch, committed) => {
                self.order(Order::Decided(MasterEvent::Elected(epoch)));
                self.order(Order::Decided(MasterEvent::SetCommitted(committed)));
            }
            AgentAction::Follow(epoch, _, master) => {
                if let Some(own) = self.agent.broker() {
                    self.order(Order::Follow { own, epoch, master });
                }
            }
            // A slave needs to know nothing of its master's new epoch before bytes of it come. The thread `role` registers.
            AgentAction::FollowOn(_) | AgentAction::Unfence => {}
            AgentAction::SetCommitted(set) => self.order(Order::Decided(MasterEvent::SetCommitted(set))),
            AgentAction::SetRefused => self.order(Order::Decided(MasterEvent::SetRefused)),
            AgentAction::SetUnknown => self.order(Order::Decided(MasterEvent::SetUnknown)),
            AgentAction::Resign(heir) => tracing::warn!(
                disk = %self.parts.runtime.config.store.commit_log.display(),
                pending = ?self.parts.runtime.disk_watch.pending(self.parts.tables.store.unfinished()),
                heir = %heir.map_or_else(|| "none in sync has everything that senders were told is stored: this broker stays master".to_owned(), |heir| heir.to_string()),
                "the disk stalls: another broker of the in-sync set is to become master"
            ),
            AgentAction::Unknown => tracing::warn!(
                id = ?self.agent.broker().map(BrokerId::get),
                "the controllers do not know this broker, so that it takes part in no election: they lost their disks, then tell them \
                 with `vostok controller rebuild`, or were told to forget it, then start it without its store"
            ),
            AgentAction::StaleEpoch(epoch) => tracing::error!(
                %epoch,
                "the controllers tell an epoch that is older than this log: they have forgotten this broker set, or are others than before"
            ),
            // The identity was compared with the configuration when the broker started.
            AgentAction::Refuse(error) => tracing::error!(%error, "this store is another broker's"),
            AgentAction::WakeAt(at_ms) => self.wake_at_ms = Some(at_ms),
        }
    }

    fn order(&self, order: Order) {
        // The thread is gone only when the broker stops.
        let _ = self.orders.send(order);
    }

    /// Runs a future beside this task.
    fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        thread: usize,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        // The workers refuse only when they stop.
        let _ = self.workers.spawn(thread, make);
    }

    fn ask_leader(&self, call: CallId, controller: String) {
        let (controllers, workers, outcomes) =
            (self.controllers.clone(), self.workers.clone(), self.outcomes.clone());
        let parts = self.parts.clone();
        self.spawn(PUNCTUAL, move || async move {
            let (code, to) = (request::CONTROLLER_GET_METADATA_INFO, (&workers, &*controller));
            let reply = controllers.call(&parts.sessions, to, code, |writer| writer.finish(b"")).await;
            let leader = match reply {
                Ok(reply) if reply.code == response::SUCCESS => {
                    let address = reply.text("controllerLeaderAddress").filter(|address| !address.is_empty());
                    address.map(str::to_owned)
                }
                Ok(reply) => {
                    tracing::warn!(controller, code = reply.code, remark = ?reply.remark, "a controller does not say who leads");
                    None
                }
                Err(error) => {
                    tracing::warn!(controller, %error, "a controller does not answer");
                    None
                }
            };
            let _ = outcomes.send(AgentEvent::Leader(call, leader));
        });
    }

    fn call(&self, call: CallId, leader: String, request: Request) {
        let (controllers, workers, outcomes) =
            (self.controllers.clone(), self.workers.clone(), self.outcomes.clone());
        let (parts, now_ms) = (self.parts.clone(), self.parts.runtime.now_ms());
        self.spawn(PUNCTUAL, move || async move {
            let cluster = &parts.runtime.config.broker_cluster_name;
            let write = |writer: FrameWriter<'_>| codec::write(&request, cluster, now_ms, writer);
            let reply = controllers.call(&parts.sessions, (&workers, &leader), codec::code(&request), write).await;
            let answer = match reply {
                Ok(reply) => Some(codec::answer(&request, &reply)),
                Err(error) => {
                    tracing::warn!(controller = leader, %error, "a controller does not answer");
                    None
                }
            };
            let is_logged = |answer: &&ControllerResponse| {
                // The agent reports once a minute that the broker is unknown.
                !matches!(answer.code, response::SUCCESS | response::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
            };
            if let Some(refused) = answer.as_ref().filter(is_logged) {
                tracing::info!(code = refused.code, remark = ?refused.remark, ?request, "a controller refuses");
            }
            let _ = outcomes.send(AgentEvent::Answered(call, answer));
        });
    }

    fn heartbeat(&self, own: BrokerId) {
        if !can_lead(&self.parts.replication, &self.parts.runtime) {
            return;
        }
        for controller in self.parts.runtime.config.replication.controller.controllers() {
            let (controllers, workers, parts) =
                (self.controllers.clone(), self.workers.clone(), self.parts.clone());
            self.spawn(PUNCTUAL, move || async move {
                // A controller that is away gets none. The agent asks the others for the leader.
                let Ok(peer) = controllers.peer(&workers, &controller).await else { return };
                let write = |writer: FrameWriter<'_>| {
                    write_heartbeat(&parts.identity, &parts.replication, &parts.runtime, own, writer)
                };
                let _ = parts.sessions.send_one_way(&peer, request::BROKER_HEARTBEAT, write);
            });
        }
    }

    fn save(&self, identity: BrokerIdentity) {
        let (parts, outcomes) = (self.parts.clone(), self.outcomes.clone());
        self.spawn(BLOCKING, move || async move {
            while let Err(error) = save_identity(&parts.tables, &parts.runtime, &identity) {
                tracing::error!(%error, "the id of this broker cannot be written; it is tried again");
                tokio::time::sleep(SAVE_PAUSE).await;
            }
            let _ = outcomes.send(AgentEvent::Saved);
        });
    }
}

/// Whether this broker can be master. A broker that cannot be master sends no heartbeats, so that the controllers elect another
/// broker. There are three causes: the thread `role` has ended, the store is fenced until the next start, or the elected broker is
/// still retrying to become master.
fn can_lead(replication: &Replication, runtime: &Runtime) -> bool {
    runtime.supervisor.demand(SupervisedWork::Role).is_ok()
        && replication.store.fenced().is_none()
        && !replication.replicas.elected().lead_failed
}

/// Returns the milliseconds for which the disk delays a master's responses, or zero if the observed stall has ended.
/// A flush delays responses only if responses wait for flushes.
fn stalled_ms(replication: &Replication, runtime: &Runtime) -> u64 {
    let Pending { write, flush } = runtime.disk_watch.pending(replication.store.unfinished());
    let longest = if replication.durability.waits_for_flush() { write.max(flush) } else { write };
    u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the slaves whose logs contain all messages that responses may have confirmed. If there
/// is such a slave, later responses wait for slaves. As soon as the agent has named an heir,
/// responses wait for this heir ([`Elected::named_heirs`]).
pub(super) fn heirs(elected: &mut Elected, durability: &Durability) -> Vec<BrokerId> {
    let waits = durability.waits_for_slaves();
    if !elected.heirs.is_empty() && !waits {
        durability.wait_for_slaves();
        elected.answered = durability.answerable();
    }
    let is_whole = |(_, end): &&(BrokerId, LogOffset)| *end >= elected.answered;
    let heirs: Vec<_> = elected.heirs.iter().filter(is_whole).map(|(heir, _)| *heir).collect();
    if heirs.is_empty() && !waits {
        durability.ignore_slaves();
    }
    heirs
}

/// Returns the agent's event for a proposal of the master, or `None` if this broker cannot be master. A broker whose
/// disk failed may have lost bytes that slaves have. It must not remove them from the set and become the only
/// electable broker.
fn of_proposal(
    replication: &Replication,
    runtime: &Runtime,
    (members, epoch): (BTreeSet<BrokerId>, SetEpoch),
) -> Option<AgentEvent> {
    can_lead(replication, runtime).then_some(AgentEvent::ProposeSet(members, epoch))
}

/// `BrokerHeartbeatRequestHeader`.
fn write_heartbeat(
    identity: &crate::parts::Identity,
    replication: &Replication,
    runtime: &Runtime,
    own: BrokerId,
    writer: FrameWriter<'_>,
) {
    let (config, settings) = (&runtime.config, &runtime.config.replication.controller);
    let end = replication.store.appended();
    let confirm = replication.store.confirmed().unwrap_or(end).min(end);
    let is_durable = replication.durability.waits_for_flush();
    let kept = if is_durable { replication.store.flushed().min(end) } else { end };
    let epoch = replication.replicas.elected().epochs.last().map(|last| last.epoch.to_i32());
    writer
        .text("clusterName", &config.broker_cluster_name)
        .text("brokerAddr", &identity.address())
        .text("brokerName", &config.broker_name)
        .number("brokerId", own.to_i64())
        .number("epoch", epoch.unwrap_or(-1))
        .number("maxOffset", end.to_i64())
        .number("confirmOffset", confirm.to_i64())
        .number("heartbeatTimeoutMills", settings.heartbeat_timeout_ms)
        .number("electionPriority", settings.election_priority)
        // Controllers of ours know this field; Java's ignore it.
        .number("keptOffset", kept.to_i64())
        .finish(b"");
}

impl Controllers {
    /// The connection to a controller, made when there is none.
    async fn peer(&self, workers: &Workers, address: &str) -> io::Result<Arc<ConnectionHandle>> {
        if let Some(peer) = self.peers().get(address).filter(|peer| !peer.is_closed()) {
            return Ok(peer.clone());
        }
        let dialed = tokio::time::timeout(CALL_TIMEOUT, workers.dial_name(address, Arc::new(Silent)));
        let dialed = dialed.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        // Another call may have made one meanwhile. Controllers count the connection of heartbeats, so there must be one only.
        let mut peers = self.peers();
        match peers.get(address).filter(|peer| !peer.is_closed()) {
            Some(peer) => {
                dialed.close();
                Ok(peer.clone())
            }
            None => {
                peers.insert(address.to_owned(), dialed.clone());
                Ok(dialed)
            }
        }
    }

    /// Asks a controller, with the broker's own signature. A connection on which no answer came ends, so that the request cannot be performed much later.
    async fn call(
        &self,
        sessions: &Sessions,
        (workers, address): (&Workers, &str),
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<net::Response, ControllerError> {
        let peer = self.peer(workers, address).await?;
        let reply = sessions.call(&peer, code, CALL_TIMEOUT, write).await;
        if reply.is_err() {
            peer.close();
        }
        Ok(reply?)
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ConnectionHandle>>> {
        self.0.lock()
    }
}

/// Reasons why a controller did not respond.
#[derive(Debug, thiserror::Error)]
enum ControllerError {
    #[error("it cannot be reached: {0}")]
    Dial(#[from] io::Error),
    #[error(transparent)]
    Call(#[from] CallError),
}

#[cfg(test)]
mod tests;
