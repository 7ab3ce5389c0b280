//! Transaction messages (`TransactionMQProducer`).
//!
//! A message is stored as a *half message* that no consumer sees. The application then commits it or rolls it back.
//! When that request is lost, or the producer is gone, the broker sends a transaction check to any producer of the
//! group.

use crate::remote::push_one_way;
use crate::server_requests::Check;
use crate::trace::{Tracer, TransactionTrace};
use crate::{
    Client, Credentials, Error, Message, Producer, ProducerConfig, Received, SendOutcome, SendStatus,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use wire::codes::request;
use wire::frame::FrameWriter;
pub use wire::header::Decision;
use wire::header::EndTransaction;
use wire::id::OffsetId;
use wire::properties::key;

/// Most transaction checks that may wait for the application. The broker repeats dropped checks
/// (`TransactionMQProducer.checkRequestHoldMax`).
const CHECKS_MAX: usize = 2000;

/// Properties that the trace of a transaction's end contains.
const TRACED: [&str; 3] = [key::MSG_REGION, key::TAGS, key::KEYS];

/// A producer of half messages that answers the transaction checks of brokers.
pub struct TransactionProducer {
    client: Client,
    producer: Producer,
    checks: Mutex<Option<JoinHandle<()>>>,
}

impl TransactionProducer {
    /// Makes a producer whose group answers transaction checks with `check`, on its own thread. A check that panics
    /// leaves the message undecided.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the client already has a transaction producer in this group, [`Error::System`] when the
    /// thread cannot be started.
    pub fn new(
        client: &Client,
        config: ProducerConfig,
        check: impl Fn(&Received) -> Decision + Send + 'static,
    ) -> Result<Self, Error> {
        let group = config.group.clone();
        let (sender, receiver) = sync_channel(CHECKS_MAX);
        if !client.inner.remote.server_requests.open_producer(&group, sender) {
            let text = format!("the client already has a producer of transactions in group {group}");
            return Err(Error::Illegal(text));
        }
        let producer = Producer::new(client, config);
        let tracer = producer.tracer().cloned();
        let thread = std::thread::Builder::new().name("transaction-check".to_owned());
        let credentials = client.inner.remote.credentials.clone();
        let checks = thread
            .spawn(move || answer((&group, credentials.as_ref()), &receiver, &check, tracer.as_ref()))?;
        Ok(Self { client: client.clone(), producer, checks: Mutex::new(Some(checks)) })
    }

    /// Stores a half message, which no consumer sees. Its delay, if any, counts from its commit.
    ///
    /// # Errors
    /// Errors of [`Producer::send`].
    pub async fn begin(&self, message: &Message) -> Result<HalfMessage<'_>, Error> {
        let half = message
            .clone()
            .property(key::TRANSACTION_PREPARED, "true")
            .property(key::PRODUCER_GROUP, self.producer.group());
        // Brokers send checks only to producers that they know by heartbeat.
        self.producer.introduce(&message.topic).await?;
        let outcome = self.producer.send(&half).await?;
        Ok(HalfMessage { producer: self, message: half, outcome })
    }

    /// Stops answering checks, and removes the producer from its group.
    pub async fn shutdown(&self) {
        self.client.inner.remote.server_requests.close_producer(self.producer.group());
        let thread = self.checks.lock().expect("short section").take();
        let joined = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join));
        if !matches!(joined.await, Ok(None | Some(Ok(())))) {
            tracing::error!("the thread that answers check-backs did not end well");
        }
        self.producer.shutdown().await;
    }
}

/// Stored half message without a decision. If it is dropped undecided, the broker sends a transaction check.
pub struct HalfMessage<'p> {
    producer: &'p TransactionProducer,
    message: Message,
    outcome: SendOutcome,
}

impl HalfMessage<'_> {
    /// The result of the send. A half message that is not stored safely should be rolled back, as RocketMQ's Java
    /// producer does.
    pub fn outcome(&self) -> &SendOutcome {
        &self.outcome
    }

    /// Whether the message is stored as the broker's flush and replication modes promise.
    pub fn is_safe(&self) -> bool {
        self.outcome.status == SendStatus::Stored
    }

    /// Commits the message, so that consumers see it.
    ///
    /// # Errors
    /// Errors of [`HalfMessage::end`].
    pub async fn commit(self) -> Result<SendOutcome, Error> {
        self.end(Decision::Commit).await
    }

    /// Rolls the message back, so that no consumer ever sees it.
    ///
    /// # Errors
    /// Errors of [`HalfMessage::end`].
    pub async fn rollback(self) -> Result<SendOutcome, Error> {
        self.end(Decision::Rollback).await
    }

    /// Ends the transaction with a decision. It is a one-way request (`END_TRANSACTION`). If the request is lost, the
    /// broker sends a check.
    ///
    /// # Errors
    /// [`Error::Connect`] when the broker cannot be connected to. The broker will then send a check.
    pub async fn end(self, decision: Decision) -> Result<SendOutcome, Error> {
        let Self { producer, message, outcome } = self;
        if decision == Decision::Unknown {
            return Ok(outcome);
        }
        let place = OffsetId::parse(&outcome.offset_id).ok_or_else(|| Error::Answer {
            address: outcome.queue.broker_name.clone(),
            why: format!("expected the id of a message, found {:?}", outcome.offset_id),
        })?;
        let end = EndTransaction {
            producer_group: producer.producer.group(),
            topic: &message.topic,
            queue_offset: outcome.queue_offset,
            log_offset: place.log_offset.to_i64(),
            decision,
            from_check: false,
            message_id: &outcome.message_id,
            transaction_id: outcome.transaction_id.as_deref().unwrap_or(&outcome.message_id),
        };
        let address = producer.client.master_of(&outcome.queue).await?;
        let write = |frame: wire::frame::FrameWriter<'_>| {
            end.write(frame).text("bname", &outcome.queue.broker_name).finish(b"");
        };
        producer.client.inner.remote.send_one_way(&address, request::END_TRANSACTION, 0, write).await?;
        if let Some(tracer) = producer.producer.tracer() {
            let [region, tags, keys] = TRACED.map(|name| message.properties.get(name).map(String::as_str));
            tracer.ended(&TransactionTrace { end: &end, store_host: &address, region, tags, keys });
        }
        Ok(outcome)
    }
}

/// Answers transaction checks until the sender of the channel is dropped.
fn answer(
    (group, credentials): (&str, Option<&Credentials>),
    checks: &Receiver<Check>,
    check: &dyn Fn(&Received) -> Decision,
    tracer: Option<&Tracer>,
) {
    while let Ok(asked) = checks.recv() {
        let call = AssertUnwindSafe(|| check(&asked.message));
        let decision = catch_unwind(call).unwrap_or_else(|_| {
            tracing::error!(group, "a check of a transaction panicked; it stays undecided");
            Decision::Unknown
        });
        if decision == Decision::Unknown {
            continue;
        }
        let end = EndTransaction {
            producer_group: group,
            topic: &asked.message.topic,
            queue_offset: asked.queue_offset,
            log_offset: asked.log_offset,
            decision,
            from_check: true,
            message_id: &asked.message_id,
            transaction_id: &asked.transaction_id,
        };
        // If the connection of the broker has ended, the broker repeats the check.
        let write = |frame: FrameWriter<'_>| end.write(frame).finish(b"");
        let sent = push_one_way(&asked.peer, credentials, request::END_TRANSACTION, write);
        if let (Ok(()), Some(tracer)) = (sent, tracer) {
            let store_host = asked.message.store_host.to_string();
            let [region, tags, keys] = TRACED.map(|name| asked.message.property(name));
            tracer.ended(&TransactionTrace { end: &end, store_host: &store_host, region, tags, keys });
        }
    }
}
