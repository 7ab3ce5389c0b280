//! Recalls of timed messages. The cancelling message is stored in the same way as a send, so that the answer waits for the same
//! flush.

use std::net::SocketAddr;

use store::Message;

use super::message::Target;
use super::{Pending, StagedSends, find_queue};
use crate::caller::Caller;
use crate::parts::{Identity, SendParts};
use crate::timer::recall;
pub use crate::timer::recall::RecallRequest;
use crate::topics::MessageKind;
use crate::{Refusal, Result};

/// Recall that waits for the append of its read batch. Only then it is known whether the recall is in time.
pub(super) struct Staged {
    /// Index of the recall among the pending requests.
    pending: usize,
    born_timestamp: i64,
    born_host: SocketAddr,
    /// Properties of the cancelling message.
    properties: Vec<u8>,
}

/// Checks a recall and stores the parts of its cancelling message.
///
/// # Errors
/// The refusal, with RocketMQ's code, of [`recall::check`]; nothing is stored.
pub(crate) fn stage_recall<T>(
    parts: &SendParts,
    staged: &mut StagedSends<T>,
    caller: &Caller,
    request: &RecallRequest<'_>,
    ticket: T,
) -> Result<()> {
    let mut properties = Vec::new();
    let recall = recall::check(&parts.tables, &parts.runtime, request, &mut properties)?;
    let queue = find_queue(
        &parts.tables.store,
        &Target { topic: parts.tables.timer_topic(&parts.runtime)?, queue_id: 0, dead: false },
    )?;
    let id_start = staged.ids.len();
    staged.ids.extend_from_slice(recall.message_id.as_bytes());
    let id = id_start..staged.ids.len();
    staged.cancels = true;
    let (born_timestamp, born_host) = (parts.runtime.now_ms(), caller.remote);
    staged.recalls.push(Staged { pending: staged.pending.len(), born_timestamp, born_host, properties });
    staged.pending.push(Pending {
        ticket,
        waits: true,
        queue_id: 0,
        queue,
        records: 0..0,
        handle: id.end..id.end,
        id,
        kind: MessageKind::Delay,
        messages: 1,
        inner: false,
        recalls_at: Some(recall.time_ms),
    });
    Ok(())
}

/// Encodes the cancelling messages, except those of recalls that come too late. Messages due until `delivered_ms`
/// (milliseconds since the epoch) may have been delivered. Runs with the recall order locked, so that this holds until
/// the append.
pub(super) fn push<T>(identity: &Identity, staged: &mut StagedSends<T>, delivered_ms: i64) {
    for recall in &staged.recalls {
        let pending = &mut staged.pending[recall.pending];
        if pending.recalls_at.is_none_or(|time_ms| time_ms <= delivered_ms) {
            continue;
        }
        let message = Message {
            body: recall::BODY,
            properties: &recall.properties,
            sys_flag: 0,
            flag: 0,
            born_timestamp: recall.born_timestamp,
            born_host: recall.born_host,
            store_host: identity.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        // A recall whose message cannot be encoded is answered as not stored.
        if let Ok(index) = staged.batch.push(&pending.queue.index, &message) {
            pending.records = index..index + 1;
        }
    }
}

/// Offset in the timer queue behind the last recall of an appended read batch; 0 when there is none.
pub(super) fn end<T>(staged: &StagedSends<T>) -> i64 {
    let records = staged.recalls.iter().flat_map(|recall| staged.pending[recall.pending].records.clone());
    records.map(|index| staged.batch.append_result(index).queue_offset.to_i64() + 1).max().unwrap_or(0)
}

/// Returns the refusal of a recall whose batch was appended. Either the recall came too late, because messages due
/// until `delivered_ms` (milliseconds since the epoch) may have been delivered, or its cancelling message could not
/// be encoded.
pub(super) fn refusal<T>(pending: &Pending<T>, delivered_ms: i64) -> Option<Refusal> {
    let time_ms = pending.recalls_at?;
    match pending.records.is_empty() {
        _ if time_ms <= delivered_ms => Some(recall::too_late()),
        true => Some(recall::failed()),
        false => None,
    }
}
