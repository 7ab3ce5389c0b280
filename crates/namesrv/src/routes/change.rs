//! Changes that operators make to the route tables.

use wire::body::{PERM_READ, PERM_WRITE, QueueData};

use super::{Routes, TopicQueues, place};

impl Routes {
    /// Removes the write permission of a broker's topics; returns the number of topics (`wipeWritePermOfBrokerByLock`). The
    /// broker's next registration with a new data version restores the permission.
    pub fn wipe_write_perm(&mut self, broker: &str) -> usize {
        self.change_perm(broker, |perm| perm & !PERM_WRITE)
    }

    /// Gives a broker's topics read and write permission; returns the number of topics (`addWritePermOfBrokerByLock`).
    pub fn add_write_perm(&mut self, broker: &str) -> usize {
        self.change_perm(broker, |_| PERM_READ | PERM_WRITE)
    }

    fn change_perm(&mut self, broker: &str, change: impl Fn(i32) -> i32) -> usize {
        let placed = self.topics.values_mut().flatten().filter(|(name, _)| **name == *broker);
        placed.map(|(_, queues)| queues.perm = change(queues.perm)).count()
    }

    /// Removes a topic from one cluster, or from all.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(cluster) = cluster else {
            self.topics.remove(topic);
            self.mappings.remove(topic);
            return;
        };
        let (Some(brokers), Some(placement)) = (self.clusters.get(cluster), self.topics.get_mut(topic))
        else {
            return;
        };
        placement.retain(|(broker, _)| !brokers.contains(&**broker));
        if placement.is_empty() {
            self.topics.remove(topic);
            self.mappings.remove(topic);
        }
    }

    /// Registers a topic by request (`registerTopic`): adds the queues up to the first unknown broker; a new topic is added
    /// only if all brokers are known.
    pub fn add_topic(&mut self, topic: &str, queues: &[QueueData]) {
        let is_known = |data: &&QueueData| self.groups.contains_key(&data.broker_name);
        let known = queues.iter().take_while(is_known).count();
        if known == 0 || (known < queues.len() && !self.topics.contains_key(topic)) {
            return;
        }
        let placement = self.topics.entry(topic.into()).or_default();
        for data in &queues[..known] {
            let queues = TopicQueues {
                perm: data.perm,
                read_queue_nums: data.read_queue_nums,
                topic_sys_flag: data.topic_sys_flag,
                write_queue_nums: data.write_queue_nums,
            };
            place(placement, &data.broker_name, queues);
        }
    }
}
