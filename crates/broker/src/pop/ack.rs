//! Acknowledging popped messages, and keeping them invisible for longer (`AckMessageProcessor`,
//! `ChangeInvisibleTimeProcessor`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::AppendError;
use wire::body::{Acks, BatchAck, BatchAckBody, Checkpoint};
use wire::codes::response;
use wire::pop::{Handle, Kind, ORDER_REVIVE_QUEUE};
use wire::units::LogOffset;

use super::revive_records::ReviveRecords;
use super::{lite, order, patience, request, serve};
use crate::caller::Caller;
use crate::parts::{Delivery, PopParts, Runtime, Tables};
use crate::refusal::{PutError, Result};
use crate::send::not_put;
use crate::state::{Cell, HeldCheckpoint};
use crate::topics::Queue;
use crate::{Refusal, names};

/// Most milliseconds by which the pop time of a new checkpoint may be ahead of the clock, so that its name differs
/// from the old checkpoint's. It is bounded because the old pop time comes from the client's handle.
const AHEAD_MS_MAX: i64 = 1000;

/// Pop of a queue, as the handles of its messages name it.
#[derive(PartialEq, Eq)]
pub(super) struct Origin<'a> {
    pub group: &'a str,
    /// Topic the messages are stored in, which may be a retry topic.
    pub topic: &'a str,
    queue_id: i32,
    start_offset: i64,
    pub pop_ms: i64,
    invisible_ms: i64,
    pub revive_queue: i32,
    broker_name: &'a str,
}

impl Origin<'_> {
    /// Refuses a handle that no pop can have issued, before a timed message is stored for it. Handles come from
    /// clients and are not trusted. The handle's topic marker, queue and offset are not checked, because those of the
    /// request are used, as in Java.
    ///
    /// Java stores no acknowledgement whose messages are visible again after `timerMaxDelaySec`, and responds with 0.
    fn check(&self, runtime: &Runtime, first_offset: i64, now_ms: i64) -> Result<()> {
        let illegal = |text: String| Err(Refusal::new(response::MESSAGE_ILLEGAL, text));
        let Self { start_offset, pop_ms, invisible_ms, revive_queue, .. } = *self;
        if !(0..=first_offset).contains(&start_offset) {
            let text = format!("the handle's start offset is {start_offset}, expected 0 to {first_offset}");
            return illegal(text);
        }
        let last = runtime.config.pop.revive_queues - 1;
        if !(0..=last).contains(&revive_queue) {
            let text = format!("the revive queue is {revive_queue}, expected 0 to {last} (reviveQueueNum)");
            return Err(Refusal::error(text));
        }
        let delay_max_ms = runtime.config.timers.delay_max_s.saturating_mul(1000);
        let latest_ms = now_ms.saturating_add(delay_max_ms).saturating_add(AHEAD_MS_MAX);
        if pop_ms < 0 || invisible_ms < 0 || pop_ms.saturating_add(invisible_ms) > latest_ms {
            let text = format!(
                "the handle's pop time is {pop_ms} and its invisible time {invisible_ms}, expected a sum of at most {latest_ms} (timerMaxDelaySec)"
            );
            return illegal(text);
        }
        Ok(())
    }
}

/// A popped message that a consumer names.
#[derive(Clone, Copy)]
pub struct PoppedMessage<'a> {
    /// Caller that names the message.
    pub caller: &'a Caller,
    /// Name of the consumer group.
    pub group: &'a str,
    /// Topic the message is stored in, which may be a retry topic.
    pub topic: &'a str,
    /// Id of the message's queue.
    pub queue_id: i32,
    /// Queue offset of the message.
    pub offset: i64,
    /// The handle the message was popped with.
    pub handle: &'a str,
}

/// Messages of a pop of a queue that are acknowledged together.
struct Acknowledged<'a> {
    origin: Origin<'a>,
    offsets: Vec<i64>,
    /// Indexes of the messages in the call.
    places: Vec<usize>,
}

/// Acknowledges messages and returns the results in order. Adds the needed records of the acknowledgements to
/// `records`: one for neighbours of the same pop of a queue. The caller may be answered when they are stored. A late
/// or repeated acknowledgement has no effect and succeeds.
///
/// A missing message is refused with `NO_MESSAGE`. Other refusals are those of `AckMessageProcessor.processRequest`.
pub(crate) fn acks(
    parts: &Arc<PopParts>,
    records: &mut ReviveRecords,
    messages: &[PoppedMessage<'_>],
) -> Vec<Result<()>> {
    let mut pops: Vec<Acknowledged<'_>> = Vec::new();
    let mut outcomes: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(place, message)| {
            let (origin, offset) = (checked(&parts.tables, &parts.runtime, message)?, message.offset);
            if origin.revive_queue == ORDER_REVIVE_QUEUE {
                return settle_in_order(parts, &origin, offset);
            }
            // Neighbours only: what a client lists is not bounded, and must not be searched again for each entry.
            match pops.last_mut().filter(|pop| pop.origin == origin) {
                Some(pop) => {
                    pop.offsets.push(offset);
                    pop.places.push(place);
                }
                None => pops.push(Acknowledged { origin, offsets: vec![offset], places: vec![place] }),
            }
            Ok(())
        })
        .collect();
    for Acknowledged { origin, offsets, places } in &mut pops {
        offsets.sort_unstable();
        offsets.dedup();
        if let Err(refusal) = acknowledge(parts, records, origin, (offsets, LogOffset::ZERO)) {
            places.iter().for_each(|place| outcomes[*place] = Err(refusal.clone()));
        }
    }
    outcomes
}

/// Returns the pop of a message, if the message and the pop exist.
fn checked<'a>(tables: &Tables, runtime: &Runtime, message: &PoppedMessage<'a>) -> Result<Origin<'a>> {
    if names::lite_parts(message.topic).is_some() {
        return lite::checked(tables, message);
    }
    let &PoppedMessage { caller, topic, queue_id, offset, .. } = message;
    let queue = find_queue(tables, caller, topic, queue_id)?;
    let (min, max) = (queue.index.min().to_i64(), queue.index.max().to_i64());
    if !(min..=max).contains(&offset) {
        let remark = format!("offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{min}~{max}");
        return Err(Refusal::new(response::NO_MESSAGE, remark));
    }
    let origin = origin(message)?;
    if origin.revive_queue != ORDER_REVIVE_QUEUE {
        origin.check(runtime, offset, runtime.now_ms())?;
    }
    Ok(origin)
}

/// Acknowledges a message as [`acks`] does.
///
/// # Errors
/// `NO_MESSAGE` for an offset without a message; further refusals of `AckMessageProcessor.processRequest`.
pub(crate) fn ack(
    parts: &Arc<PopParts>,
    records: &mut ReviveRecords,
    message: &PoppedMessage<'_>,
) -> Result<()> {
    let origin = checked(&parts.tables, &parts.runtime, message)?;
    if origin.revive_queue == ORDER_REVIVE_QUEUE {
        return settle_in_order(parts, &origin, message.offset);
    }
    acknowledge(parts, records, &origin, (&[message.offset], LogOffset::ZERO))
}

/// Acknowledges many messages. Entries whose queue or messages do not exist are skipped. Returns the refusal of the
/// last refused entry. The other entries are acknowledged anyway.
///
/// # Errors
/// `NO_MESSAGE` without entries. `SYSTEM_ERROR` for an entry with an unknown `r`.
pub(crate) fn batch_ack(
    parts: &Arc<PopParts>,
    records: &mut ReviveRecords,
    body: &BatchAckBody,
) -> Result<Option<Refusal>> {
    if body.acks.is_empty() {
        return Err(Refusal::new(response::NO_MESSAGE, "the body names no messages"));
    }
    let mut refused = None;
    for entry in &body.acks {
        let Some(kind) = Kind::parse(&entry.retry) else {
            return Err(Refusal::error(format!("r is {:?}, expected 0, 1 or 2", entry.retry)));
        };
        let topic = kind.topic(&entry.topic, &entry.consumer_group);
        if let Some(queue) = parts.tables.log_queue(&topic, entry.queue_id)
            && let Err(refusal) = ack_entry(parts, records, (entry, &body.broker_name), &topic, &queue)
        {
            refused = Some(refusal);
        }
    }
    Ok(refused)
}

fn ack_entry(
    parts: &Arc<PopParts>,
    records: &mut ReviveRecords,
    (entry, broker_name): (&BatchAck, &str),
    topic: &str,
    queue: &Queue,
) -> Result<()> {
    let (min, max) = (queue.index.min().to_i64(), queue.index.max().to_i64());
    let offsets = entry.offsets_in(min..=max);
    let origin = Origin {
        group: &entry.consumer_group,
        topic,
        queue_id: entry.queue_id,
        start_offset: entry.start_offset,
        pop_ms: entry.pop_time,
        invisible_ms: entry.invisible_ms,
        revive_queue: entry.revive_queue_id,
        broker_name,
    };
    if origin.revive_queue == ORDER_REVIVE_QUEUE {
        let mut done = Ok(());
        for offset in offsets {
            done = done.and(settle_in_order(parts, &origin, offset));
        }
        return done;
    }
    let Some(first) = offsets.first() else { return Ok(()) };
    origin.check(&parts.runtime, *first, parts.runtime.now_ms())?;
    acknowledge(parts, records, &origin, (&offsets, LogOffset::ZERO))
}

/// A change of the invisible time of a popped message.
#[derive(Clone, Copy)]
pub struct InvisibleTimeChange<'a> {
    /// The message.
    pub message: PoppedMessage<'a>,
    /// Time from now on for which the message stays invisible, in milliseconds.
    pub invisible_ms: i64,
    /// Whether this delivery does not count. Has an effect for messages of lite topics only.
    pub suspend: bool,
}

/// The handle's parts that a change of invisibility changed.
pub struct Invisible {
    /// Time of the pop in the new handle, milliseconds since the epoch.
    pub pop_ms: i64,
    /// Time from the pop on for which the message stays invisible, in milliseconds.
    pub invisible_ms: i64,
    /// Queue of the revive topic; 999 for an ordered pop.
    pub revive_queue: i32,
    /// End of the records appended for the change.
    pub(crate) end: LogOffset,
}

/// Changes the invisible time of a message: of a lite topic, or as [`change_invisible_time`] does.
///
/// # Errors
/// Refusals of `ChangeInvisibleTimeProcessor.processRequest`.
pub(crate) fn change_visibility(
    parts: &Arc<PopParts>,
    &InvisibleTimeChange { message, invisible_ms, suspend }: &InvisibleTimeChange<'_>,
) -> Result<Option<Invisible>> {
    if names::lite_parts(message.topic).is_some() {
        return lite::change_invisible_time(&parts.delivery, &parts.runtime, &message, invisible_ms, suspend);
    }
    change_invisible_time(parts, &message, invisible_ms)
}

/// Keeps a message invisible for another `invisible_ms`. The message gets a checkpoint of its own, and is
/// acknowledged in the old checkpoint. Returns `None` if the message was popped in order and is acknowledged already.
///
/// # Errors
/// `NO_MESSAGE` for an offset without a message, and the refusals of `ChangeInvisibleTimeProcessor.processRequest`.
pub(crate) fn change_invisible_time(
    parts: &Arc<PopParts>,
    message: &PoppedMessage<'_>,
    invisible_ms: i64,
) -> Result<Option<Invisible>> {
    let &PoppedMessage { caller, topic, queue_id, offset, .. } = message;
    let queue = find_queue(&parts.tables, caller, topic, queue_id)?;
    if !(queue.index.min().to_i64()..queue.index.max().to_i64()).contains(&offset) {
        return Err(Refusal::new(response::NO_MESSAGE, ""));
    }
    request::check_invisible(&parts.runtime, invisible_ms)?;
    let origin = origin(message)?;
    if origin.revive_queue == ORDER_REVIVE_QUEUE {
        return Ok(delay_in_order(&parts.delivery, &parts.runtime, &origin, offset, invisible_ms));
    }
    let now_ms = parts.runtime.now_ms();
    origin.check(&parts.runtime, offset, now_ms)?;
    // The pop time is part of a checkpoint's name. Within the same millisecond the new checkpoint would get the old one's
    // name, and the acknowledgement of the old one would hit both: the message would never come back (as can happen in Java).
    let pop_ms = now_ms.max(origin.pop_ms.saturating_add(1).min(now_ms + AHEAD_MS_MAX));
    let checkpoint = Checkpoint {
        broker_name: origin.broker_name.to_owned(),
        group: origin.group.to_owned(),
        diffs: vec![0],
        invisible_ms,
        count: 1,
        pop_ms,
        queue_id,
        revive_ms: pop_ms.saturating_add(invisible_ms),
        start_offset: offset,
        topic: topic.to_owned(),
        ..Checkpoint::default()
    };
    if parts.replication.role.is_slave() {
        renew_in_memory(parts, &origin, checkpoint)?;
        let end = LogOffset::ZERO;
        return Ok(Some(Invisible { pop_ms, invisible_ms, revive_queue: origin.revive_queue, end }));
    }
    let mut records = ReviveRecords::new(&parts.tables.store);
    let pushed = records.checkpoint(parts, origin.revive_queue, &checkpoint, now_ms);
    let put = |error: PutError| not_put(&parts.tables.store, error);
    pushed.map_err(put)?;
    // The new checkpoint is stored first: a message acknowledged in the old one and without a new one would never come back.
    let end = records.append(&parts.tables.store, &parts.delivery, now_ms).map_err(put)?;
    let mut records = ReviveRecords::new(&parts.tables.store);
    acknowledge(parts, &mut records, &origin, (&[offset], end))?;
    let end = records.append(&parts.tables.store, &parts.delivery, now_ms).map_err(put)?.max(end);
    Ok(Some(Invisible { pop_ms, invisible_ms, revive_queue: origin.revive_queue, end }))
}

/// Replaces the checkpoint of a message by `checkpoint` at an acting slave, which appends nothing. Both checkpoints are in memory.
///
/// # Errors
/// The refusal of an append at a slave, if the old checkpoint is not in memory or no further one may be.
fn renew_in_memory(parts: &PopParts, origin: &Origin<'_>, checkpoint: Checkpoint) -> Result<()> {
    let refused = || not_put(&parts.tables.store, AppendError::Following.into());
    let queues = &parts.delivery.pops.in_flight_queues;
    let cell = queues.find(origin.group, origin.topic, origin.queue_id).ok_or_else(refused)?;
    let offset = checkpoint.start_offset;
    if !parts.delivery.pops.may_hold(parts, &cell, &checkpoint, parts.runtime.now_ms()) {
        return Err(refused());
    }
    let name = (origin.start_offset, origin.pop_ms);
    let held = HeldCheckpoint { checkpoint, revive_queue: origin.revive_queue, after: LogOffset::ZERO };
    if !cell.in_flight().renew(name, held) {
        return Err(refused());
    }
    queues.held.fetch_add(1, Ordering::Relaxed);
    let mut records = ReviveRecords::new(&parts.tables.store);
    acknowledge(parts, &mut records, origin, (&[offset], LogOffset::ZERO))
}

fn find_queue(tables: &Tables, caller: &Caller, topic: &str, queue_id: i32) -> Result<Arc<Queue>> {
    let topic = request::known_topic(tables, topic)?;
    let is_known = (0..topic.config.read_queue_nums).contains(&queue_id);
    let queue = is_known.then(|| topic.queue(&tables.store, queue_id)).flatten().cloned();
    queue.ok_or_else(|| request::bad_queue(&topic, queue_id, caller, response::MESSAGE_ILLEGAL))
}

pub(super) fn origin<'a>(message: &PoppedMessage<'a>) -> Result<Origin<'a>> {
    let text = message.handle;
    let handle = Handle::parse(text).ok_or_else(|| {
        let expected = "start popTime invisibleTime reviveQueue kind broker queue offset";
        Refusal::error(format!("extraInfo is {text:?}, expected {expected:?}"))
    })?;
    Ok(Origin {
        group: message.group,
        topic: message.topic,
        queue_id: message.queue_id,
        start_offset: handle.start_offset,
        pop_ms: handle.pop_ms,
        invisible_ms: handle.invisible_ms,
        revive_queue: handle.revive_queue,
        broker_name: handle.broker_name,
    })
}

/// Marks messages as acknowledged in their checkpoint in memory, or else adds a record of the acknowledgements to `records`.
/// `after` is the end in the log of the new checkpoints these messages got, zero when they got none.
fn acknowledge(
    parts: &PopParts,
    records: &mut ReviveRecords,
    origin: &Origin<'_>,
    (offsets, after): (&[i64], LogOffset),
) -> Result<()> {
    let now_ms = parts.runtime.now_ms();
    let name = (origin.start_offset, origin.pop_ms);
    if let Some(cell) = parts.delivery.pops.in_flight_queues.find(origin.group, origin.topic, origin.queue_id)
    {
        let merged = cell.in_flight().ack(
            name,
            (offsets, after),
            patience(&parts.replication, &parts.runtime),
            now_ms,
        );
        if merged == Some(true) {
            parts.delivery.pops.in_flight_queues.held.fetch_sub(1, Ordering::Relaxed);
            parts.delivery.pops.advance(parts, &cell, now_ms);
        }
        if merged.is_some() {
            return Ok(());
        }
    }
    let (offset, offsets) =
        if let [offset] = offsets { (*offset, Vec::new()) } else { (-1, offsets.to_vec()) };
    let acks = Acks {
        offset,
        offsets,
        broker_name: origin.broker_name.to_owned(),
        group: origin.group.to_owned(),
        pop_ms: origin.pop_ms,
        queue_id: origin.queue_id,
        start_offset: origin.start_offset,
        topic: origin.topic.to_owned(),
    };
    let deliver_ms = origin.pop_ms.saturating_add(origin.invisible_ms);
    let pushed = records.acks(parts, origin.revive_queue, &acks, (deliver_ms, now_ms));
    pushed.map_err(|error| not_put(&parts.tables.store, error))
}

pub(super) fn is_passed(tables: &Tables, origin: &Origin<'_>, offset: i64) -> bool {
    let committed = tables.offsets.committed(origin.group, origin.topic, origin.queue_id);
    committed.is_some_and(|committed| offset < committed)
}

fn cell_of(delivery: &Delivery, origin: &Origin<'_>) -> Arc<Cell> {
    delivery.pops.in_flight_queues.make(origin.group, origin.topic, origin.queue_id)
}

/// Acknowledges a message that was popped in order (`AckMessageProcessor.ackOrderly`).
pub(super) fn settle_in_order(parts: &Arc<PopParts>, origin: &Origin<'_>, offset: i64) -> Result<()> {
    let &Origin { group, topic, queue_id, .. } = origin;
    if is_passed(&parts.tables, origin, offset) {
        return Ok(());
    }
    if parts.tables.group(&parts.runtime.config, group)?.is_none() {
        return Err(Refusal::error(format!("Group {group} not exist!")));
    }
    let cell = cell_of(&parts.delivery, origin);
    let mut in_flight = cell.in_flight();
    let committed = parts.tables.offsets.committed(group, topic, queue_id);
    let acked = match in_flight.order.as_mut() {
        Some(state) => order::ack(state, offset, origin.pop_ms),
        // No state after a reset, or after a kill before the state was written: it is not known which messages before this one
        // are acknowledged. Like Java, the offset passes the message.
        None if committed.is_none_or(|committed| committed == offset) => order::Acked::Commit(offset + 1),
        None => order::Acked::Late,
    };
    match acked {
        order::Acked::Late => Ok(()),
        order::Acked::Unknown => {
            let old = committed.unwrap_or(-1);
            let remark = format!(
                "offset is illegal, key:{topic}@{group}@{queue_id}, old:{old}, commit:{offset}, next:-1"
            );
            Err(Refusal::new(response::MESSAGE_ILLEGAL, remark))
        }
        order::Acked::Commit(next) => {
            if !in_flight.gone {
                parts.tables.offsets.commit(group, topic, queue_id, next);
            }
            parts.delivery.pops.order_file.changed();
            let blocked = in_flight
                .order
                .as_ref()
                .and_then(|state| order::blocked_until(state, None, parts.runtime.now_ms()));
            drop(in_flight);
            if blocked.is_none() {
                serve::freed(parts, &cell);
            }
            Ok(())
        }
    }
}

/// Changes when a message that was popped in order is visible again
/// (`ChangeInvisibleTimeProcessor.processChangeInvisibleTimeForOrder`). Returns `None` if the message is acknowledged
/// already.
fn delay_in_order(
    delivery: &Delivery,
    runtime: &Runtime,
    origin: &Origin<'_>,
    offset: i64,
    invisible_ms: i64,
) -> Option<Invisible> {
    if is_passed(&delivery.tables, origin, offset) {
        return None;
    }
    let visible_ms = runtime.now_ms().saturating_add(invisible_ms);
    // After a crash the queue may not be known as one in flight: then there is nothing to change, and the client gets a handle as ever.
    if let Some(cell) = delivery.pops.in_flight_queues.find(origin.group, origin.topic, origin.queue_id) {
        let mut in_flight = cell.in_flight();
        if let Some(state) = in_flight.order.as_mut() {
            order::delay(state, offset, origin.pop_ms, visible_ms);
            delivery.pops.order_file.changed();
            delivery.pops.look_at(&cell, &mut in_flight, visible_ms);
        }
    }
    Some(Invisible {
        pop_ms: origin.pop_ms,
        invisible_ms: visible_ms.saturating_sub(origin.pop_ms),
        revive_queue: origin.revive_queue,
        end: LogOffset::ZERO,
    })
}

#[cfg(test)]
mod tests;
