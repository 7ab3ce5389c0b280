//! Messages that the broker makes itself, and wake-ups of requests that wait at grown queues.

use std::sync::Arc;

use store::{AppendError, Batch, Message};
use wire::units::LogOffset;

use super::Delivery;
use crate::refusal::PutError;
use crate::topics::Queue;

impl Delivery {
    /// Stores a message that the broker made itself and wakes the consumers that wait for it.
    pub(crate) fn put(
        self: &Arc<Self>,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
    ) -> Result<store::AppendResult, PutError> {
        let now_ms = self.clock.now_ms();
        let queue = self.tables.put_queue(topic, queue_id, now_ms)?;
        let mut batch: Batch = self.tables.store.batch();
        batch.push(&queue.index, message)?;
        self.append_own(&mut batch, now_ms)?;
        let mut queues = self.tables.further_queues(&batch);
        queues.push(queue);
        self.grown(batch.end(), queues);
        Ok(batch.append_result(0))
    }

    /// Appends messages that the broker made itself for consumers, and counts their bytes.
    pub(crate) fn append_own(&self, batch: &mut Batch, now_ms: i64) -> Result<(), AppendError> {
        self.tables.store.append(batch, now_ms)?;
        self.figures.stats.count_own(batch);
        Ok(())
    }

    /// Wakes the consumers that wait at queues that grew by an append that ended at `end`, as soon as they may see the messages.
    pub(crate) fn grown(self: &Arc<Self>, end: LogOffset, mut queues: Vec<Arc<Queue>>) {
        for queue in queues.iter_mut().filter(|queue| !queue.lite) {
            // No request waits at the queue of a deleted topic. The topic may exist again with other queues.
            if let Some(known) = self.tables.log_queue(queue.index.topic(), queue.index.queue_id()) {
                *queue = known;
            }
        }
        if self.replication.durability.limit().is_some() {
            self.wake_when_visible(end, queues);
        } else {
            queues.iter().for_each(|queue| self.wake(queue));
        }
    }

    /// Gives the messages of a lite queue to clients of a group, or of all groups.
    pub(crate) fn dispatch_lite(&self, group: Option<&str>, name: &Arc<str>) {
        if let Some(arrivals) = self.arrivals.get() {
            (arrivals.lite)(group, name);
        }
    }

    /// Drops the suspended pops of connection number `peer`, which has ended. Other clients get the events of the
    /// connection's clients of lite topics.
    pub(crate) fn closed(&self, peer: u64) {
        for ask in self.pops.closed(peer) {
            let Some(client) = &ask.lite else { continue };
            let events = self.tables.lite.tables().abandon(&ask.group, client);
            events.iter().for_each(|event| self.dispatch_lite(Some(&ask.group), event));
        }
    }

    /// Runs the suspended pulls and the waiting pops of a queue that grew, and wakes the threads that follow the queue.
    pub(crate) fn wake(&self, queue: &Arc<Queue>) {
        if queue.lite {
            return self.dispatch_lite(None, &queue.index.topic().into());
        }
        if queue.delayed {
            self.schedule.wakeup().wake();
        }
        if queue.timed {
            self.timer.wakeup().wake();
        }
        if queue.revives {
            self.pops.reviver_wakeup().wake();
        }
        // In this order: `is_waited_on` has the memory fence that both checks need.
        let is_pulled = queue.suspended.is_waited_on();
        let Some(arrivals) = self.arrivals.get() else { return };
        if queue.waiters.has_count() {
            (arrivals.pops)(queue);
        }
        if is_pulled {
            (arrivals.pulls)(queue);
        }
    }
}
