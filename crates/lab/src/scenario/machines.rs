//! The machines of a run: this machine, and the machines that agents describe.

use super::cluster::{Cluster, Machine, asked_of};
use super::design::RunOptions;
use crate::Error;
use crate::agent::{Asked, Link};
use crate::archive::{HostFile, Target, plain};
use crate::output::say;

/// A machine that an agent observes.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// Address of the agent.
    pub address: String,
    /// The request that tells the agent what to observe.
    pub asked: Asked,
    /// Name of the machine and of its series.
    pub name: String,
}

/// The descriptions of this machine and of the agents' machines, the machines to observe, and the largest clock
/// difference between the machines that send and consume, in microseconds.
pub(super) async fn hosts(
    cluster: &mut Cluster,
    options: &RunOptions,
) -> Result<(Vec<HostFile>, Vec<Watched>, u64), Error> {
    let (mut hosts, mut watched, mut skew_us) = (vec![cluster.host.clone()], Vec::new(), 0);
    let mut strangers = Vec::new();
    for address in &options.load_agents {
        skew_us = skew_us.max(Link::connect(address, &Asked::default()).await?.skew_us);
    }
    for address in &options.agents {
        let (brokers, asked) = asked_of(&cluster.target, address).await;
        let asked = if brokers.is_empty() { asked.without_disk() } else { asked };
        let link = Link::connect(address, &asked).await?;
        let found = plain(&link.hello.host.name);
        let is_watched_here = found == hosts[0].name && Machine::of(address).await.is_here();
        let name = if is_watched_here { found } else { own_name(&hosts, &found, address) };
        for broker in &brokers {
            cluster.target.brokers[*broker].host = Some(name.clone());
        }
        if !brokers.is_empty() && !link.hello.has_process {
            say!(
                "the agent on {name} does not see the broker's process: start it as the broker's user, or with --pid"
            );
        }
        if brokers.is_empty() && !is_watched_here {
            strangers.push(name.clone());
        }
        if !is_watched_here {
            hosts.push(HostFile { name: name.clone(), ..link.hello.host });
            watched.push(Watched { address: address.clone(), asked, name });
        }
    }
    strangers.iter().for_each(|name| say!("{}", stranger(&cluster.target, name)));
    Ok((hosts, watched, skew_us))
}

/// The warning for an agent whose address is no broker's address, for example because of address translation. If no
/// broker machine is known, reports take the agent's machine for one (`broker_host_names`).
fn stranger(target: &Target, name: &str) -> String {
    let shown = if target.brokers.iter().any(|broker| broker.host.is_some()) {
        "its processors, memory and network are kept, and no guard looks at them; its disk is not looked at"
    } else {
        "its processors, memory and network are taken for a broker's, its disk is not judged"
    };
    format!("the agent on {name} matches no broker of the cluster: {shown}")
}

/// A name that no other machine of the run has; many machines are called `localhost`.
fn own_name(hosts: &[HostFile], found: &str, address: &str) -> String {
    if hosts.iter().any(|host| host.name == found) {
        plain(&format!("{found}-{address}"))
    } else {
        found.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::figures::broker_host_names;
    use crate::judge::testing;
    use crate::measure::{self, device_of, store_of};

    #[test]
    fn an_agent_that_matches_no_broker_lends_no_disk() {
        let asked = Asked { loopback: true, ..Asked::default() };
        let own = store_of(asked.store.clone(), None);
        assert!(own.is_absolute(), "the directory of the agent itself");
        let asked = asked.without_disk();
        let store = store_of(asked.store, None);
        let host = measure::host("far", &store, None);
        assert_eq!((host.disk.as_str(), host.filesystem.as_str(), device_of(&store).as_str()), ("", "", ""));
        assert!(asked.loopback && host.cores > 0 && host.memory_bytes > 0, "the rest is looked at");
    }

    #[test]
    fn what_is_said_of_an_agent_that_matches_no_broker_is_what_is_done_with_it() {
        let mut file = testing::file();
        let far = HostFile { name: "far".to_owned(), ..HostFile::default() };
        file.hosts.push(far);
        assert_eq!(broker_host_names(&file), ["b1"]);
        assert!(stranger(&file.target, "far").contains("no guard looks at them"));
        // With translated addresses it is unknown which machine the broker runs on.
        file.target.brokers[0].host = None;
        file.hosts.remove(1);
        assert_eq!(broker_host_names(&file), ["far"]);
        let said = stranger(&file.target, "far");
        assert!(said.starts_with("the agent on far matches no broker of the cluster"), "{said}");
        assert!(said.contains("taken for a broker's, its disk is not judged"), "{said}");
    }
}
