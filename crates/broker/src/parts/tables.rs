//! Topics, groups, offsets, and further tables by the name of a topic or group.

mod internal_topics;
mod light;

use std::sync::Arc;

use store::{AppendError, Read, Store};
use wire::body::group::SubscriptionGroupConfig;
use wire::units::QueueOffset;

use crate::Refusal;
use crate::clients;
use crate::clock::Clock;
use crate::config::Config;
use crate::groups::Groups;
use crate::locks::Locks;
use crate::offsets::Offsets;
use crate::persist::ConfigFiles;
use crate::refusal::{PutError, Result};
use crate::state::{Light, Lite, Modes, Ranking, Routes};
use crate::topics::{Queue, Topics};

/// Distance from the log's end within which a queue's first message counts as "in memory", so that a new group begins
/// at offset 0. Java takes 40 % of the machine's memory. A fixed size makes the result depend less on the machine.
const YOUNG_LOG_BYTES: u64 = 8 << 30;

/// Tables of a broker by the name of a topic or group, and the files that keep the tables.
pub(crate) struct Tables {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Clock,
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) offsets: Offsets,
    /// Locks of ordered consumers on queues.
    pub(crate) locks: Locks,
    /// Request modes of groups: pull or pop.
    pub(crate) modes: Modes,
    /// Routes of topics at other brokers, for the assignment of queues.
    pub(crate) routes: Routes,
    /// Topics with the most messages.
    pub(crate) ranking: Ranking,
    /// Light queues, which are topics without an entry in the table of topics.
    pub(crate) light: Light,
    /// Subscriptions of clients to lite topics, and their events.
    pub(crate) lite: Lite,
    pub(crate) files: ConfigFiles,
}

impl Tables {
    /// The configuration of a group. A group that may be created by its first use is created with defaults, and the request waits
    /// for that.
    pub(crate) fn group(&self, config: &Config, name: &str) -> Result<Option<Arc<SubscriptionGroupConfig>>> {
        self.groups.find_or_create(name, config.auto_create_subscription_group)
    }

    /// Notifies the consumers of changed groups to rebalance (`notifyConsumerIdsChangedEnable`).
    pub(crate) fn announce(&self, config: &Config, changes: &[clients::Change]) {
        if config.notify_consumer_ids_changed_enable {
            clients::notify(&self.groups, changes);
        }
    }

    /// A queue of an existing topic; `None` when topic or queue does not exist.
    pub(crate) fn log_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.topic(topic)?.queue(&self.store, queue_id).cloned()
    }

    /// The queue that a message made by the broker goes to: `queue_id`, or the topic's first queue when there is no such queue.
    pub(crate) fn put_queue(&self, topic: &str, queue_id: i32, now_ms: i64) -> Result<Arc<Queue>, PutError> {
        if let Some(queue) = self.log_queue(topic, queue_id) {
            return Ok(queue);
        }
        let found = self.topics.ensure(topic, queue_id.max(0) + 1, now_ms)?;
        let queue = found.queue(&self.store, queue_id).or_else(|| found.queue(&self.store, 0));
        let missing = || Refusal::error(format!("topic[{topic}] has no queue {queue_id}"));
        Ok(queue.cloned().ok_or_else(missing)?)
    }

    /// Whether a new group begins at offset 0 of a queue: the queue has no message yet, or its first message was stored not long
    /// ago (`DefaultMessageStore.checkInMemByConsumeOffset`). It does not in a queue that does not exist.
    pub(crate) fn is_young(&self, topic: &str, queue_id: i32) -> bool {
        self.log_queue(topic, queue_id).is_some_and(|queue| self.begins_young(&queue))
    }

    /// Whether a new group begins at offset 0 of this queue, like [`Self::is_young`].
    pub(crate) fn begins_young(&self, queue: &Queue) -> bool {
        self.begins_within(queue, YOUNG_LOG_BYTES)
    }

    /// Whether message 0 of a queue still exists and lies within `bytes` of the log's end; true for a queue without messages.
    pub(crate) fn begins_within(&self, queue: &Queue, bytes: u64) -> bool {
        let appended = self.store.appended();
        let is_near = |at| appended.since(at) < bytes;
        if queue.index.min().get() > 0 || queue.index.max().get() == 0 || is_near(self.store.min()) {
            return queue.index.min().get() == 0;
        }
        let mut first = Vec::new();
        // A first unit that is not in memory belongs to an old message.
        let read = queue.index.units(QueueOffset::new(0), 1, &mut first);
        matches!(read, Ok(Read::Done)) && first.first().is_some_and(|unit| is_near(unit.log_offset))
    }

    /// When a message was stored, in milliseconds since the epoch. May read the disk.
    pub(crate) fn time_at(&self, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
        let offset = QueueOffset::new(u64::try_from(offset).ok()?);
        self.store.store_time(&self.log_queue(topic, queue_id)?.index, offset).ok()?
    }

    /// Removes the queues of a deleted topic and returns their number. A topic created under the name meanwhile may
    /// hold the removed queues, and opens new queues.
    pub(crate) fn remove_queues(&self, topic: &str) -> Result<usize, AppendError> {
        let removed = self.store.remove_topic(topic);
        self.topics.reopen(topic);
        removed
    }
}
