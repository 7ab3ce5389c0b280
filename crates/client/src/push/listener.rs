//! Calls the listener, and consumes messages concurrently, including the send-back of messages that failed
//! (`ConsumeMessageConcurrentlyService`).

use super::consume_pool::Job;
use super::queue::{AssignedQueue, Context};
use super::{RETRY_LATER, retry_topic};
use crate::{Client, Error, Received};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use wire::body::MessageModel;
use wire::codes::request;
use wire::properties::key;

/// Longest time for sending a message back.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The listener's result for the messages it was given (`ConsumeConcurrentlyStatus`, `ConsumeOrderlyStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumeStatus {
    /// The messages are consumed.
    Done,
    /// Deliver the messages again. In orderly consumption they come again after a second, before any other message of
    /// their queue. In concurrent consumption they come through the retry topic, with a growing delay. In broadcasting
    /// they are dropped.
    Later,
}

/// The application's function that consumes messages.
pub(super) type Listener = dyn Fn(&[Received]) -> ConsumeStatus + Send + Sync;

/// Messages on their way to the listener, or back to the broker.
pub(super) struct Delivery {
    pub queue: Arc<AssignedQueue>,
    pub messages: Vec<Received>,
}

impl Context {
    /// Calls the listener with traces; a panic counts as [`ConsumeStatus::Later`].
    pub fn call(&self, messages: &[Received]) -> ConsumeStatus {
        let traced = self.tracer.as_ref().map(|tracer| (tracer, tracer.consuming(messages)));
        let Some(listener) = self.listener.lock().expect("short section").clone() else {
            return ConsumeStatus::Later;
        };
        let begin = Instant::now();
        let verdict = catch_unwind(AssertUnwindSafe(|| listener(messages))).unwrap_or_else(|_| {
            let queue = messages.first().map(|message| super::name_of(&message.queue));
            tracing::error!(queue, "the listener panicked; its messages will come again");
            ConsumeStatus::Later
        });
        if let Some((tracer, consumed)) = traced {
            tracer.consumed(&consumed, messages, verdict == ConsumeStatus::Done);
        }
        if let Some(first) = messages.first() {
            let is_done = verdict == ConsumeStatus::Done;
            self.tally.called(&first.queue.topic, messages.len(), is_done, begin.elapsed());
        }
        verdict
    }

    /// Passes messages to the listener on the threads of the consume pool.
    pub fn deliver(self: &Arc<Self>, deliveries: impl Iterator<Item = Delivery>) {
        self.consume_pool.submit(deliveries.map(|delivery| {
            let shared = self.clone();
            Box::new(move || shared.consume(delivery)) as Job
        }));
    }

    fn consume(&self, delivery: Delivery) {
        if delivery.queue.is_dropped() {
            return;
        }
        match (self.call(&delivery.messages), self.config.model) {
            (ConsumeStatus::Later, MessageModel::Clustering) => {
                // The task that sends messages back lives as long as this consumer, so the channel is open.
                let _ = self.returns.send(delivery);
            }
            (ConsumeStatus::Later, _) => {
                let queue = delivery.queue.name();
                tracing::warn!(queue, "broadcast messages are given up after a failure");
                delivery.queue.done(&delivery.messages);
            }
            (ConsumeStatus::Done, _) => delivery.queue.done(&delivery.messages),
        }
    }
}

/// Sends messages back to their brokers until all senders are dropped, one message at a time to each broker. The
/// process queues bound the number of deliveries.
pub(super) async fn send_back_all(
    client: Client,
    group: String,
    back: (i32, i32),
    mut returns: tokio::sync::mpsc::UnboundedReceiver<Delivery>,
) {
    let mut turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>> = BTreeMap::new();
    let mut under_way = JoinSet::new();
    while let Some(delivery) = returns.recv().await {
        while under_way.try_join_next().is_some() {}
        let turn = turns.entry(delivery.queue.queue.broker_name.clone()).or_default().clone();
        under_way.spawn(send_back_each(client.clone(), group.clone(), back, delivery, turn));
    }
}

/// Sends the messages of a delivery back. A message whose send-back failed stays pending, so that its offset is not
/// committed, and is passed to the listener again after a pause.
async fn send_back_each(
    client: Client,
    group: String,
    (delay_level, retries): (i32, i32),
    Delivery { queue, mut messages }: Delivery,
    turn: Arc<tokio::sync::Mutex<()>>,
) {
    loop {
        let mine = turn.lock().await;
        let mut failed = Vec::new();
        for message in messages {
            match client.send_back(&group, &message, delay_level, retries).await {
                Ok(()) => queue.done(std::slice::from_ref(&message)),
                // The message stays pending, so the next owner of the queue gets it.
                Err(_) if queue.is_dropped() => return,
                Err(error) => {
                    tracing::warn!(%error, group, "a message could not be sent back yet");
                    failed.push(message);
                }
            }
        }
        drop(mine);
        if failed.is_empty() {
            return;
        }
        messages = failed;
        tokio::time::sleep(RETRY_LATER).await;
    }
}

impl Client {
    /// Sends a message back, so that the broker delivers it to the group again (`CONSUMER_SEND_MSG_BACK`).
    /// `delay_level` counts from 1. 0 means a delay that grows with every retry, and -1 the dead letter topic. After
    /// `retries` retries the message goes to the dead letter topic in any case.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses or
    /// no longer has the message.
    pub async fn send_back(
        &self,
        group: &str,
        message: &Received,
        delay_level: i32,
        retries: i32,
    ) -> Result<(), Error> {
        let address = self.master_of(&message.queue).await?;
        let write = |frame: wire::frame::FrameWriter<'_>| {
            frame
                .number("offset", message.log_offset)
                .text("group", group)
                .number("delayLevel", delay_level)
                .text("originMsgId", &message.message_id())
                .text("originTopic", &message.topic)
                .flag("unitMode", false)
                .number("maxReconsumeTimes", retries)
                .text("bname", &message.queue.broker_name)
                .finish(b"");
        };
        self.inner.remote.call(&address, request::CONSUMER_SEND_MSG_BACK, TIMEOUT, write).await.map(|_| ())
    }
}

/// Restores the original topic of a message from the retry topic (`DefaultMQPushConsumerImpl.resetRetryAndNamespace`).
pub(super) fn restore_topic(message: &mut Received, group: &str) {
    if message.topic == retry_topic(group)
        && let Some(topic) = message.property(key::RETRY_TOPIC)
    {
        message.topic = topic.to_owned();
    }
}
