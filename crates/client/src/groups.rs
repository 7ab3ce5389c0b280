//! The producer and consumer groups of a client, which heartbeats tell to brokers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use wire::body::{ConsumerData, HeartbeatData, ProducerData};

/// The producer and consumer groups of this client.
#[derive(Default)]
pub(crate) struct Groups {
    /// Number of producers per group.
    producers: Mutex<BTreeMap<String, usize>>,
    consumers: Mutex<BTreeMap<String, ConsumerData>>,
}

impl Groups {
    pub fn add_producer(&self, group: &str) {
        *self.producers.lock().expect("short section").entry(group.to_owned()).or_default() += 1;
    }

    /// Removes a producer. Returns whether it was the last producer of its group.
    pub fn remove_producer(&self, group: &str) -> bool {
        let mut producers = self.producers.lock().expect("short section");
        if let Some(count) = producers.get_mut(group) {
            *count -= 1;
            if *count == 0 {
                producers.remove(group);
            }
        }
        !producers.contains_key(group)
    }

    /// Adds a consumer group. Returns false if the client already has it.
    pub fn add_consumer(&self, data: ConsumerData) -> bool {
        let mut consumers = self.consumers.lock().expect("short section");
        if consumers.contains_key(&data.group_name) {
            return false;
        }
        consumers.insert(data.group_name.clone(), data);
        true
    }

    pub fn remove_consumer(&self, group: &str) {
        self.consumers.lock().expect("short section").remove(group);
    }

    /// The content of a heartbeat.
    pub fn data(&self, client_id: &str) -> HeartbeatData {
        let producers = self.producers.lock().expect("short section");
        HeartbeatData {
            client_id: client_id.to_owned(),
            producer_data_set: producers
                .keys()
                .map(|group| ProducerData { group_name: group.clone() })
                .collect(),
            consumer_data_set: self.consumers.lock().expect("short section").values().cloned().collect(),
            heartbeat_fingerprint: 0,
            without_sub: false,
        }
    }
}
