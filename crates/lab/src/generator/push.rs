//! Consumers as applications have them: push consumers of the Rust client, each with its own client.
//!
//! Each run uses its own groups. The start offsets are stored before the consumers join, because a broker lets a new
//! group begin at the first message of a short queue, whatever the group asks for
//! (`ConsumerManageProcessor.queryConsumerOffset`).

use super::choices::Consume;
use super::mix::Mark;
use super::places::Place;
use super::reader::{self, Reading};
use super::workload::Workload;
use crate::Error;
use crate::load::Clock;
use client::{
    Client, ConsumeStatus, Expression, MessageQueue, PushConfig, PushConsumer, Received, TRACE_TOPIC,
};
use std::sync::Arc;

/// A member of a consumer group with its own client, because brokers tell members apart by their clients.
pub(crate) struct Pusher {
    consumer: PushConsumer,
    client: Client,
}

impl Pusher {
    /// Leaves the group and shuts the client down.
    pub(crate) async fn shutdown(self) {
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
        begin(client, workload, places, number).await?;
        for _ in 0..workload.consumers {
            let (clock, run, reading) = (counted.0, workload.run, counted.1.clone());
            let listener = move |messages: &[Received]| {
                count(messages, (clock, run), &reading);
                ConsumeStatus::Done
            };
            started.push(join(&group, workload, Expression::default(), listener).await?);
        }
    }
    Ok(started)
}

/// Makes group number `number` on all brokers, and stores where the group begins: brokers take no offset of a group that does not exist.
/// The group is the run's own.
pub(super) async fn begin(
    client: &Client,
    workload: &Workload,
    places: &[Place],
    number: u32,
) -> Result<(), Error> {
    let group = workload.group(number);
    for place in places {
        client.create_group(&place.address.to_string(), &group).await?;
        for queue in reader::positions(client, workload, (number, place)).await? {
            let topic = queue.target.topic.as_deref().unwrap_or(&workload.topic);
            let at = MessageQueue::new(topic, &queue.target.broker, queue.target.queue_id);
            client.commit_offset(&group, &at, queue.next).await?;
        }
    }
    Ok(())
}

/// Starts a member of a group that receives the messages of the workload's topics for which `expression` holds.
///
/// # Errors
/// [`Error::Cluster`] when the cluster does not answer.
pub(crate) async fn join(
    group: &str,
    workload: &Workload,
    expression: Expression,
    listener: impl Fn(&[Received]) -> ConsumeStatus + Send + Sync + 'static,
) -> Result<Pusher, Error> {
    let client = Client::start(workload.client())?;
    let mut config = PushConfig::new(group, &workload.topic, expression);
    let subscribed = config.subscriptions.remove(&workload.topic).unwrap_or_default();
    config.subscriptions = workload.topics().map(|topic| (topic, subscribed.clone())).collect();
    config.threads = workload.consumer_threads.map_or(config.threads, |threads| threads as usize);
    config.trace = workload.trace.then(|| TRACE_TOPIC.to_owned());
    let consumer = match workload.consume {
        Consume::Orderly => PushConsumer::start_orderly(&client, config, listener).await?,
        Consume::Pull | Consume::Push => PushConsumer::start(&client, config, listener).await?,
    };
    Ok(Pusher { consumer, client })
}

fn count(messages: &[Received], counted: (Clock, u32), reading: &Reading) {
    let all = messages.iter().map(|message| (&message.body[..], message.born_timestamp));
    count_bodies(all, counted, reading);
}

/// Counts messages by their bodies and born timestamps.
pub(super) fn count_bodies<'a>(
    messages: impl Iterator<Item = (&'a [u8], i64)>,
    (clock, run): (Clock, u32),
    reading: &Reading,
) {
    let now_us = clock.epoch_us(clock.now_ns());
    let (mut bytes, mut delays) = (0, Vec::new());
    for (body, born_ms) in messages {
        bytes += body.len() as u64;
        let mark = Mark::read(body).filter(|mark| mark.run == run);
        let born_us = born_ms.max(0).unsigned_abs() * 1000;
        delays.push(now_us.saturating_sub(mark.map_or(born_us, |mark| mark.since_us)).max(1));
    }
    reading.add(delays.len() as u64, bytes, &delays);
}
