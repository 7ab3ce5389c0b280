//! The shell: one thread that runs the machine, its journal and its clock; the workers that carry the connections.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::tls::Security;
use net::{Budget, Limits, Workers};
use parking_lot::Mutex;
use replica::consensus::{ConsensusConfig, NodeId};
use replica::roster::{LeaderEvent, RequestId};
use store::{Disk, RealDisk};
use wire::codes::response;

use crate::answers;
use crate::config::Config;
use crate::group::{Group, GroupError};
use crate::journal::{Journal, JournalError};
use crate::links::Links;
use crate::machine::{Action, Event, Machine, MachineError};
use crate::service::{ControllerService, ControllerState, Input, PendingRequest};

/// Threads that carry connections: brokers send one heartbeat a second.
const WORKERS: usize = 1;

/// Most requests and messages that wait for the thread.
const INPUTS_MAX: usize = 10_000;

/// Milliseconds of a tick of consensus. The first controller of a group starts an election 1.5
/// seconds after the leader falls silent, each further controller 0.3 seconds later.
const TICK_MS: u64 = 100;

/// Number of consensus entries behind the snapshot at which a new snapshot replaces the content of the journal.
const ENTRIES_MAX: usize = 2_000;

/// Errors of starting the controller.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings of the group are wrong.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// `bindAddress` is not an IP address.
    #[error("bindAddress is `{0}`, expected an ip address")]
    Address(String),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal is of another version or group.
    #[error(transparent)]
    Machine(#[from] MachineError),
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
}

/// A running controller.
pub struct Controller {
    workers: Workers,
    address: SocketAddr,
    inputs: SyncSender<Input>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Controller {
    /// Reads the journal, listens, and serves on its own threads.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: Config, security: Security, budget: Arc<Budget>) -> Result<Self, StartError> {
        let group = Arc::new(Group::new(&config.group, &config.peers, &config.self_id)?);
        let ip: IpAddr =
            config.bind_address.parse().map_err(|_| StartError::Address(config.bind_address.clone()))?;
        let port = config.listen_port.filter(|_| group.is_implied).unwrap_or(group.port());
        let address = SocketAddr::new(ip, port);
        let elections = config.elections();
        let (journal, saved) = Journal::open(Arc::new(RealDisk) as Arc<dyn Disk>, &config.store_path)?;
        let consensus = ConsensusConfig {
            id: group.me().node,
            peers: group.peers.iter().map(|peer| peer.node).collect(),
            tick_ms: TICK_MS,
            entries_max: ENTRIES_MAX,
        };
        let machine = Machine::new(consensus, elections, saved)?;
        let (inputs, received) = sync_channel(INPUTS_MAX);
        let refusal_of_others = config.refusal_of_others;
        let shared = Arc::new(ControllerState {
            group: group.clone(),
            config_path: config.config_store_path.clone(),
            config: Mutex::new(config),
            leader: AtomicU64::new(0),
            leads: AtomicBool::new(false),
        });
        let workers = Workers::start_within("controller", WORKERS, Limits::default(), security, budget)
            .map_err(StartError::Thread)?;
        let service =
            Arc::new(ControllerService { shared: shared.clone(), inputs: inputs.clone(), refusal_of_others });
        let thread = Thread {
            machine,
            journal,
            links: Links::new(workers.clone(), group),
            shared,
            received,
            started: Instant::now(),
            pending: BTreeMap::new(),
            last_request: RequestId(0),
            wake_at_ms: None,
        };
        let stop = |error| {
            workers.shutdown();
            error
        };
        let address =
            workers.listen(address, service).map_err(|error| stop(StartError::Listen { address, error }))?;
        let thread = std::thread::Builder::new().name("controller".to_owned()).spawn(move || thread.run());
        let thread = thread.map_err(|error| stop(StartError::Thread(error)))?;
        Ok(Self { workers, address, inputs, thread: Mutex::new(Some(thread)) })
    }

    /// Address on which the controller listens, with the assigned port if the configuration has 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections and joins the threads.
    pub fn shutdown(&self) {
        // A thread that is gone already needs not be told.
        let _ = self.inputs.send(Input::Stop);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the controller's thread panicked");
        }
        self.workers.shutdown();
    }
}

/// Reasons why the controller's thread ended.
#[derive(Debug, thiserror::Error)]
enum EndReason {
    #[error("the controller's journal cannot be written: {0}")]
    Journal(#[from] io::Error),
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// The state of the controller's thread.
struct Thread {
    machine: Machine,
    journal: Journal,
    links: Links,
    shared: Arc<ControllerState>,
    received: Receiver<Input>,
    started: Instant,
    /// Requests that wait for their answers.
    pending: BTreeMap<RequestId, PendingRequest>,
    last_request: RequestId,
    wake_at_ms: Option<u64>,
}

impl Thread {
    fn run(mut self) {
        let shared = self.shared.clone();
        // The table follows from consensus and is on disk. After a panic the memory is not used again.
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve()));
        shared.leads.store(false, Ordering::Release);
        shared.leader.store(0, Ordering::Release);
        for pending in std::mem::take(&mut self.pending).into_values() {
            let remark = Some("The controller is stopping or its disk has failed");
            pending.answer(response::CONTROLLER_NOT_LEADER, remark, |out, head, _| head.write(out, &[]));
        }
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!("this controller takes no part any more until it is restarted: {error}")
            }
            Err(_) => {
                tracing::error!("this controller takes no part any more until it is restarted: it panicked")
            }
        }
    }

    fn serve(&mut self) -> Result<(), EndReason> {
        self.step(Event::Started)?;
        loop {
            let wait =
                self.wake_at_ms.map(|at_ms| Duration::from_millis(at_ms.saturating_sub(self.now_ms())));
            let input = match wait {
                Some(wait) => self.received.recv_timeout(wait),
                None => self.received.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let event = match input {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => Event::Timer,
                Ok(Input::Heartbeat(heartbeat)) => Event::Leader(LeaderEvent::Heartbeat(heartbeat)),
                Ok(Input::Closed(connection)) => Event::Leader(LeaderEvent::Disconnected(connection)),
                Ok(Input::Message(from, message)) => {
                    self.links.heard(from);
                    Event::Received(from, message)
                }
                Ok(Input::Configured(config)) => Event::Configured(config),
                Ok(Input::Request(pending, request)) => {
                    self.last_request = RequestId(self.last_request.0 + 1);
                    self.pending.insert(self.last_request, pending);
                    Event::Leader(LeaderEvent::Asked(self.last_request, request))
                }
            };
            self.step(event)?;
            // Under a stream of requests the wait never times out, but the timer still has to fire.
            if self.wake_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms()) {
                self.step(Event::Timer)?;
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn step(&mut self, event: Event) -> Result<(), EndReason> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            self.wake_at_ms = None;
            self.machine.step(self.now_ms(), event, &mut actions)?;
            for action in actions {
                events.extend(self.perform(action)?);
            }
        }
        let leader = self.machine.leading().map_or(0, |NodeId(leader)| leader);
        self.shared.leader.store(leader, Ordering::Release);
        self.shared.leads.store(self.machine.leads(), Ordering::Release);
        Ok(())
    }

    /// Performs an action. Returns its result as the next event.
    fn perform(&mut self, action: Action) -> io::Result<Option<Event>> {
        match action {
            Action::Save(records) => self.journal.save(&records)?,
            Action::Replace(records) => self.journal.replace(&records)?,
            Action::Send(peer, message) => {
                if !self.links.send(peer, &message) {
                    return Ok(Some(Event::Unreachable(peer)));
                }
            }
            Action::Answer(request, answer) => {
                if let Some(pending) = self.pending.remove(&request) {
                    pending.answer(answer.code, answer.remark.as_deref(), |out, head, asked| {
                        answers::write(out, head, asked, &answer);
                    });
                }
            }
            Action::Notify(_, address, mastership) => self.links.notify(address, mastership),
            Action::WakeAt(at_ms) => self.wake_at_ms = Some(at_ms),
        }
        Ok(None)
    }
}
