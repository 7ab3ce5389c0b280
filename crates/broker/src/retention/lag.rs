//! Backlog of groups: the messages that they have not consumed yet. Only retention computes it, when a file is about
//! to be deleted or a topic has a retention time of its own. It copies the offsets of all groups and reads an index
//! unit per group and queue with a backlog.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use wire::body::MessageModel;
use wire::units::{LogOffset, QueueOffset};

use crate::names::{self, is_light};
use crate::parts::{Delivery, Runtime, Sessions};
use crate::pop::REVIVE_GROUP;

/// Backlog of a group in a queue.
#[derive(Clone, Debug)]
pub(super) struct Lag {
    pub group: String,
    pub topic: String,
    pub queue_id: i32,
    /// Queue offset of the first message the group has not consumed.
    pub from: u64,
    /// Log offset of the first message the group has not consumed.
    pub at: LogOffset,
    /// Whether that first message was popped, so that it may be acknowledged already. The acknowledgement is known
    /// only when its checkpoint is processed.
    pub may_be_done: bool,
}

/// The backlogs of all groups in all queues.
#[derive(Debug, Default)]
pub(super) struct Lags(Vec<Lag>);

impl Lags {
    /// Computes the backlogs from the committed offsets of all groups, including their retry topics. Pops with
    /// pending checkpoints, and undelivered delayed and timed messages count too. Groups in broadcast mode do not
    /// count, because their clients store the offsets. Groups without offsets do not count, nor do deleted groups
    /// with remaining offsets.
    pub(super) fn of(sessions: &Sessions, delivery: &Delivery, runtime: &Runtime) -> Self {
        let mut lags = Vec::new();
        let counts = |topic: &str, group: &str| {
            sessions.clients.message_model(group) != Some(MessageModel::Broadcasting)
                && (delivery.tables.topics.find(topic).is_some() || is_light(topic))
                && (delivery.tables.groups.find(group).is_some() || names::is_system_group(group))
        };
        for (key, queue_id, first) in delivery.pops.pending() {
            let owner = key.split_once('@').filter(|(topic, group)| counts(topic, group));
            let lag =
                owner.and_then(|(topic, group)| lag(&delivery.tables.store, group, topic, queue_id, first));
            lags.extend(lag.map(|lag| Lag { may_be_done: true, ..lag }));
        }
        for (key, queues) in delivery.tables.offsets.table().offset_table {
            let Some((topic, group)) = key.split_once('@').filter(|(topic, group)| counts(topic, group))
            else {
                continue;
            };
            // The offset of `REVIVE_GROUP` is that of the last record processed, not that of the next one.
            let done = i64::from(group == REVIVE_GROUP);
            let lag = |(queue_id, offset)| lag(&delivery.tables.store, group, topic, queue_id, offset + done);
            lags.extend(queues.into_iter().filter_map(lag));
        }
        for level in 1..=runtime.delay_levels() {
            let (topic, group) = (names::SCHEDULE_TOPIC, "delayed messages");
            lags.extend(lag(
                &delivery.tables.store,
                group,
                topic,
                level - 1,
                delivery.schedule.offset(level),
            ));
        }
        if runtime.config.timers.enabled {
            // Messages in the wheel do not count: they are rolled before they are too old, see `Timers::files` and `timed`.
            let next = delivery.timer.queue_offset.load(Ordering::Relaxed);
            lags.extend(lag(&delivery.tables.store, "timed messages", names::TIMER_TOPIC, 0, next));
        }
        Self(lags)
    }

    /// Log offset of the oldest message that a group has not consumed.
    pub(super) fn first(&self) -> Option<LogOffset> {
        self.oldest().map(|lag| lag.at)
    }

    /// The backlog with the oldest message.
    pub(super) fn oldest(&self) -> Option<&Lag> {
        self.0.iter().min_by_key(|lag| lag.at)
    }

    /// The first queue offset that a group has not consumed, by topic and queue.
    pub(super) fn firsts(&self) -> HashMap<(&str, i32), QueueOffset> {
        let mut firsts = HashMap::new();
        for lag in &self.0 {
            let from = QueueOffset::new(lag.from);
            let first = firsts.entry((lag.topic.as_str(), lag.queue_id)).or_insert(from);
            *first = from.min(*first);
        }
        firsts
    }

    /// Number of messages each group has lost, because its queues now begin behind them.
    pub(super) fn lost(&self, store: &store::Store) -> BTreeMap<&str, u64> {
        let mut lost = BTreeMap::new();
        for lag in self.0.iter().filter(|lag| !lag.may_be_done) {
            let queue = store.find_queue(&lag.topic, lag.queue_id);
            let count = queue.map_or(0, |queue| queue.min().get().saturating_sub(lag.from));
            if count > 0 {
                *lost.entry(lag.group.as_str()).or_default() += count;
            }
        }
        lost
    }
}

fn lag(store: &store::Store, group: &str, topic: &str, queue_id: i32, offset: i64) -> Option<Lag> {
    let queue = store.find_queue(topic, queue_id)?;
    let from = QueueOffset::from_i64(offset)?.max(queue.min());
    let at = match queue.next_message(from, queue.max()) {
        Ok(next) => next?.1.log_offset,
        Err(error) => {
            // As long as it is not known where the backlog begins, no file of the log may be deleted.
            tracing::error!(group, topic, queue_id, %error, "it cannot be told what a group has not consumed");
            LogOffset::ZERO
        }
    };
    let (group, topic) = (group.to_owned(), topic.to_owned());
    Some(Lag { group, topic, queue_id, from: from.get(), at, may_be_done: false })
}
