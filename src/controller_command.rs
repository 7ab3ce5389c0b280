//! `vostok controller`: commands for controllers that `mqadmin` does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use client::Client;
use serde::Deserialize;
use wire::body::{BrokerReplicasInfo, ClusterInfo, ReplicaIdentity, ReplicasInfo};
use wire::codes::request;
use wire::json;
use wire::settings::{CONTROLLER_PORT, with_port};

use crate::auth_command::Access;
use crate::call::{self, call, parse};
use crate::roles::Error;
use crate::words;

/// Factor from the master epoch to the epoch of a rebuilt in-sync set. The set epoch must exceed that of a Java master,
/// which does not tell it; a set rarely changes this often within one master epoch.
const SET_CHANGES_MAX: i32 = 1 << 16;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Subcommands of `vostok controller`.
#[derive(Subcommand)]
pub enum ControllerCommand {
    /// Take over what other controllers know of broker sets (ids, addresses, epochs), as those of RocketMQ, whose files Vostok
    /// does not read. Afterwards restart the brokers with the new controllerAddr.
    Import(Import),
    /// Restore a broker set at controllers that lost their disks, from the state of its brokers. The broker with the newest log
    /// becomes master, and the only member of the in-sync set until the other brokers have its log.
    Rebuild(Rebuild),
}

/// Arguments of `vostok controller rebuild`.
#[derive(Args)]
pub struct Rebuild {
    /// A controller of the group that is to know the set.
    #[arg(long, value_name = "HOST:PORT", value_parser = controller)]
    to: String,
    /// All brokers of the set, running or just started: a missing broker may have messages that no other broker has. A Java master
    /// does not report its id: write ID@HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true, value_parser = call::broker)]
    brokers: Vec<String>,
    /// Ids of brokers that are permanently lost. Messages that no other broker has are lost.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    gone: Vec<i64>,
    #[command(flatten)]
    access: Access,
}

/// Arguments of `vostok controller import`.
#[derive(Args)]
pub struct Import {
    /// A controller of the other group.
    #[arg(long, value_name = "HOST:PORT", value_parser = controller)]
    from: String,
    /// A controller of the group that takes over.
    #[arg(long, value_name = "HOST:PORT", value_parser = controller)]
    to: String,
    /// A name server, which says which clusters and broker sets there are.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT", value_parser = wire::settings::name_servers)]
    name_server: String,
    #[command(flatten)]
    access: Access,
}

/// Parses the address of a controller.
fn controller(text: &str) -> Result<String, Infallible> {
    Ok(with_port(text, CONTROLLER_PORT))
}

/// Runs a command.
pub fn run(command: &ControllerCommand) -> Result<(), Error> {
    match command {
        ControllerCommand::Import(import) => {
            import.access.with_client(&import.from, async |client| import.run(client).await)
        }
        ControllerCommand::Rebuild(rebuild) => {
            rebuild.access.with_client(&rebuild.to, async |client| rebuild.run(client).await)
        }
    }
}

fn print(text: &str) {
    // The output may have no reader.
    let _ = writeln!(io::stdout(), "{}", words::said(text));
}

/// The answer to `GET_BROKER_EPOCH_CACHE` (`EpochEntryCache`), with the fields that brokers of Vostok add.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BrokerLog {
    cluster_name: String,
    broker_name: String,
    broker_id: i64,
    controller_id: i64,
    sync_state_set_epoch: i32,
    epoch_list: Vec<LogEpoch>,
    max_offset: i64,
    #[serde(skip)]
    address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LogEpoch {
    epoch: i32,
}

impl BrokerLog {
    /// Order of logs: by last epoch, then by length. The greatest log has all acknowledged messages.
    fn newness(&self) -> (i32, i64) {
        (self.epoch_list.last().map_or(0, |last| last.epoch), self.max_offset)
    }

    /// Whether the broker is registered with the id of a master (`MixAll.MASTER_ID`).
    fn is_master(&self) -> bool {
        self.broker_id == 0
    }

    fn identity(&self) -> ReplicaIdentity {
        ReplicaIdentity {
            broker_id: self.controller_id,
            broker_address: self.address.clone(),
            broker_name: self.broker_name.clone(),
            ..ReplicaIdentity::default()
        }
    }
}

/// Chooses the master of a set whose brokers have these logs.
fn rebuilt(logs: &[BrokerLog], gone: &[i64]) -> Result<ReplicasInfo, String> {
    let first = logs.first().ok_or("expected brokers")?;
    let set_of = |log: &BrokerLog| format!("{} of {}", log.broker_name, log.cluster_name);
    if let Some(other) = logs.iter().find(|log| set_of(log) != set_of(first)) {
        return Err(format!("expected brokers of one set, found {} and {}", set_of(first), set_of(other)));
    }
    if let Some(unknown) = logs.iter().find(|log| log.controller_id <= 0) {
        return Err(format!("{} does not tell its id: write ID@{}", unknown.address, unknown.address));
    }
    let ids: BTreeSet<i64> = logs.iter().map(|log| log.controller_id).collect();
    if ids.len() < logs.len() {
        return Err("two brokers have the same id".to_owned());
    }
    let last = ids.last().copied().unwrap_or(0);
    if let Some(missing) = (1..=last).find(|id| !ids.contains(id) && !gone.contains(id)) {
        return Err(format!(
            "broker {missing} of the set is missing, and may have messages that no other broker has: start it and name it, or give its \
             messages up with --gone {missing}"
        ));
    }
    // Of equal logs that of the broker that is master: it goes on. Brokers of Vostok also tell the set that they know.
    let rank = |log: &&BrokerLog| (log.newness(), log.sync_state_set_epoch, log.is_master());
    let winner = logs.iter().max_by_key(rank).unwrap_or(first);
    let set_epoch = logs.iter().map(|log| log.sync_state_set_epoch).max().unwrap_or(0);
    let master_epoch = winner.newness().0 + 1;
    let others = logs.iter().filter(|log| log.controller_id != winner.controller_id);
    Ok(ReplicasInfo {
        in_sync_replicas: vec![winner.identity()],
        master_address: Some(winner.address.clone()),
        master_broker_id: Some(winner.controller_id),
        // A larger epoch, so that each broker accepts the new roles.
        master_epoch,
        not_in_sync_replicas: others.map(BrokerLog::identity).collect(),
        // A Java master ignores a set whose epoch is not larger than its own, which it does not tell
        // (`ReplicasManager.changeSyncStateSet`).
        sync_state_set_epoch: set_epoch
            .max(master_epoch.saturating_mul(SET_CHANGES_MAX).min(i32::MAX - SET_CHANGES_MAX))
            .saturating_add(1),
    })
}

async fn read_log(client: &Client, address: &str) -> Result<BrokerLog, Error> {
    let reply = call(client, address, PATIENCE, request::GET_BROKER_EPOCH_CACHE, (&[], &[])).await?;
    let log: BrokerLog = parse(address, &reply.body)?;
    Ok(BrokerLog { address: address.to_owned(), ..log })
}

impl Rebuild {
    async fn run(&self, client: &Client) -> Result<(), Error> {
        let to = leader(client, &self.to).await?;
        let mut logs = Vec::new();
        for broker in &self.brokers {
            let (id, address) = match broker.split_once('@') {
                Some((id, address)) => (id.parse().ok(), address),
                None => (None, broker.as_str()),
            };
            let mut log = read_log(client, address).await?;
            // A slave of RocketMQ registers with the id that the controllers gave it, and a master with 0.
            let told = [log.controller_id, log.broker_id].into_iter().find(|id| *id > 0);
            log.controller_id = id.or(told).unwrap_or(0);
            logs.push(log);
        }
        // A running master takes messages meanwhile, so its log is read after the logs of its slaves.
        for master in logs.iter_mut().filter(|log| log.is_master()) {
            master.max_offset = read_log(client, &master.address).await?.max_offset;
        }
        let info = rebuilt(&logs, &self.gone).map_err(|why| Error::new("the set cannot be rebuilt", why))?;
        let (name, cluster) = (logs[0].broker_name.clone(), logs[0].cluster_name.clone());
        let (master, epoch) = (info.master_address.clone().unwrap_or_default(), info.master_epoch);
        let fields = [("clusterName", cluster.as_str()), ("brokerName", name.as_str())];
        let one = BrokerReplicasInfo { replicas_info_table: BTreeMap::from([(name.clone(), info)]) };
        let one = json::to_vec(&one);
        call(client, &to, PATIENCE, request::VOSTOK_CONTROLLER_IMPORT, (&fields, &one)).await?;
        print(&format!(
            "{cluster} {name}: {master} is master with epoch {epoch}; {} brokers join its in-sync set when they have its log",
            logs.len() - 1
        ));
        Ok(())
    }
}

impl Import {
    async fn run(&self, client: &Client) -> Result<(), Error> {
        let (from, to) = (leader(client, &self.from).await?, leader(client, &self.to).await?);
        let clusters =
            call(client, &self.name_server, PATIENCE, request::GET_BROKER_CLUSTER_INFO, (&[], &[])).await?;
        let clusters: ClusterInfo = parse(&self.name_server, &clusters.body)?;
        let mut count = 0;
        for (cluster, names) in &clusters.cluster_addr_table {
            let names = json::to_vec(names);
            let code = request::CONTROLLER_GET_SYNC_STATE_DATA;
            let replicas = call(client, &from, PATIENCE, code, (&[], &names)).await?;
            let replicas: BrokerReplicasInfo = parse(&from, &replicas.body)?;
            for (name, info) in replicas.replicas_info_table {
                let fields = [("clusterName", cluster.as_str()), ("brokerName", name.as_str())];
                let (epoch, members) = (info.master_epoch, info.in_sync_replicas.len());
                let one = BrokerReplicasInfo { replicas_info_table: BTreeMap::from([(name.clone(), info)]) };
                let one = json::to_vec(&one);
                call(client, &to, PATIENCE, request::VOSTOK_CONTROLLER_IMPORT, (&fields, &one)).await?;
                print(&format!("{cluster} {name}: master epoch {epoch}, {members} in sync"));
                count += 1;
            }
        }
        print(&format!("{count} broker sets were taken over by {to}"));
        Ok(())
    }
}

/// Asks a controller for the address of the leading controller of its group.
async fn leader(client: &Client, address: &str) -> Result<String, Error> {
    let code = request::CONTROLLER_GET_METADATA_INFO;
    let answer = call(client, address, PATIENCE, code, (&[], &[])).await?;
    let leader = answer.text("controllerLeaderAddress").filter(|leader| !leader.is_empty());
    let leader = leader.map(str::to_owned);
    leader.ok_or_else(|| Error::new(format!("the controller {address}"), "no controller of its group leads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(id: i64, epochs: &[i32], max_offset: i64) -> BrokerLog {
        BrokerLog {
            broker_name: "a".to_owned(),
            controller_id: id,
            epoch_list: epochs.iter().map(|epoch| LogEpoch { epoch: *epoch }).collect(),
            max_offset,
            address: format!("h{id}:1"),
            ..BrokerLog::default()
        }
    }

    #[test]
    fn the_newest_log_becomes_master_with_a_larger_epoch_and_alone_in_the_set() {
        let master = log(1, &[1, 4], 100);
        for others in [vec![log(2, &[1, 3], 900), log(3, &[1, 4], 99)], vec![log(2, &[], 0), log(3, &[4], 0)]]
        {
            let logs = [others.clone(), vec![master.clone()]].concat();
            let info = rebuilt(&logs, &[]).unwrap();
            assert_eq!((info.master_broker_id, info.master_epoch), (Some(1), 5));
            assert!(info.sync_state_set_epoch > 5 * 65_536, "larger than that of a Java master");
            let ids = |list: &[ReplicaIdentity]| list.iter().map(|it| it.broker_id).collect::<Vec<_>>();
            assert_eq!((ids(&info.in_sync_replicas), ids(&info.not_in_sync_replicas)), (vec![1], vec![2, 3]));
        }
    }

    #[test]
    fn a_set_can_change_after_a_rebuild_whatever_its_epochs_are() {
        for epoch in [32_766, 32_767, 40_000, i32::MAX - 1] {
            let info = rebuilt(&[log(1, &[epoch], 100)], &[]).unwrap();
            let (master, set) = (info.master_epoch, info.sync_state_set_epoch);
            assert_eq!(master, epoch + 1);
            assert!(set > 1 << 30 && set <= i32::MAX - SET_CHANGES_MAX + 1, "{epoch}: {set}");
        }
    }

    #[test]
    fn the_master_stays_master_where_a_slave_has_everything() {
        let slave = |id| BrokerLog { broker_id: id, ..log(id, &[4], 100) };
        for logs in [vec![log(1, &[4], 100), slave(2)], vec![slave(1), log(2, &[4], 100)]] {
            let master = logs.iter().find(|log| log.is_master()).map(|log| log.controller_id);
            assert_eq!(rebuilt(&logs, &[]).unwrap().master_broker_id, master);
        }
    }

    #[test]
    fn a_broker_that_may_have_more_is_not_left_out_silently() {
        let check = |logs: &[BrokerLog], gone: &[i64], expected: &str| match rebuilt(logs, gone) {
            Ok(info) => assert_eq!(format!("{:?}", info.master_broker_id), expected),
            Err(why) => assert!(why.contains(expected) && !expected.is_empty(), "{why}"),
        };
        check(&[log(2, &[3], 10), log(3, &[3], 20)], &[], "broker 1 of the set is missing");
        check(&[log(2, &[3], 10), log(3, &[3], 20)], &[1], "Some(3)");
        check(&[log(1, &[3], 10), log(0, &[3], 20)], &[], "write ID@h0:1");
        check(&[log(1, &[3], 10), log(1, &[3], 20)], &[], "the same id");
        let other = BrokerLog { broker_name: "b".to_owned(), ..log(2, &[3], 10) };
        check(&[log(1, &[3], 10), other], &[], "brokers of one set");
    }
}
