//! Broker-to-client calls on behalf of operators (`AdminBrokerProcessor.callConsumer`, `Broker2Client`). Requests 307
//! and 309 are forwarded to a consumer. Request 223 queries the members of a group with 221. Request 222 sends them
//! new offsets with 220 if the broker does not reset the offsets itself. Each call has a timeout, and the operator's
//! connection stays usable meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::body::{ConsumerStatus, MessageQueue, ResetOffsetBody};
use wire::codes::response;
use wire::id::OffsetId;
use wire::json;

use crate::client_calls::ask;
use crate::client_link::{AskError, ClientAnswer, Notice, Question};
use crate::clients::Member;
use crate::parts::{OperatorParts, Sessions};
use crate::{Refusal, Result};

/// `V3_1_8_SNAPSHOT`: clients of older versions do not know the requests that are forwarded.
const RELAYED_SINCE: i32 = 62;

/// `V3_0_7_SNAPSHOT`: clients of older versions do not know requests 220 and 221 about offsets.
const OFFSETS_SINCE: i32 = 28;

/// The consumer that an operator's request is for.
pub(crate) struct Consumer<'a> {
    pub group: &'a str,
    pub client_id: &'a str,
}

/// Passes a client's response to the operator.
pub(crate) type Answered = Box<dyn FnOnce(ClientAnswer) + Send + Sync>;

/// Queries a consumer for its state. `fields` are the fields of the operator's request, which are passed on.
///
/// # Errors
/// `SYSTEM_ERROR`: the consumer is not connected, or its version does not know the request.
pub(crate) fn running_info(
    sessions: &Arc<Sessions>,
    consumer: &Consumer<'_>,
    fields: Vec<(String, String)>,
    answered: Answered,
) -> Result<()> {
    relay(sessions, consumer, Question::RunningInfo { fields }, answered)
}

/// Sends a message to a consumer, whatever the group's offsets are. May read the disk.
///
/// # Errors
/// `SYSTEM_ERROR`: there is no such message, the consumer is not connected, or its version does not know the request.
pub(crate) fn consume(
    parts: &OperatorParts,
    consumer: &Consumer<'_>,
    (id, topic): (&str, Option<&str>),
    mut fields: Vec<(String, String)>,
    answered: Answered,
) -> Result<()> {
    let unknown =
        || Refusal::error(format!("no message has the id {id}, expected the offset id of one in this log"));
    let place = OffsetId::parse(id).ok_or_else(unknown)?;
    let mut record = Vec::new();
    parts.tables.store.record_at(place.log_offset, &mut record).map_err(|_| unknown())?;
    let mut put = |name: &str, value: String| {
        fields.retain(|(key, _)| key != name);
        fields.push((name.to_owned(), value));
    };
    put("brokerName", parts.runtime.config.broker_name.clone());
    if let Some(topic) = topic.and_then(|topic| parts.tables.topics.find(topic)) {
        put("topicSysFlag", topic.config.topic_sys_flag.to_string());
    }
    if let Some(group) = parts.tables.groups.find(consumer.group) {
        put("groupSysFlag", group.group_sys_flag.to_string());
    }
    relay(&parts.sessions, consumer, Question::Consume { fields, record }, answered)
}

fn relay(
    sessions: &Arc<Sessions>,
    consumer: &Consumer<'_>,
    question: Question,
    answered: Answered,
) -> Result<()> {
    let &Consumer { group, client_id: client } = consumer;
    let member = sessions
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
    let (group, client) = (group.to_owned(), client.to_owned());
    ask(sessions, member.link, question, move |answer| {
        let failed = |code, remark| ClientAnswer { code, remark: Some(remark), body: Vec::new() };
        answered(match answer {
            Ok(answer) => answer,
            Err(error @ AskError::TimedOut(_)) => failed(
                response::CONSUME_MSG_TIMEOUT,
                format!("consumer <{group}> <{client}> Timeout: {error}"),
            ),
            Err(error) => failed(
                response::SYSTEM_ERROR,
                format!("invoke consumer <{group}> <{client}> Exception: {error}"),
            ),
        });
    })
}

/// Responses of a group's members so far. The operator gets the response when the last member has responded or timed
/// out, which drops this value.
struct MemberAnswers {
    answered: Option<Answered>,
    table: Mutex<BTreeMap<String, BTreeMap<MessageQueue, i64>>>,
}

impl Drop for MemberAnswers {
    fn drop(&mut self) {
        let consumer_table = std::mem::take(self.table.get_mut());
        let body = ConsumerStatus { consumer_table, ..ConsumerStatus::default() };
        if let Some(answered) = self.answered.take() {
            answered(ClientAnswer { body: json::to_vec(&body), ..ClientAnswer::default() });
        }
    }
}

/// Queries the members of a group for their offsets. `client_id` selects a member, and is empty for all members.
/// Members that do not respond in time are left out, as in Java.
///
/// # Errors
/// `SYSTEM_ERROR`: no member is connected, or a member's version does not know the request.
pub(crate) fn status(
    sessions: &Arc<Sessions>,
    (topic, group): (&str, &str),
    client_id: &str,
    answered: Answered,
) -> Result<()> {
    let members = sessions.clients.consumers(group).map(|view| view.members).unwrap_or_default();
    let chosen = |member: &Member| client_id.is_empty() || member.client_id == client_id;
    let members: Vec<Member> = members.into_iter().filter(chosen).collect();
    if members.is_empty() {
        let remark = format!("No Any Consumer online in the consumer group: [{group}]");
        return Err(Refusal::error(remark));
    }
    refuse_old(&members)?;
    let answers = Arc::new(MemberAnswers { answered: Some(answered), table: Mutex::default() });
    for member in members {
        let question = Question::Status { topic: topic.to_owned(), group: group.to_owned() };
        let answers = answers.clone();
        let then = move |answer: Result<ClientAnswer, AskError>| {
            let answer = answer.ok().filter(|answer| answer.code == response::SUCCESS);
            let status = answer.and_then(|answer| json::from_slice::<ConsumerStatus>(&answer.body).ok());
            let mut table = answers.table.lock();
            table.extend(status.map(|status| (member.client_id, status.message_queue_table)));
        };
        // A member that cannot be called now is left out, like a member that does not answer.
        let _ = ask(sessions, member.link, question, then);
    }
    Ok(())
}

/// Sends new offsets to all members of a group, when the broker does not reset the offsets itself
/// (`useServerSideResetOffset=false`). `for_cpp` chooses the form of clients in C++.
///
/// # Errors
/// `CONSUMER_NOT_ONLINE`: no member is connected. `SYSTEM_ERROR`: a member's version does not know the request.
pub(crate) fn push_reset(
    sessions: &Sessions,
    (topic, group): (&str, &str),
    timestamp_ms: i64,
    targets: &ResetOffsetBody,
    for_cpp: bool,
) -> Result<()> {
    let members = sessions.clients.consumers(group).map(|view| view.members).unwrap_or_default();
    if members.is_empty() {
        let remark = format!(
            "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {timestamp_ms}"
        );
        return Err(Refusal::new(response::CONSUMER_NOT_ONLINE, remark));
    }
    refuse_old(&members)?;
    for member in members {
        member.link.notify(&Notice::ResetOffsets { topic, group, timestamp_ms, targets, for_cpp });
        tracing::info!(group, topic, client = member.client_id, "a consumer is told to go on elsewhere");
    }
    Ok(())
}

fn refuse_old(members: &[Member]) -> Result<()> {
    match members.iter().find(|member| member.version < OFFSETS_SINCE) {
        Some(old) => {
            let remark = format!("the client does not support this feature. version={}", old.version);
            Err(Refusal::error(remark))
        }
        None => Ok(()),
    }
}
