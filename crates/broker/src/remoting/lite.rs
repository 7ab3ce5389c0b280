//! Lite topics as frames: requests 200070, 200071 and 200074 to 200079.

use wire::body::{LiteSubscriptions, MessageModel, QueryAssignmentBody, QueryAssignmentResponseBody};
use wire::codes::response;

use super::answer::Answer;
use super::codec::{done, strict_json};
use super::incoming::Request;
use super::link::link;
use super::sink::{Call, Form};
use crate::pop::{self, LitePopRequest};
use crate::{Refusal, assign, lite};

/// Lite topics of a client in an answer if the request does not say (`GetLiteClientInfoRequestHeader`).
const NAMES: i64 = 1000;

/// Remark of Java's answers that set none (`RemotingCommand.createResponseCommand`).
const NO_REMARK: &str = "not set any response code";

/// Serves 200070 `POP_LITE_MESSAGE`.
pub(super) fn pop(request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let Request { broker, peer, command, caller, .. } = *request;
    if command.is_one_way() {
        return Ok(());
    }
    let fields = &command.fields;
    let pop = LitePopRequest {
        caller,
        topic: fields.need("topic")?,
        group: fields.need("consumerGroup")?,
        client_id: fields.need("clientId")?,
        born_ms: fields.number_or("bornTime", 0)?,
        poll_ms: fields.number_or("pollTime", 0)?,
        attempt_id: fields.text("attemptId"),
        count_max: fields.number_or("maxMsgNum", 0)?,
        invisible_ms: fields.number_or("invisibleTime", 0)?,
    };
    let call = Call::of(request, Form::LitePop);
    pop::pop_lite(&broker.pops, &pop, &mut call.writer(out), &|| {
        call.later(peer, &broker.figures.rpc_latency)
    })
}

/// Serves 200071 `LITE_SUBSCRIPTION_CTL`.
pub(super) fn control(request: &Request<'_>) -> Result<Answer, Refusal> {
    let Some(changes) = request.body_if::<LiteSubscriptions>()? else {
        return Err(Refusal::new(response::ILLEGAL_OPERATION, "Request body is null."));
    };
    lite::control(&request.broker.lite_parts(), &link(request.peer), &changes).map(done)
}

/// Serves 200074 `GET_BROKER_LITE_INFO`.
pub(super) fn broker_info(request: &Request<'_>) -> Result<Answer, Refusal> {
    Ok(strict_json(lite::broker_info(&request.broker.lite_parts())))
}

/// Serves 200075 `GET_PARENT_TOPIC_INFO`.
pub(super) fn parent_info(request: &Request<'_>) -> Result<Answer, Refusal> {
    lite::parent_info(&request.broker.tables, &request.broker.runtime, request.need("topic")?)
        .map(strict_json)
}

/// Serves 200076 `GET_LITE_TOPIC_INFO`: at once if the queues of the parent topic on all brokers are known, otherwise
/// after a query of a name server.
pub(super) fn topic_info(request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let Request { broker, command, .. } = *request;
    if command.is_one_way() {
        return Ok(());
    }
    let (parent, lite_topic) = (request.need("parentTopic")?, request.need("liteTopic")?);
    let info = lite::topic_info(&broker.tables, parent, lite_topic)?;
    // In this mode a client consumes all queues, so that the answer has all queues.
    let body = QueryAssignmentBody {
        topic: parent.to_owned(),
        message_model: MessageModel::Broadcasting,
        ..QueryAssignmentBody::default()
    };
    let (reply, own) = (request.late_reply(), broker.runtime.config.broker_name.clone());
    let answer = move |found: &QueryAssignmentResponseBody| strict_json(lite::sharded(info, &own, found));
    let answer_later = answer.clone();
    let later = Box::new(move |found: &_| reply.give(&answer_later(found)));
    let question = assign::Question { body, is_for_sends: true, later };
    if let Some(found) = assign::query(&broker.tables, &broker.sessions, &broker.runtime, question)? {
        answer(&found).write(command, out);
    }
    Ok(())
}

/// Serves 200077 `GET_LITE_CLIENT_INFO`.
pub(super) fn client_info(request: &Request<'_>) -> Result<Answer, Refusal> {
    let client = (request.need("group")?, request.need("clientId")?);
    let count_max = request.number_or("maxCount", NAMES)?;
    lite::client_info(&request.broker.lite_parts(), request.need("parentTopic")?, client, count_max)
        .map(strict_json)
}

/// Serves 200078 `GET_LITE_GROUP_INFO`.
pub(super) fn group_info(request: &Request<'_>) -> Result<Answer, Refusal> {
    let (group, lite_topic) = (request.need("group")?, request.text_or_empty("liteTopic")?);
    lite::group_info(
        &request.broker.tables,
        &request.broker.runtime,
        group,
        lite_topic,
        request.number_or("topK", 0)?,
    )
    .map(|info| strict_json(info).remark(NO_REMARK))
}

/// Serves 200079 `TRIGGER_LITE_DISPATCH`.
pub(super) fn trigger(request: &Request<'_>) -> Result<Answer, Refusal> {
    lite::trigger(&request.broker.lite_parts(), request.need("group")?, request.word("clientId"))
        .map(|()| Answer::success().remark(NO_REMARK))
}
