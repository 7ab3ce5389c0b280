//! Whether the slaves of masters follow.

use super::reach::{is_bridge, is_local};
use crate::doctor::bundle::{Broker, Bundle, ip};
use crate::doctor::finding::{Check, Found, Look, checks};
use std::net::IpAddr;

/// Bytes that a slave may be behind (`haMaxGapNotInSync` is four times that).
const GAP_BYTES: i64 = 64 << 20;
const STATUS: &str = "GET_BROKER_HA_STATUS (907)";
const NEEDS: &str = "replication status of masters";

pub(super) const CHECKS: &[Check] = checks! {
    "slave-not-connected", Critical, not_connected, "A slave is registered and does not copy from its master",
        NEEDS;
    "replication-address", Warning, unreachable_address,
        "Slaves are told an address of their master (brokerIP2) that other machines do not reach",
        "settings of masters with a registered slave on another machine";
    "slave-not-in-sync", Critical, not_in_sync, "A slave is so far behind that its master does not count on it",
        "a slave that is connected";
    "slave-behind", Warning, behind, "A slave is more than 64 MiB behind",
        "a slave that is connected";
    "too-few-in-sync", Critical, too_few,
        "Fewer replicas are in sync than sends need, so that they are refused or wait",
        "replication status and settings of synchronous masters";
};

fn masters(bundle: &Bundle) -> impl Iterator<Item = &Broker> {
    bundle.brokers.iter().filter(|broker| broker.replication.as_ref().is_some_and(|status| status.is_master))
}

fn not_connected(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let connected = master.replication.as_ref()?.slaves.len();
        let same = |other: &&Broker| {
            other.name == master.name && other.cluster == master.cluster && other.id != master.id
        };
        let slaves: Vec<_> = bundle.brokers.iter().filter(same).map(Broker::title).collect();
        Found::when(slaves.len() > connected, || {
            let figure =
                format!("{connected} connected to {}, registered: {}", master.address, slaves.join(", "));
            let port = master.setting("haListenPort").unwrap_or("10912");
            let fix = format!(
                "make port {port} of the master reachable from the slave; set brokerIP2 of the master to an address that it reaches"
            );
            let subject = slaves.join(", ");
            Found::new(subject, figure, STATUS, fix)
        })
    })
}

/// Masters that tell slaves elsewhere an address of their own machine.
fn unreachable_address(bundle: &Bundle) -> Look {
    Look::each(bundle.brokers.iter().filter(|broker| broker.id == 0), |master| {
        let configured = master.setting("brokerIP2").filter(|configured| !configured.is_empty())?;
        let host: IpAddr = configured.trim_matches(['[', ']']).parse().ok()?;
        let own = ip(&master.address)?;
        let is_elsewhere = |other: &&Broker| {
            other.name == master.name
                && other.cluster == master.cluster
                && ip(&other.address).is_some_and(|ip| ip != own)
        };
        let slave = bundle.brokers.iter().find(is_elsewhere)?;
        Found::when(is_local(host) || is_bridge(host) && !is_bridge(own), || {
            let fix = "set brokerIP2 in its broker.conf to an address that its slaves reach, and restart it";
            let figure = format!("brokerIP2={configured}, and a slave is at {}", slave.address);
            Found::new(master.title(), figure, "GET_BROKER_CONFIG (26)", fix)
        })
    })
}

fn not_in_sync(bundle: &Bundle) -> Look {
    slaves(bundle, |slave| !slave.is_in_sync)
}

fn behind(bundle: &Bundle) -> Look {
    slaves(bundle, |slave| slave.is_in_sync && slave.behind_bytes > GAP_BYTES)
}

/// Slaves of which something holds.
fn slaves(bundle: &Bundle, is_found: fn(&crate::doctor::bundle::Slave) -> bool) -> Look {
    let all = masters(bundle).flat_map(|master| {
        let slaves = master.replication.iter().flat_map(|status| &status.slaves);
        slaves.map(move |slave| (master, slave))
    });
    Look::each(all, |(master, slave)| {
        Found::when(is_found(slave), || {
            let figure = format!("{} bytes behind", slave.behind_bytes);
            let fix = format!(
                "watch whether the gap shrinks: vostok admin broker replication --broker {}; if not, look at its disk and network",
                master.address
            );
            Found::new(format!("{} of {}", slave.address, master.title()), figure, STATUS, fix)
        })
    })
}

fn too_few(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        if master.setting("brokerRole")? != "SYNC_MASTER" {
            return None;
        }
        let number = |name: &str| master.setting(name).and_then(|text| text.parse::<i64>().ok());
        let needed = number("minInSyncReplicas").unwrap_or(1).max(number("inSyncReplicas").unwrap_or(1));
        let found = master.replication.as_ref()?.in_sync + 1;
        Found::when(found < needed, || {
            let figure = format!("{found} in sync with the master itself, {needed} needed");
            let fix = format!(
                "start the slaves of {}; until then: vostok admin broker replication --broker {}",
                master.name, master.address
            );
            Found::new(master.title(), figure, STATUS, fix)
        })
    })
}
