//! Pops of the lite topics of a client (`PopLiteMessageProcessor`), and acknowledgements of their messages
//! (`AckMessageProcessor.ackLite`, `ChangeInvisibleTimeProcessor.processChangeInvisibleTimeForLite`).
//!
//! A pop takes events of the client: names of lite queues. From each lite queue it reads in order, with the lock, the
//! order state and the timers of ordered pops. An event is dropped if another pop reads the queue, or if the queue is
//! blocked by messages in flight. The other pop, the acknowledgement or the timer then gives a client a new event. The
//! order state is in memory only, and the in-flight queue goes with its last message, so that an idle lite topic has none.

use std::sync::Arc;

use wire::codes::response;
use wire::pop::{Kind, ORDER_REVIVE_QUEUE};
use wire::units::LogOffset;

use super::ack::{Invisible, Origin, PoppedMessage, is_passed, origin};
use super::pick::{Picking, Unpopped, Visit};
use super::request::{self, Polling};
use super::{order, serve};
use crate::caller::Caller;
use crate::clients::Subscription;
use crate::long_polling::{Pop, Waiters, Want};
use crate::names;
use crate::parts::{Delivery, PopParts, Runtime, Tables};
use crate::reply_sink::{PopSink, PopStatus, PopWriter, Popped};
use crate::state::{Cell, GroupRules};
use crate::topics::{Queue, attributes};
use crate::{FAQ, Refusal};

/// 200070 `POP_LITE_MESSAGE` as a front decoded it.
pub struct LitePopRequest<'a> {
    /// Caller of the request.
    pub caller: &'a Caller,
    /// Name of the parent topic.
    pub topic: &'a str,
    /// Name of the consumer group.
    pub group: &'a str,
    /// Id of the client whose lite topics are popped.
    pub client_id: &'a str,
    /// Send time of the request, in milliseconds since the epoch. 0 if the client does not send it.
    pub born_ms: i64,
    /// Longest wait; 0 for no wait.
    pub poll_ms: i64,
    /// Id that distinguishes a repeated pop from another pop.
    pub attempt_id: Option<&'a str>,
    /// Most messages to return.
    pub count_max: i32,
    /// Time for which the messages stay invisible to other clients of the group.
    pub invisible_ms: i64,
}

/// Pops messages of a client's lite topics: the answer is written to `out` now, or goes to the sink that `later` makes.
///
/// # Errors
/// The refusal, with RocketMQ's code, of `PopLiteMessageProcessor.preCheck`.
pub(crate) fn pop_lite(
    parts: &Arc<PopParts>,
    request: &LitePopRequest<'_>,
    out: &mut dyn PopWriter,
    later: &dyn Fn() -> Arc<dyn PopSink>,
) -> Result<(), Refusal> {
    let rules = check(&parts.tables, &parts.runtime, request)?;
    let now_ms = parts.runtime.now_ms();
    let (group, client) = (request.group, request.client_id);
    let clients_max = parts.runtime.config.lite.subscriptions_max;
    let Some(waiters) = parts.tables.lite.note_pop((group, &rules), client, now_ms, clients_max) else {
        out.popped(PopStatus::Full, Popped::default(), request.invisible_ms);
        return Ok(());
    };
    let filter = Subscription::parse_typed(request.topic, "*", "", 0).map_err(Refusal::error)?;
    let want = Want::Pop(Pop {
        count_max: request.count_max,
        invisible_ms: request.invisible_ms,
        from_end: true,
        filter: Arc::new(filter),
    });
    let polling = Polling {
        born_ms: request.born_ms,
        poll_ms: request.poll_ms,
        ordered: true,
        attempt_id: request.attempt_id,
    };
    let ask = request::of_client(want, (request.topic, group.into(), waiters), client, &polling, now_ms);
    serve::start(parts, ask, out, later);
    Ok(())
}

/// Checks a pop in the order of `PopLiteMessageProcessor.preCheck`.
fn check(tables: &Tables, runtime: &Runtime, request: &LitePopRequest<'_>) -> Result<GroupRules, Refusal> {
    let &LitePopRequest { topic: name, group, born_ms, poll_ms, count_max, invisible_ms, .. } = request;
    let polling = Polling { born_ms, poll_ms, ordered: true, attempt_id: None };
    request::check_time(runtime, &polling, count_max)?;
    let no_permission = |remark| Refusal::new(response::NO_PERMISSION, remark);
    let illegal = |remark| Refusal::new(response::INVALID_PARAMETER, remark);
    let Some(topic) = tables.topics.find(name) else {
        let remark = format!("topic [{name}] not exist, apply first please! {FAQ}");
        return Err(Refusal::new(response::TOPIC_NOT_EXIST, remark));
    };
    if !topic.is_readable() {
        return Err(no_permission(format!("the topic [{name}] peeking message is forbidden")));
    }
    let message_type = topic.config.attributes.get(attributes::MESSAGE_TYPE);
    if message_type.is_none_or(|kind| kind != attributes::LITE) {
        return Err(illegal(format!("the topic [{name}] message type not match")));
    }
    let Some(config) = tables.groups.find(group) else {
        let remark = format!("subscription group [{group}] not exist, {FAQ}");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    };
    if !config.consume_enable {
        return Err(no_permission(format!("subscription group no permission, {group}")));
    }
    let rules = GroupRules::of(&config, runtime.config.lite.events_max).filter(|rules| *rules.topic == *name);
    let Some(rules) = rules else {
        return Err(illegal(format!("subscription bind topic not match, {group}")));
    };
    if invisible_ms < 0 {
        return Err(illegal(format!("invisibleTime is {invisible_ms}, expected 0 or more milliseconds")));
    }
    if request.client_id.is_empty() || request.client_id.len() > names::CLIENT_ID_BYTES_MAX {
        return Err(illegal("the client id is empty or too long".to_owned()));
    }
    Ok(rules)
}

impl Picking<'_> {
    /// Reads messages of the lite queues in the client's events.
    pub(super) fn visit_events(&mut self, client: &str) -> Result<(), Unpopped> {
        let (lite, group) = (&self.parts.tables.lite, &*self.ask.group);
        // Events that come back meanwhile are for the next pop.
        let mut left = lite.tables().client(group, client).map_or(0, |client| client.events.len());
        while self.wanted() > 0 && left > 0 {
            let Some(name) = lite.take_event(group, client, self.popped.pop_ms) else { break };
            left -= 1;
            if let Err(unpopped) = self.visit_lite(&name) {
                if !lite.put_back(group, client, &name) {
                    // The client left meanwhile. Another client of the group may have the lite topic.
                    self.found_none.push(name);
                }
                return if self.popped.count == 0 { Err(unpopped) } else { Ok(()) };
            }
        }
        Ok(())
    }

    fn visit_lite(&mut self, name: &Arc<str>) -> Result<(), Unpopped> {
        let parts = self.parts;
        // A lite topic that expired has no queue.
        let Some(index) = parts.tables.store.find_queue(name, 0) else { return Ok(()) };
        let queue = Arc::new(Queue::lite(index));
        let cell = parts.delivery.pops.in_flight_queues.make(&self.ask.group, name, 0);
        let before = self.popped.count;
        match self.visit_queue(self.topic, &queue, &cell, Kind::Normal)? {
            Visit::Held if self.popped.count == before => self.found_none.push(name.clone()),
            Visit::Held | Visit::Busy => {}
            // The engine gives the client another event, some seconds later.
            Visit::Unreadable => parts.tables.lite.overflow(&self.ask.group, self.ask.lite.as_deref()),
        }
        Ok(())
    }
}

/// Whether the messages in flight block a lite queue for a group.
pub(crate) fn is_blocked(delivery: &Delivery, runtime: &Runtime, group: &str, name: &str) -> bool {
    let Some(cell) = delivery.pops.in_flight_queues.find(group, name, 0) else { return false };
    let in_flight = cell.in_flight();
    in_flight
        .order
        .as_ref()
        .is_some_and(|state| order::blocked_until(state, None, runtime.now_ms()).is_some())
}

/// Gives the next messages of a lite queue to a client, because the messages in flight block it no longer.
pub(super) fn freed(delivery: &Delivery, cell: &Arc<Cell>) {
    let (group, name) = (cell.group.clone(), cell.topic.clone());
    delivery.pops.in_flight_queues.drop_idle(&group, &name, 1);
    delivery.dispatch_lite(Some(&group), &name);
}

/// Runs a suspended pop of a client that got an event.
pub(crate) fn wake(parts: &Arc<PopParts>, group: &str, waiters: &Waiters) {
    if waiters.is_waited_on() {
        serve::drive(parts, waiters.take_of(group, -1).into_iter().collect());
    }
}

/// Runs all suspended pops of a client that was removed.
pub(crate) fn wake_all(parts: &Arc<PopParts>, waiters: &Waiters) {
    serve::drive(parts, waiters.take_all());
}

/// Checks a message of a lite topic that a client names, in the order of `AckMessageProcessor.ackLite`.
pub(super) fn checked<'a>(tables: &Tables, message: &PoppedMessage<'a>) -> Result<Origin<'a>, Refusal> {
    let illegal = |remark| Refusal::new(response::INVALID_PARAMETER, remark);
    let parent = names::lite_parts(message.topic).map(|(parent, _)| parent);
    let rules = tables.groups.find(message.group).and_then(|config| GroupRules::of(&config, 1));
    if rules.is_none_or(|rules| Some(&*rules.topic) != parent) {
        return Err(illegal("group type or bind topic not match."));
    }
    // A lite topic that expired may begin anew. An offset of the group would then pass its first message.
    let queue = tables.store.find_queue(message.topic, 0);
    if !queue.is_some_and(|queue| (0..=queue.max().to_i64()).contains(&message.offset)) {
        return Err(Refusal::new(response::NO_MESSAGE, "ack offset illegal."));
    }
    let origin = origin(message)?;
    if message.queue_id != 0 || origin.revive_queue != ORDER_REVIVE_QUEUE {
        return Err(illegal("ack queue illegal."));
    }
    Ok(origin)
}

/// Changes the invisible time of a message of a lite topic. With `suspend` all messages of the pop stay invisible, and
/// their delivery does not count. Returns `None` if the message is acknowledged already.
pub(super) fn change_invisible_time(
    delivery: &Delivery,
    runtime: &Runtime,
    message: &PoppedMessage<'_>,
    invisible_ms: i64,
    suspend: bool,
) -> Result<Option<Invisible>, Refusal> {
    let max = delivery.tables.store.find_queue(message.topic, 0).map_or(0, |queue| queue.max().to_i64());
    if message.offset > max {
        return Err(Refusal::new(response::NO_MESSAGE, ""));
    }
    let origin = origin(message)?;
    if is_passed(&delivery.tables, &origin, message.offset) {
        return Ok(None);
    }
    let visible_ms = runtime.now_ms().saturating_add(invisible_ms.max(0));
    if let Some(cell) = delivery.pops.in_flight_queues.find(origin.group, origin.topic, 0) {
        let mut in_flight = cell.in_flight();
        if let Some(state) = in_flight.order.as_mut() {
            match suspend {
                true => order::suspend(state, origin.pop_ms, visible_ms),
                false => order::delay(state, message.offset, origin.pop_ms, visible_ms),
            }
            delivery.pops.look_at(&cell, &mut in_flight, visible_ms);
        }
    }
    Ok(Some(Invisible {
        pop_ms: origin.pop_ms,
        invisible_ms: visible_ms.saturating_sub(origin.pop_ms),
        revive_queue: origin.revive_queue,
        end: LogOffset::ZERO,
    }))
}
