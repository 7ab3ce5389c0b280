//! Text formats of pop consumption (`ExtraInfoUtil`): receipt handles, and the offset fields in the response to a pop.
//!
//! | text | form | example |
//! |---|---|---|
//! | handle | `start popTime invisible reviveQueue kind broker queue offset` | `100 1700000000000 60000 3 0 broker-a 2 105` |
//! | `startOffsetInfo` | `kind queue start`, joined by `;` | `0 2 100;1 0 7` |
//! | `msgOffsetInfo` | `kind queue offset,offset`, joined by `;` | `0 2 100,101;1 0 7` |
//! | `orderCountInfo` | `kind qo<queue>%<offset> count` and `kind queue count`, joined by `;` | `0 qo2%100 3;0 2 0` |

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::names::RETRY_PREFIX;

/// Revive queue in the handles of ordered pops, which have no checkpoint (`KeyBuilder.POP_ORDER_REVIVE_QUEUE`).
pub const ORDER_REVIVE_QUEUE: i32 = 999;

/// Kind of the topic that stores a popped message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The topic of the pop request.
    #[default]
    Normal,
    /// The retry topic `%RETRY%<group>_<topic>`.
    RetryV1,
    /// The retry topic `%RETRY%<group>+<topic>`.
    RetryV2,
}

impl Kind {
    /// The kind of a topic, by its name.
    pub fn of(topic: &str) -> Self {
        match topic.strip_prefix(RETRY_PREFIX) {
            Some(rest) if rest.contains('+') => Self::RetryV2,
            Some(_) => Self::RetryV1,
            None => Self::Normal,
        }
    }

    /// Parses the number used in handles.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "0" => Some(Self::Normal),
            "1" => Some(Self::RetryV1),
            "2" => Some(Self::RetryV2),
            _ => None,
        }
    }

    /// The number used in handles.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Name of the topic of this kind, for a topic and a group (`KeyBuilder.buildPopRetryTopic`).
    pub fn topic(self, topic: &str, group: &str) -> String {
        match self {
            Self::Normal => topic.to_owned(),
            Self::RetryV1 => format!("{RETRY_PREFIX}{group}_{topic}"),
            Self::RetryV2 => format!("{RETRY_PREFIX}{group}+{topic}"),
        }
    }
}

/// The topic that a retry topic of `group` belongs to; any other topic name is returned unchanged
/// (`KeyBuilder.parseNormalTopic`).
pub fn normal_topic<'a>(topic: &'a str, group: &str) -> &'a str {
    let rest = topic.strip_prefix(RETRY_PREFIX).and_then(|rest| rest.strip_prefix(group));
    rest.and_then(|rest| rest.strip_prefix(['+', '_'])).unwrap_or(topic)
}

/// The receipt handle with which a client acknowledges a popped message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle<'a> {
    /// First queue offset of the pop.
    pub start_offset: i64,
    /// Time of the pop, ms since the epoch.
    pub pop_ms: i64,
    /// Invisible time of the popped messages, ms.
    pub invisible_ms: i64,
    /// Queue id of the revive topic for the pop's checkpoint.
    pub revive_queue: i32,
    /// Kind of the topic that stores the message.
    pub kind: Kind,
    /// Name of the broker that served the pop.
    pub broker_name: &'a str,
    /// Queue id of the message; absent from old clients.
    pub queue_id: Option<i32>,
    /// Queue offset of the message; absent from old clients.
    pub offset: Option<i64>,
}

impl<'a> Handle<'a> {
    /// Parses a handle; `None` when the text is not one.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(' ');
        Some(Self {
            start_offset: parts.next()?.parse().ok()?,
            pop_ms: parts.next()?.parse().ok()?,
            invisible_ms: parts.next()?.parse().ok()?,
            revive_queue: parts.next()?.parse().ok()?,
            kind: Kind::parse(parts.next()?)?,
            broker_name: parts.next()?,
            queue_id: parts.next().map(str::parse).transpose().ok()?,
            offset: parts.next().map(str::parse).transpose().ok()?,
        })
    }

    /// Whether an ordered pop made the handle. Ordered pops have no checkpoint.
    pub fn is_ordered(&self) -> bool {
        self.revive_queue == ORDER_REVIVE_QUEUE
    }
}

impl std::fmt::Display for Handle<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { start_offset, pop_ms, invisible_ms, revive_queue, kind, broker_name, queue_id, offset } =
            self;
        let kind = kind.number();
        write!(out, "{start_offset} {pop_ms} {invisible_ms} {revive_queue} {kind} {broker_name}")?;
        match (queue_id, offset) {
            (Some(queue_id), Some(offset)) => write!(out, " {queue_id} {offset}"),
            (Some(queue_id), None) => write!(out, " {queue_id}"),
            _ => Ok(()),
        }
    }
}

/// Popped messages of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueOffsets {
    /// Kind of the topic that stores the messages.
    pub kind: Kind,
    /// Queue id of the messages.
    pub queue_id: i32,
    /// Queue offset at which the pop began.
    pub start: i64,
    /// Queue offsets of the messages.
    pub offsets: Vec<i64>,
    /// Delivery counts of an ordered pop. `None` for other pops.
    pub deliveries: Option<Deliveries>,
}

/// Delivery counts of the messages of an ordered pop from one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// Number of earlier deliveries by queue offset.
    pub by_offset: BTreeMap<i64, i32>,
    /// Least number of earlier deliveries, for older clients.
    pub least: i32,
}

/// Text form of [`QueueOffsets`]: fields in the response to a pop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetTexts {
    /// The field `startOffsetInfo`.
    pub starts: String,
    /// The field `msgOffsetInfo`.
    pub offsets: String,
    /// The field `orderCountInfo`.
    pub counts: String,
}

impl OffsetTexts {
    /// Writes the popped messages of all queues.
    pub fn of(queues: &[QueueOffsets]) -> Self {
        let mut texts = Self::default();
        for QueueOffsets { kind, queue_id, start, offsets, deliveries } in queues {
            entry(&mut texts.starts, *kind, format_args!("{queue_id} {start}"));
            entry(&mut texts.offsets, *kind, format_args!("{queue_id} "));
            for (index, offset) in offsets.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                write!(texts.offsets, "{comma}{offset}").expect("text grows");
            }
            let Some(Deliveries { by_offset, least }) = deliveries else { continue };
            for (offset, count) in by_offset {
                entry(&mut texts.counts, *kind, format_args!("qo{queue_id}%{offset} {count}"));
            }
            entry(&mut texts.counts, *kind, format_args!("{queue_id} {least}"));
        }
        texts
    }

    /// Reads the queues with their starts and delivery counts, without the offsets of the messages. Skips entries of
    /// another form.
    pub fn queues(&self) -> Vec<QueueOffsets> {
        let mut queues: Vec<QueueOffsets> = self.starts.split(';').filter_map(start).collect();
        for (kind, queue_id, offset, deliveries) in self.counts.split(';').filter_map(count) {
            let queue = queues.iter_mut().find(|queue| (queue.kind, queue.queue_id) == (kind, queue_id));
            if let Some(queue) = queue {
                queue.deliveries.get_or_insert_default().by_offset.insert(offset, deliveries);
            }
        }
        queues
    }

    /// Reads the number of earlier deliveries of each message of a pop of lite topics: entries `n` or `0 qo0%offset n`
    /// (`ExtraInfoUtil.parseLiteOrderCountInfo`).
    pub fn lite_deliveries(&self) -> Vec<i32> {
        self.counts.split(';').filter_map(|count| count.rsplit(' ').next()?.parse().ok()).collect()
    }
}

/// Reads an entry of `startOffsetInfo`.
fn start(entry: &str) -> Option<QueueOffsets> {
    let (kind, rest) = entry.split_once(' ')?;
    let (queue_id, start) = rest.split_once(' ')?;
    Some(QueueOffsets {
        kind: Kind::parse(kind)?,
        queue_id: queue_id.parse().ok()?,
        start: start.parse().ok()?,
        ..QueueOffsets::default()
    })
}

/// Reads an entry of `orderCountInfo` about one message: kind, queue id, queue offset and number of earlier deliveries.
fn count(entry: &str) -> Option<(Kind, i32, i64, i32)> {
    let (kind, rest) = entry.split_once(" qo")?;
    let (queue_id, rest) = rest.split_once('%')?;
    let (offset, count) = rest.split_once(' ')?;
    Some((Kind::parse(kind)?, queue_id.parse().ok()?, offset.parse().ok()?, count.parse().ok()?))
}

fn entry(out: &mut String, kind: Kind, rest: std::fmt::Arguments<'_>) {
    let separator = if out.is_empty() { "" } else { ";" };
    write!(out, "{separator}{} {rest}", kind.number()).expect("text grows");
}

#[cfg(test)]
mod tests;
