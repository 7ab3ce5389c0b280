//! Pulls: requests 11 `PULL_MESSAGE` and 361 `LITE_PULL_MESSAGE`.
//!
//! A pull is answered at once when its messages are in memory, by the disk pool when they must be read from the disk, and
//! later when there is nothing to return yet ([`crate::long_polling`], long polling). All three ways use [`answer`].

mod check;
mod scan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use net::ConnectionHandle;
use store::{Damage, Numbered, Read, ReadError};
use wire::codes::response;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{PullHeader, PullReply, pull_flag};

use crate::Refusal;
use crate::broker::Broker;
use crate::clients::Subscription;
use crate::long_polling::SuspendedPull;
use crate::offsets::Reader;
use crate::refused::Cause;
use crate::topics::{Queue, Topic};
pub(crate) use scan::Scan;

/// Buffers that the pulls of one read batch share.
#[derive(Default)]
pub(crate) struct PullScratch {
    units: Vec<Numbered>,
}

/// A pull request that passed its checks.
#[derive(Clone)]
pub(crate) struct Pull {
    pub topic: Arc<Topic>,
    pub queue: Arc<Queue>,
    /// The entry of group and topic in which deliveries are counted.
    pub reader: Reader,
    pub filter: Arc<Subscription>,
    pub group_sys_flag: i32,
    /// Settings `brokerId` and `whichBrokerWhenConsumeSlowly` of the group: the broker suggested for the next pull, usually and
    /// when the group is far behind.
    pub read_from: (i64, i64),
    pub opaque: i32,
    pub encoding: Encoding,
    /// Queue offset of the first message to read.
    pub offset: i64,
    /// Offset the client asked for. Less than `offset` when the pull was suspended and has already examined messages.
    pub asked: i64,
    pub max_messages: i32,
}

/// Longest time a pull is suspended, in milliseconds, whatever the client asks for; the client then pulls again. Bounds how
/// long pulls of a client that went away are kept.
const HOLD_MAX_MS: i64 = 60_000;

/// From where a request may read messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Only from memory; otherwise the result is "not resident".
    Memory,
    /// From memory or disk; the thread may block.
    Disk,
}

/// Serves 11 `PULL_MESSAGE` and 361 `LITE_PULL_MESSAGE`.
pub(crate) fn serve(
    broker: &Arc<Broker>,
    scratch: &mut PullScratch,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    // A one-way pull gets no answer, so there is nothing to do.
    if command.is_one_way() { Ok(()) } else { try_serve(broker, scratch, peer, command, out) }
}

/// Writes the answer of a pull that is refused.
pub(crate) fn refuse(head: Head<'_>, out: &mut Vec<u8>) {
    PullReply::default().write(FrameWriter::begin(out, head)).finish(b"");
}

fn try_serve(
    broker: &Arc<Broker>,
    scratch: &mut PullScratch,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let header = PullHeader::decode(&command.fields)?;
    let (mut pull, group) = check::check(broker, peer, command, &header)?;
    if header.sys_flag & pull_flag::COMMIT_OFFSET != 0 {
        broker.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset);
    }
    if let Some(offset) = broker.offsets.take_reset(header.consumer_group, header.topic, header.queue_id) {
        let scan = Scan::moved(broker, &pull, offset, "OFFSET_RESET");
        write_empty(broker, &pull, &scan, out);
        return Ok(());
    }
    let mut scan = Scan::of(broker, &pull, Source::Memory, &mut scratch.units);
    let suspends = header.sys_flag & pull_flag::SUSPEND != 0 && header.suspend_timeout_ms > 0;
    if suspends && scan.as_ref().is_some_and(|scan| scan.code == response::PULL_NOT_FOUND) {
        let suspend_ms = if broker.config.long_polling_enable {
            header.suspend_timeout_ms
        } else {
            broker.config.short_polling_time_ms
        };
        let held = SuspendedPull {
            peer: peer.clone(),
            pull: pull.clone(),
            group,
            brings_filter: header.sys_flag & pull_flag::SUBSCRIPTION != 0,
            deadline_ms: broker.now_ms() + suspend_ms.min(HOLD_MAX_MS),
            id: 0,
        };
        match hold(broker, held) {
            Suspension::Waits => return Ok(()),
            Suspension::Full => {
                let remark = "[OVERLOAD]system busy, start flow control for a while: too many pulls wait";
                return Err(Refusal::because(Cause::HeldPulls, response::SYSTEM_BUSY, remark));
            }
            // A message came while the pull was put into the list of its queue.
            Suspension::Ready(held) => {
                pull = held.pull;
                scan = Scan::of(broker, &pull, Source::Memory, &mut scratch.units);
            }
        }
    }
    let answered = scan.is_some_and(|scan| answer(broker, &pull, &scan, &scratch.units, Source::Memory, out));
    if !answered {
        broker.disk_pool.submit(broker, peer.clone(), pull);
    }
    Ok(())
}

enum Suspension {
    Waits,
    Ready(SuspendedPull),
    Full,
}

fn hold(broker: &Broker, held: SuspendedPull) -> Suspension {
    let (queue, offset) = (held.pull.queue.clone(), held.pull.offset);
    let Some(id) = broker.poll_timeouts.hold(held) else { return Suspension::Full };
    if broker.visible_end(&queue) <= offset {
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

/// Runs a suspended pull again after its queue grew, or when its polling time is over (`expired`). Returns the pull when it
/// stays suspended.
pub(crate) fn resume(
    broker: &Arc<Broker>,
    mut held: SuspendedPull,
    expired: bool,
    out: &mut Vec<u8>,
) -> Option<SuspendedPull> {
    let mut units = Vec::new();
    if !check::renew(broker, &mut held) {
        // The client pulls again, and the answer to that request says why it is refused.
        let scan = Scan::again(broker, &held.pull);
        write_empty(broker, &held.pull, &scan, out);
        return None;
    }
    let Some(scan) = Scan::of(broker, &held.pull, Source::Memory, &mut units) else {
        broker.disk_pool.submit(broker, held.peer, held.pull);
        return None;
    };
    if !expired && matches!(scan.code, response::PULL_NOT_FOUND | response::PULL_RETRY_IMMEDIATELY) {
        held.pull.offset = scan.next;
        return Some(held);
    }
    if !answer(broker, &held.pull, &scan, &units, Source::Memory, out) {
        broker.disk_pool.submit(broker, held.peer, held.pull);
    }
    None
}

/// Writes the answer of a pull with the messages its scan found. False when they are not in memory and `source` forbids
/// reading the disk; then nothing was written.
pub(crate) fn answer(
    broker: &Broker,
    pull: &Pull,
    scan: &Scan,
    units: &[Numbered],
    source: Source,
    out: &mut Vec<u8>,
) -> bool {
    if scan.code != response::SUCCESS {
        write_empty(broker, pull, scan, out);
        return true;
    }
    let start = out.len();
    let body_len = units.iter().map(|message| message.unit.size as usize).sum();
    let head = Head::response(pull.encoding, response::SUCCESS, pull.opaque).remark("FOUND");
    scan.header(broker, pull).write(FrameWriter::begin(out, head)).finish_header(body_len);
    let queue = &pull.queue.index;
    let begin = Instant::now();
    let read = match source {
        Source::Memory => broker.store.read_messages(queue, units, out),
        Source::Disk => broker.store.read_messages_blocking(queue, units, out).map(|()| Read::Done),
    };
    broker.stats.puts.get_took(begin.elapsed());
    match read {
        Ok(Read::Done) => {
            let messages = match units.first() {
                // A record holds several messages; their number is that of the offsets from the first record to the next offset.
                Some(first) if queue.is_batched() => {
                    usize::try_from(scan.next - first.offset.to_i64()).unwrap_or(units.len())
                }
                _ => units.len(),
            };
            broker.offsets.note_pull(&pull.reader, queue.queue_id(), scan.next, messages, body_len);
            true
        }
        Ok(Read::NotResident) => {
            out.truncate(start);
            false
        }
        Err(ReadError::Damaged(damaged)) => {
            out.truncate(start);
            let rest = without(units, &damaged);
            if rest.is_empty() {
                let passed =
                    Scan { code: response::PULL_RETRY_IMMEDIATELY, status: "NO_MATCHED_MESSAGE", ..*scan };
                write_empty(broker, pull, &passed, out);
                return true;
            }
            // The recursion ends because each time fewer messages are left.
            answer(broker, pull, scan, &rest, source, out)
        }
        Err(error) => {
            out.truncate(start);
            unreadable(broker, pull, scan, &error, out);
            true
        }
    }
}

/// The messages that are not damaged. The store has reported the damaged ones, and consumers skip them.
pub(crate) fn without(messages: &[Numbered], damaged: &[Damage]) -> Vec<Numbered> {
    let is_whole = |index: &usize| damaged.iter().all(|damage| damage.index != *index);
    (0..messages.len()).filter(is_whole).map(|index| messages[index]).collect()
}

/// Answers a pull whose messages cannot be read: the log was deleted while it was read, or the disk cannot read that range.
fn unreadable(broker: &Broker, pull: &Pull, scan: &Scan, error: &ReadError, out: &mut Vec<u8>) {
    let queue_min = pull.queue.index.min().to_i64();
    let (code, remark) = match error {
        // The client continues at the first offset of the queue, not behind all messages found: the newer ones may still exist.
        ReadError::Range { from, min, .. } if from < min && queue_min > pull.offset => {
            return write_empty(
                broker,
                pull,
                &Scan::moved(broker, pull, queue_min, "MESSAGE_WAS_REMOVING"),
                out,
            );
        }
        ReadError::Range { from, min, .. } if from < min => {
            (response::PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING".to_owned())
        }
        _ => {
            tracing::error!(topic = pull.topic.name(), offset = pull.offset, %error, "a range of the log cannot be read");
            (response::SYSTEM_ERROR, format!("queue offset {} cannot be read: {error}", pull.offset))
        }
    };
    let head = Head::response(pull.encoding, code, pull.opaque).remark(&remark);
    scan.header(broker, pull).write(FrameWriter::begin(out, head)).finish(b"");
}

fn write_empty(broker: &Broker, pull: &Pull, scan: &Scan, out: &mut Vec<u8>) {
    broker.offsets.note_pull(&pull.reader, pull.queue.index.queue_id(), scan.next, 0, 0);
    let head = Head::response(pull.encoding, scan.code, pull.opaque).remark(scan.status);
    scan.header(broker, pull).write(FrameWriter::begin(out, head)).finish(b"");
}

impl Scan {
    fn header(&self, broker: &Broker, pull: &Pull) -> PullReply {
        let (usual, slow) = pull.read_from;
        let suggest_broker_id = match (broker.config.slave_read_enable, self.is_far_behind) {
            (false, _) => 0,
            (true, false) => usual,
            (true, true) => slow,
        };
        PullReply {
            suggest_broker_id,
            next_offset: self.next,
            min_offset: self.min,
            max_offset: self.max,
            topic_sys_flag: pull.topic.config.topic_sys_flag,
            group_sys_flag: pull.group_sys_flag,
        }
    }
}
