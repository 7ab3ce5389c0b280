//! ReceiveMessage (`ReceiveMessageActivity`). A call that is cancelled is dropped here, and with it its waiting pop.

use std::sync::atomic::Ordering;

use broker::api::{Polling, PopRequest, PopStatus, PopTarget, Popped};
use bytes::Bytes;
use grpc::messages::{
    Broker, Code, FilterExpression, FilterType, PubSub, ReceiveMessageRequest, RetryPolicy, Settings, Status,
    name,
};
use tokio::task::spawn_local;
use wire::pop::{Handle, Kind};
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::LogOffset;

use super::acks::NamedMessage;
use super::delivery::{Delivery, Recipient};
use super::position::{QueuePosition, lite_deliveries};
use super::{Call, clients, lite, topic_missing};
use crate::checks;
use crate::convert;
use crate::failure::{Failure, Result};
use crate::receipt::Receipt;
use crate::settings;
use crate::topic::Topic;

/// Most messages of a pop (`PopMessageProcessor`).
const BATCH_MAX: i32 = 32;
/// A receive without messages is answered at most this many milliseconds before its client's deadline.
const EARLY_MS_MAX: i64 = 1000;

/// ReceiveMessage.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function keeps its arguments twice, and thousands of receives wait"
)]
pub fn receive(call: Call, mut request: ReceiveMessageRequest) -> impl Future<Output = Delivery> {
    async move {
        if named(&request).is_empty()
            && call.proxy.brokers.own().is_some()
            && call.proxy.brokers.only().is_none()
        {
            // Boxed: a receive that waits needs no room for the choice.
            Box::pin(choose_broker(&call, &mut request)).await;
        }
        if is_of_own(&call, &request) {
            return received(&call, &request).await;
        }
        // A pop that waits at another broker cannot be cancelled. If the call is cancelled or the server stops, the
        // messages of the pop still reach the delivery, which gives untaken messages back.
        let failed =
            |_| Delivery::of_status(Status::new(Code::InternalServerError, "the receive failed"), None);
        let proxy = call.proxy.clone();
        let none =
            || Delivery::of_status(no_message("no new message").status(), Some(proxy.brokers.now_ms()));
        if *proxy.stop.borrow() {
            return none();
        }
        let delivery = spawn_local(async move { received(&call, &request).await });
        tokio::select! {
            delivery = delivery => delivery.unwrap_or_else(failed),
            () = proxy.stopping() => none(),
        }
    }
}

/// The broker that the client names; empty for none.
fn named(request: &ReceiveMessageRequest) -> &str {
    let broker = request.message_queue.as_ref().and_then(|queue| queue.broker.as_ref());
    broker.map_or("", |broker| &broker.name)
}

/// Names the broker to pop from in a request without a broker. The pop can be cancelled if that is the broker of this
/// process.
pub(super) async fn choose_broker(call: &Call, request: &mut ReceiveMessageRequest) {
    let topic = name(&request.message_queue.as_ref().and_then(|queue| queue.topic.clone())).to_owned();
    if checks::topic(&topic).is_err() {
        return;
    }
    if let Ok(Some(known)) = call.proxy.brokers.topic(&topic).await
        && let Ok(chosen) = broker(call, request, &known)
    {
        let chosen = Broker { name: chosen.to_owned(), ..Broker::default() };
        request.message_queue.get_or_insert_default().broker = Some(chosen);
    }
}

/// Whether the messages can only come from the broker of this process.
pub(super) fn is_of_own(call: &Call, request: &ReceiveMessageRequest) -> bool {
    let brokers = &call.proxy.brokers;
    brokers.only().is_some() || brokers.own() == Some(named(request))
}

async fn received(call: &Call, request: &ReceiveMessageRequest) -> Delivery {
    let now_ms = || Some(call.proxy.brokers.now_ms());
    match found(call, request).await {
        Ok(mut delivery) => {
            delivery.end(now_ms());
            delivery
        }
        Err(failure) => Delivery::of_status(failure.status(), now_ms()),
    }
}

/// Returns the longest wait of the call, in milliseconds. It ends before the client's deadline by a tenth of the
/// remaining time. Otherwise clients whose deadline equals the polling time (Rust, 5.0.0) report an error whenever no
/// message arrives.
pub(super) fn polling_ms(call: &Call, request: &ReceiveMessageRequest, settings: &Settings) -> Result<i64> {
    let config = &call.proxy.config;
    let left_ms = call.left_ms.unwrap_or(i64::MAX);
    let asked = request.long_polling_timeout.map(|duration| duration.ms());
    let asked = asked.unwrap_or_else(|| {
        let request_ms = settings.request_timeout.map_or(0, |duration| duration.ms());
        left_ms.saturating_sub(request_ms / 2)
    });
    let asked = asked.max(config.polling_ms_min).min(config.polling_ms_max);
    if asked <= left_ms || left_ms >= config.polling_ms_min {
        return Ok(asked.min(left_ms - (left_ms / 10).min(EARLY_MS_MAX)));
    }
    let code = if call.is_old() { Code::BadRequest } else { Code::IllegalPollingTime };
    let text = "The deadline time remaining is not enough for polling, please check network condition";
    Err(Failure::new(code, text))
}

/// Returns the time for which received messages stay invisible, in milliseconds.
fn invisible_ms(call: &Call, request: &ReceiveMessageRequest) -> Result<i64> {
    let config = &call.proxy.config;
    if request.auto_renew && config.renews {
        return Ok(config.renewed_invisible_ms);
    }
    let ms = request.invisible_duration.map_or(0, |duration| duration.ms());
    checks::invisible(ms, config.invisible_ms_min, config.invisible_ms_max)?;
    Ok(ms)
}

/// The filter of a receive, and for a filter of tags the tags.
fn filter(expression: &Option<FilterExpression>) -> Result<(&str, &'static str, Vec<&str>)> {
    let Some(filter) = expression else { return Ok(("*", "TAG", Vec::new())) };
    if filter.r#type == FilterType::Sql as i32 {
        if filter.expression.trim().is_empty() {
            return Err(Failure::new(Code::IllegalFilterExpression, "the SQL expression is blank"));
        }
        return Ok((&filter.expression, "SQL92", Vec::new()));
    }
    let tags = filter.expression.split("||").map(str::trim).filter(|tag| !tag.is_empty());
    let tags: Vec<&str> = tags.collect();
    if tags.is_empty() || tags == ["*"] {
        return Ok(("*", "TAG", Vec::new()));
    }
    Ok((&filter.expression, "TAG", tags))
}

async fn found(call: &Call, request: &ReceiveMessageRequest) -> Result<Delivery> {
    let (client, stated) = match clients::known(call) {
        Err(failure) if failure.code == Code::UnrecognizedClientType => {
            Box::pin(clients::implied(call, request)).await?
        }
        known => known?,
    };
    client.note_activity(call.proxy.brokers.now_ms());
    let poll_ms = polling_ms(call, request, &stated.settings)?;
    let topic = name(&request.message_queue.as_ref().and_then(|queue| queue.topic.clone())).to_owned();
    let group = name(&request.group);
    checks::topic(&topic)?;
    checks::group(group)?;
    let invisible_ms = invisible_ms(call, request)?;
    let (expression, expression_type, tags) = filter(&request.filter_expression)?;
    let brokers = &call.proxy.brokers;
    let known = brokers.topic(&topic).await?.ok_or_else(|| topic_missing(&topic))?;
    let broker = broker(call, request, &known)?;
    call.proxy.memory.check()?;
    let is_lite = settings::is_lite(&stated.settings);
    if is_lite {
        brokers.restore_lite(broker, &client.subscribed).await;
        lite::check_unacked(call, &client)?;
    }
    // Boxed: a receive that waits needs no room for the question.
    let (is_ordered, attempts_max) = Box::pin(served_now(call, &stated.settings)).await;
    let pop = PopRequest {
        target: PopTarget { caller: &call.caller, topic: &topic, group, queue_id: -1 },
        polling: Polling {
            born_ms: brokers.now_ms(),
            poll_ms,
            ordered: is_ordered,
            attempt_id: request.attempt_id.as_deref(),
        },
        count_max: request.batch_size.clamp(1, BATCH_MAX),
        invisible_ms,
        from_end: true,
        expression,
        expression_type,
    };
    let (status, popped) = tokio::select! {
        answer = brokers.pop(broker, &pop, is_lite.then_some(&*client.id)) => answer?,
        () = call.proxy.stopping(), if is_of_own(call, request) => return Err(no_message("no new message")),
    };
    match status {
        PopStatus::Found => {
            let renews = request.auto_renew && call.proxy.config.renews;
            let recipient = Recipient {
                proxy: call.proxy.clone(),
                client,
                topic: topic.clone(),
                group: group.to_owned(),
                is_lite,
                renews,
            };
            let receiver =
                Receiver { call, broker, topic: &topic, group, tags: &tags, invisible_ms, is_lite };
            // Boxed: until there are messages, a call that waits needs no room for what becomes of them.
            Box::pin(receiver.delivery(popped, recipient, attempts_max)).await
        }
        PopStatus::TimedOut => Err(no_message("no new message")),
        PopStatus::Full => Err(Failure::new(Code::TooManyRequests, "polling full")),
    }
}

/// Returns the broker to pop from: the broker that the client names, or the next in turn if the topic cannot be read
/// from it (`ReceiveMessageActivity.ReceiveMessageQueueSelector`).
fn broker<'t>(call: &Call, request: &ReceiveMessageRequest, topic: &'t Topic) -> Result<&'t str> {
    let named = named(request);
    let readable = topic.queues.iter().filter(|queues| queues.is_readable());
    let mut readable: Vec<&str> = readable.map(|queues| queues.broker.as_str()).collect();
    if readable.is_empty() {
        return Err(Failure::new(Code::Forbidden, "no readable queue"));
    }
    if let Some(index) = readable.iter().position(|broker| named == *broker) {
        return Ok(readable[index]);
    }
    if call.proxy.brokers.own() == Some(named) {
        return Err(Failure::new(Code::Forbidden, "no readable queue"));
    }
    let turn = call.proxy.turn.fetch_add(1, Ordering::Relaxed);
    Ok(readable.swap_remove(turn % readable.len()))
}

fn no_message(text: impl Into<String>) -> Failure {
    Failure::new(Code::MessageNotFound, text)
}

/// Returns whether the client's group consumes in order, and its most deliveries of a message. An operator may have
/// changed the group since the client got its settings, which it requests only every few minutes
/// (`GrpcClientSettingsManager.getClientSettings`).
async fn served_now(call: &Call, settings: &Settings) -> (bool, i32) {
    let told_max =
        settings.backoff_policy.as_ref().map_or(i32::MAX, |policy: &RetryPolicy| policy.max_attempts);
    let Some(PubSub::Subscription(subscription)) = &settings.pub_sub else { return (false, told_max) };
    match call.proxy.brokers.group(name(&subscription.group)).await {
        Ok(Some(group)) => (group.consume_message_orderly, group.retry_max_times.saturating_add(1)),
        _ => (subscription.fifo.unwrap_or(false), told_max),
    }
}

/// Receiver of popped messages.
struct Receiver<'a> {
    call: &'a Call,
    /// The broker that the messages come from.
    broker: &'a str,
    topic: &'a str,
    group: &'a str,
    /// Tags asked for; empty for all messages.
    tags: &'a [&'a str],
    invisible_ms: i64,
    /// Whether the messages are of lite topics.
    is_lite: bool,
}

/// A popped message that the client does not get.
struct UndeliveredMessage {
    receipt: String,
    /// Lite topic of the message. Empty for none.
    lite_topic: String,
    log_offset: Option<LogOffset>,
}

impl Receiver<'_> {
    /// Returns the popped messages for the client. Messages with another tag of equal hash are acknowledged. Messages
    /// with too many deliveries go to the dead letter topic.
    async fn delivery(&self, popped: Popped, recipient: Recipient, attempts_max: i32) -> Result<Delivery> {
        let now_ms = self.call.proxy.brokers.now_ms();
        let Popped { queues, body, pop_ms, revive_queue, .. } = popped;
        let counts = lite_deliveries(popped.lite_deliveries, &body);
        let body = Bytes::from(body);
        let client = recipient.client.clone();
        let is_gone = recipient.renews && client.is_gone();
        let mut delivery = Delivery::to(recipient, self.call.proxy.memory.charge(body.len()));
        let (mut unwanted, mut failed, mut at) = (Vec::new(), Vec::new(), 0);
        // A dead letter keeps its number of deliveries: given up once more, it would be copied without end.
        let gives_up = !self.topic.starts_with(wire::names::DLQ_PREFIX);
        for index in 0.. {
            let Ok(record) = RecordView::parse(&body[at..]) else { break };
            at += record.size();
            let position = match self.is_lite {
                true => QueuePosition::in_lite_topic(&record, counts.get(index).copied()),
                false => QueuePosition::of(&record, &queues),
            };
            let times = (pop_ms, revive_queue);
            let Some(receipt) = self.receipt(&record, position.as_ref(), times) else { continue };
            let mut message = convert::message(&body, &record, now_ms);
            // Clients acknowledge by this topic, also what the broker returns under the name of a retry topic
            // (`LocalMessageService.popMessage`).
            message.topic = Some(convert::resource(self.topic));
            let Some(system) = &mut message.system_properties else { continue };
            if let Some(QueuePosition { offset, count, .. }) = position {
                system.queue_offset = Some(offset);
                let attempt = count.map(|count| count.saturating_add(1));
                system.delivery_attempt = attempt.or(system.delivery_attempt);
            }
            let attempt = system.delivery_attempt.unwrap_or(1);
            let tag = system.tag.as_deref().unwrap_or_default();
            let is_unwanted = !self.tags.is_empty() && !self.tags.contains(&tag);
            if is_unwanted || gives_up && attempt > attempts_max {
                let lite_topic = system.lite_topic.take().filter(|_| self.is_lite).unwrap_or_default();
                let log_offset = record.log_offset();
                let left = if is_unwanted { &mut unwanted } else { &mut failed };
                left.push(UndeliveredMessage { receipt, lite_topic, log_offset });
            } else {
                system.receipt_handle = Some(receipt);
                delivery.push(message);
            }
        }
        // All that the client gets is in `delivery` by now: it comes again when the call ends while this waits.
        for left in &unwanted {
            self.settle(left).await;
        }
        for left in &failed {
            self.give_up(left).await;
        }
        match delivery.has_messages() {
            true if is_gone => Err(no_message(format!("The client [{}] is disconnected.", client.id))),
            true => Ok(delivery),
            false => Err(no_message("no match message")),
        }
    }

    /// Returns the receipt handle of a message, or `None` if the message has neither a position nor a stored
    /// handle.
    fn receipt(
        &self,
        record: &RecordView<'_>,
        position: Option<&QueuePosition>,
        (pop_ms, revive_queue): (i64, i32),
    ) -> Option<String> {
        let log_offset = record.log_offset()?.to_i64();
        // A message of the retry topic carries its own handle.
        if let Some(handle) = properties::get_str(record.properties(), key::POP_CK) {
            return Some(format!("{handle} {log_offset}"));
        }
        let &QueuePosition { start_offset, queue_id, offset, .. } = position?;
        let handle = Handle {
            start_offset,
            pop_ms,
            invisible_ms: self.invisible_ms,
            revive_queue,
            kind: Kind::of(record.topic_str()?),
            broker_name: self.broker,
            queue_id: Some(queue_id),
            offset: Some(offset),
        };
        Some(Receipt { handle, queue_id, offset, log_offset }.to_string())
    }

    /// The message that the client does not get, as brokers know it.
    fn named<'l>(&'l self, left: &'l UndeliveredMessage) -> Result<NamedMessage<'l>> {
        NamedMessage::parse(self.call, (self.topic, &left.lite_topic), self.group, &left.receipt)
    }

    /// Acknowledges a message that the client does not get.
    async fn settle(&self, left: &UndeliveredMessage) {
        let done = match self.named(left) {
            Ok(named) => self.call.proxy.brokers.ack(named.held(self.call)).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = done {
            tracing::debug!(?failure, "a message that nobody gets comes again");
        }
    }

    /// Moves a message with too many deliveries to the dead letter topic.
    async fn give_up(&self, left: &UndeliveredMessage) {
        let (Ok(named), Some(log_offset)) = (self.named(left), left.log_offset) else { return };
        match self.call.proxy.brokers.dead_letter(&named.held(self.call), log_offset).await {
            Ok(()) => self.settle(left).await,
            Err(failure) => {
                tracing::warn!(group = self.group, ?failure, "a message comes again: it is no dead letter")
            }
        }
    }
}
