//! Whether the slaves of masters follow.

use super::reach::{in_sync_fix, is_bridge, is_local};
use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::{Broker, Bundle, Controller, ReplicaSet, ip};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::{Fix, Remedy};
use crate::text::time;
use std::net::IpAddr;

/// Bytes that a slave may be behind (`haMaxGapNotInSync` is four times that).
const GAP_BYTES: i64 = 64 << 20;
const STATUS: &str = "GET_BROKER_HA_STATUS (907)";
const NEEDS: Phrase = Phrase("replication status of masters");
const NEEDS_SLAVE: Phrase = Phrase("a slave that is connected");
const NEEDS_SYNC: Phrase = Phrase("replication status and settings of synchronous masters");
const NEEDS_CONTROLLERS: Phrase = Phrase("brokers with controllers");

pub(super) const CHECKS: &[Check] = checks! {
    "slave-not-connected", Critical, not_connected,
        "A slave is registered and does not copy from its master", NEEDS;
    "replication-address", Warning, unreachable_address,
        "Slaves are told an address of their master (brokerIP2) that other machines do not reach",
        Phrase("settings of masters with a registered slave on another machine");
    "slave-not-in-sync", Critical, not_in_sync,
        "A slave is so far behind that its master does not count on it", NEEDS_SLAVE;
    "slave-behind", Warning, behind, "A slave is more than 64 MiB behind", NEEDS_SLAVE;
    "too-few-in-sync", Critical, too_few,
        "Fewer replicas are in sync than minInSyncReplicas, so that sends are refused", NEEDS_SYNC;
    "too-few-acks", Warning, too_few_acks,
        "Fewer slaves are in sync than inSyncReplicas, so that sends wait and are answered with SLAVE_NOT_AVAILABLE or FLUSH_SLAVE_TIMEOUT",
        NEEDS_SYNC;
    "replica-lost", Warning, replica_lost, "A member of a broker set is lost", NEEDS_CONTROLLERS;
    "controller-silent", Warning, controller_silent, "A controller does not answer", NEEDS_CONTROLLERS;
    "no-controller-leader", Critical, no_leader,
        "No controller leads, so that a broken master is not replaced", NEEDS_CONTROLLERS;
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
            let (list, address) = (slaves.join(", "), &master.address);
            let figure =
                text!("{connected} connected to {address}, registered: {list}", connected, address, list);
            let advice = text!(
                "make port {port} of the master reachable from the slave; set brokerIP2 of the master to an address that it reaches",
                port = master.setting("haListenPort").unwrap_or("10912")
            );
            Found::new(list, figure, STATUS, advice).fix(replication_fix(master)).of_broker(master)
        })
    })
}

/// Masters that announce to slaves on other machines an address of their own machine.
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
            let advice =
                text!("set brokerIP2 in its broker.conf to an address that its slaves reach, and restart it");
            let at = &slave.address;
            let figure = text!("brokerIP2={configured}, and a slave is at {at}", configured, at);
            Found::new(master.title(), figure, "GET_BROKER_CONFIG (26)", advice).of_broker(master)
        })
    })
}

fn not_in_sync(bundle: &Bundle) -> Look {
    slaves(bundle, |slave| !slave.is_in_sync)
}

fn behind(bundle: &Bundle) -> Look {
    slaves(bundle, |slave| slave.is_in_sync && slave.behind_bytes > GAP_BYTES)
}

/// A finding for each slave for which `is_found` is true, with the bytes that it is behind.
fn slaves(bundle: &Bundle, is_found: fn(&crate::doctor::bundle::Slave) -> bool) -> Look {
    let all = masters(bundle).flat_map(|master| {
        let slaves = master.replication.iter().flat_map(|status| &status.slaves);
        slaves.map(move |slave| (master, slave))
    });
    Look::each(all, |(master, slave)| {
        Found::when(is_found(slave), || {
            let (behind, address, title) = (slave.behind_bytes, &slave.address, master.title());
            let advice = text!("watch whether the gap shrinks; if not, look at its disk and network");
            let subject = text!("{address} of {title}", address, title);
            Found::new(subject, text!("{behind} bytes behind", behind), STATUS, advice)
                .fix(replication_fix(master))
                .of_set(&master.name)
                .at(address)
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

fn start_slaves(master: &Broker) -> Remedy {
    Remedy::from(text!("start the lost brokers of {name}", name = &master.name)).with(replication_fix(master))
}

/// The operation that shows how far the slaves of a master are.
fn replication_fix(master: &Broker) -> Fix {
    Fix::new("broker", "replication", &[("broker", &master.address)])
}

/// Synchronous masters that refuse sends, because fewer replicas than `minInSyncReplicas` are in
/// sync. A lack of `inSyncReplicas` makes no master refuse sends (`CommitLog.asyncPutMessage`).
fn too_few(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let (found, needed) = (in_sync(master)?, number(master, "minInSyncReplicas").unwrap_or(1));
        Found::when(found < needed, || {
            let figure = text!(
                "{found} in sync, the master included; minInSyncReplicas={needed}: sends are refused",
                found,
                needed
            );
            Found::new(master.title(), figure, STATUS, start_slaves(master)).of_broker(master)
        })
    })
}

/// Synchronous masters with fewer replicas in sync than `inSyncReplicas`, for which sends wait.
/// Masters are left out if the in-sync set or the number of connected slaves decides instead
/// (`CommitLog.calcNeedAckNums`).
fn too_few_acks(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let (found, needed) = (in_sync(master)?, number(master, "inSyncReplicas").unwrap_or(1));
        let is_adapted = is_on(master, "enableAutoInSyncReplicas")
            || is_on(master, "enableControllerMode") && is_on(master, "allAckInSyncStateSet");
        let is_refused = found < number(master, "minInSyncReplicas").unwrap_or(1);
        Found::when(found < needed && !is_adapted && !is_refused, || {
            let figure =
                text!("{found} in sync, the master included; inSyncReplicas={needed}", found, needed);
            Found::new(master.title(), figure, STATUS, start_slaves(master)).of_broker(master)
        })
    })
}

const CONTROLLERS: &str = "CONTROLLER_GET_SYNC_STATE_DATA (1006)";

fn replica_lost(bundle: &Bundle) -> Look {
    let members =
        bundle.replica_sets.iter().flat_map(|set| set.members.iter().map(move |member| (set, member)));
    Look::each(members, |(set, member)| {
        Found::when(!member.is_alive, || {
            let (name, id, address) = (&set.name, member.id, &member.address);
            let subject = text!("{name} (id {id} at the controllers, {address})", name, id, address);
            let advice = text!(
                "start the broker again, and look at its machine and log; if it was taken away for good: replica forget"
            );
            Found::new(subject, lost_figure(bundle, set, member.lost_ms), CONTROLLERS, advice)
                .fix(in_sync_fix(bundle, name))
                .of_set(name)
                .at(address)
        })
    })
}

/// Figures of a set that lost a member, the time of the member's last heartbeat included if it is known.
fn lost_figure(bundle: &Bundle, set: &ReplicaSet, lost_ms: Option<i64>) -> Text {
    let master = masters(bundle).find(|broker| broker.name == set.name);
    let needed = master.and_then(|broker| number(broker, "minInSyncReplicas")).unwrap_or(1);
    let (left, count) = (set.in_sync(), set.members.len());
    let state = text!("{left} of {count} members in sync, minInSyncReplicas={needed}", left, count, needed);
    match lost_ms.map(time) {
        Some(since) => text!("no heartbeat since {since}; {state}", since, state),
        None => text!("its heartbeats do not reach the controllers; {state}", state),
    }
}

const METADATA: &str = "CONTROLLER_GET_METADATA_INFO (1005)";

fn controller_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.controllers, |controller| {
        Found::when(controller.error.is_some(), || {
            let why = controller.error.clone().unwrap_or_default();
            let advice = text!(
                "start the controller again; sets fail over only while a majority of the controllers is there"
            );
            let mut others = bundle.controllers.iter().filter(|other| other.error.is_none());
            let fix =
                |other: &Controller| Fix::new("controller", "metadata", &[("controller", &other.address)]);
            Found::new(&controller.address, why, METADATA, advice)
                .fix(others.next().map(fix))
                .at(&controller.address)
        })
    })
}

fn no_leader(bundle: &Bundle) -> Look {
    let asked = Some(&bundle.controllers).filter(|controllers| !controllers.is_empty());
    Look::each(asked, |controllers| {
        Found::when(controllers.iter().all(|controller| controller.leader.is_empty()), || {
            let names: Vec<&str> = controllers.iter().map(|controller| controller.address.as_str()).collect();
            let figure = text!(
                "{silent} of {count} controllers do not answer, and no controller knows a leader",
                silent = controllers.iter().filter(|controller| controller.error.is_some()).count(),
                count = names.len()
            );
            let advice = text!("start controllers until a majority runs, and check their network");
            Found::new(names.join(", "), figure, METADATA, advice)
        })
    })
}
