//! The requests of calls to brokers (`ClusterMessageService`).

use std::sync::Arc;
use std::time::Duration;

use broker::api::{Decision, PopRequest, PopStatus, Popped, PoppedMessage, RecallRequest, SendRequest};
use grpc::messages::Code;
use net::Response;
use tokio::task::JoinSet;
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::header::{Decision as Ending, EndTransaction, SendHeader};
use wire::id::OffsetId;
use wire::pop::OffsetTexts;
use wire::units::{LogOffset, QueueOffset};

use super::{Cluster, TIMEOUT, accepted, malformed};
use crate::failure::{Failure, Result};
use crate::receipt::{ChangeInvisibleTime, Changed, PopRef};
use crate::topic::Stored;
use crate::transaction_id::TransactionId;

/// Time that a response may take in addition to the pop's wait.
const MARGIN: Duration = Duration::from_secs(5);

fn number<N: std::str::FromStr>(reply: &Response, name: &str) -> Result<N> {
    reply.text(name).and_then(|text| text.parse().ok()).ok_or_else(|| malformed(name))
}

impl Cluster {
    /// Stores a message (310).
    pub(crate) async fn send(self: &Arc<Self>, broker: &str, message: &SendRequest<'_>) -> Result<Stored> {
        let header = SendHeader { broker_name: broker, ..message.header };
        let write = |frame: FrameWriter<'_>| header.write(frame).finish(message.body);
        let limits = (TIMEOUT, message.body.len());
        let reply = accepted(self.ask(broker, request::SEND_MESSAGE_V2, limits, write).await?)?;
        let id = reply.text("msgId").and_then(OffsetId::parse).ok_or_else(|| malformed("msgId"))?;
        let queue_offset = QueueOffset::from_i64(number(&reply, "queueOffset")?);
        Ok(Stored {
            queue_offset: queue_offset.ok_or_else(|| malformed("queueOffset"))?,
            log_offset: id.log_offset,
            recall_handle: reply.text("recallHandle").unwrap_or_default().to_owned(),
        })
    }

    /// Cancels a timed message (370), and returns the unique key of that message.
    pub(crate) async fn recall(self: &Arc<Self>, broker: &str, recall: &RecallRequest<'_>) -> Result<String> {
        let write = |frame: FrameWriter<'_>| {
            frame
                .text("producerGroup", recall.producer_group)
                .text("topic", recall.topic)
                .text("recallHandle", recall.handle)
                .text("bname", broker)
                .finish(b"");
        };
        let reply = self.call(broker, request::RECALL_MESSAGE, write).await?;
        Ok(reply.text("msgId").unwrap_or_default().to_owned())
    }

    /// Pops messages, or waits for them (200050). With a client `lite`, pops messages of its lite topics (200070).
    pub(crate) async fn pop(
        self: &Arc<Self>,
        broker: &str,
        pop: &PopRequest<'_>,
        lite: Option<&str>,
    ) -> Result<(PopStatus, Popped)> {
        let full = || Failure::new(Code::TooManyRequests, "polling full");
        let _place = self.pops.try_acquire().map_err(|_| full())?;
        let poll = Duration::from_millis(pop.polling.poll_ms.unsigned_abs());
        let write = |frame: FrameWriter<'_>| {
            let frame = frame
                .text("consumerGroup", pop.target.group)
                .text("topic", pop.target.topic)
                .number("invisibleTime", pop.invisible_ms)
                .number("pollTime", pop.polling.poll_ms)
                .number("bornTime", pop.polling.born_ms)
                .maybe("attemptId", pop.polling.attempt_id)
                .text("bname", broker);
            let frame = match lite {
                Some(client_id) => frame.text("clientId", client_id).number("maxMsgNum", pop.count_max),
                None => frame
                    .number("queueId", pop.target.queue_id)
                    .number("maxMsgNums", pop.count_max)
                    .number("initMode", i32::from(pop.from_end))
                    .text("expType", pop.expression_type)
                    .text("exp", pop.expression)
                    .flag("order", pop.polling.ordered),
            };
            frame.finish(b"");
        };
        let code = lite.map_or(request::POP_MESSAGE, |_| request::POP_LITE_MESSAGE);
        let reply = self.ask(broker, code, (poll + MARGIN, 0), write).await?;
        let status = match reply.code {
            response::SUCCESS => PopStatus::Found,
            response::POLLING_FULL => PopStatus::Full,
            response::POLLING_TIMEOUT | response::PULL_NOT_FOUND => PopStatus::TimedOut,
            _ => return accepted(reply).map(|_| (PopStatus::TimedOut, Popped::default())),
        };
        if status != PopStatus::Found {
            return Ok((status, Popped::default()));
        }
        let text = |name: &str| reply.text(name).unwrap_or_default().to_owned();
        let texts = OffsetTexts {
            starts: text("startOffsetInfo"),
            offsets: text("msgOffsetInfo"),
            counts: text("orderCountInfo"),
        };
        let (pop_ms, revive_queue) = (number(&reply, "popTime")?, number(&reply, "reviveQid")?);
        let (queues, lite_deliveries) = match lite {
            Some(_) => (Vec::new(), texts.lite_deliveries()),
            None => (texts.queues(), Vec::new()),
        };
        let body = reply.body;
        Ok((status, Popped { queues, lite_deliveries, body, pop_ms, revive_queue, ..Popped::default() }))
    }

    /// Acknowledges messages (200051), each at the broker that it is on.
    pub(crate) async fn acks(self: &Arc<Self>, messages: &[PopRef<'_>]) -> Vec<Result<()>> {
        let messages = messages.iter().map(|message| (message, None));
        let answers = self.each(request::ACK_MESSAGE, messages).await;
        answers.into_iter().map(|answer| accepted(answer?).map(drop)).collect()
    }

    /// Changes invisible times (200053).
    pub(crate) async fn change_invisible_times(
        self: &Arc<Self>,
        changes: &[ChangeInvisibleTime<'_>],
    ) -> Vec<Result<Option<Changed>>> {
        let changes =
            changes.iter().map(|change| (&change.held, Some((change.invisible_ms, change.suspend))));
        let answers = self.each(request::CHANGE_MESSAGE_INVISIBLETIME, changes).await;
        answers.into_iter().map(|answer| changed(&answer?)).collect()
    }

    /// Sends a request for each message, with its invisible time and whether this delivery does not count, all at the same time. The
    /// answers are in the order of the messages.
    async fn each<'a>(
        self: &Arc<Self>,
        code: i32,
        messages: impl Iterator<Item = (&'a PopRef<'a>, Option<(i64, bool)>)>,
    ) -> Vec<Result<Response>> {
        let mut calls = JoinSet::new();
        let mut answers = Vec::new();
        for (index, (&PopRef { broker, message, lite_topic }, change)) in messages.enumerate() {
            let address = match self.address_in_handle(broker).await {
                Ok(address) => address,
                Err(failure) => {
                    answers.push(Err(failure));
                    continue;
                }
            };
            answers.push(Err(malformed("outcome")));
            let client = self.client.clone();
            let [topic, group, handle] = [message.topic, message.group, message.handle].map(str::to_owned);
            let [broker, lite_topic] = [broker, lite_topic].map(str::to_owned);
            let (caller, queue_id, offset) = (message.caller.clone(), message.queue_id, message.offset);
            calls.spawn(async move {
                let write = |frame: FrameWriter<'_>| {
                    let message = PoppedMessage {
                        caller: &caller,
                        group: &group,
                        topic: &topic,
                        queue_id,
                        offset,
                        handle: &handle,
                    };
                    let frame = named(frame, &PopRef { broker: &broker, message, lite_topic: &lite_topic });
                    match change {
                        Some((ms, suspend)) => {
                            let frame = frame.number("invisibleTime", ms);
                            let is_sent = suspend && !lite_topic.is_empty();
                            let frame = if is_sent { frame.flag("suspend", true) } else { frame };
                            frame.finish(b"");
                        }
                        None => frame.finish(b""),
                    }
                };
                (index, client.call(&address, code, TIMEOUT, write).await)
            });
        }
        while let Some(Ok((index, answer))) = calls.join_next().await {
            answers[index] = answer.map_err(Failure::from);
        }
        answers
    }

    /// Copies a message to the dead letter topic of its group (36).
    pub(crate) async fn dead_letter(
        self: &Arc<Self>,
        &PopRef { broker, message, .. }: &PopRef<'_>,
        log_offset: LogOffset,
    ) -> Result<()> {
        let write = |frame: FrameWriter<'_>| {
            frame
                .number("offset", log_offset.to_i64())
                .text("group", message.group)
                .number("delayLevel", -1)
                .text("originTopic", message.topic)
                .number("maxReconsumeTimes", 0)
                .text("bname", broker)
                .finish(b"");
        };
        // For `call` an unknown broker is a failure that clients try again for ever.
        self.address_in_handle(broker).await?;
        self.call(broker, request::CONSUMER_SEND_MSG_BACK, write).await.map(drop)
    }

    /// Commits an undecided message, or rolls it back (37). RocketMQ's proxy does not wait for the
    /// broker's answer.
    pub(crate) async fn end_transaction(
        self: &Arc<Self>,
        id: &TransactionId<'_>,
        (topic, decision): (&str, Decision),
        from_check: bool,
    ) -> Result<()> {
        let end = EndTransaction {
            producer_group: topic,
            topic,
            queue_offset: id.half_offset.to_i64(),
            log_offset: id.log_offset.to_i64(),
            decision: match decision {
                Decision::Commit => Ending::Commit,
                Decision::Rollback => Ending::Rollback,
            },
            from_check,
            message_id: id.message_id,
            transaction_id: id.message_id,
        };
        let write = |frame: FrameWriter<'_>| end.write(frame).text("bname", id.broker).finish(b"");
        self.call(id.broker, request::END_TRANSACTION, write).await.map(drop)
    }
}

/// The fields that name a popped message.
fn named<'a>(out: FrameWriter<'a>, &PopRef { broker, message, lite_topic }: &PopRef<'_>) -> FrameWriter<'a> {
    out.text("consumerGroup", message.group)
        .text("topic", message.topic)
        .number("queueId", message.queue_id)
        .text("extraInfo", message.handle)
        .number("offset", message.offset)
        .text("bname", broker)
        .maybe("liteTopic", Some(lite_topic).filter(|topic| !topic.is_empty()))
}

/// Returns the new handle's times. `None` for an acknowledged message of an ordered pop, for which the response has
/// no times.
fn changed(reply: &Response) -> Result<Option<Changed>> {
    if reply.text("popTime").is_none() {
        return Ok(None);
    }
    Ok(Some(Changed {
        pop_ms: number(reply, "popTime")?,
        invisible_ms: number(reply, "invisibleTime")?,
        revive_queue: number(reply, "reviveQid")?,
    }))
}
