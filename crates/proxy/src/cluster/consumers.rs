//! The consumers of all proxies of a cluster, by group (`ClusterConsumerManager`). Brokers do not know them.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::heartbeat_sync::REMOTING;
use broker::Refusal;
use wire::body::{
    Connection, ConsumerConnection, HeartbeatSyncerData, HeartbeatType, RemoteChannel, SubscriptionData,
};
use wire::codes::response;
use wire::json;

/// Most consumers. Further consumers are not shown to operators.
const CONSUMERS_MAX: usize = 200_000;

/// A consumer as its last heartbeat describes it.
struct Consumer {
    data: HeartbeatSyncerData,
    /// Address of the client.
    address: String,
    /// When this proxy heard of the consumer, milliseconds since the epoch.
    seen_ms: i64,
}

/// Returns the connection of the client of a heartbeat.
fn channel(data: &HeartbeatSyncerData) -> RemoteChannel {
    json::from_slice(data.channel_data.as_bytes()).unwrap_or_default()
}

/// The consumers of this proxy and of others.
#[derive(Default)]
pub struct Consumers {
    groups: Mutex<HashMap<String, BTreeMap<String, Consumer>>>,
    /// A heartbeat was noted.
    heard: Notify,
}

impl Consumers {
    /// Records that a consumer registered or left. Returns true if the members of its group changed. A client that
    /// moved to another proxy is not removed by its former proxy. A remoting client is not removed by the end of its
    /// former connection.
    pub fn take(&self, data: HeartbeatSyncerData, now_ms: i64) -> bool {
        let mut groups = self.groups.lock();
        if data.heartbeat_type == HeartbeatType::Register {
            let is_known = groups.get(&data.group).is_some_and(|group| group.contains_key(&data.client_id));
            if !is_known && groups.values().map(BTreeMap::len).sum::<usize>() >= CONSUMERS_MAX {
                tracing::debug!(client = data.client_id, "a consumer is not shown: there are too many");
                return false;
            }
            let address = channel(&data).remote_address;
            let group = groups.entry(data.group.clone()).or_default();
            let consumer = Consumer { address, seen_ms: now_ms, data };
            let is_new = group.insert(consumer.data.client_id.clone(), consumer).is_none();
            self.heard.notify_waiters();
            return is_new;
        }
        let Some(group) = groups.get_mut(&data.group) else { return false };
        let left = channel(&data);
        let is_gone = group.get(&data.client_id).is_some_and(|it| {
            let is_same_connection = left.r#type != REMOTING || it.address == left.remote_address;
            it.data.local_proxy_id == data.local_proxy_id && is_same_connection
        });
        if is_gone {
            group.remove(&data.client_id);
        }
        if group.is_empty() {
            groups.remove(&data.group);
        }
        is_gone
    }

    /// The last heartbeat of a consumer.
    pub fn get(&self, group: &str, client_id: &str) -> Option<HeartbeatSyncerData> {
        self.groups.lock().get(group)?.get(client_id).map(|consumer| consumer.data.clone())
    }

    /// The last heartbeat of a consumer, once there is one.
    pub async fn wait_for(&self, group: &str, client_id: &str) -> HeartbeatSyncerData {
        loop {
            let mut heard = pin!(self.heard.notified());
            heard.as_mut().enable();
            match self.get(group, client_id) {
                Some(data) => return data,
                None => heard.await,
            }
        }
    }

    /// Removes consumers without a heartbeat since a time. Returns the groups whose members changed.
    pub fn forget_silent(&self, before_ms: i64) -> Vec<String> {
        let mut changed = Vec::new();
        self.groups.lock().retain(|name, group| {
            let count = group.len();
            group.retain(|_, consumer| consumer.seen_ms >= before_ms);
            if group.len() < count {
                changed.push(name.clone());
            }
            !group.is_empty()
        });
        changed
    }

    /// Returns the newest subscription of a group to a topic (`PullMessageActivity`).
    ///
    /// # Errors
    /// `SUBSCRIPTION_NOT_LATEST` when the group has no known member, `SUBSCRIPTION_NOT_EXIST` when no member names
    /// the topic.
    pub fn subscription(&self, group: &str, topic: &str) -> Result<SubscriptionData, Refusal> {
        let groups = self.groups.lock();
        let text = || format!("the consumer group {group} has no connected member at the proxy");
        let members =
            groups.get(group).ok_or_else(|| Refusal::new(response::SUBSCRIPTION_NOT_LATEST, text()))?;
        let subscriptions = members.values().flat_map(|it| it.data.subscription_data_set.iter().flatten());
        let found = subscriptions.filter(|it| it.topic == topic).max_by_key(|it| it.sub_version);
        let text = || format!("the consumer group {group} does not subscribe to {topic}");
        found.cloned().ok_or_else(|| Refusal::new(response::SUBSCRIPTION_NOT_EXIST, text()))
    }

    /// The client ids of a group, sorted; empty when no member is connected.
    pub fn client_ids(&self, group: &str) -> Vec<String> {
        self.groups.lock().get(group).map(|group| group.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the members of a group, and the subscriptions of the member with the last heartbeat. `None` if no
    /// member is connected.
    pub fn connections(&self, group: &str) -> Option<ConsumerConnection> {
        let groups = self.groups.lock();
        let members = groups.get(group)?;
        let newest = &members.values().max_by_key(|member| member.seen_ms)?.data;
        let connection = |member: &Consumer| Connection {
            client_addr: member.address.clone(),
            client_id: member.data.client_id.clone(),
            language: member.data.language.clone().unwrap_or_else(|| "OTHER".to_owned()),
            version: member.data.version,
        };
        let subscriptions = newest.subscription_data_set.iter().flatten();
        Some(ConsumerConnection {
            connection_set: members.values().map(connection).collect(),
            consume_from_where: newest.consume_from_where,
            consume_type: newest.consume_type,
            message_model: newest.message_model,
            subscription_table: subscriptions.map(|data| (data.topic.clone(), data.clone())).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(client: &str, proxy: &str, heartbeat_type: HeartbeatType) -> HeartbeatSyncerData {
        let channel = RemoteChannel { remote_address: format!("{client}:1"), ..Default::default() };
        HeartbeatSyncerData {
            channel_data: String::from_utf8(json::to_vec(&channel)).unwrap(),
            client_id: client.to_owned(),
            group: "g".to_owned(),
            heartbeat_type,
            local_proxy_id: proxy.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn a_consumer_leaves_by_the_proxy_it_was_at_last() {
        let consumers = Consumers::default();
        consumers.take(told("a", "p", HeartbeatType::Register), 1);
        consumers.take(told("b", "p", HeartbeatType::Register), 2);
        consumers.take(told("a", "q", HeartbeatType::Register), 3);
        consumers.take(told("a", "p", HeartbeatType::Unregister), 4);
        assert_eq!(consumers.client_ids("g"), ["a", "b"]);
        let connections = consumers.connections("g").unwrap();
        let addresses: Vec<_> = connections.connection_set.iter().map(|it| it.client_addr.as_str()).collect();
        assert_eq!(addresses, ["a:1", "b:1"]);
        consumers.take(told("a", "q", HeartbeatType::Unregister), 5);
        assert_eq!(consumers.client_ids("g"), ["b"]);
    }

    #[test]
    fn a_consumer_is_not_lost_with_its_former_connection() {
        let consumers = Consumers::default();
        let told = |address: &str, heartbeat_type| {
            let channel = RemoteChannel {
                remote_address: address.to_owned(),
                r#type: REMOTING.to_owned(),
                ..Default::default()
            };
            let channel_data = String::from_utf8(json::to_vec(&channel)).unwrap();
            HeartbeatSyncerData { channel_data, ..told("a", "p", heartbeat_type) }
        };
        consumers.take(told("h:1", HeartbeatType::Register), 1);
        consumers.take(told("h:2", HeartbeatType::Register), 2);
        assert!(!consumers.take(told("h:1", HeartbeatType::Unregister), 3));
        assert_eq!(consumers.client_ids("g"), ["a"]);
        assert!(consumers.take(told("h:2", HeartbeatType::Unregister), 4));
    }

    #[test]
    fn a_silent_consumer_is_forgotten() {
        let consumers = Consumers::default();
        consumers.take(told("a", "p", HeartbeatType::Register), 1);
        consumers.take(told("b", "p", HeartbeatType::Register), 2);
        consumers.forget_silent(2);
        assert_eq!(consumers.client_ids("g"), ["b"]);
        consumers.forget_silent(3);
        assert_eq!(consumers.connections("g"), None);
    }
}
