//! The threads that call the listener, and what happens to messages it does not finish.

use super::queue::Assigned;
use super::{RETRY_LATER, retry_topic};
use crate::{Client, Error, Received};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::body::MessageModel;
use wire::codes::request;
use wire::properties::key;

/// How long sending back may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a listener says about the messages it was given (`ConsumeConcurrentlyStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are done.
    Done,
    /// They shall come again later; while broadcasting they are given up.
    Later,
}

/// What the application does with messages.
pub(super) type Listener = dyn Fn(&[Received]) -> Verdict + Send + Sync;

/// Messages on their way to the listener.
pub(super) struct Delivery {
    pub queue: Arc<Assigned>,
    pub messages: Vec<Received>,
}

/// Messages on their way back to the broker.
type Returns = tokio::sync::mpsc::UnboundedSender<Delivery>;

/// The listener's threads. Deliveries are bounded by the windows of the queues.
pub(super) struct Crew {
    deliveries: Mutex<Option<mpsc::Sender<Delivery>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Crew {
    pub fn start(
        count: usize,
        listener: Arc<Listener>,
        model: MessageModel,
        returns: Returns,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for index in 0..count.max(1) {
            let (receiver, listener, returns) = (receiver.clone(), listener.clone(), returns.clone());
            let thread = std::thread::Builder::new().name(format!("consume-{index}"));
            threads.push(thread.spawn(move || work(&receiver, &*listener, model, &returns))?);
        }
        Ok(Self { deliveries: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Hands messages over; after the end they are dropped, and will be pulled again by whoever has the queue then.
    pub fn deliver(&self, delivery: Delivery) {
        if let Some(sender) = &*self.deliveries.lock().expect("short section") {
            let _ = sender.send(delivery);
        }
    }

    /// Lets what was delivered be finished and ends the threads.
    pub fn finish(&self) {
        self.deliveries.lock().expect("short section").take();
        let threads = std::mem::take(&mut *self.threads.lock().expect("short section"));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a listener panicked outside of a call");
            }
        }
    }
}

fn work(
    receiver: &Mutex<mpsc::Receiver<Delivery>>,
    listener: &Listener,
    model: MessageModel,
    returns: &Returns,
) {
    loop {
        // One thread waits inside the lock, the others for the lock: either way one takes the next delivery.
        let next = receiver.lock().expect("receiving does not panic").recv();
        let Ok(delivery) = next else { return };
        if delivery.queue.is_dropped() {
            continue;
        }
        let call = std::panic::AssertUnwindSafe(|| listener(&delivery.messages));
        let verdict = std::panic::catch_unwind(call).unwrap_or_else(|_| {
            tracing::error!(
                queue = delivery.queue.name(),
                "the listener panicked; its messages will come again"
            );
            Verdict::Later
        });
        match (verdict, model) {
            (Verdict::Later, MessageModel::Clustering) => {
                let _ = returns.send(delivery);
            }
            (Verdict::Later, _) => {
                tracing::warn!(
                    queue = delivery.queue.name(),
                    "broadcast messages are given up after a failure"
                );
                delivery.queue.done(&delivery.messages);
            }
            (Verdict::Done, _) => delivery.queue.done(&delivery.messages),
        }
    }
}

/// Sends messages back to their brokers until all senders are gone. A message that cannot be sent back stays pending
/// and is tried again, so that its offset is not passed.
pub(super) async fn send_back_all(
    client: Client,
    group: String,
    retries: i32,
    mut returns: tokio::sync::mpsc::UnboundedReceiver<Delivery>,
) {
    while let Some(delivery) = returns.recv().await {
        for message in &delivery.messages {
            while let Err(error) = send_back(&client, &group, retries, message).await {
                if delivery.queue.is_dropped() {
                    break;
                }
                tracing::warn!(%error, group, "a message could not be sent back yet");
                tokio::time::sleep(RETRY_LATER).await;
            }
            delivery.queue.done(std::slice::from_ref(message));
        }
    }
}

/// Asks the broker to deliver a message again, with a delay that grows with every attempt.
async fn send_back(client: &Client, group: &str, retries: i32, message: &Received) -> Result<(), Error> {
    let address = client.master_of(&message.queue).await?;
    let write = |frame: wire::frame::FrameWriter<'_>| {
        frame
            .number("offset", message.log_offset)
            .text("group", group)
            .number("delayLevel", 0)
            .text("originMsgId", &message.message_id())
            .text("originTopic", &message.topic)
            .flag("unitMode", false)
            .number("maxReconsumeTimes", retries)
            .text("bname", &message.queue.broker_name)
            .finish(b"");
    };
    client.inner.remote.call(&address, request::CONSUMER_SEND_MSG_BACK, TIMEOUT, write).await.map(|_| ())
}

/// Gives a retried message its own topic again (`DefaultMQPushConsumerImpl.resetRetryAndNamespace`).
pub(super) fn restore_topic(message: &mut Received, group: &str) {
    if message.topic == retry_topic(group)
        && let Some(topic) = message.properties.get(key::RETRY_TOPIC)
    {
        message.topic.clone_from(topic);
    }
}
