//! Page of a parent topic: its groups, their lite topics with the most lag, and one lite topic by its name.

use super::messages::local;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{
    Column, Page, Table, ago, broker_link, card, duration, empty, group_link, number, operation_link,
    topic_link,
};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Page of a parent topic. With a group: the lite topics of the group with the most lag. With a name: one lite topic.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, parent, lite) = (who.lang, fields.text("parent"), fields.text("lite"));
    let parents = app.look(who, ("lite", "parent"), &[("parent", parent)], 1000).await?;
    let groups: BTreeSet<&str> = rows(&parents).flat_map(|row| texts(&row["groups"])).collect();
    let group = Some(fields.text("group")).filter(|group| !group.is_empty());
    let group = group.or(groups.first().copied()).unwrap_or_default();
    let progress = match group {
        "" => Value::Null,
        _ => app.look(who, ("lite", "group"), &[("parent", parent), ("group", group)], 1000).await?,
    };
    let topic = match lite {
        "" => Value::Null,
        _ => app.look(who, ("lite", "topic"), &[("parent", parent), ("lite", lite)], 0).await?,
    };
    let body = html! {
        div.actions {
            (topic_link(parent))
            @if !group.is_empty() {
                (operation_link(who, lang.say("Dispatch lite topics again"), ("lite", "dispatch"), &[("parent", parent), ("group", group)]))
            }
        }
        div.cards {
            (card(lang.say("Lite topics"), number(sum(&parents, "liteTopicCount")), ""))
            (card(lang.say("Expire after"), expiry(lang, rows(&parents).next()), ""))
            @if !group.is_empty() { (card(lang.say("Messages waiting"), number(sum(&progress, "totalLagCount")), group_link(group))) }
        }
        form.row method="get" action="/lite" role="search" {
            input type="hidden" name="parent" value=(parent);
            label { span { (lang.say("Group")) } select name="group" { @for name in &groups { option value=(name) selected[*name == group] { (name) } } } }
            label { span { (lang.say("Lite topic")) } input name="lite" value=(lite) maxlength="64"; }
            button { (lang.say("Search")) }
        }
        @if !lite.is_empty() { h2 { (lang.say("Lite topic")) " " (lite) } (topic_table(who, &topic)) }
        h2 { (lang.say("Lite topics with the most waiting messages")) }
        (lag_table(who, (parent, group), &progress))
    };
    let data = json!({"parent": parents, "group": progress, "topic": topic});
    Ok(Page::new(format!("{}{}{parent}", lang.say("Lite topics"), lang.colon()), data, body).live(5000))
}

/// The rows of an answer, one for each broker.
fn rows(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.as_array().into_iter().flatten()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    rows(list).filter_map(Value::as_str)
}

/// The sum of a figure over the brokers.
fn sum(answer: &Value, member: &str) -> i64 {
    rows(answer).filter_map(|row| row[member].as_i64()).sum()
}

/// The time in minutes after which lite topics without new messages expire (`lite.topic.expiration`).
fn expiry(lang: Lang, row: Option<&Value>) -> String {
    match row.and_then(|row| row["ttl"].as_i64()) {
        Some(minutes @ 1..) => duration(minutes.saturating_mul(60_000)),
        Some(_) => lang.say("never").to_owned(),
        None => "–".to_owned(),
    }
}

fn time(who: &Visitor, ms: &Value) -> Markup {
    match ms.as_i64() {
        Some(ms) if ms > 0 => html! { (ago(who.lang, ms)) " " (local(who, ms)) },
        _ => html! { "–" },
    }
}

/// Offsets and subscribers of a lite topic on each broker.
fn topic_table(who: &Visitor, answer: &Value) -> Markup {
    let lang = who.lang;
    let columns = [
        Column::text(lang.say("Broker")),
        Column::number(lang.say("First offset")),
        Column::number(lang.say("End offset")),
        Column::text(lang.say("Last message")),
        Column::text(lang.say("Subscribers")),
    ];
    let rows = rows(answer).map(|row| {
        let offset = |name: &str| html! { (number(row["topicOffset"][name].as_i64().unwrap_or_default())) };
        let subscribers = self::rows(&row["subscriber"]).map(|it| (it["group"].as_str(), it["clientId"].as_str()));
        vec![
            broker_link(row["broker"].as_str().unwrap_or_default(), 0, ""),
            offset("minOffset"),
            offset("maxOffset"),
            time(who, &row["topicOffset"]["lastUpdateTimestamp"]),
            html! { @for (group, client) in subscribers { div { (group.unwrap_or_default()) ": " (client.unwrap_or_default()) } } },
        ]
    });
    Table::new(columns).rows(rows).or(html! {})
}

/// The lite topics of a group with the most lag, of all brokers.
fn lag_table(who: &Visitor, (parent, group): (&str, &str), answer: &Value) -> Markup {
    let lang = who.lang;
    let columns = [
        Column::text(lang.say("Lite topic")),
        Column::text(lang.say("Broker")),
        Column::number(lang.say("Messages waiting")),
        Column::text(lang.say("Oldest waiting message")),
    ];
    let rows =
        rows(answer).flat_map(|row| self::rows(&row["lagCountTopK"]).map(move |lag| (&row["broker"], lag)));
    let rows = rows.map(|(broker, lag)| {
        let lite = lag["liteTopic"].as_str().unwrap_or_default();
        let link = crate::request::query([("parent", parent), ("group", group), ("lite", lite)]);
        vec![
            html! { a href=(format!("/lite{link}")) { (lite) } },
            broker_link(broker.as_str().unwrap_or_default(), 0, ""),
            html! { (number(lag["lagCount"].as_i64().unwrap_or_default())) },
            time(who, &lag["earliestUnconsumedTimestamp"]),
        ]
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("No message of the group waits in a lite topic")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lite_topics_expire_after_a_time_or_never() {
        let shown = |ttl: i64| expiry(Lang::En, Some(&json!({ "ttl": ttl })));
        assert_eq!([shown(-1), shown(90), expiry(Lang::Zh, None)], ["never", "1 h 30 min", "–"]);
    }
}
