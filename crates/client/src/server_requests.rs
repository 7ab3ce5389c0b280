//! Requests that servers send to this client (`ClientRemotingProcessor`). Every request is passed to the producer or
//! consumer that it concerns.
//!
//! This code does not block. A request that needs the application's code goes through a bounded channel to a thread
//! or task of the consumer or producer.

use crate::message::{self, Received};
use net::{ConnectionHandle, Service};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc::SyncSender};
use tokio::sync::{Notify, mpsc, oneshot};
use wire::body::{ConsumerStatus, MessageQueue, ResetOffsetBody};
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, Head};
use wire::json;
use wire::properties::key;

/// Most requests that may wait for a consumer. Further requests are refused.
pub(crate) const WAITING_MAX: usize = 256;

/// The producers, consumers and requesters of this client, by the names that servers use.
#[derive(Default)]
pub(crate) struct ServerRequests {
    consumers: Mutex<HashMap<String, RequestChannel>>,
    /// Transaction producers by producer group.
    producers: Mutex<HashMap<String, SyncSender<Check>>>,
    /// Request messages that wait for a reply, by correlation id.
    requests: Mutex<HashMap<String, oneshot::Sender<Received>>>,
    /// Receiver of requests to gRPC clients, if this client serves a proxy.
    relay: OnceLock<Relay>,
}

/// Receiver of a broker's request in its original form.
type Relay = Box<dyn Fn(&Command<'_>) + Send + Sync>;

/// Channel for requests to a consumer.
pub(crate) struct RequestChannel {
    /// Notified when the members of the consumer's group changed.
    pub members_changed: Arc<Notify>,
    /// Channel for requests to the consumer.
    pub asked: mpsc::Sender<ConsumerRequest>,
}

/// A request of a broker to a consumer.
pub(crate) enum ConsumerRequest {
    /// Continue at other offsets (`RESET_CONSUMER_CLIENT_OFFSET`, 220).
    Reset { offsets: BTreeMap<MessageQueue, i64> },
    /// Report the consumed offsets (`GET_CONSUMER_STATUS_FROM_CLIENT`, 221).
    Status { topic: String, to: RequestOrigin },
    /// Report the running state (`GET_CONSUMER_RUNNING_INFO`, 307).
    Running { wants_stacks: bool, to: RequestOrigin },
    /// Consume this message now (`CONSUME_MESSAGE_DIRECTLY`, 309).
    Consume { message: Box<Received>, to: RequestOrigin },
}

/// The broker that waits for the answer to a request.
pub(crate) struct RequestOrigin {
    peer: Arc<ConnectionHandle>,
    opaque: i32,
    encoding: Encoding,
}

impl RequestOrigin {
    fn new(peer: &Arc<ConnectionHandle>, command: &Command<'_>) -> Self {
        Self { peer: peer.clone(), opaque: command.opaque, encoding: command.encoding }
    }

    /// Sends a successful answer with this body.
    pub fn answer(&self, body: &[u8]) {
        let head = Head::response(self.encoding, response::SUCCESS, self.opaque);
        // If the broker's connection has ended, no caller waits for the response.
        let _ = self.peer.push(|out| head.write(out, body));
    }

    fn refuse(&self, remark: &str) {
        let head = Head::response(self.encoding, response::SYSTEM_ERROR, self.opaque).remark(remark);
        let _ = self.peer.push(|out| head.write(out, b""));
    }
}

impl ServerRequests {
    /// Passes requests for a consumer group to `door` from now on.
    pub fn open(&self, group: &str, door: RequestChannel) {
        self.consumers().insert(group.to_owned(), door);
    }

    /// Ends the effect of [`ServerRequests::open`].
    pub fn close(&self, group: &str) {
        self.consumers().remove(group);
    }

    /// Passes transaction checks for a producer group to `checks` from now on; returns false when the group has a
    /// receiver already.
    pub fn open_producer(&self, group: &str, checks: SyncSender<Check>) -> bool {
        let mut producers = self.producers.lock().expect("short section");
        if producers.contains_key(group) {
            return false;
        }
        producers.insert(group.to_owned(), checks);
        true
    }

    /// Passes all transaction checks, for any producer group, and all notices to lite consumers to `take` from now
    /// on.
    pub fn pass_to(&self, take: Relay) {
        // The first caller takes them already.
        let _ = self.relay.set(take);
    }

    /// Ends the effect of [`ServerRequests::open_producer`].
    pub fn close_producer(&self, group: &str) {
        self.producers.lock().expect("short section").remove(group);
    }

    /// Returns a receiver for the reply to a request message.
    pub fn expect_reply(&self, correlation: &str) -> oneshot::Receiver<Received> {
        let (sender, receiver) = oneshot::channel();
        self.requests.lock().expect("short section").insert(correlation.to_owned(), sender);
        receiver
    }

    /// Ends the effect of [`ServerRequests::expect_reply`].
    pub fn forget_reply(&self, correlation: &str) {
        self.requests.lock().expect("short section").remove(correlation);
    }

    fn consumers(&self) -> MutexGuard<'_, HashMap<String, RequestChannel>> {
        self.consumers.lock().expect("short section")
    }

    fn notify(&self, command: &Command<'_>) {
        if let Some(group) = command.fields.text("consumerGroup")
            && let Some(door) = self.consumers().get(group)
        {
            door.members_changed.notify_one();
        }
    }

    /// Passes a request to a consumer. Returns the request if the client has no such group or too many requests wait.
    fn pass(&self, group: &str, asked: ConsumerRequest) -> Result<(), ConsumerRequest> {
        let sender = self.consumers().get(group).map(|door| door.asked.clone());
        let Some(sender) = sender else { return Err(asked) };
        sender.try_send(asked).map_err(|refused| {
            tracing::warn!(group, "a request of a broker is refused, too many wait");
            refused.into_inner()
        })
    }

    fn reset(&self, command: &Command<'_>) {
        let group = command.fields.text("group").unwrap_or_default();
        match json::from_slice::<ResetOffsetBody>(command.body) {
            // A client without this group has no offsets to reset.
            Ok(body) => drop(self.pass(group, ConsumerRequest::Reset { offsets: body.offset_table })),
            Err(error) => tracing::warn!(group, %error, "offsets to go to cannot be read"),
        }
    }

    fn status(&self, peer: &Arc<ConnectionHandle>, command: &Command<'_>) {
        let group = command.fields.text("group").unwrap_or_default();
        let topic = command.fields.text("topic").unwrap_or_default().to_owned();
        let asked = ConsumerRequest::Status { topic, to: RequestOrigin::new(peer, command) };
        if let Err(ConsumerRequest::Status { to, .. }) = self.pass(group, asked) {
            // RocketMQ's Java client answers with an empty table, too.
            to.answer(&json::to_vec(&ConsumerStatus::default()));
        }
    }

    fn running(&self, peer: &Arc<ConnectionHandle>, command: &Command<'_>) {
        let group = command.fields.text("consumerGroup").unwrap_or_default();
        let wants_stacks = command.fields.flag_or("jstackEnable", false);
        let asked = ConsumerRequest::Running { wants_stacks, to: RequestOrigin::new(peer, command) };
        if let Err(ConsumerRequest::Running { to, .. }) = self.pass(group, asked) {
            to.refuse(&absent(group));
        }
    }

    fn consume(&self, peer: &Arc<ConnectionHandle>, command: &Command<'_>) {
        let group = command.fields.text("consumerGroup").unwrap_or_default();
        let broker = command.fields.text("brokerName").unwrap_or_default();
        let to = RequestOrigin::new(peer, command);
        match message::decode_one(command.body, broker) {
            Ok(message) => {
                let asked = ConsumerRequest::Consume { message: Box::new(message), to };
                if let Err(ConsumerRequest::Consume { to, .. }) = self.pass(group, asked) {
                    to.refuse(&absent(group));
                }
            }
            Err(why) => to.refuse(&format!("the message to consume cannot be read: {why}")),
        }
    }

    /// Handles `CHECK_TRANSACTION_STATE` (39). The broker repeats a check that cannot be passed on.
    fn check(&self, peer: &Arc<ConnectionHandle>, command: &Command<'_>) {
        if let Some(take) = self.relay.get() {
            return take(command);
        }
        let check = match Check::read(peer, command) {
            Ok(check) => check,
            Err(why) => return tracing::warn!(%why, "a transaction to check cannot be read"),
        };
        let group = check.message.property(key::PRODUCER_GROUP).unwrap_or_default();
        let sender = self.producers.lock().expect("short section").get(group).cloned();
        match sender.map(|sender| sender.try_send(check).is_ok()) {
            Some(true) => {}
            Some(false) => tracing::warn!("too many transactions to check wait; the broker will ask again"),
            None => tracing::debug!("a transaction of a group without producer of transactions"),
        }
    }

    /// Handles `NOTIFY_UNSUBSCRIBE_LITE` (200073), which brokers tell proxies only.
    fn unsubscribe_lite(&self, command: &Command<'_>) {
        if let Some(take) = self.relay.get() {
            take(command);
        }
    }

    /// Handles `PUSH_REPLY_MESSAGE_TO_CLIENT` (326): a reply to a request message.
    fn reply(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let message = match message::from_push(command) {
            Ok(message) => message,
            Err(why) => {
                tracing::warn!(%why, "a reply cannot be read");
                let head = command.response(response::SYSTEM_ERROR);
                return head.remark("process reply message fail").write(out, b"");
            }
        };
        let correlation = message.property(key::CORRELATION_ID).unwrap_or_default();
        let waiting = self.requests.lock().expect("short section").remove(correlation);
        match waiting {
            Some(sender) => drop(sender.send(message)),
            None => tracing::debug!(correlation, "a reply nobody waits for"),
        }
        command.response(response::SUCCESS).write(out, b"");
    }
}

fn absent(group: &str) -> String {
    format!("The Consumer Group <{group}> not exist in this consumer")
}

impl Service for ServerRequests {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, (): &mut (), peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        if command.is_response() {
            return tracing::debug!(opaque = command.opaque, "an answer came too late");
        }
        match command.code {
            request::NOTIFY_CONSUMER_IDS_CHANGED => self.notify(&command),
            request::RESET_CONSUMER_CLIENT_OFFSET => self.reset(&command),
            request::GET_CONSUMER_STATUS_FROM_CLIENT => self.status(peer, &command),
            request::GET_CONSUMER_RUNNING_INFO => self.running(peer, &command),
            request::CONSUME_MESSAGE_DIRECTLY => self.consume(peer, &command),
            request::CHECK_TRANSACTION_STATE => self.check(peer, &command),
            request::NOTIFY_UNSUBSCRIBE_LITE => self.unsubscribe_lite(&command),
            request::PUSH_REPLY_MESSAGE_TO_CLIENT => self.reply(&command, out),
            code if !command.is_one_way() => {
                let remark = format!(" request type {code} not supported");
                command.response(response::REQUEST_CODE_NOT_SUPPORTED).remark(&remark).write(out, b"");
            }
            _ => {}
        }
    }
}

/// A transaction check: the broker asks for the decision on a half message.
pub(crate) struct Check {
    pub message: Received,
    pub peer: Arc<ConnectionHandle>,
    pub queue_offset: i64,
    pub log_offset: i64,
    pub message_id: String,
    pub transaction_id: String,
}

impl Check {
    /// Decodes a `CHECK_TRANSACTION_STATE` request (39).
    pub fn read(peer: &Arc<ConnectionHandle>, command: &Command<'_>) -> Result<Self, String> {
        let number = |name| command.fields.need_number(name).map_err(|error| error.to_string());
        let message = message::decode_one(command.body, command.fields.text("bname").unwrap_or_default())?;
        let own = message.message_id();
        let text = |name: &str| command.fields.text(name).unwrap_or(&own).to_owned();
        Ok(Self {
            queue_offset: number("tranStateTableOffset")?,
            log_offset: number("commitLogOffset")?,
            message_id: text("msgId"),
            transaction_id: text("transactionId"),
            peer: peer.clone(),
            message,
        })
    }
}
