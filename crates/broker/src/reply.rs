//! Replies of the request-reply pattern between applications: 324 `SEND_REPLY_MESSAGE` and 325 `SEND_REPLY_MESSAGE_V2`
//! (`ReplyMessageProcessor`).
//!
//! The requester's message names its client in the property `REPLY_TO_CLIENT`. The consumer of that message sends its reply to
//! the broker, which pushes it to the requester's connection (326). The replier is answered once the requester has accepted
//! the reply. With `storeReplyMessageEnable` the reply is also stored in its topic, whether or not it could be pushed.

use std::net::SocketAddr;
use std::sync::Arc;

use net::ConnectionHandle;
use store::Message;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::SendHeader;
use wire::id::OffsetId;
use wire::properties::{self, key};

use crate::broker::Broker;
use crate::{Refusal, client_calls, send};

/// A reply, copied from its frame.
struct Reply {
    /// Header fields of the push to the requester, without the properties.
    fields: Vec<(&'static str, String)>,
    topic: String,
    queue_id: i32,
    properties: Vec<u8>,
    body: Vec<u8>,
    flag: i32,
    sys_flag: i32,
    born_timestamp: i64,
    born_host: SocketAddr,
    reconsume_times: i32,
}

/// The client that sent the reply and waits for the outcome.
struct Replier {
    peer: Arc<ConnectionHandle>,
    opaque: i32,
    encoding: Encoding,
    one_way: bool,
}

/// Serves `SEND_REPLY_MESSAGE` (324) and `SEND_REPLY_MESSAGE_V2` (325).
pub(crate) fn serve(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let header = SendHeader::decode(command.code, &command.fields)?;
    let queue_id = send::check_reply(broker, peer, command, header)?;
    let reply = Reply::new(broker, peer, command, &header, queue_id);
    let replier = Replier {
        peer: peer.clone(),
        opaque: command.opaque,
        encoding: command.encoding,
        one_way: command.is_one_way(),
    };
    let client_id = properties::get_str(header.properties, key::REPLY_TO_CLIENT);
    let Some(client_id) = client_id else {
        let remark = format!("reply message properties[{}] is null", key::REPLY_TO_CLIENT);
        replier.answer(broker, &reply, Some(remark), out);
        return Ok(());
    };
    let Some(requester) = broker.clients.producer_by_id(client_id) else {
        let remark = format!("push reply message fail, channel of <{client_id}> not found.");
        replier.answer(broker, &reply, Some(remark), out);
        return Ok(());
    };
    push(broker, requester, client_id, reply, replier)
}

/// Sends a reply to its requester with `PUSH_REPLY_MESSAGE_TO_CLIENT` (326), and answers the replier when the requester has
/// answered or timed out.
fn push(
    broker: &Broker,
    requester: Arc<ConnectionHandle>,
    client_id: &str,
    reply: Reply,
    replier: Replier,
) -> Result<(), Refusal> {
    let reply = Arc::new(reply);
    let pushed = reply.clone();
    let pushed_ms = broker.now_ms();
    let failed = format!("push reply message to {client_id}fail.");
    let code = request::PUSH_REPLY_MESSAGE_TO_CLIENT;
    client_calls::ask(
        broker,
        requester,
        code,
        move |frame| pushed.write(frame, pushed_ms),
        move |broker, answer| {
            let remark = match answer {
                Ok(answer) if answer.code == response::SUCCESS => None,
                Ok(answer) => {
                    tracing::warn!(remark = answer.remark, "a reply was refused by its requester");
                    Some(failed)
                }
                Err(error) => {
                    tracing::warn!(%error, "a reply did not reach its requester");
                    Some(failed)
                }
            };
            // The answer is built before it is pushed, because storing the reply may answer consumers on the same connection.
            let mut frame = Vec::new();
            replier.answer(broker, &reply, remark, &mut frame);
            // The push fails for a replier that has disconnected, which does not matter.
            let _ = replier.peer.push(|out| out.append(&mut frame));
        },
    )
}

impl Reply {
    fn new(
        broker: &Broker,
        peer: &ConnectionHandle,
        command: &Command<'_>,
        header: &SendHeader<'_>,
        queue_id: i32,
    ) -> Self {
        let fields = vec![
            ("producerGroup", header.producer_group.to_owned()),
            ("topic", header.topic.to_owned()),
            ("defaultTopic", header.default_topic.to_owned()),
            ("defaultTopicQueueNums", header.default_topic_queue_nums.to_string()),
            ("queueId", header.queue_id.to_string()),
            ("sysFlag", header.sys_flag.to_string()),
            ("bornTimestamp", header.born_timestamp.to_string()),
            ("flag", header.flag.to_string()),
            ("reconsumeTimes", header.reconsume_times.to_string()),
            ("unitMode", header.unit_mode.to_string()),
            ("bornHost", peer.remote().to_string()),
            ("storeHost", broker.store_host.to_string()),
        ];
        Self {
            fields,
            topic: header.topic.to_owned(),
            queue_id,
            properties: header.properties.to_vec(),
            body: command.body.to_vec(),
            flag: header.flag,
            sys_flag: send::record_flags(header.sys_flag),
            born_timestamp: header.born_timestamp,
            born_host: peer.remote(),
            reconsume_times: header.reconsume_times.max(0),
        }
    }

    fn write(&self, mut frame: FrameWriter<'_>, pushed_ms: i64) {
        let mut text = Vec::new();
        let time = pushed_ms.to_string();
        properties::rewrite(&mut text, &self.properties, &[], &[(key::PUSH_REPLY_TIME, time.as_bytes())]);
        for (name, value) in &self.fields {
            frame = frame.text(name, value);
        }
        frame.number("storeTimestamp", pushed_ms).bytes("properties", &text).finish(&self.body);
    }

    /// Stores the reply in its topic. A failure changes nothing for the replier, as in Java.
    fn store(&self, broker: &Broker) -> Option<store::Placed> {
        // The Go client sends replies without a body, and messages without a body are not stored.
        if self.body.is_empty() {
            return None;
        }
        let mut text = Vec::new();
        properties::rewrite(&mut text, &self.properties, &[key::INNER_MULTI_QUEUE_OFFSET], &[]);
        let message = Message {
            body: &self.body,
            properties: &text,
            sys_flag: self.sys_flag,
            flag: self.flag,
            born_timestamp: self.born_timestamp,
            born_host: self.born_host,
            store_host: broker.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
        };
        let put = broker.put(&self.topic, self.queue_id, &message);
        put.inspect_err(|error| tracing::warn!(topic = self.topic, %error, "a reply could not be stored"))
            .ok()
    }
}

impl Replier {
    /// Stores the reply if `storeReplyMessageEnable` is set, and answers the replier. `failed` says why the reply was not pushed,
    /// if it was not.
    fn answer(&self, broker: &Broker, reply: &Reply, failed: Option<String>, out: &mut Vec<u8>) {
        let stored = broker.config.store_reply_message_enable.then(|| reply.store(broker)).flatten();
        if self.one_way {
            return;
        }
        let code = if failed.is_none() { response::SUCCESS } else { response::SYSTEM_ERROR };
        let remark = failed.unwrap_or_default();
        let mut head = Head::response(self.encoding, code, self.opaque);
        if !remark.is_empty() {
            head = head.remark(&remark);
        }
        let frame = FrameWriter::begin(out, head);
        let frame = match stored {
            Some(placed) => {
                let id = OffsetId { store_host: broker.store_host, log_offset: placed.log_offset };
                frame
                    .text("msgId", &id.to_string())
                    .number("queueId", reply.queue_id)
                    .number("queueOffset", placed.queue_offset.get())
            }
            // Clients require the fields of a successful send.
            None if code == response::SUCCESS => {
                frame.text("msgId", "0").number("queueId", reply.queue_id).number("queueOffset", 0)
            }
            None => frame,
        };
        send::region(broker, frame).finish(b"");
    }
}
