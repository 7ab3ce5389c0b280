//! The cluster under load, as it describes itself, and which of its brokers run on this machine.

use crate::Error;
use crate::agent::Asked;
use crate::archive::{BrokerFile, HostFile, Target, TargetKind, plain};
use crate::measure::{self, listener_of};
use client::{Client, Config};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often, and how long between, brokers of a cluster that is just starting are looked for.
const LOOKS: (u32, Duration) = (100, Duration::from_millis(200));

/// A cluster and this machine.
pub struct Cluster {
    /// Admin calls.
    pub client: Client,
    /// What the cluster says about itself.
    pub target: Target,
    /// This machine.
    pub host: HostFile,
    /// The broker's process, when it runs here.
    pub pid: Option<i32>,
    /// Where the broker here keeps its messages; our own directory otherwise.
    pub store: PathBuf,
}

impl Cluster {
    /// Asks a cluster what it is; `pid` names the broker's process where it cannot be found by its port.
    ///
    /// # Errors
    /// No name server answers, or no broker is registered.
    pub async fn look(namesrv: &str, name: Option<&str>, pid: Option<i32>) -> Result<Self, Error> {
        let client = Client::start(Config::new(namesrv))?;
        let mut brokers = registered(&client).await?;
        let mut target = Target { namesrv: namesrv.to_owned(), ..Target::default() };
        for broker in &mut brokers {
            broker.settings = client.broker_config(&broker.address).await.unwrap_or_default();
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
        target.name = name.map_or_else(|| own_name(&target), str::to_owned);
        let local = brokers.iter().position(|broker| broker.id == 0 && is_here(&broker.address));
        let pid = pid.or_else(|| {
            let port = brokers[local?].address.rsplit_once(':')?.1.parse().ok()?;
            listener_of(port)
        });
        let hostname = plain(&measure::hostname());
        let store = local.and_then(|index| store_of(&brokers[index]));
        let store = store.unwrap_or_else(|| std::env::current_dir().unwrap_or_else(|_| "/".into()));
        for broker in brokers.iter_mut().filter(|broker| is_here(&broker.address)) {
            broker.host = Some(hostname.clone());
        }
        target.brokers = brokers;
        let host = measure::host(&hostname, &store, pid);
        Ok(Self { client, target, host, pid, store })
    }

    /// True when a broker runs on this machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.target.brokers.iter().any(|broker| broker.host.is_some())
    }
}

async fn registered(client: &Client) -> Result<Vec<BrokerFile>, Error> {
    for look in 0..LOOKS.0 {
        if look > 0 {
            tokio::time::sleep(LOOKS.1).await;
        }
        let groups = client.cluster_info().await?.broker_addr_table;
        let all = groups.into_iter().flat_map(|(name, group)| {
            let broker = move |(id, address): (i64, String)| BrokerFile {
                name: name.clone(),
                id: id.max(0).unsigned_abs(),
                address,
                ..BrokerFile::default()
            };
            group.broker_addrs.into_iter().map(broker).collect::<Vec<_>>()
        });
        let all: Vec<_> = all.collect();
        if !all.is_empty() {
            return Ok(all);
        }
    }
    Err(Error::Broken("no broker is registered with the name server; start one first".to_owned()))
}

/// What an agent is to look at: the brokers on its machine, by their places in the target, and what to ask it. It watches
/// the process and the disk of one of them, a master if there is one.
pub(super) async fn asked_of(target: &Target, agent: &str) -> (Vec<usize>, Asked) {
    let machine = Machine::of(agent).await;
    let mut there = Vec::new();
    for (index, broker) in target.brokers.iter().enumerate() {
        if machine.is_same(&Machine::of(&broker.address).await) {
            there.push(index);
        }
    }
    let master = there.iter().find(|index| target.brokers[**index].id == 0);
    let broker = master.or(there.first()).map(|index| &target.brokers[*index]);
    let port = broker.and_then(|broker| broker.address.rsplit_once(':')?.1.parse().ok());
    let path = |key: &str| broker.and_then(|broker| broker.settings.get(key)).cloned();
    let store = path("storePathCommitLog").or_else(|| path("storePathRootDir"));
    let is_java = target.kind == TargetKind::Rocketmq;
    let loopback = machine.is_here();
    (there, Asked { port, store: store.map(PathBuf::from), is_java, load: false, loopback })
}

/// A machine by the addresses that one of its names has.
#[derive(Debug)]
pub(super) struct Machine(Vec<IpAddr>);

impl Machine {
    /// The machine of `host:port`; one without addresses when the name is not known.
    pub async fn of(address: &str) -> Self {
        let found = tokio::net::lookup_host(address).await;
        Self(found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default())
    }

    /// True for this machine, whichever of its addresses was given.
    pub fn is_here(&self) -> bool {
        // Only to an address of this machine a socket can be bound.
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

/// True when an address is one of this machine's: only then a socket can be bound to it.
fn is_here(address: &str) -> bool {
    let Ok(address) = address.parse::<SocketAddr>() else { return address.starts_with("localhost:") };
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

fn store_of(broker: &BrokerFile) -> Option<PathBuf> {
    let keys = ["storePathCommitLog", "storePathRootDir"];
    let paths = keys.iter().filter_map(|key| broker.settings.get(*key));
    // Several directories of a log are separated by commas.
    let mut first = paths.filter_map(|path| path.split(',').next().map(Path::new));
    first.find(|path| path.is_absolute() && path.exists()).map(Path::to_owned)
}
