//! `vostok lab modes`: what flushing and replication cost.
//!
//! Vostok changes how it flushes while it runs. Java chooses its flushing threads at the start (`CommitLog`'s
//! constructor), so against Java only the mode it runs in can be measured; the runs are compared afterwards.

use super::bench::{Bench, Plan};
use super::cluster::Cluster;
use super::record::Stage;
use crate::Error;
use crate::archive::{Factors, TargetKind};
use crate::command::{ModesFlags, Scene};
use crate::generator::Workload;
use crate::session;

/// The setting that says how a broker flushes, which a run changes and puts back.
pub(super) const FLUSH: &str = "flushDiskType";

/// Runs the scenario.
///
/// # Errors
/// As [`super::matrix`], and when the cluster cannot be brought into a mode.
pub fn run(flags: &ModesFlags) -> Result<(), Error> {
    session::block_on(async {
        let plan = Modes { scene: flags.scene.clone() };
        let mut cells = Vec::new();
        for threads in &flags.threads {
            for size in &flags.sizes {
                for (flush, replication) in modes(flags) {
                    let cell = flags.scene.factors(*threads, size, flags.queues);
                    cells.push(Factors { flush: flush.clone(), replication: replication.clone(), ..cell });
                }
            }
        }
        let mut bench = Bench::open(&flags.scene, "modes", cells, &plan).await?;
        bench.run(&plan).await
    })
}

fn modes(flags: &ModesFlags) -> Vec<(&String, &String)> {
    let pairs = flags.repl.iter().flat_map(|repl| flags.flush.iter().map(move |flush| (flush, repl)));
    pairs.collect()
}

#[derive(Clone, Debug)]
pub(super) struct Modes {
    pub scene: Scene,
}

impl Plan for Modes {
    fn workload(&self, cell: &Factors) -> Workload {
        self.scene.workload(cell)
    }

    fn stages(&self, _cell: &Factors) -> Vec<Stage> {
        Stage::plain(self.scene.warmup(), self.scene.duration())
    }

    async fn prepare(&self, cluster: &Cluster, cell: &Factors) -> Result<(), Error> {
        set_flush(cluster, &cell.flush).await?;
        let found = replication(cluster);
        if cell.replication.is_empty() || cell.replication == found {
            return Ok(());
        }
        let wanted = &cell.replication;
        Err(Error::Broken(format!(
            "replication {wanted} was asked for, the cluster has {found}; start its brokers that way first"
        )))
    }
}

/// Brings every master to flush this way, or says how to; the empty way is the one it had when the run began.
pub(super) async fn set_flush(cluster: &Cluster, wanted: &str) -> Result<(), Error> {
    for broker in cluster.target.brokers.iter().filter(|broker| broker.id == 0) {
        let value = match wanted {
            "" => match broker.settings.get(FLUSH) {
                Some(began_with) => began_with,
                None => continue,
            },
            "sync" => "SYNC_FLUSH",
            "async" => "ASYNC_FLUSH",
            other => {
                let why = format!("expected async or sync, found {other}");
                return Err(Error::Flag { flag: "--flush", why });
            }
        };
        let settings = cluster.client.broker_config(&broker.address).await?;
        let found = settings.get(FLUSH).map_or("", String::as_str);
        if found == value {
            continue;
        }
        if cluster.target.kind == TargetKind::Rocketmq {
            return Err(Error::Broken(format!(
                "{} runs with {FLUSH}={found} and cannot change while it runs; start it with {value}",
                broker.name
            )));
        }
        cluster.client.set_broker_config(&broker.address, FLUSH, value).await?;
    }
    Ok(())
}

/// How the cluster replicates, by the role of its first master.
fn replication(cluster: &Cluster) -> &'static str {
    let brokers = &cluster.target.brokers;
    let Some(master) = brokers.iter().find(|broker| broker.id == 0) else { return "none" };
    let has_slaves = brokers.iter().any(|broker| broker.name == master.name && broker.id > 0);
    let is = |key: &str, value: &str| master.settings.get(key).is_some_and(|found| found == value);
    match () {
        () if !has_slaves => "none",
        () if is("enableControllerMode", "true") || is("enableDLegerCommitLog", "true") => "quorum",
        () if is("brokerRole", "SYNC_MASTER") => "sync",
        () => "async",
    }
}
