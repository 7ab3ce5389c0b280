//! Progress of consumer groups in lite topics.

use crate::doctor::bilingual::{Phrase, text};
use crate::doctor::bundle::Bundle;
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
use crate::text::time;

/// Age of an unconsumed message of a subscribed lite topic from which on the lite topic is stuck. Brokers of RocketMQ dispatch
/// a full event set again after at most 35 s.
const STUCK_MS: i64 = 300_000;

pub(super) const CHECKS: &[Check] = checks! {
    "lite-topic-stuck", Critical, stuck,
        "A member subscribes to a lite topic, and its messages have been waiting for minutes",
        Phrase("lag of groups in lite topics (200078), subscribers (200076)");
};

fn stuck(bundle: &Bundle) -> Look {
    Look::each(bundle.lite.iter().flatten(), |row| {
        let (first_ms, is_subscribed) = (row.first_ms?, row.is_subscribed?);
        Found::when(row.lag > 0 && is_subscribed && first_ms < bundle.taken_at_ms - STUCK_MS, || {
            let (lag, first, group, broker) = (row.lag, time(first_ms), &row.group, &row.broker);
            let (parent, lite_topic) = (&row.parent, &row.lite_topic);
            let subject = text!(
                "{group} in lite topic {lite_topic} of {parent} on {broker}",
                group,
                lite_topic,
                parent,
                broker
            );
            let figure = text!("{lag} messages wait, the first since {first}", lag, first);
            let advice = text!(
                "let the brokers dispatch the lite topics of {group} again; if messages still wait, look at the members' listeners",
                group
            );
            let fix = Fix::new("lite", "dispatch", &[("parent", parent), ("group", group)]);
            Found::new(subject, figure, "GET_LITE_GROUP_INFO (200078)", advice)
                .fix(fix)
                .of_group(group)
                .of_set(broker)
        })
    })
}
