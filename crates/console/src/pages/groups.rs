//! Consumer groups and connected clients.

use super::charts::charts;
use super::list::{List, part};
use super::runtime::{masters, shown_failures, silent};
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Page, answer, columns_table, columns_with_values, field, operation_link, taken};
use crate::words::Lang;
use admin::{BrokerProgress, GroupQueue};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The list of groups.
const GROUPS: List = List { operation: ("group", "names"), name: "group", path: "/groups" };
/// Time for which the lag of all groups is not asked for again, ms.
const LAG_MS: i64 = 10_000;

/// Number of unconsumed messages of each group and their largest age, with one request to each master; and the failures.
async fn lags(
    app: &App,
    who: &Visitor,
) -> Result<(BTreeMap<String, (i64, admin::Lag)>, Vec<String>), Refusal> {
    let (mut lags, mut failures) = (BTreeMap::new(), Vec::new());
    for broker in masters(app, who).await? {
        let given = [("broker", broker.as_str())];
        match app.typed::<BrokerProgress>(who, ("broker", "progress"), &given, LAG_MS).await {
            // Queues of which everything is consumed count too: they tell a group that has consumed everything from a group that
            // never consumed.
            Ok(progress) => {
                for GroupQueue { group, diff, lag, .. } in &progress.queues {
                    let (messages, largest) = lags.entry(group.clone()).or_insert((0, admin::Lag::NOTHING));
                    *messages += diff;
                    *largest = admin::Lag::largest([*largest, *lag]);
                }
            }
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    Ok((lags, failures))
}

/// Arguments of `group create` by the settings of a group that they set.
const SETTINGS: [(&str, &str); 12] = [
    ("consumeEnable", "enable"),
    ("consumeFromMinEnable", "from-min"),
    ("consumeBroadcastEnable", "broadcast"),
    ("consumeMessageOrderly", "orderly"),
    ("retryQueueNums", "retry-queues"),
    ("retryMaxTimes", "retry-max"),
    ("groupRetryPolicy", "retry-policy"),
    ("brokerId", "broker-id"),
    ("whichBrokerWhenConsumeSlowly", "slow-broker-id"),
    ("notifyConsumerIdsChangedEnable", "notify"),
    ("groupSysFlag", "sys-flag"),
    ("consumeTimeoutMinute", "consume-timeout"),
];

/// The settings of a group on the first broker that told them, as arguments of the operation that changes them: it replaces all
/// settings, and what is left out of its form becomes the default.
fn values(settings: &[Value]) -> Vec<(&'static str, String)> {
    let Some(first) = settings.first() else { return Vec::new() };
    let of_broker = |row: &&Value| row["cluster"] == first["cluster"] && row["broker"] == first["broker"];
    let value = |row: &Value| match &row["value"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let found = settings.iter().filter(of_broker).filter_map(|row| {
        let (_, argument) = SETTINGS.iter().find(|(key, _)| row["key"] == *key)?;
        Some((*argument, value(row)?))
    });
    found.collect()
}

/// The page of consumer groups, searched and in pages.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let mut part = GROUPS.part(app, who, fields, (&[""], |_| true)).await?;
    let mut failures = silent(app);
    // Brokers of Vostok tell the lag with the names. Of others that of all groups is asked for at once.
    let has_lags = part.rows.iter().all(|row| row["lag"].is_number());
    let (lags, refused) = if has_lags { Default::default() } else { lags(app, who).await? };
    failures.extend(refused);
    for row in &mut part.rows {
        let known = lags.get(row["group"].as_str().unwrap_or_default()).copied();
        row["diff"] = row["lag"].as_i64().or(known.map(|(diff, _)| diff)).into();
        if let Some((_, lag)) = known {
            row["lag_seconds"] = lag.lag_seconds.into();
            row["lag_is_bound"] = lag.lag_is_bound.into();
        }
    }
    let body = html! {
        (taken(lang))
        div.actions { (operation_link(who, lang.say("Create a group"), ("group", "create"), &[])) }
        form.row method="get" action="/groups" role="search" {
            (field(lang.say("Search"), "q", fields.text("q")))
            button { (lang.say("Search")) }
        }
        (shown_failures(&failures))
        (columns_table(lang, &part.rows, &columns_with_values(&part.rows, &["group", "diff", "lag_seconds", "members", "topics", "brokers"])))
        (part.links(lang, GROUPS.path, fields))
    };
    let data = json!({"found": part.found(), "groups": part.rows, "failures": failures});
    Ok(Page::new(lang.say("Groups"), data, body))
}

/// One group: lag in messages and seconds with the owner of each queue, members, subscriptions, settings.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("group", name)];
    let progress = [("group", name), ("client-ip", "true")];
    let progress = app.look(who, ("group", "progress"), &progress, 1000).await;
    let members = app.look(who, ("client", "consumers"), &given, 1000).await;
    let members = members.map(|members| of_group(members, name));
    let settings = app.look(who, ("group", "config"), &given, 5000).await;
    if let (Err(refusal), Err(_)) = (&progress, &members)
        && settings.as_ref().is_ok_and(|settings| rows(settings).is_empty())
    {
        return Err(Refusal::missing(&*refusal.text));
    }
    // The data says null of a queue without an owner, whatever the language.
    let data = json!({"progress": progress.as_ref().ok(), "members": members.as_ref().ok(), "settings": settings.as_ref().ok()});
    let progress = progress.map(|mut progress| {
        for row in progress["queues"].as_array_mut().into_iter().flatten() {
            name_owner(lang, row);
        }
        progress
    });
    let topic = progress.as_ref().ok().and_then(|progress| {
        let topics = rows(&progress["queues"]).iter().filter_map(|row| row["topic"].as_str());
        topics.filter(|topic| !topic.starts_with('%')).map(str::to_owned).next()
    });
    let topic = topic.unwrap_or_default();
    let offsets = [("group", name), ("topic", topic.as_str()), ("time", "now")];
    let known = settings.as_ref().map_or(&[][..], |settings| rows(settings));
    let cluster = known.first().and_then(|row| row["cluster"].as_str()).unwrap_or_default();
    let group = [("group", name), ("cluster", cluster)];
    let parts = [
        (lang.say("Progress"), &progress),
        (lang.say("Members"), &members),
        (lang.say("Settings"), &settings),
    ];
    let body = html! {
        (taken(lang))
        div.actions {
            (operation_link(who, lang.say("Reset offsets"), ("offset", "reset"), &offsets))
            (operation_link(who, lang.say("Skip messages"), ("offset", "skip"), &offsets[..2]))
            (operation_link(who, lang.say("Clone offsets"), ("offset", "clone"), &[("source", name), ("topic", &topic)]))
            a.button href=(format!("/dlq{}", crate::request::query(given))) { (lang.say("Dead letters")) }
            (change_link(who, &group, known))
            (operation_link(who, lang.say("Delete the group"), ("group", "delete"), &group))
        }
        (charts(app, lang, (Kind::Group, name)))
        @for (title, part) in parts {
            h2 { (title) }
            @match part {
                Ok(value) => (answer(lang, value)),
                Err(refusal) => p { (refusal.text) },
            }
        }
    };
    Ok(Page::new(format!("{}: {name}", lang.say("Group")), data, body).live(5000))
}

/// Says in words that nobody owns a queue, or that a member that did not answer may own it.
fn name_owner(lang: Lang, row: &mut Value) {
    let Some(members) = row.as_object_mut() else { return };
    let is_unknown = members.remove("owner_unknown").is_some();
    let owner = members.entry("client_id").or_insert(Value::Null);
    if owner.is_null() {
        *owner = lang.say(if is_unknown { "unknown" } else { "nobody" }).into();
    }
}

/// A link to the form that replaces the settings of a group; none while the settings are not known, because an empty form would
/// replace them by the defaults. All masters of the cluster are changed: members do not notice which of them has other settings.
fn change_link(who: &Visitor, group: &[(&str, &str)], known: &[Value]) -> Markup {
    let values = values(known);
    let values = values.iter().map(|(name, value)| (*name, value.as_str()));
    let changed: Vec<(&str, &str)> = group.iter().copied().chain(values).collect();
    html! {
        @if changed.len() > group.len() { (operation_link(who, who.lang.say("Change the group"), ("group", "create"), &changed)) }
    }
}

/// The members with their group, by which their pages are found.
fn of_group(mut consumers: Value, group: &str) -> Value {
    for member in consumers["members"].as_array_mut().into_iter().flatten() {
        member["group"] = group.into();
    }
    consumers
}

/// The members of a group, or why there are none: brokers refuse the question for a group of which nobody is online.
fn consumers(lang: Lang, members: &Result<Value, Refusal>) -> Markup {
    html! {
        h2 { (lang.say("Consumers")) }
        @match members {
            Ok(members) => (answer(lang, members)),
            Err(refusal) => p { (refusal.text) },
        }
    }
}

/// Connected producers of all masters, and the members of a group that is named.
pub(super) async fn clients(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, mut producers, mut failures) = (who.lang, Vec::new(), silent(app));
    for broker in masters(app, who).await? {
        match app.look(who, ("client", "list-producers"), &[("broker", &broker)], 1000).await {
            Ok(Value::Array(rows)) => producers.extend(rows),
            Ok(_) => {}
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    // A producer is connected to each broker.
    producers.sort_by_key(|row| (row["group"].to_string(), row["client_id"].to_string()));
    producers.dedup_by(|one, other| one["client_id"] == other["client_id"] && one["group"] == other["group"]);
    for row in &mut producers {
        // The name of a producer group leads to no page.
        let group = row["group"].take();
        row["producer_group"] = group;
    }
    let members = match fields.get("group") {
        Some(group) => {
            let members = app.look(who, ("client", "consumers"), &[("group", group)], 1000).await;
            Some(members.map(|members| of_group(members, group)))
        }
        None => None,
    };
    let part = part(&producers, "producer_group", fields, |_| true);
    let columns = ["producer_group", "client_id", "address", "language", "version", "last_heartbeat"];
    let body = html! {
        (taken(lang))
        form.row method="get" action="/clients" {
            (field(lang.say("Group"), "group", fields.text("group")))
            (field(lang.say("Producer group"), "q", fields.text("q")))
            button { (lang.say("Look")) }
        }
        @if let Some(members) = &members { (consumers(lang, members)) }
        h2 { (lang.say("Producers")) }
        (shown_failures(&failures))
        (columns_table(lang, &part.rows, &columns))
        (part.links(lang, "/clients", fields))
    };
    let members = members.and_then(Result::ok);
    let data =
        json!({"found": part.found(), "producers": part.rows, "consumers": members, "failures": failures});
    Ok(Page::new(lang.say("Clients"), data, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    #[test]
    fn a_group_without_members_is_said_to_have_none() {
        let text =
            consumers(Lang::En, &Err(Refusal::missing("nobody of the group <g> is online"))).into_string();
        assert_eq!(text, "<h2>Consumers</h2><p>nobody of the group &lt;g&gt; is online</p>");
        let members = json!({"members": [{"client_id": "c", "group": "g"}]});
        assert!(consumers(Lang::En, &Ok(members)).into_string().contains("/client?group=g&amp;id=c"));
    }

    #[test]
    fn a_queue_has_an_unknown_owner_when_a_member_is_silent() {
        let named = |mut row: Value| {
            name_owner(Lang::En, &mut row);
            row
        };
        assert_eq!(named(json!({"queue": 1, "client_id": null})), json!({"queue": 1, "client_id": "nobody"}));
        let silent = json!({"client_id": null, "owner_unknown": true});
        assert_eq!(named(silent), json!({"client_id": "unknown"}));
        assert_eq!(named(json!({"client_id": "c"})), json!({"client_id": "c"}));
    }

    #[test]
    fn the_form_that_changes_a_group_has_its_settings() {
        let row = |broker: &str, key: &str, value: Value| json!({"cluster": "C", "broker": broker, "key": key, "value": value});
        let policy = json!({"type": "CUSTOMIZED"});
        let settings = [
            row("a", "consumeBroadcastEnable", json!(true)),
            row("a", "retryMaxTimes", json!(3)),
            row("a", "groupRetryPolicy", policy.clone()),
            row("a", "groupSysFlag", json!(1)),
            row("a", "consumeTimeoutMinute", json!(30)),
            row("a", "subscriptionDataSet", Value::Null),
            row("b", "retryMaxTimes", json!(16)),
        ];
        let expected = [
            ("broadcast", "true"),
            ("retry-max", "3"),
            ("retry-policy", &*policy.to_string()),
            ("sys-flag", "1"),
            ("consume-timeout", "30"),
        ];
        assert_eq!(values(&settings), expected.map(|(name, value)| (name, value.to_owned())));
        let link = |known: &[Value]| {
            change_link(&Visitor::of_test(Role::Admin), &[("group", "G"), ("cluster", "C")], known)
                .into_string()
        };
        assert!(link(&settings).contains("/op/group/create?group=G&amp;cluster=C&amp;broadcast=true"));
        assert_eq!(link(&[]), "", "a form without the settings would replace them by the defaults");
        let create = admin::operation("group", "create").unwrap();
        for (_, argument) in SETTINGS {
            assert!(create.arguments.iter().any(|it| it.name == argument), "{argument}");
        }
    }
}
