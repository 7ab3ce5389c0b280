//! Finds where queue offsets begin at 0 again in the log.

use std::collections::HashMap;
use std::ops::Range;

/// A queue by topic and queue id.
type QueueKey<'a> = (&'a str, i32);

/// Queues whose offsets restart at 0 in the log, because a broker that leaves no tombstone deleted and re-created
/// their topic. Earlier records of such a queue belong to the deleted topic.
#[derive(Debug, Default)]
pub(crate) struct Restarts(HashMap<Box<str>, HashMap<i32, Restart>>);

#[derive(Debug)]
struct Restart {
    /// Log position of the first message of the re-created queue.
    at: u64,
    /// Next expected queue offset.
    next: u64,
    /// Number of records seen of the re-created queue.
    records: u64,
}

impl Restarts {
    /// Takes over the topics of another scan. Skips topics with a single such record, because its queue offset may be
    /// damaged. Returns whether any topic is new.
    pub(crate) fn learn(&mut self, found: Self) -> bool {
        let is_sure = |queues: &HashMap<i32, Restart>| queues.values().map(|it| it.records).sum::<u64>() > 1;
        let mut is_any = false;
        for (topic, queues) in found.0.into_iter().filter(|(_, queues)| is_sure(queues)) {
            self.0.entry(topic).or_default().extend(queues);
            is_any = true;
        }
        is_any
    }

    /// Log position of the record with which the re-created queue begins, if it was re-created.
    pub(crate) fn begin_of(&self, (topic, queue_id): QueueKey<'_>) -> Option<u64> {
        Some(self.0.get(topic)?.get(&queue_id)?.at)
    }

    /// Takes note of a record of a queue at log position `at`, where `next` is the queue's next offset. Returns whether
    /// earlier records of the queue have the same queue offsets.
    pub(crate) fn repeats(
        &mut self,
        (topic, queue_id): QueueKey<'_>,
        numbers: Range<u64>,
        at: u64,
        next: u64,
    ) -> bool {
        let repeats = numbers.end <= next;
        if repeats && numbers.start == 0 {
            let restart = Restart { at, next: numbers.end, records: 1 };
            self.0.entry(topic.into()).or_default().insert(queue_id, restart);
            return true;
        }
        let Some(queues) = self.0.get_mut(topic) else { return repeats };
        let Some(restart) = queues.get_mut(&queue_id) else { return repeats };
        if repeats || restart.next == numbers.start {
            (restart.next, restart.records) = (numbers.end, restart.records + 1);
        } else {
            // The old queue offsets continue: the record at queue offset 0 was damaged.
            queues.remove(&queue_id);
        }
        repeats
    }
}
