//! Consumers over gRPC as applications have them. Several receives wait at the same time, and the messages of a receive
//! are acknowledged before the next receive.

use super::endpoint::{Endpoint, Session, WAIT, accepted};
use super::places::Place;
use super::push;
use super::reader::Reading;
use super::workload::Workload;
use crate::Error;
use crate::load::{Clock, Refusal, Tally};
use bytes::Bytes;
use client::{Client, Expression};
use grpc::messages::{
    AckMessageEntry, AckMessageRequest, AckMessageResponse, Broker, ClientType, Code, FilterExpression,
    FilterType, Message, MessageQueue, PubSub, ReceiveContent, ReceiveMessageRequest, ReceiveMessageResponse,
    Resource, Settings, Subscription, SubscriptionEntry,
};
use grpc::{Channel, Failure, Method, framed};
use net::Workers;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// Messages of one receive at most; servers give no more.
const BATCH: i32 = 32;

/// Time for which a receive waits for messages.
const POLL: Duration = Duration::from_secs(10);

/// Time for which received messages stay invisible to others.
const INVISIBLE: Duration = Duration::from_secs(60);

/// Interval between two attempts to connect, and rest after a refusal.
const RETRY: Duration = Duration::from_millis(200);

/// Receives that wait at the same time where nothing else is asked for: the listener threads of RocketMQ's clients.
const THREADS: u32 = 20;

/// Number of the first consumer among the clients; producers have the smaller numbers.
const FIRST: u32 = 1 << 24;

/// Function that counts received messages.
pub(crate) type Count = dyn Fn(&[Message]) + Send + Sync;

/// A consumer: its group, its topics, and the function that counts messages.
pub(crate) struct Receiver {
    endpoint: Endpoint,
    number: u32,
    group: String,
    threads: usize,
    filter: FilterExpression,
    /// Topic and broker of each receive, in turn.
    sources: Vec<MessageQueue>,
    count: Box<Count>,
    refused: Arc<Tally>,
}

/// Starts all consumers of every group. The topics are on the brokers of `places`.
pub(super) async fn start(
    (client, endpoint): (&Client, &Endpoint),
    workload: &Workload,
    places: &[Place],
    workers: &Workers,
    (clock, reading, refused): (Clock, Arc<Reading>, Arc<Tally>),
) -> Result<Vec<RunningReceiver>, Error> {
    let place = endpoint.place(&workload.wanted(), true).await?;
    let mut started: Vec<RunningReceiver> = Vec::new();
    for number in 0..workload.groups {
        // Also makes the group: a proxy of RocketMQ knows no settings for one that does not exist yet.
        push::begin(client, workload, places, number).await?;
        for _ in 0..workload.consumers {
            let (run, reading, index) = (workload.run, reading.clone(), started.len());
            let count = move |messages: &[Message]| {
                push::count_bodies(messages.iter().map(body_and_birth), (clock, run), &reading);
            };
            let client = (endpoint, FIRST + u32::try_from(index).unwrap_or_default());
            let what = (&*workload.group(number), &Expression::default());
            let counts: (Box<Count>, _) = (Box::new(count), refused.clone());
            let running = Receiver::new(workload, client, what, &place, counts).start(workers, index);
            started.push(running.map_err(Error::system("start a consumer"))?);
        }
    }
    Ok(started)
}

/// Starts a consumer of a group that receives the messages of the workload's topics for which `expression` holds.
///
/// # Errors
/// [`Error::Flag`] for a workload that cannot be served, [`Error::Broken`] when the server does not answer.
pub(crate) async fn join(
    (group, expression): (&str, &Expression),
    workload: &Workload,
    workers: &Workers,
    counts: (Box<Count>, Arc<Tally>),
) -> Result<RunningReceiver, Error> {
    workload.check()?;
    let client = Client::start(workload.client())?;
    let endpoint = Endpoint::of(workload, &client).expect("a workload over gRPC");
    client.shutdown();
    let place = endpoint.place(&workload.wanted(), true).await?;
    let receiver = Receiver::new(workload, (&endpoint, FIRST), (group, expression), &place, counts);
    receiver.start(workers, 0).map_err(Error::system("start a consumer"))
}

/// The body of a message, and its born timestamp.
fn body_and_birth(message: &Message) -> (&[u8], i64) {
    let born = message.system_properties.as_ref().and_then(|system| system.born_timestamp);
    (&message.body, born.map_or(0, |born| born.ms()))
}

/// A consumer that runs.
pub(crate) struct RunningReceiver {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl RunningReceiver {
    /// Ends the consumer. Received messages without an acknowledgement are delivered again.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // The threads of a consumer that ended may have ended as well.
        let _ = self.ended.await;
    }
}

impl Receiver {
    /// A consumer of the workload's topics, whose queues are `place`. Refusals are counted in `refused`.
    pub fn new(
        workload: &Workload,
        (endpoint, number): (&Endpoint, u32),
        (group, expression): (&str, &Expression),
        place: &Place,
        (count, refused): (Box<Count>, Arc<Tally>),
    ) -> Self {
        let is_sql = matches!(expression, Expression::Sql(_));
        let r#type = if is_sql { FilterType::Sql } else { FilterType::Tag }.into();
        let filter = FilterExpression { r#type, expression: expression.text().to_owned() };
        let topic = |topic: &Option<Arc<str>>| topic.as_deref().unwrap_or(&workload.topic).to_owned();
        let brokers: BTreeSet<(String, String)> =
            place.targets.iter().map(|target| (topic(&target.topic), target.broker.clone())).collect();
        let source = |(topic, broker)| MessageQueue {
            topic: Some(Resource::named(topic)),
            id: -1,
            broker: Some(Broker { name: broker, ..Broker::default() }),
            ..MessageQueue::default()
        };
        let sources: Vec<_> = brokers.into_iter().map(source).collect();
        // Every broker is asked for every topic.
        let threads = (workload.consumer_threads.unwrap_or(THREADS) as usize).max(sources.len());
        let (endpoint, group) = (endpoint.clone(), group.to_owned());
        Self { endpoint, number, group, threads, filter, sources, count, refused }
    }

    /// Starts the consumer on worker `worker`.
    ///
    /// # Errors
    /// The error of the workers, when these have stopped.
    pub fn start(self, workers: &Workers, worker: usize) -> io::Result<RunningReceiver> {
        let ((stop, mut stopped), (end, ended)) = (watch::channel(false), oneshot::channel());
        workers.spawn(worker, move || async move {
            let own = Arc::new(self);
            tokio::select! {
                // Without a sender no consumer counts any more.
                _ = stopped.wait_for(|stopped| *stopped) => {}
                () = own.keep_connected() => {}
            }
            drop(end);
        })?;
        Ok(RunningReceiver { stop, ended })
    }

    /// Connects, and again whenever the connection ends.
    async fn keep_connected(self: &Arc<Self>) {
        loop {
            match self.endpoint.session(self.number, self.settings()).await {
                Ok(session) => self.receive(session).await,
                Err(failure) => self.failed(&failure),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn settings(&self) -> Settings {
        let subscribed = |source: &MessageQueue| SubscriptionEntry {
            topic: source.topic.clone(),
            expression: Some(self.filter.clone()),
        };
        let subscription = Subscription {
            group: Some(Resource::named(&self.group)),
            subscriptions: self.sources.iter().map(subscribed).collect(),
            receive_batch_size: Some(BATCH),
            long_polling_timeout: Some(POLL.into()),
            ..Subscription::default()
        };
        Settings {
            client_type: Some(ClientType::SimpleConsumer.into()),
            request_timeout: Some(WAIT.into()),
            pub_sub: Some(PubSub::Subscription(subscription)),
            ..Settings::default()
        }
    }

    /// Receives until the connection ends.
    async fn receive(self: &Arc<Self>, mut session: Session) {
        let mut loops = JoinSet::new();
        for index in 0..self.threads {
            let (own, channel) = (self.clone(), session.channel.clone());
            loops.spawn_local(async move {
                if let Err(failure) = own.run(&channel, &own.sources[index % own.sources.len()]).await {
                    own.failed(&failure);
                }
            });
        }
        tokio::select! {
            () = session.ended() => {}
            _ = loops.join_next() => {}
        }
    }

    /// Sends receives to a topic and broker, each after the answer to the receive before.
    async fn run(&self, channel: &Channel, source: &MessageQueue) -> Result<(), Failure> {
        let request = framed(&ReceiveMessageRequest {
            group: Some(Resource::named(&self.group)),
            message_queue: Some(source.clone()),
            filter_expression: Some(self.filter.clone()),
            batch_size: BATCH,
            invisible_duration: Some(INVISIBLE.into()),
            auto_renew: false,
            long_polling_timeout: Some(POLL.into()),
            attempt_id: None,
        });
        let (receive, ack) =
            (channel.method("ReceiveMessage", Some(POLL + WAIT))?, channel.method("AckMessage", Some(WAIT))?);
        loop {
            let step = self.step(channel, (&receive, request.clone()), (&ack, source)).await;
            match step {
                Ok(()) => {}
                Err(Failure::Status { code, .. }) if code == Code::MessageNotFound as i32 => {}
                Err(Failure::Connection(text)) => return Err(Failure::Connection(text)),
                Err(refused) => {
                    self.failed(&refused);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Receives once, and acknowledges the messages.
    async fn step(
        &self,
        channel: &Channel,
        (receive, request): (&Method, Bytes),
        (ack, source): (&Method, &MessageQueue),
    ) -> Result<(), Failure> {
        let mut answers = channel.call(receive, request).await?;
        let (mut messages, mut status) = (Vec::new(), None);
        while let Some(answer) = answers.next::<ReceiveMessageResponse>().await? {
            match answer.content {
                Some(ReceiveContent::Message(message)) => messages.push(message),
                Some(ReceiveContent::Status(answered)) => status = Some(answered),
                Some(ReceiveContent::DeliveryTimestamp(_)) | None => {}
            }
        }
        if messages.is_empty() {
            return accepted(status.as_ref()).map_err(refused);
        }
        (self.count)(&messages);
        let entries = messages.into_iter().filter_map(|message| {
            let system = message.system_properties?;
            let (message_id, receipt_handle) = (system.message_id, system.receipt_handle?);
            Some(AckMessageEntry { message_id, receipt_handle, lite_topic: None })
        });
        let acknowledged = AckMessageRequest {
            group: Some(Resource::named(&self.group)),
            topic: source.topic.clone(),
            entries: entries.collect(),
        };
        let answer: AckMessageResponse = channel.call(ack, framed(&acknowledged)).await?.only().await?;
        accepted(answer.status.as_ref()).map_err(refused)
    }

    /// Counts a call that was refused, or a connection that ended.
    fn failed(&self, failure: &Failure) {
        match failure {
            Failure::Connection(_) => self.refused.unanswered(1),
            Failure::Status { code, message } => {
                self.refused.refused_with(*code, Some(message));
                self.refused.refused(1);
            }
        }
    }
}

fn refused(refusal: Refusal) -> Failure {
    Failure::Status { code: refusal.code, message: refusal.remark }
}
