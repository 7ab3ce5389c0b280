//! Decides which connections to the port for slaves belong to slaves, so that their acknowledgements count.
//!
//! The port has no users. A slave may replicate through another network than that of its requests: a second network
//! card (`brokerIP2`), address translation, IPv6 beside IPv4. So a slave that takes tables vouches for the
//! connections of its own address. Without such a connection, the slave vouches for a single connection of an unknown
//! address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Time for which an address with a connection of its own vouches for no other address. Longer than the time for
/// which requests for tables count, so that a stranger's connection gains nothing when a slave is gone.
const OWN_CONNECTION: Duration = Duration::from_secs(80);

/// Connection to the port for slaves.
#[derive(Clone, Copy)]
pub(super) struct Candidate<K> {
    /// Id of the connection. An older connection has a smaller id.
    pub id: K,
    pub address: IpAddr,
    /// Whether the peer has sent a slave's report.
    pub is_slave: bool,
}

/// The addresses that had connections of their own, and when.
#[derive(Default)]
pub(super) struct Evidence {
    own: BTreeMap<IpAddr, Duration>,
}

impl Evidence {
    /// Returns the connections that count at `now`. `slaves` is the number of slaves of each address that take
    /// tables. `None` if slaves cannot know the broker for tables, because there are neither name servers nor
    /// controllers.
    pub(super) fn counted<K: Copy + Ord>(
        &mut self,
        now: Duration,
        slaves: Option<&BTreeMap<IpAddr, usize>>,
        connections: &[Candidate<K>],
    ) -> BTreeSet<K> {
        let Some(slaves) = slaves else { return connections.iter().map(|it| it.id).collect() };
        self.own.retain(|_, at| now.saturating_sub(*at) <= OWN_CONNECTION);
        let (own, unknown): (Vec<Candidate<K>>, Vec<_>) = connections.iter().copied().partition(|it| {
            let address = it.address.to_canonical();
            slaves.contains_key(&address) || self.own.contains_key(&address)
        });
        self.own.extend(own.iter().map(|it| (it.address.to_canonical(), now)));
        let without = slaves.iter().filter(|(address, _)| !self.own.contains_key(address));
        let vouched = without.map(|(_, slaves)| *slaves).sum();
        let unknown: BTreeSet<K> = unknown.iter().filter(|it| it.is_slave).map(|it| it.id).collect();
        own.into_iter().map(|it| it.id).chain(unknown.into_iter().take(vouched)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLAVE: [u8; 4] = [10, 0, 0, 1];
    const OTHER: [u8; 4] = [10, 0, 0, 2];
    const STRANGER: [u8; 4] = [10, 0, 9, 9];

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Reported connections, the oldest first, numbered from zero.
    fn of(addresses: &[[u8; 4]]) -> Vec<Candidate<usize>> {
        let connections = addresses.iter().enumerate();
        connections
            .map(|(id, address)| Candidate { id, address: (*address).into(), is_slave: true })
            .collect()
    }

    /// Returns the indexes of the connections that count on a newly started master.
    fn counted(slaves: &[([u8; 4], usize)], connections: &[[u8; 4]]) -> Vec<usize> {
        let slaves = slaves.iter().map(|(address, slaves)| ((*address).into(), *slaves)).collect();
        Evidence::default().counted(at(100), Some(&slaves), &of(connections)).into_iter().collect()
    }

    #[test]
    fn the_connections_of_the_address_of_a_slave_count_and_a_stranger_beside_them_does_not() {
        assert_eq!(counted(&[(SLAVE, 1)], &[SLAVE]), [0]);
        assert_eq!(counted(&[(SLAVE, 1)], &[STRANGER, SLAVE]), [1]);
        assert_eq!(counted(&[(SLAVE, 1), (OTHER, 1)], &[STRANGER, SLAVE, OTHER]), [1, 2]);
    }

    #[test]
    fn a_slave_on_a_second_network_card_has_one_connection_that_counts() {
        assert_eq!(counted(&[(SLAVE, 1)], &[OTHER]), [0]);
        assert_eq!(counted(&[(SLAVE, 1)], &[OTHER, STRANGER]), [0], "the longest connected one");
        assert_eq!(counted(&[(SLAVE, 1), (OTHER, 1)], &[SLAVE, STRANGER]), [0, 1]);
    }

    #[test]
    fn without_a_slave_no_stranger_counts() {
        assert_eq!(counted(&[], &[STRANGER, OTHER]), [0; 0]);
    }

    #[test]
    fn slaves_behind_one_address_have_a_connection_each() {
        assert_eq!(counted(&[(SLAVE, 2)], &[SLAVE, SLAVE]), [0, 1]);
        assert_eq!(counted(&[(SLAVE, 2)], &[OTHER, OTHER, STRANGER]), [0, 1]);
    }

    #[test]
    fn an_address_is_the_same_in_both_families() {
        let slaves = [(IpAddr::from(SLAVE), 1)].into();
        let mapped = std::net::Ipv4Addr::from(SLAVE).to_ipv6_mapped().into();
        let connections = [of(&[STRANGER])[0], Candidate { id: 1, address: mapped, is_slave: true }];
        assert_eq!(Evidence::default().counted(at(0), Some(&slaves), &connections), [1].into());
    }

    #[test]
    fn a_master_without_name_servers_counts_every_connection() {
        assert_eq!(Evidence::default().counted(at(0), None, &of(&[STRANGER, OTHER])), [0, 1].into());
    }

    #[test]
    fn a_connection_that_has_not_spoken_takes_no_place_of_a_slave() {
        let slaves = [(IpAddr::from(SLAVE), 1)].into();
        let mut connections = of(&[STRANGER, OTHER]);
        connections[0].is_slave = false;
        assert_eq!(Evidence::default().counted(at(0), Some(&slaves), &connections), [1].into());
    }

    #[test]
    fn a_stranger_does_not_inherit_the_place_of_a_slave_that_is_gone() {
        let slaves = [(IpAddr::from(SLAVE), 1)].into();
        let mut evidence = Evidence::default();
        assert_eq!(evidence.counted(at(0), Some(&slaves), &of(&[STRANGER, SLAVE])), [1].into());
        assert_eq!(evidence.counted(at(39), Some(&slaves), &of(&[STRANGER])), [].into());
        let nobody = BTreeMap::new();
        assert_eq!(evidence.counted(at(41), Some(&nobody), &of(&[STRANGER])), [].into());
        assert_eq!(evidence.counted(at(60), Some(&nobody), &of(&[STRANGER, SLAVE])), [1].into(), "again");
        assert_eq!(evidence.counted(at(200), Some(&slaves), &of(&[OTHER])), [0].into(), "moved for good");
    }
}
