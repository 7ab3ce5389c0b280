//! What waits inside brokers: delayed and timed messages, undecided transactions, popped messages.

use super::list::NAMES_MS;
use super::messages::LIMIT;
use super::runtime::{Runtime, runtimes, shown_failures};
use crate::answers::{now_ms, rows};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Page, cell_text, columns_table, operation_link, table, taken};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use wire::names::REVIVE_PREFIX;

/// Runtime figures of delay levels begin so; their values are delivered and stored offsets (`ScheduleMessageService.buildRunningStats`).
const LEVEL: &str = "scheduleMessageOffset_";
/// Where half messages are, and those that brokers gave up.
const HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Group in whose name brokers look for popped messages that were not acknowledged (`PopAckConstants.REVIVE_GROUP`).
const REVIVE: &str = "CID_RMQ_SYS_REVIVE_GROUP";
/// How far back half messages are shown, ms.
const HALF_MS: i64 = 6 * 3_600_000;

/// Delay levels and timers of all masters.
pub(super) async fn delays(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let (runtimes, failures) = runtimes(app, who).await?;
    let mut levels = Vec::new();
    let mut timers = Vec::new();
    for (broker, runtime) in &runtimes {
        let delays = app.look(who, ("broker", "config"), &[("broker", broker)], 30_000).await;
        let delays = delays.ok().and_then(|settings| {
            let found = rows(&settings).iter().find(|row| row["key"] == "messageDelayLevel").cloned();
            found.map(|row| cell_text(&row["value"]))
        });
        levels.extend(levels_of(broker, runtime, delays.as_deref().unwrap_or_default()));
        let figures = runtime.iter().filter(|(name, _)| name.starts_with("timer"));
        let figures = figures.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        let broker = [("broker".to_owned(), Value::from(broker.as_str()))];
        timers.push(Value::Object(broker.into_iter().chain(figures).collect()));
    }
    let body = html! {
        (taken(lang))
        (shown_failures(&failures))
        h2 { (lang.say("Delay levels")) }
        (columns_table(lang, &levels, &["broker", "level", "delay", "delivered_offset", "max_offset", "waiting"]))
        h2 { (lang.say("Timed messages")) }
        @if timers.iter().all(|row| row.as_object().is_none_or(|row| row.len() < 2)) { p { (lang.say("The brokers have no timers")) } }
        @else { (table(lang, &timers)) }
    };
    let data = json!({"levels": levels, "timers": timers, "failures": failures});
    Ok(Page::new(lang.say("Delays"), data, body))
}

fn levels_of(broker: &str, runtime: &Runtime, delays: &str) -> Vec<Value> {
    let found = runtime.iter().filter_map(|(name, value)| {
        let level: usize = name.strip_prefix(LEVEL)?.parse().ok()?;
        let (delivered, max) = value.split_once(',')?;
        let (delivered, max): (i64, i64) = (delivered.trim().parse().ok()?, max.trim().parse().ok()?);
        let delay = delays.split_whitespace().nth(level.checked_sub(1)?).unwrap_or_default();
        Some((level, json!({"broker": broker, "level": level, "delay": delay, "delivered_offset": delivered, "max_offset": max, "waiting": max - delivered})))
    });
    let mut found: Vec<(usize, Value)> = found.collect();
    found.sort_by_key(|(level, _)| *level);
    found.into_iter().map(|(_, row)| row).collect()
}

/// Half messages, and those that brokers gave up asking about.
pub(super) async fn transactions(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let begin = fields.get("begin").map(super::messages::time_of);
    let begin = begin.unwrap_or_else(|| (now_ms() - HALF_MS).to_string());
    let mut parts = Vec::new();
    for topic in [HALF, GIVEN_UP] {
        let given = [("topic", topic), ("begin", begin.as_str()), ("limit", LIMIT)];
        parts.push(match app.look(who, ("message", "print-topic"), &given, 0).await {
            Ok(found) => Ok(rows(&found).iter().map(half).collect::<Vec<Value>>()),
            // Neither topic is there before the first message of its kind.
            Err(refusal) if refusal.status == http::StatusCode::NOT_FOUND => Ok(Vec::new()),
            Err(refusal) => Err(refusal),
        });
    }
    let given_up = parts.pop().unwrap_or(Ok(Vec::new()));
    let halves = parts.pop().unwrap_or(Ok(Vec::new()));
    let columns = ["id", "real_topic", "keys", "producer_group", "checks", "store_time", "broker"];
    let body = html! {
        (taken(lang))
        form.row method="get" action="/transactions" {
            label { span { (lang.say("From (UTC)")) } input type="datetime-local" name="begin" value=(fields.text("begin")); }
            button { (lang.say("Look")) }
        }
        h2 { (lang.say("Given up by the broker")) }
        p.small { (lang.say("The producer did not decide however often it was asked; let it be asked again")) }
        @match &given_up {
            Ok(rows) => (list(who, rows)),
            Err(refusal) => p.failure { "✗ " (refusal.text) },
        }
        h2 { (lang.say("Half messages, decided ones too")) }
        @match &halves {
            Ok(rows) => (columns_table(lang, rows, &columns)),
            Err(refusal) => p.failure { "✗ " (refusal.text) },
        }
        p.small { (lang.say("At most 50 messages are shown")) }
    };
    let data = json!({"given_up": given_up.ok(), "halves": halves.ok()});
    Ok(Page::new(lang.say("Transactions"), data, body))
}

/// What is worth knowing of a half message.
fn half(row: &Value) -> Value {
    let property = |name: &str| row["properties"][name].clone();
    json!({
        "id": row["offset_id"],
        "real_topic": property("REAL_TOPIC"),
        "keys": row["keys"],
        "producer_group": property("PGROUP"),
        "checks": property("TRANSACTION_CHECK_TIMES"),
        "store_time": row["store_time"],
        "broker": row["broker"],
    })
}

fn list(who: &Visitor, rows: &[Value]) -> Markup {
    let lang = who.lang;
    html! {
        @if rows.is_empty() { p { (lang.say("Nothing to show")) } }
        ul.cards { @for row in rows {
            @let id = cell_text(&row["id"]);
            li {
                a href=(format!("/message{}", query([("topic", GIVEN_UP), ("id", &id)]))) { (id) }
                " · " (cell_text(&row["real_topic"])) " · " (cell_text(&row["producer_group"])) " · " (cell_text(&row["keys"])) " · " (cell_text(&row["store_time"])) " "
                (operation_link(who, lang.say("Ask again"), ("message", "check-half"), &[("topic", GIVEN_UP), ("id", &id)]))
            }
        } }
    }
}

/// How far brokers are with popped messages that were not acknowledged.
pub(super) async fn pops(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.look(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let clusters: BTreeSet<&str> = rows(&brokers).iter().filter_map(|row| row["cluster"].as_str()).collect();
    let (mut revive, mut refused) = (Vec::new(), Vec::new());
    for cluster in clusters {
        let topic = format!("{REVIVE_PREFIX}{cluster}");
        match app.look(who, ("group", "progress"), &[("group", REVIVE), ("topic", &topic)], 2000).await {
            Ok(progress) => revive.extend(rows(&progress["queues"]).to_vec()),
            Err(refusal) => refused.push(format!("{cluster}: {}", refusal.text)),
        }
    }
    let (runtimes, mut failures) = runtimes(app, who).await?;
    failures.extend(refused);
    let figures: Vec<Value> = runtimes
        .iter()
        .flat_map(|(broker, runtime)| {
            let found = runtime.iter().filter(|(name, _)| {
                let name = name.to_ascii_lowercase();
                name.contains("pop") || name.contains("revive")
            });
            found.map(move |(name, value)| json!({"broker": broker, "name": name, "value": value}))
        })
        .collect();
    let columns = ["topic", "broker", "queue", "broker_offset", "consumer_offset", "diff", "last_time"];
    let body = html! {
        (taken(lang))
        (shown_failures(&failures))
        h2 { (lang.say("Revive: bringing back what was not acknowledged")) }
        (columns_table(lang, &revive, &columns))
        p.small { (lang.say("What a member has popped and not acknowledged stands on the member's page")) }
        h2 { (lang.say("Figures of the brokers")) }
        (table(lang, &figures))
    };
    let data = json!({"revive": revive, "figures": figures, "failures": failures});
    Ok(Page::new(lang.say("Pops"), data, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_a_level_is_stored_and_not_delivered() {
        let figures = [
            ("scheduleMessageOffset_10", "0,0"),
            ("scheduleMessageOffset_2", "3,10"),
            ("scheduleMessageOffset_x", "1,2"),
        ];
        let runtime: Runtime = figures.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let rows = levels_of("a", &runtime, "1s 5s 10s");
        assert_eq!((rows.len(), &rows[0]["delay"], &rows[0]["waiting"]), (2, &json!("5s"), &json!(7)));
        assert_eq!((&rows[1]["level"], &rows[1]["delay"]), (&json!(10), &json!("")));
    }
}
