//! Calling the listener, and consumption of messages in any order: what happens to those it does not finish
//! (`ConsumeMessageConcurrentlyService`).

use super::crew::Job;
use super::queue::{Assigned, Shared};
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

/// How long sending back may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a listener says about the messages it was given (`ConsumeConcurrentlyStatus`, `ConsumeOrderlyStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are done.
    Done,
    /// They shall come again later, in order: the same messages after a second and nothing of their queue before;
    /// otherwise: through the retry topic, with a delay that grows; while broadcasting they are given up.
    Later,
}

/// What the application does with messages.
pub(super) type Listener = dyn Fn(&[Received]) -> Verdict + Send + Sync;

/// Messages on their way to the listener, or back to the broker.
pub(super) struct Delivery {
    pub queue: Arc<Assigned>,
    pub messages: Vec<Received>,
}

impl Shared {
    /// Calls the listener and traces that; a panic counts as [`Verdict::Later`].
    pub fn call(&self, messages: &[Received]) -> Verdict {
        let traced = self.tracer.as_ref().map(|tracer| (tracer, tracer.consuming(messages)));
        let Some(listener) = self.listener.lock().expect("short section").clone() else {
            return Verdict::Later;
        };
        let begin = Instant::now();
        let verdict = catch_unwind(AssertUnwindSafe(|| listener(messages))).unwrap_or_else(|_| {
            let queue = messages.first().map(|message| super::name_of(&message.queue));
            tracing::error!(queue, "the listener panicked; its messages will come again");
            Verdict::Later
        });
        if let Some((tracer, consumed)) = traced {
            tracer.consumed(&consumed, messages, verdict == Verdict::Done);
        }
        if let Some(first) = messages.first() {
            let is_done = verdict == Verdict::Done;
            self.tally.called(&first.queue.topic, messages.len(), is_done, begin.elapsed());
        }
        verdict
    }

    /// Gives messages to the listener on its threads.
    pub fn deliver(self: &Arc<Self>, deliveries: impl Iterator<Item = Delivery>) {
        self.crew.submit(deliveries.map(|delivery| {
            let shared = self.clone();
            Box::new(move || shared.consume(delivery)) as Job
        }));
    }

    fn consume(&self, delivery: Delivery) {
        if delivery.queue.is_dropped() {
            return;
        }
        match (self.call(&delivery.messages), self.config.model) {
            (Verdict::Later, MessageModel::Clustering) => {
                // The task that sends back lives as long as this consumer.
                let _ = self.returns.send(delivery);
            }
            (Verdict::Later, _) => {
                let queue = delivery.queue.name();
                tracing::warn!(queue, "broadcast messages are given up after a failure");
                delivery.queue.done(&delivery.messages);
            }
            (Verdict::Done, _) => delivery.queue.done(&delivery.messages),
        }
    }
}

/// Sends messages back to their brokers until all senders are gone, one at a time to each broker. Deliveries are
/// bounded by the windows of the queues.
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

/// Sends the messages of a delivery back. One that cannot be sent back stays pending, so that its offset is not passed,
/// and is tried again after a pause in which others have their turn.
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
                // It stays pending, so that the next owner of the queue gets it.
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
    /// Asks the broker to deliver a message to a group again: after the delay of a level counted from 1, after one
    /// that grows with every attempt for 0, or never for -1: then it goes to the group's dead letters, as it does
    /// after `retries` attempts.
    ///
    /// # Errors
    /// The broker does not answer or refuses, or no longer has the message.
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

/// Gives a retried message its own topic again (`DefaultMQPushConsumerImpl.resetRetryAndNamespace`).
pub(super) fn restore_topic(message: &mut Received, group: &str) {
    if message.topic == retry_topic(group)
        && let Some(topic) = message.property(key::RETRY_TOPIC)
    {
        message.topic = topic.to_owned();
    }
}
