//! Connection under load.
//!
//! All answers of a wake-up are handled together: with one reading of the clock, under one lock, and the requests that
//! follow leave in one write. A timer task on the connection's own worker does the rest: it gives up requests without
//! an answer, ends the rest of refused ones, and in an open loop sends the requests that are due.

use super::clock::Clock;
use super::work::{Fate, Work};
use super::{Flight, Pace, Slots, Stamp, Turn};
use crate::load::Tally;
use net::{ConnectionHandle, Service};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use wire::codes::response;
use wire::frame::Command;

/// Nanoseconds for which a place rests after a refusal, so that an overloaded broker is not flooded.
const REST_NS: u64 = 100_000_000;

/// Nanoseconds between two searches of all places for requests without an answer. An open loop has a much shorter tick
/// and thousands of places, so it does not search on every tick.
const LOOK_NS: u64 = 20_000_000;

/// Requests that a connection is to send.
#[derive(Debug)]
pub struct ConnectionOptions<W> {
    /// Number of requests that the connection keeps in flight.
    pub in_flight: u32,
    /// Source of the requests.
    pub work: W,
    /// Index of the queue to begin with; different connections begin with different queues.
    pub first_queue: usize,
    /// Number of requests after which the connection is done, whatever their results; `None` for no limit.
    pub quantity: Option<u64>,
    /// Schedule of an open loop; `None` for a closed loop.
    pub pace: Option<Pace>,
    /// Messages per request.
    pub messages_each: u64,
    /// Time after which a request without an answer is given up.
    pub send_timeout: Duration,
    /// The place in a ring of connections to several brokers, of which one at a time may send; `None` to send at any
    /// time.
    pub turn: Option<Turn>,
}

/// A connection that keeps a number of requests in flight, or sends them on schedule.
#[derive(Debug)]
pub struct Connection<W> {
    clock: Clock,
    tally: Arc<Tally>,
    messages_each: u64,
    work: W,
    turn: Option<Turn>,
    state: Mutex<State>,
    /// Wakes the task that keeps the connection open: the connection ended, or its work is done.
    changed: Notify,
    /// Whether a request was refused or not answered since the last acknowledgement. Nothing is published through this
    /// flag.
    doubt: AtomicBool,
}

#[derive(Debug)]
struct State {
    slots: Slots,
    /// Number of requests that are still to be sent.
    left: u64,
    pace: Option<Pace>,
    /// Whether an open loop is late because no place is free. Otherwise a delay is this process's own.
    blocked: bool,
    /// When to search for requests without an answer again, nanoseconds of the run.
    look_ns: u64,
    queue: usize,
    counter: u16,
    sequence: u64,
}

/// Answers of one read batch: request id, and whether the message is stored.
#[derive(Debug, Default)]
pub struct Answers {
    answers: Vec<(i32, bool)>,
    micros: Vec<u64>,
    late: Vec<u64>,
}

impl Answers {
    /// Adds the answer of a request.
    pub(crate) fn push(&mut self, opaque: i32, is_stored: bool) {
        self.answers.push((opaque, is_stored));
    }
}

impl<W: Work> Connection<W> {
    /// Prepares the load of a connection, which begins when the connection is made.
    pub fn new(options: ConnectionOptions<W>, clock: Clock, tally: Arc<Tally>) -> Self {
        let timeout_ns = u64::try_from(options.send_timeout.as_nanos()).unwrap_or(u64::MAX);
        let state = State {
            slots: Slots::new(options.in_flight, timeout_ns),
            left: options.quantity.unwrap_or(u64::MAX),
            pace: options.pace,
            blocked: false,
            look_ns: 0,
            queue: options.first_queue % options.work.queues(),
            counter: 0,
            sequence: 0,
        };
        let ConnectionOptions { work, messages_each, turn, .. } = options;
        let (state, changed, doubt) = (Mutex::new(state), Notify::new(), AtomicBool::new(false));
        Self { clock, tally, messages_each, work, turn, state, changed, doubt }
    }

    /// Stops sending new requests.
    pub fn stop(&self) {
        let mut state = self.state();
        state.left = 0;
        if state.is_done() {
            self.changed.notify_one();
        }
    }

    /// Whether nothing is left to send and nothing is in flight.
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// Waits until the connection ended or its work is done. Only one task may wait.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a request was refused or not answered since the last acknowledgement, so that the connection may lead to
    /// the wrong broker.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.load(Relaxed)
    }

    /// Counts a failed attempt to connect as a failed request.
    pub fn unreachable(&self) {
        if self.has_turn() {
            self.tally.unanswered(1);
            let mut state = self.state();
            state.left = state.left.saturating_sub(1);
            drop(state);
            self.pass();
        }
    }

    /// Waits for `moment`, or until this connection may send in its ring.
    pub async fn rest(&self, moment: Duration) {
        match &self.turn {
            None => tokio::time::sleep(moment).await,
            // The caller checks in both cases whether the connection may send.
            Some(turn) => drop(tokio::time::timeout(moment, turn.comes()).await),
        }
    }

    /// When the next request of an open loop is due, nanoseconds of the run; `None` when no request is left.
    pub fn due_ns(&self) -> Option<u64> {
        let state = self.state();
        state.pace.as_ref().filter(|_| state.left > 0).map(Pace::due_ns)
    }

    /// Whether the connection sends in an open loop.
    pub fn is_paced(&self) -> bool {
        self.state().pace.is_some()
    }

    /// The clock of the run.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Handles everything that depends on time alone: answers that did not come, rests that are over, requests that are
    /// due. Called every few milliseconds, and whenever a request is due.
    pub fn tick(&self, peer: &ConnectionHandle) {
        let now_ns = self.clock.now_ns();
        self.expire(now_ns);
        // Writing to a closed connection has no effect; the keeper makes a new connection.
        let _ = peer.push(|out| {
            self.work.elapsed(now_ns, peer, out);
            self.issue_due(now_ns, out);
        });
    }

    /// Gives up requests without an answer, and ends rests that are over.
    pub(crate) fn expire(&self, now_ns: u64) {
        let mut state = self.state();
        if now_ns >= state.look_ns {
            state.look_ns = now_ns + LOOK_NS;
            let lost = state.slots.expire(now_ns);
            // These requests waited at least this long. Without them a stall would look shorter than it was.
            let micros: Vec<u64> =
                lost.iter().map(|flight| now_ns.saturating_sub(flight.since_ns) / 1000).collect();
            self.tally.expired(&micros);
            self.lost(&lost);
        }
        state.slots.wake(now_ns);
        if state.is_done() {
            self.changed.notify_one();
        }
    }

    /// Writes the requests that may be sent now.
    pub(crate) fn issue_due(&self, now_ns: u64, out: &mut Vec<u8>) {
        let mut late = Vec::new();
        self.issue(&mut self.state(), now_ns, (out, &mut late));
        self.tally.late(&late);
    }

    /// Takes the answers of a wake-up and writes the requests that follow.
    pub(crate) fn settle(&self, answered: &mut Answers, out: &mut Vec<u8>) {
        if answered.answers.is_empty() {
            return;
        }
        let now_ns = self.clock.now_ns();
        let (mut refused, mut bytes) = (0, 0);
        let mut state = self.state();
        for (opaque, stored) in answered.answers.drain(..) {
            if !stored {
                if let Some(flight) = state.slots.refuse(opaque, now_ns + REST_NS) {
                    self.work.settled(flight.sequence, Fate::Refused);
                    refused += 1;
                }
            } else if let Some(flight) = state.slots.answer(opaque) {
                answered.micros.push(now_ns.saturating_sub(flight.since_ns).div_ceil(1000));
                bytes += self.work.plain_bytes(flight.sequence);
                self.work.settled(flight.sequence, Fate::Stored);
            }
        }
        if refused > 0 || !answered.micros.is_empty() {
            self.pass();
        }
        if refused > 0 {
            self.doubt.store(true, Relaxed);
        }
        if !answered.micros.is_empty() {
            self.doubt.store(false, Relaxed);
            self.work.acknowledged(now_ns);
        }
        self.issue(&mut state, now_ns, (out, &mut answered.late));
        // Counted before another task can see the work as done.
        self.tally.answered(&answered.micros, self.messages_each);
        self.tally.stored_bytes(bytes);
        self.tally.refused(refused);
        self.tally.late(&answered.late);
        answered.micros.clear();
        answered.late.clear();
        if state.is_done() {
            self.changed.notify_one();
        }
    }

    /// Counts the requests in flight as unanswered, because the connection ended.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        let lost = state.slots.abandon();
        self.lost(&lost);
        if self.work.is_one_way() && !state.is_done() {
            // One-way requests on the way are lost, and their number is unknown; one is counted.
            self.tally.unanswered(1);
        }
        self.changed.notify_one();
    }

    /// The counts of the run.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.state().slots.in_flight()
    }

    fn lost(&self, lost: &[Flight]) {
        self.tally.unanswered(lost.len() as u64);
        if !lost.is_empty() {
            self.doubt.store(true, Relaxed);
            self.pass();
        }
        lost.iter().for_each(|flight| self.work.settled(flight.sequence, Fate::Unknown));
    }

    /// Sends as many requests as free places, quantity and schedule allow.
    fn issue(&self, state: &mut State, now_ns: u64, (out, late): (&mut Vec<u8>, &mut Vec<u64>)) {
        let epoch_ms = self.clock.epoch_ms(now_ns);
        let month_ms = self.clock.month_ms(now_ns);
        let oldest = if self.work.is_checked() { state.slots.oldest() } else { None };
        let floor = oldest.unwrap_or(state.sequence);
        while state.left > 0 && state.slots.has_room() && self.has_turn() {
            let since_ns = match &mut state.pace {
                None => now_ns,
                Some(pace) => match pace.take(now_ns) {
                    Some(due_ns) => due_ns,
                    None => {
                        state.blocked = false;
                        break;
                    }
                },
            };
            let sequence = state.sequence;
            let Some(opaque) = state.slots.take(since_ns, now_ns, sequence) else { break };
            if state.pace.is_some() && !state.blocked {
                late.push((now_ns - since_ns) / 1000);
            }
            state.left -= 1;
            state.sequence += 1;
            let since_us = self.clock.epoch_us(since_ns);
            let counter = state.counter;
            let stamp = Stamp { opaque, epoch_ms, month_ms, counter, sequence, floor, since_us };
            self.work.append(out, state.queue, &stamp);
            if self.work.is_one_way() && state.slots.answer(opaque).is_some() {
                self.tally.went(self.messages_each, self.work.plain_bytes(sequence));
            }
            state.counter = state.counter.wrapping_add(self.work.keys());
            state.queue = if state.queue + 1 == self.work.queues() { 0 } else { state.queue + 1 };
        }
        if !state.slots.has_room() {
            state.blocked = true;
        }
        if self.work.is_one_way() && state.is_done() {
            // No answer will report the end of one-way requests, so the keeper is woken here.
            self.changed.notify_one();
        }
    }

    fn has_turn(&self) -> bool {
        self.turn.as_ref().is_none_or(Turn::is_mine)
    }

    /// Lets the next connection of the ring send, because this one's request is settled.
    fn pass(&self) {
        if let Some(turn) = &self.turn {
            turn.pass();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }
}

impl State {
    fn is_done(&self) -> bool {
        self.left == 0 && self.slots.in_flight() == 0
    }
}

/// Whether an answer code means that the message is stored: `DefaultMQProducer` returns a result for it.
fn is_stored(code: i32) -> bool {
    matches!(
        code,
        response::SUCCESS
            | response::FLUSH_DISK_TIMEOUT
            | response::SLAVE_NOT_AVAILABLE
            | response::FLUSH_SLAVE_TIMEOUT
    )
}

impl<W: Work> Service for Connection<W> {
    type ReadBatch = Answers;

    fn read_batch(&self) -> Answers {
        Answers::default()
    }

    fn frame(
        &self,
        answered: &mut Answers,
        _peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if !command.is_response() {
            return self.work.asked(&command, out);
        }
        let stored = is_stored(command.code);
        if stored {
            self.work.stored(&command, out);
        } else {
            self.tally.refused_with(command.code, command.remark);
        }
        answered.push(command.opaque, stored);
    }

    fn end(&self, answered: &mut Answers, _peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        self.settle(answered, out);
    }

    fn opened(&self, peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        let now_ns = self.clock.now_ns();
        self.work.opened(now_ns, peer, out);
        self.issue_due(now_ns, out);
    }

    fn closed(&self, _peer: &Arc<ConnectionHandle>) {
        self.abandon();
    }
}
