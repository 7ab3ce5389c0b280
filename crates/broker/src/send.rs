//! Sends: messages of producers.
//!
//! A front passes its requests to [`stage`], which checks them and encodes their records. Then it calls [`commit()`],
//! which appends all staged records with one write and passes the responses to the front's [`SendAnswers`]. The
//! remoting side stages all sends of a read batch. [`StagedSends`] holds all state of a request between the two
//! steps, and its memory is reused.

mod batch;
mod check;
mod commit;
pub(crate) mod message;
mod recall;
mod staged;
mod store_refusals;

use std::sync::Arc;

use replica::acks::AckStatus;
use store::Message;
use wire::codes::response;
use wire::header::SendHeader;
use wire::recall::RecallHandle;
use wire::record::sys_flag;

use crate::caller::Caller;
use crate::parts::{Identity, Replication, SendParts, Tables};
use crate::topics::{Queue, Template, Topic};
use crate::{Refusal, Result, names};
pub(crate) use commit::{AnswerStored, SendAnswers, commit, wake};
use message::{Properties, Target};
pub use recall::RecallRequest;
pub(crate) use recall::stage_recall;
use staged::Pending;
pub(crate) use staged::{StagedSends, StoredSend};
use store_refusals::illegal;
pub(crate) use store_refusals::{not_put, not_stored};

/// Bytes of staged records above which they are appended before more sends are staged.
const STAGED_BYTES_MAX: usize = 2 << 20;

/// Size of staged records in bytes above which, with sync flush, they are appended while the flusher is idle, before
/// more sends are staged. So the requests of a busy connection form two halves: a half is flushed while the other
/// half is answered and its producer sends again.
const FLUSHED_BYTES_MIN: usize = 8 << 10;

/// Bytes of staged records above which, when answers wait for slaves, they are appended before more sends are staged: slaves
/// take them meanwhile.
const REPLICATED_BYTES_MIN: usize = 64 << 10;

/// A message, or a batch of messages, that a producer sends.
#[derive(Clone, Copy)]
pub struct SendRequest<'a> {
    /// Sender of the request.
    pub caller: &'a Caller,
    /// Fields of the request beside the body.
    pub header: SendHeader<'a>,
    /// Body of the message, or of all messages of a batch.
    pub body: &'a [u8],
    /// Whether the message answers a request of another application. Only such a message may have no body.
    pub is_reply: bool,
}

impl<'a> SendRequest<'a> {
    /// The message of this request without its properties and flag.
    fn message(&self, identity: &Identity, body: &'a [u8]) -> Message<'a> {
        let Self { caller, header, .. } = self;
        Message {
            body,
            properties: &[],
            sys_flag: record_flags(header.sys_flag),
            flag: 0,
            born_timestamp: header.born_timestamp,
            born_host: caller.remote,
            store_host: identity.store_host,
            reconsume_times: header.reconsume_times.max(0),
            prepared_transaction_offset: 0,
        }
    }
}

/// Checks a send and encodes its records. Above a size limit, all staged records are committed.
///
/// # Errors
/// The refusal, with RocketMQ's code. The send then stores nothing.
pub(crate) fn stage<A: SendAnswers>(
    parts: &SendParts,
    staged: &mut StagedSends<A::Ticket>,
    request: &SendRequest<'_>,
    ticket: A::Ticket,
    answers: &mut A,
) -> Result<()> {
    let ids_before = staged.ids.len();
    if let Err(refusal) = try_stage(parts, staged, request, ticket) {
        // Only a commit clears the staged state, so a worker that refuses all requests would otherwise collect their keys.
        staged.ids.truncate(ids_before);
        return Err(refusal);
    }
    let staged_bytes = staged.batch.size();
    if staged_bytes > STAGED_BYTES_MAX
        || staged_bytes > FLUSHED_BYTES_MIN && flush_could_start(&parts.replication)
        || staged_bytes > REPLICATED_BYTES_MIN && parts.replication.durability.waits_for_slaves()
    {
        commit(parts, staged, answers);
    }
    Ok(())
}

/// Whether a flush started now could run while the rest of the read batch is staged.
fn flush_could_start(replication: &Replication) -> bool {
    replication.durability.waits_for_flush() && replication.store.flusher_is_idle()
}

/// Refuses a message of a waiting sender if too few brokers are in sync (`CommitLog.asyncPutMessage`).
fn demand_replicas(replication: &Replication) -> Result<()> {
    if !replication.durability.lacks_replicas() {
        return Ok(());
    }
    let status = AckStatus::InSyncReplicasNotEnough;
    Err(Refusal::new(status.code(), status.remark().unwrap_or_default()))
}

fn try_stage<T>(
    parts: &SendParts,
    staged: &mut StagedSends<T>,
    request: &SendRequest<'_>,
    ticket: T,
) -> Result<()> {
    let header = request.header;
    let topic = find_topic(&parts.tables, staged, &header)?;
    topic.prefetch(header.queue_id);
    check::check(&parts.sessions, &parts.runtime, &topic, request)?;
    let target = if header.topic.starts_with(names::RETRY_PREFIX) && !header.batch {
        check::retry_target(&parts.tables, &parts.runtime, topic, request)?
    } else {
        Target { topic, queue_id: header.queue_id, dead: false }
    };
    let queue_id = match target.queue_id {
        id if id < 0 => parts.identity.spread(target.topic.config.write_queue_nums),
        id => id,
    };
    let target = Target { queue_id, ..target };
    if header.batch {
        batch::stage(parts, staged, request, &target, ticket)
    } else {
        stage_single(parts, staged, request, &target, ticket)
    }
}

/// The topic of a send. Taken over from the last send when that had the same topic and the table has not changed since.
fn find_topic<T>(
    tables: &Tables,
    staged: &mut StagedSends<T>,
    header: &SendHeader<'_>,
) -> Result<Arc<Topic>> {
    let generation = tables.topics.generation();
    if let Some((known, topic)) = &staged.last
        && *known == generation
        && topic.name() == header.topic
    {
        return Ok(topic.clone());
    }
    let topic = tables.topics.find_or_create(header.topic, &template(header))?;
    // With the generation from before the lookup: a topic that changed during the lookup is then looked up again.
    staged.last = Some((generation, topic.clone()));
    Ok(topic)
}

fn template<'a>(header: &SendHeader<'a>) -> Template<'a> {
    Template { default_topic: header.default_topic, queue_nums: header.default_topic_queue_nums }
}

fn stage_single<T>(
    parts: &SendParts,
    staged: &mut StagedSends<T>,
    request: &SendRequest<'_>,
    target: &Target,
    ticket: T,
) -> Result<()> {
    let SendRequest { header, .. } = request;
    staged.properties.clear();
    let id_start = staged.ids.len();
    let properties = Properties::rewrite(parts, header, target, &mut staged.properties, &mut staged.ids)?;
    let id = id_start..staged.ids.len();
    let real = target;
    let reported = properties.priority_queue.unwrap_or(target.queue_id);
    let target = match (properties.delay_level, properties.out_ms) {
        _ if properties.is_half => Target { topic: parts.tables.half_topic()?, queue_id: 0, dead: false },
        (Some(level), _) => {
            Target { topic: parts.tables.schedule_topic(&parts.runtime)?, queue_id: level - 1, dead: false }
        }
        (None, Some(_)) => {
            Target { topic: parts.tables.timer_topic(&parts.runtime)?, queue_id: 0, dead: false }
        }
        (None, None) => Target { queue_id: reported, ..target.clone() },
    };
    let queue = find_queue(&parts.tables.store, &target)?;
    let message = Message {
        properties: &staged.properties,
        flag: header.flag,
        ..request.message(&parts.identity, request.body)
    };
    if properties.waits {
        demand_replicas(&parts.replication)?;
    }
    let refused = |error| {
        tracing::debug!(topic = header.topic, %error, "a message cannot be stored");
        illegal(&parts.runtime)
    };
    // Last, because a light queue that a refused message names stays.
    if parts.tables.light.is_served() {
        staged.batch.check(&queue.index, &message).map_err(refused)?;
        parts.tables.admit_light(&parts.runtime.config, &staged.properties)?;
    }
    let index = staged.batch.push(&queue.index, &message).map_err(refused)?;
    staged.cancels |= properties.out_ms.is_some() && properties.cancels;
    if real.dead {
        staged.dead_letters.push(header.topic.into());
    }
    let handle_start = staged.ids.len();
    if let Some(out_ms) = properties.out_ms.filter(|_| !names::is_retry_topic(real.topic.name())) {
        let key = staged.ids[id.clone()].to_vec();
        RecallHandle::append(
            &mut staged.ids,
            real.topic.name(),
            &parts.runtime.config.broker_name,
            out_ms + 1,
            &key,
        );
    }
    staged.pending.push(Pending {
        ticket,
        waits: properties.waits,
        queue_id: reported,
        queue,
        records: index..index + 1,
        id,
        handle: handle_start..staged.ids.len(),
        kind: properties.kind(),
        messages: 1,
        inner: false,
        recalls_at: None,
    });
    Ok(())
}

/// Checks a reply message like any send, and returns the id of its queue
/// (`ReplyMessageProcessor.processReplyMessageRequest`).
pub(crate) fn check_reply(parts: &SendParts, request: &SendRequest<'_>) -> Result<i32> {
    let header = &request.header;
    let topic = parts.tables.topics.find_or_create(header.topic, &template(header))?;
    check::check(&parts.sessions, &parts.runtime, &topic, request)?;
    parts.tables.admit_light(&parts.runtime.config, header.properties)?;
    let queues = topic.config.write_queue_nums;
    Ok(if header.queue_id < 0 { parts.identity.spread(queues) } else { header.queue_id })
}

/// Returns the system flags of a send without the flags that a client may not set. The broker knows the kinds of the
/// host addresses, and sets the state of a transaction elsewhere.
pub(crate) fn record_flags(flags: i32) -> i32 {
    flags & !(sys_flag::TRANSACTION_MASK | sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)
}

fn find_queue(store: &store::Store, target: &Target) -> Result<Arc<Queue>> {
    target.topic.queue(store, target.queue_id).cloned().ok_or_else(|| {
        let remark =
            format!("request queueId[{}] is illegal, topic[{}]", target.queue_id, target.topic.name());
        Refusal::new(response::INVALID_PARAMETER, remark)
    })
}

#[cfg(test)]
mod tests;
