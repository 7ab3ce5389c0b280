//! Revival of a message: its retry topic, the properties of the copy, and the next attempt if the message is
//! unreadable now.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Batch, Message};
use wire::body::Checkpoint;
use wire::pop::Kind;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::names;
use crate::parts::{Delivery, PopParts, Runtime};
use crate::pop::revive_records::ReviveRecords;
use crate::refusal::PutError;
use crate::schedule::target;
use crate::topics::Queue;

/// Seconds until the next attempt to bring a message back, by number of failed attempts (`ckRewriteIntervalsInSeconds`).
const PUT_OFF_S: [i64; 17] =
    [10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// The topic to which messages of a checkpoint are brought back. Messages popped from a retry topic go back to the same topic.
pub(super) fn retry_topic(runtime: &Runtime, checkpoint: &Checkpoint) -> String {
    let topic = &checkpoint.topic;
    if names::is_retry_topic(topic) {
        return topic.clone();
    }
    let kind = if runtime.config.pop.retry_v2 { Kind::RetryV2 } else { Kind::RetryV1 };
    kind.topic(topic, &checkpoint.group)
}

/// The queue of the retry topic `name`. The topic is created on first use (`PopReviveService.addRetryTopicIfNotExist`).
pub(super) fn make_retry_topic(
    delivery: &Delivery,
    runtime: &Runtime,
    name: &str,
    group: &str,
    now_ms: i64,
) -> Result<Arc<Queue>, PutError> {
    delivery.tables.topics.ensure(name, 1, now_ms)?;
    let queue = target(delivery, runtime, name, 0, now_ms)?;
    if delivery.tables.offsets.committed(group, name, 0).is_none() {
        delivery.tables.offsets.commit(group, name, 0, queue.index.min().to_i64());
    }
    Ok(queue)
}

pub(super) fn push_copy(
    parts: &PopParts,
    batch: &mut Batch,
    retry: &Queue,
    bytes: &[u8],
    checkpoint: &Checkpoint,
) -> Result<(), PutError> {
    let Ok(record) = RecordView::parse(bytes) else { return Ok(()) };
    let first = checkpoint.pop_ms.to_string();
    let known =
        properties::get(record.properties(), key::FIRST_POP_TIME).filter(|_| record.reconsume_times() > 0);
    // The properties of light queues are dropped: the copy is no message of the light queues the original was stored in.
    let dropped = [key::POP_CK, key::INNER_MULTI_DISPATCH, key::INNER_MULTI_QUEUE_OFFSET];
    let added = [(key::FIRST_POP_TIME, known.unwrap_or(first.as_bytes()))];
    let mut push = |added: &[(&str, &[u8])]| {
        let mut text = Vec::new();
        properties::rewrite(&mut text, record.properties(), &dropped, added);
        let message = Message {
            properties: &text,
            born_host: parts.identity.store_host,
            store_host: parts.identity.store_host,
            reconsume_times: record.reconsume_times().saturating_add(1),
            ..Message::of(&record)
        };
        batch.push(&retry.index, &message)
    };
    // A message whose properties leave no room for the added ones is copied without them.
    match push(&added).or_else(|_| push(&[])) {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::error!(topic = checkpoint.topic, %error, "a message has no room for what coming back adds and does not come back");
            parts.runtime.retention.undelivered.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
}

/// Stores a new checkpoint for a message that could not be revived, so that it is tried again later
/// (`PopReviveService.rePutCK`). Returns the log position behind the checkpoint, or zero if the message is given up.
pub(super) fn put_off(
    parts: &PopParts,
    checkpoint: &Checkpoint,
    offset: i64,
    now_ms: i64,
) -> Result<LogOffset, PutError> {
    let times = checkpoint.put_off.as_deref().map_or(0, |times| times.parse().unwrap_or(usize::MAX - 1));
    if times >= PUT_OFF_S.len() && parts.runtime.config.pop.gives_up {
        tracing::error!(
            topic = checkpoint.topic,
            offset,
            "a message is given up after the last attempt to bring it back"
        );
        return Ok(LogOffset::ZERO);
    }
    let later_ms = PUT_OFF_S[times.min(PUT_OFF_S.len() - 1)] * 1000;
    let invisible_ms = checkpoint.invisible_ms.saturating_add(later_ms);
    let again = Checkpoint {
        acked: 0,
        count: 1,
        diffs: vec![0],
        start_offset: offset,
        invisible_ms,
        revive_ms: checkpoint.pop_ms.saturating_add(invisible_ms),
        put_off: Some((times + 1).to_string()),
        ..checkpoint.clone()
    };
    let mut notes = ReviveRecords::new(&parts.tables.store);
    notes.checkpoint(
        parts,
        parts.delivery.pops.next_revive_queue(parts.runtime.config.pop.revive_queues),
        &again,
        now_ms,
    )?;
    notes.append(&parts.tables.store, &parts.delivery, now_ms)
}
