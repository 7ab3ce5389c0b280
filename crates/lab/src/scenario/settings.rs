//! Changes settings of the brokers while they run, and restores them at the end of a run.

use super::cluster::Cluster;
use crate::Error;
use crate::archive::{BrokerFile, FLUSH, Factors, TargetKind};
use crate::output::say;
use std::collections::BTreeSet;

/// Remark of Vostok on a setting that it accepts but does not use.
const WITHOUT_EFFECT: &str = "has no effect";

/// Brings the masters into the state that a cell of a run needs: swept settings and flush mode. The replication mode is
/// only checked.
pub(super) async fn prepare(cluster: &Cluster, cells: &[Factors], cell: &Factors) -> Result<(), Error> {
    for (key, value) in cell.settings() {
        set(cluster, key, Some(value)).await?;
    }
    if cells.iter().any(|cell| !cell.flush.is_empty()) {
        set(cluster, FLUSH, disk_type(&cell.flush)?).await?;
    }
    // A run that an earlier version of the lab began may hold cells of other replication modes.
    possible(std::slice::from_ref(&cell.replication), replication(cluster)).map(drop)
}

/// The value of `flushDiskType` for a mode; `None` for the mode that the brokers had when the run began.
///
/// # Errors
/// [`Error::Flag`] when there is no such mode.
pub(crate) fn disk_type(word: &str) -> Result<Option<&'static str>, Error> {
    match word {
        "" => Ok(None),
        "sync" => Ok(Some("SYNC_FLUSH")),
        "async" => Ok(Some("ASYNC_FLUSH")),
        other => {
            let why = format!("expected async or sync, found {other}");
            Err(Error::Flag { flag: "--flush", why })
        }
    }
}

/// Replication mode of the cluster.
pub(super) fn replication(cluster: &Cluster) -> &'static str {
    cluster.target.replication().unwrap_or("none")
}

/// The requested mode that can be run, which is the cluster's own. Prints the modes that need further runs.
pub(super) fn possible(asked: &[String], found: &str) -> Result<String, Error> {
    let Some(one) = asked.iter().find(|word| word.is_empty() || *word == found) else {
        return Err(Error::Broken(format!(
            "replication {} was asked for, the cluster has {found}; start its brokers that way",
            asked.join(", ")
        )));
    };
    let others: Vec<&str> = asked.iter().filter(|word| *word != one).map(String::as_str).collect();
    if !others.is_empty() {
        say!(
            "replication {} is left out: the cluster has {found}; start its brokers that way for a run of its own, then \
             vostok lab compare",
            others.join(", ")
        );
    }
    Ok(one.clone())
}

/// Tries every value of the swept settings at the start, so that none is refused after hours. Settings that a broker
/// reads only at its start are not tried: the run is resumed after the broker was restarted with them.
pub(super) async fn try_all(cluster: &Cluster, cells: impl Iterator<Item = &Factors>) -> Result<(), Error> {
    let swept: BTreeSet<(&str, &str)> = cells.flat_map(Factors::settings).collect();
    for (key, value) in swept.into_iter().filter(|(key, _)| !is_fixed(cluster, key)) {
        set(cluster, key, Some(value)).await?;
    }
    Ok(())
}

/// Sets a setting of every master to a value, or returns why that is impossible. Without a value, restores the one that
/// the master had when the run began.
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
        // The earlier value is unknown, so it was never changed.
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
    // A setting without effect would give cells that differ by chance only.
    if wanted.is_some() && remark.contains(WITHOUT_EFFECT) {
        return Err(Error::Broken(format!("{name} takes {key}={value} and does not use it: {remark}")));
    }
    // The broker must report the new value. Otherwise a cell would be measured with another value than it names.
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

/// Whether cells change a setting. A run that was killed may have left it changed.
pub(super) fn changes(cells: &[Factors], key: &str) -> bool {
    let mut swept = cells.iter().flat_map(Factors::settings);
    swept.any(|(name, _)| name == key) || (key == FLUSH && cells.iter().any(|cell| !cell.flush.is_empty()))
}

/// Restores the settings that cells changed. The other settings are restored even if one cannot be restored.
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

/// Whether a broker reads a setting only at its start. RocketMQ chooses its flush threads and its put-message lock then
/// (constructor of `CommitLog`), and creates its thread pools (`BrokerController.initializeResources`).
fn is_fixed(cluster: &Cluster, key: &str) -> bool {
    let at_start =
        [FLUSH, "useReentrantLockWhenPutMessage"].contains(&key) || key.ends_with("ThreadPoolNums");
    at_start && cluster.target.kind == TargetKind::Rocketmq
}

#[cfg(test)]
mod tests {
    use super::possible;

    #[test]
    fn of_several_replications_that_of_the_cluster_is_run() {
        let asked = ["async", "sync", "quorum"].map(str::to_owned);
        assert_eq!(possible(&asked, "sync").unwrap(), "sync");
        assert_eq!(possible(&[String::new()], "none").unwrap(), "");
        let said = possible(&asked, "none").unwrap_err().to_string();
        assert!(
            said.starts_with("replication async, sync, quorum was asked for, the cluster has none"),
            "{said}"
        );
    }
}
