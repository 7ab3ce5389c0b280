//! Consumption in the order of each queue (`ConsumeMessageOrderlyService`).
//!
//! A queue is consumed by one thread at a time and by the one member of the group that holds the broker's lock on it.
//! The member renews its locks every 20 s, trusts them for 30 s, and brokers keep them for 60 s: nobody else can begin
//! before this one has stopped to call the listener; only a call that began before and lasts longer than the difference
//! is not waited for. When a queue goes to another member, this one waits until the listener is out of it, stores
//! the offset, and only then unlocks, so that the other begins exactly behind.

use super::crew::Job;
use super::listener::Verdict;
use super::queue::{Assigned, Shared};
use crate::Received;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a lock counts without being renewed (`ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME`).
pub(super) const TRUST: Duration = Duration::from_secs(30);

/// Between two renewals (`ProcessQueue.REBALANCE_LOCK_INTERVAL`).
pub(super) const RENEWAL: Duration = Duration::from_secs(20);

/// Before messages the listener did not finish come again (`suspendCurrentQueueTimeMillis`).
const PAUSE: Duration = Duration::from_secs(1);

/// Messages of a queue in one go, before other queues get a thread.
const TURN_MESSAGES: usize = 1000;

/// Messages of one queue that wait for the listener.
#[derive(Default)]
pub(super) struct Line {
    waiting: VecDeque<Received>,
    /// A job of this queue is with the threads, or a pause of it is under way.
    is_called: bool,
    /// The lock counts until then.
    owned_until: Option<Instant>,
    /// First and last offset and number of the messages the listener has.
    in_hand: Option<(i64, i64, usize)>,
}

impl Assigned {
    /// Notes that the lock was renewed.
    pub fn renew(&self, now: Instant) {
        self.line().owned_until = Some(now + TRUST);
        self.locked_ms.store(crate::clock::now_ms(), Ordering::Relaxed);
    }

    /// Notes that the lock is lost.
    pub fn disown(&self) {
        self.line().owned_until = None;
    }

    /// True while the lock counts.
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

    /// What the listener has of a queue consumed in order: first and last offset and number.
    pub fn in_hand(&self) -> Option<(i64, i64, usize)> {
        self.line().in_hand
    }

    fn put_back(&self, messages: Vec<Received>) {
        let mut line = self.line();
        line.in_hand = None;
        messages.into_iter().rev().for_each(|message| line.waiting.push_front(message));
    }
}

impl Shared {
    /// Lines messages up and calls a thread unless one is there already.
    pub fn line_up(self: &Arc<Self>, queue: &Arc<Assigned>, messages: Vec<Received>) {
        let mut line = queue.line();
        line.waiting.extend(messages);
        if !line.waiting.is_empty() && !std::mem::replace(&mut line.is_called, true) {
            drop(line);
            self.call_for(queue.clone());
        }
    }

    fn call_for(self: &Arc<Self>, queue: Arc<Assigned>) {
        let shared = self.clone();
        self.crew.submit([Box::new(move || shared.take_turn(&queue)) as Job]);
    }

    /// Consumes what waits, in order, until there is nothing, it is others' turn, or the queue is given up.
    fn take_turn(self: &Arc<Self>, queue: &Arc<Assigned>) {
        // Held while the listener runs: giving the queue up waits for it.
        let _consuming = queue.consuming.blocking_lock();
        let mut left = TURN_MESSAGES;
        while left > 0 {
            if queue.is_dropped() {
                return;
            }
            if self.needs_locks() && !queue.is_owned(Instant::now()) {
                // It is renewed, or the queue is given up.
                return self.pause(queue.clone());
            }
            let mut messages = queue.take(self.config.batch.max(1));
            if messages.is_empty() {
                return;
            }
            left = left.saturating_sub(messages.len());
            if self.call(&messages) == Verdict::Done {
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

    /// Messages that failed too often leave the queue by way of the broker, so that the rest can go on.
    fn give_up(&self, queue: &Arc<Assigned>, messages: Vec<Received>) {
        if !messages.is_empty() {
            let _ = self.returns.send(super::listener::Delivery { queue: queue.clone(), messages });
        }
    }

    fn pause(self: &Arc<Self>, queue: Arc<Assigned>) {
        let shared = self.clone();
        let resume = move || async move {
            tokio::time::sleep(PAUSE).await;
            shared.call_for(queue);
        };
        if self.client.inner.remote.workers.spawn(0, resume).is_err() {
            tracing::debug!("the client has ended during a pause of a queue");
        }
    }

    /// True when queues are consumed in order and shared with other members.
    pub fn needs_locks(&self) -> bool {
        self.is_orderly && self.config.model == super::MessageModel::Clustering
    }

    fn retries_max(&self) -> i32 {
        self.config.retries.unwrap_or(if self.is_orderly { i32::MAX } else { 16 })
    }

    /// With which delay level and after how many retries messages are sent back. In order they have had their retries.
    pub fn back(&self) -> (i32, i32) {
        (if self.is_orderly { -1 } else { 0 }, self.retries_max())
    }
}
