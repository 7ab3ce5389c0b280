//! Sends that ask for a delivery time (`HookUtils.handleScheduleMessage`).

use store::timer::wheel_time;
use wire::codes::response;
use wire::properties::{self, key};

use super::timed::asked_ms;
use crate::parts::{Delivery, Identity, Runtime};
use crate::{Refusal, Result};

/// The properties of a message that concern its delivery time.
#[derive(Default)]
pub(crate) struct DeliveryTime<'a> {
    pub delay_s: Option<&'a [u8]>,
    pub delay_ms: Option<&'a [u8]>,
    pub deliver_ms: Option<&'a [u8]>,
    /// Whether the message was timed before: it is a delivered copy that a consumer sends back.
    pub was_timed: bool,
    /// Whether the message cancels another message.
    pub cancels: bool,
}

impl<'a> DeliveryTime<'a> {
    /// Reads the properties that concern the delivery time from encoded properties.
    pub(crate) fn of(stored: &'a [u8]) -> Self {
        let mut asked = Self::default();
        for (name, value) in properties::pairs(stored) {
            asked.note(name, value);
        }
        asked
    }

    /// Records the value of a property. Returns whether the property requests a time.
    pub(crate) fn note(&mut self, name: &[u8], value: &'a [u8]) -> bool {
        let is = |wanted: &str| wanted.as_bytes() == name;
        let field = if is(key::TIMER_DELAY_SEC) {
            &mut self.delay_s
        } else if is(key::TIMER_DELAY_MS) {
            &mut self.delay_ms
        } else if is(key::TIMER_DELIVER_MS) {
            &mut self.deliver_ms
        } else {
            self.was_timed |= is(key::TIMER_OUT_MS);
            self.cancels |= is(key::TIMER_DEL_UNIQKEY);
            return false;
        };
        *field = Some(value);
        true
    }

    /// Whether a property asks for a time.
    pub(crate) fn is_asked(&self) -> bool {
        self.delay_s.or(self.delay_ms).or(self.deliver_ms).is_some()
    }

    /// Appends the properties that ask for a time to encoded properties.
    pub(crate) fn copy(&self, out: &mut Vec<u8>) {
        let all = [
            (key::TIMER_DELAY_SEC, self.delay_s),
            (key::TIMER_DELAY_MS, self.delay_ms),
            (key::TIMER_DELIVER_MS, self.deliver_ms),
        ];
        for (name, value) in all {
            properties::append(out, name, value.unwrap_or_default());
        }
    }

    /// Returns the wheel time of the message in milliseconds since the epoch, or `None` if the message is delivered
    /// at once.
    ///
    /// # Errors
    /// Java's refusals: timed messages are disabled, the time is no number or too far ahead, the time of a cancelling
    /// message has passed, or its slot has too many messages.
    pub(crate) fn out_ms(
        &self,
        identity: &Identity,
        delivery: &Delivery,
        runtime: &Runtime,
    ) -> Result<Option<i64>> {
        let first = |name, value: Option<&'a [u8]>| value.map(|value| (name, value));
        let asked = first(key::TIMER_DELAY_SEC, self.delay_s)
            .or_else(|| first(key::TIMER_DELAY_MS, self.delay_ms))
            .or_else(|| first(key::TIMER_DELIVER_MS, self.deliver_ms));
        let Some((name, value)) = asked.filter(|_| !self.was_timed) else { return Ok(None) };
        let timers = &runtime.config.timers;
        if !timers.enabled {
            return Err(Refusal::error("accurate timer message is not enabled, timerWheelEnable is false"));
        }
        let now_ms = runtime.now_ms();
        let due_ms = asked_ms(name, value, now_ms).ok_or_else(|| illegal(runtime))?;
        if due_ms <= now_ms {
            return if self.cancels { Err(illegal(runtime)) } else { Ok(None) };
        }
        if due_ms - now_ms > timers.delay_max_s.saturating_mul(1000) {
            return Err(illegal(runtime));
        }
        let out_ms = wheel_time(due_ms, timers.precision_ms);
        if is_congested(identity, delivery, runtime, out_ms) {
            return Err(flow_control(timers.congest_num));
        }
        Ok(Some(out_ms))
    }
}

/// Appends the properties by which a timed message is delivered: wheel time, real topic and queue.
pub(crate) fn timed(out: &mut Vec<u8>, out_ms: i64, topic: &str, queue_id: i32) {
    let mut digits = itoa::Buffer::new();
    properties::append(out, key::TIMER_OUT_MS, digits.format(out_ms).as_bytes());
    properties::append(out, key::REAL_TOPIC, topic.as_bytes());
    properties::append(out, key::REAL_QUEUE_ID, digits.format(queue_id).as_bytes());
}

/// Whether a message is refused for the number of messages in its slot. The probability grows from 0 at
/// `timerCongestNumEachSlot` to 1 at twice that number. (In Java it falls: `TimerMessageStore.isReject`.)
fn is_congested(identity: &Identity, delivery: &Delivery, runtime: &Runtime, out_ms: i64) -> bool {
    let limit = i64::from(runtime.config.timers.congest_num);
    if limit == i64::from(i32::MAX) {
        return false;
    }
    let count = delivery.timer.counts().get(&out_ms).copied().unwrap_or(0);
    // 619 and 1000 have no common factor: each of the thousand values comes equally often, in a scattered order.
    let dice = i64::from(identity.spread(i32::MAX)) * 619 % 1000;
    count > limit && (count >= 2 * limit || dice < 1000 * (count - limit) / limit.max(1))
}

fn illegal(runtime: &Runtime) -> Refusal {
    let remark = format!(
        "timer message illegal, the delay time should not be bigger than the max delay {}ms; or if set del msg, the delay time should be bigger than the current time",
        runtime.config.timers.delay_max_s.saturating_mul(1000)
    );
    Refusal::new(response::MESSAGE_ILLEGAL, remark)
}

fn flow_control(limit: i32) -> Refusal {
    let twice = 2 * i64::from(limit);
    Refusal::error(format!(
        "timer message is under flow control, max num limit is {twice} or the current value is greater than {limit} and less than {twice}, trigger random flow control"
    ))
}
