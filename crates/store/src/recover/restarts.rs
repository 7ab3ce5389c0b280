//! Where the numbers of queues begin anew in the log.

use std::collections::HashMap;
use std::ops::Range;

/// A queue by topic and id.
type Key<'a> = (&'a str, i32);

/// Where the numbers of queues begin anew: their topic was deleted and made again by a broker that leaves no tombstone.
/// What lies before is of a topic that is gone.
#[derive(Debug, Default)]
pub(crate) struct Restarts(HashMap<Box<str>, HashMap<i32, Restart>>);

#[derive(Debug)]
struct Restart {
    /// Position of the message that is the first again.
    at: u64,
    /// The number that follows.
    next: u64,
    /// Records seen of the numbers that began anew.
    records: u64,
}

impl Restarts {
    /// Takes over what another reading found, where one record alone, whose number may be damaged, does not say so.
    /// False when there was nothing.
    pub(crate) fn learn(&mut self, found: Self) -> bool {
        let is_sure = |queues: &HashMap<i32, Restart>| queues.values().map(|it| it.records).sum::<u64>() > 1;
        let mut is_any = false;
        for (topic, queues) in found.0.into_iter().filter(|(_, queues)| is_sure(queues)) {
            self.0.entry(topic).or_default().extend(queues);
            is_any = true;
        }
        is_any
    }

    /// Position of the record with which a queue begins anew, as far as is known.
    pub(crate) fn begin_of(&self, (topic, queue_id): Key<'_>) -> Option<u64> {
        Some(self.0.get(topic)?.get(&queue_id)?.at)
    }

    /// Takes a record of a queue into account that has these numbers, where `next` follows all before it. Whether other
    /// records have these numbers.
    pub(crate) fn repeats(
        &mut self,
        (topic, queue_id): Key<'_>,
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
            // The numbers before go on: what looked like a beginning was a damaged record.
            queues.remove(&queue_id);
        }
        repeats
    }
}
