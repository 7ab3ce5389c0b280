//! Consumers with the least possible cost: a pull request waits at every queue, received messages are counted in place
//! in the buffer, and the next pull request leaves in the same write. Offsets are committed with the pull requests, as
//! by RocketMQ's Java client.

use super::choices::{Sizes, Start};
use super::ledger::{Ledger, Receipt};
use super::mix::{MARK_BYTES, Mark};
use super::places::Place;
use super::workload::Workload;
use crate::Error;
use crate::load::Latency;
use crate::load::{Clock, Destination, Target};
use client::{Client, Credentials, MessageQueue, SignedRequest};
use net::{ConnectionHandle, Service, Workers};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{PullHeader, PullResponseHeader, pull_flag};
use wire::record::RecordView;

/// Longest time that a broker may suspend a pull request (long polling), milliseconds.
const HOLD_MS: i64 = 10_000;

/// Time after which a pull request without an answer is sent again, nanoseconds.
const LOST_NS: u64 = 25_000_000_000;

/// Interval between two checks for pull requests that failed or were lost, and before reconnecting.
const TICK: Duration = Duration::from_millis(200);

/// Number of offset queries in flight at the same time.
const ASKED_AT_ONCE: usize = 64;

/// Counts of all readers of a generator.
#[derive(Debug, Default)]
pub struct Reading {
    messages: AtomicU64,
    bytes: AtomicU64,
    end_to_end: Mutex<Latency>,
}

/// Counts of all readers since the last call.
#[derive(Debug)]
pub(super) struct Read {
    pub messages: u64,
    pub bytes: u64,
    pub end_to_end: Latency,
}

impl Reading {
    pub(super) fn take(&self) -> Read {
        Read {
            messages: self.messages.swap(0, Relaxed),
            bytes: self.bytes.swap(0, Relaxed),
            end_to_end: std::mem::take(&mut self.end_to_end.lock().expect("recording does not panic")),
        }
    }

    pub(super) fn add(&self, messages: u64, bytes: u64, delays: &[u64]) {
        self.messages.fetch_add(messages, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        let mut end_to_end = self.end_to_end.lock().expect("recording does not panic");
        delays.iter().for_each(|micros| end_to_end.record(*micros));
    }
}

/// Ledger and bodies of produced messages, with which received messages are compared.
#[derive(Debug)]
pub(super) struct Check {
    pub ledger: Arc<Ledger>,
    /// The body that was sent, for every size.
    pub bodies: Vec<Vec<u8>>,
}

/// Consumes the queues of one broker for one group.
#[derive(Debug)]
pub struct Reader {
    group: String,
    number: u32,
    topic: String,
    run: u32,
    to: Destination,
    sizes: Sizes,
    credentials: Option<Credentials>,
    clock: Clock,
    reading: Arc<Reading>,
    check: Option<Arc<Check>>,
    state: Mutex<State>,
    /// Wakes the task that keeps the reader connected: the connection ended, or the reader is to stop.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    queues: Vec<Queue>,
    stopped: bool,
}

/// A queue with the group's position in it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) target: Target,
    pub(super) next: i64,
    /// Largest offset of the queue as the broker last reported it.
    end: i64,
    /// Whether the broker reported `end` on this connection.
    heard: bool,
    /// When the waiting pull request was sent, nanoseconds of the run; `None` when no pull request waits.
    asked_ns: Option<u64>,
    /// Number of pull requests sent. Only the answer to the last one counts, otherwise a message would be received
    /// twice after a request was repeated.
    asks: u32,
    /// Number for every producing connection: messages below the number were settled before a received message was
    /// sent.
    floors: Vec<u64>,
}

/// The offsets at which a group begins in the queues of a broker.
pub(super) async fn positions(
    client: &Client,
    workload: &Workload,
    (number, place): (u32, &Place),
) -> Result<Vec<Queue>, Error> {
    let group = workload.group(number);
    let mut queues = Vec::new();
    for targets in place.targets.chunks(ASKED_AT_ONCE) {
        let mut asked = tokio::task::JoinSet::new();
        for (index, target) in targets.iter().cloned().enumerate() {
            let (client, group, start) = (client.clone(), group.clone(), workload.start);
            let topic = target.topic.as_deref().unwrap_or(&workload.topic).to_owned();
            asked.spawn(async move {
                let queue = MessageQueue::new(&topic, &target.broker, target.queue_id);
                let next = match start {
                    Start::Last => client.max_offset(&queue).await?,
                    Start::First => client.min_offset(&queue).await?,
                    Start::Group => match client.committed_offset(&group, &queue).await? {
                        Some(offset) => offset,
                        None => client.min_offset(&queue).await?,
                    },
                };
                Ok::<_, client::Error>((
                    index,
                    Queue {
                        target,
                        next,
                        end: next,
                        heard: false,
                        asked_ns: None,
                        asks: 0,
                        floors: Vec::new(),
                    },
                ))
            });
        }
        let mut found = Vec::new();
        while let Some(one) = asked.join_next().await {
            found.push(one.map_err(|panic| Error::Broken(panic.to_string()))??);
        }
        found.sort_by_key(|(index, _)| *index);
        queues.extend(found.into_iter().map(|(_, queue)| queue));
    }
    Ok(queues)
}

impl Reader {
    pub(super) fn new(
        workload: &Workload,
        number: u32,
        (to, queues): (Destination, Vec<Queue>),
        (clock, reading, check): (Clock, Arc<Reading>, Option<Arc<Check>>),
    ) -> Self {
        Self {
            group: workload.group(number),
            number,
            topic: workload.topic.clone(),
            run: workload.run,
            to,
            sizes: workload.sizes.clone(),
            credentials: workload.credentials(),
            clock,
            reading,
            check,
            state: Mutex::new(State { queues, stopped: false }),
            changed: Notify::new(),
        }
    }

    /// A reader that goes on from the positions of this one.
    pub(super) fn again(&self) -> Self {
        let mut queues = self.state().queues.clone();
        queues.iter_mut().for_each(|queue| (queue.asked_ns, queue.heard) = (None, false));
        Self {
            group: self.group.clone(),
            number: self.number,
            topic: self.topic.clone(),
            run: self.run,
            to: self.to.clone(),
            sizes: self.sizes.clone(),
            credentials: self.credentials.clone(),
            clock: self.clock,
            reading: self.reading.clone(),
            check: self.check.clone(),
            state: Mutex::new(State { queues, stopped: false }),
            changed: Notify::new(),
        }
    }

    /// Stops sending pull requests.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_one();
    }

    /// Number of messages that the group has not consumed, by the offsets that brokers last reported.
    pub fn behind(&self) -> u64 {
        let state = self.state();
        state.queues.iter().map(|queue| (queue.end - queue.next).max(0).unsigned_abs()).sum()
    }

    /// Whether the largest offset of every queue is known. It is not before the first answer on a connection, nor after
    /// a refusal.
    pub fn knows_positions(&self) -> bool {
        self.state().queues.iter().all(|queue| queue.heard)
    }

    fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    fn pull(&self, (index, count): (usize, usize), queue: &mut Queue, now_ns: u64, out: &mut Vec<u8>) {
        let header = PullHeader {
            consumer_group: &self.group,
            topic: queue.target.topic.as_deref().unwrap_or(&self.topic),
            queue_id: queue.target.queue_id,
            queue_offset: queue.next,
            max_messages: 32,
            sys_flag: pull_flag::COMMIT_OFFSET | pull_flag::SUSPEND | pull_flag::SUBSCRIPTION,
            commit_offset: queue.next,
            suspend_timeout_ms: HOLD_MS,
            subscription: "*",
            sub_version: 0,
            expression_type: "TAG",
            max_bytes: None,
        };
        queue.asks = queue.asks.wrapping_add(1);
        let head = Head::request(Encoding::Binary, request::PULL_MESSAGE, id(index, count, queue.asks));
        let write = |frame: FrameWriter<'_>| {
            header.write(frame).text("bname", &queue.target.broker).finish(b"");
        };
        let frame = FrameWriter::begin(out, head);
        match &self.credentials {
            None => write(frame),
            Some(credentials) => SignedRequest::new(credentials, write).write(frame),
        }
        queue.asked_ns = Some(now_ns);
    }

    /// Sends a pull request for every queue that has none waiting.
    fn pull_all(&self, out: &mut Vec<u8>) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state();
        if state.stopped {
            return;
        }
        let count = state.queues.len();
        for (index, queue) in state.queues.iter_mut().enumerate() {
            let waits = queue.asked_ns.is_some_and(|asked_ns| now_ns.saturating_sub(asked_ns) < LOST_NS);
            if !waits {
                self.pull((index, count), queue, now_ns, out);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }
}

/// Id of pull request number `asks` of a queue. It holds the index of the queue, so an answer finds its queue without a
/// map, and the requests of a queue have different ids.
fn id(index: usize, count: usize, asks: u32) -> i32 {
    let rounds = i32::MAX as usize / count - 1;
    i32::try_from(asks as usize % rounds.max(1) * count + index).expect("fewer than 2^30 queues")
}

/// Counts of one read batch: all frames that one wake-up brought.
#[derive(Debug, Default)]
pub struct Batch {
    messages: u64,
    bytes: u64,
    delays: Vec<u64>,
}

impl Reader {
    /// Counts the messages of an answer.
    fn count(&self, batch: &mut Batch, queue: &mut Queue, body: &[u8], now_us: u64) {
        let mut rest = body;
        while let Ok(record) = RecordView::parse(rest) {
            let body = record.body();
            batch.messages += 1;
            batch.bytes += body.len() as u64;
            let mark = self.mark(&record);
            let born_us = record.born_timestamp().max(0).unsigned_abs() * 1000;
            let since_us = mark.map_or(born_us, |mark| mark.since_us);
            batch.delays.push(now_us.saturating_sub(since_us).max(1));
            if let (Some(check), Some(mark)) = (&self.check, mark) {
                check.ledger.received(self.receipt(check, queue, mark, body));
            }
            rest = &rest[record.size()..];
            if rest.is_empty() {
                break;
            }
        }
    }

    /// The mark of a message of this run. When content is checked, a body with a wrong checksum gives no mark, because
    /// the mark may be changed into that of another message.
    fn mark(&self, record: &RecordView<'_>) -> Option<Mark> {
        if let Some(check) = &self.check
            && record.check_crc().is_err()
        {
            check.ledger.changed();
            return None;
        }
        Mark::read(record.body()).filter(|mark| mark.run == self.run)
    }

    fn receipt(&self, check: &Check, queue: &mut Queue, mark: Mark, body: &[u8]) -> Receipt {
        // The mark of a message that was never sent is not trusted: the number of its connection could make `floors`
        // huge.
        let is_late = check.ledger.has_issued(mark.connection, mark.sequence) && queue.is_late(mark);
        let expected = &check.bodies[self.sizes.pick(mark.sequence)];
        let is_changed = body.len() != expected.len() || body[MARK_BYTES..] != expected[MARK_BYTES..];
        Receipt {
            connection: mark.connection,
            sequence: mark.sequence,
            group: self.number as usize,
            is_late,
            is_changed,
        }
    }
}

impl Queue {
    /// Whether a message arrived out of order: an earlier arrival has a floor above the number of
    /// this message ([`Mark::floor`]). Also raises the floor of the connection to the floor in
    /// `mark`.
    fn is_late(&mut self, mark: Mark) -> bool {
        let connection = mark.connection as usize;
        if self.floors.len() <= connection {
            self.floors.resize(connection + 1, 0);
        }
        let is_late = mark.sequence < self.floors[connection];
        self.floors[connection] = self.floors[connection].max(mark.floor);
        is_late
    }
}

impl Service for Reader {
    type ReadBatch = Batch;

    fn read_batch(&self) -> Batch {
        Batch::default()
    }

    fn frame(
        &self,
        batch: &mut Batch,
        _peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if !command.is_response() {
            return;
        }
        let now_ns = self.clock.now_ns();
        let mut state = self.state();
        let stopped = state.stopped;
        let count = state.queues.len().max(1);
        let index = usize::try_from(command.opaque).unwrap_or(usize::MAX) % count;
        let Some(queue) = state.queues.get_mut(index) else { return };
        if command.opaque != id(index, count, queue.asks) {
            return;
        }
        let goes_on = matches!(
            command.code,
            response::SUCCESS
                | response::PULL_NOT_FOUND
                | response::PULL_RETRY_IMMEDIATELY
                | response::PULL_OFFSET_MOVED
        );
        let reply = PullResponseHeader::decode(&command.fields);
        let (true, Ok(reply)) = (goes_on, reply) else {
            // The next pull request is sent by the timer, not at once: the broker has a problem, and its largest offset
            // is unknown.
            (queue.asked_ns, queue.heard) = (None, false);
            return;
        };
        if command.code == response::SUCCESS {
            self.count(batch, queue, command.body, self.clock.epoch_us(now_ns));
        }
        (queue.next, queue.end, queue.heard) = (reply.next_offset, reply.max_offset, true);
        queue.asked_ns = None;
        if !stopped {
            self.pull((index, count), queue, now_ns, out);
        }
    }

    fn end(&self, batch: &mut Batch, _peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {
        self.reading.add(batch.messages, batch.bytes, &batch.delays);
        (batch.messages, batch.bytes) = (0, 0);
        batch.delays.clear();
    }

    fn opened(&self, _peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        self.state().queues.iter_mut().for_each(|queue| queue.asked_ns = None);
        self.pull_all(out);
    }

    fn closed(&self, _peer: &Arc<ConnectionHandle>) {
        // The broker may store messages while it is disconnected, so the known offsets are outdated.
        self.state().queues.iter_mut().for_each(|queue| queue.heard = false);
        self.changed.notify_one();
    }
}

/// Keeps a reader connected until the reader is stopped.
pub(super) async fn keep_connected(workers: &Workers, index: usize, reader: Arc<Reader>) {
    let mut to = reader.to.clone();
    while !reader.is_stopped() {
        to.look().await;
        if let Ok(peer) = workers.dial_on(index, to.address(), reader.clone()).await {
            while !reader.is_stopped() && !peer.is_closed() {
                let _ = tokio::time::timeout(TICK, reader.changed.notified()).await;
                // A broker that is paused neither answers nor ends the connection.
                if to.may_change() && to.look().await {
                    peer.abort();
                    break;
                }
                // Writing to a closed connection has no effect; the loop then makes a new connection.
                let _ = peer.push(|out| reader.pull_all(out));
            }
            peer.close();
        }
        if !reader.is_stopped() {
            tokio::time::sleep(TICK).await;
        }
    }
}

#[cfg(test)]
mod tests;
