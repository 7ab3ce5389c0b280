//! Which messages a pop returns (`PopMessageProcessor.popMsgFromQueue`).
//!
//! Each queue is popped by one request at a time; a queue that is taken is passed over. The checkpoints of all queues
//! of a pop are appended together, and only then the lanes move: a pop that cannot be stored has returned nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Numbered, Read, ReadError};
use wire::body::Checkpoint;
use wire::codes::response;
use wire::pop::{Handle, Kind, ORDER_REVIVE_QUEUE, OffsetTexts};
use wire::properties::{self, key};
use wire::record::{self, Fields, Placement, RecordView};

use super::lane::Held;
use super::lanes::{Busy, Cell};
use super::notes::Notes;
use super::order;
use super::request::{Ask, Pop};
use crate::broker::{Broker, PutError};
use crate::pull::{Pull, Scan, Source, without};
use crate::topics::{Queue, Topic};

/// What a pop returns.
#[derive(Debug, Default)]
pub(super) struct Popped {
    pub texts: OffsetTexts,
    /// The records.
    pub body: Vec<u8>,
    /// Number of records.
    pub count: i32,
    /// Messages left in the queues looked at.
    pub rest: i64,
    pub pop_ms: i64,
    pub revive_queue: i32,
}

/// Why nothing is returned.
pub(super) enum Unpopped {
    /// The messages are not in memory, and the disk may not be waited for.
    NotResident,
    /// The checkpoints cannot be stored.
    NotStored(PutError),
}

/// The part of a pop that comes from one queue.
struct Part {
    busy: Busy,
    next: i64,
    /// `None` when nothing matched, or the pop is ordered.
    checkpoint: Option<Checkpoint>,
}

struct Picking<'a> {
    broker: &'a Broker,
    ask: &'a Ask,
    pop: &'a Pop,
    source: Source,
    popped: Popped,
    parts: Vec<Part>,
    units: Vec<Numbered>,
    /// The disk refused what the last read asked for; it may not tomorrow.
    refused: bool,
}

/// Pops.
pub(super) fn pick(broker: &Broker, ask: &Ask, pop: &Pop, source: Source) -> Result<Popped, Unpopped> {
    let settings = &broker.config.pop;
    // Two numbers without a common factor: every value of a hundred comes equally often, in no order.
    let dice = broker.spread(100) * 37 % 100;
    let revive_queue =
        if ask.ordered { ORDER_REVIVE_QUEUE } else { broker.pops.next_revive_queue(settings.revive_queues) };
    let popped = Popped { pop_ms: broker.now_ms(), revive_queue, ..Popped::default() };
    let mut picking =
        Picking { broker, ask, pop, source, popped, parts: Vec::new(), units: Vec::new(), refused: false };
    let retries_first = dice < settings.retry_probability;
    if retries_first {
        picking.visit_retries(dice)?;
    }
    match ask.queue_id {
        queue_id if queue_id >= 0 => picking.visit(&ask.topic, Kind::Normal, queue_id)?,
        _ => picking.visit_all(&ask.topic, Kind::Normal, dice)?,
    }
    if !retries_first && picking.wanted() > 0 {
        picking.visit_retries(dice)?;
    }
    picking.finish()
}

/// The retry topic a pop looks at (`KeyBuilder.buildPopRetryTopic`).
fn retry_kind(broker: &Broker, dice: i32) -> Kind {
    let settings = &broker.config.pop;
    let older = !settings.retry_v2 || (settings.retry_v1_too && dice % 2 == 0);
    if older { Kind::RetryV1 } else { Kind::RetryV2 }
}

/// Where the next pop of a queue reads. A group without an offset begins where `from_end` says.
pub(super) fn position(broker: &Broker, cell: &Cell, queue: &Queue, from_end: bool) -> i64 {
    // Under the lane's lock, as it moves the group's offset when pops in flight are settled.
    let lane = cell.lane();
    let committed = broker.offsets.committed(&cell.group, &cell.topic, cell.queue_id);
    lane.position(committed.unwrap_or_else(|| first_position(broker, cell, queue, from_end)))
}

/// `PopMessageProcessor.getInitOffset`.
fn first_position(broker: &Broker, cell: &Cell, queue: &Queue, from_end: bool) -> i64 {
    if !from_end || Kind::of(&cell.topic) != Kind::Normal {
        return queue.log.min().to_i64();
    }
    if broker.config.pop.start_in_memory && broker.is_young(&cell.topic, cell.queue_id) {
        return 0;
    }
    // The last message, so that a group that begins now is not empty.
    (broker.visible_end(queue) - 1).max(0)
}

impl Picking<'_> {
    fn wanted(&self) -> i32 {
        self.pop.count_max - self.popped.count
    }

    fn visit_retries(&mut self, dice: i32) -> Result<(), Unpopped> {
        if self.ask.ordered {
            return Ok(());
        }
        let kind = retry_kind(self.broker, dice);
        let name = kind.topic(self.ask.topic.name(), &self.ask.group);
        match self.broker.topics.find(&name) {
            Some(topic) => self.visit_all(&topic, kind, dice),
            None => Ok(()),
        }
    }

    fn visit_all(&mut self, topic: &Arc<Topic>, kind: Kind, dice: i32) -> Result<(), Unpopped> {
        let count = topic.config.read_queue_nums;
        (0..count).try_for_each(|index| self.visit(topic, kind, (dice % count + index) % count))
    }

    fn visit(&mut self, topic: &Arc<Topic>, kind: Kind, queue_id: i32) -> Result<(), Unpopped> {
        let broker = self.broker;
        let Some(queue) = topic.queue(&broker.store, queue_id) else { return Ok(()) };
        let cell = broker.pops.lanes.make(&self.ask.group, topic.name(), queue_id);
        let from_end = self.pop.from_end;
        let Some(busy) = cell.occupy() else {
            if !self.ask.ordered {
                self.popped.rest += broker.visible_end(queue) - position(broker, &cell, queue, from_end);
            }
            return Ok(());
        };
        let start = self.begin(&cell, queue);
        if self.ask.ordered && self.is_blocked(&cell) {
            return Ok(());
        }
        if self.wanted() <= 0 {
            self.popped.rest += broker.visible_end(queue) - start;
            return Ok(());
        }
        let mut pull = self.pull(topic, queue, start);
        let found = self.scan(&cell, &mut pull).and_then(|scan| Some((self.read(&pull, kind, &scan)?, scan)));
        let Some((taken, scan)) = found else {
            if self.popped.count == 0 && self.parts.is_empty() {
                return Err(Unpopped::NotResident);
            }
            self.popped.rest += broker.visible_end(queue) - start;
            return Ok(());
        };
        if std::mem::take(&mut self.refused) {
            self.popped.rest += scan.max - start;
            return Ok(());
        }
        self.popped.rest += scan.max - scan.next;
        if taken > 0 {
            let checkpoint = self.took(&cell, kind, pull.offset);
            self.parts.push(Part { busy, next: scan.next, checkpoint });
        } else if scan.next > pull.offset {
            self.parts.push(Part { busy, next: scan.next, checkpoint: None });
        }
        Ok(())
    }

    /// Where to read; an operator's reset counts from now on.
    fn begin(&self, cell: &Arc<Cell>, queue: &Queue) -> i64 {
        let broker = self.broker;
        let (group, topic, queue_id) = (&cell.group, &cell.topic, cell.queue_id);
        if let Some(offset) = broker.offsets.take_reset(group, topic, queue_id) {
            let left = cell.lane().clear();
            broker.pops.store_left(broker, cell, left);
            broker.offsets.commit(group, topic, queue_id, offset);
            return offset;
        }
        let start = position(broker, cell, queue, self.pop.from_end);
        if broker.offsets.committed(group, topic, queue_id).is_none() {
            broker.offsets.commit(group, topic, queue_id, start);
        }
        start
    }

    fn is_blocked(&self, cell: &Arc<Cell>) -> bool {
        let mut lane = cell.lane();
        let attempt = self.ask.attempt_id.as_deref();
        let until = lane.order.as_ref().and_then(|it| order::blocked_until(it, attempt, self.popped.pop_ms));
        if let Some(until_ms) = until {
            self.broker.pops.look_at(cell, &mut lane, until_ms);
        }
        until.is_some()
    }

    fn pull(&self, topic: &Arc<Topic>, queue: &Arc<Queue>, offset: i64) -> Pull {
        Pull {
            topic: topic.clone(),
            queue: queue.clone(),
            filter: self.pop.filter.clone(),
            group_sys_flag: 0,
            reader: self.broker.offsets.reader(&self.ask.group, topic.name()),
            read_from: (0, 0),
            opaque: self.ask.opaque,
            encoding: self.ask.encoding,
            offset,
            asked: offset,
            max_messages: self.wanted(),
        }
    }

    /// Looks for messages; an offset outside of the queue is corrected first. `None` when the disk would have to be asked.
    fn scan(&mut self, cell: &Arc<Cell>, pull: &mut Pull) -> Option<Scan> {
        let scan = Scan::of(self.broker, pull, self.source, &mut self.units)?;
        if scan.code != response::PULL_OFFSET_MOVED {
            return Some(scan);
        }
        let (group, topic, queue_id) = (&cell.group, &cell.topic, cell.queue_id);
        tracing::info!(%group, %topic, queue_id, from = pull.offset, to = scan.next, "a pop goes on where the queue is");
        let left = cell.lane().clear();
        self.broker.pops.store_left(self.broker, cell, left);
        self.broker.offsets.commit(group, topic, queue_id, scan.next);
        (pull.offset, pull.asked) = (scan.next, scan.next);
        Scan::of(self.broker, pull, self.source, &mut self.units)
    }

    /// Reads what the scan found into the body; answers the number of messages. `None` when the disk would have to be asked.
    fn read(&mut self, pull: &Pull, kind: Kind, scan: &Scan) -> Option<usize> {
        if scan.code != response::SUCCESS {
            self.units.clear();
        }
        let recode = kind != Kind::Normal && !self.broker.config.pop.actual_retry_topic;
        let (store, queue) = (&self.broker.store, &pull.queue.log);
        let mut records = Vec::new();
        while !self.units.is_empty() {
            let start = self.popped.body.len();
            let target = if recode { &mut records } else { &mut self.popped.body };
            let read = match self.source {
                Source::Memory => store.read_messages(queue, &self.units, target),
                Source::Disk => store.read_messages_blocking(queue, &self.units, target).map(|()| Read::Done),
            };
            match read {
                Ok(Read::Done) => break,
                Ok(Read::NotResident) => {
                    self.popped.body.truncate(start);
                    return None;
                }
                Err(error) => {
                    self.popped.body.truncate(start);
                    records.clear();
                    self.units = readable(&self.units, &error);
                    self.refused = matches!(error, ReadError::Io(_));
                    tracing::error!(topic = pull.topic.name(), offset = pull.offset, %error, "messages cannot be popped");
                }
            }
        }
        if recode {
            self.recode(&records, kind, pull.offset);
        }
        Some(self.units.len())
    }

    /// Writes messages of a retry topic as ones of the topic asked for, with their handles.
    fn recode(&mut self, mut records: &[u8], kind: Kind, start_offset: i64) {
        while let Ok(record) = RecordView::parse(records) {
            let offset = record.raw_queue_offset();
            let handle = Handle {
                start_offset,
                pop_ms: self.popped.pop_ms,
                invisible_ms: self.pop.invisible_ms,
                revive_queue: self.popped.revive_queue,
                kind,
                broker_name: &self.broker.config.broker_name,
                queue_id: Some(record.queue_id()),
                offset: Some(offset),
            };
            append_recoded(&mut self.popped.body, &record, self.ask.topic.name(), &handle.to_string());
            records = &records[record.size()..];
        }
    }

    /// Notes the messages that were just read.
    fn took(&mut self, cell: &Arc<Cell>, kind: Kind, start: i64) -> Option<Checkpoint> {
        let offsets: Vec<i64> = self.units.iter().map(|unit| unit.offset.to_i64()).collect();
        self.popped.count += offsets.len() as i32;
        self.popped.texts.add(kind, cell.queue_id, start, offsets.iter().copied());
        let times = (self.popped.pop_ms, self.pop.invisible_ms);
        if self.ask.ordered {
            let mut lane = cell.lane();
            let state = order::popped(lane.order.as_ref(), self.ask.attempt_id.as_deref(), times, &offsets);
            let (counts, least) = order::counts(&state);
            lane.order = Some(state);
            drop(lane);
            self.broker.pops.states.changed();
            self.popped.texts.count(kind, cell.queue_id, counts.into_iter(), least);
            self.broker.offsets.commit(&cell.group, &cell.topic, cell.queue_id, start);
            return None;
        }
        let (pop_ms, invisible_ms) = times;
        Some(Checkpoint {
            broker_name: self.broker.config.broker_name.clone(),
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
        })
    }

    /// Stores the checkpoints and moves the lanes.
    fn finish(self) -> Result<Popped, Unpopped> {
        let (broker, now_ms) = (self.broker, self.popped.pop_ms);
        let mut notes = Notes::new(&broker.store);
        let mut settled = Vec::with_capacity(self.parts.len());
        let mut held = Vec::new();
        for Part { busy, next, checkpoint } in self.parts {
            match checkpoint {
                Some(checkpoint) if self.broker.pops.may_hold(broker, &busy, &checkpoint, now_ms) => {
                    held.push((busy, next, checkpoint));
                }
                Some(checkpoint) => {
                    let pushed = notes.checkpoint(broker, self.popped.revive_queue, &checkpoint, now_ms);
                    pushed.map_err(Unpopped::NotStored)?;
                    settled.push((busy, next, true));
                }
                None => settled.push((busy, next, false)),
            }
        }
        let end = notes.append(broker, now_ms).map_err(Unpopped::NotStored)?;
        for (busy, next, checkpoint) in held {
            let held = Held { checkpoint, revive_queue: self.popped.revive_queue };
            broker.pops.lanes.held.fetch_add(1, Ordering::Relaxed);
            busy.lane().hold(held, next);
            broker.pops.advance(broker, &busy, now_ms);
        }
        for (busy, next, is_stored) in settled {
            if self.ask.ordered {
                // What was returned stays before the group's offset; what did not match is passed.
                if busy.lane().order.as_ref().is_none_or(|order| order.pop_ms != now_ms) {
                    broker.offsets.commit(&busy.group, &busy.topic, busy.queue_id, next);
                }
                continue;
            }
            busy.lane().settle(next, if is_stored { end } else { wire::units::LogOffset::ZERO });
            broker.pops.advance(broker, &busy, now_ms);
        }
        Ok(self.popped)
    }
}

/// The messages that are left when some cannot be read.
fn readable(units: &[Numbered], error: &ReadError) -> Vec<Numbered> {
    match error {
        ReadError::Damaged(damaged) => without(units, damaged),
        // The log was deleted below the reader, or the disk refuses that range.
        _ => Vec::new(),
    }
}

/// Appends a record with another topic and a handle.
fn append_recoded(out: &mut Vec<u8>, record: &RecordView<'_>, topic: &str, handle: &str) {
    let mut text = Vec::new();
    let known = properties::get(record.properties(), key::POP_CK);
    properties::rewrite(
        &mut text,
        record.properties(),
        &[],
        &[(key::POP_CK, known.unwrap_or(handle.as_bytes()))],
    );
    let fields = Fields {
        topic,
        queue_id: record.queue_id(),
        flag: record.flag(),
        sys_flag: record.sys_flag(),
        born_timestamp: record.born_timestamp(),
        born_host: record.born_host(),
        store_host: record.store_host(),
        reconsume_times: record.reconsume_times(),
        prepared_transaction_offset: record.prepared_transaction_offset(),
        body: record.body(),
        properties: &text,
        crc_property: false,
    };
    let start = out.len();
    if let Err(error) = record::encode(&fields, out) {
        tracing::error!(topic, %error, "a message that comes back has no room for its handle and is not returned");
        return;
    }
    let placement = Placement {
        queue_offset: record.queue_offset(),
        log_offset: record.log_offset().unwrap_or_default(),
        store_timestamp: record.store_timestamp(),
    };
    record::place(&mut out[start..], &placement);
}
