//! Pulls: messages of one queue from an offset on.
//!
//! A pull has three ways to its response. It is answered at once if its messages are in memory, and by the disk pool
//! if they must be read from the disk. If no message is available yet, it is answered later ([`crate::long_polling`],
//! long polling). All three ways use [`answer`].

mod check;
mod scan;
mod suspend;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use store::{CqUnit, Damage, Read, ReadError};
use wire::codes::response;
use wire::header::{PullHeader, PullResponseHeader, pull_flag};

use crate::caller::Caller;
use crate::long_polling::{PullAsk, SuspendedPull};
use crate::parts::{PullParts, Runtime, Tables};
use crate::refusal_counts::Cause;
use crate::reply_sink::{PullAnswer, PullSink, PullWriter};
use crate::slow::WaitCause;
use crate::topics::Queue;
use crate::{Refusal, Result};
pub(crate) use scan::Scan;
use suspend::{HOLD_MAX_MS, Suspension, hold};
pub(crate) use suspend::{arrived, expire};

/// Buffers that the pulls of a read batch share.
#[derive(Default)]
pub(crate) struct PullScratch {
    units: Vec<CqUnit>,
}

/// A pull as a front decoded it.
pub(crate) struct PullRequest<'a> {
    pub caller: &'a Caller,
    pub header: PullHeader<'a>,
    /// Whether the request is 361 `LITE_PULL_MESSAGE`, which the broker may be configured to refuse.
    pub is_lite: bool,
}

/// A pull that passed its checks.
#[derive(Clone)]
pub(crate) struct Pull {
    /// The queue to read.
    pub queue: Arc<Queue>,
    /// Range and filter of the pull.
    pub ask: PullAsk,
}

/// Sources from which a request may read messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Memory only. Otherwise the result is "not resident".
    Memory,
    /// Memory or disk. The thread may block.
    Disk,
}

/// Pulls messages. The response is written to `out` now, or goes later to the sink that `later` makes.
///
/// # Errors
/// The refusal, with RocketMQ's code, of `PullMessageProcessor.processRequest`; `SYSTEM_BUSY` when too many pulls wait.
pub(crate) fn pull(
    parts: &Arc<PullParts>,
    scratch: &mut PullScratch,
    request: &PullRequest<'_>,
    out: &mut dyn PullWriter,
    later: &dyn Fn() -> Arc<dyn PullSink>,
) -> Result<()> {
    let header = &request.header;
    let (mut pull, group) = check::check(&parts.tables, &parts.sessions, &parts.runtime, request)?;
    if header.sys_flag & pull_flag::COMMIT_OFFSET != 0 {
        parts.tables.offsets.commit(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.commit_offset,
        );
    }
    if let Some(offset) =
        parts.tables.offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
    {
        let scan = Scan::moved(&parts.replication, &pull, offset, "OFFSET_RESET");
        write_empty(&parts.tables, &parts.runtime, &pull, &scan, out);
        return Ok(());
    }
    let mut scan = Scan::find_messages(parts, &pull, Source::Memory, &mut scratch.units);
    let suspends = header.sys_flag & pull_flag::SUSPEND != 0;
    if suspends && scan.as_ref().is_some_and(|scan| scan.code == response::PULL_NOT_FOUND) {
        // Java's broker answers a client that names no time within five seconds (`PullRequestHoldService`).
        let suspend_ms = if parts.runtime.config.long_polling_enable && header.suspend_timeout_ms > 0 {
            header.suspend_timeout_ms
        } else {
            parts.runtime.config.short_polling_time_ms
        };
        let sink = later();
        sink.suspend();
        let held = SuspendedPull {
            sink,
            ask: pull.ask.clone(),
            group,
            brings_filter: header.sys_flag & pull_flag::SUBSCRIPTION != 0,
            deadline_ms: parts.runtime.now_ms() + suspend_ms.min(HOLD_MAX_MS),
            id: 0,
        };
        match hold(&parts.sessions, &parts.replication, &pull.queue, held) {
            Suspension::Waits => return Ok(()),
            Suspension::Full => {
                let remark = "[OVERLOAD]system busy, start flow control for a while: too many pulls wait";
                return Err(Refusal::because(Cause::HeldPulls, response::SYSTEM_BUSY, remark));
            }
            // A message came while the pull was put into the list of its queue.
            Suspension::Ready(held) => {
                pull.ask = held.ask;
                scan = Scan::find_messages(parts, &pull, Source::Memory, &mut scratch.units);
            }
        }
    }
    let answered = scan.is_some_and(|scan| answer(parts, &pull, &scan, &scratch.units, Source::Memory, out));
    if !answered {
        read_from_disk(parts, later(), pull);
    }
    Ok(())
}

/// Answers a pull from the disk pool, because its messages are not in memory.
fn read_from_disk(parts: &Arc<PullParts>, sink: Arc<dyn PullSink>, pull: Pull) {
    let (reader, queued) = (parts.clone(), parts.runtime.clock.steady());
    let read = move |sink: &Arc<dyn PullSink>| {
        reader.figures.note_slow("pull", WaitCause::DiskPool, queued);
        let mut units = Vec::new();
        if let Some(scan) = Scan::find_messages(&reader, &pull, Source::Disk, &mut units) {
            sink.write(&mut |out| {
                answer(&reader, &pull, &scan, &units, Source::Disk, out);
            });
        }
    };
    parts.runtime.disk_pool.answer(&parts.figures.refused, sink, read, || ());
}

/// Writes the response of a pull with the messages that its scan found. Returns false if they are not in memory and
/// `source` forbids reading the disk. Then the response is empty.
pub(crate) fn answer(
    parts: &PullParts,
    pull: &Pull,
    scan: &Scan,
    units: &[CqUnit],
    source: Source,
    out: &mut dyn PullWriter,
) -> bool {
    if scan.code != response::SUCCESS {
        write_empty(&parts.tables, &parts.runtime, pull, scan, out);
        return true;
    }
    let body_len = units.iter().map(|message| message.unit.size as usize).sum();
    let answered =
        PullAnswer { code: response::SUCCESS, remark: "FOUND", header: scan.header(&parts.runtime, pull) };
    let records = out.pull(&answered, body_len);
    let queue = &pull.queue.index;
    let begin = parts.runtime.clock.steady();
    let read = match source {
        Source::Memory => parts.tables.store.read_messages(queue, units, records),
        Source::Disk => parts.tables.store.read_messages_blocking(queue, units, records).map(|()| Read::Done),
    };
    let cause = match source {
        Source::Memory => WaitCause::MemoryRead,
        Source::Disk => WaitCause::DiskRead,
    };
    parts.figures.stats.puts.get_took(parts.figures.note_slow("pull", cause, begin));
    match read {
        Ok(Read::Done) => {
            let messages = match units.first() {
                // A record holds several messages; their number is that of the offsets from the first record to the next offset.
                Some(first) if queue.is_batched() => {
                    usize::try_from(scan.next - first.offset.to_i64()).unwrap_or(units.len())
                }
                _ => units.len(),
            };
            parts.tables.offsets.note_pull(&pull.ask.reader, queue.queue_id(), scan.next, messages, body_len);
            true
        }
        Ok(Read::NotResident) => {
            out.take_back();
            false
        }
        Err(ReadError::Damaged(damaged)) => {
            out.take_back();
            let rest = without(units, &damaged);
            if rest.is_empty() {
                let passed =
                    Scan { code: response::PULL_RETRY_IMMEDIATELY, status: "NO_MATCHED_MESSAGE", ..*scan };
                write_empty(&parts.tables, &parts.runtime, pull, &passed, out);
                return true;
            }
            // The recursion ends because each time fewer messages are left.
            answer(parts, pull, scan, &rest, source, out)
        }
        Err(error) => {
            out.take_back();
            unreadable(parts, pull, scan, &error, out);
            true
        }
    }
}

/// Returns the undamaged messages. The store has reported the damaged messages, and consumers skip them.
pub(crate) fn without(messages: &[CqUnit], damaged: &[Damage]) -> Vec<CqUnit> {
    let is_whole = |index: &usize| damaged.iter().all(|damage| damage.index != *index);
    (0..messages.len()).filter(is_whole).map(|index| messages[index]).collect()
}

/// Answers a pull whose messages cannot be read, because the log was deleted meanwhile or the disk cannot read that
/// range.
fn unreadable(parts: &PullParts, pull: &Pull, scan: &Scan, error: &ReadError, out: &mut dyn PullWriter) {
    let queue_min = pull.queue.index.min().to_i64();
    let (code, remark) = match error {
        // The client continues at the first offset of the queue, not behind all messages found: the newer ones may still exist.
        ReadError::Range { from, min, .. } if from < min && queue_min > pull.ask.offset => {
            return write_empty(
                &parts.tables,
                &parts.runtime,
                pull,
                &Scan::moved(&parts.replication, pull, queue_min, "MESSAGE_WAS_REMOVING"),
                out,
            );
        }
        ReadError::Range { from, min, .. } if from < min => {
            (response::PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING".to_owned())
        }
        _ => {
            tracing::error!(topic = pull.queue.index.topic(), offset = pull.ask.offset, %error, "a range of the log cannot be read");
            (response::SYSTEM_ERROR, format!("queue offset {} cannot be read: {error}", pull.ask.offset))
        }
    };
    out.pull(&PullAnswer { code, remark: &remark, header: scan.header(&parts.runtime, pull) }, 0);
}

fn write_empty(tables: &Tables, runtime: &Runtime, pull: &Pull, scan: &Scan, out: &mut dyn PullWriter) {
    tables.offsets.note_pull(&pull.ask.reader, pull.queue.index.queue_id(), scan.next, 0, 0);
    out.pull(&PullAnswer { code: scan.code, remark: scan.status, header: scan.header(runtime, pull) }, 0);
}

impl Scan {
    fn header(&self, runtime: &Runtime, pull: &Pull) -> PullResponseHeader {
        let (usual, slow) = pull.ask.read_from;
        let suggest_broker_id = match (runtime.config.slave_read_enable, self.is_far_behind) {
            (false, _) => 0,
            (true, false) => usual,
            (true, true) => slow,
        };
        PullResponseHeader {
            suggest_broker_id,
            next_offset: self.next,
            min_offset: self.min,
            max_offset: self.max,
            topic_sys_flag: pull.ask.topic_sys_flag,
            group_sys_flag: pull.ask.group_sys_flag,
        }
    }
}
