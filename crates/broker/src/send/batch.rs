//! Batches of messages from clients. They are stored message by message, or as one record in topics with queues of batches.

use std::sync::Arc;

use store::Message;
use wire::batch;
use wire::codes::response;
use wire::properties::{self, key};
use wire::record::sys_flag;

use super::message::{self, Properties, Target};
use super::{Pending, SendRequest, StagedSends, find_queue, illegal};
use crate::parts::SendParts;
use crate::topics::Queue;
use crate::{Refusal, Result};

/// Most messages of a record, because `INNER_NUM` is a `short` in Java.
const INNER_MAX: usize = i16::MAX.unsigned_abs() as usize;

/// Checks a batch and encodes its records.
pub(super) fn stage<T>(
    parts: &SendParts,
    staged: &mut StagedSends<T>,
    request: &SendRequest<'_>,
    target: &Target,
    ticket: T,
) -> Result<()> {
    let SendRequest { header, body, .. } = *request;
    let queue = find_queue(&parts.tables.store, target)?;
    if queue.index.is_batched() && properties::get(header.properties, key::UNIQ_KEY).is_some() {
        return stage_inner(parts, staged, request, (target, queue), ticket);
    }
    let mut entries = Vec::new();
    for entry in batch::entries(body) {
        let entry = entry.map_err(unreadable)?;
        if properties::get(entry.properties, key::INNER_MULTI_QUEUE_OFFSET).is_some() {
            // Recovery would take this property for one the broker has set.
            return Err(illegal(&parts.runtime));
        }
        entries.push((entry, message::terminated(entry.properties)));
    }
    for (entry, _) in &entries {
        super::check::further_topics(&parts.sessions, &parts.runtime, request.caller, entry.properties)?;
    }
    let messages = entries.iter().map(|(entry, properties)| Message {
        properties,
        flag: entry.flag,
        ..request.message(&parts.identity, entry.body)
    });
    let waits = message::waits(header.properties);
    if waits {
        super::demand_replicas(&parts.replication)?;
    }
    let refused = |_| illegal(&parts.runtime);
    messages.clone().try_for_each(|it| staged.batch.check(&queue.index, &it).map(drop)).map_err(refused)?;
    // Last, because a light queue that a refused message names stays.
    for (_, properties) in &entries {
        parts.tables.admit_light(&parts.runtime.config, properties)?;
    }
    let records = staged.batch.push_group(&queue.index, messages).map_err(refused)?;
    let first_key = || entries.first().and_then(|(_, text)| properties::get(text, key::UNIQ_KEY));
    let id_start = staged.ids.len();
    staged.ids.extend_from_slice(
        properties::get(header.properties, key::UNIQ_KEY).or_else(first_key).unwrap_or_default(),
    );
    let id = id_start..staged.ids.len();
    staged.pending.push(Pending {
        ticket,
        waits,
        queue_id: target.queue_id,
        queue,
        records,
        handle: id.end..id.end,
        id,
        kind: message::kind_of_batch(header.properties),
        messages: 1,
        inner: false,
        recalls_at: None,
    });
    Ok(())
}

fn unreadable(error: batch::BatchError) -> Refusal {
    Refusal::new(response::MESSAGE_ILLEGAL, format!("the batch cannot be read: {error}"))
}

/// Stages a batch to a topic with `queue.type=BatchCQ` as one record, whose body is the batch
/// (`SendMessageProcessor.sendBatchMessage`). A batch without a unique key comes from a producer that does not expect
/// this, and is stored message by message.
fn stage_inner<T>(
    parts: &SendParts,
    staged: &mut StagedSends<T>,
    request: &SendRequest<'_>,
    (target, queue): (&Target, Arc<Queue>),
    ticket: T,
) -> Result<()> {
    let SendRequest { header, body, .. } = *request;
    let count = batch::entries(body).try_fold(0, |count, entry| entry.map(|_| count + 1));
    let count = count.map_err(unreadable)?;
    staged.properties.clear();
    let id_start = staged.ids.len();
    let properties = Properties::rewrite(parts, &header, target, &mut staged.properties, &mut staged.ids)?;
    let is_moved = properties.delay_level.is_some() || properties.out_ms.is_some() || properties.is_half;
    if is_moved || count > INNER_MAX {
        return Err(illegal(&parts.runtime));
    }
    properties::append(&mut staged.properties, key::INNER_NUM, itoa::Buffer::new().format(count).as_bytes());
    let sent = request.message(&parts.identity, body);
    let message = Message {
        properties: &staged.properties,
        flag: header.flag,
        sys_flag: sent.sys_flag | sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH,
        ..sent
    };
    if properties.waits {
        super::demand_replicas(&parts.replication)?;
    }
    let index = staged.batch.push(&queue.index, &message).map_err(|_| illegal(&parts.runtime))?;
    let id = id_start..staged.ids.len();
    staged.pending.push(Pending {
        ticket,
        waits: properties.waits,
        queue_id: target.queue_id,
        queue,
        records: index..index + 1,
        handle: id.end..id.end,
        id,
        kind: message::kind_of_batch(header.properties),
        messages: count as u64,
        inner: true,
        recalls_at: None,
    });
    Ok(())
}
