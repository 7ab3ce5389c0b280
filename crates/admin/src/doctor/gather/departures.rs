//! Brokers that left the name servers, and proxies, which only a later look can miss.

use super::masters;
use crate::Session;
use crate::doctor::bundle::{Bundle, Departed, Proxy};
use crate::request::{Request, body};
use std::collections::{BTreeMap, BTreeSet};
use wire::body::ConsumerConnection;
use wire::codes::request;

/// Group in which proxies in cluster mode tell each other of their clients (`HeartbeatSyncer`).
const PROXIES: &str = "CID_DefaultHeartBeatSyncerTopic";

/// Brokers that left name servers, and are registered at no name server; `None` if no name server tells.
pub(super) fn brokers(bundle: &Bundle) -> Option<Vec<Departed>> {
    let mut told = bundle.name_servers.iter().filter_map(|server| server.departed.as_ref()).peekable();
    told.peek()?;
    let is_there = |address: &str| bundle.brokers.iter().any(|broker| broker.address == address);
    let mut found: BTreeMap<String, Departed> = BTreeMap::new();
    for broker in told.flatten().filter(|broker| !is_there(&broker.broker_addr)) {
        let departed = found.entry(broker.broker_addr.clone()).or_default();
        // A broker that was stopped may not have reached each name server.
        *departed = Departed {
            cluster: broker.cluster.clone(),
            name: broker.broker_name.clone(),
            id: broker.broker_id,
            address: broker.broker_addr.clone(),
            is_proxy: false,
            is_unregistered: departed.is_unregistered || broker.is_unregistered,
            seen_ms: departed.seen_ms.max(bundle.taken_at_ms - broker.silent_ms),
        };
    }
    Some(found.into_values().collect())
}

/// The proxies in cluster mode that masters know.
pub(super) async fn proxies(session: &Session, bundle: &Bundle) -> Vec<Proxy> {
    let mut found = BTreeSet::new();
    for master in masters(bundle) {
        let ask = Request::new(request::GET_CONSUMER_CONNECTION_LIST).with("consumerGroup", PROXIES);
        // Brokers without a proxy refuse, because the group has no member.
        let Ok(reply) = session.look(&master.address, &ask).await else { continue };
        let members: ConsumerConnection = body(&master.address, &reply).unwrap_or_default();
        found.extend(members.connection_set.into_iter().map(|member| Proxy {
            host: member.client_addr.rsplit_once(':').map_or("", |(host, _)| host).to_owned(),
            client_id: member.client_id,
        }));
    }
    found.into_iter().collect()
}
