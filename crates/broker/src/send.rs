//! Sends: requests 10 `SEND_MESSAGE`, 310 `SEND_MESSAGE_V2` and 320 `SEND_BATCH_MESSAGE`.
//!
//! All sends of one read batch (the frames of one read from a connection) become one batch of records: [`stage`] checks a
//! request and encodes its record, [`commit`] appends the batch with one write and answers the requests. All that is kept of a
//! request between these steps is in [`StagedSends`], whose memory is reused.

mod batch;
mod check;
pub(crate) mod message;
mod recall;
mod reply;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::ConnectionHandle;
use store::{AppendError, Batch, FlushOutcome, Message};
use wire::codes::response;
use wire::frame::{Command, Encoding};
use wire::header::SendHeader;
use wire::recall::RecallHandle;
use wire::record::sys_flag;

use crate::broker::{Broker, PutError};
use crate::refused::Cause;
use crate::topics::{Queue, Template, Topic};
use crate::{Refusal, durability, names};
use message::{Properties, Target};
pub(crate) use reply::{refused as refuse, region};

pub(crate) use recall::stage_recall;

/// Bytes of staged records above which they are appended before the rest of the read batch is staged.
const STAGED_BYTES_MAX: usize = 2 << 20;

/// Bytes of staged records above which, with sync flush, they are appended while the flusher is idle, before the rest of the
/// read batch is staged. So the requests of a busy connection divide into two halves: one is flushed while the other is
/// answered and its producer sends again.
const FLUSHED_BYTES_MIN: usize = 8 << 10;

/// Number of digits of a message id with an IPv6 address.
const ID_BYTES: usize = 56;

/// The staged sends of one read batch.
pub(crate) struct StagedSends {
    batch: Batch,
    pending: Vec<Pending>,
    /// Unique keys of the pending messages, one behind the other.
    ids: Vec<u8>,
    /// Buffer for the properties string that is being rewritten.
    properties: Vec<u8>,
    /// The topic of the last send, and the generation of the table of topics in which it was found.
    last: Option<(u64, Arc<Topic>)>,
    /// Whether a staged message cancels a timed one.
    cancels: bool,
    /// The recalls of timed messages among the pending requests.
    recalls: Vec<recall::Staged>,
    /// Queues that grew and whose suspended pulls and pops are not woken yet, because the producers are answered first.
    grown: Vec<Arc<Queue>>,
}

/// A staged request that waits for its answer.
struct Pending {
    opaque: i32,
    encoding: Encoding,
    one_way: bool,
    /// Whether the answer waits for the disk with sync flush.
    waits: bool,
    queue_id: i32,
    queue: Arc<Queue>,
    /// Range of the request's records in the batch; empty for a recall that came too late.
    records: Range<usize>,
    /// Range of the unique key in [`StagedSends::ids`], that of the first message for a client's batch; empty when there is none.
    id: Range<usize>,
    /// Range of the recall handle of a timed message in [`StagedSends::ids`]; empty when there is none.
    handle: Range<usize>,
    /// Whether the request is a batch that is stored as one record.
    inner: bool,
    /// For a recall, the earliest time at which the recalled message may be due, in milliseconds since the epoch.
    recalls_at: Option<i64>,
}

/// A send that is being checked.
struct Request<'a> {
    peer: &'a Arc<ConnectionHandle>,
    command: &'a Command<'a>,
    header: SendHeader<'a>,
}

impl<'a> Request<'a> {
    /// The message of this request without its properties and flag.
    fn message(&self, broker: &Broker, body: &'a [u8]) -> Message<'a> {
        let Self { peer, header, .. } = self;
        Message {
            body,
            properties: &[],
            sys_flag: record_flags(header.sys_flag),
            flag: 0,
            born_timestamp: header.born_timestamp,
            born_host: peer.remote(),
            store_host: broker.store_host,
            reconsume_times: header.reconsume_times.max(0),
            prepared_transaction_offset: 0,
        }
    }
}

impl StagedSends {
    pub(crate) fn new(batch: Batch) -> Self {
        Self {
            batch,
            pending: Vec::new(),
            ids: Vec::new(),
            properties: Vec::new(),
            last: None,
            cancels: false,
            recalls: Vec::new(),
            grown: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.pending.clear();
        self.ids.clear();
        self.cancels = false;
        self.recalls.clear();
    }
}

/// Checks a send and encodes its records. Nothing is stored of a send that is refused.
pub(crate) fn stage(
    broker: &Broker,
    staged: &mut StagedSends,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let ids_before = staged.ids.len();
    if let Err(refusal) = try_stage(broker, staged, peer, command) {
        // Only a commit clears the staged state, so a worker that refuses all requests would otherwise collect their keys.
        staged.ids.truncate(ids_before);
        return Err(refusal);
    }
    let staged_bytes = staged.batch.size();
    if staged_bytes > STAGED_BYTES_MAX || staged_bytes > FLUSHED_BYTES_MIN && flush_could_start(broker) {
        commit(broker, staged, peer, out);
    }
    Ok(())
}

/// Whether a flush started now could run while the rest of the read batch is staged.
fn flush_could_start(broker: &Broker) -> bool {
    broker.flushes_before_answer() && broker.store.flusher_is_idle()
}

fn try_stage(
    broker: &Broker,
    staged: &mut StagedSends,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<(), Refusal> {
    let header = SendHeader::decode(command.code, &command.fields)?;
    let request = Request { peer, command, header };
    let topic = find_topic(broker, staged, &header)?;
    topic.prefetch(header.queue_id);
    check::check(broker, &topic, &request)?;
    let target = if header.topic.starts_with(names::RETRY_PREFIX) && !header.batch {
        check::retry_target(broker, topic, &request)?
    } else {
        Target { topic, queue_id: header.queue_id, dead: false }
    };
    let queue_id = match target.queue_id {
        id if id < 0 => broker.spread(target.topic.config.write_queue_nums),
        id => id,
    };
    let target = Target { queue_id, ..target };
    if header.batch {
        batch::stage(broker, staged, &request, &target)
    } else {
        stage_single(broker, staged, &request, &target)
    }
}

/// The topic of a send. Taken over from the last send when that had the same topic and the table has not changed since.
fn find_topic(
    broker: &Broker,
    staged: &mut StagedSends,
    header: &SendHeader<'_>,
) -> Result<Arc<Topic>, Refusal> {
    let generation = broker.topics.generation();
    if let Some((known, topic)) = &staged.last
        && *known == generation
        && topic.name() == header.topic
    {
        return Ok(topic.clone());
    }
    let topic = broker.topics.find_or_create(header.topic, &template(header))?;
    // With the generation from before the lookup: a topic that changed during the lookup is then looked up again.
    staged.last = Some((generation, topic.clone()));
    Ok(topic)
}

fn template<'a>(header: &SendHeader<'a>) -> Template<'a> {
    Template { default_topic: header.default_topic, queue_nums: header.default_topic_queue_nums }
}

/// The refusal of a message that cannot be stored (`MESSAGE_ILLEGAL`).
fn illegal(broker: &Broker) -> Refusal {
    let remark = format!(
        "the message is illegal, maybe msg body or properties length not matched. msg body length limit {}B, msg properties length limit 32KB.",
        broker.config.max_message_size
    );
    Refusal::new(response::MESSAGE_ILLEGAL, remark)
}

fn stage_single(
    broker: &Broker,
    staged: &mut StagedSends,
    request: &Request<'_>,
    target: &Target,
) -> Result<(), Refusal> {
    let Request { command, header, .. } = request;
    staged.properties.clear();
    let id_start = staged.ids.len();
    let properties = Properties::rewrite(broker, header, target, &mut staged.properties, &mut staged.ids)?;
    let id = id_start..staged.ids.len();
    let reported = target.queue_id;
    let real = target;
    let target = match (properties.delay_level, properties.out_ms) {
        _ if properties.is_half => Target { topic: broker.half_topic()?, queue_id: 0, dead: false },
        (Some(level), _) => Target { topic: broker.schedule_topic()?, queue_id: level - 1, dead: false },
        (None, Some(_)) => Target { topic: broker.timer_topic()?, queue_id: 0, dead: false },
        (None, None) => target.clone(),
    };
    let queue = find_queue(broker, &target)?;
    let message = Message {
        properties: &staged.properties,
        flag: header.flag,
        ..request.message(broker, command.body)
    };
    let index = staged.batch.push(&queue.index, &message).map_err(|error| {
        tracing::debug!(topic = header.topic, %error, "a message cannot be stored");
        illegal(broker)
    })?;
    staged.cancels |= properties.out_ms.is_some() && properties.cancels;
    let handle_start = staged.ids.len();
    if let Some(out_ms) = properties.out_ms.filter(|_| !names::is_retry_topic(real.topic.name())) {
        let key = staged.ids[id.clone()].to_vec();
        RecallHandle::append(
            &mut staged.ids,
            real.topic.name(),
            &broker.config.broker_name,
            out_ms + 1,
            &key,
        );
    }
    staged.pending.push(Pending {
        opaque: command.opaque,
        encoding: command.encoding,
        one_way: command.is_one_way(),
        waits: properties.waits,
        queue_id: reported,
        queue,
        records: index..index + 1,
        id,
        handle: handle_start..staged.ids.len(),
        inner: false,
        recalls_at: None,
    });
    Ok(())
}

/// Checks a reply message like any send, and returns the id of the queue it goes to
/// (`ReplyMessageProcessor.processReplyMessageRequest`).
pub(crate) fn check_reply(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    header: SendHeader<'_>,
) -> Result<i32, Refusal> {
    let topic = broker.topics.find_or_create(header.topic, &template(&header))?;
    check::check(broker, &topic, &Request { peer, command, header })?;
    let queues = topic.config.write_queue_nums;
    Ok(if header.queue_id < 0 { broker.spread(queues) } else { header.queue_id })
}

/// The system flags of a send without those a client may not set: the broker knows the kinds of the host addresses, and sets
/// the state of a transaction elsewhere.
pub(crate) fn record_flags(flags: i32) -> i32 {
    flags & !(sys_flag::TRANSACTION_MASK | sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)
}

fn find_queue(broker: &Broker, target: &Target) -> Result<Arc<Queue>, Refusal> {
    target.topic.queue(&broker.store, target.queue_id).cloned().ok_or_else(|| {
        let remark =
            format!("request queueId[{}] is illegal, topic[{}]", target.queue_id, target.topic.name());
        Refusal::new(response::INVALID_PARAMETER, remark)
    })
}

/// Appends all staged records with one write, and answers their requests.
pub(crate) fn commit(
    broker: &Broker,
    staged: &mut StagedSends,
    peer: &Arc<ConnectionHandle>,
    out: &mut Vec<u8>,
) {
    if staged.pending.is_empty() {
        return;
    }
    // The gate is locked while a cancelling message is appended: see `crate::timer`.
    let mut gate = staged.cancels.then(|| broker.timer.gate());
    let delivered_ms = gate.as_ref().map_or(i64::MIN, |gate| gate.delivered_ms);
    recall::push(broker, staged, delivered_ms);
    if staged.batch.is_empty() {
        // All requests are recalls that came too late.
        drop(gate);
        let mut ids = Vec::with_capacity(ID_BYTES);
        for pending in &staged.pending {
            reply::stored(broker, staged, pending, delivered_ms, &mut ids, out);
        }
        return staged.clear();
    }
    let begin = Instant::now();
    let done = broker.store.append(&mut staged.batch, broker.now_ms());
    if let Some(gate) = &mut gate {
        gate.cancels += 1;
        if done.is_ok() {
            gate.recalled_end = gate.recalled_end.max(recall::end(staged));
        }
    }
    drop(gate);
    if done.is_ok() {
        for pending in staged.pending.iter().filter(|pending| !pending.records.is_empty()) {
            let sizes = pending.records.clone().map(|index| u64::from(staged.batch.placed(index).size));
            pending.queue.sent.count(sizes.sum());
        }
    }
    match done {
        Ok(()) if broker.flushes_before_answer() => defer(broker, staged, peer, (delivered_ms, begin), out),
        Ok(()) => {
            took(broker, staged.pending.iter().map(|pending| &pending.queue), begin.elapsed());
            let mut ids = Vec::with_capacity(ID_BYTES);
            for pending in &staged.pending {
                reply::stored(broker, staged, pending, delivered_ms, &mut ids, out);
            }
            let further = broker.further_queues(&staged.batch);
            let sent = staged.pending.iter().map(|pending| &pending.queue);
            for queue in sent.chain(&further).filter(|queue| queue.is_waited_on()) {
                if staged.grown.last().is_none_or(|last| !Arc::ptr_eq(last, queue)) {
                    staged.grown.push(queue.clone());
                }
            }
            if broker.flushes_before_answer() {
                // The flush mode changed meanwhile: the pulls and pops woken above may not see the messages before the flush.
                let sent = staged.pending.iter().map(|pending| pending.queue.clone());
                broker.handle().wake_when_flushed(staged.batch.end(), sent.chain(further).collect());
            }
        }
        Err(error) => {
            broker.refused.count(Cause::from(&error), staged.pending.len());
            let (refusal, recall_failed) = (not_stored(broker, &error), crate::timer::recall::failed());
            for pending in staged.pending.iter().filter(|pending| !pending.one_way) {
                let refusal = if pending.recalls_at.is_some() { &recall_failed } else { &refusal };
                let head = wire::frame::Head::response(pending.encoding, refusal.code, pending.opaque);
                reply::refused(broker, head.remark(&refusal.remark), out);
            }
        }
    }
    staged.clear();
}

/// Wakes the suspended pulls and pops of the queues that grew since the last call.
pub(crate) fn wake(broker: &Broker, staged: &mut StagedSends) {
    for queue in staged.grown.drain(..) {
        broker.wake(&queue);
    }
}

/// Records, for statistics, how long the requests to these queues took, which were stored together.
fn took<'a>(broker: &Broker, queues: impl ExactSizeIterator<Item = &'a Arc<Queue>>, time: Duration) {
    broker.stats.puts.took(time, queues.len());
    if time >= Duration::from_millis(1) {
        queues.for_each(|queue| queue.sent.took(time));
    }
}

/// Answers a batch once it is on disk; requests that do not wait for that are answered at once.
fn defer(
    broker: &Broker,
    staged: &mut StagedSends,
    peer: &Arc<ConnectionHandle>,
    (delivered_ms, begin): (i64, Instant),
    out: &mut Vec<u8>,
) {
    let mut late = Vec::new();
    let mut queues: Vec<Arc<Queue>> = broker.further_queues(&staged.batch);
    let mut ids = Vec::with_capacity(ID_BYTES);
    for pending in &staged.pending {
        if !queues.iter().any(|queue| Arc::ptr_eq(queue, &pending.queue)) {
            queues.push(pending.queue.clone());
        }
        // A recall that came too late stores nothing, and is answered at once.
        let is_refused = pending.records.is_empty();
        let target = if pending.waits && !is_refused { &mut late } else { &mut *out };
        reply::stored(broker, staged, pending, delivered_ms, &mut ids, target);
    }
    let end = staged.batch.end();
    let broker = broker.handle();
    let sent: Vec<_> = staged.pending.iter().map(|pending| pending.queue.clone()).collect();
    if late.is_empty() {
        took(&broker, sent.iter(), begin.elapsed());
        return broker.wake_when_flushed(end, queues);
    }
    // The memory charge makes a connection wait whose sends come faster than the disk takes them.
    let charge = peer.charge(staged.batch.size() + late.len());
    let (peer, store) = (peer.clone(), broker.store.clone());
    let answer = move |outcome: FlushOutcome| {
        took(&broker, sent.iter(), begin.elapsed());
        durability::qualify(&mut late, &outcome);
        // The push fails for a producer that has disconnected; its messages are stored all the same.
        let _ = peer.push(|out| out.extend_from_slice(&late));
        drop(charge);
        broker.wake_flushed(end, queues, &outcome);
    };
    store.when_flushed(end, Box::new(answer));
}

/// The refusal, with RocketMQ's code, for a message written by the broker itself that was not stored.
pub(crate) fn not_put(broker: &Broker, error: PutError) -> Refusal {
    match error {
        PutError::Append(error) => not_stored(broker, &error),
        PutError::Topic(refusal) => refusal,
        error => Refusal::error(error.to_string()),
    }
}

/// The refusal, with RocketMQ's code, for an append that failed.
pub(crate) fn not_stored(broker: &Broker, error: &AppendError) -> Refusal {
    match error {
        AppendError::Busy { .. } => {
            let remark = format!("[PC_SYNCHRONIZED]broker busy, start flow control for a while: {error}");
            Refusal::because(error.into(), response::SYSTEM_BUSY, remark)
        }
        AppendError::NoSpace(_)
        | AppendError::DiskFull { .. }
        | AppendError::Fenced(_)
        | AppendError::Closed
        | AppendError::Removed { .. } => {
            let space = broker.store.space();
            let (log, queues) = (space.log_percent() as f64 / 100.0, space.queue_percent() as f64 / 100.0);
            // The key index is on the same disk as the queues' index.
            let ratios = format!("CL: {log:5.2} CQ: {queues:5.2} INDEX: {queues:5.2}");
            let remark = format!(
                "service not available now. It may be caused by one of the following reasons: the broker's disk is full [{ratios}], messages are put to the slave, message store has been shut down, etc. Cause: {error}"
            );
            Refusal::because(error.into(), response::SERVICE_NOT_AVAILABLE, remark)
        }
    }
}

#[cfg(test)]
mod tests;
