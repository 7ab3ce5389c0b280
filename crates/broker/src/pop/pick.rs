//! Selection of the messages that a pop returns (`PopMessageProcessor.popMsgFromQueue`).
//!
//! A single request at a time pops a queue. Other pops skip the queue. The checkpoints of all queues of a pop are
//! appended together, and only then do the in-flight queues advance. A pop whose checkpoints cannot be stored returns
//! no messages.

mod read;

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use store::{AppendError, CqUnit};
use wire::body::{Checkpoint, OrderState};
use wire::codes::response;
use wire::pop::{Kind, ORDER_REVIVE_QUEUE, QueueOffsets};
use wire::units::LogOffset;

use super::order;
use super::request::check_current;
use super::revive_records::ReviveRecords;
use crate::groups::attributes::PRIORITY_FACTOR;
use crate::long_polling::{Ask, Pop, PullAsk};
use crate::parts::{Delivery, PopParts, Runtime, Tables};
use crate::pull::{Pull, Scan, Source};
use crate::refusal::PutError;
use crate::reply_sink::Popped;
use crate::state::{Busy, Cell, HeldCheckpoint};
use crate::topics::{Queue, Topic};

/// Most bytes of index units and records that a pop reads without a match before other requests have their turn.
pub(super) const SLICE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 512 << 10 };

/// Result of a pop that could be stored.
pub(super) struct Picked {
    /// The messages and their handles.
    pub popped: Popped,
    /// Bytes of index units and records read to skip messages that do not match. 0 if no message remains behind them,
    /// and if messages are returned.
    pub passed_bytes: u64,
}

/// Reasons why a pop has no result.
pub(super) enum Unpopped {
    /// The messages are not in memory, and this thread may not wait for the disk.
    NotResident,
    /// The checkpoints of the pop cannot be appended to the log.
    NotStored(PutError),
}

/// Outcome of reading a queue.
pub(super) enum Visit {
    /// The pop had the queue, whether or not it got messages.
    Held,
    /// Another pop has the queue.
    Busy,
    /// A temporary error prevents the read.
    Unreadable,
}

/// Part of a pop that comes from a single queue.
struct Part {
    busy: Busy,
    next: i64,
    yields: Yields,
}

/// Contribution of a queue to a pop.
enum Yields {
    /// Messages with their checkpoint.
    Checkpoint(Checkpoint),
    /// Messages of an ordered pop. The in-flight queue keeps their offsets until they are acknowledged.
    Order,
    /// No message matches.
    Nothing,
}

pub(super) struct Picking<'a> {
    pub parts: &'a PopParts,
    pub ask: &'a Ask,
    /// Current topic of the request.
    pub topic: &'a Arc<Topic>,
    pop: &'a Pop,
    source: Source,
    pub popped: Popped,
    pieces: Vec<Part>,
    /// Lite queues that gave no messages.
    pub found_none: Vec<Arc<str>>,
    units: Vec<CqUnit>,
    /// Whether the last read failed with a temporary error, so that the messages are popped later and not
    /// skipped.
    refused: bool,
    /// Bytes of index units and records read in queues without a message that matches.
    bytes_read: u64,
}

/// Performs a pop of `topic`, the current topic of the request. Reads messages, stores their checkpoints, and returns
/// the content of the response.
///
/// # Errors
/// [`Unpopped::NotResident`] when `source` is the memory and no message could be returned without the disk;
/// [`Unpopped::NotStored`] when the checkpoints cannot be appended.
pub(super) fn pick(
    parts: &PopParts,
    topic: &Arc<Topic>,
    (ask, pop): (&Ask, &Pop),
    source: Source,
) -> Result<Picked, Unpopped> {
    let settings = &parts.runtime.config.pop;
    // 37 and 100 have no common factor: each of the hundred values comes equally often, in a scattered order.
    let dice = parts.identity.spread(100) * 37 % 100;
    let revive_queue = if ask.ordered {
        ORDER_REVIVE_QUEUE
    } else {
        parts.delivery.pops.next_revive_queue(settings.revive_queues)
    };
    let popped = Popped { pop_ms: parts.runtime.now_ms(), revive_queue, ..Popped::default() };
    let mut picking = Picking {
        parts,
        ask,
        topic,
        pop,
        source,
        popped,
        pieces: Vec::new(),
        found_none: Vec::new(),
        units: Vec::new(),
        refused: false,
        bytes_read: 0,
    };
    if let Some(client) = &ask.lite {
        let visited = picking.visit_events(client);
        let found_none = std::mem::take(&mut picking.found_none);
        let picked = visited.and_then(|()| picking.finish());
        release_lite(&parts.delivery, &ask.group, &found_none);
        return picked;
    }
    let by_priority = topic.prioritized && !ask.ordered && dice < priority_factor(&parts.tables, &ask.group);
    let (order, retry_probability) = match by_priority {
        true if settings.priority_ascends => (Order::FromLast, settings.retry_probability_for_priority),
        true => (Order::From(0), settings.retry_probability_for_priority),
        false => (Order::From(dice), settings.retry_probability),
    };
    let retries_first = dice < retry_probability;
    if retries_first {
        picking.visit_retries(dice)?;
    }
    match ask.queue_id {
        queue_id if queue_id >= 0 => picking.visit(topic, Kind::Normal, queue_id)?,
        _ => picking.visit_all(topic, Kind::Normal, order)?,
    }
    if !retries_first && picking.wanted() > 0 {
        picking.visit_retries(dice)?;
    }
    picking.finish()
}

/// The percentage of a group's pops that take the highest priority of a topic first (`SubscriptionGroupConfig.getPriorityFactor`).
fn priority_factor(tables: &Tables, group: &str) -> i32 {
    const ALL: i32 = 100;
    let config = tables.groups.find(group);
    config.and_then(|config| config.attributes.get(PRIORITY_FACTOR)?.parse().ok()).unwrap_or(ALL)
}

/// The order in which a pop examines the queues of a topic.
#[derive(Clone, Copy)]
enum Order {
    /// Begins with the queue of this id, modulo the number of queues, and continues in ascending order. The first
    /// queue follows the last queue.
    From(i32),
    /// Begins with the last queue, and continues in descending order.
    FromLast,
}

/// Returns the retry topics of the group that a pop examines, in their order (`KeyBuilder.buildPopRetryTopic`). `dice`
/// is a number from 0 to 99 that differs from pop to pop. It decides which of two retry topics comes first, because a pop
/// returns messages of a single retry topic.
fn retry_kinds(runtime: &Runtime, dice: i32) -> &'static [Kind] {
    let settings = &runtime.config.pop;
    match (settings.retry_v2, settings.retry_v1_too) {
        (false, _) => &[Kind::RetryV1],
        (true, false) => &[Kind::RetryV2],
        (true, true) if dice % 2 == 0 => &[Kind::RetryV1, Kind::RetryV2],
        (true, true) => &[Kind::RetryV2, Kind::RetryV1],
    }
}

/// Returns the queue offset at which the next pop of a queue reads. A group without an offset
/// begins at [`first_position`].
pub(super) fn position(parts: &PopParts, cell: &Cell, queue: &Queue, from_end: bool) -> i64 {
    // Under the lock of the in-flight queue, which is held while the group's offset passes settled pops.
    let in_flight = cell.in_flight();
    let committed = parts.tables.offsets.committed(&cell.group, &cell.topic, cell.queue_id);
    in_flight.position(committed.unwrap_or_else(|| first_position(parts, cell, queue, from_end)))
}

/// The queue offset at which a group without an offset begins
/// (`PopMessageProcessor.getInitOffset`): at the first message, or with `from_end` at the last
/// visible message. A retry topic always begins at the first message. With
/// `initPopOffsetByCheckMsgInMem` a young queue begins at offset 0.
fn first_position(parts: &PopParts, cell: &Cell, queue: &Queue, from_end: bool) -> i64 {
    if !from_end || Kind::of(&cell.topic) != Kind::Normal {
        return queue.index.min().to_i64();
    }
    if parts.runtime.config.pop.start_in_memory && parts.tables.begins_young(queue) {
        return 0;
    }
    // The last message, so that a group that begins now gets one.
    (parts.replication.visible_end(queue) - 1).max(0)
}

impl Picking<'_> {
    pub fn wanted(&self) -> i32 {
        self.pop.count_max - self.popped.count
    }

    fn visit_retries(&mut self, dice: i32) -> Result<(), Unpopped> {
        if self.ask.ordered {
            return Ok(());
        }
        let before = self.popped.count;
        for kind in retry_kinds(&self.parts.runtime, dice) {
            let name = kind.topic(self.topic.name(), &self.ask.group);
            if let Some(topic) = self.parts.tables.topics.find(&name) {
                self.visit_all(&topic, *kind, Order::From(dice))?;
            }
            if self.popped.count > before {
                break;
            }
        }
        Ok(())
    }

    fn visit_all(&mut self, topic: &Arc<Topic>, kind: Kind, order: Order) -> Result<(), Unpopped> {
        let count = topic.config.read_queue_nums;
        let queue_id = |index| match order {
            Order::From(first) => (first % count + index) % count,
            Order::FromLast => count - 1 - index,
        };
        (0..count).try_for_each(|index| self.visit(topic, kind, queue_id(index)))
    }

    fn visit(&mut self, topic: &Arc<Topic>, kind: Kind, queue_id: i32) -> Result<(), Unpopped> {
        let parts = self.parts;
        let Some(queue) = topic.queue(&parts.tables.store, queue_id) else { return Ok(()) };
        let cell = parts.delivery.pops.in_flight_queues.make(&self.ask.group, topic.name(), queue_id);
        // Only after the in-flight queue is made: a deletion removes topic and group, then ends the in-flight queues it finds.
        if check_current(&parts.tables, self.ask, topic.name(), &topic.waiters).is_err() {
            return Ok(());
        }
        self.visit_queue(topic, queue, &cell, kind).map(drop)
    }

    /// Reads messages of a queue. They count in the statistics of the group at `topic`; for a lite queue that is its parent topic.
    pub fn visit_queue(
        &mut self,
        topic: &Arc<Topic>,
        queue: &Arc<Queue>,
        cell: &Arc<Cell>,
        kind: Kind,
    ) -> Result<Visit, Unpopped> {
        let parts = self.parts;
        let from_end = self.pop.from_end;
        let Some(busy) = cell.occupy() else {
            if !self.ask.ordered {
                self.popped.rest +=
                    parts.replication.visible_end(queue) - position(parts, cell, queue, from_end);
            }
            return Ok(Visit::Busy);
        };
        let start = self.begin(cell, queue);
        if self.ask.ordered && self.is_blocked(cell) {
            return Ok(Visit::Held);
        }
        // Messages behind a long search must not wait until the search has passed every other queue as well.
        if self.wanted() <= 0 || self.bytes_read >= SLICE_BYTES {
            self.popped.rest += parts.replication.visible_end(queue) - start;
            return Ok(Visit::Held);
        }
        let mut pull = self.pull(topic, queue, start);
        let bytes_before = self.popped.body.len();
        let found = self.scan(cell, &mut pull).and_then(|scan| Some((self.read(&pull, kind, &scan)?, scan)));
        let Some((taken, scan)) = found else {
            // An event is for the next pop then.
            if self.ask.lite.is_some() || (self.popped.count == 0 && self.pieces.is_empty()) {
                return Err(Unpopped::NotResident);
            }
            self.popped.rest += parts.replication.visible_end(queue) - start;
            return Ok(Visit::Held);
        };
        if std::mem::take(&mut self.refused) {
            self.popped.rest += scan.max - start;
            return Ok(Visit::Unreadable);
        }
        self.popped.rest += scan.max - scan.next;
        if taken > 0 {
            parts.tables.offsets.note_pop(&pull.ask.reader, taken, self.popped.body.len() - bytes_before);
            let yields = self.took(cell, kind, pull.ask.offset);
            self.pieces.push(Part { busy, next: scan.next, yields });
        } else if scan.next > pull.ask.offset {
            self.bytes_read += scan.bytes_read;
            self.pieces.push(Part { busy, next: scan.next, yields: Yields::Nothing });
        }
        Ok(Visit::Held)
    }

    /// The queue offset to read at. A reset by an operator that is still to be applied is applied here.
    fn begin(&self, cell: &Arc<Cell>, queue: &Queue) -> i64 {
        let parts = self.parts;
        let (group, topic, queue_id) = (&cell.group, &cell.topic, cell.queue_id);
        if let Some(offset) = parts.tables.offsets.take_reset(group, topic, queue_id) {
            let left = cell.in_flight().clear();
            parts.delivery.pops.store_left(parts, cell, left);
            cell.commit(&parts.tables.offsets, offset);
            return offset;
        }
        let start = position(parts, cell, queue, self.pop.from_end);
        if parts.tables.offsets.committed(group, topic, queue_id).is_none() {
            cell.commit(&parts.tables.offsets, start);
        }
        start
    }

    fn is_blocked(&self, cell: &Arc<Cell>) -> bool {
        let mut in_flight = cell.in_flight();
        let attempt = self.ask.attempt_id.as_deref();
        let until =
            in_flight.order.as_ref().and_then(|it| order::blocked_until(it, attempt, self.popped.pop_ms));
        if let Some(until_ms) = until {
            self.parts.delivery.pops.look_at(cell, &mut in_flight, until_ms);
        }
        until.is_some()
    }

    fn pull(&self, topic: &Arc<Topic>, queue: &Arc<Queue>, offset: i64) -> Pull {
        let ask = PullAsk {
            filter: self.pop.filter.clone(),
            topic_sys_flag: 0,
            group_sys_flag: 0,
            reader: self.parts.tables.offsets.reader(&self.ask.group, topic.name()),
            read_from: (0, 0),
            offset,
            asked: offset,
            max_messages: self.wanted(),
        };
        Pull { queue: queue.clone(), ask }
    }

    /// Searches messages. An offset outside the queue is corrected first. Returns `None` if the disk would have to be
    /// read.
    fn scan(&mut self, cell: &Arc<Cell>, pull: &mut Pull) -> Option<Scan> {
        let scan = Scan::find_messages(&self.parts.pulls, pull, self.source, &mut self.units)?;
        if scan.code != response::PULL_OFFSET_MOVED {
            return Some(scan);
        }
        let (group, topic, queue_id) = (&cell.group, &cell.topic, cell.queue_id);
        tracing::info!(%group, %topic, queue_id, from = pull.ask.offset, to = scan.next, "a pop goes on where the queue is");
        let left = cell.in_flight().clear();
        self.parts.delivery.pops.store_left(self.parts, cell, left);
        cell.commit(&self.parts.tables.offsets, scan.next);
        (pull.ask.offset, pull.ask.asked) = (scan.next, scan.next);
        Scan::find_messages(&self.parts.pulls, pull, self.source, &mut self.units)
    }

    /// Adds the messages that were just read to the answer, and returns their checkpoint. An ordered pop has no checkpoint; the
    /// in-flight queue keeps the offsets of its messages instead.
    fn took(&mut self, cell: &Arc<Cell>, kind: Kind, start: i64) -> Yields {
        let offsets: Vec<i64> = self.units.iter().map(|unit| unit.offset.to_i64()).collect();
        self.popped.count += offsets.len() as i32;
        let times = (self.popped.pop_ms, self.pop.invisible_ms);
        if self.ask.ordered {
            let mut in_flight = cell.in_flight();
            let state =
                order::popped(in_flight.order.as_ref(), self.ask.attempt_id.as_deref(), times, &offsets);
            if self.ask.lite.is_some() {
                count_lite(&state, &offsets, &mut self.popped.lite_deliveries);
                in_flight.order = Some(state);
                // Only the timer tells that messages come back.
                self.parts.delivery.pops.look_at(cell, &mut in_flight, times.0.saturating_add(times.1));
                drop(in_flight);
                cell.commit(&self.parts.tables.offsets, start);
                return Yields::Order;
            }
            let deliveries = Some(order::deliveries(&state));
            in_flight.order = Some(state);
            drop(in_flight);
            self.parts.delivery.pops.order_file.changed();
            self.popped.queues.push(QueueOffsets {
                kind,
                queue_id: cell.queue_id,
                start,
                offsets,
                deliveries,
            });
            cell.commit(&self.parts.tables.offsets, start);
            return Yields::Order;
        }
        let (pop_ms, invisible_ms) = times;
        let checkpoint = Checkpoint {
            broker_name: self.parts.runtime.config.broker_name.clone(),
            group: cell.group.to_string(),
            diffs: offsets.iter().map(|offset| i32::try_from(offset - start).unwrap_or(i32::MAX)).collect(),
            invisible_ms,
            count: offsets.len() as u8,
            pop_ms,
            queue_id: cell.queue_id,
            revive_ms: pop_ms.saturating_add(invisible_ms),
            start_offset: start,
            topic: cell.topic.to_string(),
            ..Checkpoint::default()
        };
        self.popped.queues.push(QueueOffsets {
            kind,
            queue_id: cell.queue_id,
            start,
            offsets,
            deliveries: None,
        });
        Yields::Checkpoint(checkpoint)
    }

    /// Stores the checkpoints of all queues of the pop, in memory or in the log, and advances the in-flight queues.
    fn finish(self) -> Result<Picked, Unpopped> {
        let (parts, now_ms) = (self.parts, self.popped.pop_ms);
        let may_hold = |busy: &Busy, checkpoint: &Checkpoint| {
            parts.delivery.pops.may_hold(parts, busy, checkpoint, now_ms)
        };
        let is_lost = |part: &Part| match &part.yields {
            Yields::Checkpoint(checkpoint) => !may_hold(&part.busy, checkpoint),
            Yields::Order | Yields::Nothing => false,
        };
        // Before a record is made, because that creates topics and marks messages as pending, and a slave would keep both.
        if parts.replication.role.is_slave() && self.pieces.iter().any(is_lost) {
            return Err(Unpopped::NotStored(AppendError::Following.into()));
        }
        let mut records = ReviveRecords::new(&parts.tables.store);
        let mut settled = Vec::with_capacity(self.pieces.len());
        let (mut held, mut ordered) = (Vec::new(), Vec::new());
        for Part { busy, next, yields } in self.pieces {
            match yields {
                Yields::Checkpoint(checkpoint) if may_hold(&busy, &checkpoint) => {
                    held.push((busy, next, checkpoint));
                }
                Yields::Checkpoint(checkpoint) => {
                    let pushed = records.checkpoint(parts, self.popped.revive_queue, &checkpoint, now_ms);
                    pushed.map_err(Unpopped::NotStored)?;
                    settled.push((busy, next, true));
                }
                // The group's offset stays before the messages of an ordered pop. The queue is busy until the pop has ended.
                Yields::Order => ordered.push(busy),
                Yields::Nothing => settled.push((busy, next, false)),
            }
        }
        let end =
            records.append(&parts.tables.store, &parts.delivery, now_ms).map_err(Unpopped::NotStored)?;
        for (busy, next, checkpoint) in held {
            let held =
                HeldCheckpoint { checkpoint, revive_queue: self.popped.revive_queue, after: LogOffset::ZERO };
            parts.delivery.pops.in_flight_queues.held.fetch_add(1, Ordering::Relaxed);
            busy.in_flight().hold(held, next);
            parts.delivery.pops.advance(parts, &busy, now_ms);
        }
        for (busy, next, is_stored) in settled {
            if self.ask.ordered {
                busy.commit(&parts.tables.offsets, next);
                continue;
            }
            busy.in_flight().settle(next, if is_stored { end } else { LogOffset::ZERO });
            parts.delivery.pops.advance(parts, &busy, now_ms);
        }
        let is_over = self.popped.count > 0 || self.popped.rest <= 0;
        Ok(Picked { popped: self.popped, passed_bytes: if is_over { 0 } else { self.bytes_read } })
    }
}

/// Gives new events for the lite queues in which a pop found no messages, if messages are there now. Other pops may have
/// dropped their events for these lite queues, because this pop held the queues.
fn release_lite(delivery: &Delivery, group: &str, found_none: &[Arc<str>]) {
    // Pairs with the exchange in `Cell::occupy`: a pop that failed there saw messages that are read now.
    fence(Ordering::SeqCst);
    for name in found_none {
        delivery.pops.in_flight_queues.drop_idle(group, name, 0);
        delivery.dispatch_lite(Some(group), name);
    }
}

/// Adds the number of earlier deliveries of each message at `offsets` (`PopLiteMessageProcessor.transformOrderCountInfo`).
fn count_lite(state: &OrderState, offsets: &[i64], out: &mut Vec<i32>) {
    let known = state.counts.as_ref();
    let count = |offset| known.and_then(|counts| counts.get(offset)).copied().unwrap_or(0);
    out.extend(offsets.iter().map(count));
}
