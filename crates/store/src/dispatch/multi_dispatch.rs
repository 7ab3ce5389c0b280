//! The further queues of a record (multi-dispatch), as its properties name them; see [`crate::batch`].

use wire::names::{LIGHT_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX};
use wire::properties::{self, key};
use wire::record::RecordView;

/// The queues that a message names, as topic and queue id; `None` for ordinary messages.
pub(crate) fn names<'a>(
    topic: &str,
    queue_id: i32,
    stored: &'a [u8],
) -> Option<impl Iterator<Item = (&'a str, i32)>> {
    let kept =
        topic.starts_with(RETRY_PREFIX) || topic.starts_with(SYSTEM_TOPIC_PREFIX) || topic == SCHEDULE_TOPIC;
    let names =
        properties::get_str(stored, key::INNER_MULTI_DISPATCH).filter(|names| !names.is_empty() && !kept)?;
    Some(names.split(',').map(move |name| (name, if name.starts_with(LIGHT_PREFIX) { 0 } else { queue_id })))
}

/// The further queues of a stored record and its queue offsets there. Empty when the numbers of offsets and names differ.
pub(crate) fn places<'a>(view: &RecordView<'a>) -> Vec<(&'a str, i32, u64)> {
    let stored = view.properties();
    let offsets = properties::get_str(stored, key::INNER_MULTI_QUEUE_OFFSET);
    let (Some(topic), Some(offsets)) = (view.topic_str(), offsets) else { return Vec::new() };
    let Some(names) = names(topic, view.queue_id(), stored) else { return Vec::new() };
    let names: Vec<_> = names.collect();
    let offsets: Vec<Option<u64>> = offsets.split(',').map(|offset| offset.parse().ok()).collect();
    if names.len() != offsets.len() {
        return Vec::new();
    }
    let place = |((topic, queue_id), offset): ((&'a str, i32), Option<u64>)| Some((topic, queue_id, offset?));
    names.into_iter().zip(offsets).filter_map(place).collect()
}
