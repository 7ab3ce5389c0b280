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
        "Fewer replicas are in sync than minInSyncReplicas, so that sends are refused",
        "replication status and settings of synchronous masters";
    "too-few-acks", Warning, too_few_acks,
        "Fewer slaves are in sync than inSyncReplicas, so that sends wait and are answered with SLAVE_NOT_AVAILABLE or FLUSH_SLAVE_TIMEOUT",
        "replication status and settings of synchronous masters";
    "replica-lost", Warning, replica_lost, "A member of a broker set is lost",
        "brokers with controllers";
    "controller-silent", Warning, controller_silent, "A controller does not answer",
        "brokers with controllers";
    "no-controller-leader", Critical, no_leader, "No controller leads, so that a broken master is not replaced",
        "brokers with controllers";
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

/// A number in the settings of a broker.
fn number(broker: &Broker, name: &str) -> Option<i64> {
    broker.setting(name)?.parse().ok()
}

/// Whether a setting of a broker is switched on.
fn is_on(broker: &Broker, name: &str) -> bool {
    broker.setting(name) == Some("true")
}

/// Whether sends to a master wait for slaves (`BrokerController.changeToMaster`: with controllers every master is synchronous).
fn is_synchronous(master: &Broker) -> Option<bool> {
    Some(is_on(master, "enableControllerMode") || master.setting("brokerRole")? == "SYNC_MASTER")
}

/// Members in sync with a synchronous master, the master included.
fn in_sync(master: &Broker) -> Option<i64> {
    is_synchronous(master)?.then_some(())?;
    Some(master.replication.as_ref()?.in_sync + 1)
}

fn start_slaves(master: &Broker) -> String {
    format!(
        "start the lost brokers of {}; until then: vostok admin broker replication --broker {}",
        master.name, master.address
    )
}

/// Sends are refused below `minInSyncReplicas` alone (`CommitLog.asyncPutMessage`).
fn too_few(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let (found, needed) = (in_sync(master)?, number(master, "minInSyncReplicas").unwrap_or(1));
        Found::when(found < needed, || {
            let figure = format!(
                "{found} in sync, the master included; minInSyncReplicas={needed}: sends are refused"
            );
            Found::new(master.title(), figure, STATUS, start_slaves(master))
        })
    })
}

/// Sends wait for `inSyncReplicas`, unless the in-sync set or the number of connected slaves decides (`CommitLog.calcNeedAckNums`).
fn too_few_acks(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let (found, needed) = (in_sync(master)?, number(master, "inSyncReplicas").unwrap_or(1));
        let is_adapted = is_on(master, "enableAutoInSyncReplicas")
            || is_on(master, "enableControllerMode") && is_on(master, "allAckInSyncStateSet");
        let is_refused = found < number(master, "minInSyncReplicas").unwrap_or(1);
        Found::when(found < needed && !is_adapted && !is_refused, || {
            let figure = format!("{found} in sync, the master included; inSyncReplicas={needed}");
            Found::new(master.title(), figure, STATUS, start_slaves(master))
        })
    })
}

const CONTROLLERS: &str = "CONTROLLER_GET_SYNC_STATE_DATA (1006)";

fn replica_lost(bundle: &Bundle) -> Look {
    let members =
        bundle.replica_sets.iter().flat_map(|set| set.members.iter().map(move |member| (set, member)));
    Look::each(members, |(set, member)| {
        Found::when(!member.is_alive, || {
            let master = masters(bundle).find(|broker| broker.name == set.name);
            let needed = master.and_then(|broker| number(broker, "minInSyncReplicas")).unwrap_or(1);
            let left = set.in_sync();
            let figure = format!(
                "its heartbeats do not reach the controllers; {left} of {} members in sync, minInSyncReplicas={needed}",
                set.members.len()
            );
            let fix = "start the broker again, and look at its machine and log; the set has one copy less until then";
            Found::new(
                format!("{} (id {} at the controllers, {})", set.name, member.id, member.address),
                figure,
                CONTROLLERS,
                fix,
            )
        })
    })
}

const METADATA: &str = "CONTROLLER_GET_METADATA_INFO (1005)";

fn controller_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.controllers, |controller| {
        Found::when(controller.error.is_some(), || {
            let why = controller.error.clone().unwrap_or_default();
            let fix = "start the controller again; sets fail over only while a majority of the controllers is there";
            Found::new(&controller.address, why, METADATA, fix)
        })
    })
}

fn no_leader(bundle: &Bundle) -> Look {
    let asked = Some(&bundle.controllers).filter(|controllers| !controllers.is_empty());
    Look::each(asked, |controllers| {
        Found::when(controllers.iter().all(|controller| controller.leader.is_empty()), || {
            let names: Vec<&str> = controllers.iter().map(|controller| controller.address.as_str()).collect();
            let silent = controllers.iter().filter(|controller| controller.error.is_some()).count();
            let figure = format!(
                "{silent} of {} controllers do not answer, and no controller knows a leader",
                names.len()
            );
            let fix = "start controllers until a majority runs, and check their network";
            Found::new(names.join(", "), figure, METADATA, fix)
        })
    })
}
