//! Consumer groups and connected clients.

use super::topics::{NAMES_MS, part};
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Page, answer, columns_table, field, operation_link, taken};
use maud::html;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Time for which the lag of all groups is not asked for again, ms.
const LAG_MS: i64 = 10_000;

/// Names of the masters.
async fn masters(app: &App, who: &Visitor) -> Result<Vec<String>, Refusal> {
    let brokers = app.look(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let masters = rows(&brokers).iter().filter(|row| row["id"] == 0 && row["error"].is_null());
    Ok(masters.filter_map(|row| row["broker"].as_str()).map(str::to_owned).collect())
}

/// The messages that are left for each group, with one request to each master; and what was refused.
async fn lags(app: &App, who: &Visitor) -> Result<(BTreeMap<String, i64>, Vec<String>), Refusal> {
    let (mut lags, mut failures) = (BTreeMap::new(), Vec::new());
    for broker in masters(app, who).await? {
        match app.look(who, ("broker", "progress"), &[("broker", &broker)], LAG_MS).await {
            Ok(progress) => {
                for row in rows(&progress["queues"]) {
                    let group = row["group"].as_str().unwrap_or_default().to_owned();
                    *lags.entry(group).or_default() += row["diff"].as_i64().unwrap_or_default();
                }
            }
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    Ok((lags, failures))
}

/// The page of consumer groups, searched and in pages.
pub(super) async fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let all = app.look(who, ("group", "names"), &[], NAMES_MS).await?;
    let (lags, failures) = lags(app, who).await?;
    let mut part = part(rows(&all), "group", fields, |_| true);
    for row in &mut part.rows {
        // A group that has consumed nothing is in no answer.
        row["diff"] = lags.get(row["group"].as_str().unwrap_or_default()).copied().into();
    }
    let body = html! {
        (taken(lang))
        div.actions { (operation_link(who, lang.say("Create a group"), ("group", "create"), &[])) }
        form.row method="get" action="/groups" role="search" {
            (field(lang.say("Search"), "q", fields.text("q")))
            button { (lang.say("Search")) }
        }
        @for failure in &failures { p.failure role="alert" { "✗ " (failure) } }
        (columns_table(lang, &part.rows, &["group", "diff", "brokers"]))
        (part.links(lang, "/groups", fields))
    };
    let data = json!({"found": part.found, "groups": part.rows, "failures": failures});
    Ok(Page::new(lang.say("Groups"), data, body))
}

/// One group: lag in messages and seconds with the owner of each queue, members, subscriptions, settings.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("group", name)];
    let progress = [("group", name), ("client-ip", "true")];
    let progress = app.look(who, ("group", "progress"), &progress, 1000).await;
    let members = app.look(who, ("client", "consumers"), &given, 1000).await;
    let settings = app.look(who, ("group", "config"), &given, 5000).await;
    if let (Err(refusal), Err(_)) = (&progress, &members)
        && settings.as_ref().is_ok_and(|settings| rows(settings).is_empty())
    {
        return Err(Refusal::missing(&*refusal.text));
    }
    let progress = progress.map(|mut progress| {
        for row in progress["queues"].as_array_mut().into_iter().flatten() {
            if row["client_id"].is_null() {
                row["client_id"] = lang.say("nobody").into();
            }
        }
        progress
    });
    let topic = progress.as_ref().ok().and_then(|progress| {
        let topics = rows(&progress["queues"]).iter().filter_map(|row| row["topic"].as_str());
        topics.filter(|topic| !topic.starts_with('%')).map(str::to_owned).next()
    });
    let topic = topic.unwrap_or_default();
    let offsets = [("group", name), ("topic", topic.as_str()), ("time", "now")];
    let master = masters(app, who).await.unwrap_or_default().into_iter().next().unwrap_or_default();
    let create = [("group", name), ("broker", master.as_str())];
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
            (operation_link(who, lang.say("Change the group"), ("group", "create"), &create))
            (operation_link(who, lang.say("Delete the group"), ("group", "delete"), &create))
        }
        @for (title, part) in parts {
            h2 { (title) }
            @match part {
                Ok(value) => (answer(lang, value)),
                Err(refusal) => p { (refusal.text) },
            }
        }
    };
    let data = json!({"progress": progress.ok(), "members": members.ok(), "settings": settings.ok()});
    Ok(Page::new(format!("{}: {name}", lang.say("Group")), data, body))
}

/// Connected producers of all masters, and the members of a group that is named.
pub(super) async fn clients(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, mut producers, mut failures) = (who.lang, Vec::new(), Vec::new());
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
        Some(group) => Some(app.look(who, ("client", "consumers"), &[("group", group)], 1000).await?),
        None => None,
    };
    let columns = ["producer_group", "client_id", "address", "language", "version", "last_heartbeat"];
    let body = html! {
        (taken(lang))
        form.row method="get" action="/clients" {
            (field(lang.say("Group"), "group", fields.text("group")))
            button { (lang.say("Look")) }
        }
        @if let Some(members) = &members { h2 { (lang.say("Consumers")) } (answer(lang, members)) }
        h2 { (lang.say("Producers")) }
        @for failure in &failures { p.failure role="alert" { "✗ " (failure) } }
        (columns_table(lang, &producers, &columns))
    };
    let data = json!({"producers": producers, "consumers": members, "failures": failures});
    Ok(Page::new(lang.say("Clients"), data, body))
}
