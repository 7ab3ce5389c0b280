//! The list of topics: searched, sorted and in pages, without RocketMQ's own topics unless they are asked for.

use super::charts::spark;
use super::list::{List, Wanted};
use super::names::{Names, Owner};
use super::runtime::{shown_failures, silent};
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Column, Page, Table, decimal, empty, field, number, operation_link, topic_link};
use crate::words::Lang;
use admin::{TopicFigures, TopicRow};
use maud::{Markup, html};
use serde_json::json;
use std::cmp::Ordering;

const TOPICS: List<TopicRow> =
    List { operation: ("topic", "list"), name: |row| &row.topic, figure: "messages", path: "/topics" };
/// Order of the page unless the visitor wants another order.
const USUAL: &str = "name";

/// Kinds of topics by their owner: value of `type`, title, beginnings of the names in order.
const KINDS: [(&str, &str, &[&str]); 5] = [
    ("", "Topics", &[""]),
    ("retry", "Retry", &["%RETRY%"]),
    ("dead letter", "Dead letters", &["%DLQ%"]),
    ("system", "System", &[""]),
    ("all", "All", &[""]),
];

fn is_of(kind: &str, owner: Owner) -> bool {
    match kind {
        "retry" => owner == Owner::Retry,
        "dead letter" => owner == Owner::DeadLetter,
        "system" => owner == Owner::System,
        "all" => true,
        _ => owner == Owner::User,
    }
}

/// A type of messages in words; the types are those of RocketMQ (`TopicMessageType`).
fn type_word(lang: Lang, name: &str) -> String {
    match name {
        "NORMAL" => lang.say("Normal"),
        "FIFO" => "FIFO",
        "DELAY" => lang.say("Delay"),
        "TRANSACTION" => lang.say("Transaction"),
        "LITE" => "Lite",
        "PRIORITY" => lang.say("Priority"),
        "UNSPECIFIED" => lang.say("Not specified"),
        other => other,
    }
    .to_owned()
}

/// The page of topics.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let names = Names::of(app, who).await;
    let (kind, _, begins) =
        KINDS.into_iter().find(|(kind, ..)| *kind == fields.text("type")).unwrap_or(KINDS[0]);
    let own = names.system_begins();
    let begins = if kind == "system" { own.as_slice() } else { begins };
    let order =
        |one: &TopicRow, other: &TopicRow| compare(app, fields.get("sort").unwrap_or(USUAL), one, other);
    let wanted = Wanted { begins, is_wanted: |name: &str| is_of(kind, names.owner(name)), order: &order };
    let part = TOPICS.part(app, who, fields, wanted).await?;
    let failures = silent(app);
    let body = html! {
        div.toolbar {
        form.row method="get" action=(TOPICS.path) role="search" {
            (field(lang.say("Search"), "q", fields.text("q")))
            @for name in ["type", "sort"] { @if let Some(value) = fields.get(name) { input type="hidden" name=(name) value=(value); } }
            button { (lang.say("Search")) }
        }
        nav.tabs aria-label=(lang.say("Type")) { @for (name, title, _) in KINDS {
            a.button href=(format!("{}{}", TOPICS.path, fields.first_with("type", name))) aria-current=[(name == kind).then_some("true")] { (lang.say(title)) }
        } }
        (operation_link(who, lang.say("Create a topic"), ("topic", "create"), &[]))
        }
        (shown_failures(&failures))
        (table(app, lang, &part.order(fields, "name"), &part.rows))
        (part.links(lang, TOPICS.path, fields))
    };
    let data = json!({"found": part.found(), "topics": part.rows, "failures": failures});
    Ok(Page::new(lang.say("Topics"), data, body).live(10_000))
}

fn table(app: &App, lang: Lang, fields: &Fields, rows: &[TopicRow]) -> Markup {
    let place = (TOPICS.path, fields);
    let columns = [
        Column::text(lang.say("Topic")).sorted(place, "name", USUAL),
        Column::text(lang.say("Type")).sorted(place, "kind", USUAL),
        Column::number(lang.say("In /s")).sorted(place, "in", USUAL),
        Column::number(lang.say("Out /s")).sorted(place, "out", USUAL),
        Column::number(lang.say("Messages")).sorted(place, "messages", USUAL),
        Column::number(lang.say("Queues")).sorted(place, "queues", USUAL),
        Column::text(lang.say("Permission")),
    ];
    let count = |value: Option<i64>| html! { (value.map_or_else(|| "–".to_owned(), number)) };
    let rate = |value: Option<f64>| html! { (value.map_or_else(|| "–".to_owned(), decimal)) };
    let rows = rows.iter().map(|row| {
        let figures = row.figures.clone().unwrap_or_default();
        let word = if figures.message_type.is_empty() {
            "–".to_owned()
        } else {
            type_word(lang, &figures.message_type)
        };
        vec![
            topic_link(&row.topic),
            html! { (word) },
            html! { (spark(app, (Kind::Topic, &row.topic))) (rate(in_rate(app, row))) },
            rate(figures.out_tps),
            count(figures.messages),
            queues(&figures),
            html! { (permission(lang, &figures.perm)) },
        ]
    });
    let advice = if fields.get("q").is_some() {
        lang.say("No topic has this in its name; look among all topics")
    } else {
        lang.say("Create a topic, or let a producer send to a new one")
    };
    Table::new(columns).rows(rows).or(empty(lang, advice))
}

/// The number of queues; both numbers if producers and consumers have different numbers.
fn queues(figures: &TopicFigures) -> Markup {
    let (read, write) = (figures.read_queues, figures.write_queues);
    html! { @if read == write { (number(read.into())) } @else { (number(read.into())) " / " (number(write.into())) } }
}

/// A permission in words.
pub(super) fn permission(lang: Lang, perm: &str) -> &str {
    match perm {
        "RW-" => lang.say("read, write"),
        "R--" => lang.say("read only"),
        "-W-" => lang.say("write only"),
        "---" => lang.say("neither"),
        other => other,
    }
}

/// Messages stored per second. If the brokers do not report it, the rate of the last look at the topic.
fn in_rate(app: &App, row: &TopicRow) -> Option<f64> {
    let told = row.figures.as_ref().and_then(|figures| figures.in_tps);
    told.or_else(|| app.live.topic_rate(&row.topic))
}

/// The order of two rows by a key of `sort`; rows without the figure come last.
fn compare(app: &App, sort: &str, one: &TopicRow, other: &TopicRow) -> Ordering {
    let key = sort.trim_start_matches('-');
    let by_name = one.topic.cmp(&other.topic);
    let figures = |row: &TopicRow| row.figures.clone().unwrap_or_default();
    let (first, second) = (figures(one), figures(other));
    let order = match key {
        "in" => in_rate(app, one).unwrap_or(-1.0).total_cmp(&in_rate(app, other).unwrap_or(-1.0)),
        "out" => first.out_tps.unwrap_or(-1.0).total_cmp(&second.out_tps.unwrap_or(-1.0)),
        "messages" => first.messages.cmp(&second.messages),
        "queues" => first.write_queues.cmp(&second.write_queues),
        "kind" => first.message_type.cmp(&second.message_type),
        _ => by_name,
    };
    let order = if sort.starts_with('-') { order.reverse() } else { order };
    order.then(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_users_topics_are_listed_unless_others_are_asked_for() {
        let kinds = KINDS.map(|(kind, ..)| {
            [Owner::User, Owner::Retry, Owner::DeadLetter, Owner::System].map(|owner| is_of(kind, owner))
        });
        let one = |place: usize| [0, 1, 2, 3].map(|at| at == place);
        assert_eq!(kinds, [one(0), one(1), one(2), one(3), [true; 4]]);
    }

    #[test]
    fn types_and_permissions_are_words_of_both_languages() {
        for name in ["NORMAL", "DELAY", "TRANSACTION", "PRIORITY", "UNSPECIFIED"] {
            assert!(!type_word(Lang::Zh, name).is_ascii(), "{name}");
            assert_ne!(type_word(Lang::En, name), name);
        }
        assert_eq!(type_word(Lang::Zh, "FIFO"), "FIFO");
        assert_eq!(
            ["RW-", "-W-", "RWX"].map(|perm| permission(Lang::En, perm)),
            ["read, write", "write only", "RWX"]
        );
    }
}
