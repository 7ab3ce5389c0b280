//! Where popped messages are in their queues, as handles say it (`ExtraInfoUtil`).

use wire::pop::{Kind, OffsetTexts};
use wire::properties::{self, key};
use wire::record::RecordView;

/// Where a popped message is in its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the pop began in the queue.
    pub start_offset: i64,
    pub queue_id: i32,
    pub offset: i64,
    /// How often the message was delivered before; `None` for as often as its record says.
    pub count: Option<i32>,
}

impl Place {
    /// The place of a message; `None` when the pop does not say where its queue began.
    pub fn of(record: &RecordView<'_>, texts: &OffsetTexts) -> Option<Self> {
        let (queue_id, offset) = (record.queue_id(), record.raw_queue_offset());
        let prefix = format!("{} {queue_id} ", Kind::of(record.topic_str()?).number());
        let start = texts.starts.split(';').find_map(|entry| entry.strip_prefix(&prefix))?;
        Some(Self {
            start_offset: start.parse().ok()?,
            queue_id,
            offset,
            count: count(texts, queue_id, offset),
        })
    }

    /// The place of a message of a lite topic that was delivered `count` times before; `None` for one that no lite topic has. The queue
    /// of a lite topic has the id 0, and numbers of its own (`MQClientAPIImpl.processPopLiteResponse`).
    pub fn in_lite_topic(record: &RecordView<'_>, count: Option<i32>) -> Option<Self> {
        let [queues, offsets] = [key::INNER_MULTI_DISPATCH, key::INNER_MULTI_QUEUE_OFFSET]
            .map(|name| properties::get_str(record.properties(), name).unwrap_or_default());
        if queues.is_empty() || queues.contains(',') {
            return None;
        }
        Some(Self { start_offset: 0, queue_id: 0, offset: offsets.parse().ok()?, count })
    }
}

/// How often the messages of a pop of lite topics were delivered before, in their order; empty when that is not said of each of them, which
/// leaves open whom it is said of (`ExtraInfoUtil.parseLiteOrderCountInfo`).
pub fn lite_counts(texts: &OffsetTexts, body: &[u8]) -> Vec<i32> {
    let (mut messages, mut at) = (0, 0);
    while let Ok(record) = RecordView::parse(&body[at..]) {
        (messages, at) = (messages + 1, at + record.size());
    }
    // `n`, or `0 qo0%offset n`.
    let counts = texts.counts.split(';').filter_map(|count| count.rsplit(' ').next()?.parse().ok());
    Some(counts.collect()).filter(|counts: &Vec<i32>| counts.len() == messages).unwrap_or_default()
}

/// How often a message of an ordered pop was delivered before; `None` for any other pop.
fn count(texts: &OffsetTexts, queue_id: i32, offset: i64) -> Option<i32> {
    let prefix = format!("{} qo{queue_id}%{offset} ", Kind::Normal.number());
    texts.counts.split(';').find_map(|entry| entry.strip_prefix(&prefix))?.parse().ok()
}
