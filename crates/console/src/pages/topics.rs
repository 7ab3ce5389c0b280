//! Topics: their list, and one topic with all that belongs to it.

use super::list::List;
use super::runtime::{shown_failures, silent};
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Page, answer, cell_text, columns_table, columns_with_values, field, operation_link, table, taken,
};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};

/// The list of topics.
const TOPICS: List = List { operation: ("topic", "list"), name: "topic", path: "/topics" };
/// What is shown of a topic; figures are told by brokers of Vostok only.
const COLUMNS: [&str; 6] = ["topic", "type", "read_queues", "write_queues", "perm", "messages"];

/// Namespace of the name servers in which ordered topics have their queues (`NamesrvUtil`).
const ORDERED: &str = "ORDER_TOPIC_CONFIG";

/// Kinds of topics, which their names tell (`TopicService` of RocketMQ's dashboard), with what their names begin with, in order.
const KINDS: [(&str, &[&str]); 4] = [
    ("normal", &[""]),
    ("retry", &["%RETRY%"]),
    ("dead letter", &["%DLQ%"]),
    (
        "system",
        &[
            "BenchmarkTest",
            "OFFSET_MOVED_EVENT",
            "RMQ_SYS_",
            "SCHEDULE_TOPIC",
            "SELF_TEST_TOPIC",
            "TBW102",
            "rmq_sys_",
        ],
    ),
];

fn kind(topic: &str) -> &'static str {
    let lower = topic.to_ascii_lowercase();
    let is_system = ["rmq_sys_", "schedule_topic", "tbw102", "self_test", "offset_moved", "benchmarktest"];
    match topic {
        _ if topic.starts_with("%RETRY%") => "retry",
        _ if topic.starts_with("%DLQ%") => "dead letter",
        _ if is_system.iter().any(|begin| lower.starts_with(begin)) => "system",
        _ => "normal",
    }
}

/// The page of topics, searched and in pages.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let wanted = KINDS.iter().find(|(name, _)| fields.get("type") == Some(name));
    let begins = wanted.map_or(&[""][..], |(_, begins)| begins);
    let is_wanted = |name: &str| wanted.is_none_or(|(wanted, _)| kind(name) == *wanted);
    let mut part = TOPICS.part(app, who, fields, (begins, is_wanted)).await?;
    let failures = silent(app);
    for row in &mut part.rows {
        row["type"] = kind(row["topic"].as_str().unwrap_or_default()).into();
    }
    let body = html! {
        div.actions { (operation_link(who, lang.say("Create a topic"), ("topic", "create"), &[])) }
        form.row method="get" action="/topics" role="search" {
            (field(lang.say("Search"), "q", fields.text("q")))
            label { span { (lang.say("Type")) } select name="type" {
                option value="" { (lang.say("all")) }
                @for (name, _) in KINDS { option value=(name) selected[wanted.is_some_and(|(wanted, _)| *wanted == name)] { (lang.say(name)) } }
            } }
            button { (lang.say("Search")) }
        }
        (shown_failures(&failures))
        (columns_table(lang, &part.rows, &columns_with_values(&part.rows, &COLUMNS)))
        (part.links(lang, TOPICS.path, fields))
    };
    let data = json!({"found": part.found(), "topics": part.rows, "failures": failures});
    Ok(Page::new(lang.say("Topics"), data, body))
}

/// One topic: queues, route, groups with their lag.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("topic", name)];
    let route = app.look(who, ("topic", "route"), &given, 1000).await?;
    let status = app.look(who, ("topic", "status"), &given, 1000).await;
    let rates = app.look(who, ("topic", "rates"), &given, 1000).await;
    let order = app.look(who, ("kv", "get"), &[("namespace", ORDERED), ("key", name)], 1000).await;
    let values = values(name, rows(&route), order.is_ok());
    let changed: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let shown = |value: &Result<Value, Refusal>| match value {
        Ok(Value::Object(members)) if members.contains_key("queues") => html! {
            p { (lang.column("put_tps")) ": " (cell_text(&members["put_tps"])) }
            (heat(lang, rows(&members["queues"])))
        },
        Ok(value) => answer(lang, value),
        Err(refusal) => html! { p.failure { "✗ " (refusal.text) } },
    };
    let body = html! {
        (taken(lang))
        div.actions {
            a.button href=(format!("/messages{}", query([("topic", name), ("by", "time")]))) { (lang.say("Show messages")) }
            (operation_link(who, lang.say("Send a message"), ("message", "send"), &given))
            (operation_link(who, lang.say("Change the topic"), ("topic", "create"), &changed))
            (operation_link(who, lang.say("Permission"), ("topic", "perm"), &changed[..2]))
            (operation_link(who, lang.say("Delete the topic"), ("topic", "delete"), &changed[..2]))
        }
        h2 { (lang.say("Consumers")) } (shown(&rates))
        h2 { (lang.say("Queues")) } (shown(&status))
        h2 { (lang.say("Route")) } (table(lang, rows(&route)))
    };
    let data = json!({"route": route, "status": status.ok(), "rates": rates.ok()});
    Ok(Page::new(format!("{}: {name}", lang.say("Topic")), data, body))
}

/// The settings of a topic on the first broker of its route, as arguments of the operation that changes them, topic and cluster
/// first: it sets all of them, and what is left out of its form becomes the default.
fn values(name: &str, route: &[Value], is_ordered: bool) -> [(&'static str, String); 8] {
    let first = route.first().unwrap_or(&Value::Null);
    let count = |name: &str| first[name].as_i64().map_or(String::new(), |count| count.to_string());
    let flag = |is_set: bool| if is_set { "true".to_owned() } else { String::new() };
    let sys_flag = first["sys_flag"].as_i64().unwrap_or_default();
    [
        ("topic", name.to_owned()),
        ("cluster", first["cluster"].as_str().unwrap_or_default().to_owned()),
        ("read-queues", count("read_queues")),
        ("write-queues", count("write_queues")),
        ("perm", perm_bits(first["perm"].as_str().unwrap_or_default())),
        ("order", flag(is_ordered)),
        ("unit", flag(sys_flag & 1 != 0)),
        ("unit-subscription", flag(sys_flag & 2 != 0)),
    ]
}

/// A permission such as `RW-` as the number that operations take; empty for another text.
fn perm_bits(text: &str) -> String {
    let bit = |letter| match letter {
        'R' => Some(4),
        'W' => Some(2),
        'X' => Some(1),
        '-' => Some(0),
        _ => None,
    };
    text.chars()
        .map(bit)
        .sum::<Option<i32>>()
        .filter(|_| !text.is_empty())
        .map_or(String::new(), |bits| bits.to_string())
}

/// The queues with a bar each for how many messages it holds, beside the number.
fn heat(lang: Lang, queues: &[Value]) -> Markup {
    let held = |row: &Value| {
        row["max_offset"].as_i64().unwrap_or_default() - row["min_offset"].as_i64().unwrap_or_default()
    };
    let most = queues.iter().map(held).max().unwrap_or_default().max(1);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(lang.say("Queues")) {
            table {
                thead { tr {
                    @for name in ["broker", "queue", "min_offset", "max_offset", "last_updated"] { th.number[name.contains("offset") || name == "queue"] scope="col" { (lang.column(name)) } }
                    th.number scope="col" { (lang.say("Messages")) }
                } }
                tbody { @for row in queues { tr {
                    @for name in ["broker", "queue", "min_offset", "max_offset", "last_updated"] {
                        td.number[row[name].is_number()] { (cell_text(&row[name])) }
                    }
                    td.number { meter min="0" max=(most) value=(held(row)) {} " " (held(row)) }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_that_changes_a_topic_has_its_settings() {
        let row = json!({"cluster": "C", "read_queues": 4, "write_queues": 8, "perm": "R--", "sys_flag": 2});
        let given = values("T", &[row], true).map(|(name, value)| format!("{name}={value}"));
        let expected = [
            "topic=T",
            "cluster=C",
            "read-queues=4",
            "write-queues=8",
            "perm=4",
            "order=true",
            "unit=",
            "unit-subscription=true",
        ];
        assert_eq!(given, expected);
        let create = admin::operation("topic", "create").unwrap();
        for (name, value) in values("T", &[], false) {
            assert!(create.arguments.iter().any(|it| it.name == name), "{name}");
            assert!(name == "topic" || value.is_empty(), "{name}");
        }
    }

    #[test]
    fn permissions_are_given_to_forms_as_numbers() {
        assert_eq!(
            ["RW-", "R--", "-W-", "RWX", "---", "", "null"].map(perm_bits),
            ["6", "4", "2", "7", "0", "", ""]
        );
    }

    #[test]
    fn names_tell_the_kind_of_a_topic() {
        let kinds = ["%RETRY%g", "%DLQ%g", "RMQ_SYS_TRACE_TOPIC", "Orders"].map(kind);
        assert_eq!(kinds, ["retry", "dead letter", "system", "normal"]);
        for (name, begins) in KINDS {
            assert!(begins.is_sorted() && begins.iter().all(|begin| kind(begin) == name), "{name}");
        }
    }
}
