//! The cluster under load, as it describes itself, and which of its brokers run on this machine.

use super::design::RunOptions;
use crate::Error;
use crate::agent::Asked;
use crate::archive::{BrokerFile, HostFile, Target, TargetKind, plain};
use crate::measure::{self, process_of, servers_on, store_of};
use client::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::body::ClusterInfo;

/// Number of attempts to find the brokers of a cluster that is just starting, and the time between two of them.
const LOOKS: (u32, Duration) = (100, Duration::from_millis(200));

/// The cluster under load, and this machine.
pub struct Cluster {
    /// The client for admin calls.
    pub client: Client,
    /// The description of the cluster.
    pub target: Target,
    /// The description of this machine.
    pub host: HostFile,
    /// Process id of the broker, when it is known without its port.
    pub(super) given_pid: Option<i32>,
    /// Process ids of all servers, when they are known without their ports.
    pub(super) known_servers: Vec<i32>,
    /// Ports of this machine on which servers under load listen, beginning with that of the watched broker if there is
    /// one.
    pub(super) ports: Vec<u16>,
    /// Whether a broker runs on this machine, by its registered address.
    pub(super) has_broker: bool,
    /// Store directory of the broker on this machine, empty when unknown. Without a broker here it is the working
    /// directory.
    pub store: PathBuf,
}

impl Cluster {
    /// Asks the cluster for its brokers and their settings.
    ///
    /// # Errors
    /// [`Error::Cluster`] when no name server answers, [`Error::Broken`] when no broker is registered, [`Error::Flag`] when
    /// the cluster must be named.
    pub async fn look(options: &RunOptions) -> Result<Self, Error> {
        let RunOptions { load, name, servers, .. } = options;
        let (namesrv, named) = (&load.namesrv, Some(load.cluster.as_str()));
        let client = Client::start(load.client())?;
        let mut brokers = registered(&client, named.filter(|name| !name.is_empty())).await?;
        let mut target = Target { namesrv: namesrv.clone(), ..Target::default() };
        for broker in &mut brokers {
            broker.settings =
                without_secrets(client.broker_config(&broker.address).await.unwrap_or_default());
        }
        let master = brokers.iter().find(|broker| broker.id == 0).unwrap_or(&brokers[0]);
        let runtime = client.broker_runtime(&master.address).await.unwrap_or_default();
        match (runtime.get("vostokVersion"), runtime.get("brokerVersionDesc")) {
            (Some(version), _) => (target.kind, target.version) = (TargetKind::Vostok, version.clone()),
            (None, Some(version)) => {
                target.version = version.trim_start_matches('V').replace('_', ".");
            }
            _ => {}
        }
        target.name = name.clone().unwrap_or_else(|| own_name(&target));
        let hostname = plain(&measure::hostname());
        for broker in &mut brokers {
            let is_here = !servers.is_empty() || Machine::of(&broker.address).await.is_here();
            broker.host = is_here.then(|| hostname.clone());
        }
        let local = watched(brokers.iter().filter(|broker| broker.host.is_some()));
        let here: Vec<&BrokerFile> = brokers.iter().filter(|broker| broker.host.is_some()).collect();
        let ports = ports_on(&Machine::of("localhost:0").await, (local, &here), namesrv).await;
        let (has_broker, configured) = (local.is_some(), local.map(store_path));
        target.brokers = brokers;
        let (given_pid, known_servers) = (options.pid.or(servers.first().copied()), servers.clone());
        let (host, store) = (HostFile::default(), PathBuf::new());
        let mut cluster = Self { client, target, host, given_pid, known_servers, ports, has_broker, store };
        let pid = cluster.pid();
        cluster.store = store_of(configured, pid);
        cluster.host = measure::host(&hostname, &cluster.store, pid);
        Ok(cluster)
    }

    /// Process id of the broker on this machine, if there is one. It is searched on every call, because the broker may
    /// have been restarted.
    pub fn pid(&self) -> Option<i32> {
        let alive = |pid: &i32| Path::new(&format!("/proc/{pid}")).exists();
        let is_java = self.target.kind == TargetKind::Rocketmq;
        let port = self.ports.first().filter(|_| self.has_broker);
        self.given_pid.filter(alive).or_else(|| process_of(*port?, is_java))
    }

    /// Process ids of the other servers under load on this machine; `None` when not all of them are known.
    pub fn servers(&self, pid: Option<i32>) -> Option<Vec<i32>> {
        if self.has_broker && pid.is_none() {
            return None;
        }
        if !self.known_servers.is_empty() {
            return Some(self.known_servers.iter().copied().filter(|server| Some(*server) != pid).collect());
        }
        // The process of the watched broker is known already.
        servers_on(&self.ports[usize::from(self.has_broker)..], pid)
    }

    /// Whether a broker runs on this machine, as far as is known without asking agents.
    pub fn is_here(&self) -> bool {
        self.target.brokers.iter().any(|broker| broker.host.is_some())
    }
}

async fn registered(client: &Client, cluster: Option<&str>) -> Result<Vec<BrokerFile>, Error> {
    for look in 0..LOOKS.0 {
        if look > 0 {
            tokio::time::sleep(LOOKS.1).await;
        }
        let all = brokers_of(client.cluster_info().await?, cluster)?;
        if !all.is_empty() {
            return Ok(all);
        }
    }
    let of = cluster.map(|name| format!(" of the cluster {name}")).unwrap_or_default();
    Err(Error::Broken(format!("no broker{of} is registered with the name server; start one first")))
}

/// The settings of a broker as runs keep them: secrets are replaced by dots. A Java broker reports the password of its
/// first user and its own secret key to any caller.
pub(super) fn without_secrets(mut settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let secret =
        settings.iter_mut().filter(|(key, value)| is_secret(key) && !matches!(value.as_str(), "" | "{}"));
    secret.for_each(|(_, value)| "...".clone_into(value));
    settings
}

/// Whether a broker setting holds a secret of its operators.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    let words =
        ["password", "secret", "credential", "initauthenticationuser", "socksproxy", "exporterheader"];
    words.iter().any(|word| key.contains(word))
}

/// The brokers of a cluster. With several clusters one must be named, so that no load reaches a cluster by mistake.
pub(super) fn brokers_of(info: ClusterInfo, cluster: Option<&str>) -> Result<Vec<BrokerFile>, Error> {
    let groups = info.broker_addr_table;
    let clusters: BTreeSet<&str> = groups.values().map(|group| group.cluster.as_str()).collect();
    if cluster.is_none() && clusters.len() > 1 {
        let names = clusters.into_iter().collect::<Vec<_>>().join(", ");
        let why = format!("the name servers know several, expected one of {names}");
        return Err(Error::Flag { flag: "--cluster", why });
    }
    let wanted = groups.into_iter().filter(|(_, group)| cluster.is_none_or(|name| group.cluster == name));
    let brokers = wanted.flat_map(|(name, group)| {
        let broker = move |(id, address): (i64, String)| BrokerFile {
            name: name.clone(),
            id: id.max(0).unsigned_abs(),
            address,
            ..BrokerFile::default()
        };
        group.broker_addrs.into_iter().map(broker).collect::<Vec<_>>()
    });
    Ok(brokers.collect())
}

/// The brokers on an agent's machine, by their indices in the target, and the request for the agent. The agent watches
/// the process and the disk of one of these brokers, preferably a master.
pub(super) async fn asked_of(target: &Target, agent: &str) -> (Vec<usize>, Asked) {
    let machine = Machine::of(agent).await;
    let mut there = Vec::new();
    for (index, broker) in target.brokers.iter().enumerate() {
        if machine.is_same(&Machine::of(&broker.address).await) {
            there.push(index);
        }
    }
    let broker = watched(there.iter().map(|index| &target.brokers[*index]));
    let (port, store) = (broker.and_then(port_of), broker.map(store_path));
    let is_java = target.kind == TargetKind::Rocketmq;
    let loopback = machine.is_here();
    let brokers: Vec<&BrokerFile> = there.iter().map(|index| &target.brokers[*index]).collect();
    let mut beside = ports_on(&machine, (broker, &brokers), &target.namesrv).await;
    beside.retain(|other| Some(*other) != port);
    (there, Asked { port, beside, store, is_java, load: false, loopback })
}

/// Ports of a machine on which servers of the cluster listen: the watched broker, the other brokers, name servers.
async fn ports_on(
    machine: &Machine,
    (watched, brokers): (Option<&BrokerFile>, &[&BrokerFile]),
    namesrv: &str,
) -> Vec<u16> {
    let brokers = watched.into_iter().chain(brokers.iter().copied()).filter_map(port_of);
    let mut ports: Vec<u16> = Vec::new();
    brokers.for_each(|port| {
        if !ports.contains(&port) {
            ports.push(port)
        }
    });
    for server in namesrv.split([';', ',']).map(str::trim) {
        if let Some(port) = port_in(server)
            && machine.is_same(&Machine::of(server).await)
        {
            ports.push(port);
        }
    }
    ports
}

/// A machine, identified by the addresses that one of its names resolves to.
#[derive(Debug)]
pub(super) struct Machine(Vec<IpAddr>);

impl Machine {
    /// The machine of `host:port`; without addresses when the name cannot be resolved.
    pub async fn of(address: &str) -> Self {
        let found = tokio::net::lookup_host(address).await;
        Self(found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default())
    }

    /// Whether this is the machine that the lab runs on, whichever of its addresses was given.
    pub fn is_here(&self) -> bool {
        // A socket can be bound only to an address of this machine.
        self.0.iter().any(|ip| UdpSocket::bind((*ip, 0)).is_ok())
    }

    fn is_same(&self, other: &Self) -> bool {
        self.0.iter().any(|ip| other.0.contains(ip)) || (self.is_here() && other.is_here())
    }
}

fn own_name(target: &Target) -> String {
    let make = match target.kind {
        TargetKind::Vostok => "vostok",
        TargetKind::Rocketmq => "rocketmq",
    };
    if target.version.is_empty() { "unknown".to_owned() } else { format!("{make}-{}", target.version) }
}

/// The broker of a machine whose process and disk are watched: preferably a master.
fn watched<'a>(brokers: impl Iterator<Item = &'a BrokerFile>) -> Option<&'a BrokerFile> {
    brokers.min_by_key(|broker| broker.id > 0)
}

fn port_of(broker: &BrokerFile) -> Option<u16> {
    port_in(&broker.address)
}

fn port_in(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

/// The store path that a broker reports, preferably that of the commit log; empty when it reports none.
fn store_path(broker: &BrokerFile) -> PathBuf {
    let keys = ["storePathCommitLog", "storePathRootDir"];
    let paths = keys.into_iter().filter_map(|key| broker.settings.get(key));
    // Several commit log directories are separated by commas.
    let mut first = paths.filter_map(|path| path.split(',').next().map(str::trim));
    first.find(|path| !path.is_empty()).map(PathBuf::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_a_broker_is_kept() {
        let given = [
            ("initAuthenticationUser", r#"{"username":"root","password":"hush"}"#),
            ("innerClientAuthenticationCredentials", r#"{"accessKey":"me","secretKey":"hush"}"#),
            ("tlsKeyPASSWORD", "hush"),
            ("aSecretSetting", ""),
            ("socksProxyConfig", r#"{"*":{"addr":"10.0.0.9:1080","username":"me","password":"hush"}}"#),
            ("metricsGrpcExporterHeader", "Authorization:Bearer hush"),
            ("flushDiskType", "ASYNC_FLUSH"),
            ("anotherSecret", "{}"),
        ];
        let kept = without_secrets(given.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert!(kept.values().all(|value| !value.contains("hush")), "{kept:?}");
        assert_eq!((kept.len(), kept["flushDiskType"].as_str()), (8, "ASYNC_FLUSH"));
        let of = |key: &str| kept[key].as_str();
        assert_eq!(
            [of("initAuthenticationUser"), of("aSecretSetting"), of("anotherSecret")],
            ["...", "", "{}"]
        );
    }
}
