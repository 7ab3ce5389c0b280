//! Members of a local cluster: names, ports and settings.

use std::collections::BTreeMap;

use clap::ValueEnum;

use super::network::Subnet;
use crate::roles::Error;

/// Distance of the ports of two brokers. A broker also uses the port two below its own for `vipChannelEnabled`, the
/// port above for slaves, and the third port above for metrics.
const BROKER_PORTS: u16 = 10;

/// Which brokers a local cluster has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// A broker set of three in controller mode, which fails over by itself.
    #[value(name = "1m2s")]
    SetOfThree,
    /// Two masters with a slave each.
    #[value(name = "2m2s")]
    TwoMasters,
    /// Four masters with a slave each.
    #[value(name = "4m4s")]
    FourMasters,
}

impl Kind {
    /// Whether a controller elects the masters.
    pub fn has_controller(self) -> bool {
        self == Self::SetOfThree
    }

    /// Names of the broker sets.
    fn sets(self) -> &'static [&'static str] {
        match self {
            Self::SetOfThree => &["broker-a"],
            Self::TwoMasters => &["broker-a", "broker-b"],
            Self::FourMasters => &["broker-a", "broker-b", "broker-c", "broker-d"],
        }
    }

    fn brokers_per_set(self) -> u16 {
        if self.has_controller() { 3 } else { 2 }
    }

    /// The brokers in the order of their ports: the set of each, and its number there.
    fn broker_numbers(self) -> impl Iterator<Item = (&'static str, u16)> {
        self.sets().iter().flat_map(move |set| (0..self.brokers_per_set()).map(move |number| (*set, number)))
    }

    /// Names of the members that are brokers.
    pub fn brokers(self) -> impl Iterator<Item = String> {
        self.broker_numbers().map(|(set, number)| format!("{set}-{number}"))
    }
}

/// Addresses of the members of a cluster.
#[derive(Clone, Copy)]
enum Hosts<'a> {
    /// All of them at one address.
    One(&'a str),
    /// Each broker at an address of its own.
    Each(Subnet),
}

impl<'a> Hosts<'a> {
    /// The network if there is one, else the address that all members listen on, else loopback.
    fn of(subnet: Option<Subnet>, given: &'a BTreeMap<String, String>) -> Self {
        let bound = given.get("bindAddress").map_or("", |address| address.trim());
        let one = if matches!(bound, "" | "0.0.0.0" | "::") { "127.0.0.1" } else { bound };
        subnet.map_or(Self::One(one), Self::Each)
    }

    fn name_server(self) -> String {
        match self {
            Self::One(host) => host.to_owned(),
            Self::Each(subnet) => subnet.name_server().to_string(),
        }
    }

    fn broker(self, number: u16) -> String {
        match self {
            Self::One(host) => host.to_owned(),
            Self::Each(subnet) => subnet.broker(number).to_string(),
        }
    }

    /// Settings of a member about its own address, which count before given ones. Empty if all members have the same
    /// address.
    fn own(self, host: &str) -> BTreeMap<String, String> {
        let keys: &[&str] = match self {
            Self::One(_) => &[],
            Self::Each(_) => &["bindAddress", "brokerIP1", "brokerIP2"],
        };
        keys.iter().map(|key| ((*key).to_owned(), host.to_owned())).collect()
    }
}

/// Ports from which the ports of all members are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Port of the name server.
    pub namesrv: u16,
    /// Port of the controller.
    pub controller: u16,
    /// Port of the first broker. The port of each further broker is ten higher.
    pub broker: u16,
}

/// A process of a local cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the member, of its data directory and of its files: `namesrv`, `broker-a-0`.
    pub name: String,
    /// Roles of the process as `--roles` takes them.
    pub roles: &'static str,
    /// Host at which members of the cluster reach this member.
    pub host: String,
    /// Port that clients use.
    pub port: u16,
    /// The member's settings, all that its file holds.
    pub settings: BTreeMap<String, String>,
}

impl Member {
    /// Whether the member is a broker; else it is the name server.
    pub fn is_broker(&self) -> bool {
        self.roles == "broker"
    }

    /// Address at which the other members reach this member.
    pub fn address(&self) -> String {
        address(&self.host, self.port)
    }
}

/// The members of a cluster in stages. A stage is started when all members of the stage before serve.
#[derive(Debug)]
pub struct Members {
    /// The name server, then the brokers. In classic mode masters come before slaves, because a slave asks for its
    /// master when it starts, and afterwards only now and then.
    pub stages: Vec<Vec<Member>>,
    /// Names of given settings that have no effect, because the cluster decides them.
    pub overruled: Vec<String>,
}

/// Returns the members of a cluster and their settings. `given` are the settings for all brokers. They override the
/// defaults of a local cluster, but not the settings that join the members to one cluster. In a network each broker has
/// its own address.
///
/// # Errors
/// `brokerRole=SLAVE` is given, or the ports of the brokers do not end at 65,532 or below.
pub fn members(
    kind: Kind,
    ports: Ports,
    given: &BTreeMap<String, String>,
    subnet: Option<Subnet>,
) -> Result<Members, Error> {
    let role = given.get("brokerRole").map_or("ASYNC_MASTER", |role| role.trim());
    if role.eq_ignore_ascii_case("SLAVE") {
        return Err(Error::new(
            "brokerRole",
            "expected ASYNC_MASTER or SYNC_MASTER for the masters, found SLAVE",
        ));
    }
    let hosts = Hosts::of(subnet, given);
    let mut stages = vec![vec![name_server(kind, ports, hosts, given)]];
    let (mut first, mut slaves) = (Vec::new(), Vec::new());
    let mut port = Some(ports.broker).filter(|port| *port > 2);
    for (index, (set, number)) in (0..).zip(kind.broker_numbers()) {
        let expected = || Error::new("--broker-port", "the ports of all brokers must be from 3 to 65532");
        let own = port.filter(|port| *port <= u16::MAX - 3).ok_or_else(expected)?;
        port = own.checked_add(BROKER_PORTS);
        let (name, host) = (format!("{set}-{number}"), hosts.broker(index));
        let mut settings = defaults(kind, &host, role);
        settings.extend(given.iter().filter(|(key, _)| !is_place(key)).map(owned));
        settings.extend(decided(kind, ports, hosts, (set, number, own, role)));
        settings.extend(hosts.own(&host));
        let member = Member { name, roles: "broker", host, port: own, settings };
        if kind.has_controller() || number == 0 { first.push(member) } else { slaves.push(member) }
    }
    stages.push(first);
    stages.push(slaves);
    stages.retain(|stage| !stage.is_empty());
    // The role is that of the masters; it has an effect unless a controller decides.
    let mut fixed = decided(kind, ports, hosts, ("", 0, ports.broker, role));
    fixed.extend(hosts.own(""));
    let is_fixed = |key: &&String| is_place(key) || (*key != "brokerRole" && fixed.contains_key(*key));
    let overruled = given.keys().filter(is_fixed).cloned().collect();
    Ok(Members { stages, overruled })
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

fn pairs<const N: usize>(given: [(&str, String); N]) -> impl Iterator<Item = (String, String)> {
    given.into_iter().map(|(key, value)| (key.to_owned(), value))
}

/// Whether a setting names a path, a port or an address, which members cannot share.
fn is_place(key: &str) -> bool {
    key.starts_with("storePath")
        || matches!(key, "readOnlyCommitLogStorePaths" | "haMasterAddress" | "fastListenPort")
}

fn is_shared(key: &str) -> bool {
    key.starts_with("tls.")
        || matches!(key, "bindAddress" | "proxyProtocolTrustedAddresses" | "connectionBufferBytes")
}

/// The given settings that all members get: TLS, the bound address, trusted PROXY addresses and the memory of
/// connections.
pub fn shared(given: &BTreeMap<String, String>) -> impl Iterator<Item = (String, String)> {
    given.iter().filter(|(key, _)| is_shared(key)).map(owned)
}

/// The name server's process, with the controller where there is one. Of the given settings the process gets those of
/// [`shared`].
fn name_server(kind: Kind, ports: Ports, hosts: Hosts<'_>, given: &BTreeMap<String, String>) -> Member {
    let host = hosts.name_server();
    let mut own: BTreeMap<_, _> = shared(given).collect();
    own.extend(pairs([("listenPort", ports.namesrv.to_string())]));
    own.extend(hosts.own(&host).into_iter().filter(|(key, _)| is_shared(key)));
    let mut roles = "namesrv";
    if kind.has_controller() {
        roles = "namesrv,controller";
        own.extend(pairs([
            ("controllerDLegerGroup", "local".to_owned()),
            ("controllerDLegerPeers", format!("n0-{}", address(&host, ports.controller))),
            ("controllerDLegerSelfId", "n0".to_owned()),
        ]));
    }
    Member { name: "namesrv".to_owned(), roles, host, port: ports.namesrv, settings: own }
}

/// Settings of a broker that the operator did not give: its address, and that a send to a synchronous master is
/// acknowledged when two brokers have the message.
fn defaults(kind: Kind, host: &str, role: &str) -> BTreeMap<String, String> {
    let mut own: BTreeMap<_, _> =
        pairs([("brokerIP1", host.to_owned()), ("brokerIP2", host.to_owned())]).collect();
    if kind.has_controller() {
        own.extend(pairs([
            ("allAckInSyncStateSet", "true".to_owned()),
            ("inSyncReplicas", "2".to_owned()),
            ("minInSyncReplicas", "2".to_owned()),
        ]));
    } else if role.eq_ignore_ascii_case("SYNC_MASTER") {
        own.extend(pairs([("inSyncReplicas", "2".to_owned())]));
    }
    own
}

/// Settings that make a broker the member `number` of its set. They count before given settings.
fn decided(
    kind: Kind,
    ports: Ports,
    hosts: Hosts<'_>,
    (set, number, port, role): (&str, u16, u16, &str),
) -> BTreeMap<String, String> {
    let host = hosts.name_server();
    let mut own: BTreeMap<_, _> = pairs([
        ("brokerName", set.to_owned()),
        ("listenPort", port.to_string()),
        ("haListenPort", port.saturating_add(1).to_string()),
        ("metricsPromExporterPort", port.saturating_add(3).to_string()),
        ("namesrvAddr", address(&host, ports.namesrv)),
        ("enableControllerMode", kind.has_controller().to_string()),
    ])
    .collect();
    if kind.has_controller() {
        own.extend(pairs([("controllerAddr", address(&host, ports.controller))]));
        // The controller decides both.
        own.extend(pairs([("brokerId", "0".to_owned()), ("brokerRole", "ASYNC_MASTER".to_owned())]));
    } else {
        let role = if number == 0 { role } else { "SLAVE" };
        own.extend(pairs([("brokerId", number.to_string()), ("brokerRole", role.to_owned())]));
    }
    own
}

#[cfg(test)]
mod tests;
