//! Request of a remoting client that is forwarded to the broker that it names (`AbstractRemotingActivity.request`).

use std::sync::Arc;
use std::time::Duration;

use broker::Refusal;
use grpc::messages::Code;
use net::{ConnectionHandle, MemoryCharge, Response};
use tokio::sync::OwnedSemaphorePermit;
use wire::body::{LockBatchBody, SubscriptionData};
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::pull_flag;
use wire::json;

use super::super::{Cluster, TIMEOUT};
use crate::failure::Failure;

/// Time that a response may take in addition to the request's wait for messages.
const MARGIN: Duration = Duration::from_secs(10);

/// Longest time that a request may wait for messages.
const HELD_MAX: Duration = Duration::from_secs(300);

/// Approximate memory in bytes of a request that is being forwarded, beside its frame.
pub const WAITING_BYTES: usize = 1024;

/// Largest frame of a request that waits for messages without being charged for.
const HELD_BYTES_MAX: usize = 8 << 10;

/// Most header fields of a request. Requests of RocketMQ's clients have a few dozen.
const FIELDS_MAX: usize = 256;

/// Fields of the client's signature, which the proxy's signature replaces.
const OF_SIGNATURE: [&str; 3] = ["AccessKey", "Signature", "SecurityToken"];

/// Which broker a request is for.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Named(String),
    /// The only broker of this topic, or of the cluster: clients in Go name no broker.
    Only(Option<String>),
    /// Any broker: each gives the same answer.
    Any,
}

/// Request that no longer needs its receive buffer.
#[derive(Debug)]
pub struct Forward {
    code: i32,
    target: Target,
    timeout: Duration,
    /// Fields and body, as [`Command::decode_own`] reads them.
    frame: Vec<u8>,
    /// Head of the answer; `None` for a one-way request.
    head: Option<Head<'static>>,
}

/// Bound of a request until its response: the memory charge of its connection, or a permit for requests that
/// wait for messages. Waiting requests are not charged, because a full account stops all requests of a
/// connection.
pub struct Bound {
    _charge: Option<MemoryCharge>,
    _place: Option<OwnedSemaphorePermit>,
}

/// Converts the failure of a broker's request to a response of the remoting protocol.
pub fn refusal(failure: Failure) -> Refusal {
    let code = match failure.code {
        Code::TooManyRequests => response::SYSTEM_BUSY,
        _ => response::SYSTEM_ERROR,
    };
    Refusal::new(code, failure.message)
}

fn is_short(code: i32) -> bool {
    matches!(code, request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE)
}

fn target(command: &Command<'_>) -> Result<Target, Refusal> {
    let fields = &command.fields;
    let (broker, topic) = match command.code {
        request::LOCK_BATCH_MQ | request::UNLOCK_BATCH_MQ => {
            let body: LockBatchBody = json::from_request(command.body)
                .map_err(|error| Refusal::new(response::SYSTEM_ERROR, error.to_string()))?;
            return Ok(body
                .mq_set
                .into_iter()
                .next()
                .map_or(Target::Any, |it| Target::Named(it.broker_name)));
        }
        request::CHECK_CLIENT_CONFIG => return Ok(Target::Any),
        code if is_short(code) => (fields.text("n").or_else(|| fields.text("bname")), fields.text("b")),
        request::CONSUMER_SEND_MSG_BACK => (fields.text("bname"), fields.text("originTopic")),
        _ => (fields.text("bname"), fields.text("topic")),
    };
    let given = |text: &&str| !text.is_empty();
    Ok(match broker.filter(given) {
        Some(broker) => Target::Named(broker.to_owned()),
        None => Target::Only(topic.filter(given).map(str::to_owned)),
    })
}

fn timeout(command: &Command<'_>) -> Duration {
    let field = match command.code {
        request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => "suspendTimeoutMillis",
        request::POP_MESSAGE => "pollTime",
        _ => return TIMEOUT,
    };
    let held_ms: i64 = command.fields.number_or(field, 0).unwrap_or(0);
    Duration::from_millis(u64::try_from(held_ms).unwrap_or(0)).min(HELD_MAX) + MARGIN
}

/// Whether a pull leaves out its subscription, which brokers know from heartbeats of consumers that do not come by a proxy.
pub fn lacks_subscription(command: &Command<'_>) -> bool {
    let flags = || command.fields.number_or("sysFlag", 0).unwrap_or(0);
    matches!(command.code, request::PULL_MESSAGE | request::LITE_PULL_MESSAGE)
        && flags() & pull_flag::SUBSCRIPTION == 0
}

/// Returns the fields of a pull with its subscription (`PullMessageActivity`).
fn subscribed(command: &Command<'_>, data: &SubscriptionData) -> [(&'static str, String); 4] {
    let flags = command.fields.number_or("sysFlag", 0).unwrap_or(0) | pull_flag::SUBSCRIPTION;
    [
        ("sysFlag", flags.to_string()),
        ("subscription", data.sub_string.clone()),
        ("subVersion", data.sub_version.to_string()),
        ("expressionType", data.expression_type.clone()),
    ]
}

/// Copies fields and body of a request. A repeated name counts once, with the value that the gate checked. A name
/// that JSON would escape is refused. So no field reaches a broker that the gate has not checked.
fn copy(command: &Command<'_>, replaced: &[(&'static str, String)]) -> Result<Vec<u8>, Refusal> {
    let refused = |text: &str| Refusal::new(response::SYSTEM_ERROR, text.to_owned());
    if command.fields.len() > FIELDS_MAX {
        return Err(refused("expected a header of at most 256 fields, found more"));
    }
    let mut frame = Vec::new();
    let mut writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Binary, 0, 0));
    for (name, value) in command.fields.iter() {
        let is_plain = |letter: &u8| letter.is_ascii_graphic() && !matches!(letter, b'"' | b'\\');
        let name = std::str::from_utf8(name).ok();
        let Some(name) = name.filter(|it| it.len() <= 255 && it.as_bytes().iter().all(is_plain)) else {
            writer.finish(b"");
            return Err(refused("expected names of header fields in ASCII, found another"));
        };
        let is_looked_at = command.fields.bytes(name).is_some_and(|seen| std::ptr::eq(seen, value));
        let is_replaced = OF_SIGNATURE.contains(&name) || replaced.iter().any(|(other, _)| *other == name);
        if is_looked_at && !is_replaced {
            writer = writer.bytes(name, value);
        }
    }
    replaced.iter().fold(writer, |writer, (name, value)| writer.text(name, value)).finish(command.body);
    Ok(frame)
}

impl Forward {
    /// Makes the request for its broker. A pull without a subscription gets `subscription`.
    ///
    /// # Errors
    /// `SYSTEM_ERROR` for a request that cannot be forwarded.
    pub fn new(command: &Command<'_>, subscription: Option<&SubscriptionData>) -> Result<Self, Refusal> {
        let replaced = subscription.map(|data| subscribed(command, data));
        Ok(Self {
            code: command.code,
            target: target(command)?,
            timeout: timeout(command),
            frame: copy(command, replaced.as_ref().map_or(&[], |fields| fields))?,
            head: (!command.is_one_way()).then(|| command.response(response::SUCCESS)),
        })
    }

    /// Takes the bound of the request until its response.
    ///
    /// # Errors
    /// `POLLING_FULL` for a pop and `SYSTEM_BUSY` for a pull when too many requests wait for messages.
    pub fn bound(&self, cluster: &Cluster, connection: &Arc<ConnectionHandle>) -> Result<Bound, Refusal> {
        let waits =
            matches!(self.code, request::PULL_MESSAGE | request::LITE_PULL_MESSAGE | request::POP_MESSAGE);
        if !waits || self.frame.len() > HELD_BYTES_MAX {
            let charge = connection.charge(self.frame.len() + WAITING_BYTES);
            return Ok(Bound { _charge: Some(charge), _place: None });
        }
        let place = cluster.held.clone().try_acquire_owned().map_err(|_| {
            let code = match self.code {
                request::POP_MESSAGE => response::POLLING_FULL,
                _ => response::SYSTEM_BUSY,
            };
            Refusal::new(code, "too many requests wait for messages at this proxy")
        })?;
        Ok(Bound { _charge: None, _place: Some(place) })
    }

    /// Sends the request to the broker, and passes the response to the client unchanged. A one-way request gets no
    /// response.
    pub async fn run(self, cluster: Arc<Cluster>, connection: Arc<ConnectionHandle>, bound: Bound) {
        let head = self.head;
        let answer = self.pass(&cluster).await;
        let Some(head) = head else {
            if let Err(refusal) = answer {
                tracing::info!(%refusal, "a one-way request of a client did not reach its broker");
            }
            return;
        };
        let reply = answer.unwrap_or_else(|refusal| Response {
            code: refusal.code,
            remark: Some(refusal.remark.into_owned()),
            ..Response::default()
        });
        give(&connection, head, reply);
        drop(bound);
    }

    /// Returns the broker's response. A one-way request gets an empty response, because some brokers send
    /// none, for example about an undecided transaction.
    async fn pass(mut self, cluster: &Arc<Cluster>) -> Result<Response, Refusal> {
        if matches!(self.target, Target::Only(_)) {
            tracing::trace!(code = self.code, "a request names no broker");
        }
        let broker = cluster.target(self.target).await?;
        let command = Command::decode_own(&mut self.frame)
            .map_err(|error| Refusal::new(response::SYSTEM_ERROR, error.to_string()))?;
        let write = |frame: FrameWriter<'_>| {
            let fields = command.fields.iter();
            let fields = fields.filter_map(|(key, value)| Some((std::str::from_utf8(key).ok()?, value)));
            fields.fold(frame, |frame, (key, value)| frame.bytes(key, value)).finish(command.body);
        };
        let bytes = command.body.len();
        if self.head.is_none() {
            let address = cluster.address(&broker).await.map_err(refusal)?;
            let sent = cluster.client.send_one_way(&address, self.code, bytes, write).await;
            return sent.map(|()| Response::default()).map_err(|error| refusal(error.into()));
        }
        cluster.ask(&broker, self.code, (self.timeout, bytes), write).await.map_err(refusal)
    }
}

/// Passes a response to a client. The connection is charged for it until it is in the connection's buffer.
pub fn give(connection: &Arc<ConnectionHandle>, head: Head<'static>, reply: Response) {
    let charge = connection.charge(reply.body.len());
    // A client that has disconnected waits for nothing.
    let _ = connection.enqueue(Box::new(move |_, out| {
        let head = Head { code: reply.code, remark: reply.remark.as_deref(), ..head };
        let writer = FrameWriter::begin(out, head);
        let fields = reply.fields.iter();
        fields.fold(writer, |writer, (key, value)| writer.text(key, value)).finish(&reply.body);
        drop(charge);
    }));
}

impl Cluster {
    async fn target(self: &Arc<Self>, target: Target) -> Result<String, Refusal> {
        let (topic, is_any) = match target {
            Target::Named(broker) => return Ok(broker),
            Target::Only(topic) => (topic, false),
            Target::Any => (None, true),
        };
        let route = match topic {
            Some(topic) => self.route(&topic).await.map_err(refusal)?,
            None => None,
        };
        let mut names = match route {
            Some(route) => route.broker_datas.iter().map(|broker| broker.broker_name.clone()).collect(),
            None => self.brokers().await.map_err(refusal)?.keys().cloned().collect::<Vec<_>>(),
        };
        match names.len() {
            0 => Err(Refusal::new(response::SYSTEM_ERROR, "the name servers know no broker")),
            1 => Ok(names.remove(0)),
            _ if is_any => Ok(names.remove(0)),
            _ => Err(Refusal::new(response::VERSION_NOT_SUPPORTED, "Request doesn't have field bname")),
        }
    }
}

#[cfg(test)]
mod tests;
