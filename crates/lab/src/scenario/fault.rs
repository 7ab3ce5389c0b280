//! The fault of a failover run: how the master is made to fail, and how the fault is ended.

use super::local::LocalCluster;
use crate::Error;
use crate::archive::BrokerFile;
use client::Client;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use wire::codes::request;

/// Longest time for asking whether a cluster is whole.
const LOOK: Duration = Duration::from_millis(800);

/// Bytes that a slave may be behind its master in a cluster that is whole, while producers go on.
const BEHIND_MAX: u64 = 1 << 20;

/// Longest time for an election that is asked for.
const ELECTION: Duration = Duration::from_secs(5);

/// Fault of the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The master's process is killed, and started again.
    LeaderKill,
    /// The master's process is paused, and goes on.
    LeaderPause,
    /// The master's network link is cut, and joined again.
    Partition,
    /// The controller is asked to make another broker master.
    Switch,
    /// A command makes the fault, and a second command ends it.
    Commands {
        /// Command that makes the fault.
        inject: String,
        /// Command that ends the fault.
        heal: String,
    },
}

impl Fault {
    /// Refuses a fault that cannot be made on this machine, before anything is started.
    ///
    /// # Errors
    /// [`Error::Flag`] with what was found and what to do instead.
    pub fn check(&self) -> Result<(), Error> {
        let Self::Partition = self else { return Ok(()) };
        super::local::can_link().map_err(|found| {
            let instead = "run it as root and with iproute2, or cut a cluster apart with --inject and --heal";
            let why = format!("partition needs network namespaces, but {found}; {instead}");
            Error::Flag { flag: "--fault", why }
        })
    }

    /// Name of the fault as the flags have it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LeaderKill => "leader-kill",
            Self::LeaderPause => "leader-pause",
            Self::Partition => "partition",
            Self::Switch => "switch",
            Self::Commands { .. } => "commands",
        }
    }
}

/// The fault of a run, with the cluster of the lab's own whose processes it meets.
#[derive(Debug)]
pub struct Injector {
    fault: Fault,
    local: Option<Mutex<LocalCluster>>,
}

/// The master of the set that a fault meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// Name of the broker set.
    pub set: String,
    /// Address of the master.
    pub address: String,
}

impl Injector {
    /// A fault, and the cluster of the lab's own whose processes it meets.
    pub fn new(fault: Fault, local: Option<LocalCluster>) -> Self {
        Self { fault, local: local.map(Mutex::new) }
    }

    /// Makes the fault.
    ///
    /// # Errors
    /// [`Error::Broken`] when a command fails or there is no broker to switch to, [`Error::System`] when a signal cannot be
    /// sent, [`Error::Cluster`] when the controller refuses.
    pub async fn inject(&self, client: &Client, victim: &Victim) -> Result<(), Error> {
        match &self.fault {
            Fault::LeaderKill => self.local()?.kill(&victim.address),
            Fault::LeaderPause => self.local()?.pause(&victim.address),
            Fault::Partition => self.local()?.cut(&victim.address),
            Fault::Switch => self.switch(client, victim).await,
            Fault::Commands { inject, .. } => shell("--inject", inject, victim).await,
        }
    }

    /// Ends the fault.
    ///
    /// # Errors
    /// Errors of [`Self::inject`].
    pub async fn heal(&self, victim: &Victim) -> Result<(), Error> {
        match &self.fault {
            Fault::LeaderKill => self.local()?.restart(&victim.address),
            Fault::LeaderPause => self.local()?.go_on(&victim.address),
            Fault::Partition => self.local()?.join(&victim.address),
            Fault::Switch => Ok(()),
            Fault::Commands { heal, .. } => shell("--heal", heal, victim).await,
        }
    }

    fn local(&self) -> Result<MutexGuard<'_, LocalCluster>, Error> {
        let local = self.local.as_ref();
        let local = local.ok_or_else(|| Error::Broken("the fault needs a cluster of --local".to_owned()))?;
        Ok(local.lock().expect("nothing panics while it is held"))
    }

    /// Asks the controller to make a slave master (`CONTROLLER_ELECT_MASTER`, `ElectMasterRequestHeader`).
    async fn switch(&self, client: &Client, victim: &Victim) -> Result<(), Error> {
        let controller = self.local()?.controller();
        let info = client.cluster_info().await?;
        let set = info.broker_addr_table.get(&victim.set);
        let cluster = set.map(|set| set.cluster.clone()).unwrap_or_default();
        let mut slaves = set.into_iter().flat_map(|set| &set.broker_addrs);
        let nobody = || Error::Broken(format!("{} has no slave to switch to", victim.set));
        let number = *slaves.find(|(_, address)| **address != victim.address).ok_or_else(nobody)?.0;
        let write = |frame: wire::frame::FrameWriter<'_>| {
            let frame = frame.text("clusterName", &cluster).text("brokerName", &victim.set);
            frame.number("brokerId", number).flag("designateElect", true).finish(b"");
        };
        client.call(&controller, request::CONTROLLER_ELECT_MASTER, ELECTION, write).await?;
        Ok(())
    }
}

/// Runs a command with the master's set and address in its environment.
async fn shell(flag: &'static str, text: &str, victim: &Victim) -> Result<(), Error> {
    let mut command = Command::new("sh");
    command
        .args(["-c", text])
        .env("MASTER", &victim.address)
        .env("BROKER_NAME", &victim.set)
        .stdin(Stdio::null());
    let status = tokio::task::spawn_blocking(move || command.status()).await;
    let status = status.map_err(|panic| Error::Broken(panic.to_string()))?;
    let status = status.map_err(Error::system(format!("run {flag}")))?;
    if status.success() { Ok(()) } else { Err(Error::Broken(format!("{flag}: {text}: {status}"))) }
}

/// The master of a broker set as name servers know it.
pub(super) async fn master_of(client: &Client, set: &str) -> Option<String> {
    let info = tokio::time::timeout(LOOK, client.cluster_info()).await.ok()?.ok()?;
    info.broker_addr_table.get(set)?.broker_addrs.get(&0).cloned()
}

/// Whether as many brokers are registered as there were, with a master in each set and slaves that follow.
pub(super) async fn is_whole(client: &Client, brokers: &[BrokerFile]) -> bool {
    let look = async {
        let Ok(info) = client.cluster_info().await else { return false };
        for name in brokers.iter().map(|broker| &broker.name) {
            let Some(set) = info.broker_addr_table.get(name) else { return false };
            let Some(master) = set.broker_addrs.get(&0) else { return false };
            let before = brokers.iter().filter(|broker| broker.name == *name).count();
            let Ok(found) = client.replication(master).await else { return false };
            let follow = found.slaves + 1 >= before && found.behind_bytes <= BEHIND_MAX;
            if set.broker_addrs.len() < before || !follow {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(LOOK, look).await.unwrap_or(false)
}
