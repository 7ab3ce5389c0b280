//! Whether clients reach the brokers, and whether all name servers give the same answers.

use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::{Broker, Bundle, NameServer, Route, ip};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
use crate::text::permission;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::body::PERM_WRITE;
use wire::codes::response;

/// Broker id of a master.
const MASTER: i64 = 0;
const TABLE: Phrase = Phrase("broker table of the name servers");
const ROUTES: Phrase = Phrase("route tables of the name servers");
const TWO_SERVERS: Phrase = Phrase("two name servers that answer");
const TABLE_AND_SETTINGS: Phrase = Phrase("broker table, settings (26)");
const NAMES: Phrase = Phrase("broker table, settings of brokers");

pub(super) const CHECKS: &[Check] = checks! {
    "name-server-silent", Critical, name_server_silent,
        "A name server does not answer", Phrase("the name servers that were given");
    "broker-silent", Critical, broker_silent,
        "The address that clients are told of a broker does not answer from here", TABLE;
    "look-refused", Warning, look_refused,
        "A name server or broker answers, and does not let itself be looked at", Phrase("the servers that answer");
    "no-broker", Critical, no_broker,
        "A name server knows no broker, so that clients find nothing there", TABLE;
    "address-loopback", Critical, address_loopback,
        "Clients are told a loopback address of a broker, while others of the cluster have one of a network", TABLE;
    "address-bridge", Warning, address_bridge,
        "Clients are told an address of a container or virtual bridge, which other machines do not reach", TABLE;
    "name-servers-disagree", Critical, name_servers_disagree,
        "Name servers know different brokers", TWO_SERVERS;
    "routes-disagree", Warning, routes_disagree, "Name servers tell different routes of a topic", TWO_SERVERS;
    "two-masters", Critical, two_masters,
        "Two brokers are master under one name, and overwrite each other's routes", NAMES;
    "two-slaves", Warning, two_slaves,
        "Two slaves run under one name and id, and clients read from the one that registered last", NAMES;
    "no-master", Critical, no_master,
        "A broker set has slaves and no master, so that nothing can be sent to it", TABLE;
    "write-permission-wiped", Critical, write_permission_wiped,
        "A name server withholds the write permission that the broker gives its topics (wipeWritePerm)",
        Phrase("routes, topics of the masters");
    "broker-permission", Warning, broker_permission,
        "A broker may not be written or read by its own setting brokerPermission", Phrase("settings of brokers");
    "mixed-versions", Warning, mixed_versions,
        "Brokers of one cluster run different versions", Phrase("runtime figures of two brokers");
};

fn name_server_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.name_servers, |server| {
        Found::when(server.error.is_some() && server.error_code.is_none(), || {
            let why = server.error.clone().unwrap_or_default();
            let address = &server.address;
            let advice = text!(
                "start it, or take {address} out of -n and of namesrvAddr of brokers and clients",
                address
            );
            Found::new(address, why, "GET_BROKER_CLUSTER_INFO (106)", advice).at(address)
        })
    })
}

fn broker_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        Found::when(broker.error.is_some() && broker.error_code.is_none(), || {
            let why = broker.error.clone().unwrap_or_default();
            let advice = text!(
                "start the broker, or set brokerIP1 in its broker.conf to an address that clients reach"
            );
            Found::new(broker.title(), why, "GET_BROKER_RUNTIME_INFO (28)", advice).of_broker(broker)
        })
    })
}

fn look_refused(bundle: &Bundle) -> Look {
    let name_servers =
        bundle.name_servers.iter().map(|it| (it.address.clone(), &it.address, &it.error, it.error_code));
    let brokers = bundle.brokers.iter().map(|it| (it.title(), &it.address, &it.error, it.error_code));
    Look::each(name_servers.chain(brokers), |(title, address, error, code)| {
        if error.is_some() && code.is_none() {
            return None;
        }
        Found::when(code.is_some(), || {
            let advice = match code {
                Some(response::NO_PERMISSION) => text!(
                    "give --credentials FILE of a user who may look; a server that serves its own machine only is looked at there"
                ),
                Some(response::SYSTEM_BUSY) => text!("look again when it is less busy"),
                _ => text!("read what it answered; its log may tell more"),
            };
            let source = Phrase("what it answered");
            Found::new(title, error.clone().unwrap_or_default(), source, advice).at(address)
        })
    })
}

fn no_broker(bundle: &Bundle) -> Look {
    let answering = bundle.name_servers.iter().filter(|server| server.error.is_none());
    Look::each(answering, |server| {
        Found::when(server.sets.is_empty(), || {
            let address = &server.address;
            let advice =
                text!("start a broker whose namesrvAddr has {address}, or give -n the right one", address);
            let figure = text!("0 brokers registered");
            Found::new(address, figure, "GET_BROKER_CLUSTER_INFO (106)", advice).at(address)
        })
    })
}

pub(super) fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

fn address_loopback(bundle: &Bundle) -> Look {
    let servers = bundle.name_servers.iter().map(|server| &server.address);
    let addresses = servers.chain(bundle.brokers.iter().map(|broker| &broker.address));
    let is_spread = addresses.filter_map(|address| ip(address)).any(|ip| !is_local(ip));
    Look::each(&bundle.brokers, |broker| {
        let is_hidden = is_spread && is_local(ip(&broker.address)?);
        Found::when(is_hidden, || {
            let advice =
                text!("set brokerIP1 in its broker.conf to an address of the network and restart it");
            Found::new(broker.title(), registered(broker), TABLE, advice).of_broker(broker)
        })
    })
}

fn registered(broker: &Broker) -> Text {
    text!("registered as {address}", address = &broker.address)
}

/// Whether an address is a default address of Docker, libvirt or a link without an address server.
pub(super) fn is_bridge(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [172, 17, ..] | [192, 168, 122, _] | [169, 254, ..]),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn address_bridge(bundle: &Bundle) -> Look {
    let has_bridge = |server: &NameServer| ip(&server.address).is_some_and(is_bridge);
    // If a name server is asked through the bridge, this machine is inside the bridge, and its clients may be too.
    let is_inside = bundle.name_servers.iter().any(has_bridge);
    Look::each(&bundle.brokers, |broker| {
        let is_hidden = is_bridge(ip(&broker.address)?) && !is_inside;
        Found::when(is_hidden, || {
            let advice =
                text!("set brokerIP1 in its broker.conf to the address of the machine, and publish the port");
            Found::new(broker.title(), registered(broker), TABLE, advice).of_broker(broker)
        })
    })
}

/// The name servers that answered: the first one, and the others.
fn answering(bundle: &Bundle) -> Option<(&NameServer, Vec<&NameServer>)> {
    let mut servers = bundle.name_servers.iter().filter(|server| server.error.is_none());
    Some((servers.next()?, servers.collect()))
}

fn name_servers_disagree(bundle: &Bundle) -> Look {
    let Some((first, others)) = answering(bundle) else { return Look::default() };
    let table = |server: &NameServer| -> BTreeSet<String> {
        let of_set = |set: &crate::doctor::bundle::BrokerSet| {
            let name = format!("{} of {}", set.name, set.cluster);
            set.addresses
                .iter()
                .map(move |(id, address)| format!("{name} id {id} {address}"))
                .collect::<Vec<_>>()
        };
        server.sets.iter().flat_map(of_set).collect()
    };
    let known = table(first);
    Look::each(others, |other| {
        let differing: Vec<_> = known.symmetric_difference(&table(other)).cloned().collect();
        Found::when(!differing.is_empty(), || {
            let (list, one, two) = (differing.join(", "), &first.address, &other.address);
            let advice = text!("give all name servers in namesrvAddr of every broker");
            let figure = text!("only one knows {list}", list);
            Found::new(text!("{one} and {two}", one, two), figure, TABLE, advice)
                .fix(Fix::new("cluster", "list", &[]))
                .at(two)
        })
    })
}

fn routes_disagree(bundle: &Bundle) -> Look {
    let Some((first, others)) = answering(bundle) else { return Look::default() };
    Look::each(others, |other| {
        let names: BTreeSet<_> = first.routes.keys().chain(other.routes.keys()).collect();
        let sorted = |server: &NameServer, name: &str| {
            let mut rows = server.routes.get(name).cloned().unwrap_or_default();
            rows.sort();
            rows
        };
        let differing = names.into_iter().filter(|name| sorted(first, name) != sorted(other, name));
        let found = differing.map(|name| {
            let (one, two) = (&first.address, &other.address);
            let (at_one, at_two) = (route_text(&sorted(first, name)), route_text(&sorted(other, name)));
            let subject = text!("{name} on {one} and {two}", name, one, two);
            let figure = text!("{at_one} at {one}; {at_two} at {two}", at_one, one, at_two, two);
            let advice = text!("compare the routes with -n {one} and with -n {two}", one, two);
            Found::new(subject, figure, ROUTES, advice)
                .fix(Fix::new("topic", "route", &[("topic", name)]))
                .at(two)
        });
        Some(found.collect())
    })
}

/// Queues of a topic by broker set: for reading, for writing, and permission.
fn route_text(rows: &[Route]) -> String {
    let row = |row: &Route| {
        format!("{} {}/{} {}", row.broker, row.read_queues, row.write_queues, permission(row.perm))
    };
    match rows {
        [] => "-".to_owned(),
        rows => rows.iter().map(row).collect::<Vec<_>>().join(", "),
    }
}

/// The addresses of brokers by cluster, name and id.
type Addresses<'a> = BTreeMap<(&'a str, &'a str, i64), BTreeSet<&'a str>>;

fn addresses(bundle: &Bundle) -> Addresses<'_> {
    let mut all = Addresses::new();
    for set in bundle.name_servers.iter().flat_map(|server| &server.sets) {
        for (id, address) in &set.addresses {
            all.entry((&set.cluster, &set.name, *id)).or_default().insert(address);
        }
    }
    // A broker that took another's place says its name in its settings. In controller mode brokerId of the settings is not the role.
    let elected = |broker: &&Broker| broker.setting("enableControllerMode") == Some("true");
    for broker in bundle.brokers.iter().filter(|broker| !elected(broker)) {
        let id = broker.setting("brokerId").and_then(|id| id.parse().ok());
        if let (Some(name), Some(id)) = (broker.setting("brokerName"), id) {
            all.entry((&broker.cluster, name, id)).or_default().insert(&broker.address);
        }
    }
    all
}

fn two_slaves(bundle: &Bundle) -> Look {
    let slaves = addresses(bundle).into_iter().filter(|((_, _, id), _)| *id != MASTER);
    Look::each(slaves, |((cluster, name, id), addresses)| {
        Found::when(addresses.len() > 1, || {
            let list = addresses.into_iter().collect::<Vec<_>>().join(", ");
            let subject = text!("{name} id {id} of {cluster}", name, id, cluster);
            let advice =
                text!("stop one of them, or give it a brokerId that no other broker of this name has");
            let figure = text!("slaves at {list}", list);
            Found::new(subject, figure, TABLE_AND_SETTINGS, advice).of_set(name)
        })
    })
}

fn two_masters(bundle: &Bundle) -> Look {
    let masters = addresses(bundle).into_iter().filter(|((_, _, id), _)| *id == MASTER);
    Look::each(masters, |((cluster, name, _), addresses)| {
        Found::when(addresses.len() > 1, || {
            let list = addresses.into_iter().collect::<Vec<_>>().join(", ");
            let advice = text!(
                "stop one of them; give it another brokerName, or brokerId above 0 and brokerRole=SLAVE"
            );
            let figure = text!("masters at {list}", list);
            Found::new(set_title(name, cluster), figure, TABLE_AND_SETTINGS, advice).of_set(name)
        })
    })
}

fn set_title(name: &str, cluster: &str) -> Text {
    text!("{name} of {cluster}", name, cluster)
}

/// The operation that shows the members of a broker set; `None` if no controller leads.
pub(super) fn in_sync_fix(bundle: &Bundle, set: &str) -> Option<Fix> {
    let is_controlled = bundle.replica_sets.iter().any(|known| known.name == set);
    let mut leaders = bundle.controllers.iter().map(|it| &it.leader).filter(|_| is_controlled);
    let leader = leaders.find(|leader| !leader.is_empty())?;
    Some(Fix::new("replica", "in-sync", &[("controller", leader), ("broker", set)]))
}

fn no_master(bundle: &Bundle) -> Look {
    let sets = bundle.name_servers.iter().flat_map(|server| server.sets.iter().map(move |set| (server, set)));
    Look::each(sets, |(server, set)| {
        Found::when(!set.addresses.contains_key(&MASTER), || {
            let (count, address) = (set.addresses.len(), &server.address);
            let figure = text!("{count} registered, none with id 0, at {address}", count, address);
            let advice = text!(
                "start the master; with controllers the members elect one of the in-sync set, of which one must run"
            );
            Found::new(set_title(&set.name, &set.cluster), figure, TABLE, advice)
                .fix(in_sync_fix(bundle, &set.name))
                .of_set(&set.name)
        })
    })
}

fn write_permission_wiped(bundle: &Bundle) -> Look {
    let masters: Vec<&Broker> = bundle.brokers.iter().filter(|broker| broker.id == MASTER).collect();
    let pairs =
        bundle.name_servers.iter().flat_map(|server| masters.iter().map(move |broker| (server, *broker)));
    Look::each(pairs, |(server, broker)| {
        let own = broker.topics.as_ref()?;
        let may_write = broker.setting("brokerPermission").and_then(|text| text.parse::<i32>().ok());
        let may_write = may_write.is_none_or(|perm| perm & PERM_WRITE != 0);
        let withheld: Vec<_> = server
            .routes
            .iter()
            .filter(|(topic, rows)| {
                let is_given = own.get(*topic).is_some_and(|perm| perm & PERM_WRITE != 0) && may_write;
                let row = rows.iter().find(|row| row.broker == broker.name);
                is_given && row.is_some_and(|row| row.perm & PERM_WRITE == 0)
            })
            .map(|(topic, _)| topic.as_str())
            .collect();
        Found::when(!withheld.is_empty(), || {
            let (count, first, name, address) = (withheld.len(), withheld[0], &broker.name, &server.address);
            let figure = text!("{count} topics without it, for example {first}", count, first);
            let advice = text!("give the permission back, unless the broker set is being taken away");
            Found::new(text!("{name} at {address}", name, address), figure, ROUTES, advice)
                .fix(Fix::new("namesrv", "add-write-perm", &[("broker", name)]))
                .of_set(name)
        })
    })
}

fn broker_permission(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let perm: i32 = broker.setting("brokerPermission")?.parse().ok()?;
        Found::when(perm & 6 != 6, || {
            let figure = format!("brokerPermission={perm} ({})", permission(perm));
            let advice = text!("allow reading and writing again");
            let given = [("key", "brokerPermission"), ("value", "6"), ("broker", &broker.address)];
            Found::new(broker.title(), figure, "GET_BROKER_CONFIG (26)", advice)
                .fix(Fix::new("broker", "set", &given))
                .of_broker(broker)
        })
    })
}

fn mixed_versions(bundle: &Bundle) -> Look {
    let mut clusters: BTreeMap<&str, BTreeMap<String, Vec<&Broker>>> = BTreeMap::new();
    for broker in &bundle.brokers {
        let Some(version) = broker.text("brokerVersionDesc") else { continue };
        let version = match broker.text("vostokVersion") {
            Some(own) => format!("vostok {own}"),
            None => version.to_owned(),
        };
        clusters.entry(&broker.cluster).or_default().entry(version).or_default().push(broker);
    }
    Look::each(clusters, |(cluster, versions)| {
        if versions.values().map(Vec::len).sum::<usize>() < 2 {
            return None;
        }
        Found::when(versions.len() > 1, || {
            let of_version = |(version, brokers): (&String, &Vec<&Broker>)| {
                let names: Vec<_> = brokers.iter().map(|broker| broker.title()).collect();
                format!("{version}: {}", names.join(", "))
            };
            let figure = versions.iter().map(of_version).collect::<Vec<_>>().join("; ");
            let advice = text!("finish the upgrade, slaves first");
            Found::new(cluster, figure, "GET_BROKER_RUNTIME_INFO (28)", advice)
        })
    })
}
