//! Messages that the broker makes itself, and wake-ups of requests that wait at grown queues.

use std::sync::Arc;

use store::{AppendError, Batch, Message};
use wire::units::LogOffset;

use super::Broker;
use crate::Refusal;
use crate::refusal::PutError;
use crate::topics::Queue;

impl Broker {
    /// Stores a message that the broker made itself and wakes the consumers that wait for it.
    pub(crate) fn put(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
    ) -> Result<store::Placed, PutError> {
        let now_ms = self.now_ms();
        let queue = self.put_queue(topic, queue_id, now_ms)?;
        let mut batch: Batch = self.store.batch();
        batch.push(&queue.index, message)?;
        self.append_own(&mut batch, now_ms)?;
        let mut queues = self.further_queues(&batch);
        queues.push(queue);
        self.grown(batch.end(), queues);
        Ok(batch.placed(0))
    }

    /// Appends messages that the broker made itself for consumers, and counts their bytes.
    pub(crate) fn append_own(&self, batch: &mut Batch, now_ms: i64) -> Result<(), AppendError> {
        self.store.append(batch, now_ms)?;
        self.figures.stats.count_own(batch);
        Ok(())
    }

    /// The queue that a message made by the broker goes to: `queue_id`, or the topic's first queue when there is no such queue.
    pub(crate) fn put_queue(&self, topic: &str, queue_id: i32, now_ms: i64) -> Result<Arc<Queue>, PutError> {
        if let Some(queue) = self.log_queue(topic, queue_id) {
            return Ok(queue);
        }
        let found = self.tables.topics.ensure(topic, queue_id.max(0) + 1, now_ms)?;
        let queue = found.queue(&self.store, queue_id).or_else(|| found.queue(&self.store, 0));
        let missing = || Refusal::error(format!("topic[{topic}] has no queue {queue_id}"));
        Ok(queue.cloned().ok_or_else(missing)?)
    }

    /// Wakes the consumers that wait at queues that grew by an append that ended at `end`, as soon as they may see the messages.
    pub(crate) fn grown(&self, end: LogOffset, mut queues: Vec<Arc<Queue>>) {
        for queue in &mut queues {
            // No request waits at the queue of a deleted topic. The topic may exist again with other queues.
            if let Some(known) = self.log_queue(queue.index.topic(), queue.index.queue_id()) {
                *queue = known;
            }
        }
        if self.replication.durability.limit().is_some() {
            self.handle().wake_when_visible(end, queues);
        } else {
            queues.iter().for_each(|queue| self.wake(queue));
        }
    }

    /// Runs the suspended pulls and the waiting pops of a queue that grew, and wakes the threads that follow the queue.
    pub(crate) fn wake(&self, queue: &Arc<Queue>) {
        if queue.delayed {
            self.delivery.schedule.wakeup().wake();
        }
        if queue.timed {
            self.delivery.timer.wakeup().wake();
        }
        if queue.revives {
            self.delivery.pops.reviver_wakeup().wake();
        }
        // In this order: `is_waited_on` has the memory fence that both checks need.
        let is_pulled = queue.suspended.is_waited_on();
        if queue.waiters.has_count() {
            (self.arrivals.pops)(&self.handle(), queue);
        }
        if is_pulled {
            (self.arrivals.pulls)(&self.handle(), queue);
        }
    }
}
