//! What groups have not consumed yet. Asked for retention only, when a file would go or topics have a time of their own:
//! the offsets of all groups are copied, and one index unit is read per queue that somebody lags behind in.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use wire::body::MessageModel;
use wire::units::{LogOffset, QueueOffset};

use crate::broker::Broker;
use crate::light::is_light;
use crate::names;
use crate::pop::REVIVE_GROUP;

/// A group that has not consumed everything of a queue.
#[derive(Clone, Debug)]
pub(super) struct Lag {
    pub group: String,
    pub topic: String,
    pub queue_id: i32,
    /// The first message it has not consumed.
    pub from: u64,
    /// Where that lies in the log.
    pub at: LogOffset,
    /// Popped, and perhaps acknowledged since: that is not known before its time is over.
    pub may_be_done: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Lags(Vec<Lag>);

impl Lags {
    /// Looks at the committed offsets of all groups, their retry topics included, at what they have popped and may get
    /// again, and at delayed messages that are not delivered yet. Groups that broadcast keep their offsets themselves;
    /// those without an offset, and those that were deleted and left theirs behind, do not count.
    pub(super) fn of(broker: &Broker) -> Self {
        let mut lags = Vec::new();
        let counts = |topic: &str, group: &str| {
            broker.clients.message_model(group) != Some(MessageModel::Broadcasting)
                && (broker.topics.find(topic).is_some() || is_light(topic))
                && (broker.groups.find(group).is_some() || names::is_system_group(group))
        };
        for (key, queue_id, first) in broker.pops.owed() {
            let owner = key.split_once('@').filter(|(topic, group)| counts(topic, group));
            let lag = owner.and_then(|(topic, group)| lag(broker, group, topic, queue_id, first));
            lags.extend(lag.map(|lag| Lag { may_be_done: true, ..lag }));
        }
        for (key, queues) in broker.offsets.table().offset_table {
            let Some((topic, group)) = key.split_once('@').filter(|(topic, group)| counts(topic, group))
            else {
                continue;
            };
            // This group's is the offset of the last record it is done with.
            let done = i64::from(group == REVIVE_GROUP);
            let lag = |(queue_id, offset)| lag(broker, group, topic, queue_id, offset + done);
            lags.extend(queues.into_iter().filter_map(lag));
        }
        for level in 1..=broker.delay_levels() {
            let (topic, group) = (names::SCHEDULE_TOPIC, "delayed messages");
            lags.extend(lag(broker, group, topic, level - 1, broker.schedule.offset(level)));
        }
        if broker.config.timers.enabled {
            // Those in the wheel are stored again before they are too old, see `Timers::files` and `timed`.
            let next = broker.timer.queue_offset.load(Ordering::Relaxed);
            lags.extend(lag(broker, "timed messages", names::TIMER_TOPIC, 0, next));
        }
        Self(lags)
    }

    /// Where the first message lies that somebody has not consumed.
    pub(super) fn first(&self) -> Option<LogOffset> {
        self.oldest().map(|lag| lag.at)
    }

    /// Who has not consumed the oldest message.
    pub(super) fn oldest(&self) -> Option<&Lag> {
        self.0.iter().min_by_key(|lag| lag.at)
    }

    /// First offset that somebody has not consumed, by topic and queue.
    pub(super) fn firsts(&self) -> HashMap<(&str, i32), QueueOffset> {
        let mut firsts = HashMap::new();
        for lag in &self.0 {
            let from = QueueOffset::new(lag.from);
            let first = firsts.entry((lag.topic.as_str(), lag.queue_id)).or_insert(from);
            *first = from.min(*first);
        }
        firsts
    }

    /// How many messages each group has lost, now that the queues begin where they do.
    pub(super) fn lost(&self, broker: &Broker) -> BTreeMap<&str, u64> {
        let mut lost = BTreeMap::new();
        for lag in self.0.iter().filter(|lag| !lag.may_be_done) {
            let queue = broker.store.find_queue(&lag.topic, lag.queue_id);
            let count = queue.map_or(0, |queue| queue.min().get().saturating_sub(lag.from));
            if count > 0 {
                *lost.entry(lag.group.as_str()).or_default() += count;
            }
        }
        lost
    }
}

fn lag(broker: &Broker, group: &str, topic: &str, queue_id: i32, offset: i64) -> Option<Lag> {
    let queue = broker.store.find_queue(topic, queue_id)?;
    let from = QueueOffset::from_i64(offset)?.max(queue.min());
    let at = match queue.next_message(from, queue.max()) {
        Ok(next) => next?.1.log_offset,
        Err(error) => {
            // Without knowing nothing of the log may go on account of this queue.
            tracing::error!(group, topic, queue_id, %error, "it cannot be told what a group has not consumed");
            LogOffset::ZERO
        }
    };
    let (group, topic) = (group.to_owned(), topic.to_owned());
    Some(Lag { group, topic, queue_id, from: from.get(), at, may_be_done: false })
}
