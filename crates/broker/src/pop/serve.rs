//! Answering pops: at once, after a read from the disk, or when a message comes (long polling).
//!
//! A request that releases a queue, and an append to a queue, wake a suspended request; a request that is being suspended
//! looks at the queues once more. So no request stays suspended while a message for it is there, except while another
//! request pops the queue.

use std::sync::Arc;

use net::ConnectionHandle;
use wire::codes::response;
use wire::frame::{Command, FrameWriter, Head};
use wire::pop::Kind;

use super::in_flight_queues::Cell;
use super::order;
use super::pick::{Popped, Unpopped, pick, position};
use super::request::{self, Ask, Want};
use super::wait::{Bounds, NoWait, SuspendedPop};
use crate::Refusal;
use crate::broker::Broker;
use crate::pull::Source;
use crate::send::not_put;
use crate::topics::{Queue, Topic};

/// How often a request is run again when there seem to be messages, before it is suspended anyway.
const ROUNDS_MAX: usize = 3;

/// The outcome of running a request once.
enum Run {
    /// The answer was written.
    Answered,
    /// There is no message to return.
    Nothing,
    /// The messages must be read from the disk.
    NotResident,
}

/// Serves 200050 `POP_MESSAGE`.
pub(crate) fn pop(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    // A one-way pop gets no answer, so the messages it popped would reach nobody.
    if command.is_one_way() {
        return Ok(());
    }
    let ask = request::pop(broker, peer, command)?;
    start(broker, peer, ask, out);
    Ok(())
}

/// Serves 200054 `NOTIFICATION`.
pub(crate) fn notify(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    if command.is_one_way() {
        return Ok(());
    }
    let ask = request::notice(broker, peer, command)?;
    start(broker, peer, ask, out);
    Ok(())
}

/// Writes the answer of a pop that is refused: `head` with the fields of an empty pop.
pub(crate) fn refuse(head: Head<'_>, out: &mut Vec<u8>) {
    write_header(FrameWriter::begin(out, head), &Popped::default(), 0).finish(b"");
}

/// Runs a pop whose messages are not in memory. Called on a thread of the disk pool.
pub(crate) fn serve_cold(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    ask: &Arc<Ask>,
    out: &mut Vec<u8>,
) {
    if let Run::Nothing = run_once(broker, ask, Source::Disk, out) {
        wait(broker, peer, ask, out);
    }
    drive(broker, left_over(broker, ask));
}

/// Wakes requests that wait for messages of a queue that grew.
pub(crate) fn arrived(broker: &Arc<Broker>, queue: &Queue) {
    drive(broker, queue.waiters.take(queue.index.queue_id()));
}

/// Wakes all requests that wait for messages of a topic that was deleted, or deleted and created again.
pub(crate) fn gone(broker: &Arc<Broker>, topic: &Topic) {
    drive(broker, topic.waiters.take_all());
}

/// Wakes requests of a group after messages were brought back to its retry topic.
pub(super) fn came_back(broker: &Arc<Broker>, topic: &Topic, group: &str) {
    if topic.waiters.is_waited_on() {
        drive(broker, topic.waiters.take_group(group));
    }
}

/// Wakes requests that wait for a queue that is no longer blocked by an ordered pop.
pub(super) fn freed(broker: &Arc<Broker>, topic: &Topic, cell: &Cell) {
    if topic.waiters.is_waited_on() {
        let waiters = &topic.waiters;
        let woken = [waiters.take_of(&cell.group, -1), waiters.take_of(&cell.group, cell.queue_id)];
        drive(broker, woken.into_iter().flatten().collect());
    }
}

/// Runs the requests whose polling time is over once more, and answers them.
pub(super) fn expire(broker: &Arc<Broker>, now_ms: i64) {
    drive(broker, broker.pops.poll_timeouts.expired(now_ms));
}

fn start(broker: &Arc<Broker>, peer: &Arc<ConnectionHandle>, ask: Ask, out: &mut Vec<u8>) {
    let ask = Arc::new(ask);
    match run_once(broker, &ask, Source::Memory, out) {
        Run::Answered => {}
        Run::Nothing => wait(broker, peer, &ask, out),
        Run::NotResident => return broker.disk_pool.submit_pop(broker, peer.clone(), ask),
    }
    drive(broker, left_over(broker, &ask));
}

/// Suspends a request, or answers it when it cannot be suspended.
fn wait(broker: &Arc<Broker>, peer: &Arc<ConnectionHandle>, ask: &Arc<Ask>, out: &mut Vec<u8>) {
    let settings = &broker.config.pop;
    let bounds = Bounds { all: settings.waiting_max, list: settings.list_waiting_max };
    for round in 0..=ROUNDS_MAX {
        if ask.wait_until_ms.is_none_or(|until_ms| until_ms <= broker.now_ms()) {
            return give_up(ask, NoWait::TimedOut, out);
        }
        let id = match broker.pops.poll_timeouts.hold(peer, ask, bounds) {
            Ok(id) => id,
            Err(why) => return give_up(ask, why, out),
        };
        if round == ROUNDS_MAX || !is_answered(broker, ask) {
            return;
        }
        // A message came, or the topic was deleted, while the request was put into the list. If another thread took it out of
        // the list, that thread answers it.
        if broker.pops.poll_timeouts.take(ask, id).is_none() {
            return;
        }
        broker.pops.poll_timeouts.forget(ask.deadline_ms, id);
        match run_once(broker, ask, Source::Memory, out) {
            Run::Answered => return,
            Run::Nothing => {}
            Run::NotResident => return broker.disk_pool.submit_pop(broker, peer.clone(), ask.clone()),
        }
    }
}

/// Runs requests that were taken out of their lists, each on the thread of its own connection, so that the thread that woke
/// them (a producer's, or the one that answers flushed sends) does not pop for every group that waits.
fn drive(broker: &Arc<Broker>, mut woken: Vec<SuspendedPop>) {
    while let Some(held) = woken.pop() {
        let (peer, ask) = (held.peer.clone(), held.ask.clone());
        if peer.is_closing() {
            broker.pops.poll_timeouts.forget(ask.deadline_ms, held.id);
            woken.extend(left_over(broker, &ask));
            continue;
        }
        let in_hand = InHand { broker: broker.clone(), held: Some(held) };
        // A connection that has just ended drops the closure, and with it `in_hand`, which then wakes other requests.
        let _ = peer.put_back(Box::new(move |_, out| in_hand.run(out)));
    }
}

/// A request on its way to the thread of its connection. If the connection ends before, other requests that wait for the
/// same queues are woken in its place.
struct InHand {
    broker: Arc<Broker>,
    held: Option<SuspendedPop>,
}

impl InHand {
    fn run(mut self, out: &mut Vec<u8>) {
        let Some(held) = self.held.take() else { return };
        let ask = held.ask.clone();
        if resume(&self.broker, held, out) {
            drive(&self.broker, left_over(&self.broker, &ask));
        }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        if let Some(SuspendedPop { ask, id, .. }) = self.held.take() {
            self.broker.pops.poll_timeouts.forget(ask.deadline_ms, id);
            drive(&self.broker, left_over(&self.broker, &ask));
        }
    }
}

/// Runs a suspended request again, and suspends it again when there is no message for it. True when it was answered.
fn resume(broker: &Arc<Broker>, held: SuspendedPop, out: &mut Vec<u8>) -> bool {
    let SuspendedPop { peer, ask, id } = held;
    for round in 0..=ROUNDS_MAX {
        if peer.is_closed() {
            break;
        }
        match run_once(broker, &ask, Source::Memory, out) {
            Run::NotResident => {
                broker.pops.poll_timeouts.forget(ask.deadline_ms, id);
                broker.disk_pool.submit_pop(broker, peer, ask);
                return false;
            }
            // The sweep of timeouts may have passed while the request was out of its list, and would not find it again.
            Run::Nothing if ask.deadline_ms <= broker.now_ms() => give_up(&ask, NoWait::TimedOut, out),
            Run::Nothing => {
                ask.topic.waiters.add(SuspendedPop { peer: peer.clone(), ask: ask.clone(), id });
                // Likewise the end of the connection may have been handled while the request was out of its list.
                let is_late = ask.deadline_ms <= broker.now_ms() || peer.is_closed();
                let stays = !is_late && (round == ROUNDS_MAX || !is_answered(broker, &ask));
                if stays || broker.pops.poll_timeouts.take(&ask, id).is_none() {
                    return false;
                }
                continue;
            }
            Run::Answered => {}
        }
        broker.pops.poll_timeouts.forget(ask.deadline_ms, id);
        return true;
    }
    broker.pops.poll_timeouts.forget(ask.deadline_ms, id);
    true
}

/// Suspended requests of the same group to run next, when the queues a request looked at have more messages.
fn left_over(broker: &Broker, ask: &Ask) -> Vec<SuspendedPop> {
    let waiters = &ask.topic.waiters;
    if ask.notices() || !waiters.is_waited_on() || !has_messages(broker, ask) {
        return Vec::new();
    }
    match waiters.take_of(&ask.group, ask.queue_id) {
        Some(held) => vec![held],
        None => waiters.take_group(&ask.group),
    }
}

fn run_once(broker: &Broker, ask: &Ask, source: Source, out: &mut Vec<u8>) -> Run {
    if let Err(refusal) = ask.check_current(broker, &ask.topic) {
        ask.refuse(&refusal, out);
        return Run::Answered;
    }
    let Want::Pop(pop) = &ask.want else {
        if !has_messages(broker, ask) {
            return Run::Nothing;
        }
        write_notice(ask, true, false, out);
        return Run::Answered;
    };
    match pick(broker, ask, pop, source) {
        Ok(popped) if popped.count == 0 => Run::Nothing,
        Ok(popped) => {
            let head = Head::response(ask.encoding, response::SUCCESS, ask.opaque).remark("FOUND");
            write_header(FrameWriter::begin(out, head), &popped, pop.invisible_ms).finish(&popped.body);
            Run::Answered
        }
        Err(Unpopped::NotResident) => Run::NotResident,
        Err(Unpopped::NotStored(error)) => {
            ask.refuse(&not_put(broker, error), out);
            Run::Answered
        }
    }
}

fn give_up(ask: &Ask, why: NoWait, out: &mut Vec<u8>) {
    let Want::Pop(pop) = &ask.want else {
        return write_notice(ask, false, why == NoWait::Full, out);
    };
    let code = if why == NoWait::Full { response::POLLING_FULL } else { response::POLLING_TIMEOUT };
    let head = Head::response(ask.encoding, code, ask.opaque).remark("NO_MESSAGE_IN_QUEUE");
    write_header(FrameWriter::begin(out, head), &Popped::default(), pop.invisible_ms).finish(b"");
}

fn write_notice(ask: &Ask, has_messages: bool, is_full: bool, out: &mut Vec<u8>) {
    let head = Head::response(ask.encoding, response::SUCCESS, ask.opaque);
    FrameWriter::begin(out, head).flag("hasMsg", has_messages).flag("pollingFull", is_full).finish(b"");
}

/// Writes the fields of `PopMessageResponseHeader`. All numbers are always written, since Java reads them without a null check.
fn write_header<'b>(writer: FrameWriter<'b>, popped: &Popped, invisible_ms: i64) -> FrameWriter<'b> {
    let writer = writer
        .number("popTime", popped.pop_ms)
        .number("invisibleTime", invisible_ms)
        .number("reviveQid", popped.revive_queue)
        .number("restNum", popped.rest)
        .text("startOffsetInfo", &popped.texts.starts)
        .text("msgOffsetInfo", &popped.texts.offsets);
    if popped.texts.counts.is_empty() { writer } else { writer.text("orderCountInfo", &popped.texts.counts) }
}

/// Whether a request would be answered if it were run now.
fn is_answered(broker: &Broker, ask: &Ask) -> bool {
    has_messages(broker, ask) || ask.check_current(broker, &ask.topic).is_err()
}

/// Whether a request would find messages now. Queues that another request is popping do not count for pops
/// (`NotificationProcessor.hasMsgFromQueue`).
fn has_messages(broker: &Broker, ask: &Ask) -> bool {
    let count = ask.topic.config.read_queue_nums;
    let mut queues = if ask.queue_id < 0 { 0..count } else { ask.queue_id..ask.queue_id + 1 };
    if queues.any(|queue_id| has_messages_in(broker, ask, &ask.topic, queue_id)) {
        return true;
    }
    let settings = &broker.config.pop;
    let kinds =
        [(Kind::RetryV2, settings.retry_v2), (Kind::RetryV1, !settings.retry_v2 || settings.retry_v1_too)];
    !ask.ordered
        && kinds.iter().filter(|(_, is_read)| *is_read).any(|(kind, _)| {
            let topic = broker.topics.find(&kind.topic(ask.topic.name(), &ask.group));
            topic.is_some_and(|topic| {
                (0..topic.config.read_queue_nums)
                    .any(|queue_id| has_messages_in(broker, ask, &topic, queue_id))
            })
        })
}

fn has_messages_in(broker: &Broker, ask: &Ask, topic: &Topic, queue_id: i32) -> bool {
    let Some(queue) = topic.queue(&broker.store, queue_id) else { return false };
    let from_end = matches!(&ask.want, Want::Pop(pop) if pop.from_end);
    let cell = broker.pops.in_flight_queues.make(&ask.group, topic.name(), queue_id);
    if cell.is_busy() && !ask.notices() {
        return false;
    }
    if ask.ordered {
        let mut in_flight = cell.in_flight();
        let attempt = ask.attempt_id.as_deref();
        let until =
            in_flight.order.as_ref().and_then(|state| order::blocked_until(state, attempt, broker.now_ms()));
        if let Some(until_ms) = until {
            // Suspended requests are woken when the queue is no longer blocked.
            broker.pops.look_at(&cell, &mut in_flight, until_ms);
            return false;
        }
    }
    let pending = broker.offsets.pending_reset(&ask.group, topic.name(), queue_id);
    broker.visible_end(queue) > pending.unwrap_or_else(|| position(broker, &cell, queue, from_end))
}
