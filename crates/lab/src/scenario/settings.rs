//! Settings of the brokers that a run changes while they run, and puts back as it found them.

use super::cluster::Cluster;
use crate::Error;
use crate::archive::{FLUSH, Factors, TargetKind};
use std::collections::BTreeSet;

/// Brings every master to what a cell sweeps.
pub(super) async fn sweep(cluster: &Cluster, cell: &Factors) -> Result<(), Error> {
    for (key, value) in cell.settings() {
        set(cluster, key, Some(value)).await?;
    }
    Ok(())
}

/// Brings a setting of every master to a value, or says why not; without a value, to the one it had when the run began.
pub(super) async fn set(cluster: &Cluster, key: &str, wanted: Option<&str>) -> Result<(), Error> {
    for broker in cluster.target.brokers.iter().filter(|broker| broker.id == 0) {
        let name = &broker.name;
        let Some(began_with) = broker.settings.get(key) else {
            // What it had is not known, so nothing was changed.
            match wanted {
                Some(_) => return Err(Error::Broken(format!("{name} tells no setting {key}"))),
                None => continue,
            }
        };
        let value = wanted.unwrap_or(began_with);
        let found = value_of(cluster, &broker.address, key).await?;
        if found == value {
            continue;
        }
        if is_fixed(cluster, key) {
            return Err(Error::Broken(format!(
                "{name} runs with {key}={found} and cannot change while it runs; start it with {value}"
            )));
        }
        cluster.client.set_broker_config(&broker.address, key, value).await?;
        // A cell must not be measured with another value than its own.
        if value_of(cluster, &broker.address, key).await? == found {
            return Err(Error::Broken(format!("{name} was told {key}={value} and keeps {found}")));
        }
    }
    Ok(())
}

async fn value_of(cluster: &Cluster, address: &str, key: &str) -> Result<String, Error> {
    Ok(cluster.client.broker_config(address).await?.remove(key).unwrap_or_default())
}

/// Whether cells change a setting: a run that was killed may have left it changed.
pub(super) fn changes(cells: &[Factors], key: &str) -> bool {
    let mut swept = cells.iter().flat_map(Factors::settings);
    swept.any(|(name, _)| name == key) || (key == FLUSH && cells.iter().any(|cell| !cell.flush.is_empty()))
}

/// Puts back what cells changed.
pub(super) async fn put_back(cluster: &Cluster, cells: &[Factors]) -> Result<(), Error> {
    let known = cluster.target.brokers.iter().flat_map(|broker| broker.settings.keys());
    let changed: BTreeSet<&String> = known.filter(|key| changes(cells, key)).collect();
    let mut all = Ok(());
    for key in changed.into_iter().filter(|key| !is_fixed(cluster, key)) {
        // One that cannot be put back does not keep the others from it.
        all = all.and(set(cluster, key, None).await);
    }
    all
}

/// Whether a broker keeps a setting from its start on: Java chooses its flushing threads then (`CommitLog`'s constructor).
fn is_fixed(cluster: &Cluster, key: &str) -> bool {
    key == FLUSH && cluster.target.kind == TargetKind::Rocketmq
}

#[cfg(test)]
mod tests;
