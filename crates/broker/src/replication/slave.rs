//! The thread `ha-slave`: connects to the master, takes its log, and reports how far it is.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use net::Stream;
use replica::close::CloseReason;
use replica::slave::{Slave, SlaveAction, SlaveEvent};
use replica::slave_log::Attempt;
use store::{AppendError, FlushOutcome, FollowError, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use wire::ha::Protocol;
use wire::units::LogOffset;

use super::files::EpochFile;
use super::{Clock, positions};
use crate::parts::{Delivery, GroupParts, Sessions, Tables};
use crate::replicas::MasterAddresses;

/// Timeout of connecting, and of sending a report.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes read from the connection at once.
const READ_BYTES: usize = 256 << 10;

/// Number of received bytes after which the master gets a report although more bytes are waiting, because responses
/// may wait for them.
const REPORT_BYTES: usize = 64 << 10;

/// Pause before the next attempt to append bytes for which the queues had no room. The attempts end before the master
/// closes the silent connection.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
const ROOM_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 10 });

/// Interval in which consumers that wait at queues of a slave are looked at.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);

/// Time without a known master after which that is logged.
const MASTER_UNKNOWN_MS: u64 = 15_000;

/// The connection to the master.
struct Link {
    attempt: Attempt,
    stream: Stream,
    received: Vec<u8>,
}

/// The thread's state.
pub(super) struct Shell {
    parts: Arc<GroupParts>,
    machine: Slave,
    clock: Clock,
    link: Option<Link>,
    wake_at_ms: Option<u64>,
    /// Report that leaves next.
    report: Option<(Attempt, LogOffset)>,
    epoch_file: EpochFile,
    flushed: Arc<Notify>,
    is_flush_awaited: Arc<AtomicBool>,
    /// Whether reports cover only bytes on disk (`flushDiskType`, which may change while the thread runs).
    is_sync_flush: bool,
    /// Time at which an unknown master is logged. `None` after it is logged.
    unknown_at_ms: Option<u64>,
}

impl Shell {
    pub(super) fn new(parts: Arc<GroupParts>, machine: Slave) -> Self {
        Self {
            machine,
            clock: Clock::start(),
            link: None,
            wake_at_ms: None,
            report: None,
            epoch_file: EpochFile::default(),
            flushed: Arc::default(),
            is_flush_awaited: Arc::default(),
            is_sync_flush: parts.replication.durability.waits_for_flush(),
            unknown_at_ms: Some(MASTER_UNKNOWN_MS),
            parts,
        }
    }

    /// Runs until `stopped`, which also ends a connection attempt or a write under way.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            _ = stopped.changed() => {}
            () = self.follow() => {}
        }
        self.step(SlaveEvent::Stop).await;
    }

    async fn follow(&mut self) {
        let mut addresses = self.parts.replication.replicas.master();
        let address = self.master(&addresses.borrow_and_update());
        self.step(SlaveEvent::Master(address)).await;
        let flushed = self.flushed.clone();
        let mut wakes = Wakes::default();
        let mut wake = tokio::time::interval(WAKE_INTERVAL);
        loop {
            let (clock, wake_at_ms) = (self.clock, self.wake_at_ms);
            tokio::select! {
                _ = addresses.changed() => {
                    self.parts.replication.replicas.upstream.forget();
                    let address = self.master(&addresses.borrow_and_update());
                    self.step(SlaveEvent::Master(address)).await;
                }
                read = read(&mut self.link) => self.take(read).await,
                () = flushed.notified() => {
                    let end = self.parts.tables.store.flushed();
                    self.step(SlaveEvent::Flushed(end)).await;
                    // The flush may have taken too long, and more may have been appended meanwhile.
                    if end < self.parts.tables.store.appended() {
                        self.await_flush();
                    }
                }
                () = clock.until(wake_at_ms) => {
                    self.wake_at_ms = None;
                    self.step(SlaveEvent::Timer).await;
                }
                _ = wake.tick() => {
                    wakes.look(&self.parts.tables, &self.parts.sessions, &self.parts.delivery);
                    self.look_at_flush_mode().await;
                    self.note_unknown_master(addresses.borrow().ha.is_none());
                }
            }
        }
    }

    /// Passes a change of the flush mode by the operator to the machine.
    async fn look_at_flush_mode(&mut self) {
        let is_sync_flush = self.parts.replication.durability.waits_for_flush();
        if std::mem::replace(&mut self.is_sync_flush, is_sync_flush) != is_sync_flush {
            if is_sync_flush {
                self.await_flush();
            }
            self.step(SlaveEvent::SyncFlush(is_sync_flush)).await;
        }
    }

    /// Logs that no master is known, after a long time.
    fn note_unknown_master(&mut self, is_unknown: bool) {
        let now_ms = self.clock.now_ms();
        if !is_unknown || !self.parts.runtime.config.replication.master.is_empty() {
            self.unknown_at_ms = Some(now_ms + MASTER_UNKNOWN_MS);
        } else if self.unknown_at_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            self.unknown_at_ms = None;
            let config = &self.parts.runtime.config;
            let text = "no name server knows its master: the master is down, or its brokerName, brokerClusterName or namesrvAddr differ";
            tracing::warn!(
                name = config.broker_name,
                cluster = config.broker_cluster_name,
                "this slave follows nobody: {text}"
            );
            self.parts.replication.replicas.upstream.note_trouble(text.to_owned());
        }
    }

    /// Whether controllers elected the master.
    fn is_of_elected(&self) -> bool {
        self.machine.protocol() == Protocol::Switch
    }

    /// Returns the address of the master's HA port.
    fn master(&self, known: &MasterAddresses) -> Option<String> {
        let set = &self.parts.runtime.config.replication.master;
        // In controller mode another broker may be the master tomorrow.
        if set.is_empty() || self.is_of_elected() { known.ha.clone() } else { Some(set.clone()) }
    }

    /// Processes bytes read from the connection.
    async fn take(&mut self, read: io::Result<usize>) {
        let Some(link) = &mut self.link else { return };
        let attempt = link.attempt;
        let Ok(bytes @ 1..) = read else {
            tracing::warn!("the connection to the master has ended");
            let text =
                "the connection has ended; the master's log says why when it was the master that ended it";
            self.parts.replication.replicas.upstream.note_trouble(text.to_owned());
            self.link = None;
            return self.step(SlaveEvent::Closed(attempt)).await;
        };
        self.parts.replication.replicas.upstream.note_read(bytes, self.parts.runtime.now_ms());
        let mut received = std::mem::take(&mut link.received);
        let mut rest = received.as_slice();
        let mut unreported = 0;
        // A frame may end the connection, or replace it by a connection without received bytes.
        let is_same = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.attempt == attempt);
        while is_same(&self.link) {
            let (frame, head_bytes) = match self.machine.protocol().decode_master(rest) {
                Ok(None) => break,
                Ok(Some(found)) => found,
                Err(error) => {
                    self.step(SlaveEvent::Malformed(attempt, error)).await;
                    break;
                }
            };
            let Some(bytes) = rest.split_off(..head_bytes + frame.body_bytes()) else { break };
            self.step_with(SlaveEvent::Frame(attempt, frame), &bytes[head_bytes..]).await;
            unreported += bytes.len();
            if unreported >= REPORT_BYTES {
                self.send_report().await;
                unreported = 0;
            }
        }
        let used = received.len() - rest.len();
        if used == 0 {
            // A master whose large frame takes long on its way is not silent.
            self.step(SlaveEvent::Part(attempt)).await;
        }
        received.drain(..used);
        if let Some(link) = self.link.as_mut().filter(|link| link.attempt == attempt) {
            link.received = received;
        }
        self.send_report().await;
    }

    async fn step(&mut self, event: SlaveEvent) {
        self.step_with(event, &[]).await;
        self.send_report().await;
    }

    /// Passes an event to the state machine, and performs its actions. `body` is that of the frame in the event.
    async fn step_with(&mut self, event: SlaveEvent, body: &[u8]) {
        let mut actions = Vec::new();
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.machine.step(self.clock.now_ms(), event, &mut actions);
            for action in actions.drain(..) {
                events.extend(self.perform(action, body).await);
            }
        }
        self.parts.replication.replicas.set_follows(self.machine.is_following());
    }

    /// Performs an action of the machine, and returns the resulting events.
    async fn perform(&mut self, action: SlaveAction, body: &[u8]) -> Vec<SlaveEvent> {
        match action {
            SlaveAction::Connect(attempt, address) => {
                let settled = (!self.is_of_elected()).then(|| self.settled());
                let connected = self.connect(attempt, &address).await;
                if let (
                    Some(SlaveEvent::Settled { last_record: Some(record), .. }),
                    SlaveEvent::Connected(_),
                ) = (&settled, &connected)
                {
                    let text = format!(
                        "it waits for the master's record at {}, where its own last one lies; while it waits, the master's log ends there",
                        record.start
                    );
                    self.parts.replication.replicas.upstream.note_trouble(text);
                }
                return settled.into_iter().chain([connected]).collect();
            }
            SlaveAction::Handshake(attempt, handshake) => {
                return self.write(attempt, &handshake.encode()).await.into_iter().collect();
            }
            SlaveAction::Report(attempt, offset) => self.report = Some((attempt, offset)),
            SlaveAction::Compare { at, bytes } => return vec![self.compare(at, &body[..bytes as usize])],
            SlaveAction::Append { at, bytes } => {
                return self.append(at, &body[body.len() - bytes as usize..]).await;
            }
            SlaveAction::CutIncomplete => return vec![SlaveEvent::Cut(self.settle())],
            SlaveAction::Cut(to) => return vec![self.cut(to)],
            SlaveAction::SaveEpochs(epochs) => {
                self.epoch_file.save(&self.parts.tables, &self.parts.replication, &self.parts.runtime, epochs)
            }
            SlaveAction::Consistent => self.parts.replication.role.agree(),
            SlaveAction::Confirm(confirm) => self.parts.tables.store.set_confirmed(Some(confirm)),
            SlaveAction::Close(attempt, reason) => {
                tracing::warn!(%reason, "the connection to the master is closed");
                if reason != CloseReason::LogFailed {
                    self.parts.replication.replicas.upstream.note_trouble(reason.to_string());
                }
                self.link.take_if(|link| link.attempt == attempt);
            }
            SlaveAction::WakeAt(at_ms) => self.wake_at_ms = Some(at_ms),
        }
        Vec::new()
    }

    /// Drops the beginning of a record at the log's end, which never becomes durable alone. With sync flush the
    /// machine learns when the rest is on disk. Returns the end of the log.
    fn settle(&self) -> LogOffset {
        let end = self.parts.tables.store.drop_unfinished();
        if self.is_sync_flush {
            self.await_flush();
        }
        end
    }

    /// Settles the log before a connection to a master without epochs, and finds its last record.
    fn settled(&self) -> SlaveEvent {
        let end = self.settle();
        match self.parts.tables.store.last_record_range() {
            Ok(last_record) => SlaveEvent::Settled { end, last_record },
            Err(error) => {
                tracing::error!(%error, "the last record of the log cannot be read before the master is followed");
                self.parts.replication.replicas.upstream.note_trouble(error.to_string());
                SlaveEvent::LogFailed
            }
        }
    }

    /// Compares a master's bytes with the log.
    fn compare(&self, at: LogOffset, bytes: &[u8]) -> SlaveEvent {
        match self.parts.tables.store.first_difference(at, bytes) {
            Ok(differs_at) => SlaveEvent::Compared(differs_at),
            Err(error) => {
                tracing::error!(%at, %error, "the log cannot be compared with what the master sent");
                self.parts.replication.replicas.upstream.note_trouble(error.to_string());
                SlaveEvent::LogFailed
            }
        }
    }

    /// Cuts the log behind the part that the master has too.
    fn cut(&self, to: LogOffset) -> SlaveEvent {
        let store = &self.parts.tables.store;
        let end = store.appended();
        // Before the log is cut: a crash in between only has messages delivered again.
        if let Err(error) =
            positions::lower(&self.parts.tables, &self.parts.delivery, &self.parts.runtime, to)
        {
            tracing::error!(%to, %error, "the log cannot be cut to what the master has");
            self.parts.replication.replicas.upstream.note_trouble(error.to_string());
            return SlaveEvent::LogFailed;
        }
        match store.truncate(to) {
            Ok(()) => {
                tracing::warn!(from = %to, to = %end, "what the master does not have was cut off the log");
                // A wait for the cut part of the log has failed with the cut. It is not a failure of the disk, after
                // which waiting would be useless.
                self.is_flush_awaited.store(false, Ordering::Release);
                self.await_flush();
                SlaveEvent::Cut(to)
            }
            Err(error) => {
                tracing::error!(%to, %error, "the log cannot be cut to what the master has");
                self.parts.replication.replicas.upstream.note_trouble(error.to_string());
                SlaveEvent::LogFailed
            }
        }
    }

    async fn connect(&mut self, attempt: Attempt, address: &str) -> SlaveEvent {
        let tls = &self.parts.runtime.config.replication.tls;
        let local = &self.parts.replication.replicas.upstream.local;
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            let _ = stream.set_nodelay(true);
            *local.lock() = stream.local_addr().ok();
            tls.connect(stream).await
        };
        let connected = tokio::time::timeout(SOCKET_TIMEOUT, connect).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                tracing::info!(master = address, "connected to the master");
                self.parts.replication.replicas.upstream.note_trouble(String::new());
                self.link = Some(Link { attempt, stream, received: Vec::with_capacity(READ_BYTES) });
                SlaveEvent::Connected(attempt)
            }
            Err(error) => {
                tracing::warn!(master = address, %error, "the master cannot be reached; it is tried again");
                self.parts
                    .replication
                    .replicas
                    .upstream
                    .note_trouble(format!("it cannot be reached: {error}"));
                SlaveEvent::Closed(attempt)
            }
        }
    }

    async fn append(&mut self, at: LogOffset, body: &[u8]) -> Vec<SlaveEvent> {
        // Bytes whose epoch the file does not name would count as those of another epoch after a restart.
        if !self.epoch_file.retry(&self.parts.tables, &self.parts.runtime) {
            return vec![SlaveEvent::Appended(self.parts.tables.store.followed()), SlaveEvent::LogFailed];
        }
        let (tables, upstream) = (&self.parts.tables, &self.parts.replication.replicas.upstream);
        let restarted = |topic: &str| {
            // The master's removal of the offsets comes later. A new master would skip the first messages.
            tables.offsets.restart_topic(topic);
            // An offset of the new topic may have come before the log, and the master does not send it again.
            upstream.topics_restarted.store(true, Ordering::Release);
        };
        let appended = append_with_room(&tables.store, at, body, restarted).await;
        let end = SlaveEvent::Appended(self.parts.tables.store.followed());
        match appended {
            Ok(()) => {
                if self.is_sync_flush {
                    self.await_flush();
                }
                vec![end]
            }
            Err(error) => {
                tracing::error!(%error, "what the master sent cannot be appended");
                self.parts.replication.replicas.upstream.note_trouble(error.to_string());
                vec![end, SlaveEvent::LogFailed]
            }
        }
    }

    /// Requests a wake-up of the thread when all appended bytes are on disk.
    fn await_flush(&self) {
        if self.is_flush_awaited.swap(true, Ordering::AcqRel) {
            return;
        }
        let (notify, is_awaited) = (self.flushed.clone(), self.is_flush_awaited.clone());
        let done = move |outcome| {
            // After a failure no further bytes reach the disk, and no task must wait for them repeatedly.
            if !matches!(outcome, FlushOutcome::Failed(_)) {
                is_awaited.store(false, Ordering::Release);
            }
            notify.notify_one();
        };
        let store = &self.parts.tables.store;
        store.when_flushed(store.appended(), Box::new(done));
    }

    /// Sends the newest report, which replaces earlier reports.
    async fn send_report(&mut self) {
        let Some((attempt, offset)) = self.report.take() else { return };
        self.parts.replication.replicas.upstream.note_written(self.parts.runtime.now_ms());
        if let Some(closed) = self.write(attempt, &self.machine.protocol().encode_report(offset)).await {
            Box::pin(self.step_with(closed, &[])).await;
        }
    }

    /// Writes to the connection of an attempt; returns its end when that fails.
    async fn write(&mut self, attempt: Attempt, bytes: &[u8]) -> Option<SlaveEvent> {
        let link = self.link.as_mut().filter(|link| link.attempt == attempt)?;
        let write = async {
            link.stream.write_all(bytes).await?;
            link.stream.flush().await
        };
        let written = tokio::time::timeout(SOCKET_TIMEOUT, write).await;
        if matches!(written, Ok(Ok(()))) {
            return None;
        }
        self.link = None;
        Some(SlaveEvent::Closed(attempt))
    }
}

/// Appends bytes of the master's log. While the number of queue units that wait for the disk is at its limit, as on a
/// slave that catches up, the bytes wait too. Ending the connection would only lose time.
async fn append_with_room(
    store: &Store,
    at: LogOffset,
    body: &[u8],
    mut restarted: impl FnMut(&str),
) -> Result<(), FollowError> {
    let until = Instant::now() + ROOM_PATIENCE;
    let before = store.followed();
    loop {
        let appended = store.follow(at, body, &mut restarted);
        let lacks_room = matches!(appended, Err(FollowError::Store(AppendError::Busy { .. })));
        if !lacks_room || store.followed() != before || Instant::now() >= until {
            return appended;
        }
        tokio::time::sleep(ROOM_PAUSE).await;
    }
}

/// Reads from the connection. Waits for ever without a connection.
async fn read(link: &mut Option<Link>) -> io::Result<usize> {
    match link {
        Some(link) => {
            link.received.reserve(READ_BYTES);
            link.stream.read_buf(&mut link.received).await
        }
        None => std::future::pending().await,
    }
}

/// Wakes consumers that wait at queues with new messages from the master.
#[derive(Default)]
struct Wakes {
    /// The log's end at the last look.
    seen: LogOffset,
}

impl Wakes {
    fn look(&mut self, tables: &Tables, sessions: &Sessions, delivery: &Delivery) {
        let end = tables.store.visible();
        if std::mem::replace(&mut self.seen, end) == end || sessions.poll_timeouts.earliest().is_none() {
            return;
        }
        for topic in tables.topics.all() {
            for (_, queue) in topic.opened() {
                if queue.suspended.is_waited_on() {
                    delivery.wake(&queue);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
