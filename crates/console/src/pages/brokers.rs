//! Clusters and brokers.

use super::charts::charts;
use super::findings::culprit;
use super::list::NAMES_MS;
use super::replication::positions;
use super::runtime::{Runtime, number as figure};
use super::settings::{Item, items, table as settings_table};
use super::storage::free_bytes;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{
    Column, Page, Table, ago, broker_link, bytes, card, decimal, duration, empty, number, operation_link,
    share, status, version,
};
use crate::words::Lang;
use admin::{BrokerRow, Figure, Level, Replicas, Settings};
use maud::{Markup, html};
use serde_json::json;

/// Changed settings that the page of a broker shows.
const CHANGED_MAX: usize = 8;
/// Checks that find brokers which name servers do not list any more.
const LOST: [&str; 3] = ["broker-lost", "replica-lost", "set-lost"];

/// All brokers, and the name servers.
pub(super) async fn list(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], 1000).await?;
    let servers = app.typed::<Settings>(who, ("namesrv", "config"), &[], 10_000).await;
    let doctor = app.live.doctor();
    let lost = doctor.iter().flat_map(|doctor| &doctor.findings).filter(|it| LOST.contains(&it.code));
    let body = html! {
        @for finding in lost { p.failure { "✗ " (finding.title.of(lang.into())) (lang.colon()) (culprit(who, finding)) } }
        (table(lang, &brokers))
        h2 { (lang.say("Name servers")) }
        p { (app.cluster.name_servers().join("; ")) }
        @match &servers {
            Ok(servers) => details { summary { (lang.say("Settings")) } (server_settings(lang, servers)) },
            // Name servers of RocketMQ may refuse.
            Err(refusal) => p.small { (refusal.text) },
        }
    };
    let servers = servers.map_or_else(|refusal| json!([{"error": refusal.text}]), |servers| json!(*servers));
    Ok(Page::new(lang.say("Brokers"), json!({"brokers": *brokers, "name_servers": servers}), body).live(5000))
}

fn table(lang: Lang, brokers: &[BrokerRow]) -> Markup {
    let columns = Column::all(
        lang,
        [
            "Broker",
            "State",
            "#In /s",
            "#Out /s",
            "#In today",
            "#Out today",
            "#Oldest message",
            "Disk",
            "Version",
        ],
    );
    let rows = brokers.iter().map(|row| {
        let (name, state) = broker_cells(lang, row);
        let known = |cell: Markup| {
            if row.error.is_none() {
                cell
            } else {
                html! { "–" }
            }
        };
        vec![
            html! { (name) p.small { (row.cluster) " · " (row.address) } },
            state,
            known(html! { (decimal(row.in_tps)) }),
            known(html! { (decimal(row.out_tps)) }),
            known(html! { (number(row.in_today)) }),
            known(html! { (number(row.out_today)) }),
            known(
                html! { @if row.hours > 0.0 { (duration((row.hours * 3_600_000.0) as i64)) } @else { "–" } },
            ),
            known(share(row.disk_ratio)),
            html! { (version(&row.version)) },
        ]
    });
    let advice = lang.say("No broker is known; check that brokers register with the name servers");
    Table::new(columns).rows(rows).or(empty(lang, advice))
}

/// The name of a broker with its role, and its state in words.
pub(super) fn broker_cells(lang: Lang, row: &BrokerRow) -> (Markup, Markup) {
    let role = match row.id {
        0 => lang.say("master").to_owned(),
        id => format!("{} {id}", lang.say("slave")),
    };
    let name = html! { (broker_link(&row.broker, row.id, &row.address)) " " span.soft { (role) } };
    let state = match &row.error {
        None => status(Level::Ok, lang.say("Runs")),
        Some(error) => html! { (status(Level::Critical, lang.say("Does not answer"))) p.small { (error) } },
    };
    (name, state)
}

fn server_settings(lang: Lang, settings: &Settings) -> Markup {
    let columns = [lang.say("Server"), lang.say("Setting"), lang.say("Value")].map(Column::text);
    let rows = settings.rows.iter();
    let rows =
        rows.map(|row| vec![html! { (row.server) }, html! { code { (row.key) } }, html! { (row.value) }]);
    Table::new(columns).rows(rows).or(html! {})
}

/// Page of a broker, by the name of its set or its address: load, replication, changed settings.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("broker", name)];
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let row = brokers.iter().find(|row| row.address == name || row.broker == name && row.id == 0);
    let figures = app.typed::<Vec<Figure>>(who, ("broker", "status"), &given, 1000).await?;
    let settings = app.typed::<Settings>(who, ("broker", "config"), &given, 5000).await;
    let replicas = app.typed::<Replicas>(who, ("broker", "replication"), &given, 1000).await;
    let mut set = Vec::new();
    for (row, of) in brokers.iter().filter_map(|other| Some((other, row?))) {
        if (&row.cluster, &row.broker) == (&of.cluster, &of.broker) && row.error.is_none() {
            let given = [("broker", row.address.as_str())];
            let told = app.typed::<Replicas>(who, ("broker", "replication"), &given, 1000).await;
            set.extend(told.map(|told| (row.clone(), told)));
        }
    }
    // A broker that the list of the cluster does not have, or has not yet.
    if let (None, Ok(replicas)) = (row, &replicas) {
        let mut unlisted = BrokerRow::default();
        name.clone_into(&mut unlisted.address);
        set.push((unlisted, replicas.clone()));
    }
    let runtime: Runtime = figures.iter().map(|it| (it.name.clone(), it.value.clone())).collect();
    let changed = settings.as_ref().map(|settings| items(lang, &settings.rows)).unwrap_or_default();
    let changed: Vec<Item> = changed.into_iter().filter(Item::is_changed).take(CHANGED_MAX).collect();
    let place = row.map_or(name, |row| row.address.as_str());
    let all_settings = format!("/settings{}", query([("name", name)]));
    let body = html! {
        div.actions {
            a.button href=(all_settings) { (lang.say("All settings")) }
            (operation_link(who, lang.say("Change a setting"), ("broker", "set"), &given))
            (operation_link(who, lang.say("Delete expired files now"), ("broker", "clean-log"), &given))
        }
        @if let Some(row) = row { (facts(lang, row, &runtime)) }
        (charts(app, lang, (Kind::Broker, name)))
        h2 { (lang.say("Replication")) }
        @match &replicas {
            Ok(_) => (positions(lang, place, &set)),
            Err(refusal) => p.failure { "✗ " (refusal.text) },
        }
        h2 { (lang.say("Changed from the default")) }
        @match &settings {
            Err(refusal) => p.failure { "✗ " (refusal.text) },
            Ok(_) if changed.is_empty() => p.small { (lang.say("All settings have their defaults")) },
            Ok(_) => (settings_table(who, place, &changed)),
        }
        p { a href=(all_settings) { (lang.say("All settings")) } }
        details { summary { (lang.say("All figures")) } (all_figures(lang, &figures)) }
    };
    let data = json!({
        "runtime": *figures,
        "replication": replicas.as_ref().ok().map(|it| &**it),
        "settings": settings.as_ref().ok().map(|it| &**it),
    });
    Ok(Page::new(format!("{}{}{name}", lang.say("Broker"), lang.colon()), data, body).live(5000))
}

/// The figures that the page of a broker is opened for.
fn facts(lang: Lang, row: &BrokerRow, runtime: &Runtime) -> Markup {
    let free = runtime.get("commitLogDirCapacity").and_then(|text| free_bytes(text));
    let size = figure(runtime, "commitLogMaxOffset") - figure(runtime, "commitLogMinOffset");
    let (name, state) = broker_cells(lang, row);
    let since = html! { (lang.say("started")) " " (ago(lang, figure(runtime, "bootTimestamp"))) };
    let oldest =
        html! { (lang.say("oldest message")) " " (ago(lang, figure(runtime, "earliestMessageTimeStamp"))) };
    html! {
        p { (name) " · " (row.cluster) " · " (row.address) " · " (version(&row.version)) }
        div.cards {
            (card(lang.say("State"), state, since))
            (card(lang.say("Messages in"), html! { (decimal(row.in_tps)) span.unit { " /s" } }, html! { (number(row.in_today)) " " (lang.say("since midnight")) }))
            (card(lang.say("Messages out"), html! { (decimal(row.out_tps)) span.unit { " /s" } }, html! { (number(row.out_today)) " " (lang.say("since midnight")) }))
            (card(lang.say("Commit log"), bytes(size.max(0)), oldest))
            (card(lang.say("Disk"), share(row.disk_ratio), html! { @if let Some(free) = free { (lang.say("Free")) " " (bytes(free as i64)) } }))
        }
    }
}

/// Every figure of a broker by the name that the broker gives it.
fn all_figures(lang: Lang, figures: &[Figure]) -> Markup {
    let columns = Column::all(lang, ["Figure", "Value"]);
    let rows = figures.iter().map(|it| {
        let value = match it.value.parse::<i64>() {
            Ok(time_ms) if it.name.to_lowercase().ends_with("timestamp") => ago(lang, time_ms),
            Ok(count) => html! { (number(count)) },
            Err(_) => html! { (it.value) },
        };
        vec![html! { code { (it.name) } }, value]
    });
    Table::new(columns).rows(rows).or(html! {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_does_not_answer_has_no_figures() {
        let row = |value| serde_json::from_value::<BrokerRow>(value).unwrap();
        let silent = row(json!({"broker": "a", "error": "no <answer>"}));
        let slave = row(json!({"id": 2, "address": "h:1", "in_today": 1_234_567}));
        let text = table(Lang::En, &[silent, slave]).into_string();
        for part in [
            "status critical\">Does not answer<",
            "no &lt;answer&gt;",
            "slave 2",
            "1,234,567",
            "status ok\">Runs<",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(table(Lang::Zh, &[]).into_string().contains("NameServer"));
    }
}
