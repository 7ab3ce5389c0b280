//! Route of a topic for producers and consumers (`MQClientInstance.topicRouteData2TopicPublishInfo` and
//! `...SubscribeInfo`).

use std::collections::BTreeMap;
use wire::body::{MessageQueue, PERM_READ, PERM_WRITE, TopicRouteData};

/// Broker id of a master.
pub(crate) const MASTER: i64 = 0;

/// The queues of a topic and the addresses of their brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Writable queues on broker groups with a master, ordered so that brokers alternate.
    pub publish: Vec<MessageQueue>,
    /// Queues to read from, in the order in which they are allocated to members.
    pub subscribe: Vec<MessageQueue>,
    /// Broker addresses by broker name and broker id.
    pub brokers: BTreeMap<String, BTreeMap<i64, String>>,
}

impl Route {
    /// Makes the route from a name server's answer for `topic`.
    pub fn new(topic: &str, data: &TopicRouteData) -> Self {
        Self::limited(topic, data, i32::MAX)
    }

    /// Makes the route of a missing topic from the route of its template topic, with at most `queues_max` queues per
    /// broker.
    pub fn limited(topic: &str, data: &TopicRouteData, queues_max: i32) -> Self {
        let brokers: BTreeMap<_, _> = data
            .broker_datas
            .iter()
            .map(|broker| (broker.broker_name.clone(), broker.broker_addrs.clone()))
            .collect();
        let mut publish = Vec::new();
        let mut subscribe = Vec::new();
        for queues in &data.queue_datas {
            let Some(addresses) = brokers.get(&queues.broker_name) else { continue };
            let of = |count: i32| {
                let queue = |id| MessageQueue::new(topic, &queues.broker_name, id);
                (0..count.min(queues_max)).map(queue)
            };
            if queues.perm & PERM_WRITE != 0 && addresses.contains_key(&MASTER) {
                publish.extend(of(queues.write_queue_nums));
            }
            if queues.perm & PERM_READ != 0 {
                subscribe.extend(of(queues.read_queue_nums));
            }
        }
        // Neighbouring queues are on different brokers, so that a retry on the next queue avoids the broker that
        // failed.
        publish.sort_by(|one, other| {
            (one.queue_id, &one.broker_name).cmp(&(other.queue_id, &other.broker_name))
        });
        subscribe.sort();
        Self { publish, subscribe, brokers }
    }

    /// Address of the master of a broker group.
    pub fn master(&self, broker: &str) -> Option<&str> {
        self.brokers.get(broker)?.get(&MASTER).map(String::as_str)
    }

    /// Address to read from: the broker with this id, otherwise the master, otherwise any broker of the group.
    pub fn reader(&self, broker: &str, id: i64) -> Option<&str> {
        let addresses = self.brokers.get(broker)?;
        addresses
            .get(&id)
            .or_else(|| addresses.get(&MASTER))
            .or_else(|| addresses.values().next())
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> TopicRouteData {
        TopicRouteData::decode(
            br#"{"brokerDatas":[{"brokerAddrs":{0:"a:1",1:"a:2"},"brokerName":"A","cluster":"C"},
                {"brokerAddrs":{"1":"b:2"},"brokerName":"B","cluster":"C"},
                {"brokerAddrs":{"0":"c:1"},"brokerName":"D","cluster":"C"}],
                "queueDatas":[{"brokerName":"A","perm":6,"readQueueNums":3,"writeQueueNums":2},
                {"brokerName":"B","perm":6,"readQueueNums":1,"writeQueueNums":1},
                {"brokerName":"D","perm":2,"readQueueNums":2,"writeQueueNums":2},
                {"brokerName":"gone","perm":6,"readQueueNums":9,"writeQueueNums":9}]}"#,
        )
        .unwrap()
    }

    fn names(queues: &[MessageQueue]) -> String {
        let names: Vec<_> =
            queues.iter().map(|queue| format!("{}{}", queue.broker_name, queue.queue_id)).collect();
        names.join(" ")
    }

    #[test]
    fn queues_need_permission_and_a_master_to_write() {
        let route = Route::new("t", &data());
        assert_eq!(names(&route.publish), "A0 D0 A1 D1");
        assert_eq!(names(&route.subscribe), "A0 A1 A2 B0");
        assert_eq!(names(&Route::limited("t", &data(), 1).publish), "A0 D0");
    }

    #[test]
    fn readers_fall_back() {
        let route = Route::new("t", &data());
        assert_eq!((route.master("A"), route.master("B")), (Some("a:1"), None));
        assert_eq!(route.reader("A", 1), Some("a:2"));
        assert_eq!(route.reader("A", 7), Some("a:1"));
        assert_eq!(route.reader("B", 0), Some("b:2"));
        assert_eq!(route.reader("X", 0), None);
    }
}
