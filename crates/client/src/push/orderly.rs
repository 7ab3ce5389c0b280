//! Orderly consumption: each queue's messages in order (`ConsumeMessageOrderlyService`).
//!
//! A single thread at a time consumes a queue, on the member of the group that holds the broker's lock on the queue.
//! The member renews its locks every 20 s and relies on them for 30 s. Brokers keep them for 60 s. So no other member
//! can begin before this member has stopped calling the listener, except while an earlier call lasts longer than the
//! difference. When a queue moves to another member, this member waits until the listener has returned, commits the
//! offset, and only then releases the lock. So the other member begins at the next message.

use super::consume_pool::Job;
use super::listener::ConsumeStatus;
use super::queue::{AssignedQueue, Context};
use crate::Received;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time for which a lock counts without being renewed (`ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME`).
pub(super) const TRUST: Duration = Duration::from_secs(30);

/// Interval of renewing locks (`ProcessQueue.REBALANCE_LOCK_INTERVAL`).
pub(super) const RENEWAL: Duration = Duration::from_secs(20);

/// Pause before messages that the listener did not finish are passed to it again (`suspendCurrentQueueTimeMillis`).
const PAUSE: Duration = Duration::from_secs(1);

/// Most messages of a queue that a thread consumes before other queues get it.
const TURN_MESSAGES: usize = 1000;

/// Messages of one queue that wait for the listener.
#[derive(Default)]
pub(super) struct OrderedMessages {
    waiting: VecDeque<Received>,
    /// Whether a job of this queue is in the consume pool, or a pause before a job is running.
    is_called: bool,
    /// Time until which the lock counts. `None` if it is lost.
    owned_until: Option<Instant>,
    /// First and last offset, and number, of the messages that the listener is consuming.
    in_hand: Option<(i64, i64, usize)>,
}

impl AssignedQueue {
    /// Records that the lock was renewed.
    pub fn renew(&self, now: Instant) {
        self.line().owned_until = Some(now + TRUST);
        self.locked_ms.store(crate::clock::now_ms(), Ordering::Relaxed);
    }

    /// Records that the lock was lost.
    pub fn disown(&self) {
        self.line().owned_until = None;
    }

    /// Whether the lock counts at `now`.
    pub fn is_owned(&self, now: Instant) -> bool {
        self.line().owned_until.is_some_and(|until| now < until)
    }

    fn take(&self, count: usize) -> Vec<Received> {
        let mut line = self.line();
        let count = count.min(line.waiting.len());
        let taken: Vec<_> = line.waiting.drain(..count).collect();
        if taken.is_empty() {
            line.is_called = false;
        }
        let ends = taken.first().zip(taken.last());
        line.in_hand = ends.map(|(first, last)| (first.queue_offset, last.queue_offset, taken.len()));
        taken
    }

    /// First and last offset, and number, of the messages of this queue that the listener is consuming.
    pub fn in_hand(&self) -> Option<(i64, i64, usize)> {
        self.line().in_hand
    }

    fn put_back(&self, messages: Vec<Received>) {
        let mut line = self.line();
        line.in_hand = None;
        messages.into_iter().rev().for_each(|message| line.waiting.push_front(message));
    }
}

impl Context {
    /// Adds messages to the waiting messages, and submits a job unless the queue has one already.
    pub fn line_up(self: &Arc<Self>, queue: &Arc<AssignedQueue>, messages: Vec<Received>) {
        let mut line = queue.line();
        line.waiting.extend(messages);
        if !line.waiting.is_empty() && !std::mem::replace(&mut line.is_called, true) {
            drop(line);
            self.call_for(queue.clone());
        }
    }

    fn call_for(self: &Arc<Self>, queue: Arc<AssignedQueue>) {
        let shared = self.clone();
        self.consume_pool.submit([Box::new(move || shared.take_turn(&queue)) as Job]);
    }

    /// Consumes waiting messages in order, until none remain, other queues get the thread, or the queue is given up.
    fn take_turn(self: &Arc<Self>, queue: &Arc<AssignedQueue>) {
        // Locked while the listener runs, so that giving up the queue waits for it.
        let _consuming = queue.consuming.blocking_lock();
        let mut left = TURN_MESSAGES;
        while left > 0 {
            if queue.is_dropped() {
                return;
            }
            if self.needs_locks() && !queue.is_owned(Instant::now()) {
                // The lock will be renewed, or the queue will be given up.
                return self.pause(queue.clone());
            }
            let mut messages = queue.take(self.config.batch.max(1));
            if messages.is_empty() {
                return;
            }
            left = left.saturating_sub(messages.len());
            if self.call(&messages) == ConsumeStatus::Done {
                queue.done(&messages);
                continue;
            }
            let given_up = messages.extract_if(.., |message| message.reconsume_times >= self.retries_max());
            let given_up: Vec<_> = given_up.collect();
            self.give_up(queue, given_up);
            messages.iter_mut().for_each(|message| message.reconsume_times += 1);
            if !messages.is_empty() {
                queue.put_back(messages);
                return self.pause(queue.clone());
            }
        }
        self.call_for(queue.clone());
    }

    /// Sends messages that failed too often back to the broker, so that the queue can continue.
    fn give_up(&self, queue: &Arc<AssignedQueue>, messages: Vec<Received>) {
        if !messages.is_empty() {
            let _ = self.returns.send(super::listener::Delivery { queue: queue.clone(), messages });
        }
    }

    fn pause(self: &Arc<Self>, queue: Arc<AssignedQueue>) {
        let shared = self.clone();
        let resume = move || async move {
            tokio::time::sleep(PAUSE).await;
            shared.call_for(queue);
        };
        if self.client.inner.remote.workers.spawn(0, resume).is_err() {
            tracing::debug!("the client has ended during a pause of a queue");
        }
    }

    /// Whether queues need locks: in orderly consumption, unless broadcasting.
    pub fn needs_locks(&self) -> bool {
        self.is_orderly && self.config.model == super::MessageModel::Clustering
    }

    fn retries_max(&self) -> i32 {
        self.config.retries.unwrap_or(if self.is_orderly { i32::MAX } else { 16 })
    }

    /// Delay level and number of retries for sending messages back. In orderly consumption the retries are used up by
    /// then.
    pub fn back(&self) -> (i32, i32) {
        (if self.is_orderly { -1 } else { 0 }, self.retries_max())
    }
}
