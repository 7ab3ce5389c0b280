//! Broker-to-client calls on behalf of operators (`AdminBrokerProcessor.callConsumer`, `Broker2Client`). Requests 307 and 309
//! are forwarded to a consumer; 223 queries the members of a group with 221; 222 sends them new offsets with 220 when the
//! broker does not reset the offsets itself. Each call has a timeout, and the operator's connection goes on meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use net::{CallError, ConnectionHandle};
use wire::body::{ConsumerStatus, MessageQueue, MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC};
use wire::codes::{Language, request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::id::OffsetId;
use wire::json;

use crate::broker::Broker;
use crate::client_calls::ask;
use crate::clients::Member;
use crate::{Answer, Refusal};

/// `V3_1_8_SNAPSHOT`: clients of older versions do not know the requests that are forwarded.
const RELAYED_SINCE: i32 = 62;

/// `V3_0_7_SNAPSHOT`: clients of older versions do not know requests 220 and 221 about offsets.
const OFFSETS_SINCE: i32 = 28;

/// The operator's request, to be answered later.
struct Asker {
    peer: Arc<ConnectionHandle>,
    encoding: Encoding,
    opaque: i32,
    one_way: bool,
}

impl Asker {
    fn new(peer: &Arc<ConnectionHandle>, command: &Command<'_>) -> Self {
        let (encoding, opaque, one_way) = (command.encoding, command.opaque, command.is_one_way());
        Self { peer: peer.clone(), encoding, opaque, one_way }
    }

    /// Answers the operator. An operator that has disconnected gets nothing.
    fn answer(&self, code: i32, remark: Option<&str>, body: &[u8]) {
        if self.one_way {
            return;
        }
        let head = Head { remark, ..Head::response(self.encoding, code, self.opaque) };
        let _ = self.peer.push(|out| head.write(out, body));
    }
}

/// Serves 307 `GET_CONSUMER_RUNNING_INFO`: forwards it to a consumer, which reports its state.
pub(crate) fn running_info(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<(), Refusal> {
    relay(broker, peer, command, Vec::new(), Vec::new())
}

/// Serves 309 `CONSUME_MESSAGE_DIRECTLY`: sends one message to a consumer, whatever the group's offsets are. May read the disk.
pub(crate) fn consume(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<(), Refusal> {
    let fields = &command.fields;
    let id = fields.need("msgId")?;
    let unknown =
        || Refusal::error(format!("no message has the id {id}, expected the offset id of one in this log"));
    let place = OffsetId::parse(id).ok_or_else(unknown)?;
    let mut record = Vec::new();
    broker.store.record_at(place.log_offset, &mut record).map_err(|_| unknown())?;
    let mut added = vec![("brokerName", broker.config.broker_name.clone())];
    let topic = fields.text("topic").and_then(|topic| broker.topics.find(topic));
    added.extend(topic.map(|topic| ("topicSysFlag", topic.config.topic_sys_flag.to_string())));
    let group = broker.groups.find(fields.need("consumerGroup")?);
    added.extend(group.map(|group| ("groupSysFlag", group.group_sys_flag.to_string())));
    relay(broker, peer, command, added, record)
}

fn relay(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    added: Vec<(&'static str, String)>,
    body: Vec<u8>,
) -> Result<(), Refusal> {
    let (group, client) =
        (command.fields.need("consumerGroup")?, command.fields.text("clientId").unwrap_or_default());
    let member = broker
        .clients
        .member(group, client)
        .ok_or_else(|| Refusal::error(format!("The Consumer <{group}> <{client}> not online")))?;
    if member.version < RELAYED_SINCE {
        let remark = format!(
            "The Consumer <{client}> Version <{}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
            member.version
        );
        return Err(Refusal::error(remark));
    }
    let is_added = |key: &[u8]| added.iter().any(|(name, _)| name.as_bytes() == key);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let kept = command.fields.iter().filter(|(key, _)| !is_added(key));
    let mut pairs: Vec<(String, String)> = kept.map(|(key, value)| (text(key), text(value))).collect();
    pairs.extend(added.into_iter().map(|(key, value)| (key.to_owned(), value)));
    let (asker, names) = (Asker::new(peer, command), (group.to_owned(), client.to_owned()));
    let write = move |writer: FrameWriter<'_>| {
        let writer = pairs.iter().fold(writer, |writer, (key, value)| writer.text(key, value));
        writer.finish(&body);
    };
    ask(broker, member.peer, command.code, write, move |_, answered| {
        let (group, client) = names;
        match answered {
            Ok(reply) => asker.answer(reply.code, reply.remark.as_deref(), &reply.body),
            Err(error @ CallError::TimedOut(..)) => {
                let remark = format!("consumer <{group}> <{client}> Timeout: {error}");
                asker.answer(response::CONSUME_MSG_TIMEOUT, Some(&remark), b"");
            }
            Err(error) => {
                let remark = format!("invoke consumer <{group}> <{client}> Exception: {error}");
                asker.answer(response::SYSTEM_ERROR, Some(&remark), b"");
            }
        }
    })
}

/// The answers of a group's members so far. The operator is answered when the last member has answered or timed out, which
/// drops this value.
struct MemberAnswers {
    asker: Asker,
    table: Mutex<BTreeMap<String, BTreeMap<MessageQueue, i64>>>,
}

impl Drop for MemberAnswers {
    fn drop(&mut self) {
        let consumer_table = std::mem::take(self.table.get_mut().unwrap_or_else(PoisonError::into_inner));
        let body = ConsumerStatus { consumer_table, ..ConsumerStatus::default() };
        self.asker.answer(response::SUCCESS, None, &json::to_vec(&body));
    }
}

/// Serves 223 `INVOKE_BROKER_TO_GET_CONSUMER_STATUS`: the offsets that the members of a group report. Members that do not
/// answer in time are left out, as in Java.
pub(crate) fn status(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<(), Refusal> {
    let fields = &command.fields;
    let (topic, group) = (fields.need("topic")?.to_owned(), fields.need("group")?.to_owned());
    let wanted = fields.text("clientAddr").map(str::trim).unwrap_or_default();
    let members = broker.clients.consumers(&group).map(|view| view.members).unwrap_or_default();
    let chosen = |member: &Member| wanted.is_empty() || member.client_id == wanted;
    let members: Vec<Member> = members.into_iter().filter(chosen).collect();
    if members.is_empty() {
        let remark = format!("No Any Consumer online in the consumer group: [{group}]");
        return Err(Refusal::error(remark));
    }
    refuse_old(&members)?;
    let answers = Arc::new(MemberAnswers { asker: Asker::new(peer, command), table: Mutex::default() });
    for member in members {
        let (topic, group, answers) = (topic.clone(), group.clone(), answers.clone());
        let write =
            move |writer: FrameWriter<'_>| writer.text("topic", &topic).text("group", &group).finish(b"");
        let then = move |_: &Arc<Broker>, answered: Result<net::Reply, CallError>| {
            let reply = answered.ok().filter(|reply| reply.code == response::SUCCESS);
            let status = reply.and_then(|reply| json::from_slice::<ConsumerStatus>(&reply.body).ok());
            let mut table = answers.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.extend(status.map(|status| (member.client_id, status.message_queue_table)));
        };
        // A member that cannot be called now is left out like one that does not answer.
        let _ = ask(broker, member.peer, request::GET_CONSUMER_STATUS_FROM_CLIENT, write, then);
    }
    Ok(())
}

/// Serves 222 with `useServerSideResetOffset=false`: sends the new offsets to all members of a group with 220
/// `RESET_CONSUMER_CLIENT_OFFSET`.
pub(crate) fn push_reset(
    broker: &Broker,
    command: &Command<'_>,
    targets: &ResetOffsetBody,
) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let (topic, group) = (fields.need("topic")?, fields.need("group")?);
    let timestamp: i64 = fields.need_number("timestamp")?;
    let members = broker.clients.consumers(group).map(|view| view.members).unwrap_or_default();
    if members.is_empty() {
        let remark = format!(
            "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {timestamp}"
        );
        return Err(Refusal::new(response::CONSUMER_NOT_ONLINE, remark));
    }
    refuse_old(&members)?;
    let body = if command.language == Some(Language::Cpp) {
        let row = |(queue, offset): (&MessageQueue, &i64)| MessageQueueForC {
            broker_name: queue.broker_name.clone(),
            offset: *offset,
            queue_id: queue.queue_id,
            topic: queue.topic.clone(),
        };
        json::to_vec(&ResetOffsetBodyForC { offset_table: targets.offset_table.iter().map(row).collect() })
    } else {
        json::to_vec(targets)
    };
    for member in members {
        let head =
            Head::one_way(Encoding::Json, request::RESET_CONSUMER_CLIENT_OFFSET, member.peer.next_opaque());
        // The push fails for a member that has disconnected, which has nothing to reset.
        let _ = member.peer.push(|out| {
            FrameWriter::begin(out, head)
                .text("topic", topic)
                .text("group", group)
                .text("timestamp", &timestamp.to_string())
                .text("isForce", "true")
                .finish(&body);
        });
        tracing::info!(group, topic, client = member.client_id, "a consumer is told to go on elsewhere");
    }
    Ok(Answer::success().body(json::to_vec(targets)))
}

fn refuse_old(members: &[Member]) -> Result<(), Refusal> {
    match members.iter().find(|member| member.version < OFFSETS_SINCE) {
        Some(old) => {
            let remark = format!("the client does not support this feature. version={}", old.version);
            Err(Refusal::error(remark))
        }
        None => Ok(()),
    }
}
