//! Page of a topic: rates, groups, queues, route.

use super::charts::charts;
use super::list::NAMES_MS;
use super::runtime::shown_failures;
use super::topic_list::permission;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Column, Page, Table, ago, broker_link, card, decimal, empty, group_link, number, operation_link,
};
use crate::words::Lang;
use admin::{BrokerRow, QueueStatus, Route, RouteRow, TopicRates, TopicStatus};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::json;

/// Namespace of the name servers in which ordered topics have their queues (`NamesrvUtil`).
const ORDERED: &str = "ORDER_TOPIC_CONFIG";

/// Page of a topic: rates, groups with their lag, queues, route.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("topic", name)];
    let route = app.typed::<Route>(who, ("topic", "route"), &given, 1000).await?;
    let status = app.typed::<TopicStatus>(who, ("topic", "status"), &given, 1000).await;
    let rates = app.typed::<Vec<TopicRates>>(who, ("topic", "rates"), &given, 1000).await;
    let order = app.look(who, ("kv", "get"), &[("namespace", ORDERED), ("key", name)], 1000).await;
    let is_ordered = is_ordered(order.map(drop));
    let is_parent = app.look(who, ("lite", "parent"), &[("parent", name)], NAMES_MS).await.is_ok();
    let brokers =
        app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await.unwrap_or_default();
    let cluster = route.brokers.first().map_or("", |row| row.cluster.as_str());
    let of_cluster = [("topic", name), ("cluster", cluster)];
    let refused = |refusal: &Refusal| html! { p.failure { "✗ " (refusal.text) } };
    let body = html! {
        div.actions {
            a.button href=(format!("/messages{}", query([("topic", name), ("by", "time")]))) { (lang.say("Show messages")) }
            @if is_parent { a.button href=(format!("/lite{}", query([("parent", name)]))) { (lang.say("Lite topics")) } }
            (operation_link(who, lang.say("Send a message"), ("message", "send"), &given))
            @if let Ok(is_ordered) = is_ordered { (change_links(who, name, (&route.brokers, &brokers), is_ordered)) }
            (operation_link(who, lang.say("Permission"), ("topic", "perm"), &of_cluster))
            (operation_link(who, lang.say("Delete the topic"), ("topic", "delete"), &of_cluster))
        }
        @if let Err(refusal) = &is_ordered { p.failure role="alert" { "✗ " (lang.say("Nobody tells whether the topic is ordered, so it cannot be changed here")) (lang.colon()) (refusal.text) } }
        @if let (Ok(status), Ok(rates)) = (&status, &rates) { (cards(lang, status, rates)) }
        (charts(app, lang, (Kind::Topic, name)))
        h2 { (lang.say("Groups")) }
        @match &rates { Ok(rates) => (groups(lang, rates)), Err(refusal) => (refused(refusal)) }
        h2 { (lang.say("Queues")) }
        @match &status { Ok(status) => { (shown_failures(&status.failures)) (queues(lang, &status.queues)) } Err(refusal) => (refused(refusal)) }
        h2 { (lang.say("Route")) } (route_table(lang, &route.brokers))
    };
    let data = json!({"route": *route, "status": status.as_deref().ok(), "rates": rates.as_deref().ok()});
    Ok(Page::new(format!("{}{}{name}", lang.say("Topic"), lang.colon()), data, body).live(5000))
}

/// The figures that the page of a topic is opened for.
fn cards(lang: Lang, status: &TopicStatus, rates: &[TopicRates]) -> Markup {
    let per_second = |value: f64| html! { (decimal(value)) span.unit { " /s" } };
    let waiting = rates.iter().filter(|row| !row.group.is_empty()).max_by_key(|row| row.diff_total);
    let held = status.queues.iter().map(|queue| queue.max_offset - queue.min_offset).sum();
    let last_ms = status.queues.iter().map(|queue| queue.last_updated_ms).max().unwrap_or_default();
    html! {
        div.cards {
            (card(lang.say("Messages in"), per_second(rates.first().map_or(status.put_tps, |row| row.in_tps)), ""))
            (card(lang.say("Messages out"), per_second(rates.iter().map(|row| row.out_tps).sum()), ""))
            (card(lang.say("Messages stored"), number(held), html! { (lang.say("last message")) " " (ago(lang, last_ms)) }))
            @match waiting {
                Some(row) => { (card(lang.say("Messages waiting"), number(row.diff_total), group_link(&row.group))) }
                None => { (card(lang.say("Messages waiting"), "–", lang.say("No group consumes the topic"))) }
            }
        }
    }
}

fn groups(lang: Lang, rates: &[TopicRates]) -> Markup {
    let columns = Column::all(lang, ["Group", "#Messages waiting", "#Out /s"]);
    let rows = rates.iter().filter(|row| !row.group.is_empty()).map(|row| {
        // Brokers count the day by hourly samples, so that the count of a young topic is far off.
        let figures = [number(row.diff_total), decimal(row.out_tps)].map(|text| html! { (text) });
        [group_link(&row.group)].into_iter().chain(figures).collect()
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("No group consumes the topic; start a consumer")))
}

/// An address of a broker of a route, `ID=ADDRESS`, with the role of the broker.
fn address(lang: Lang, text: &str) -> Markup {
    let (id, address) = text.split_once('=').unwrap_or(("", text));
    let role = if id == "0" { lang.say("master").to_owned() } else { format!("{} {id}", lang.say("slave")) };
    html! { (address) " " span.soft { (role) } }
}

fn route_table(lang: Lang, route: &[RouteRow]) -> Markup {
    let columns =
        Column::all(lang, ["Broker", "Cluster", "Addresses", "#Read queues", "#Write queues", "Permission"]);
    let rows = route.iter().map(|row| {
        vec![
            broker_link(&row.broker, 0, ""),
            html! { (row.cluster) },
            html! { @for text in row.addresses.split(", ") { div { (address(lang, text)) } } },
            html! { (row.read_queues) },
            html! { (row.write_queues) },
            html! { (permission(lang, &row.perm)) },
        ]
    });
    Table::new(columns).rows(rows).or(html! {})
}

/// Whether a topic has an order configuration: not if the name server answers that it has none. Other failures leave
/// this unknown and are returned.
fn is_ordered(order: Result<(), Refusal>) -> Result<bool, Refusal> {
    match order {
        Ok(()) => Ok(true),
        Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Links to the forms that change a topic. If all masters of the cluster have the same settings of the topic, one form changes all
/// masters. Otherwise each broker of the route has a form, because a common form would give all brokers the settings of the first.
fn change_links(
    who: &Visitor,
    name: &str,
    (route, brokers): (&[RouteRow], &[BrokerRow]),
    is_ordered: bool,
) -> Markup {
    let text = who.lang.say("Change the topic");
    let link = |text: &str, row: &RouteRow, place: (&'static str, String)| {
        let values = values(name, place, row, is_ordered);
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        operation_link(who, text, ("topic", "create"), &values)
    };
    html! {
        @match route.first() {
            Some(first) if is_alike(route, brokers) => (link(text, first, ("cluster", first.cluster.clone()))),
            _ => { @for row in route { (link(&format!("{text}: {}", row.broker), row, ("broker", row.broker.clone()))) } },
        }
    }
}

/// Whether all masters of a cluster have a topic with the same settings.
fn is_alike(route: &[RouteRow], brokers: &[BrokerRow]) -> bool {
    let Some(first) = route.first() else { return false };
    let settings = |row: &RouteRow| (row.read_queues, row.write_queues, row.sys_flag);
    let is_same = |row: &RouteRow| {
        (&row.cluster, &row.perm, settings(row)) == (&first.cluster, &first.perm, settings(first))
    };
    let masters: Vec<&BrokerRow> =
        brokers.iter().filter(|broker| broker.id == 0 && broker.cluster == first.cluster).collect();
    let has_topic = |broker: &&BrokerRow| route.iter().any(|row| row.broker == broker.broker);
    !masters.is_empty() && masters.iter().all(has_topic) && route.iter().all(is_same)
}

/// Settings of a topic in a row of its route, as arguments of the operation that changes the topic. `place` is the
/// argument that names the broker or the cluster. The operation sets all settings, so a setting that the form leaves
/// out becomes the default.
fn values(
    name: &str,
    place: (&'static str, String),
    row: &RouteRow,
    is_ordered: bool,
) -> [(&'static str, String); 8] {
    let flag = |is_set: bool| if is_set { "true".to_owned() } else { String::new() };
    [
        ("topic", name.to_owned()),
        place,
        ("read-queues", row.read_queues.to_string()),
        ("write-queues", row.write_queues.to_string()),
        ("perm", perm_bits(&row.perm)),
        ("order", flag(is_ordered)),
        ("unit", flag(row.sys_flag & 1 != 0)),
        ("unit-subscription", flag(row.sys_flag & 2 != 0)),
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
fn queues(lang: Lang, queues: &[QueueStatus]) -> Markup {
    let held = |row: &QueueStatus| row.max_offset - row.min_offset;
    let most = queues.iter().map(held).max().unwrap_or_default().max(1);
    let columns =
        Column::all(lang, ["Broker", "#Queue", "#Messages", "#First offset", "#Next offset", "Last message"]);
    let rows = queues.iter().map(|row| {
        vec![
            broker_link(&row.broker, 0, ""),
            html! { (row.queue) },
            html! { meter min="0" max=(most) value=(held(row)) aria-label=(number(held(row))) {} " " (number(held(row))) },
            html! { (number(row.min_offset)) },
            html! { (number(row.max_offset)) },
            ago(lang, row.last_updated_ms),
        ]
    });
    Table::new(columns).rows(rows).or(html! {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    fn row(value: serde_json::Value) -> RouteRow {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_form_that_changes_a_topic_has_its_settings() {
        let row =
            row(json!({"cluster": "C", "read_queues": 4, "write_queues": 8, "perm": "R--", "sys_flag": 2}));
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
        for (name, value) in values("T", place(), &RouteRow::default(), false) {
            assert!(create.arguments.iter().any(|it| it.name == name), "{name}");
            assert!(["topic", "cluster"].contains(&name) || value.is_empty() || value == "0", "{name}");
        }
    }

    #[test]
    fn brokers_that_differ_are_changed_each_by_its_own_form() {
        let row = |broker: &str, queues: i64| {
            row(
                json!({"cluster": "C", "broker": broker, "read_queues": queues, "write_queues": queues, "perm": "RW-", "sys_flag": 0}),
            )
        };
        let broker = |cluster: &str, broker: &str, id: i64| -> BrokerRow {
            serde_json::from_value(json!({"cluster": cluster, "broker": broker, "id": id})).unwrap()
        };
        let brokers = [broker("C", "a", 0), broker("C", "a", 1), broker("C", "b", 0), broker("D", "c", 0)];
        let links = |route: &[RouteRow], brokers: &[BrokerRow]| {
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
