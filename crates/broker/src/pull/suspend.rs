//! Suspended pulls: how a pull begins to wait, and how it is run again after its queue grew or when its polling time is over.

use std::sync::Arc;

use wire::codes::response;

use super::{Pull, Scan, Source, answer, check, read_from_disk, write_empty};
use crate::long_polling::SuspendedPull;
use crate::parts::{PullParts, Replication, Sessions};
use crate::reply_sink::{PullSink, PullWriter};
use crate::slow::WaitCause;
use crate::topics::Queue;

/// Longest suspension of a pull, in milliseconds, whatever the client requests. The client then pulls again.
/// Bounds the life of pulls of a disconnected client.
pub(super) const HOLD_MAX_MS: i64 = 60_000;

/// Number of rounds that a pull may run on the thread of its connection before other requests have their turn.
/// Applies to a pull whose queue grows faster than it is searched.
const ROUNDS_MAX: u32 = 16;

/// Result of suspending a pull.
pub(super) enum Suspension {
    /// The pull waits, or another thread answers it.
    Waits,
    /// A message came while the pull was put into the list of its queue.
    Ready(SuspendedPull),
    /// The number of suspended pulls is at its limit.
    Full,
}

/// A pull that waits for the thread of its connection. If the connection ends before, the pull's timeout is
/// removed.
struct HandedOver {
    parts: Arc<PullParts>,
    queue: Arc<Queue>,
    held: Option<SuspendedPull>,
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.parts.sessions.poll_timeouts.forget(held.deadline_ms, held.id);
        }
    }
}

/// Suspends a pull at the end of its queue.
pub(super) fn hold(
    sessions: &Sessions,
    replication: &Replication,
    queue: &Arc<Queue>,
    held: SuspendedPull,
) -> Suspension {
    let offset = held.ask.offset;
    let Some(id) = sessions.poll_timeouts.hold(queue, held) else { return Suspension::Full };
    if replication.visible_end(queue) <= offset {
        return Suspension::Waits;
    }
    match queue.suspended.take_one(id) {
        Some(held) => {
            sessions.poll_timeouts.forget(held.deadline_ms, held.id);
            Suspension::Ready(held)
        }
        // The thread that appended the message has taken the pull and answers it.
        None => Suspension::Waits,
    }
}

/// Runs the suspended pulls of a queue that grew.
pub(crate) fn arrived(parts: &Arc<PullParts>, queue: &Arc<Queue>) {
    for held in queue.suspended.take() {
        hand_over(parts, queue.clone(), held);
    }
}

/// Answers the suspended pulls whose long-polling timeout has passed.
pub(crate) fn expire(parts: &Arc<PullParts>, now_ms: i64) {
    for (queue, held) in parts.sessions.poll_timeouts.expired(now_ms) {
        hand_over(parts, queue, held);
    }
}

/// Runs a pull that was taken out of its list on the thread of its own connection. The caller, a producer's thread or the
/// thread that answers flushed sends, must not read the log for every group that waits.
fn hand_over(parts: &Arc<PullParts>, queue: Arc<Queue>, held: SuspendedPull) {
    let sink = held.sink.clone();
    let mut handed_over = HandedOver { parts: parts.clone(), queue, held: Some(held) };
    sink.run(Box::new(move |out| {
        if let Some(held) = handed_over.held.take() {
            run(&handed_over.parts, &handed_over.queue, held, out);
        }
    }));
}

/// Runs a pull that was taken out of its list; puts the pull back when no message matched.
fn run(parts: &Arc<PullParts>, queue: &Arc<Queue>, mut held: SuspendedPull, out: &mut dyn PullWriter) {
    let (deadline_ms, id) = (held.deadline_ms, held.id);
    for round in 1.. {
        // The long polling timeout may have fired while the pull was out of its list, and it fires once only.
        let expired = deadline_ms <= parts.runtime.now_ms();
        let Some(waiting) = resume(parts, queue, held, expired, out) else { break };
        let examined = waiting.ask.offset;
        queue.suspended.add(waiting);
        if parts.replication.visible_end(queue) <= examined && deadline_ms > parts.runtime.now_ms() {
            return;
        }
        match queue.suspended.take_one(id) {
            Some(again) if round < ROUNDS_MAX => held = again,
            Some(again) => {
                search_on_disk(parts, queue.clone(), again);
                break;
            }
            None => return,
        }
    }
    parts.sessions.poll_timeouts.forget(deadline_ms, id);
}

/// Runs a suspended pull again after its queue grew, or when its polling time is over (`expired`). Returns the pull
/// if it stays suspended.
fn resume(
    parts: &Arc<PullParts>,
    queue: &Arc<Queue>,
    mut held: SuspendedPull,
    expired: bool,
    out: &mut dyn PullWriter,
) -> Option<SuspendedPull> {
    let mut units = Vec::new();
    let ended = renew(parts, queue, &mut held);
    let mut pull = Pull { queue: queue.clone(), ask: held.ask };
    if let Some(scan) = ended {
        write_empty(&parts.tables, &parts.runtime, &pull, &scan, out);
        return None;
    }
    let Some(scan) = Scan::find_messages(parts, &pull, Source::Memory, &mut units) else {
        search_on_disk(parts, queue.clone(), SuspendedPull { ask: pull.ask, ..held });
        return None;
    };
    if !expired && finds_nothing(&scan) {
        pull.ask.offset = scan.next;
        return Some(SuspendedPull { ask: pull.ask, ..held });
    }
    if !answer(parts, &pull, &scan, &units, Source::Memory, out) {
        read_from_disk(parts, held.sink, pull);
    }
    None
}

/// Updates a suspended pull before its next run. Returns its response if it must not run, because it would be refused
/// now, or its offset was reset.
fn renew(parts: &PullParts, queue: &Arc<Queue>, held: &mut SuspendedPull) -> Option<Scan> {
    let is_served = check::renew(&parts.tables, &parts.sessions, &parts.runtime, queue, held);
    let pull = |held: &SuspendedPull| Pull { queue: queue.clone(), ask: held.ask.clone() };
    if !is_served {
        // The client pulls again, and the answer to that request says why it is refused.
        return Some(Scan::again(&parts.replication, &pull(held)));
    }
    // An operator may have reset the group while the pull waited.
    let group = held.group.group_name.as_deref().unwrap_or_default();
    let offset = parts.tables.offsets.take_reset(group, queue.index.topic(), queue.index.queue_id())?;
    Some(Scan::moved(&parts.replication, &pull(held), offset, "OFFSET_RESET"))
}

/// Whether a scan found no message that a suspended pull waits for.
fn finds_nothing(scan: &Scan) -> bool {
    matches!(scan.code, response::PULL_NOT_FOUND | response::PULL_RETRY_IMMEDIATELY)
}

/// Runs a suspended pull again in the disk pool, because new messages are not in memory. The pull is suspended again when no
/// message matched.
pub(super) fn search_on_disk(parts: &Arc<PullParts>, queue: Arc<Queue>, mut held: SuspendedPull) {
    let (reader, sink, queued) = (parts.clone(), held.sink.clone(), parts.runtime.clock.steady());
    let read = move |sink: &Arc<dyn PullSink>| {
        reader.figures.note_slow("pull", WaitCause::DiskPool, queued);
        let mut units = Vec::new();
        // Much may have changed while the pull waited for a thread.
        let ended = renew(&reader, &queue, &mut held);
        let pull = Pull { queue: queue.clone(), ask: held.ask.clone() };
        if let Some(scan) = ended {
            return sink.write(&mut |out| write_empty(&reader.tables, &reader.runtime, &pull, &scan, out));
        }
        let Some(scan) = Scan::find_messages(&reader, &pull, Source::Disk, &mut units) else { return };
        if held.deadline_ms > reader.runtime.now_ms() && finds_nothing(&scan) {
            if sink.is_closed() {
                return;
            }
            let mut held = held;
            held.ask.offset = scan.next;
            match hold(&reader.sessions, &reader.replication, &queue, held) {
                Suspension::Waits => return,
                // Not on this thread again: other requests that wait for the disk have their turn first.
                Suspension::Ready(held) => return hand_over(&reader, queue, held),
                Suspension::Full => {}
            }
        }
        sink.write(&mut |out| {
            answer(&reader, &pull, &scan, &units, Source::Disk, out);
        });
    };
    parts.runtime.disk_pool.answer(&parts.figures.refused, sink, read, || ());
}
