//! Finds brokers that run under the name and id of another one. A name server has one address for a name and id, that of the broker that
//! registered last. Vostok's tells whom it replaced. The table of RocketMQ's is read again each second while the doctor waits: each
//! broker registers at least once a minute (`registerNameServerPeriod`, 30 seconds by default) and then has the place again.

use super::table;
use crate::Session;
use crate::doctor::bundle::{Broker, BrokerSet, Bundle};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::body::ReplacedBroker;

/// Time between two reads of a table.
const PERIOD: Duration = Duration::from_secs(1);

/// Answers of name servers about brokers over a time.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The name servers that do not report replaced brokers.
    servers: Vec<String>,
    /// The replaced brokers, and the brokers of all tables that were read.
    seen: BTreeSet<ReplacedBroker>,
}

impl Watch {
    /// Begins with the answers of the bundle's name servers.
    pub fn new(bundle: &Bundle) -> Self {
        let answering = bundle.name_servers.iter().filter(|server| server.error.is_none());
        let silent = answering.clone().filter(|server| server.replaced.is_none());
        Self {
            servers: silent.map(|server| server.address.clone()).collect(),
            seen: answering.filter_map(|server| server.replaced.clone()).flatten().collect(),
        }
    }

    /// Whether there is a name server whose table must be read again.
    pub fn is_needed(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Waits for `seconds`, and reads the tables again meanwhile. A name server that fails is not asked again.
    pub async fn pass(&mut self, session: &Session, seconds: u16) {
        for _ in 0..seconds {
            tokio::time::sleep(PERIOD).await;
            for server in std::mem::take(&mut self.servers) {
                if let Ok((sets, ..)) = table(session, &server).await {
                    self.note(&sets);
                    self.servers.push(server);
                }
            }
        }
    }

    fn note(&mut self, sets: &[BrokerSet]) {
        let brokers = sets.iter().flat_map(|set| {
            set.addresses.iter().map(|(id, address)| ReplacedBroker {
                broker_addr: address.clone(),
                broker_id: *id,
                broker_name: set.name.clone(),
                cluster: set.cluster.clone(),
            })
        });
        self.seen.extend(brokers);
    }

    /// The brokers that were seen and are not in the bundle.
    fn unknown(self, bundle: &Bundle) -> Vec<Broker> {
        let is_known = |it: &ReplacedBroker| {
            let mut brokers = bundle.brokers.iter();
            brokers.any(|broker| broker.name == it.broker_name && broker.address == it.broker_addr)
        };
        let unknown = self.seen.into_iter().filter(|it| !is_known(it));
        let unknown = unknown.map(|it| Broker {
            cluster: it.cluster,
            name: it.broker_name,
            id: it.broker_id,
            address: it.broker_addr,
            ..Broker::default()
        });
        unknown.collect()
    }

    /// Asks the brokers that were seen and are not in the bundle. Adds a broker if it answers under the name and id
    /// under which it was seen; others have stopped or moved. `clock` tells the time in ms since the epoch.
    pub async fn finish(self, session: &Session, bundle: &mut Bundle, clock: fn() -> i64) {
        for broker in self.unknown(bundle) {
            let broker = super::broker(session, broker, clock).await;
            if broker.is_named_so() {
                bundle.brokers.push(broker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::tests::healthy;

    #[test]
    fn a_broker_whose_place_in_a_table_another_one_takes_is_looked_for() {
        let mut bundle = healthy();
        let addresses = |watch: Watch, bundle: &Bundle| {
            let unknown = watch.unknown(bundle).into_iter();
            unknown.map(|broker| (broker.name, broker.id, broker.address)).collect::<Vec<_>>()
        };
        // The name servers are RocketMQ's: one of the tables changes, and changes back.
        let mut watch = Watch::new(&bundle);
        assert!(watch.is_needed());
        let table = bundle.name_servers[0].sets.clone();
        let mut changed = table.clone();
        changed[0].addresses.insert(1, "10.0.0.8:10911".to_owned());
        [&table, &changed, &table].into_iter().for_each(|table| watch.note(table));
        let expected = [("broker-a".to_owned(), 1, "10.0.0.8:10911".to_owned())];
        assert_eq!(addresses(watch, &bundle), expected);
        // Name servers that tell whom a broker replaced are not asked again.
        for server in &mut bundle.name_servers {
            server.replaced = Some(Vec::new());
        }
        assert_eq!(addresses(Watch::new(&bundle), &bundle), []);
        bundle.name_servers[1].replaced = Some(vec![ReplacedBroker {
            broker_addr: "10.0.0.8:10911".to_owned(),
            broker_id: 1,
            broker_name: "broker-a".to_owned(),
            cluster: "C".to_owned(),
        }]);
        let watch = Watch::new(&bundle);
        assert!(!watch.is_needed());
        assert_eq!(addresses(watch, &bundle), expected);
    }
}
