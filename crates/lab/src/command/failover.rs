//! Flags of `vostok lab failover`.

use super::common::ScenarioFlags;
use super::values::mix;
use crate::Error;
use crate::generator::{Consume, Send, Sizes};
use crate::scenario::{self, Failover, Fault, LocalOptions, RunOptions};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Seconds of the warm-up and of the load before a fault, unless flags say otherwise.
const SECONDS: (u32, u32) = (3, 5);

/// Messages per second, unless a flag says otherwise.
const RATE: f64 = 1_000.0;

/// Milliseconds after which a send is given up, unless a flag says otherwise: less than an election takes.
const SEND_TIMEOUT_MS: u64 = 1_000;

/// Flags of `vostok lab failover`.
#[derive(Args, Debug, Clone)]
pub struct FailoverFlags {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: ScenarioFlags,
    /// Fault of the master. In a cluster of --local: kill its process and start it again, pause it, cut it off from all
    /// others, or ask the controller for another master. A partition needs root and the program ip.
    #[arg(long, value_name = "FAULT", value_parser = ["leader-kill", "leader-pause", "partition", "switch"],
        conflicts_with = "inject")]
    pub fault: Option<String>,
    /// A command for sh that makes the fault in any cluster. MASTER holds the master's address, BROKER_NAME its broker set.
    #[arg(long, value_name = "CMD", requires = "heal")]
    pub inject: Option<String>,
    /// A command for sh that ends the fault of --inject.
    #[arg(long, value_name = "CMD", requires = "inject")]
    pub heal: Option<String>,
    /// Starts a cluster of this program on this machine for the run, with its data in the run's directory. 1m2s is a
    /// broker set of three that elects its master; 2m2s is two masters with a slave each.
    #[arg(long, value_name = "KIND", value_parser = ["1m2s", "2m2s"], conflicts_with_all = ["namesrv", "cluster"])]
    pub local: Option<String>,
    /// File with the settings of all brokers of --local.
    #[arg(long, value_name = "FILE", requires = "local")]
    pub local_config: Option<PathBuf>,
    /// Number of faults.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seconds from a fault to its end.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub down: u32,
    /// Producing clients, each with its own connection to every broker.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: u32,
    /// Requests that may be in flight.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub threads: u32,
    /// Milliseconds after which a send without an answer is given up. It is not sent again, and it is unknown whether its message
    /// is stored. Clients look for the master from then on, so a gap is never shorter than this unless brokers refuse sends or end
    /// connections.
    #[arg(long, value_name = "MS", default_value_t = SEND_TIMEOUT_MS, value_parser = clap::value_parser!(u64).range(50..=3000))]
    pub send_timeout: u64,
    /// Body size.
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = mix)]
    pub size: Sizes,
    /// Queues per topic.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub queues: u32,
}

impl FailoverFlags {
    /// Runs the faults.
    pub fn run(&self) -> Result<(), Error> {
        self.check()?;
        let failover = self.failover();
        failover.fault.check()?;
        scenario::failover(&self.options(), &failover)
    }

    /// Refuses flags that do not go together.
    fn check(&self) -> Result<(), Error> {
        let refused = |flag, why: &str| Err(Error::Flag { flag, why: why.to_owned() });
        let common = &self.common;
        if self.local.is_none() && self.inject.is_none() {
            let why = "faults are made in a cluster of --local; in another one by --inject and --heal";
            return refused("--fault", why);
        }
        if self.fault.as_deref() == Some("switch") && self.local.as_deref() == Some("2m2s") {
            return refused("--fault", "no controller can switch the masters of 2m2s; use --local 1m2s");
        }
        if common.repeats.is_some() {
            return refused("--repeats", "every round is a repeat; --rounds says how many");
        }
        if common.producers > 1 || common.connections > 1 {
            return refused("--producers", "--clients says how many connections there are");
        }
        if !common.load_agents.is_empty() {
            return refused("--load-agents", "messages are checked where they were sent");
        }
        if common.consume != Consume::Pull || common.send != Send::Sync || common.topics > 1 {
            let why =
                "a failover is measured with sends that wait for their answers, and pulled, in one topic";
            return refused("--send, --consume, --topics", why);
        }
        Ok(())
    }

    /// The options of the run.
    pub fn options(&self) -> RunOptions {
        let mut options = RunOptions { repeats: self.rounds, ..self.common.options(SECONDS) };
        options.load.rate = options.load.rate.or(Some(RATE));
        options.load.groups = options.load.groups.max(1);
        options.load.producers = self.clients;
        options.load.send_timeout_ms = self.send_timeout;
        options
    }

    /// The fault that the flags describe.
    pub fn failover(&self) -> Failover {
        let fault = match (&self.inject, &self.heal, self.fault.as_deref()) {
            (Some(inject), Some(heal), _) => Fault::Commands { inject: inject.clone(), heal: heal.clone() },
            (_, _, Some("leader-pause")) => Fault::LeaderPause,
            (_, _, Some("partition")) => Fault::Partition,
            (_, _, Some("switch")) => Fault::Switch,
            _ => Fault::LeaderKill,
        };
        let local = self.local.clone();
        let local = local.map(|kind| LocalOptions {
            kind,
            config: self.local_config.clone(),
            settings: BTreeMap::new(),
            links: fault == Fault::Partition,
        });
        Failover {
            fault,
            local,
            down: self.down,
            threads: self.threads.max(self.clients),
            size: self.size.clone(),
            queues: self.queues,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: FailoverFlags,
    }

    fn flags(line: &str) -> Result<FailoverFlags, clap::Error> {
        Ok(Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.flags)
    }

    #[test]
    fn a_fault_needs_a_cluster_whose_processes_can_be_reached_or_commands() {
        let check = |line: &str, fault: Option<Fault>| {
            let found =
                flags(line).ok().filter(|flags| flags.check().is_ok()).map(|flags| flags.failover().fault);
            assert_eq!(found, fault, "{line}");
        };
        let commands = Fault::Commands { inject: "stop".to_owned(), heal: "start".to_owned() };
        check("--local 1m2s", Some(Fault::LeaderKill));
        check("--local 2m2s --fault leader-pause", Some(Fault::LeaderPause));
        check("--local 1m2s --fault switch", Some(Fault::Switch));
        check("--local 1m2s --fault partition", Some(Fault::Partition));
        check("--local 2m2s --fault partition", Some(Fault::Partition));
        check("-n h:1 --fault partition", None);
        check("--local 2m2s --fault switch", None);
        check("-n h:1 --inject stop --heal start", Some(commands));
        check("-n h:1 --inject stop", None);
        check("-n h:1 --fault leader-kill", None);
        check("-n h:1 --local 1m2s", None);
        check("--local 1m2s --fault leader-kill --inject stop --heal start", None);
        check("--local 4m4s", None);
        for more in
            ["--repeats 3", "--consume push --groups 1", "--producers 4", "--load-agents h:1", "--send async"]
        {
            check(&format!("--local 1m2s {more}"), None);
        }
    }

    #[test]
    fn brokers_have_links_only_where_one_is_cut() {
        let links = |line: &str| flags(line).ok()?.failover().local.map(|local| local.links);
        assert_eq!(links("--local 2m2s --fault partition"), Some(true));
        assert_eq!(links("--local 1m2s --fault leader-pause"), Some(false));
        assert_eq!(links("--local 1m2s --inject stop --heal start"), Some(false));
        assert_eq!(links("-n h:1 --inject stop --heal start"), None);
    }

    #[test]
    fn every_round_is_a_repeat_of_an_open_loop_that_is_read() {
        let options = flags("--local 1m2s --rounds 7 --clients 3").expect("good flags").options();
        assert_eq!((options.repeats, options.load.producers, options.load.groups), (7, 3, 1));
        assert_eq!(options.load.rate, Some(RATE));
        assert_eq!((options.warmup, options.duration), SECONDS);
    }

    #[test]
    fn a_send_is_given_up_before_a_master_can_be_elected_unless_told_otherwise() {
        let timeout = |line: &str| {
            flags(line).ok().map(|flags| flags.options().load.send_timeout_ms).unwrap_or_default()
        };
        assert_eq!(timeout("--local 1m2s"), SEND_TIMEOUT_MS);
        assert_eq!(timeout("--local 1m2s --send-timeout 3000"), 3_000);
        assert_eq!(timeout("--local 1m2s --send-timeout 20"), 0, "every slow answer would count");
        assert_eq!(timeout("--local 1m2s --send-timeout 5000"), 0);
    }
}
