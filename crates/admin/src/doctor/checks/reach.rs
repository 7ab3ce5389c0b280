//! Whether clients reach the brokers, and whether name servers tell all of them the same.

use crate::doctor::bundle::{Broker, Bundle, NameServer, ip};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::text::permission;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::body::PERM_WRITE;
use wire::codes::response;

/// Broker id of a master.
const MASTER: i64 = 0;
const TABLE: &str = "broker table of the name servers";
const ROUTES: &str = "route tables of the name servers";

pub(super) const CHECKS: &[Check] = checks! {
    "name-server-silent", Critical, name_server_silent, "A name server does not answer",
        "the name servers that were given";
    "broker-silent", Critical, broker_silent,
        "The address that clients are told of a broker does not answer from here", TABLE;
    "look-refused", Warning, look_refused, "A name server or broker answers, and does not let itself be looked at",
        "the servers that answer";
    "no-broker", Critical, no_broker, "A name server knows no broker, so that clients find nothing there",
        TABLE;
    "address-loopback", Critical, address_loopback,
        "Clients are told a loopback address of a broker, while others of the cluster have one of a network",
        TABLE;
    "address-bridge", Warning, address_bridge,
        "Clients are told an address of a container or virtual bridge, which other machines do not reach",
        TABLE;
    "name-servers-disagree", Critical, name_servers_disagree, "Name servers know different brokers",
        "two name servers that answer";
    "routes-disagree", Warning, routes_disagree, "Name servers tell different routes of a topic",
        "two name servers that answer";
    "two-masters", Critical, two_masters,
        "Two brokers are master under one name, and overwrite each other's routes",
        "broker table, settings of brokers";
    "two-slaves", Warning, two_slaves,
        "Two slaves run under one name and id, and clients read from the one that registered last",
        "broker table, settings of brokers";
    "no-master", Critical, no_master,
        "A broker set has slaves and no master, so that nothing can be sent to it", TABLE;
    "write-permission-wiped", Critical, write_permission_wiped,
        "A name server withholds the write permission that the broker gives its topics (wipeWritePerm)",
        "routes, topics of the masters";
    "broker-permission", Warning, broker_permission,
        "A broker may not be written or read by its own setting brokerPermission", "settings of brokers";
    "mixed-versions", Warning, mixed_versions, "Brokers of one cluster run different versions",
        "runtime figures of two brokers";
};

fn name_server_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.name_servers, |server| {
        Found::when(server.error.is_some() && server.error_code.is_none(), || {
            let why = server.error.clone().unwrap_or_default();
            let fix = format!(
                "start it, or take {} out of -n and of namesrvAddr of brokers and clients",
                server.address
            );
            Found::new(&server.address, why, "GET_BROKER_CLUSTER_INFO (106)", fix)
        })
    })
}

fn broker_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        Found::when(broker.error.is_some() && broker.error_code.is_none(), || {
            let why = broker.error.clone().unwrap_or_default();
            let fix =
                "start the broker, or set brokerIP1 in its broker.conf to an address that clients reach";
            Found::new(broker.title(), why, "GET_BROKER_RUNTIME_INFO (28)", fix)
        })
    })
}

fn look_refused(bundle: &Bundle) -> Look {
    let name_servers = bundle.name_servers.iter().map(|it| (it.address.clone(), &it.error, it.error_code));
    let brokers = bundle.brokers.iter().map(|it| (it.title(), &it.error, it.error_code));
    Look::each(name_servers.chain(brokers), |(title, error, code)| {
        if error.is_some() && code.is_none() {
            return None;
        }
        Found::when(code.is_some(), || {
            let fix = match code {
                Some(response::NO_PERMISSION) => {
                    "give --credentials FILE of a user who may look; a server that serves its own machine only is looked at there"
                }
                Some(response::SYSTEM_BUSY) => "look again when it is less busy",
                _ => "read what it answered; its log may tell more",
            };
            Found::new(title, error.clone().unwrap_or_default(), "what it answered", fix)
        })
    })
}

fn no_broker(bundle: &Bundle) -> Look {
    let answering = bundle.name_servers.iter().filter(|server| server.error.is_none());
    Look::each(answering, |server| {
        Found::when(server.sets.is_empty(), || {
            let fix =
                format!("start a broker whose namesrvAddr has {}, or give -n the right one", server.address);
            Found::new(&server.address, "0 brokers registered", "GET_BROKER_CLUSTER_INFO (106)", fix)
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
            let fix = "set brokerIP1 in its broker.conf to an address of the network and restart it";
            Found::new(broker.title(), format!("registered as {}", broker.address), TABLE, fix)
        })
    })
}

/// Whether an address is one that Docker, libvirt or a link without a server gives by default.
pub(super) fn is_bridge(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [172, 17, ..] | [192, 168, 122, _] | [169, 254, ..]),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn address_bridge(bundle: &Bundle) -> Look {
    let has_bridge = |server: &NameServer| ip(&server.address).is_some_and(is_bridge);
    // Whoever reached a name server through the bridge is inside it, as its clients may be.
    let is_inside = bundle.name_servers.iter().any(has_bridge);
    Look::each(&bundle.brokers, |broker| {
        let is_hidden = is_bridge(ip(&broker.address)?) && !is_inside;
        Found::when(is_hidden, || {
            let fix = "set brokerIP1 in its broker.conf to the address of the machine, and publish the port";
            Found::new(broker.title(), format!("registered as {}", broker.address), TABLE, fix)
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
            let fix = "give all name servers in namesrvAddr of every broker: vostok admin broker set namesrvAddr ADDRESSES --cluster CLUSTER";
            let subject = format!("{} and {}", first.address, other.address);
            Found::new(subject, format!("only one knows {}", differing.join(", ")), TABLE, fix)
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
            let figure = format!("{:?} and {:?}", sorted(first, name), sorted(other, name));
            let subject = format!("{name} on {} and {}", first.address, other.address);
            let fix = format!("compare: vostok admin topic route {name} -n {}", other.address);
            Found::new(subject, figure, ROUTES, fix)
        });
        Some(found.collect())
    })
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
            let list = addresses.into_iter().collect::<Vec<_>>().join(" and ");
            let subject = format!("{name} id {id} of {cluster}");
            let fix = "stop one of them, or give it a brokerId that no other broker of this name has";
            Found::new(subject, format!("slaves at {list}"), "broker table, settings (26)", fix)
        })
    })
}

fn two_masters(bundle: &Bundle) -> Look {
    let masters = addresses(bundle).into_iter().filter(|((_, _, id), _)| *id == MASTER);
    Look::each(masters, |((cluster, name, _), addresses)| {
        Found::when(addresses.len() > 1, || {
            let list = addresses.into_iter().collect::<Vec<_>>().join(" and ");
            let fix =
                "stop one of them; give it another brokerName, or brokerId above 0 and brokerRole=SLAVE";
            Found::new(
                format!("{name} of {cluster}"),
                format!("masters at {list}"),
                "broker table, settings (26)",
                fix,
            )
        })
    })
}

fn no_master(bundle: &Bundle) -> Look {
    let sets = bundle.name_servers.iter().flat_map(|server| server.sets.iter().map(move |set| (server, set)));
    Look::each(sets, |(server, set)| {
        Found::when(!set.addresses.contains_key(&MASTER), || {
            let figure = format!("{} registered, none with id 0, at {}", set.addresses.len(), server.address);
            let fix = "start the master; in controller mode: vostok mqadmin electMaster -a CONTROLLER -c CLUSTER -bn BROKER -b ID";
            Found::new(format!("{} of {}", set.name, set.cluster), figure, TABLE, fix)
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
            let figure = format!("{} topics without it, for example {}", withheld.len(), withheld[0]);
            let fix = format!("vostok admin namesrv add-write-perm {} -n {}", broker.name, server.address);
            Found::new(format!("{} at {}", broker.name, server.address), figure, ROUTES, fix)
        })
    })
}

fn broker_permission(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let perm: i32 = broker.setting("brokerPermission")?.parse().ok()?;
        Found::when(perm & 6 != 6, || {
            let figure = format!("brokerPermission={perm} ({})", permission(perm));
            let fix = format!("vostok admin broker set brokerPermission 6 --broker {}", broker.address);
            Found::new(broker.title(), figure, "GET_BROKER_CONFIG (26)", fix)
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
            Found::new(cluster, figure, "GET_BROKER_RUNTIME_INFO (28)", "finish the upgrade, slaves first")
        })
    })
}
