//! Topics: their list, and one topic with all that belongs to it.

use super::charts::charts;
use super::list::NAMES_MS;
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Page, answer, cell_text, incomplete, operation_link, table, taken};
use crate::words::Lang;
use http::StatusCode;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Namespace of the name servers in which ordered topics have their queues (`NamesrvUtil`).
const ORDERED: &str = "ORDER_TOPIC_CONFIG";

/// One topic: queues, route, groups with their lag.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("topic", name)];
    let route = app.look(who, ("topic", "route"), &given, 1000).await?;
    let status = app.look(who, ("topic", "status"), &given, 1000).await;
    let rates = app.look(who, ("topic", "rates"), &given, 1000).await;
    let order = app.look(who, ("kv", "get"), &[("namespace", ORDERED), ("key", name)], 1000).await;
    let is_ordered = is_ordered(order.map(drop));
    let brokers = app.look(who, ("cluster", "list"), &[], NAMES_MS).await.unwrap_or_default();
    let cluster = rows(&route).first().and_then(|row| row["cluster"].as_str()).unwrap_or_default();
    let of_cluster = [("topic", name), ("cluster", cluster)];
    let shown = |value: &Result<Value, Refusal>| match value {
        Ok(Value::Object(members)) if members.contains_key("queues") => html! {
            (incomplete(&json!(members)))
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
            @if let Ok(is_ordered) = is_ordered { (change_links(who, name, (rows(&route), rows(&brokers)), is_ordered)) }
            (operation_link(who, lang.say("Permission"), ("topic", "perm"), &of_cluster))
            (operation_link(who, lang.say("Delete the topic"), ("topic", "delete"), &of_cluster))
        }
        @if let Err(refusal) = &is_ordered { p.failure role="alert" { "✗ " (lang.say("Nobody tells whether the topic is ordered, so it cannot be changed here")) ": " (refusal.text) } }
        (charts(app, lang, (Kind::Topic, name)))
        h2 { (lang.say("Consumers")) } (shown(&rates))
        h2 { (lang.say("Queues")) } (shown(&status))
        h2 { (lang.say("Route")) } (table(lang, rows(&route)))
    };
    let data = json!({"route": route, "status": status.ok(), "rates": rates.ok()});
    Ok(Page::new(format!("{}: {name}", lang.say("Topic")), data, body).live(5000))
}

/// Whether a topic has an order configuration, from the look at it. Only a name server that has none says that the topic is not ordered.
fn is_ordered(order: Result<(), Refusal>) -> Result<bool, Refusal> {
    match order {
        Ok(()) => Ok(true),
        Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Links to the forms that change a topic: one for all masters of the cluster, if they have it with the same settings; otherwise
/// one for each broker of the route, because a form for all would give them the settings of the first.
fn change_links(
    who: &Visitor,
    name: &str,
    (route, brokers): (&[Value], &[Value]),
    is_ordered: bool,
) -> Markup {
    let text = who.lang.say("Change the topic");
    let place = |row: &Value, name: &'static str| (name, row[name].as_str().unwrap_or_default().to_owned());
    let link = |text: &str, row: &Value, place: (&'static str, String)| {
        let values = values(name, place, row, is_ordered);
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        operation_link(who, text, ("topic", "create"), &values)
    };
    html! {
        @match route.first() {
            Some(first) if is_alike(route, brokers) => (link(text, first, place(first, "cluster"))),
            _ => { @for row in route {
                @let broker = place(row, "broker");
                (link(&format!("{text}: {}", broker.1), row, broker))
            } },
        }
    }
}

/// Whether all masters of a cluster have a topic with the same settings.
fn is_alike(route: &[Value], brokers: &[Value]) -> bool {
    let settings = ["cluster", "read_queues", "write_queues", "perm", "sys_flag"];
    let is_same = |row: &Value| settings.iter().all(|name| row[*name] == route[0][*name]);
    let of_cluster = |broker: &&Value| broker["id"] == 0 && broker["cluster"] == route[0]["cluster"];
    let masters: Vec<&Value> = brokers.iter().filter(of_cluster).collect();
    let has_topic = |broker: &&Value| route.iter().any(|row| row["broker"] == broker["broker"]);
    !masters.is_empty() && masters.iter().all(has_topic) && route.iter().all(is_same)
}

/// The settings of a topic in a row of its route, as arguments of the operation that changes them, topic and place first: it sets
/// all of them, and what is left out of its form becomes the default.
fn values(
    name: &str,
    place: (&'static str, String),
    row: &Value,
    is_ordered: bool,
) -> [(&'static str, String); 8] {
    let count = |name: &str| row[name].as_i64().map_or(String::new(), |count| count.to_string());
    let flag = |is_set: bool| if is_set { "true".to_owned() } else { String::new() };
    let sys_flag = row["sys_flag"].as_i64().unwrap_or_default();
    [
        ("topic", name.to_owned()),
        place,
        ("read-queues", count("read_queues")),
        ("write-queues", count("write_queues")),
        ("perm", perm_bits(row["perm"].as_str().unwrap_or_default())),
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
    use crate::users::Role;

    #[test]
    fn the_form_that_changes_a_topic_has_its_settings() {
        let row = json!({"cluster": "C", "read_queues": 4, "write_queues": 8, "perm": "R--", "sys_flag": 2});
        let place = || ("cluster", "C".to_owned());
        let given = values("T", place(), &row, true).map(|(name, value)| format!("{name}={value}"));
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
        for (name, value) in values("T", place(), &Value::Null, false) {
            assert!(create.arguments.iter().any(|it| it.name == name), "{name}");
            assert!(["topic", "cluster"].contains(&name) || value.is_empty(), "{name}");
        }
    }

    #[test]
    fn brokers_that_differ_are_changed_each_by_its_own_form() {
        let row = |broker: &str, queues: i64| json!({"cluster": "C", "broker": broker, "read_queues": queues, "write_queues": queues, "perm": "RW-", "sys_flag": 0});
        let broker =
            |cluster: &str, broker: &str, id: i64| json!({"cluster": cluster, "broker": broker, "id": id});
        let brokers = [broker("C", "a", 0), broker("C", "a", 1), broker("C", "b", 0), broker("D", "c", 0)];
        let links = |route: &[Value], brokers: &[Value]| {
            change_links(&Visitor::of_test(Role::Admin), "T", (route, brokers), false).into_string()
        };
        let alike = links(&[row("a", 4), row("b", 4)], &brokers);
        assert!(
            alike.contains("topic=T&amp;cluster=C&amp;read-queues=4") && !alike.contains("broker="),
            "{alike}"
        );
        let differ = links(&[row("a", 4), row("b", 16)], &brokers);
        assert!(differ.contains("topic=T&amp;broker=a&amp;read-queues=4"), "{differ}");
        assert!(differ.contains("topic=T&amp;broker=b&amp;read-queues=16"), "{differ}");
        for (route, brokers) in
            [(&[row("a", 4)][..], &brokers[..]), (&[row("a", 4), row("b", 4)][..], &[][..])]
        {
            let links = links(route, brokers);
            assert!(links.contains("broker=a") && !links.contains("cluster="), "{links}");
        }
        assert_eq!(links(&[], &brokers), "");
    }

    #[test]
    fn a_topic_is_not_ordered_only_if_a_name_server_says_so() {
        assert_eq!(is_ordered(Ok(())).ok(), Some(true));
        assert_eq!(is_ordered(Err(Refusal::missing("no such key"))).ok(), Some(false));
        for status in [StatusCode::BAD_GATEWAY, StatusCode::FORBIDDEN] {
            assert!(is_ordered(Err(Refusal { status, text: String::new() })).is_err());
        }
    }

    #[test]
    fn permissions_are_given_to_forms_as_numbers() {
        assert_eq!(
            ["RW-", "R--", "-W-", "RWX", "---", "", "null"].map(perm_bits),
            ["6", "4", "2", "7", "0", "", ""]
        );
    }
}
