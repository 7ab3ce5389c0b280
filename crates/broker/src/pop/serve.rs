//! Responses to pops: at once, after a read from the disk, or when a message arrives (long polling).
//!
//! A group may have a backlog of messages that do not match. A request searches the backlog in slices. The first
//! slice runs on the thread of the connection. Further slices queue for a thread of the disk pool behind other
//! requests. Between slices the request occupies no queue. The search ends with the polling time, after
//! [`SEARCH_BYTES_MAX`](super::search::SEARCH_BYTES_MAX), and when the disk pool is full. The client then gets a
//! response and asks again.
//!
//! A request that releases a queue, and an append to a queue, wake a suspended request. A request that is being
//! suspended checks the queues again. So no request stays suspended while a message for it exists, except while
//! another request pops the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::pop::Kind as TopicKind;

use super::pick::{Picked, SLICE_BYTES, Unpopped, pick, position};
use super::request::{self, Polling, PopRequest, PopTarget, current_topic};
use super::search::Search;
use super::{lite, order};
use crate::disk_pool::Kind;
use crate::long_polling::{Ask, Bounds, NoWait, SuspendedPop, Want};
use crate::parts::{PopParts, Runtime};
use crate::pull::Source;
use crate::reply_sink::{PopSink, PopStatus, PopWriter, Popped};
use crate::send::not_put;
use crate::slow::WaitCause;
use crate::state::Cell;
use crate::topics::{Queue, Topic};
use crate::{Result, names};

/// Number of times that a request that did not advance is run again when there seem to be messages, before it is suspended anyway.
const TRIES_MAX: usize = 3;

/// Result of running a request for a slice.
enum Run {
    /// The answer was written.
    Answered,
    /// No message matches.
    Nothing,
    /// No message matched yet, and more messages remain.
    Passed,
    /// The messages must be read from the disk.
    NotResident,
}

/// Pops messages: the answer is written to `out` now, or goes to the sink that `later` makes.
///
/// # Errors
/// The refusal, with RocketMQ's code, of `PopMessageProcessor.processRequest`.
pub(crate) fn pop(
    parts: &Arc<PopParts>,
    request: &PopRequest<'_>,
    out: &mut dyn PopWriter,
    later: &dyn Fn() -> Arc<dyn PopSink>,
) -> Result<()> {
    start(parts, request::pop(&parts.tables, &parts.runtime, request)?, out, later);
    Ok(())
}

/// Answers a notification as soon as the group has messages.
///
/// # Errors
/// The refusal, with RocketMQ's code, of `NotificationProcessor.processRequest`.
pub(crate) fn notify(
    parts: &Arc<PopParts>,
    (target, polling): (&PopTarget<'_>, &Polling<'_>),
    out: &mut dyn PopWriter,
    later: &dyn Fn() -> Arc<dyn PopSink>,
) -> Result<()> {
    start(parts, request::notice(&parts.tables, &parts.runtime, target, polling)?, out, later);
    Ok(())
}

/// Runs a pop in the disk pool, because its messages are not in memory or its slice is used up.
/// Returns whether the pop continues there. A search is answered without a message if the pool is
/// full or the search has read too much. A pop that has read nothing yet is refused as busy if the
/// pool is full.
fn run_in_pool(
    parts: &Arc<PopParts>,
    sink: &Arc<dyn PopSink>,
    ask: &Arc<Ask>,
    mut search: Search,
    out: &mut dyn PopWriter,
) -> bool {
    let is_search = search.bytes > 0;
    if is_search && !search.admit(&parts.delivery.pops.searches) {
        give_up(ask, NoWait::TimedOut, out);
        return false;
    }
    let reservation = match parts.runtime.disk_pool.reserve(Kind::Consumers, 0) {
        Ok(reservation) => reservation,
        Err(_) if is_search => {
            give_up(ask, NoWait::TimedOut, out);
            return false;
        }
        Err(refusal) => {
            refusal.cause.into_iter().for_each(|cause| parts.figures.refused.count(cause, 1));
            out.refused(&refusal);
            return false;
        }
    };
    let (reader, asked, queued) = (parts.clone(), ask.clone(), parts.runtime.clock.steady());
    // Requests of the group that are woken now would search the same messages.
    let goes_on = Arc::new(AtomicBool::new(false));
    let is_going_on = goes_on.clone();
    let read = move |sink: &Arc<dyn PopSink>| {
        reader.figures.note_slow("pop", WaitCause::DiskPool, queued);
        let begin = reader.runtime.clock.steady();
        sink.write(&mut |out| {
            let run = run_slice(&reader, &asked, Source::Disk, &mut search, out);
            let goes_on = match run {
                Run::Nothing => wait(&reader, sink, &asked, std::mem::take(&mut search), out),
                Run::Passed => search_on(&reader, sink, &asked, std::mem::take(&mut search), out),
                Run::Answered | Run::NotResident => false,
            };
            is_going_on.store(goes_on, Ordering::Relaxed);
        });
        reader.figures.note_slow("pop", WaitCause::DiskRead, begin);
    };
    let (waker, ask) = (parts.clone(), ask.clone());
    let after = move || {
        if !goes_on.load(Ordering::Relaxed) {
            drive(&waker, left_over(&waker, &ask));
        }
    };
    reservation.answer(sink.clone(), read, after);
    true
}

/// Continues the search of a request. Answers the request if its time is over or the search must end. Returns whether
/// the search continues.
fn search_on(
    parts: &Arc<PopParts>,
    sink: &Arc<dyn PopSink>,
    ask: &Arc<Ask>,
    search: Search,
    out: &mut dyn PopWriter,
) -> bool {
    if is_over(&parts.runtime, ask) {
        give_up(ask, NoWait::TimedOut, out);
        return false;
    }
    run_in_pool(parts, sink, ask, search, out)
}

/// Whether a request is answered without a message now.
fn is_over(runtime: &Runtime, ask: &Ask) -> bool {
    ask.wait_until_ms.is_none_or(|until_ms| until_ms <= runtime.now_ms())
}

/// Wakes requests that wait for messages of a queue that grew.
pub(crate) fn arrived(parts: &Arc<PopParts>, queue: &Arc<Queue>) {
    drive(parts, queue.waiters.take(queue.index.queue_id()));
}

/// Wakes all requests that wait for messages of a topic that was deleted, or deleted and created again.
pub(crate) fn gone(parts: &Arc<PopParts>, topic: &Topic) {
    drive(parts, topic.waiters.take_all());
}

/// Wakes requests of a group after messages were brought back to its retry topic.
pub(super) fn came_back(parts: &Arc<PopParts>, topic: &Topic, group: &str) {
    if topic.waiters.is_waited_on() {
        drive(parts, topic.waiters.take_group(group));
    }
}

/// Wakes requests that wait for a queue that is no longer blocked by an ordered pop.
pub(super) fn freed(parts: &Arc<PopParts>, cell: &Arc<Cell>) {
    if names::lite_parts(&cell.topic).is_some() {
        return lite::freed(&parts.delivery, cell);
    }
    let Some(topic) = parts.tables.topic(&cell.topic) else { return };
    if topic.waiters.is_waited_on() {
        let waiters = &topic.waiters;
        let woken = [waiters.take_of(&cell.group, -1), waiters.take_of(&cell.group, cell.queue_id)];
        drive(parts, woken.into_iter().flatten().collect());
    }
}

/// Runs the requests whose polling time is over a last time, and answers them.
pub(super) fn expire(parts: &Arc<PopParts>, now_ms: i64) {
    drive(parts, parts.delivery.pops.poll_timeouts.expired(now_ms));
}

pub(super) fn start(
    parts: &Arc<PopParts>,
    ask: Ask,
    out: &mut dyn PopWriter,
    later: &dyn Fn() -> Arc<dyn PopSink>,
) {
    let (ask, mut search) = (Arc::new(ask), Search::default());
    let goes_on = match run_slice(parts, &ask, Source::Memory, &mut search, out) {
        Run::Answered => false,
        Run::Nothing => wait(parts, &later(), &ask, search, out),
        Run::Passed => search_on(parts, &later(), &ask, search, out),
        Run::NotResident => run_in_pool(parts, &later(), &ask, search, out),
    };
    if !goes_on {
        drive(parts, left_over(parts, &ask));
    }
}

/// Suspends a request, or answers it if it cannot be suspended. Returns whether the request continues elsewhere, so
/// that no other request is woken for the messages that it examined.
pub(super) fn wait(
    parts: &Arc<PopParts>,
    sink: &Arc<dyn PopSink>,
    ask: &Arc<Ask>,
    mut search: Search,
    out: &mut dyn PopWriter,
) -> bool {
    let settings = &parts.runtime.config.pop;
    let bounds = Bounds { all: settings.waiting_max, list: settings.list_waiting_max };
    for round in 0..=TRIES_MAX {
        if is_over(&parts.runtime, ask) {
            give_up(ask, NoWait::TimedOut, out);
            return false;
        }
        let id = match parts.delivery.pops.poll_timeouts.hold(sink, ask, bounds) {
            Ok(id) => {
                sink.suspend();
                id
            }
            Err(why) => {
                give_up(ask, why, out);
                return false;
            }
        };
        if round == TRIES_MAX || !is_answered(parts, ask) {
            // A request that is suspended although there are messages leaves them to others.
            return round < TRIES_MAX;
        }
        // A message came, or the topic was deleted, while the request was put into the list. If another thread took it out of
        // the list, that thread answers it.
        if parts.delivery.pops.poll_timeouts.take(ask, id).is_none() {
            return true;
        }
        parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, id);
        match run_slice(parts, ask, Source::Memory, &mut search, out) {
            Run::Answered => return false,
            Run::Nothing => {}
            Run::Passed => return search_on(parts, sink, ask, search, out),
            Run::NotResident => return run_in_pool(parts, sink, ask, search, out),
        }
    }
    false
}

/// Runs requests that were removed from their lists, each on the thread of its own connection. So the waking thread
/// (a producer's, or the thread that answers flushed sends) does not pop for every waiting group.
pub(super) fn drive(parts: &Arc<PopParts>, mut woken: Vec<SuspendedPop>) {
    while let Some(held) = woken.pop() {
        let (sink, ask) = (held.sink.clone(), held.ask.clone());
        if sink.is_closed() {
            parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, held.id);
            woken.extend(left_over(parts, &ask));
            continue;
        }
        let in_hand = InHand { parts: parts.clone(), held: Some(held) };
        // A connection that has just ended drops the closure, and with it `in_hand`, which then wakes other requests.
        sink.run(Box::new(move |out| in_hand.run(out)));
    }
}

/// Request between its list and the thread of its connection. If the connection ends before, other requests that wait
/// for the queues are woken instead.
struct InHand {
    parts: Arc<PopParts>,
    held: Option<SuspendedPop>,
}

impl InHand {
    fn run(mut self, out: &mut dyn PopWriter) {
        let Some(held) = self.held.take() else { return };
        let ask = held.ask.clone();
        if resume(&self.parts, held, out) {
            drive(&self.parts, left_over(&self.parts, &ask));
        }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        if let Some(SuspendedPop { ask, id, .. }) = self.held.take() {
            self.parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, id);
            drive(&self.parts, left_over(&self.parts, &ask));
        }
    }
}

/// Runs a suspended request again, and suspends it again without a message. Returns true if the
/// request was answered or its caller is gone.
fn resume(parts: &Arc<PopParts>, held: SuspendedPop, out: &mut dyn PopWriter) -> bool {
    let SuspendedPop { sink, ask, id } = held;
    let mut search = Search::default();
    for round in 0..=TRIES_MAX {
        if sink.is_closed() {
            break;
        }
        match run_slice(parts, &ask, Source::Memory, &mut search, out) {
            Run::NotResident => {
                parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, id);
                return !run_in_pool(parts, &sink, &ask, search, out);
            }
            Run::Passed => {
                parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, id);
                return !search_on(parts, &sink, &ask, search, out);
            }
            // The sweep of timeouts may have passed while the request was out of its list, and would not find it again.
            Run::Nothing if ask.deadline_ms <= parts.runtime.now_ms() => give_up(&ask, NoWait::TimedOut, out),
            Run::Nothing => {
                ask.waiters.add(SuspendedPop { sink: sink.clone(), ask: ask.clone(), id });
                // Likewise the end of the connection may have been handled while the request was out of its list.
                let is_late = ask.deadline_ms <= parts.runtime.now_ms() || sink.is_closed();
                let stays = !is_late && (round == TRIES_MAX || !is_answered(parts, &ask));
                if stays || parts.delivery.pops.poll_timeouts.take(&ask, id).is_none() {
                    return false;
                }
                continue;
            }
            Run::Answered => {}
        }
        parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, id);
        return true;
    }
    parts.delivery.pops.poll_timeouts.forget(ask.deadline_ms, id);
    true
}

/// Suspended requests of the same group to run next, if the queues that a request examined have more
/// messages.
fn left_over(parts: &PopParts, ask: &Ask) -> Vec<SuspendedPop> {
    let waiters = &ask.waiters;
    let has_more = || current_topic(&parts.tables, ask).is_ok_and(|topic| has_messages(parts, ask, &topic));
    if ask.notices() || !waiters.is_waited_on() || !has_more() {
        return Vec::new();
    }
    match waiters.take_of(&ask.group, ask.queue_id) {
        Some(held) => vec![held],
        None => waiters.take_group(&ask.group),
    }
}

/// Runs a request until it is answered, finds no further message, or has read as much as a slice allows.
fn run_slice(
    parts: &PopParts,
    ask: &Ask,
    source: Source,
    search: &mut Search,
    out: &mut dyn PopWriter,
) -> Run {
    let end = search.bytes.saturating_add(SLICE_BYTES);
    loop {
        match run_once(parts, ask, source, search, out) {
            Run::Passed if search.bytes < end => {}
            run => return run,
        }
    }
}

fn run_once(
    parts: &PopParts,
    ask: &Ask,
    source: Source,
    search: &mut Search,
    out: &mut dyn PopWriter,
) -> Run {
    let topic = match current_topic(&parts.tables, ask) {
        Ok(topic) => topic,
        Err(refusal) => {
            out.refused(&refusal);
            return Run::Answered;
        }
    };
    let Want::Pop(pop) = &ask.want else {
        if !has_messages(parts, ask, &topic) {
            return Run::Nothing;
        }
        out.noticed(true, false);
        return Run::Answered;
    };
    match pick(parts, &topic, (ask, pop), source) {
        Ok(Picked { popped, passed_bytes: 0 }) if popped.count == 0 => Run::Nothing,
        Ok(Picked { passed_bytes, .. }) if passed_bytes > 0 => {
            search.bytes += passed_bytes;
            Run::Passed
        }
        Ok(Picked { popped, .. }) => {
            out.popped(PopStatus::Found, popped, pop.invisible_ms);
            Run::Answered
        }
        Err(Unpopped::NotResident) => Run::NotResident,
        Err(Unpopped::NotStored(error)) => {
            out.refused(&not_put(&parts.tables.store, error));
            Run::Answered
        }
    }
}

fn give_up(ask: &Ask, why: NoWait, out: &mut dyn PopWriter) {
    let Want::Pop(pop) = &ask.want else { return out.noticed(false, why == NoWait::Full) };
    let status = if why == NoWait::Full { PopStatus::Full } else { PopStatus::TimedOut };
    out.popped(status, Popped::default(), pop.invisible_ms);
}

/// Whether a request would be answered if it were run now.
fn is_answered(parts: &PopParts, ask: &Ask) -> bool {
    current_topic(&parts.tables, ask).map_or(true, |topic| has_messages(parts, ask, &topic))
}

/// Whether a request would find messages now. Queues that another request is popping do not count for pops
/// (`NotificationProcessor.hasMsgFromQueue`).
fn has_messages(parts: &PopParts, ask: &Ask, topic: &Topic) -> bool {
    if let Some(client) = &ask.lite {
        return parts.tables.lite.awaits(&ask.group, client);
    }
    let count = topic.config.read_queue_nums;
    let mut queues = if ask.queue_id < 0 { 0..count } else { ask.queue_id..ask.queue_id + 1 };
    if queues.any(|queue_id| has_messages_in(parts, ask, topic, queue_id)) {
        return true;
    }
    let settings = &parts.runtime.config.pop;
    let kinds = [
        (TopicKind::RetryV2, settings.retry_v2),
        (TopicKind::RetryV1, !settings.retry_v2 || settings.retry_v1_too),
    ];
    !ask.ordered
        && kinds.iter().filter(|(_, is_read)| *is_read).any(|(kind, _)| {
            let topic = parts.tables.topics.find(&kind.topic(topic.name(), &ask.group));
            topic.is_some_and(|topic| {
                (0..topic.config.read_queue_nums)
                    .any(|queue_id| has_messages_in(parts, ask, &topic, queue_id))
            })
        })
}

fn has_messages_in(parts: &PopParts, ask: &Ask, topic: &Topic, queue_id: i32) -> bool {
    let Some(queue) = topic.queue(&parts.tables.store, queue_id) else { return false };
    let from_end = matches!(&ask.want, Want::Pop(pop) if pop.from_end);
    let cell = parts.delivery.pops.in_flight_queues.make(&ask.group, topic.name(), queue_id);
    if cell.is_busy() && !ask.notices() {
        return false;
    }
    if ask.ordered {
        let mut in_flight = cell.in_flight();
        let attempt = ask.attempt_id.as_deref();
        let until = in_flight
            .order
            .as_ref()
            .and_then(|state| order::blocked_until(state, attempt, parts.runtime.now_ms()));
        if let Some(until_ms) = until {
            // Suspended requests are woken when the queue is no longer blocked.
            parts.delivery.pops.look_at(&cell, &mut in_flight, until_ms);
            return false;
        }
    }
    let pending = parts.tables.offsets.pending_reset(&ask.group, topic.name(), queue_id);
    parts.replication.visible_end(queue) > pending.unwrap_or_else(|| position(parts, &cell, queue, from_end))
}
