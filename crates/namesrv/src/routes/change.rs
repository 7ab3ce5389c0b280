//! Changes that operators make to the route tables.

use wire::body::QueueData;

use super::{Routes, TopicQueues, cost, place};

impl Routes {
    /// Changes the permission of a broker's topics in one shard; returns the number of topics.
    pub(super) fn change_perm(&mut self, shard: usize, broker: &str, change: impl Fn(i32) -> i32) -> usize {
        let placed = self.shards[shard].topics.values_mut().flatten().filter(|(name, _)| **name == *broker);
        placed.map(|(_, queues)| queues.perm = change(queues.perm)).count()
    }

    /// Removes a topic from one cluster, or from all.
    pub(super) fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let at = self.shard_of(topic);
        let Some(placement) = self.shards[at].topics.get_mut(topic) else { return };
        let brokers = cluster.map(|cluster| self.clusters.get(cluster));
        let goes = |broker: &str| {
            brokers.is_none_or(|brokers| brokers.is_some_and(|brokers| brokers.contains(broker)))
        };
        let (groups, mut removed) = (&mut self.groups, 0);
        placement.retain(|(broker, _)| {
            let goes = goes(broker);
            if goes {
                removed += 1;
                if let Some(group) = groups.get_mut(&**broker) {
                    group.topics -= 1;
                }
            }
            !goes
        });
        self.bytes -= removed * cost::PLACE;
        if placement.is_empty() {
            self.forget_topic(at, topic);
        }
    }

    /// Removes a topic without queues, and its mappings.
    fn forget_topic(&mut self, shard: usize, topic: &str) {
        let shard = &mut self.shards[shard];
        shard.topics.remove(topic);
        let mappings = shard.mappings.remove(topic).unwrap_or_default();
        self.bytes -= cost::TOPIC + topic.len() + mappings.values().map(cost::mapping).sum::<usize>();
    }

    /// Registers a topic by request (`registerTopic`): adds the queues up to the first unknown broker. A new
    /// topic is added only if all brokers are known. Returns false if the bound of the tables is reached.
    pub(super) fn add_topic(&mut self, topic: &str, queues: &[QueueData], bytes_max: usize) -> bool {
        let is_known = |data: &&QueueData| self.groups.contains_key(&data.broker_name);
        let known = queues.iter().take_while(is_known).count();
        let at = self.shard_of(topic);
        let is_new = !self.shards[at].topics.contains_key(topic);
        if known == 0 || (known < queues.len() && is_new) {
            return true;
        }
        let growth = if is_new { cost::TOPIC + topic.len() } else { 0 };
        if self.bytes + growth + known * cost::PLACE > bytes_max {
            return false;
        }
        self.bytes += growth;
        let placement = self.shards[at].topics.entry(topic.into()).or_default();
        for data in &queues[..known] {
            let queues = TopicQueues {
                perm: data.perm,
                read_queue_nums: data.read_queue_nums,
                topic_sys_flag: data.topic_sys_flag,
                write_queue_nums: data.write_queue_nums,
            };
            if place(placement, &data.broker_name.as_str().into(), queues) {
                self.bytes += cost::PLACE;
                if let Some(group) = self.groups.get_mut(&data.broker_name) {
                    group.topics += 1;
                }
            }
        }
        true
    }
}
