//! Clusters and brokers.

use super::charts::charts;
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::history::Kind;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Page, answer, columns_table, operation_link, table, taken};
use maud::html;
use serde_json::{Value, json};

/// All brokers, and the name servers.
pub(super) async fn list(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.look(who, ("cluster", "list"), &[], 1000).await?;
    // What a name server of a Java cluster refuses is shown as the reason.
    let servers = app.look(who, ("namesrv", "config"), &[], 10_000).await;
    let servers = servers.unwrap_or_else(|refusal| json!([{"error": refusal.text}]));
    let columns = [
        "cluster",
        "broker",
        "id",
        "address",
        "version",
        "in_tps",
        "out_tps",
        "in_today",
        "out_today",
        "hours",
        "disk_ratio",
        "active",
        "error",
    ];
    let body = html! {
        (taken(lang))
        (columns_table(lang, rows(&brokers), &columns))
        h2 { (lang.say("Name servers")) }
        p { (app.cluster.name_servers().join("; ")) }
        details { summary { (lang.say("Settings")) } (table(lang, rows(&servers))) }
    };
    Ok(Page::new(lang.say("Brokers"), json!({"brokers": brokers, "name_servers": servers}), body))
}

/// One broker, by the name of its set or its address: runtime, settings, replication.
pub(super) async fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, name) = (who.lang, fields.text("name"));
    let given = [("broker", name)];
    let status = app.look(who, ("broker", "status"), &given, 1000).await?;
    let settings = app.look(who, ("broker", "config"), &given, 5000).await;
    let replication = app.look(who, ("broker", "replication"), &given, 1000).await;
    let parts = [("Runtime", Ok(status)), ("Replication", replication), ("Settings", settings)];
    let data = parts.iter().map(|(name, part)| (name.to_lowercase(), part.as_ref().ok().cloned()));
    let data = Value::from_iter(data.map(|(name, part)| (name, part.unwrap_or_default())));
    let body = html! {
        (taken(lang))
        div.actions {
            (operation_link(who, who.lang.about(crate::app::find("broker", "set")?), ("broker", "set"), &given))
        }
        (charts(app, lang, (Kind::Broker, name)))
        @for (title, part) in &parts {
            h2 { (match *title {
                "Runtime" => lang.say("Runtime"),
                "Replication" => lang.say("Replication"),
                _ => lang.say("Settings"),
            }) }
            @match part {
                Ok(value) => (answer(lang, value)),
                Err(refusal) => p.failure { "✗ " (refusal.text) },
            }
        }
    };
    Ok(Page::new(format!("{}: {name}", lang.say("Broker")), data, body).live(5000))
}
