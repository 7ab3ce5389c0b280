//! Positions of popped messages in their queues, for their handles.

use wire::pop::{Kind, QueueOffsets};
use wire::properties::{self, key};
use wire::record::RecordView;

/// Position of a popped message in its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Queue offset at which the pop began.
    pub start_offset: i64,
    pub queue_id: i32,
    pub offset: i64,
    /// Number of earlier deliveries. `None` for the number in the message's record.
    pub count: Option<i32>,
}

impl QueuePosition {
    /// Returns the position of a message, or `None` if the pop has no start offset of its queue.
    pub fn of(record: &RecordView<'_>, queues: &[QueueOffsets]) -> Option<Self> {
        let (queue_id, offset) = (record.queue_id(), record.raw_queue_offset());
        let kind = Kind::of(record.topic_str()?);
        let queue = queues.iter().find(|queue| (queue.kind, queue.queue_id) == (kind, queue_id))?;
        let count = queue.deliveries.as_ref().and_then(|it| it.by_offset.get(&offset).copied());
        Some(Self { start_offset: queue.start, queue_id, offset, count })
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
/// missing, because then the others cannot be assigned.
pub fn lite_deliveries(deliveries: Vec<i32>, body: &[u8]) -> Vec<i32> {
    // The messages of other pops are not counted.
    if deliveries.is_empty() {
        return deliveries;
    }
    let (mut messages, mut at) = (0, 0);
    while let Ok(record) = RecordView::parse(&body[at..]) {
        (messages, at) = (messages + 1, at + record.size());
    }
    if deliveries.len() == messages { deliveries } else { Vec::new() }
}
