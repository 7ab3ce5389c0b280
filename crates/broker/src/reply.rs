//! Replies of the request-reply pattern between applications (`ReplyMessageProcessor`).
//!
//! The requester's message names its client in the property `REPLY_TO_CLIENT`. The consumer of that message sends its reply to
//! the broker, which pushes it to the requester's connection (326). The replier is answered once the requester has accepted
//! the reply. With `storeReplyMessageEnable` the reply is also stored in its topic, whether or not it could be pushed.

use std::net::SocketAddr;
use std::sync::Arc;

use store::{AppendResult, Message};
use wire::codes::response;
use wire::properties::{self, key};

use crate::client_link::{ClientLink, Question};
use crate::parts::{Delivery, Identity, Runtime, SendParts};
use crate::send::SendRequest;
use crate::{Result, client_calls, send};

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

/// Result of a reply.
pub(crate) struct Replied {
    /// Reason why the requester did not get the reply. `None` on success.
    pub failed: Option<String>,
    pub queue_id: i32,
    /// Position of the stored reply, if it was stored.
    pub stored: Option<AppendResult>,
}

/// Takes the outcome of a reply.
pub(crate) type OnReplied = Box<dyn FnOnce(Replied) + Send>;

/// Pushes a reply to the requester that its properties name. `replied` runs when the requester has responded or timed
/// out, or at once if it is not connected.
///
/// # Errors
/// The refusal of any send that fails its checks. `SYSTEM_BUSY` when too many client calls wait.
pub(crate) fn reply(parts: &Arc<SendParts>, request: &SendRequest<'_>, replied: OnReplied) -> Result<()> {
    let queue_id = send::check_reply(parts, request)?;
    let reply = Reply::new(&parts.identity, &parts.runtime, request, queue_id);
    let client_id = properties::get_str(request.header.properties, key::REPLY_TO_CLIENT);
    let Some(client_id) = client_id else {
        let remark = format!("reply message properties[{}] is null", key::REPLY_TO_CLIENT);
        replied(reply.ended(&parts.identity, &parts.delivery, &parts.runtime, Some(remark)));
        return Ok(());
    };
    let Some(requester) = parts.sessions.clients.producer_by_id(client_id) else {
        let remark = format!("push reply message fail, channel of <{client_id}> not found.");
        replied(reply.ended(&parts.identity, &parts.delivery, &parts.runtime, Some(remark)));
        return Ok(());
    };
    push(parts, requester, client_id, reply, replied)
}

/// Sends a reply to its requester, and reports the result when the requester has responded or timed out.
fn push(
    parts: &Arc<SendParts>,
    requester: Arc<dyn ClientLink>,
    client_id: &str,
    reply: Reply,
    replied: OnReplied,
) -> Result<()> {
    let question = reply.question(parts.runtime.now_ms());
    let failed = format!("push reply message to {client_id}fail.");
    let storing = parts.clone();
    client_calls::ask(&parts.sessions, requester, question, move |answer| {
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
        replied(reply.ended(&storing.identity, &storing.delivery, &storing.runtime, remark));
    })
}

impl Reply {
    fn new(identity: &Identity, runtime: &Runtime, request: &SendRequest<'_>, queue_id: i32) -> Self {
        let SendRequest { caller, header, body, .. } = *request;
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
            ("bornHost", caller.remote.to_string()),
            ("storeHost", identity.store_host.to_string()),
        ];
        // As every send (`AbstractSendMessageProcessor.buildMsgContext`).
        let trace: &[u8] = if runtime.config.trace_on { b"true" } else { b"false" };
        let added = [(key::MSG_REGION, runtime.config.region_id.as_bytes()), (key::TRACE_SWITCH, trace)];
        let mut text = Vec::new();
        properties::rewrite(&mut text, header.properties, &[], &added);
        Self {
            fields,
            topic: header.topic.to_owned(),
            queue_id,
            properties: text,
            body: body.to_vec(),
            flag: header.flag,
            sys_flag: send::record_flags(header.sys_flag),
            born_timestamp: header.born_timestamp,
            born_host: caller.remote,
            reconsume_times: header.reconsume_times.max(0),
        }
    }

    /// The push to the requester.
    fn question(&self, pushed_ms: i64) -> Question {
        let mut text = Vec::new();
        let time = pushed_ms.to_string();
        properties::rewrite(&mut text, &self.properties, &[], &[(key::PUSH_REPLY_TIME, time.as_bytes())]);
        let mut fields = self.fields.clone();
        fields.push(("storeTimestamp", time));
        Question::TakeReply { fields, properties: text, body: self.body.clone() }
    }

    /// Stores the reply if `storeReplyMessageEnable` is set. `failed` is the reason why the reply was not pushed, if
    /// any.
    fn ended(
        &self,
        identity: &Identity,
        delivery: &Arc<Delivery>,
        runtime: &Runtime,
        failed: Option<String>,
    ) -> Replied {
        let stored =
            runtime.config.store_reply_message_enable.then(|| self.store(identity, delivery)).flatten();
        Replied { failed, queue_id: self.queue_id, stored }
    }

    /// Stores the reply in its topic. A failure does not affect the replier, as in Java.
    fn store(&self, identity: &Identity, delivery: &Arc<Delivery>) -> Option<AppendResult> {
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
            store_host: identity.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
        };
        let put = delivery.put(&self.topic, self.queue_id, &message);
        put.inspect_err(|error| tracing::warn!(topic = self.topic, %error, "a reply could not be stored"))
            .ok()
    }
}
