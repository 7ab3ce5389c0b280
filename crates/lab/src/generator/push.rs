//! Consumers as applications have them: push consumers of the Rust client, each with its own client.
//!
//! Each run uses its own groups. The start offsets are stored before the consumers join, because a broker lets a new
//! group begin at the first message of a short queue, whatever the group asks for
//! (`ConsumerManageProcessor.queryConsumerOffset`).

use super::mix::Mark;
use super::reader::{self, Reading};
use super::workload::{Consume, Workload};
use crate::Error;
use crate::load::Clock;
use crate::session::Place;
use client::{Client, MessageQueue, PushConfig, PushConsumer, Received, Verdict};
use std::sync::Arc;

/// A member of a consumer group with its own client, because brokers tell members apart by their clients.
pub(super) struct Pusher {
    consumer: PushConsumer,
    client: Client,
}

impl Pusher {
    /// Leaves the group and shuts the client down.
    pub(super) async fn shutdown(self) {
        self.consumer.shutdown().await;
        self.client.shutdown();
    }
}

/// Starts all consumers of every group.
pub(super) async fn start(
    client: &Client,
    workload: &Workload,
    places: &[Place],
    counted: (Clock, &Arc<Reading>),
) -> Result<Vec<Pusher>, Error> {
    let mut started = Vec::new();
    for number in 0..workload.groups {
        let group = workload.group(number);
        for place in places {
            for queue in reader::positions(client, workload, (number, place)).await? {
                let topic = queue.target.topic.as_deref().unwrap_or(&workload.topic);
                let at = MessageQueue::new(topic, &queue.target.broker, queue.target.queue_id);
                client.commit_offset(&group, &at, queue.next).await?;
            }
        }
        for _ in 0..workload.consumers {
            started.push(join(&group, workload, counted).await?);
        }
    }
    Ok(started)
}

/// Starts a member of a group.
async fn join(
    group: &str,
    workload: &Workload,
    (clock, reading): (Clock, &Arc<Reading>),
) -> Result<Pusher, Error> {
    let client = Client::start(workload.client())?;
    let mut config = PushConfig::new(group, &workload.topic, "*");
    let expression = config.subscriptions.remove(&workload.topic).unwrap_or_default();
    config.subscriptions = workload.topics().map(|topic| (topic, expression.clone())).collect();
    config.threads = workload.consumer_threads.map_or(config.threads, |threads| threads as usize);
    let (counted, run) = (reading.clone(), workload.run);
    let listener = move |messages: &[Received]| {
        count(messages, (clock, run), &counted);
        Verdict::Done
    };
    let consumer = match workload.consume {
        Consume::Orderly => PushConsumer::start_orderly(&client, config, listener).await?,
        Consume::Pull | Consume::Push => PushConsumer::start(&client, config, listener).await?,
    };
    Ok(Pusher { consumer, client })
}

fn count(messages: &[Received], (clock, run): (Clock, u32), reading: &Reading) {
    let now_us = clock.epoch_us(clock.now_ns());
    let delay = |message: &Received| {
        let mark = Mark::read(&message.body).filter(|mark| mark.run == run);
        let born_us = message.born_timestamp.max(0).unsigned_abs() * 1000;
        now_us.saturating_sub(mark.map_or(born_us, |mark| mark.since_us)).max(1)
    };
    let bytes = messages.iter().map(|message| message.body.len() as u64).sum();
    reading.add(messages.len() as u64, bytes, &messages.iter().map(delay).collect::<Vec<_>>());
}
