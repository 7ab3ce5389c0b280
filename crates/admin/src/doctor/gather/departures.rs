//! Brokers that left the name servers, and proxies, which only a later look can miss.

use super::masters;
use crate::Session;
use crate::doctor::bundle::{Bundle, Departed, Proxy};
use crate::request::{Request, body};
use std::collections::{BTreeMap, BTreeSet};
use wire::body::{DepartedBroker, ProducerConnection};
use wire::codes::request;

/// Requests for the members of the groups with which proxies in cluster mode exchange their clients
/// (`HeartbeatSyncer`). Proxies of Vostok are members of the second group alone.
const PROXIES: [(i32, &str, &str); 2] = [
    (request::GET_CONSUMER_CONNECTION_LIST, "consumerGroup", "CID_DefaultHeartBeatSyncerTopic"),
    (request::GET_PRODUCER_CONNECTION_LIST, "producerGroup", "PID_DefaultHeartBeatSyncerTopic"),
];

/// Brokers that left name servers and are registered at no name server; `None` if no name server reports departures.
pub(super) fn brokers(bundle: &Bundle) -> Option<Vec<Departed>> {
    let mut told = bundle.name_servers.iter().filter_map(|server| server.departed.as_ref()).peekable();
    told.peek()?;
    // A name server that is no longer in namesrvAddr of a broker does not hear of its new address.
    let is_there = |it: &DepartedBroker| {
        bundle.brokers.iter().any(|broker| {
            let is_successor = broker.cluster == it.cluster
                && (broker.name.as_str(), broker.id) == (&it.broker_name, it.broker_id);
            broker.address == it.broker_addr || is_successor
        })
    };
    let mut found: BTreeMap<String, Departed> = BTreeMap::new();
    for broker in told.flatten().filter(|broker| !is_there(broker)) {
        let departed = found.entry(broker.broker_addr.clone()).or_default();
        // A broker that was stopped may not have reached each name server.
        *departed = Departed {
            cluster: broker.cluster.clone(),
            name: broker.broker_name.clone(),
            id: broker.broker_id,
            address: broker.broker_addr.clone(),
            is_proxy: false,
            is_unregistered: departed.is_unregistered || broker.is_unregistered,
            seen_ms: departed.seen_ms.max(bundle.taken_at_ms.saturating_sub(broker.silent_ms)),
        };
    }
    Some(found.into_values().collect())
}

/// The proxies in cluster mode that masters know.
pub(super) async fn proxies(session: &Session, bundle: &Bundle) -> Vec<Proxy> {
    let mut found: BTreeSet<Proxy> = BTreeSet::new();
    for (code, field, group) in PROXIES {
        let mut of_group = BTreeSet::new();
        for master in masters(bundle) {
            let ask = Request::new(code).with(field, group);
            // Brokers without a proxy refuse, because the group has no member.
            let Ok(reply) = session.look(&master.address, &ask).await else { continue };
            let members: ProducerConnection = body(&master.address, &reply).unwrap_or_default();
            of_group.extend(members.connection_set.into_iter().map(|member| Proxy {
                host: member.client_addr.rsplit_once(':').map_or("", |(host, _)| host).to_owned(),
                client_id: member.client_id,
            }));
        }
        // A proxy of RocketMQ has another id in each group.
        of_group.retain(|proxy| !found.iter().any(|known| known.host == proxy.host));
        found.extend(of_group);
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::tests::healthy;

    #[test]
    fn a_broker_that_another_name_server_knows_at_a_new_address_is_not_gone() {
        let mut bundle = healthy();
        let departed = |id: i64, address: &str| DepartedBroker {
            broker_addr: address.to_owned(),
            broker_id: id,
            broker_name: bundle.brokers[0].name.clone(),
            cluster: bundle.brokers[0].cluster.clone(),
            silent_ms: 7000,
            ..DepartedBroker::default()
        };
        let told = vec![departed(bundle.brokers[0].id, "10.9.9.9:10911"), departed(77, "10.9.9.8:10911")];
        bundle.name_servers[0].departed = Some(told);
        let found = brokers(&bundle).expect("a name server tells");
        let [gone] = &found[..] else { panic!("{found:?}") };
        assert_eq!((gone.id, gone.seen_ms), (77, bundle.taken_at_ms - 7000));
    }
}
