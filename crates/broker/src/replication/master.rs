//! Thread `ha-master`: accepts slaves and sends them the log. A single thread serves all slaves of a broker. Each
//! connection has a task that reads reports and a task that writes the thread's frames.

mod admission;
mod connection;
mod evidence;
mod greetings;
mod in_sync;
mod line_limit;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::Stream;
use replica::acks::Ticket;
use replica::in_sync::SetEpoch;
use replica::master::{Master, MasterAction, MasterEvent};
use replica::transfer::{LogRange, PeerId};
use store::{FlushOutcome, Store, WaitOutcome};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use wire::ha::BrokerId;
use wire::ha::switch::SlaveFrame;

use super::Clock;
use super::files::EpochFile;
use crate::parts::{GroupParts, Identity, Runtime};
use crate::replicas::SlaveProgress;
use admission::Admission;
use connection::{Event, read, write};
use evidence::{Candidate, Evidence};
use greetings::Greetings;
use line_limit::LineLimit;

/// Size of a connection's buffer from which on no further frame is added before the socket has taken the buffer.
const BUFFER_BYTES: usize = 512 << 10;

/// Most slaves that are connected at once, and most connections that are being greeted. A further connection replaces a stranger: a
/// connection that does not count ([`evidence`]). If there is no stranger, the connection replaces a connection without a greeting
/// or report. Otherwise the further connection is closed at once; without name servers and controllers the connection replaces the
/// connection that is furthest behind.
const SLAVES_MAX: usize = 64;

/// Most connections of an address. A further connection replaces the connection that is furthest behind.
const PER_ADDRESS_MAX: usize = 16;

/// Most events of connections that wait for the thread; the connections wait then.
const EVENTS_MAX: usize = 1024;

/// Pause before a port that another program has is tried again.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// Duration of a wait for growth of the log, after which the wait is repeated.
const GROWTH_WAIT: Duration = Duration::from_secs(600);

/// Connection to a slave.
struct Peer {
    progress: Arc<SlaveProgress>,
    /// Queue of bytes for the writing task. Holds at most one buffer, because the next buffer follows after
    /// `Written`.
    outgoing: mpsc::Sender<Vec<u8>>,
    /// Frames that are not given to the writing task yet.
    buffer: Vec<u8>,
    is_writing: bool,
    /// Whether the state machine waits until the last frame was taken.
    is_held: bool,
    tasks: [JoinHandle<()>; 2],
}

/// Channels between an elected master and the controllers.
pub(super) struct ToControllers {
    /// Decisions of the controllers about this master.
    pub decided: mpsc::Receiver<MasterEvent>,
    /// Sender of proposals of the in-sync set. The machine makes a proposal at a time.
    pub proposals: mpsc::UnboundedSender<(BTreeSet<BrokerId>, SetEpoch)>,
}

struct Shell {
    parts: Arc<GroupParts>,
    machine: Master,
    proposals: Option<mpsc::UnboundedSender<(BTreeSet<BrokerId>, SetEpoch)>>,
    /// The proposal that waits until its newcomers have the tables.
    admission: Option<Admission>,
    /// The wait that finds out which member of the in-sync set holds up sends.
    probe: Option<Ticket>,
    last_probe: u64,
    epoch_file: EpochFile,
    clock: Clock,
    peers: BTreeMap<PeerId, Peer>,
    events: mpsc::Sender<(PeerId, Event)>,
    wake_at_ms: Option<u64>,
    last_peer: u64,
    evidence: Evidence,
    /// Whether the set of connections that count may have changed.
    is_recount_due: bool,
    growth: Growth,
    /// Notified when a flush that the machine asked for has ended or takes long.
    flushed: Arc<Notify>,
    /// Log limit for connections for which there was no room.
    overflow: LineLimit,
    /// Log limit for connections that have reported but do not count.
    strangers: LineLimit,
}

/// Wait for growth of the log. Without a slave there is no wait, and an append costs one atomic load.
struct Growth {
    notify: Arc<Notify>,
    is_awaited: Arc<AtomicBool>,
}

/// Binds the port for slaves, and retries while another program holds the port. Returns `None` if `stopped` comes
/// first.
pub(super) async fn bind(
    identity: &Identity,
    runtime: &Runtime,
    stopped: &mut watch::Receiver<bool>,
) -> Option<std::net::TcpListener> {
    loop {
        match super::listen(identity, runtime) {
            Ok(listener) => return Some(listener),
            Err(error) => {
                tracing::error!(port = identity.ha_port(), %error, "the port for slaves cannot be bound; it is tried again")
            }
        }
        tokio::select! {
            _ = stopped.changed() => return None,
            () = tokio::time::sleep(BIND_PAUSE) => {}
        }
    }
}

/// Runs until `stopped`. `controllers` is `None` for a master that no controllers elected.
pub(super) async fn run(
    parts: Arc<GroupParts>,
    listener: std::net::TcpListener,
    machine: Master,
    controllers: Option<ToControllers>,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "slaves cannot be accepted"),
    };
    let (events, mut received) = mpsc::channel(EVENTS_MAX);
    let (mut decided, proposals) = controllers.map(|to| (to.decided, to.proposals)).unzip();
    let mut greetings = Greetings::new(listener, parts.runtime.config.replication.tls.clone());
    let (mut copies, mut silent) =
        (parts.replication.table_copies.changes(), parts.replication.table_copies.silent());
    let mut machines = parts.replication.replicas.slave_machines.changes();
    let mut shell = Shell::new(parts, machine, proposals, events);
    shell.step(MasterEvent::Log(shell.range()));
    let (grown, flushed) = (shell.growth.notify.clone(), shell.flushed.clone());
    loop {
        shell.recount();
        shell.admit();
        shell.await_growth();
        let (clock, wake_at_ms) = (shell.clock, shell.wake_at_ms);
        tokio::select! {
            _ = stopped.changed() => break,
            (stream, remote) = greetings.next() => shell.accept(stream, remote),
            Some((peer, event)) = received.recv() => shell.take(peer, event),
            Some(event) = next(&mut decided) => shell.step(event),
            () = admission::news(&mut copies, shell.admission.is_some()) => {}
            Ok(()) = silent.changed() => {
                let slaves = silent.borrow_and_update().clone();
                shell.put_out(&slaves);
            }
            Ok(()) = machines.changed() => shell.is_recount_due = true,
            () = grown.notified() => shell.step(MasterEvent::Log(shell.range())),
            () = flushed.notified() => {
                let end = shell.parts.tables.store.flushed();
                shell.step(MasterEvent::Flushed(end));
            }
            () = clock.until(wake_at_ms) => {
                shell.wake_at_ms = None;
                shell.is_recount_due = true;
                shell.epoch_file.retry(&shell.parts.tables, &shell.parts.runtime);
                shell.step(MasterEvent::Timer);
            }
        }
    }
    shell.step(MasterEvent::Stop);
}

/// Returns the first connection of the machine with the most connections. So many connections of a machine do not
/// keep out slaves of other machines.
fn first_of_most<T: Ord>(connections: impl Iterator<Item = (T, IpAddr)>) -> Option<T> {
    let mut by_machine = BTreeMap::<IpAddr, Vec<T>>::new();
    for (id, machine) in connections {
        by_machine.entry(machine).or_default().push(id);
    }
    by_machine.into_values().max_by_key(Vec::len)?.into_iter().min()
}

/// Returns the next decision of the controllers. Never returns for a classic master.
async fn next(decided: &mut Option<mpsc::Receiver<MasterEvent>>) -> Option<MasterEvent> {
    match decided {
        Some(decided) => decided.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the part of the log that slaves can get: everything, or only bytes on disk.
///
/// An elected master with synchronous flush sends only bytes on disk. After a power cut it continues the same epoch
/// behind its end, and slaves must not have other bytes there. A classic master sends at once, as RocketMQ's does.
pub(super) fn range(store: &Store, is_durable: bool) -> LogRange {
    // In this order: the end only grows, so that it never lies before the minimum.
    let minimum = store.min();
    let end = if is_durable { store.flushed() } else { store.appended() };
    LogRange { minimum, end: end.max(minimum) }
}

impl Shell {
    fn new(
        parts: Arc<GroupParts>,
        machine: Master,
        proposals: Option<mpsc::UnboundedSender<(BTreeSet<BrokerId>, SetEpoch)>>,
        events: mpsc::Sender<(PeerId, Event)>,
    ) -> Self {
        Self {
            machine,
            proposals,
            admission: None,
            probe: None,
            last_probe: 0,
            epoch_file: EpochFile::default(),
            clock: Clock::start(),
            peers: BTreeMap::new(),
            events,
            wake_at_ms: None,
            last_peer: 0,
            evidence: Evidence::default(),
            is_recount_due: false,
            growth: Growth { notify: Arc::default(), is_awaited: Arc::default() },
            flushed: Arc::default(),
            overflow: LineLimit::default(),
            strangers: LineLimit::default(),
            parts,
        }
    }

    /// Invariant: `end` >= the last position passed to the machine, which may be larger before a change of the flush
    /// mode.
    fn range(&self) -> LogRange {
        let LogRange { minimum, end } = range(&self.parts.tables.store, self.sends_durable());
        LogRange { minimum, end: end.max(self.machine.log_end()) }
    }

    fn sends_durable(&self) -> bool {
        self.machine.election().is_some() && self.parts.replication.durability.waits_for_flush()
    }

    fn accept(&mut self, stream: Stream, remote: SocketAddr) {
        if !self.make_room(remote) {
            return;
        }
        self.last_peer += 1;
        let id = PeerId(self.last_peer);
        let (reader, writer) = tokio::io::split(stream);
        let (outgoing, buffers) = mpsc::channel(1);
        let tasks = [
            tokio::spawn(read(reader, self.machine.protocol(), id, self.events.clone())),
            tokio::spawn(write(writer, buffers, id, self.events.clone())),
        ];
        let progress = Arc::new(SlaveProgress::new(remote));
        self.parts.replication.replicas.join(progress.clone());
        let peer = Peer { progress, outgoing, buffer: Vec::new(), is_writing: false, is_held: false, tasks };
        self.peers.insert(id, peer);
        // Appends during the time without a slave were not reported to the machine.
        self.step(MasterEvent::Log(self.range()));
        self.step(MasterEvent::Connected(id, remote.ip().into()));
        self.step(MasterEvent::Counted(id, false));
        self.is_recount_due = true;
        self.recount();
    }

    /// Makes room for a connection from `remote`; false if slaves have all places.
    fn make_room(&mut self, remote: SocketAddr) -> bool {
        // The connection that is furthest behind gives way first, so that no number of connections that acknowledge nothing puts out a slave.
        let those = |is_meant: &dyn Fn(&SlaveProgress) -> bool| {
            let meant = self.peers.iter().filter(|(_, peer)| is_meant(&peer.progress));
            let rank =
                |(id, peer): (&PeerId, &Peer)| ((peer.progress.reported(), *id), peer.progress.remote.ip());
            meant.map(rank).collect::<Vec<_>>()
        };
        let of_address = those(&|progress| progress.remote.ip() == remote.ip());
        let gives_way = if of_address.len() >= PER_ADDRESS_MAX {
            first_of_most(of_address.into_iter())
        } else if self.peers.len() < SLAVES_MAX {
            return true;
        } else {
            let strangers = first_of_most(those(&|progress| !progress.is_known()).into_iter());
            strangers.or_else(|| first_of_most(those(&|progress| !progress.is_slave()).into_iter())).or_else(
                || {
                    // Without name servers all connections count, and a following connection is hardly the furthest
                    // behind.
                    let all = those(&|_| !self.has_directory());
                    all.into_iter().min().map(|(place, _)| place)
                },
            )
        };
        let line = self.overflow.note(self.clock.now_ms());
        let Some((_, gives_way)) = gives_way else {
            line.inspect(|connections| {
                tracing::warn!(%remote, connections, "a slave is refused: {SLAVES_MAX} are connected");
            });
            return false;
        };
        if let Some(gone) = self.remove(gives_way) {
            let closed = gone.progress.remote;
            line.inspect(|connections| {
                tracing::warn!(%closed, connections, "a connection to the port for slaves is closed to make room for a further connection");
            });
            self.step(MasterEvent::Closed(gives_way));
        }
        true
    }

    /// Whether slaves can know where to take the tables of this master.
    fn has_directory(&self) -> bool {
        let config = &self.parts.runtime.config;
        config.is_controlled() || !config.name_servers().is_empty()
    }

    /// Determines again whose acknowledgements count, if that may have changed.
    fn recount(&mut self) {
        if !std::mem::take(&mut self.is_recount_due) {
            return;
        }
        let now = self.parts.runtime.clock.steady();
        let slaves = self.has_directory().then(|| self.parts.replication.replicas.slave_machines.slaves(now));
        let candidate = |(id, peer): (&PeerId, &Peer)| Candidate {
            id: *id,
            address: peer.progress.remote.ip(),
            is_slave: peer.progress.is_slave(),
        };
        let connections: Vec<_> = self.peers.iter().map(candidate).collect();
        let counted = self.evidence.counted(now, slaves.as_ref(), &connections);
        for Candidate { id, .. } in connections {
            let is_counted = counted.contains(&id);
            let Some(peer) = self.peers.get(&id) else { continue };
            if peer.progress.is_known.swap(is_counted, Ordering::Relaxed) != is_counted {
                self.step(MasterEvent::Counted(id, is_counted));
                self.note_progress(id);
            }
        }
    }

    /// Whether another connection has the same slave id as `peer` and a better claim: only the other connection comes
    /// from a machine of a slave.
    fn is_impostor(&self, peer: &Peer, broker: BrokerId) -> bool {
        let former = self.machine.peer_of(broker).and_then(|former| self.peers.get(&former));
        let machines =
            self.parts.replication.replicas.slave_machines.slaves(self.parts.runtime.clock.steady());
        let is_machine = |peer: &Peer| machines.contains_key(&peer.progress.remote.ip().to_canonical());
        !is_machine(peer) && former.is_some_and(is_machine)
    }

    fn take(&mut self, id: PeerId, event: Event) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match event {
            Event::Received(frame) => {
                let is_new = !peer.progress.is_slave();
                peer.progress.heard_ms.store(self.parts.runtime.now_ms(), Ordering::Relaxed);
                if let SlaveFrame::Handshake(handshake) = frame {
                    let peer = &self.peers[&id];
                    if self.is_impostor(peer, handshake.broker_id) {
                        let (remote, broker_id) = (peer.progress.remote, handshake.broker_id.get());
                        tracing::warn!(%remote, broker_id, "a connection to the port for slaves is closed: its slave id is in use by a slave on another machine");
                        self.remove(id);
                        self.step(MasterEvent::Closed(id));
                        return;
                    }
                    peer.progress.broker.store(handshake.broker_id.get(), Ordering::Relaxed);
                }
                // A slave may have asked for what was appended since the last look.
                self.step(MasterEvent::Log(self.range()));
                self.step(MasterEvent::received(id, frame));
                self.note_progress(id);
                if is_new {
                    self.is_recount_due = true;
                    self.recount();
                }
                if let Some(peer) = self.peers.get(&id).filter(|peer| is_new && peer.progress.is_slave()) {
                    let remote = peer.progress.remote;
                    if peer.progress.is_known() || self.machine.election().is_some() {
                        tracing::info!(%remote, "a slave has connected");
                    } else if let Some(connections) = self.strangers.note(self.clock.now_ms()) {
                        tracing::info!(%remote, connections, "a connection reports as a slave does; acknowledgements count once a slave on that machine, or another slave without a connection, fetches the tables of this master");
                    }
                }
            }
            Event::Malformed(error) => self.step(MasterEvent::Malformed(id, error)),
            Event::Written => {
                peer.is_writing = false;
                self.release(id);
            }
            Event::Read(Some(frame)) => {
                peer.buffer.extend_from_slice(&frame);
                peer.is_held = true;
                self.release(id);
            }
            Event::Read(None) | Event::Closed => self.forget(id),
        }
    }

    /// Reports that the last frame was taken, if the state machine waits for that and there is room for the next
    /// frame.
    fn release(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.buffer.len() < BUFFER_BYTES && std::mem::take(&mut peer.is_held) {
            self.step(MasterEvent::Sent(id));
        }
        self.flush(id);
    }

    fn step(&mut self, event: MasterEvent) {
        let mut actions = Vec::new();
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.machine.step(self.clock.now_ms(), event, &mut actions);
            for action in actions.drain(..) {
                events.extend(self.perform(action));
            }
            events.extend(self.probe());
        }
        self.publish();
        let written: Vec<PeerId> = self.peers.keys().copied().collect();
        written.into_iter().for_each(|id| self.flush(id));
    }

    /// Performs an action of the machine, and returns the resulting event.
    fn perform(&mut self, action: MasterAction) -> Option<MasterEvent> {
        match action {
            MasterAction::Send(peer, head) => {
                return self.send(peer, head).then_some(MasterEvent::Sent(peer));
            }
            MasterAction::HandshakeResponse(peer, reply) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    reply.encode(&mut peer.buffer);
                }
            }
            MasterAction::Close(peer, reason) => {
                if let Some(gone) = self.remove(peer) {
                    tracing::warn!(slave = %gone.progress.remote, %reason, "the connection of a slave is closed");
                }
            }
            MasterAction::Warn(peer, warning) => {
                if let Some(peer) = self.peers.get(&peer) {
                    tracing::error!(slave = %peer.progress.remote, reason = %warning, "a slave cannot follow");
                    peer.progress.note_trouble(warning.to_string());
                }
            }
            MasterAction::Confirm(confirm) => {
                // Without `allAckInSyncStateSet` consumers see all that is appended, and the store has no such limit.
                if self.parts.tables.store.confirmed().is_some() {
                    self.parts.tables.store.set_confirmed(Some(confirm));
                }
            }
            MasterAction::Flush => self.flush_log(),
            MasterAction::ProposeSet(members, epoch) => self.propose(members, epoch),
            MasterAction::SaveEpochs(epochs) => {
                self.epoch_file.save(&self.parts.tables, &self.parts.replication, &self.parts.runtime, epochs)
            }
            MasterAction::Answer(ticket, _) => {
                self.probe.take_if(|probe| *probe == ticket);
            }
            MasterAction::WakeAt(at_ms) => self.wake_at_ms = Some(at_ms),
        }
        None
    }

    fn forget(&mut self, id: PeerId) {
        if let Some(gone) = self.remove(id) {
            if gone.progress.is_slave() {
                tracing::info!(slave = %gone.progress.remote, "a slave has disconnected");
            }
            self.step(MasterEvent::Closed(id));
        }
    }

    fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let gone = self.peers.remove(&id)?;
        self.is_recount_due = true;
        self.parts.replication.replicas.leave(&gone.progress);
        gone.tasks.iter().for_each(JoinHandle::abort);
        Some(gone)
    }

    /// Requests a flush of the log that wakes the thread. After a failure the store is fenced, and the machine keeps
    /// waiting, because no slave may leave the in-sync set then.
    fn flush_log(&self) {
        let (store, flushed) = (&self.parts.tables.store, self.flushed.clone());
        let done = move |outcome| {
            if !matches!(outcome, FlushOutcome::Failed(_)) {
                flushed.notify_one();
            }
        };
        store.when_flushed(store.appended(), Box::new(done));
    }

    /// Requests a wake-up of the thread when the log grows.
    fn await_growth(&self) {
        // An elected master without slaves confirms its own log alone.
        let is_of_interest = !self.peers.is_empty() || self.need().is_some();
        if !is_of_interest || self.growth.is_awaited.swap(true, Ordering::AcqRel) {
            return;
        }
        // The machine knows the log up to here at least. Later appends are reported at once.
        let known = self.machine.log_end();
        let (notify, is_awaited) = (self.growth.notify.clone(), self.growth.is_awaited.clone());
        let done = move |outcome: WaitOutcome| {
            // After a failure the log does not grow, and no task must wait for it repeatedly.
            if !matches!(outcome, WaitOutcome::Failed(_)) {
                is_awaited.store(false, Ordering::Release);
            }
            notify.notify_one();
        };
        let flushing = self.sends_durable().then(|| self.parts.tables.store.clone());
        let grown = move |outcome: WaitOutcome| match (flushing, outcome) {
            (Some(store), WaitOutcome::Reached) => {
                store.when_flushed(known + 1, Box::new(move |outcome| done(outcome.into())));
            }
            (_, outcome) => done(outcome),
        };
        self.parts.tables.store.when_appended(known + 1, GROWTH_WAIT, Box::new(grown));
    }
}
