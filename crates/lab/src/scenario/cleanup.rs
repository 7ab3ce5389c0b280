//! Removes the topics and groups that a run created, when it ends. Brokers keep the messages of a group as long as the
//! group exists, even without members.

use crate::Error;
use crate::archive::{Archive, BrokerFile, Made, RunFile};
use crate::output::{said, say};
use crate::runtime;
use client::{Client, Config, Credentials};
use std::path::Path;

/// Most names of each kind that are printed.
const TOLD_MAX: usize = 3;

/// Topics that brokers create for a group (`MixAll.getRetryTopic`, `MixAll.getDLQTopic`).
const BESIDE_GROUP: [&str; 2] = [wire::names::RETRY_PREFIX, wire::names::DLQ_PREFIX];

/// Removes the topics and groups that the run in a directory left on its cluster (`vostok lab clean`). Without name
/// servers, those of the run are asked.
///
/// # Errors
/// [`Error::File`] when the directory holds no run, [`Error::Broken`] when something could not be removed.
pub fn run(root: &Path, namesrv: Option<String>, credentials: Option<Credentials>) -> Result<(), Error> {
    runtime::block_on(async {
        let archive = Archive::open(root)?;
        let mut run = archive.run()?;
        let namesrv = namesrv.unwrap_or_else(|| run.target.namesrv.clone());
        let client = Client::start(Config { credentials, ..Config::new(&namesrv) })?;
        run.target.namesrv = namesrv;
        let before = run.made.clone();
        let removed = remove(&client, &mut run).await;
        let made = std::mem::take(&mut run.made);
        archive.save(&RunFile { made, ..archive.run()? })?;
        client.shutdown();
        removed.map_err(|why| Error::Broken(why.to_string()))?;
        say!("removed: {}", names(&before));
        Ok(())
    })
}

/// Removes the topics and groups that a run created. Removed names are deleted from the run's file, also when other
/// names cannot be removed.
pub(super) async fn remove(client: &Client, run: &mut RunFile) -> Result<(), client::Error> {
    // A failover may have made other brokers masters than those that the run began with.
    let now = client.cluster_info().await.map(|info| info.broker_addr_table).unwrap_or_default();
    let masters = run.target.brokers.iter().filter(|broker| broker.id == 0);
    let address = |broker: &BrokerFile| {
        let master = now.get(&broker.name).and_then(|set| set.broker_addrs.get(&0));
        master.unwrap_or(&broker.address).clone()
    };
    let cluster = Servers {
        client,
        masters: masters.map(address).collect(),
        name_servers: run.target.namesrv.split([';', ',']).map(|server| server.trim().to_owned()).collect(),
    };
    for group in run.made.groups.clone() {
        cluster.remove_group(&group).await?;
        run.made.groups.remove(&group);
    }
    for topic in run.made.topics.clone() {
        cluster.remove_topic(&topic).await?;
        run.made.topics.remove(&topic);
    }
    Ok(())
}

/// The servers that know topics: brokers and name servers.
struct Servers<'a> {
    client: &'a Client,
    masters: Vec<String>,
    name_servers: Vec<String>,
}

impl Servers<'_> {
    async fn remove_group(&self, group: &str) -> Result<(), client::Error> {
        for master in &self.masters {
            self.client.delete_group(master, group).await?;
        }
        for prefix in BESIDE_GROUP {
            self.remove_topic(&format!("{prefix}{group}")).await?;
        }
        Ok(())
    }

    async fn remove_topic(&self, topic: &str) -> Result<(), client::Error> {
        for master in &self.masters {
            self.client.delete_topic(master, topic).await?;
        }
        for name_server in self.name_servers.iter().filter(|server| !server.is_empty()) {
            self.client.delete_route(name_server, topic).await?;
        }
        Ok(())
    }
}

/// The error for topics and groups that could not be removed.
pub(super) fn left_behind(made: &Made, root: &Path, why: &client::Error) -> Error {
    let (names, root) = (names(made), root.display());
    Error::Broken(format!("left on the cluster: {names} ({why}); vostok lab clean {root} removes them"))
}

fn names(made: &Made) -> String {
    let kinds = [("consumer groups", &made.groups), ("topics", &made.topics)];
    let left = kinds.into_iter().filter(|(_, names)| !names.is_empty()).map(|(kind, names)| {
        let first: Vec<&str> = names.iter().take(TOLD_MAX).map(String::as_str).collect();
        let more = names.len().saturating_sub(TOLD_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        said(&format!("{kind} {}{more}", first.join(", ")))
    });
    let left: Vec<String> = left.collect();
    if left.is_empty() { "nothing".to_owned() } else { left.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_with_the_command_that_removes_it() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let made = Made { topics: set(&["t"]), groups: set(&["a", "b", "c", "d", "e"]) };
        let said = left_behind(&made, Path::new("/runs/7"), &client::Error::NoNameServer).to_string();
        assert!(
            said.starts_with("left on the cluster: consumer groups a, b, c and 2 more; topics t ("),
            "{said}"
        );
        assert!(said.ends_with("); vostok lab clean /runs/7 removes them"), "{said}");
        assert_eq!(names(&Made::default()), "nothing");
    }
}
