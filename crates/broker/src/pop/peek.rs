//! Operations that read a topic and pop no messages (`PeekMessageProcessor`, `PollingInfoProcessor`).

use std::sync::Arc;

use store::{CqUnit, ReadError};
use wire::codes::response;
use wire::pop::Kind;

use super::pick::{SLICE_BYTES, position};
use super::request::{self, PopTarget};
use crate::Result;
use crate::clients::Subscription;
use crate::long_polling::PullAsk;
use crate::parts::{PopParts, Runtime, Tables};
use crate::pull::{Pull, Scan, Source, without};
use crate::topics::Topic;

/// Most messages that a 200052 `PEEK_MESSAGE` returns.
const COUNT_MAX: i32 = 32;

/// Result of a peek.
pub(crate) struct Peeked {
    /// The records, without separators.
    pub body: Vec<u8>,
    /// Number of messages in the examined queues that the group has not popped yet.
    pub rest: i64,
}

/// Reads messages without popping them. May wait for the disk.
///
/// # Errors
/// The refusal, with RocketMQ's code, of `PeekMessageProcessor.processRequest`.
pub(crate) fn peek(parts: &PopParts, target: &PopTarget<'_>, count_max: i32) -> Result<Peeked> {
    let (topic, group) = request::peeked(&parts.tables, &parts.runtime, target)?;
    let queue_id = target.queue_id;
    let mut look = Look { parts, group, wanted: count_max.min(COUNT_MAX), rest: 0, body: Vec::new() };
    let dice = parts.identity.spread(100);
    let kind = if parts.runtime.config.pop.retry_v2 { Kind::RetryV2 } else { Kind::RetryV1 };
    let retries = parts.tables.topics.find(&kind.topic(topic.name(), &look.group));
    let retries_first = dice % 5 == 0;
    if retries_first && let Some(retries) = &retries {
        look.visit_all(retries, dice);
    }
    if queue_id < 0 {
        look.visit_all(&topic, dice);
    } else {
        look.visit(&topic, queue_id);
    }
    if !retries_first
        && look.wanted > 0
        && let Some(retries) = &retries
    {
        look.visit_all(retries, dice);
    }
    Ok(Peeked { body: look.body, rest: look.rest })
}

/// Returns the number of a group's pops that wait for a queue.
///
/// # Errors
/// The refusal, with RocketMQ's code, of `PollingInfoProcessor.processRequest`.
pub(crate) fn polling(tables: &Tables, runtime: &Runtime, target: &PopTarget<'_>) -> Result<usize> {
    let (topic, group) = request::peeked(tables, runtime, target)?;
    Ok(topic.waiters.count_of(&group, target.queue_id.max(-1)))
}

struct Look<'a> {
    parts: &'a PopParts,
    group: Arc<str>,
    wanted: i32,
    rest: i64,
    body: Vec<u8>,
}

impl Look<'_> {
    fn visit_all(&mut self, topic: &Arc<Topic>, dice: i32) {
        let count = topic.config.read_queue_nums;
        (0..count).for_each(|index| self.visit(topic, (dice % count + index) % count));
    }

    fn visit(&mut self, topic: &Arc<Topic>, queue_id: i32) {
        let parts = self.parts;
        let Some(queue) = topic.queue(&parts.tables.store, queue_id) else { return };
        let cell = parts.delivery.pops.in_flight_queues.make(&self.group, topic.name(), queue_id);
        let min = queue.index.min().to_i64();
        let end = parts.replication.visible_end(queue);
        let offset = position(parts, &cell, queue, false).clamp(min, end.max(min));
        self.rest += end - offset;
        if self.wanted <= 0 {
            return;
        }
        let Ok(filter) = Subscription::parse_typed(topic.name(), "*", "", 0) else { return };
        let ask = PullAsk {
            filter: Arc::new(filter),
            topic_sys_flag: 0,
            group_sys_flag: 0,
            reader: parts.tables.offsets.reader(&self.group, topic.name()),
            read_from: (0, 0),
            offset,
            asked: offset,
            max_messages: self.wanted,
        };
        self.read(Pull { queue: queue.clone(), ask });
    }

    /// Reads messages from the offset of `pull` on. Skips damaged messages, at most [`SLICE_BYTES`] of them.
    fn read(&mut self, mut pull: Pull) {
        let parts = self.parts;
        let (mut units, mut passed): (Vec<CqUnit>, u64) = (Vec::new(), 0);
        while passed < SLICE_BYTES
            && let Some(scan) = Scan::find_messages(&parts.pulls, &pull, Source::Disk, &mut units)
        {
            passed += scan.bytes_read;
            while scan.code == response::SUCCESS && !units.is_empty() {
                let start = self.body.len();
                match parts.tables.store.read_messages_blocking(&pull.queue.index, &units, &mut self.body) {
                    Ok(()) => {
                        self.wanted -= units.len() as i32;
                        return;
                    }
                    Err(ReadError::Damaged(damaged)) => {
                        self.body.truncate(start);
                        passed += damaged.iter().map(|it| u64::from(units[it.index].unit.size)).sum::<u64>();
                        units = without(&units, &damaged);
                    }
                    Err(error) => {
                        self.body.truncate(start);
                        let (topic, offset) = (pull.queue.index.topic(), pull.ask.offset);
                        tracing::error!(topic, offset, %error, "messages cannot be looked at");
                        return;
                    }
                }
            }
            if scan.next <= pull.ask.offset {
                return;
            }
            (pull.ask.offset, pull.ask.asked) = (scan.next, scan.next);
        }
    }
}
