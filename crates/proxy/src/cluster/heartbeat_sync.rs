//! Reports between proxies about their consumers, on a topic that each proxy reads from its end (`HeartbeatSyncer`).
//!
//! Each heartbeat of a consumer is one message, so no state must be stored. A proxy that misses a message gets the
//! consumer's next heartbeat, or removes the consumer after two minutes.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Message, Producer, ProducerConfig, PullConsumer};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use wire::body::{ConsumerData, HeartbeatSyncerData, HeartbeatType, RemoteChannel};
use wire::codes::{Language, response};
use wire::json;

use super::Cluster;
use crate::registry::{Client, ClientSettings};
use grpc::messages::settings_json;

/// Protocol of a gRPC client in reports between proxies (`ChannelProtocolType`).
const GRPC: &str = "GRPC_V2";
/// Protocol of a remoting client in reports between proxies.
pub(super) const REMOTING: &str = "REMOTING";

/// Interval of searches for queues of the topic.
const PERIOD: Duration = Duration::from_secs(20);

/// Pause between the creation of the topic and the search for its queues.
const SOON: Duration = Duration::from_secs(1);

/// Pause after a failure before the next search for queues.
const LATER: Duration = Duration::from_secs(5);

/// Longest wait for settings of a client that another proxy may have sent.
const ON_ITS_WAY: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });

/// Duration of a poll.
const POLL: Duration = Duration::from_secs(15);

/// Most messages that wait to be sent. Further messages are dropped, because the next heartbeat repeats them.
const WAITING_MAX: usize = 4096;

/// Most messages that are sent together.
const TOGETHER: usize = 64;

/// Largest message in bytes. A full batch of such messages fits into a broker's limit.
const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// Messages that wait to be sent to the topic.
pub struct Outbox {
    sender: mpsc::Sender<Message>,
    /// Number of dropped messages that are not logged yet.
    lost: AtomicU64,
    /// Receiver of messages, taken by the sending task.
    waiting: Mutex<Option<mpsc::Receiver<Message>>>,
}

impl Default for Outbox {
    fn default() -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        Self { sender, lost: AtomicU64::new(0), waiting: Mutex::new(Some(waiting)) }
    }
}

/// Heartbeat of a consumer, with its sender.
pub(crate) struct ConsumerHeartbeat<'a> {
    pub remote: SocketAddr,
    /// Settings of a gRPC client. `None` for a remoting client.
    pub stated: Option<&'a ClientSettings>,
    pub client_id: &'a str,
    pub language: Option<Language>,
    pub version: i32,
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap_or_default()
}

impl Cluster {
    /// Records the heartbeat of a consumer of this proxy, and reports it to other proxies.
    pub(crate) fn consumer_heard(&self, heartbeat: &ConsumerHeartbeat<'_>, consumers: &[ConsumerData]) {
        for consumer in consumers {
            let ConsumerData { consume_from_where, consume_type, message_model, .. } = *consumer;
            let kind = if heartbeat.stated.is_some() { GRPC } else { REMOTING };
            let attribute = match heartbeat.stated {
                Some(stated) => settings_json(&stated.settings).to_string(),
                None => text(json::to_vec(&consumer.subscription_data_set)),
            };
            self.publish(HeartbeatSyncerData {
                channel_data: self.channel(kind, heartbeat.remote, Some(attribute)),
                client_id: heartbeat.client_id.to_owned(),
                consume_from_where: Some(consume_from_where),
                consume_type: Some(consume_type),
                group: consumer.group_name.clone(),
                heartbeat_type: HeartbeatType::Register,
                language: heartbeat.language.map(|language| language.name().to_owned()),
                last_update_timestamp: client::now_ms(),
                local_proxy_id: self.id.clone(),
                message_model: Some(message_model),
                subscription_data_set: Some(consumer.subscription_data_set.clone()),
                version: heartbeat.version,
            });
        }
    }

    /// Records the heartbeat of a consumer whose settings another proxy has, and reports it to other proxies. Returns
    /// false if no proxy reported the consumer. The call waits for a message in flight.
    pub(crate) async fn record_remote_heartbeat(&self, group: &str, client_id: &str) -> bool {
        let told = tokio::time::timeout(ON_ITS_WAY, self.consumers.wait_for(group, client_id));
        let told = if self.sync_topic.is_empty() { None } else { told.await.ok() };
        told.map(|data| self.take_over(data)).is_some()
    }

    /// Reports to other proxies that this proxy heard from a consumer, with the consumer's last heartbeat.
    fn take_over(&self, data: HeartbeatSyncerData) {
        let (local_proxy_id, last_update_timestamp) = (self.id.clone(), client::now_ms());
        self.publish(HeartbeatSyncerData { local_proxy_id, last_update_timestamp, ..data });
    }

    /// Records that a client left by this proxy, and reports it to other proxies.
    pub(crate) fn client_left(&self, client: &Client, group: &str) {
        // Proxies believe the end of a client only of the proxy that heard of the client last.
        if let Some(last) =
            self.consumers.get(group, &client.id).filter(|last| last.local_proxy_id != self.id)
        {
            self.take_over(last);
        }
        self.gone(self.channel(GRPC, client.remote, None), group.to_owned(), client.id.clone());
    }

    /// Records that a client of the remoting port left a group, and reports it to other proxies.
    pub(super) fn consumer_left(&self, remote: SocketAddr, group: String, client_id: String) {
        self.gone(self.channel(REMOTING, remote, None), group, client_id);
    }

    fn gone(&self, channel_data: String, group: String, client_id: String) {
        self.publish(HeartbeatSyncerData {
            channel_data,
            client_id,
            group,
            heartbeat_type: HeartbeatType::Unregister,
            last_update_timestamp: client::now_ms(),
            local_proxy_id: self.id.clone(),
            ..HeartbeatSyncerData::default()
        });
    }

    fn channel(&self, kind: &str, remote: SocketAddr, extend_attribute: Option<String>) -> String {
        text(json::to_vec(&RemoteChannel {
            extend_attribute,
            local_address: format!("{}:{}", self.client.ip(), self.port),
            remote_address: remote.to_string(),
            remote_proxy_ip: self.client.ip().to_string(),
            r#type: kind.to_owned(),
        }))
    }

    fn publish(&self, data: HeartbeatSyncerData) {
        if !self.sync_topic.is_empty() {
            let body = json::to_vec(&data);
            if body.len() <= MESSAGE_BYTES_MAX {
                let message = Message::new(self.sync_topic.as_str(), body);
                if let Err(TrySendError::Full(_)) = self.outbox.sender.try_send(message) {
                    self.outbox.lost.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                let (client, bytes) = (&data.client_id, body.len());
                tracing::debug!(
                    client,
                    bytes,
                    "other proxies do not hear of a consumer with so many subscriptions"
                );
            }
        }
        self.take(data);
    }

    /// Records a report about a consumer. If the consumer is new or has left, the members of its group at the
    /// remoting port are notified. Returns whether the consumer is new or has left.
    fn take(&self, data: HeartbeatSyncerData) -> bool {
        let group = data.group.clone();
        let is_change = self.consumers.take(data, client::now_ms());
        if is_change {
            self.remoting.members_changed(&group);
        }
        is_change
    }

    /// Removes consumers without a heartbeat since a time.
    pub(crate) fn forget_silent_consumers(&self, before_ms: i64) {
        let changed = self.consumers.forget_silent(before_ms);
        changed.iter().for_each(|group| self.remoting.members_changed(group));
    }

    /// Takes a report of a proxy and skips reports of this proxy. Returns the id of a client that left.
    pub(super) fn hear(&self, body: &[u8]) -> Option<String> {
        match json::from_slice::<HeartbeatSyncerData>(body) {
            Ok(data) if data.local_proxy_id != self.id => {
                let is_end = data.heartbeat_type == HeartbeatType::Unregister;
                let client_id = data.client_id.clone();
                let is_change = self.take(data);
                (is_end && is_change).then_some(client_id)
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "another proxy's report about a consumer cannot be read");
                None
            }
        }
    }

    /// Reads all queues of the topic. New queues are read from their end. Returns false if the topic had to be
    /// created first.
    async fn listen(&self, consumer: &PullConsumer) -> Result<bool, client::Error> {
        let queues = match consumer.queues(&self.sync_topic).await {
            Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => {
                let mut masters = self.client.masters(&self.name).await?;
                if masters.is_empty() {
                    masters = self.client.masters("").await?;
                }
                for master in masters {
                    self.client.create_topic(&master, &self.sync_topic, 1).await?;
                }
                return Ok(false);
            }
            queues => queues?,
        };
        let fresh: Vec<_> = queues.iter().filter(|queue| consumer.position(queue).is_none()).collect();
        consumer.assign(&queues).await?;
        for queue in fresh {
            consumer.seek(queue, self.client.max_offset(queue).await?)?;
        }
        Ok(!queues.is_empty())
    }
}

/// Sends and receives reports until the proxy stops. Calls `left` with the id of each client that left by another
/// proxy.
pub async fn run(cluster: &Cluster, stopping: impl Future<Output = ()>, left: impl Fn(&str)) {
    let mut stopping = pin!(stopping);
    let waiting = cluster.outbox.waiting.lock().take();
    let Some(mut waiting) = waiting.filter(|_| !cluster.sync_topic.is_empty()) else { return };
    let consumer = PullConsumer::new(&cluster.client, format!("CID_{}", cluster.sync_topic), "*");
    let producer = Producer::new(&cluster.client, ProducerConfig::new(format!("PID_{}", cluster.sync_topic)));
    let (mut look, mut listens) = (tokio::time::interval(PERIOD), false);
    loop {
        tokio::select! {
            _ = look.tick() => {
                let lost = cluster.outbox.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(lost, topic = cluster.sync_topic, "the topic takes too few heartbeats: other proxies may show consumers as offline");
                }
                match cluster.listen(&consumer).await {
                    Ok(true) => listens = true,
                    Ok(false) => look.reset_after(SOON),
                    Err(error) => {
                        look.reset_after(LATER);
                        tracing::warn!(%error, topic = cluster.sync_topic, "the consumers of other proxies are not known");
                    }
                }
            }
            Some(first) = waiting.recv(), if listens => {
                let mut messages = vec![first];
                while messages.len() < TOGETHER && let Ok(next) = waiting.try_recv() {
                    messages.push(next);
                }
                if let Err(error) = producer.send_batch(&messages).await {
                    tracing::warn!(%error, topic = cluster.sync_topic, "other proxies do not hear of consumers of this one");
                }
            }
            // A failed poll is repeated after a second.
            found = consumer.poll(POLL), if listens => {
                let found = found.unwrap_or_default();
                found.iter().filter_map(|message| cluster.hear(&message.body)).for_each(|client| left(&client));
            }
            () = &mut stopping => return,
        }
    }
}

#[cfg(test)]
mod tests;
