//! Positions of popped messages in their queues, in the form of handles (`ExtraInfoUtil`).

use wire::pop::{Kind, OffsetTexts};
use wire::properties::{self, key};
use wire::record::RecordView;

/// Position of a popped message in its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Queue offset at which the pop began.
    pub start_offset: i64,
    pub queue_id: i32,
    pub offset: i64,
    /// Number of earlier deliveries. `None` for the number in the message's record.
    pub count: Option<i32>,
}

impl Place {
    /// Returns the position of a message, or `None` if the pop has no start offset of its queue.
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

    /// Returns the position of a message of a lite topic with `count` earlier deliveries, or `None` for another
    /// message. The queue of a lite topic has the id 0, and numbers of its own
    /// (`MQClientAPIImpl.processPopLiteResponse`).
    pub fn in_lite_topic(record: &RecordView<'_>, count: Option<i32>) -> Option<Self> {
        let [queues, offsets] = [key::INNER_MULTI_DISPATCH, key::INNER_MULTI_QUEUE_OFFSET]
            .map(|name| properties::get_str(record.properties(), name).unwrap_or_default());
        if queues.is_empty() || queues.contains(',') {
            return None;
        }
        Some(Self { start_offset: 0, queue_id: 0, offset: offsets.parse().ok()?, count })
    }
}

/// Returns the number of earlier deliveries of each message of a pop of lite topics, in order. Empty if a number is
/// missing, because then the others cannot be assigned (`ExtraInfoUtil.parseLiteOrderCountInfo`).
pub fn lite_counts(texts: &OffsetTexts, body: &[u8]) -> Vec<i32> {
    let (mut messages, mut at) = (0, 0);
    while let Ok(record) = RecordView::parse(&body[at..]) {
        (messages, at) = (messages + 1, at + record.size());
    }
    // `n`, or `0 qo0%offset n`.
    let counts = texts.counts.split(';').filter_map(|count| count.rsplit(' ').next()?.parse().ok());
    Some(counts.collect()).filter(|counts: &Vec<i32>| counts.len() == messages).unwrap_or_default()
}

/// Returns the number of earlier deliveries of a message of an ordered pop, or `None` for any other pop.
fn count(texts: &OffsetTexts, queue_id: i32, offset: i64) -> Option<i32> {
    let prefix = format!("{} qo{queue_id}%{offset} ", Kind::Normal.number());
    texts.counts.split(';').find_map(|entry| entry.strip_prefix(&prefix))?.parse().ok()
}
