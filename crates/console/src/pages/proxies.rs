//! Proxies, as far as brokers know them. No server has a list of proxies: they are known by what they ask brokers for.

use super::runtime::{masters, shown_failures, silent};
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{Page, cell_text, columns_table, taken};
use maud::html;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Group in which proxies of RocketMQ in cluster mode tell each other of their clients (`HeartbeatSyncer`).
const SYNCER: &str = "CID_DefaultHeartBeatSyncerTopic";
/// Name under which brokers know the producers of transactions of all proxies (`ClusterTransactionService`).
const PRODUCER: &str = "rmq-proxy-producer-client";

/// The proxies in cluster mode that brokers know.
pub(super) async fn proxies(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let (lang, mut failures) = (who.lang, silent(app));
    // Refused where nobody of the group is online, or no proxy ever made its topic.
    let members = app.look(who, ("client", "consumers"), &[("group", SYNCER)], 1000).await;
    let members = members.map(|answer| rows(&answer["members"]).to_vec()).unwrap_or_default();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for broker in masters(app, who).await? {
        match app.look(who, ("client", "list-producers"), &[("broker", &broker)], 1000).await {
            Ok(producers) => {
                for row in rows(&producers).iter().filter(|row| row["client_id"] == PRODUCER) {
                    let topics = found.entry(format!("{} {broker}", cell_text(&row["address"]))).or_default();
                    topics.insert(cell_text(&row["group"]));
                }
            }
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    let producers: Vec<Value> = found
        .into_iter()
        .filter_map(|(place, groups)| {
            let (address, broker) = place.split_once(' ')?;
            Some(json!({"address": address, "broker": broker, "producer_groups": groups}))
        })
        .collect();
    let body = html! {
        (taken(lang))
        p { (lang.say("No server lists proxies. Known are those in cluster mode that a broker hears of; no request tells of the gRPC port of a broker's own process")) }
        (shown_failures(&failures))
        h2 { (lang.say("Proxies of RocketMQ that tell each other of their clients")) }
        (columns_table(lang, &members, &["client_id", "address", "language", "version"]))
        h2 { (lang.say("Connections of proxies with producers of transactions")) }
        (columns_table(lang, &producers, &["address", "broker", "producer_groups"]))
    };
    let data = json!({"members": members, "producers": producers, "failures": failures});
    Ok(Page::new(lang.say("Proxies"), data, body))
}
