//! Settings of the brokers that a run changes while they run, and puts back as it found them.

use super::cluster::Cluster;
use crate::Error;
use crate::archive::{BrokerFile, FLUSH, Factors, TargetKind};
use std::collections::BTreeSet;

/// What Vostok remarks on a setting that it takes and does not use.
const WITHOUT_EFFECT: &str = "has no effect";

/// Brings every master to what a cell sweeps.
pub(super) async fn sweep(cluster: &Cluster, cell: &Factors) -> Result<(), Error> {
    for (key, value) in cell.settings() {
        set(cluster, key, Some(value)).await?;
    }
    Ok(())
}

/// Tries every value that cells sweep, so that none is refused after hours of others. What brokers keep from their start
/// on is not tried: a run goes on when they were started with it.
pub(super) async fn try_all(cluster: &Cluster, cells: impl Iterator<Item = &Factors>) -> Result<(), Error> {
    let swept: BTreeSet<(&str, &str)> = cells.flat_map(Factors::settings).collect();
    for (key, value) in swept.into_iter().filter(|(key, _)| !is_fixed(cluster, key)) {
        set(cluster, key, Some(value)).await?;
    }
    Ok(())
}

/// Brings a setting of every master to a value, or says why not; without a value, to the one it had when the run began.
pub(super) async fn set(cluster: &Cluster, key: &str, wanted: Option<&str>) -> Result<(), Error> {
    for master in masters(cluster) {
        set_at(cluster, master, key, wanted).await?;
    }
    Ok(())
}

async fn set_at(
    cluster: &Cluster,
    master: &BrokerFile,
    key: &str,
    wanted: Option<&str>,
) -> Result<(), Error> {
    let BrokerFile { name, address, settings, .. } = master;
    let Some(began_with) = settings.get(key) else {
        // What it had is not known, so nothing was changed.
        return wanted.map_or(Ok(()), |_| Err(Error::Broken(format!("{name} tells no setting {key}"))));
    };
    let value = wanted.unwrap_or(began_with);
    let found = value_of(cluster, address, key).await?;
    if found == value {
        return Ok(());
    }
    if is_fixed(cluster, key) {
        return Err(Error::Broken(format!(
            "{name} runs with {key}={found} and cannot change while it runs; start it with {value}"
        )));
    }
    let remark = cluster.client.set_broker_config(address, key, value).await?;
    // Its cells would be told apart by chance alone.
    if wanted.is_some() && remark.contains(WITHOUT_EFFECT) {
        return Err(Error::Broken(format!("{name} takes {key}={value} and does not use it: {remark}")));
    }
    // A cell must not be measured with another value than its own, nor one value under two names.
    let shown = value_of(cluster, address, key).await?;
    if shown != value {
        return Err(Error::Broken(format!("{name}: {key} shows {shown} for {value}; write it so")));
    }
    Ok(())
}

async fn value_of(cluster: &Cluster, address: &str, key: &str) -> Result<String, Error> {
    Ok(cluster.client.broker_config(address).await?.remove(key).unwrap_or_default())
}

fn masters(cluster: &Cluster) -> impl Iterator<Item = &BrokerFile> {
    cluster.target.brokers.iter().filter(|broker| broker.id == 0)
}

/// Whether cells change a setting: a run that was killed may have left it changed.
pub(super) fn changes(cells: &[Factors], key: &str) -> bool {
    let mut swept = cells.iter().flat_map(Factors::settings);
    swept.any(|(name, _)| name == key) || (key == FLUSH && cells.iter().any(|cell| !cell.flush.is_empty()))
}

/// Puts back what cells changed. What cannot be put back does not keep the rest from it.
pub(super) async fn put_back(cluster: &Cluster, cells: &[Factors]) -> Result<(), Error> {
    let mut failed = Vec::new();
    for master in masters(cluster) {
        let known = master.settings.keys();
        for key in known.filter(|key| changes(cells, key) && !is_fixed(cluster, key)) {
            if let Err(error) = set_at(cluster, master, key, None).await {
                failed.push(format!("{key} of {} was not put back: {error}", master.name));
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Error::Broken(failed.join("; "))) }
}

/// Whether a broker keeps a setting from its start on, whatever it is told. Java chooses its flushing threads and its lock
/// then (`CommitLog`'s constructor), and makes its thread pools (`BrokerController.initializeResources`).
fn is_fixed(cluster: &Cluster, key: &str) -> bool {
    let at_start =
        [FLUSH, "useReentrantLockWhenPutMessage"].contains(&key) || key.ends_with("ThreadPoolNums");
    at_start && cluster.target.kind == TargetKind::Rocketmq
}
