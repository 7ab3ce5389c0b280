//! Broker: a real store without threads, the machines of `replica`, and the shells between them. A broker gets inputs
//! and returns outputs. It does not know the network's faults.
//!
//! The shells do the work of the crate `broker`'s shells, in the same order. `master` and `slave` mirror its
//! `replication`, and follow the rules of `replica`'s ARCHITECTURE.md for shells.

mod agent;
mod files;
mod master;
mod peers;
mod requests;
mod slave;

use crate::message::Sending;
use crate::settings::{Bug, Mode, NodeId, Settings};
use files::Files;
use peers::{Link, Peers};
use replica::acks::AckStatus;
use replica::agent::{Agent, BrokerIdentity, CallId};
use replica::epochs::EpochList;
use replica::master::{Master, MasterEvent};
use replica::roster::{ControllerResponse, Heartbeat, Request};
use replica::slave::{Slave, SlaveEvent};
use replica::slave_log::Attempt;
use replica::transfer::{LogRange, PeerId};
use requests::{StoreEvent, Waiting};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{Config, FakeDisk, OpenError, Store};
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

/// The time as a broker reads it.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Clock that never goes back.
    pub ms: u64,
    /// Time of day.
    pub wall_ms: i64,
}

/// Input of a broker.
#[derive(Clone, Debug)]
pub enum Input {
    /// A time has come that the broker asked for.
    Wake,
    /// A slave has connected.
    Accepted(PeerId, NodeId),
    /// The connection to the master is established.
    Opened(Attempt, PeerId),
    /// The master cannot be reached.
    NotOpened(Attempt),
    /// Bytes came on a connection.
    Received(PeerId, Vec<u8>),
    /// The network took this number of written bytes.
    Taken(PeerId, usize),
    /// A connection has ended.
    Ended(PeerId),
    /// A producer sends a message: id of the call, and the message.
    Send(u64, Sending),
    /// A reader requests messages: id of the call, queue id, and the queue offset to begin at.
    Read(u64, i32, u64),
    /// A controller named the leader.
    Leader(CallId, Option<String>),
    /// A controller answered.
    Answered(CallId, Option<ControllerResponse>),
    /// A controller notified the broker of an election.
    Notified(Epoch),
    /// The name server sent the address of the master's HA port.
    MasterAt(NodeId),
}

/// Result of a send for its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// `SEND_OK`.
    Acknowledged,
    /// The message is not stored.
    Refused,
    /// The message may be stored or not.
    Unknown,
}

/// Output of a broker.
#[derive(Clone, Debug)]
pub enum Output {
    /// Connect to the HA port of another broker.
    Connect(Attempt, NodeId),
    /// Write to a connection.
    Write(PeerId, Vec<u8>),
    /// End a connection.
    End(PeerId),
    /// Ask a controller for the leader.
    AskLeader(CallId, NodeId),
    /// Ask the controller that leads.
    Ask(CallId, NodeId, Request),
    /// Send every controller a heartbeat.
    Beat(Heartbeat),
    /// Ask the name server for the HA address of a broker.
    Lookup(NodeId),
    /// Answer a producer: id of the call, and the result.
    Sent(u64, SendOutcome),
    /// Answer a reader: id of the call, and queue offset and number of each message.
    Found(u64, Vec<(u64, u64)>),
    /// Note for the checks.
    Note(Note),
}

/// Note for the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A send is answered with success.
    Acknowledged {
        /// The message's number.
        number: u64,
        /// End of the message's record.
        end: u64,
        /// Queue and queue offset of the message.
        place: (i32, u64),
        /// The epoch of the master; zero in classic mode.
        epoch: Epoch,
    },
    /// The message with this number is appended.
    Appended(u64),
    /// The message with this number is refused, and not stored.
    Refused(u64),
    /// The broker begins to lead.
    Leads(Epoch),
    /// The broker begins to follow.
    Follows(NodeId),
    /// The slave's log is cut: log offset of the end before the cut, and of the end after it.
    Cut(u64, u64),
    /// A slave's log is longer than its classic master's, or has another last record.
    Diverged(NodeId),
    /// The broker must stop.
    Broken(String),
}

enum Role {
    None,
    Master(Box<Master>),
    Slave(Box<Slave>),
}

/// A running broker.
pub struct Broker {
    node: NodeId,
    settings: Settings,
    base: Instant,
    now: Now,
    disk: FakeDisk,
    files: Files,
    store: Store,
    role: Role,
    agent: Option<Agent>,
    epochs: EpochList,
    /// Whether a crash may have cost the end of the log. Reset when the broker has a role again.
    may_have_lost: bool,
    is_fenced: bool,
    /// Whether a slave's log is a part of its master's log.
    is_consistent: bool,
    peers: Peers,
    link: Option<Link>,
    /// The master that this broker follows in controller mode.
    followed: Option<NodeId>,
    role_wake_ms: Option<u64>,
    agent_wake_ms: Option<u64>,
    /// Identity that could not be written, and the time of the next attempt.
    unsaved: Option<(u64, BrokerIdentity)>,
    store_wake_ms: Option<u64>,
    /// Duration of a round of flushes on a slow disk; zero for a quick disk.
    slow_ms: u64,
    /// End time of the last round of flushes on a slow disk. The broker's store does not run before.
    disk_free_ms: u64,
    /// Start time of that round.
    disk_busy_ms: u64,
    store_events: Arc<Mutex<VecDeque<StoreEvent>>>,
    waiting: BTreeMap<u64, Waiting>,
    last_ticket: u64,
    flush_is_awaited: bool,
    /// Last end of the log that the machine knows.
    published: LogOffset,
    out: Vec<Output>,
}

impl Broker {
    /// Opens the store and starts the broker.
    ///
    /// # Errors
    /// Errors of [`Store::open`].
    pub fn start(
        node: NodeId,
        settings: Settings,
        (base, now): (Instant, Now),
        disk: FakeDisk,
        may_have_lost: bool,
    ) -> Result<Self, OpenError> {
        let config = Config {
            segment_bytes: settings.segment_bytes,
            queue_file_bytes: 800,
            flush: settings.flush,
            written_ahead_bytes: 4_096,
            write_back_bytes: 4_096,
            rebuild_pause: Duration::from_secs(1),
            controller_mode: settings.mode == Mode::Controller,
            ..Config::new("/store")
        };
        let store = Store::open_without_threads(config, Arc::new(disk.clone()), time(base, now.ms))?;
        store.wait_healed();
        let mut broker = Self {
            node,
            settings,
            base,
            now,
            files: Files::new(disk.clone()),
            disk,
            store,
            role: Role::None,
            agent: None,
            epochs: EpochList::default(),
            may_have_lost,
            is_fenced: true,
            is_consistent: false,
            peers: Peers::default(),
            link: None,
            followed: None,
            role_wake_ms: None,
            agent_wake_ms: None,
            unsaved: None,
            store_wake_ms: None,
            slow_ms: 0,
            disk_free_ms: 0,
            disk_busy_ms: 0,
            store_events: Arc::default(),
            waiting: BTreeMap::new(),
            last_ticket: 0,
            flush_is_awaited: false,
            published: LogOffset::ZERO,
            out: Vec::new(),
        };
        match settings.mode {
            Mode::Controller => broker.start_agent(),
            Mode::Classic { .. } if node == NodeId(0) => broker.start_classic_master(),
            Mode::Classic { .. } => broker.start_classic_slave(),
        }
        broker.settle();
        Ok(broker)
    }

    /// Processes an input and returns the broker's outputs.
    pub fn take(&mut self, now: Now, input: Input) -> Vec<Output> {
        self.now = now;
        match input {
            Input::Wake => self.wake(),
            Input::Accepted(peer, node) => self.accept(peer, node),
            Input::Opened(attempt, peer) => self.opened(attempt, Some(peer)),
            Input::NotOpened(attempt) => self.opened(attempt, None),
            Input::Received(peer, bytes) => self.received(peer, &bytes),
            Input::Taken(peer, bytes) => self.taken(peer, bytes),
            Input::Ended(peer) => self.ended(peer),
            Input::Send(call, sending) => self.send(call, &sending),
            Input::Read(call, queue, from) => self.read(call, queue, from),
            Input::Leader(call, leader) => self.step_agent(replica::agent::AgentEvent::Leader(call, leader)),
            Input::Answered(call, answer) => {
                self.step_agent(replica::agent::AgentEvent::Answered(call, answer));
            }
            Input::Notified(epoch) => self.step_agent(replica::agent::AgentEvent::Notified(epoch)),
            Input::MasterAt(node) => self.master_at(node),
        }
        self.settle();
        std::mem::take(&mut self.out)
    }

    /// Returns the outputs of the broker's start.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Time of the next [`Input::Wake`], on the broker's own clock.
    pub fn wake_at_ms(&self) -> Option<u64> {
        let save_ms = self.unsaved.as_ref().map(|(at_ms, _)| *at_ms);
        [self.role_wake_ms, self.agent_wake_ms, self.store_wake_ms, save_ms].into_iter().flatten().min()
    }

    /// The store, for the checks.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Sets the duration of every later round of flushes.
    pub fn set_slow(&mut self, slow_ms: u64) {
        self.slow_ms = slow_ms;
    }

    /// Whether rounds of flushes take long, or a long round has not ended.
    pub fn is_slow(&self) -> bool {
        self.slow_ms > 0 || self.now.ms < self.disk_free_ms
    }

    /// Returns the milliseconds for which the disk has held up the unfinished flush.
    fn stalled_ms(&self) -> u64 {
        if self.now.ms < self.disk_free_ms { self.now.ms - self.disk_busy_ms } else { 0 }
    }

    /// The epochs of the log.
    pub fn epochs(&self) -> &EpochList {
        &self.epochs
    }

    /// Whether this broker is master.
    pub fn is_master(&self) -> bool {
        matches!(self.role, Role::Master(_))
    }

    /// Whether controllers decide about the roles.
    fn is_controlled(&self) -> bool {
        self.settings.mode == Mode::Controller
    }

    /// The broker's id at the controllers.
    pub fn id(&self) -> Option<BrokerId> {
        self.agent.as_ref().and_then(Agent::broker)
    }

    /// Whether a possible loss by a crash is still unreported.
    pub fn may_have_lost(&self) -> bool {
        self.may_have_lost
    }

    fn note(&mut self, note: Note) {
        self.out.push(Output::Note(note));
    }

    /// Returns the range of the log that the machine of a master may send. With sync flush an elected master sends
    /// only bytes on disk. After a loss of power it must not find slaves with more of its epoch than itself.
    fn range(&self) -> LogRange {
        let minimum = self.store.min();
        let waits = self.is_controlled() && self.settings.is_sync_flush();
        let end = match waits && !self.settings.has(Bug::SendUnflushed) {
            true => self.store.flushed().min(self.store.appended()),
            false => self.store.appended(),
        };
        LogRange { minimum, end: end.max(minimum) }
    }

    /// Notifies the machine of a master that the log has grown.
    fn publish(&mut self) {
        let log = self.range();
        if log.end <= self.published {
            return;
        }
        self.published = log.end;
        self.step_master(MasterEvent::Log(log));
    }

    fn wake(&mut self) {
        let is_due = |at: Option<u64>, now: Now| at.is_some_and(|at_ms| at_ms <= now.ms);
        if is_due(self.agent_wake_ms, self.now) {
            self.agent_wake_ms = None;
            if !self.settings.has(Bug::KeepSlowDisk) {
                let heirs = match &self.role {
                    Role::Master(master) if self.settings.has(Bug::LaggingHeir) => {
                        let members = master.peers().filter(|status| status.is_in_sync);
                        let longest = members.max_by_key(|status| status.acknowledged);
                        longest.and_then(|status| status.broker).into_iter().collect()
                    }
                    Role::Master(master) => master.heirs().into_iter().map(|(heir, _)| heir).collect(),
                    _ => Vec::new(),
                };
                self.step_agent(replica::agent::AgentEvent::DiskStalled(self.stalled_ms(), heirs));
            }
            self.step_agent(replica::agent::AgentEvent::Timer);
        }
        if let Some((_, identity)) = self.unsaved.take_if(|(at_ms, _)| *at_ms <= self.now.ms)
            && self.save_identity(identity)
        {
            self.step_agent(replica::agent::AgentEvent::Saved);
        }
        if is_due(self.role_wake_ms, self.now) {
            self.role_wake_ms = None;
            match self.role {
                Role::None => {}
                Role::Master(_) => self.step_master(MasterEvent::Timer),
                Role::Slave(_) => self.step_slave(SlaveEvent::Timer, &[]),
            }
        }
    }

    /// Runs the store, and processes its events, until no more happen now.
    fn settle(&mut self) {
        loop {
            self.run_store();
            self.publish();
            let events =
                std::mem::take(&mut *self.store_events.lock().unwrap_or_else(PoisonError::into_inner));
            if events.is_empty() {
                return;
            }
            events.into_iter().for_each(|event| self.on_store_event(event));
        }
    }

    fn run_store(&mut self) {
        if self.now.ms < self.disk_free_ms {
            self.store_wake_ms = Some(self.disk_free_ms);
            return;
        }
        let before = self.store.flushed();
        let next = self.store.run_due(time(self.base, self.now.ms));
        if self.slow_ms > 0 && self.store.flushed() > before {
            (self.disk_busy_ms, self.disk_free_ms) = (self.now.ms, self.now.ms + self.slow_ms);
        }
        self.store_wake_ms = next.map(|next| {
            let since = next.saturating_duration_since(self.base);
            let ms = u64::try_from(since.as_micros().div_ceil(1_000)).expect("small");
            ms.max(self.now.ms + 1).max(self.disk_free_ms)
        });
    }

    fn answer_of(&mut self, call: u64, outcome: SendOutcome) {
        self.out.push(Output::Sent(call, outcome));
    }

    fn identity(&self) -> Option<BrokerIdentity> {
        self.files.load("brokerIdentity").and_then(|text| BrokerIdentity::from_file(&text).ok())
    }
}

/// A broker's clock as the store reads it.
fn time(base: Instant, ms: u64) -> Instant {
    base + Duration::from_millis(ms)
}

/// Returns the end and the flushed end of the log for the machines.
fn flushed_of(store: &Store) -> (LogOffset, LogOffset) {
    let end = store.followed();
    (end, store.flushed().min(end))
}

/// Converts the replicas' status to the result of a send.
fn outcome_of(status: AckStatus) -> SendOutcome {
    match status {
        AckStatus::Ok => SendOutcome::Acknowledged,
        AckStatus::FlushDiskTimeout | AckStatus::FlushSlaveTimeout => SendOutcome::Unknown,
        AckStatus::InSyncReplicasNotEnough | AckStatus::ServiceNotAvailable => SendOutcome::Refused,
    }
}
