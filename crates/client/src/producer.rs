//! Sending messages (`DefaultMQProducerImpl`).

mod outcome;
mod prepare;
#[cfg(test)]
mod tests;

pub use outcome::{SendOutcome, SendStatus};

use crate::compress::Compression;
use crate::trace::{SendTrace, Tracer};
use crate::{Client, Error, Message, clock};
use prepare::{KeyGenerator, SendDraft};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::body::MessageQueue;
use wire::codes::request;
use wire::header::SendHeader;
use wire::recall::RecallHandle;

/// Approximate size in bytes of a request without its body and properties.
const HEADER_BYTES: usize = 512;

/// Settings of a producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Producer group.
    pub group: String,
    /// Longest time for a send including its retries (`sendMsgTimeout`).
    pub timeout: Duration,
    /// Number of retries after the first attempt (`retryTimesWhenSendFailed`).
    pub retries: u32,
    /// Compression for large bodies; `None` for no compression.
    pub compress: Option<CompressConfig>,
    /// Largest number of queues of a topic that is created by the first send (`defaultTopicQueueNums`).
    pub default_topic_queues: i32,
    /// Largest body before compression (`maxMessageSize`).
    pub body_bytes_max: usize,
    /// Topic of the message traces (`enableMsgTrace`), such as [`crate::TRACE_TOPIC`]; `None` for no traces.
    pub trace: Option<String>,
}

/// Compression of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressConfig {
    /// Compression method.
    pub kind: Compression,
    /// Compression level, see [`crate::compress()`].
    pub level: u32,
    /// Smallest body that is compressed, bytes.
    pub over: usize,
}

impl Default for CompressConfig {
    /// The defaults of RocketMQ's Java client: zlib, level 5, from 4096 bytes.
    fn default() -> Self {
        Self { kind: Compression::Zlib, level: 5, over: 4096 }
    }
}

impl ProducerConfig {
    /// The defaults of RocketMQ's Java client: 3 s, two retries, zlib from 4096 bytes, 4 queues, 4 MiB.
    pub fn new(group: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            timeout: Duration::from_secs(3),
            retries: 2,
            compress: Some(CompressConfig::default()),
            default_topic_queues: 4,
            body_bytes_max: 4 << 20,
            trace: None,
        }
    }
}

/// Sends messages. All methods take `&self`; sends that run at the same time share the connections.
pub struct Producer {
    client: Client,
    config: ProducerConfig,
    keys: KeyGenerator,
    /// Counter for choosing queues in turn.
    turn: AtomicUsize,
    tracer: Option<Tracer>,
    /// Topics whose brokers have received a heartbeat with this producer's group.
    introduced: Mutex<BTreeSet<String>>,
}

impl Producer {
    /// Makes a producer and adds its group to the client's heartbeats.
    pub fn new(client: &Client, config: ProducerConfig) -> Self {
        client.inner.groups.add_producer(&config.group);
        let seed = clock::seed();
        let keys = KeyGenerator::new(client.ip(), seed);
        let tracer = config.trace.as_ref().and_then(|topic| Tracer::start(client, &config.group, topic));
        let turn = AtomicUsize::new(seed as usize >> 8);
        Self { client: client.clone(), config, keys, turn, tracer, introduced: Mutex::default() }
    }

    /// Sends a message to a queue of its topic and waits until it is stored. A failed attempt is retried on another
    /// broker.
    ///
    /// # Errors
    /// The error of the last attempt. After [`Error::Call`] the message may still be stored.
    pub async fn send(&self, message: &Message) -> Result<SendOutcome, Error> {
        let prepared = SendDraft::single(message, &self.config, &self.keys, clock::now_ms())?;
        self.send_somewhere(&message.topic, &prepared, Some(message)).await
    }

    /// Sends messages of a topic in one request, stored together and in order.
    ///
    /// # Errors
    /// Errors of [`Producer::send`], and [`Error::Illegal`] when the messages differ in topic, or a message is delayed.
    pub async fn send_batch(&self, messages: &[Message]) -> Result<SendOutcome, Error> {
        let prepared = SendDraft::batch(messages, &self.config, &self.keys, clock::now_ms())?;
        self.send_somewhere(&messages[0].topic, &prepared, None).await
    }

    /// Sends a message to the given queue, without retries.
    ///
    /// # Errors
    /// [`Error::NoBroker`] when the queue's broker is in no route, [`Error::Connect`] or [`Error::Call`] when it does
    /// not answer, [`Error::Refused`] when it refuses.
    pub async fn send_to(&self, queue: &MessageQueue, message: &Message) -> Result<SendOutcome, Error> {
        let prepared = SendDraft::single(message, &self.config, &self.keys, clock::now_ms())?;
        self.attempt(queue, &prepared, self.config.timeout, Some(message)).await
    }

    /// Recalls a timed message that is not due yet, by its [`SendOutcome::recall_handle`], and returns its message
    /// id. The broker may already be delivering the message.
    ///
    /// # Errors
    /// [`Error::NoBroker`], [`Error::Connect`] or [`Error::Call`] when the broker is unknown or does not answer;
    /// [`Error::Refused`] when it has `recallMessageEnable` off, or the handle is wrong or too late.
    pub async fn recall(&self, topic: &str, handle: &str) -> Result<String, Error> {
        let broken = || Error::Illegal(format!("{handle:?} is not the handle of a message"));
        let broker = RecallHandle::decode(handle).ok_or_else(broken)?.broker_name;
        let address = self.client.master_of(&MessageQueue::new(topic, broker, 0)).await?;
        let write = |frame: wire::frame::FrameWriter<'_>| {
            frame
                .text("producerGroup", &self.config.group)
                .text("topic", topic)
                .text("recallHandle", handle)
                .finish(b"");
        };
        let code = request::RECALL_MESSAGE;
        let reply = self.client.inner.remote.call(&address, code, self.config.timeout, write).await?;
        let id = reply.text("msgId").map(str::to_owned);
        id.ok_or_else(|| Error::Answer { address, why: "the answer to a recall has no msgId".to_owned() })
    }

    /// Sends a message as a one-way request. Whether it is stored stays unknown.
    ///
    /// # Errors
    /// [`Error::NoQueue`] when the topic has no queue, [`Error::Connect`] when its broker cannot be connected to.
    pub async fn send_one_way(&self, message: &Message) -> Result<(), Error> {
        let prepared = SendDraft::single(message, &self.config, &self.keys, clock::now_ms())?;
        let queue = self.pick(&message.topic, None).await?;
        let address = self.client.master_of(&queue).await?;
        let header = self.header(&queue, &prepared);
        let write = |frame: wire::frame::FrameWriter<'_>| header.write(frame).finish(&prepared.body);
        self.client.inner.remote.send_one_way(&address, prepared.code, size(&prepared), write).await
    }

    /// Returns the writable queues of a topic.
    ///
    /// # Errors
    /// Errors of [`Client::fetch_route`], when neither the topic nor its template topic has a route.
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        let route = self.client.publish_route(topic, self.config.default_topic_queues).await?;
        Ok(route.publish.clone())
    }

    /// Removes the producer. If it is the last producer of its group in this client, brokers are notified that the
    /// client left the group.
    pub async fn shutdown(&self) {
        if let Some(tracer) = &self.tracer {
            Box::pin(tracer.finish()).await;
        }
        if self.client.inner.groups.remove_producer(&self.config.group) {
            self.client.unregister("producerGroup", &self.config.group).await;
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn group(&self) -> &str {
        &self.config.group
    }

    pub(crate) fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    /// Makes a new unique key.
    pub(crate) fn fresh_id(&self) -> String {
        self.keys.next(clock::now_ms())
    }

    /// Sends a heartbeat to the brokers of a topic if they do not know this producer yet, so that they can send
    /// requests to it.
    pub(crate) async fn introduce(&self, topic: &str) -> Result<(), Error> {
        if self.introduced.lock().expect("short section").contains(topic) {
            return Ok(());
        }
        self.client.publish_route(topic, self.config.default_topic_queues).await?;
        self.client.heartbeat().await;
        self.introduced.lock().expect("short section").insert(topic.to_owned());
        Ok(())
    }

    async fn send_somewhere(
        &self,
        topic: &str,
        prepared: &SendDraft,
        message: Option<&Message>,
    ) -> Result<SendOutcome, Error> {
        let begin = Instant::now();
        let mut failed: Option<(String, Error)> = None;
        let mut attempts_left = self.config.retries;
        loop {
            let failed_broker = failed.as_ref().map(|(broker, _)| broker.as_str());
            let queue = match (self.pick(topic, failed_broker).await, failed) {
                (Ok(queue), _) => queue,
                // The error of the failed attempt tells more than the error that no queue is left.
                (Err(_), Some((_, error))) | (Err(error), None) => return Err(error),
            };
            let left = self.config.timeout.saturating_sub(begin.elapsed());
            let error = match self.attempt(&queue, prepared, left, message).await {
                Err(error) if error.is_retryable() && attempts_left > 0 => error,
                ended => return ended,
            };
            if begin.elapsed() >= self.config.timeout {
                return Err(error);
            }
            tracing::debug!(%error, broker = queue.broker_name, "send failed, trying elsewhere");
            attempts_left -= 1;
            // An outdated route may be the reason. When it cannot be refreshed, the known one stays in use.
            if self.client.refresh_route(topic).await.is_err() {
                tracing::debug!(topic, "the route could not be refreshed");
            }
            failed = Some((queue.broker_name, error));
        }
    }

    /// The next queue in turn. After a failure it is on another broker than the failed one, if there is one.
    async fn pick(&self, topic: &str, failed_broker: Option<&str>) -> Result<MessageQueue, Error> {
        let mut route = self.client.publish_route(topic, self.config.default_topic_queues).await?;
        if route.publish.is_empty()
            && let Ok(fresh) = self.client.refresh_route(topic).await
        {
            // The refreshed route has the master again.
            route = fresh;
        }
        let turn = self.turn.fetch_add(1, Relaxed);
        pick(&route.publish, turn, failed_broker).cloned().ok_or_else(|| Error::NoQueue(topic.to_owned()))
    }

    async fn attempt(
        &self,
        queue: &MessageQueue,
        prepared: &SendDraft,
        timeout: Duration,
        message: Option<&Message>,
    ) -> Result<SendOutcome, Error> {
        let address = self.client.master_of(queue).await?;
        let header = self.header(queue, prepared);
        let write = |frame: wire::frame::FrameWriter<'_>| header.write(frame).finish(&prepared.body);
        let begin = Instant::now();
        let asked =
            self.client.inner.remote.ask_large(&address, prepared.code, timeout, size(prepared), write);
        let reply = asked.await;
        let region = reply.as_ref().ok().and_then(|reply| reply.text("MSG_REGION").map(str::to_owned));
        let outcome = reply.and_then(|reply| SendOutcome::read(&address, queue, prepared, reply));
        if let (Some(tracer), Some(message)) = (&self.tracer, message) {
            tracer.published(&SendTrace {
                topic: &message.topic,
                properties: &message.properties,
                region: region.as_deref().unwrap_or("null"),
                message_id: &prepared.message_id,
                offset_id: outcome.as_ref().map_or("", |outcome| &outcome.offset_id),
                store_host: &address,
                body_bytes: message.body.len(),
                cost_ms: i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX),
            });
        }
        outcome
    }

    fn header<'a>(&'a self, queue: &'a MessageQueue, prepared: &'a SendDraft) -> SendHeader<'a> {
        SendHeader {
            producer_group: &self.config.group,
            topic: &queue.topic,
            default_topic: wire::names::DEFAULT_TOPIC,
            default_topic_queue_nums: self.config.default_topic_queues,
            queue_id: queue.queue_id,
            sys_flag: prepared.sys_flag,
            born_timestamp: prepared.born_ms,
            flag: prepared.flag,
            properties: &prepared.properties,
            batch: prepared.code == request::SEND_BATCH_MESSAGE,
            broker_name: &queue.broker_name,
            ..SendHeader::default()
        }
    }
}

/// Approximate size of a request in bytes.
fn size(prepared: &SendDraft) -> usize {
    HEADER_BYTES + prepared.body.len() + prepared.properties.len()
}

/// Returns the queue at position `turn`, or after a failure the next queue on another broker.
fn pick<'a>(
    queues: &'a [MessageQueue],
    turn: usize,
    failed_broker: Option<&str>,
) -> Option<&'a MessageQueue> {
    let first = queues.get(turn.checked_rem(queues.len())?)?;
    let Some(failed) = failed_broker else { return Some(first) };
    let in_turn = queues.iter().cycle().skip(turn % queues.len()).take(queues.len());
    Some(in_turn.into_iter().find(|queue| queue.broker_name != failed).unwrap_or(first))
}
