//! Suspended pulls: how a pull begins to wait, and how it is run again after its queue grew or when its polling time is over.

use std::sync::Arc;

use wire::codes::response;

use super::{Pull, Scan, Source, answer, check, read_from_disk, write_empty};
use crate::broker::Broker;
use crate::long_polling::SuspendedPull;
use crate::reply_sink::ReplyWriter;
use crate::topics::Queue;

/// Longest time a pull is suspended, in milliseconds, whatever the client asks for; the client then pulls again. Bounds how
/// long pulls of a client that went away are kept.
pub(super) const HOLD_MAX_MS: i64 = 60_000;

/// What became of a pull that was to be suspended.
pub(super) enum Suspension {
    /// The pull waits, or another thread answers it.
    Waits,
    /// A message came while the pull was put into the list of its queue.
    Ready(SuspendedPull),
    /// Too many pulls are suspended.
    Full,
}

/// A pull on its way to the thread of its connection. When the connection ends before, the pull's timeout is forgotten.
struct HandedOver {
    broker: Arc<Broker>,
    queue: Arc<Queue>,
    held: Option<SuspendedPull>,
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.broker.poll_timeouts.forget(held.deadline_ms, held.id);
        }
    }
}

/// Suspends a pull at the end of its queue.
pub(super) fn hold(broker: &Broker, queue: &Arc<Queue>, held: SuspendedPull) -> Suspension {
    let offset = held.ask.offset;
    let Some(id) = broker.poll_timeouts.hold(queue, held) else { return Suspension::Full };
    if broker.visible_end(queue) <= offset {
        return Suspension::Waits;
    }
    match queue.suspended.take_one(id) {
        Some(held) => {
            broker.poll_timeouts.forget(held.deadline_ms, held.id);
            Suspension::Ready(held)
        }
        // The thread that appended the message has taken the pull and answers it.
        None => Suspension::Waits,
    }
}

/// Runs the suspended pulls of a queue that grew.
pub(crate) fn arrived(broker: &Arc<Broker>, queue: &Arc<Queue>) {
    for held in queue.suspended.take() {
        hand_over(broker, queue.clone(), held);
    }
}

/// Answers the suspended pulls whose long polling timeout has passed.
pub(crate) fn expire(broker: &Arc<Broker>, now_ms: i64) {
    for (queue, held) in broker.poll_timeouts.expired(now_ms) {
        hand_over(broker, queue, held);
    }
}

/// Runs a pull that was taken out of its list on the thread of its own connection. The caller, a producer's thread or the
/// thread that answers flushed sends, must not read the log for every group that waits.
fn hand_over(broker: &Arc<Broker>, queue: Arc<Queue>, held: SuspendedPull) {
    let sink = held.sink.clone();
    let mut handed_over = HandedOver { broker: broker.clone(), queue, held: Some(held) };
    sink.run(Box::new(move |out| {
        if let Some(held) = handed_over.held.take() {
            run(&handed_over.broker, &handed_over.queue, held, out);
        }
    }));
}

/// Runs a pull that was taken out of its list; puts the pull back when no message matched.
fn run(broker: &Arc<Broker>, queue: &Arc<Queue>, mut held: SuspendedPull, out: &mut dyn ReplyWriter) {
    let (deadline_ms, id) = (held.deadline_ms, held.id);
    loop {
        // The long polling timeout may have fired while the pull was out of its list, and it fires once only.
        let expired = deadline_ms <= broker.now_ms();
        let Some(waiting) = resume(broker, queue, held, expired, out) else { break };
        let examined = waiting.ask.offset;
        queue.suspended.add(waiting);
        if broker.visible_end(queue) <= examined && deadline_ms > broker.now_ms() {
            return;
        }
        match queue.suspended.take_one(id) {
            Some(again) => held = again,
            None => return,
        }
    }
    broker.poll_timeouts.forget(deadline_ms, id);
}

/// Runs a suspended pull again after its queue grew, or when its polling time is over (`expired`). Returns the pull when it
/// stays suspended.
fn resume(
    broker: &Arc<Broker>,
    queue: &Arc<Queue>,
    mut held: SuspendedPull,
    expired: bool,
    out: &mut dyn ReplyWriter,
) -> Option<SuspendedPull> {
    let mut units = Vec::new();
    let is_served = check::renew(broker, queue, &mut held);
    let mut pull = Pull { queue: queue.clone(), ask: held.ask };
    if !is_served {
        // The client pulls again, and the answer to that request says why it is refused.
        let scan = Scan::again(broker, &pull);
        write_empty(broker, &pull, &scan, out);
        return None;
    }
    // An operator may have reset the group while the pull waited.
    let group = held.group.group_name.as_deref().unwrap_or_default();
    if let Some(offset) = broker.offsets.take_reset(group, queue.index.topic(), queue.index.queue_id()) {
        let scan = Scan::moved(broker, &pull, offset, "OFFSET_RESET");
        write_empty(broker, &pull, &scan, out);
        return None;
    }
    let Some(scan) = Scan::find_messages(broker, &pull, Source::Memory, &mut units) else {
        read_from_disk(broker, held.sink, pull);
        return None;
    };
    if !expired && matches!(scan.code, response::PULL_NOT_FOUND | response::PULL_RETRY_IMMEDIATELY) {
        pull.ask.offset = scan.next;
        return Some(SuspendedPull { ask: pull.ask, ..held });
    }
    if !answer(broker, &pull, &scan, &units, Source::Memory, out) {
        read_from_disk(broker, held.sink, pull);
    }
    None
}
