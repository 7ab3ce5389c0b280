//! What proxies tell each other of their consumers, on a topic that each reads from its end (`HeartbeatSyncer`).
//!
//! Each heartbeat of a consumer is one message, so nothing has to be kept: who misses a message hears of the consumer with the next
//! one, and forgets it after two minutes.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use broker::api::Member;
use client::{Message, Producer, ProducerConfig, PullConsumer};
use tokio::sync::mpsc;
use wire::body::{ConsumerData, HeartbeatData, HeartbeatSyncerData, HeartbeatType, RemoteChannel};
use wire::codes::response;
use wire::json;

use super::Cluster;
use crate::registry::{Client, Stated};
use grpc::messages::settings_json;

/// Time between two looks for queues of the topic.
const PERIOD: Duration = Duration::from_secs(20);

/// How soon the topic is looked for after it was created.
const SOON: Duration = Duration::from_secs(1);

/// How soon the topic is looked for again after that failed.
const LATER: Duration = Duration::from_secs(5);

/// How long one poll waits.
const POLL: Duration = Duration::from_secs(15);

/// Messages that wait to be sent; a further one is dropped, because the next heartbeat says the same.
const WAITING_MAX: usize = 4096;

/// Most messages that are sent together.
const TOGETHER: usize = 64;

/// Messages on their way to the topic.
pub struct Outbox {
    sender: mpsc::Sender<Message>,
    /// Taken by the task that sends.
    waiting: Mutex<Option<mpsc::Receiver<Message>>>,
}

impl Default for Outbox {
    fn default() -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        Self { sender, waiting: Mutex::new(Some(waiting)) }
    }
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap_or_default()
}

impl Cluster {
    /// Notes the heartbeat of a consumer of this proxy, and tells other proxies.
    pub(crate) fn consumer_met(&self, member: &Member, stated: &Stated, data: &HeartbeatData) {
        for consumer in &data.consumer_data_set {
            let ConsumerData { consume_from_where, consume_type, message_model, .. } = *consumer;
            self.tell(HeartbeatSyncerData {
                channel_data: self.channel(member.link.remote().to_string(), Some(stated)),
                client_id: member.client_id.clone(),
                consume_from_where: Some(consume_from_where),
                consume_type: Some(consume_type),
                group: consumer.group_name.clone(),
                heartbeat_type: HeartbeatType::Register,
                language: member.language.map(|language| language.name().to_owned()),
                last_update_timestamp: member.seen_ms,
                local_proxy_id: self.id.clone(),
                message_model: Some(message_model),
                subscription_data_set: Some(consumer.subscription_data_set.clone()),
                version: member.version,
            });
        }
    }

    /// Notes that a client of this proxy left, and tells other proxies.
    pub(crate) fn client_left(&self, client: &Client) {
        if let Some(group) = client.consumer_group() {
            self.tell(HeartbeatSyncerData {
                channel_data: self.channel(client.remote.to_string(), None),
                client_id: client.id.clone(),
                group,
                heartbeat_type: HeartbeatType::Unregister,
                last_update_timestamp: client::now_ms(),
                local_proxy_id: self.id.clone(),
                ..HeartbeatSyncerData::default()
            });
        }
    }

    fn channel(&self, remote_address: String, stated: Option<&Stated>) -> String {
        text(json::to_vec(&RemoteChannel {
            extend_attribute: stated.map(|stated| settings_json(&stated.settings).to_string()),
            local_address: format!("{}:{}", self.client.ip(), self.port),
            remote_address,
            remote_proxy_ip: self.client.ip().to_string(),
            r#type: "GRPC_V2".to_owned(),
        }))
    }

    fn tell(&self, told: HeartbeatSyncerData) {
        if !self.sync_topic.is_empty() {
            let _ = self.outbox.sender.try_send(Message::new(self.sync_topic.as_str(), json::to_vec(&told)));
        }
        self.consumers.take(told, client::now_ms());
    }

    /// Takes what a proxy told; that of this one is passed over.
    pub(super) fn hear(&self, body: &[u8]) {
        match json::from_slice::<HeartbeatSyncerData>(body) {
            Ok(told) if told.local_proxy_id != self.id => self.consumers.take(told, client::now_ms()),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "what another proxy told of a consumer cannot be read"),
        }
    }

    /// Reads all queues of the topic: those that are new from their end. False when the topic had to be created first.
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

/// Tells and hears until the proxy stops.
pub async fn run(cluster: &Cluster, stopping: impl Future<Output = ()>) {
    let mut stopping = pin!(stopping);
    let waiting = cluster.outbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut waiting) = waiting.filter(|_| !cluster.sync_topic.is_empty()) else { return };
    let consumer = PullConsumer::new(&cluster.client, format!("CID_{}", cluster.sync_topic), "*");
    let producer = Producer::new(&cluster.client, ProducerConfig::new(format!("PID_{}", cluster.sync_topic)));
    let (mut look, mut listens) = (tokio::time::interval(PERIOD), false);
    loop {
        tokio::select! {
            _ = look.tick() => match cluster.listen(&consumer).await {
                Ok(true) => listens = true,
                Ok(false) => look.reset_after(SOON),
                Err(error) => {
                    look.reset_after(LATER);
                    tracing::warn!(%error, topic = cluster.sync_topic, "the consumers of other proxies are not known");
                }
            },
            Some(first) = waiting.recv(), if listens => {
                let mut messages = vec![first];
                while messages.len() < TOGETHER && let Ok(next) = waiting.try_recv() {
                    messages.push(next);
                }
                if let Err(error) = producer.send_batch(&messages).await {
                    tracing::warn!(%error, topic = cluster.sync_topic, "other proxies do not hear of consumers of this one");
                }
            }
            // What fails is asked again after a second.
            found = consumer.poll(POLL), if listens => {
                found.unwrap_or_default().iter().for_each(|message| cluster.hear(&message.body));
            }
            () = &mut stopping => return,
        }
    }
}

#[cfg(test)]
mod tests;
