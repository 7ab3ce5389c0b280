//! Clients of the remoting protocol as the broker reaches them: broker-to-client requests as frames.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::{CallError, ConnectionHandle};
use wire::body::{MessageQueue, MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC};
use wire::codes::request;
use wire::frame::{Encoding, FrameWriter, Head};
use wire::{json, names};

use crate::client_link::{AskError, Asked, ClientAnswer, ClientLink, Notice, Question};

/// A client and its connection.
#[derive(Debug)]
struct Link {
    peer: Arc<ConnectionHandle>,
}

/// Adds the fields and the body of a request.
type WriteFrame = Box<dyn FnOnce(FrameWriter<'_>) + Send>;

/// Returns the link to the client at the other end of a connection.
pub fn link(peer: &Arc<ConnectionHandle>) -> Arc<dyn ClientLink> {
    Arc::new(Link { peer: peer.clone() })
}

/// The new offsets in the form of clients in C++.
fn for_cpp(targets: &ResetOffsetBody) -> Vec<u8> {
    let row = |(queue, offset): (&MessageQueue, &i64)| MessageQueueForC {
        broker_name: queue.broker_name.clone(),
        offset: *offset,
        queue_id: queue.queue_id,
        topic: queue.topic.clone(),
    };
    json::to_vec(&ResetOffsetBodyForC { offset_table: targets.offset_table.iter().map(row).collect() })
}

impl ClientLink for Link {
    fn id(&self) -> u64 {
        self.peer.id()
    }

    fn remote(&self) -> SocketAddr {
        self.peer.remote()
    }

    fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    fn close(&self) {
        self.peer.close();
    }

    fn notify(&self, notice: &Notice<'_>) {
        let opaque = self.peer.next_opaque();
        let head = |code| Head::one_way(Encoding::Json, code, opaque);
        // The push fails for a client that has disconnected, which needs to be told nothing.
        let _ = self.peer.push(|out| match *notice {
            Notice::ConsumerIdsChanged { group } => {
                let frame = FrameWriter::begin(out, head(request::NOTIFY_CONSUMER_IDS_CHANGED));
                frame.text("consumerGroup", group).finish(b"");
            }
            Notice::CheckTransaction { broker_name, unique_key, queue_offset, id, record } => {
                FrameWriter::begin(out, head(request::CHECK_TRANSACTION_STATE))
                    .text("topic", names::HALF_TOPIC)
                    .text("tranStateTableOffset", &queue_offset.to_string())
                    .text("commitLogOffset", &id.log_offset.to_string())
                    .text("msgId", unique_key)
                    .text("transactionId", unique_key)
                    .text("offsetMsgId", &id.to_string())
                    .text("bname", broker_name)
                    .finish(record);
            }
            Notice::ResetOffsets { topic, group, timestamp_ms, targets, for_cpp: cpp } => {
                let body = if cpp { for_cpp(targets) } else { json::to_vec(targets) };
                FrameWriter::begin(out, head(request::RESET_CONSUMER_CLIENT_OFFSET))
                    .text("topic", topic)
                    .text("group", group)
                    .text("timestamp", &timestamp_ms.to_string())
                    .text("isForce", "true")
                    .finish(&body);
            }
            Notice::UnsubscribeLite { client_id, group, lite_topic } => {
                FrameWriter::begin(out, head(request::NOTIFY_UNSUBSCRIBE_LITE))
                    .text("clientId", client_id)
                    .text("consumerGroup", group)
                    .text("liteTopic", lite_topic)
                    .finish(b"");
            }
        });
    }

    fn ask(&self, question: Question, patience: Duration) -> Asked<'_> {
        let (code, write): (i32, WriteFrame) = match question {
            Question::RunningInfo { fields } => {
                (request::GET_CONSUMER_RUNNING_INFO, Box::new(move |frame| pairs(frame, &fields).finish(b"")))
            }
            Question::Consume { fields, record } => (
                request::CONSUME_MESSAGE_DIRECTLY,
                Box::new(move |frame| pairs(frame, &fields).finish(&record)),
            ),
            Question::Status { topic, group } => (
                request::GET_CONSUMER_STATUS_FROM_CLIENT,
                Box::new(move |frame| frame.text("topic", &topic).text("group", &group).finish(b"")),
            ),
            Question::TakeReply { fields, properties, body } => (
                request::PUSH_REPLY_MESSAGE_TO_CLIENT,
                Box::new(move |frame| pairs(frame, &fields).bytes("properties", &properties).finish(&body)),
            ),
        };
        let answer = self.peer.call(Encoding::Json, code, patience, write);
        Box::pin(async move {
            match answer.await {
                Ok(reply) => Ok(ClientAnswer { code: reply.code, remark: reply.remark, body: reply.body }),
                Err(error @ CallError::TimedOut(..)) => Err(AskError::TimedOut(error.to_string())),
                Err(error) => Err(AskError::Gone(error.to_string())),
            }
        })
    }
}

fn pairs<'b>(frame: FrameWriter<'b>, fields: &[(impl AsRef<str>, String)]) -> FrameWriter<'b> {
    fields.iter().fold(frame, |frame, (key, value)| frame.text(key.as_ref(), value))
}
