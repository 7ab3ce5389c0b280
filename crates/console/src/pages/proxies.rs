//! Proxies that brokers know. No server has a list of proxies, so they are recognised by their requests to brokers.

use super::runtime::{masters, shown_failures, silent};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{Column, Page, Table, broker_link, empty, taken, version};
use admin::{Consumers, Member, ProducerRow};
use maud::html;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Consumer group and producer group with which proxies in cluster mode exchange their clients (`HeartbeatSyncer`).
const SYNCER: &str = "CID_DefaultHeartBeatSyncerTopic";
const TELLER: &str = "PID_DefaultHeartBeatSyncerTopic";
/// Name under which brokers know the producers of transactions of all proxies (`ClusterTransactionService`).
const PRODUCER: &str = "rmq-proxy-producer-client";

/// The proxies in cluster mode that brokers know.
pub(super) async fn proxies(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let (lang, mut failures) = (who.lang, silent(app));
    // Refused if no member of the group is online, or no proxy ever made its topic.
    let consumers = app.typed::<Consumers>(who, ("client", "consumers"), &[("group", SYNCER)], 1000).await;
    let mut members: Vec<Member> =
        consumers.map_or_else(|_| Vec::new(), |consumers| consumers.members.clone());
    // Groups by address and broker.
    let mut found: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for broker in masters(app, who).await? {
        let given = [("broker", broker.as_str())];
        match app.typed::<Vec<ProducerRow>>(who, ("client", "list-producers"), &given, 1000).await {
            Ok(producers) => {
                for row in producers.iter().filter(|row| row.client_id == PRODUCER) {
                    found.entry((row.address.clone(), broker.clone())).or_default().insert(row.group.clone());
                }
                for row in producers.iter().filter(|row| row.group == TELLER) {
                    if !members.iter().any(|member| member.client_id == row.client_id) {
                        members.push(row.into());
                    }
                }
            }
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    let columns = ["Client", "Address", "Language", "Version"].map(|title| Column::text(lang.say(title)));
    let member = |row: &Member| {
        let texts =
            [&row.client_id, row.address.trim_start_matches('/'), &row.language, &version(&row.version)];
        texts.map(|it| html! { (it) }).to_vec()
    };
    let members_table = Table::new(columns).rows(members.iter().map(member));
    let columns = ["Address", "Broker", "Producer groups"].map(|title| Column::text(lang.say(title)));
    let producers = found.iter().map(|((address, broker), groups)| {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        vec![html! { (address) }, broker_link(broker, 0, ""), html! { (groups.join(", ")) }]
    });
    let advice = lang.say("Start a proxy in cluster mode, or use the gRPC port of a broker's own process");
    let body = html! {
        (taken(who))
        p.small { (lang.say("No server lists proxies. Known are those in cluster mode that a broker hears of; no request tells of the gRPC port of a broker's own process")) }
        (shown_failures(&failures))
        h2 { (lang.say("Proxies that tell each other of their clients")) }
        (members_table.or(empty(lang, advice)))
        h2 { (lang.say("Connections of proxies with producers of transactions")) }
        (Table::new(columns).rows(producers).or(empty(lang, lang.say("No producer of transactions is connected by way of a proxy"))))
    };
    let producers: Vec<Value> = found
        .iter()
        .map(|((address, broker), groups)| json!({"address": address, "broker": broker, "producer_groups": groups}))
        .collect();
    let data = json!({"members": members, "producers": producers, "failures": failures});
    Ok(Page::new(lang.say("Proxies"), data, body))
}
