//! Memory between two looks: brokers and proxies that were there and are gone, and groups that do not move.

use super::bundle::{Bundle, Departed};
use super::gather::masters;
use super::standstill::Standstill;
use std::collections::BTreeMap;

/// Time for which servers are remembered.
const REMEMBERED_MS: i64 = 24 * 3_600_000;
/// Time within which members of a group send heartbeats to a master that started: two intervals of 30 s
/// (`ClientConfig.heartbeatBrokerInterval`).
const HEARTBEATS_MS: i64 = 60_000;
/// Servers that are remembered; new servers are not noted beyond that.
const SERVERS_MAX: usize = 10_000;

/// Servers that earlier looks found.
#[derive(Debug, Default)]
pub struct Memory {
    /// Servers by whether it is a proxy, name and address; each with the time of the look since which the server has
    /// been there.
    servers: BTreeMap<(bool, String, String), (i64, Departed)>,
    /// Time of the last look.
    looked_ms: i64,
    /// Groups with lag at earlier looks.
    pub(super) groups: Standstill,
}

impl Memory {
    /// Notes the servers of a bundle, and adds lost servers to it. If a name server reports departures itself, lost
    /// brokers are left to it, because it knows whether a broker was stopped.
    pub(super) fn note(&mut self, bundle: &mut Bundle) {
        let now_ms = bundle.taken_at_ms;
        let brokers = bundle.brokers.iter().map(|it| Departed {
            cluster: it.cluster.clone(),
            name: it.name.clone(),
            id: it.id,
            address: it.address.clone(),
            ..Departed::default()
        });
        let proxies = bundle.proxies.iter().map(|it| Departed {
            name: it.client_id.clone(),
            address: it.host.clone(),
            is_proxy: true,
            ..Departed::default()
        });
        for server in brokers.chain(proxies) {
            let key = (server.is_proxy, server.name.clone(), server.address.clone());
            if self.servers.len() < SERVERS_MAX || self.servers.contains_key(&key) {
                let (since_ms, noted) = self.servers.entry(key).or_insert((now_ms, Departed::default()));
                if noted.seen_ms < self.looked_ms {
                    *since_ms = now_ms;
                }
                *noted = Departed { seen_ms: now_ms, ..server };
            }
        }
        self.looked_ms = now_ms;
        self.servers.retain(|_, (_, server)| now_ms - server.seen_ms <= REMEMBERED_MS);
        let is_told = bundle.name_servers.iter().any(|server| server.departed.is_some());
        // Without the answer of a name server nothing is known of brokers.
        let is_blind = bundle.name_servers.iter().all(|server| server.error.is_some());
        let knows_proxies = knows_proxies(bundle);
        let gone = self.servers.values().map(|(_, server)| server).filter(|server| {
            let is_judged = if server.is_proxy { knows_proxies } else { !is_told };
            server.seen_ms < now_ms && !is_blind && is_judged && !self.is_replaced(server)
        });
        let gone: Vec<Departed> = gone.cloned().collect();
        bundle.departed.get_or_insert_default().extend(gone);
    }

    /// Whether a server came after this server in its place: a broker under its name and id, or a proxy on its machine.
    fn is_replaced(&self, gone: &Departed) -> bool {
        self.servers.values().any(|(since_ms, server)| {
            let is_same_place = match gone.is_proxy {
                true => server.is_proxy && server.address == gone.address,
                false => !server.is_proxy && (&server.name, server.id) == (&gone.name, gone.id),
            };
            is_same_place && *since_ms > gone.seen_ms
        })
    }
}

/// Whether a master answers to which all proxies that run have sent their heartbeats. A master forgets members when it starts.
fn knows_proxies(bundle: &Bundle) -> bool {
    masters(bundle).any(|master| {
        let started_ms = master.text("bootTimestamp").and_then(|text| text.parse::<i64>().ok());
        started_ms.is_none_or(|started_ms| bundle.taken_at_ms.saturating_sub(started_ms) > HEARTBEATS_MS)
    })
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::healthy;
    use super::*;
    use crate::doctor::bundle::Proxy;

    /// Addresses of servers that are gone after a look, `seconds` after the first.
    fn look(memory: &mut Memory, seconds: i64, change: impl FnOnce(&mut Bundle)) -> Vec<String> {
        let mut bundle = healthy();
        bundle.taken_at_ms += seconds * 1000;
        bundle.departed = None;
        let proxy = |id: &str| Proxy { client_id: format!("10.0.0.1@{id}"), host: "10.0.0.1".into() };
        bundle.proxies = vec![proxy("1"), proxy("2")];
        change(&mut bundle);
        memory.note(&mut bundle);
        bundle
            .departed
            .unwrap()
            .into_iter()
            .map(|it| if it.is_proxy { it.name } else { it.address })
            .collect()
    }

    #[test]
    fn servers_that_an_earlier_look_found_are_gone() {
        let mut memory = Memory::default();
        assert!(look(&mut memory, 0, |_| ()).is_empty());
        let lose = |it: &mut Bundle| drop(it.brokers.remove(1));
        assert_eq!(look(&mut memory, 5, lose), ["10.0.0.2:10911"]);
        assert_eq!(look(&mut memory, 10, |it| drop(it.proxies.remove(0))), ["10.0.0.1@1"]);
        let restart = |it: &mut Bundle| it.proxies[0].client_id = "10.0.0.1@3".into();
        assert!(look(&mut memory, 15, restart).is_empty(), "a proxy that was started again has another id");
        let started = |it: &mut Bundle| {
            it.proxies.clear();
            for broker in &mut it.brokers {
                let now_ms = it.taken_at_ms.to_string();
                broker.runtime.as_mut().unwrap().insert("bootTimestamp".into(), now_ms);
            }
        };
        assert!(look(&mut memory, 16, started).is_empty(), "proxies send their heartbeats later");
        let silent = |it: &mut Bundle| {
            it.proxies.clear();
            it.brokers.iter_mut().for_each(|broker| broker.error = Some("refused".into()));
        };
        assert!(look(&mut memory, 17, silent).is_empty(), "no master tells of proxies");
        let alone = |it: &mut Bundle| {
            restart(it);
            lose(it);
        };
        assert_eq!(look(&mut memory, 20, alone), ["10.0.0.2:10911"]);
        let moved = |it: &mut Bundle| {
            restart(it);
            it.brokers[1].address = "10.0.0.9:10911".into();
        };
        assert!(look(&mut memory, 25, moved).is_empty());
        assert!(look(&mut memory, 26, restart).is_empty(), "back at the address of before");
        assert!(look(&mut memory, 27, moved).is_empty());
        let told = |it: &mut Bundle| {
            alone(it);
            it.name_servers[0].departed = Some(Vec::new());
        };
        assert!(look(&mut memory, 30, told).is_empty(), "name servers tell");
        let blind = |it: &mut Bundle| {
            restart(it);
            it.brokers.clear();
            it.name_servers.iter_mut().for_each(|it| it.error = Some("refused".into()));
        };
        assert!(look(&mut memory, 35, blind).is_empty());
        assert_eq!(look(&mut memory, 40, alone), ["10.0.0.9:10911"]);
        assert!(look(&mut memory, 60 + 24 * 3600, alone).is_empty(), "a day later");
    }
}
